//! The families of all metrics: registered once, rendered together, and rid of endpoints that are gone.
//!
//! Place in the flow: every file of [`super`] registers its families here. In: families. Out: what they have
//! counted.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, Desc, MetricVec, MetricVecBuilder};
use prometheus::proto::{Bucket, Counter, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Opts, Registry};

/// All families.
#[derive(Default)]
pub(super) struct Families {
    registry: Registry,
    all: Mutex<Vec<Box<dyn Forget + Send + Sync>>>,
}

/// A family that forgets endpoints.
pub(super) trait Forget {
    /// Ends the series of these endpoints.
    fn forget(&self, endpoints: &HashSet<&str>);
}

impl<T: MetricVecBuilder> Forget for MetricVec<T> {
    fn forget(&self, endpoints: &HashSet<&str>) {
        for family in self.collect() {
            for metric in family.get_metric() {
                let labels = metric.get_label().iter().map(|label| (label.name(), label.value()));
                let labels: HashMap<&str, &str> = labels.collect();
                if labels.get("endpoint").is_some_and(|name| endpoints.contains(name)) {
                    // One that is gone meanwhile is gone.
                    let _ = self.remove(&labels);
                }
            }
        }
    }
}

impl Families {
    /// Puts a family to the others.
    pub(super) fn register<C: Collector + Forget + Clone + 'static>(
        &self,
        family: C,
    ) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(family.clone()))?;
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(family.clone()));
        Ok(family)
    }

    /// Ends the series of these endpoints.
    pub(super) fn forget(&self, endpoints: &HashSet<&str>) {
        for family in &*self.all.lock().unwrap_or_else(PoisonError::into_inner) {
            family.forget(endpoints);
        }
    }

    /// All of them, in order of names, without those that have no series.
    pub(super) fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

/// The options of a family, by its name and its help text.
pub(super) fn opts((name, help): (&str, &str)) -> Opts {
    Opts::new(name, help)
}

/// A family of these series.
pub(super) fn family(desc: &Desc, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(desc.fq_name.clone());
    family.set_help(desc.help.clone());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

/// A series of a counter.
pub(super) fn counter(labels: &[(&str, &str)], count: u64) -> Metric {
    counter_of(labels, count as f64)
}

/// A series of a counter of something that has parts.
pub(super) fn counter_of(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = labelled(labels);
    metric.set_counter(counter);
    metric
}

/// A series of a histogram.
pub(super) fn histogram(labels: &[(&str, &str)], histogram: Histogram) -> Metric {
    let mut metric = labelled(labels);
    metric.set_histogram(histogram);
    metric
}

/// The buckets of these bounds, and a last one without, whose count is that of all: the encoder adds it as
/// `+Inf`.
pub(super) fn distribution(bounds: &[f64], counters: &[AtomicU64], sum: f64) -> Histogram {
    let mut count = 0;
    let mut below = |counter: &AtomicU64| {
        count += counter.load(Ordering::Relaxed);
        count
    };
    let mut buckets = Vec::with_capacity(bounds.len());
    for (bound, counter) in bounds.iter().zip(counters) {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(below(counter));
        buckets.push(bucket);
    }
    let mut histogram = Histogram::default();
    histogram.set_sample_count(counters.last().map_or(0, below));
    histogram.set_sample_sum(sum);
    histogram.set_bucket(buckets);
    histogram
}

/// A series without a value.
pub(super) fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pair = |&(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}
