//! Metrics that the handler makes, beside the server's own in `/metrics`.
//!
//! In a component every change is a call to the host. Natively, in a unit test, the numbers are in the memory
//! of the test's thread, and `value` reads them.
//!
//! ```no_run
//! use std::time::Instant;
//!
//! use modelhost_guest::Result;
//! use modelhost_guest::metrics::{Counter, Gauge, Histogram};
//!
//! static FLOWERS: Counter<1> = Counter::new("flowers_total", "Flowers by species", ["species"]);
//! static TABLE_AGE: Gauge = Gauge::new("table_age_seconds", "Age of the table of prices", []);
//! static LOOKUP: Histogram =
//!     Histogram::new("lookup_seconds", "Time of a look-up", []).buckets(&[0.001, 0.01, 0.1]);
//!
//! fn counted(species: &str, started: Instant) -> Result<()> {
//!     FLOWERS.with([species]).increment(1.0)?;
//!     TABLE_AGE.set(12.5)?;
//!     LOOKUP.observe(started.elapsed().as_secs_f64())?;
//!     Ok(())
//! }
//! ```
//!
//! The number of labels is part of the type: `Counter<2>` has two, `Counter` has none.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Error, internal};

#[cfg(target_family = "wasm")]
use crate::bindings::metrics::modelhost::handler::metrics as host;
#[cfg(not(target_family = "wasm"))]
use native as host;

pub use crate::bindings::metrics::modelhost::handler::metrics::Kind;
#[cfg(not(target_family = "wasm"))]
pub use native::value;

/// A name, a label or a number that cannot be used: the handler's mistake, which nothing was changed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricError(String);

impl fmt::Display for MetricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MetricError {}

/// The handler's failure.
impl From<MetricError> for Error {
    fn from(error: MetricError) -> Error {
        internal(error.to_string())
    }
}

type Result = std::result::Result<(), MetricError>;

/// Grows as `init` ends: a later start of the host begins with the memory that it left, so each instance
/// describes its metrics.
static AGE: AtomicU32 = AtomicU32::new(1);

/// The end of `init`, which only a component has.
#[cfg(any(target_family = "wasm", test))]
pub(crate) fn init_has_run() {
    AGE.fetch_add(1, Ordering::Relaxed);
}

/// The kinds of metrics.
pub mod kind {
    /// Only grows.
    #[derive(Debug)]
    pub enum Counter {}
    /// Goes up and down.
    #[derive(Debug)]
    pub enum Gauge {}
    /// Counts numbers into buckets.
    #[derive(Debug)]
    pub enum Histogram {}
}

/// A number that only grows, by `N` labels: flowers by species.
pub type Counter<const N: usize = 0> = Metric<kind::Counter, N>;
/// A number that goes up and down, by `N` labels: the age of a table.
pub type Gauge<const N: usize = 0> = Metric<kind::Gauge, N>;
/// The distribution of numbers over buckets, by `N` labels: the words of a text.
pub type Histogram<const N: usize = 0> = Metric<kind::Histogram, N>;

/// A metric, which is a `static`: the host gets its help text at its first use.
#[derive(Debug)]
pub struct Metric<K, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    kind: Kind,
    bounds: &'static [f64],
    /// The age in which the host got the help text.
    described: AtomicU32,
    of: PhantomData<K>,
}

impl<K, const N: usize> Metric<K, N> {
    const fn of(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Metric<K, N> {
        Metric { name, help, labels, kind, bounds: &[], described: AtomicU32::new(0), of: PhantomData }
    }

    /// The series with these values of the labels, in the order of their names.
    pub fn with<'a>(&'a self, values: [&'a str; N]) -> Series<'a, K, N> {
        Series { metric: self, values }
    }

    fn describe(&self) -> Result {
        let age = AGE.load(Ordering::Relaxed);
        if self.described.load(Ordering::Relaxed) != age {
            describe(self.name, self.kind, self.help, self.bounds)?;
            self.described.store(age, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<const N: usize> Counter<N> {
    /// A counter, with the names of its labels. A name that does not end in `_total` gets it.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Counter<N> {
        Metric::of(Kind::Counter, name, help, labels)
    }
}

impl<const N: usize> Gauge<N> {
    /// A gauge, with the names of its labels.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Gauge<N> {
        Metric::of(Kind::Gauge, name, help, labels)
    }
}

impl<const N: usize> Histogram<N> {
    /// A histogram, with the names of its labels. Its buckets are those of Prometheus, 0.005 to 10.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Histogram<N> {
        Metric::of(Kind::Histogram, name, help, labels)
    }

    /// The same with other buckets: at most 30 upper bounds, each greater than the one before.
    #[must_use]
    pub const fn buckets(mut self, bounds: &'static [f64]) -> Histogram<N> {
        self.bounds = bounds;
        self
    }
}

impl Counter {
    /// See [`Series::increment`].
    ///
    /// # Errors
    /// As there.
    pub fn increment(&self, by: f64) -> Result {
        self.with([]).increment(by)
    }
}

impl Gauge {
    /// See [`Series::set`].
    ///
    /// # Errors
    /// As there.
    pub fn set(&self, value: f64) -> Result {
        self.with([]).set(value)
    }

    /// Adds to the number.
    ///
    /// # Errors
    /// As of [`set`](Gauge::set).
    pub fn increment(&self, by: f64) -> Result {
        self.with([]).increment(by)
    }

    /// Subtracts from the number.
    ///
    /// # Errors
    /// As of [`set`](Gauge::set).
    pub fn decrement(&self, by: f64) -> Result {
        self.with([]).increment(-by)
    }
}

impl Histogram {
    /// See [`Series::observe`].
    ///
    /// # Errors
    /// As there.
    pub fn observe(&self, value: f64) -> Result {
        self.with([]).observe(value)
    }
}

/// A metric with values of its labels.
#[derive(Debug)]
pub struct Series<'a, K, const N: usize> {
    metric: &'a Metric<K, N>,
    values: [&'a str; N],
}

impl<K, const N: usize> Series<'_, K, N> {
    fn change(&self, change: fn(&str, f64, &[(&str, &str)]) -> Result, number: f64) -> Result {
        self.metric.describe()?;
        let mut labels = self.metric.labels.map(|name| (name, ""));
        for (label, value) in labels.iter_mut().zip(self.values) {
            label.1 = value;
        }
        change(self.metric.name, number, &labels)
    }
}

impl<const N: usize> Series<'_, kind::Counter, N> {
    /// Adds to the number.
    ///
    /// # Errors
    /// A number that is negative or not finite; a name or a value of a label that cannot be used.
    pub fn increment(&self, by: f64) -> Result {
        self.change(add, by)
    }
}

impl<const N: usize> Series<'_, kind::Gauge, N> {
    /// Sets the number.
    ///
    /// # Errors
    /// A number that is not finite; a name or a value of a label that cannot be used.
    pub fn set(&self, value: f64) -> Result {
        self.change(set, value)
    }

    /// Adds to the number.
    ///
    /// # Errors
    /// As of [`set`](Series::set).
    pub fn increment(&self, by: f64) -> Result {
        self.change(change, by)
    }

    /// Subtracts from the number.
    ///
    /// # Errors
    /// As of [`set`](Series::set).
    pub fn decrement(&self, by: f64) -> Result {
        self.change(change, -by)
    }
}

impl<const N: usize> Series<'_, kind::Histogram, N> {
    /// Counts a number into the buckets.
    ///
    /// # Errors
    /// A number that is not finite; a name or a value of a label that cannot be used.
    pub fn observe(&self, value: f64) -> Result {
        self.change(observe, value)
    }
}

/// Describes a metric whose name is made at run time. No bounds are those of Prometheus.
///
/// # Errors
/// A name, a help text or bounds that cannot be used.
pub fn describe(name: &str, kind: Kind, help: &str, bounds: &[f64]) -> Result {
    host::describe(name, kind, help, bounds).map_err(MetricError)
}

/// Adds to a counter whose name is made at run time.
///
/// # Errors
/// As of [`Series::increment`].
pub fn add(name: &str, by: f64, labels: &[(&str, &str)]) -> Result {
    host::add(name, by, labels).map_err(MetricError)
}

/// Sets a gauge whose name is made at run time.
///
/// # Errors
/// As of [`Series::set`].
pub fn set(name: &str, value: f64, labels: &[(&str, &str)]) -> Result {
    host::set(name, value, labels).map_err(MetricError)
}

/// Adds to a gauge whose name is made at run time.
///
/// # Errors
/// As of [`Series::set`].
pub fn change(name: &str, by: f64, labels: &[(&str, &str)]) -> Result {
    host::change(name, by, labels).map_err(MetricError)
}

/// Counts a number into a histogram whose name is made at run time.
///
/// # Errors
/// As of [`Series::observe`].
pub fn observe(name: &str, value: f64, labels: &[(&str, &str)]) -> Result {
    host::observe(name, value, labels).map_err(MetricError)
}

#[cfg(not(target_family = "wasm"))]
mod native;

#[cfg(test)]
mod tests {
    use super::*;

    static FLOWERS: Counter<1> = Counter::new("flowers", "Flowers by species", ["species"]);
    static TABLE_AGE: Gauge = Gauge::new("age_seconds", "", []);
    static WORDS: Histogram<2> = Histogram::new("words", "", ["a", "b"]).buckets(&[1.0, 10.0]);

    #[test]
    fn a_unit_test_has_metrics_of_its_own() {
        FLOWERS.with(["setosa"]).increment(1.0).unwrap();
        FLOWERS.with(["setosa"]).increment(1.5).unwrap();
        assert_eq!(value("flowers_total", &[("species", "setosa")]), Some(2.5));
        assert_eq!(value("flowers_total", &[("species", "virginica")]), None);
        TABLE_AGE.set(12.0).unwrap();
        TABLE_AGE.increment(1.0).unwrap();
        TABLE_AGE.decrement(3.0).unwrap();
        assert_eq!(value("age_seconds", &[]), Some(10.0));
        WORDS.with(["x", "y"]).observe(3.0).unwrap();
        WORDS.with(["x", "y"]).observe(5.0).unwrap();
        // The order of labels makes no difference.
        assert_eq!(value("words_sum", &[("b", "y"), ("a", "x")]), Some(8.0));
        assert_eq!(value("words_count", &[("a", "x"), ("b", "y")]), Some(2.0));
    }

    #[test]
    fn each_instance_describes_its_metrics_after_init() {
        static LOADED: Counter = Counter::new("loaded", "", []);
        LOADED.increment(1.0).unwrap();
        let before = LOADED.described.load(Ordering::Relaxed);
        init_has_run();
        LOADED.increment(1.0).unwrap();
        assert_ne!(LOADED.described.load(Ordering::Relaxed), before);
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_a_change() {
        let long = "x".repeat(201);
        for (name, number, labels, expected) in [
            ("", 1.0, vec![], "a name of 0 characters"),
            ("9a", 1.0, vec![], "`9a` has `9`"),
            ("modelhost_a", 1.0, vec![], "begins with `modelhost_`"),
            ("a_sum", 1.0, vec![], "ends in `_sum`"),
            ("a", -1.0, vec![], "-1 is not a finite number of at least 0"),
            ("a", f64::INFINITY, vec![], "inf is not a finite number"),
            ("a", 1.0, vec![("le", "x")], "label `le`"),
            ("a", 1.0, vec![("a b", "x")], "`a b` has ` `"),
            ("a", 1.0, vec![("x", long.as_str())], "201 bytes"),
            ("a", 1.0, vec![("x", ""), ("x", "")], "label `x` twice"),
            ("a", 1.0, vec![("x", ""); 9], "9 labels"),
        ] {
            let error = add(name, number, &labels).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}, expected {expected}");
            assert_eq!(value(name, &labels), None);
        }
        assert!(set("a_total", 1.0, &[]).unwrap_err().to_string().contains("`a_total`"));
        assert!(describe("a", Kind::Histogram, "", &[2.0, 1.0]).unwrap_err().to_string().contains("bound 1"));
    }
}
