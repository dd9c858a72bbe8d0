//! Metrics that handlers make themselves.
//!
//! Place in the flow: `capabilities/metrics.rs` checks what a handler asks for and counts it here; rendered
//! with all others. In: names, labels, numbers. Out: families.
//! Invariants: an endpoint has at most so many series as its limit says; a name has one kind in the process,
//! since a scrape can tell no more; counting in a series that is there takes no lock.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwap;
use prometheus::IntCounterVec;
use prometheus::proto::{Counter, Gauge, Metric, MetricFamily, MetricType};

use super::families::{distribution, labelled};

/// The bounds of a histogram that has none of its own: those of Prometheus' clients.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The help text of a metric that has none.
const HELP: &str = "Made by a handler.";

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CustomKind {
    /// Only grows.
    Counter,
    /// Is set.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// A change of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CustomChange {
    /// Adds to a counter or a gauge.
    Add(f64),
    /// Sets a gauge.
    Set(f64),
    /// Counts into a histogram.
    Observe(f64),
}

/// A series: its metric, and its labels by name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomSeries {
    /// The kind of its metric.
    pub kind: CustomKind,
    /// The name of its metric.
    pub name: String,
    /// Names and values.
    pub labels: Vec<(String, String)>,
}

/// The metrics of all endpoints' handlers. Cheap to clone.
#[derive(Clone)]
pub(super) struct CustomFamilies(Arc<Process>);

struct Process {
    refused: IntCounterVec,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tables: BTreeMap<String, Arc<Table>>,
    /// The kind of each name, and how many series have it.
    kinds: HashMap<String, (CustomKind, usize)>,
}

/// The series of an endpoint.
struct Table {
    series: ArcSwap<HashMap<Arc<CustomSeries>, Arc<Cell>>>,
    described: ArcSwap<HashMap<(CustomKind, String), Arc<Description>>>,
    /// Held while series begin or end; the lock of the process is taken after it.
    writer: Mutex<Writer>,
    has_warned: AtomicBool,
}

#[derive(Default)]
struct Writer {
    /// The handlers that are there.
    makers: Vec<(u64, Weak<()>)>,
    /// Lines of the series that there are.
    lines: usize,
    /// The endpoint is served no more.
    is_forgotten: bool,
}

#[derive(PartialEq)]
struct Description {
    help: String,
    bounds: Vec<f64>,
}

/// The values of a series.
struct Cell {
    value: Value,
    /// The handler that counted last.
    maker: AtomicU64,
}

enum Value {
    Number(Number),
    Histogram {
        bounds: Vec<f64>,
        counts: Vec<AtomicU64>,
        sum: Number,
    },
    /// The name is another kind's.
    Refused,
}

/// A floating-point number, as its bits.
#[derive(Default)]
struct Number(AtomicU64);

/// The metrics of one endpoint's handlers, of which there may be none.
#[derive(Clone)]
pub struct CustomMetrics {
    families: CustomFamilies,
    endpoint: Arc<str>,
}

/// A handler that makes metrics.
pub struct CustomMaker {
    metrics: CustomMetrics,
    /// Most series of the endpoint.
    most: usize,
    id: u64,
    is_there: Arc<()>,
    table: OnceLock<Arc<Table>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CustomFamilies {
    pub(super) fn new(refused: IntCounterVec) -> CustomFamilies {
        CustomFamilies(Arc::new(Process { refused, state: Mutex::default() }))
    }

    pub(super) fn endpoint(&self, name: &str) -> CustomMetrics {
        CustomMetrics { families: self.clone(), endpoint: name.into() }
    }

    /// Ends the series of these endpoints.
    pub(super) fn forget(&self, endpoints: &HashSet<&str>) {
        let remove = |endpoint: &&str| locked(&self.0.state).tables.remove(*endpoint);
        for table in endpoints.iter().filter_map(remove) {
            let mut writer = locked(&table.writer);
            writer.is_forgotten = true;
            let mut state = locked(&self.0.state);
            table.series.load().iter().for_each(|(series, cell)| state.end(series, cell));
        }
    }

    /// The families, in order of names.
    pub(super) fn gather(&self) -> Vec<MetricFamily> {
        let tables: Vec<(String, Arc<Table>)> = {
            let state = locked(&self.0.state);
            state.tables.iter().map(|(name, table)| (name.clone(), table.clone())).collect()
        };
        let mut families: BTreeMap<String, MetricFamily> = BTreeMap::new();
        for (endpoint, table) in &tables {
            let all = table.series.load();
            let mut all: Vec<_> = all.iter().filter(|(_, cell)| !cell.is_refused()).collect();
            all.sort_unstable_by(|one, other| one.0.cmp(other.0));
            for (series, cell) in all {
                let family = match families.entry(series.name.clone()) {
                    Entry::Occupied(there) => there.into_mut(),
                    Entry::Vacant(free) => free.insert(table.family(series)),
                };
                family.mut_metric().push(cell.metric(series, endpoint));
            }
        }
        families.into_values().collect()
    }
}

impl State {
    /// Whether a name may be of this kind; then a series more has it.
    fn begin(&mut self, series: &CustomSeries) -> bool {
        let (kind, count) = self.kinds.entry(series.name.clone()).or_insert((series.kind, 0));
        let is_free = *kind == series.kind;
        *count += usize::from(is_free);
        is_free
    }

    fn end(&mut self, series: &CustomSeries, cell: &Cell) {
        let Some((_, count)) = self.kinds.get_mut(&series.name).filter(|_| !cell.is_refused()) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.kinds.remove(&series.name);
        }
    }
}

impl CustomMetrics {
    /// Those of a handler that begins to serve, of at most so many series.
    pub fn maker(&self, most: usize) -> CustomMaker {
        static IDS: AtomicU64 = AtomicU64::new(1);
        CustomMaker {
            metrics: self.clone(),
            most,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            is_there: Arc::default(),
            table: OnceLock::new(),
        }
    }
}

impl CustomMaker {
    /// The endpoint's table; from the first time on this handler is one of its makers.
    fn table(&self) -> &Table {
        self.table.get_or_init(|| {
            let CustomMetrics { families, endpoint } = &self.metrics;
            let table = match locked(&families.0.state).tables.entry(endpoint.to_string()) {
                Entry::Occupied(there) => there.get().clone(),
                Entry::Vacant(free) => free.insert(Arc::new(Table::new())).clone(),
            };
            locked(&table.writer).makers.push((self.id, Arc::downgrade(&self.is_there)));
            table
        })
    }

    /// Says what a metric is, for series that begin later; nothing if it is one metric too many. What every
    /// instance says again takes no lock.
    pub fn describe(&self, kind: CustomKind, name: String, help: String, bounds: Vec<f64>) {
        let (table, key, description) = (self.table(), (kind, name), Description { help, bounds });
        if table.described.load().get(&key).is_some_and(|there| **there == description) {
            return;
        }
        let _writer = locked(&table.writer);
        let all = table.described.load();
        if all.len() < self.most || all.contains_key(&key) {
            let mut all = HashMap::clone(&all);
            all.insert(key, Arc::new(description));
            table.described.store(Arc::new(all));
        }
    }

    /// Counts in a series that is there; whether it is.
    pub fn count(&self, series: &CustomSeries, change: CustomChange) -> bool {
        let all = self.table().series.load();
        let Some(cell) = all.get(series) else { return false };
        self.count_in(&series.name, cell, change);
        true
    }

    /// Counts in a series, which begins with that. Beyond the limit it does not.
    pub fn begin(&self, series: CustomSeries, change: CustomChange) {
        let table = self.table();
        let mut writer = locked(&table.writer);
        if let Some(cell) = table.series.load().get(&series) {
            return self.count_in(&series.name, cell, change);
        }
        if writer.is_forgotten {
            return;
        }
        let mut value = Value::new(series.kind, table.description(&series).as_deref());
        let room = |writer: &Writer| self.most.saturating_sub(writer.lines);
        if room(&writer) < value.lines() {
            self.make_room(table, &mut writer);
        }
        if room(&writer) < value.lines() {
            drop(writer);
            return self.refuse(&series.name, "the endpoint has as many series as `limits.series` allows");
        }
        if !locked(&self.metrics.families.0.state).begin(&series) {
            value = Value::Refused;
        }
        writer.lines += value.lines();
        let (series, cell) = (Arc::new(series), Arc::new(Cell { value, maker: AtomicU64::new(self.id) }));
        let mut all = HashMap::clone(&table.series.load());
        all.insert(series.clone(), cell.clone());
        table.series.store(Arc::new(all));
        drop(writer);
        self.count_in(&series.name, &cell, change);
    }

    /// Ends the series of handlers that are gone.
    fn make_room(&self, table: &Table, writer: &mut Writer) {
        let before = writer.makers.len();
        writer.makers.retain(|(_, maker)| maker.strong_count() > 0);
        if writer.makers.len() == before {
            return;
        }
        let is_there = |cell: &Cell| {
            let last = cell.maker.load(Ordering::Relaxed);
            writer.makers.iter().any(|(id, _)| *id == last)
        };
        let all = table.series.load();
        let (kept, ended): (HashMap<_, _>, HashMap<_, _>) = all
            .iter()
            .map(|(series, cell)| (series.clone(), cell.clone()))
            .partition(|(_, cell)| is_there(cell));
        if ended.is_empty() {
            return;
        }
        let mut state = locked(&self.metrics.families.0.state);
        ended.iter().for_each(|(series, cell)| state.end(series, cell));
        writer.lines = kept.values().map(|cell| cell.value.lines()).sum();
        let is_kept = |(kind, name): &(CustomKind, String)| {
            kept.keys().any(|series| series.kind == *kind && series.name == *name)
        };
        let mut described = HashMap::clone(&table.described.load());
        described.retain(|metric, _| is_kept(metric));
        table.described.store(Arc::new(described));
        table.series.store(Arc::new(kept));
    }

    fn count_in(&self, name: &str, cell: &Cell, change: CustomChange) {
        if cell.maker.load(Ordering::Relaxed) != self.id {
            cell.maker.store(self.id, Ordering::Relaxed);
        }
        match (&cell.value, change) {
            (Value::Number(number), CustomChange::Add(by)) => number.add(by),
            (Value::Number(number), CustomChange::Set(value)) => number.set(value),
            (Value::Histogram { bounds, counts, sum }, CustomChange::Observe(value)) => {
                let at = bounds.partition_point(|bound| *bound < value);
                if let Some(count) = counts.get(at) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                sum.add(value);
            }
            _ => self.refuse(name, "another endpoint has its name in another kind"),
        }
    }

    fn refuse(&self, name: &str, why: &str) {
        let endpoint = &*self.metrics.endpoint;
        self.metrics.families.0.refused.with_label_values(&[endpoint]).inc();
        if !self.table().has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(%endpoint, metric = name, "what the handler counts is dropped: {why}");
        }
    }
}

impl Table {
    fn new() -> Table {
        Table {
            series: ArcSwap::default(),
            described: ArcSwap::default(),
            writer: Mutex::default(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// The description of the metric of a series, if there is one.
    fn description(&self, series: &CustomSeries) -> Option<Arc<Description>> {
        self.described.load().get(&(series.kind, series.name.clone())).cloned()
    }

    /// The family of a series, without any.
    fn family(&self, series: &CustomSeries) -> MetricFamily {
        let description = self.description(series);
        let help = description.as_ref().map(|it| it.help.as_str());
        let mut family = MetricFamily::default();
        family.set_name(series.name.clone());
        family.set_help(help.filter(|help| !help.is_empty()).unwrap_or(HELP).to_owned());
        family.set_field_type(match series.kind {
            CustomKind::Counter => MetricType::COUNTER,
            CustomKind::Gauge => MetricType::GAUGE,
            CustomKind::Histogram => MetricType::HISTOGRAM,
        });
        family
    }
}

impl Value {
    fn new(kind: CustomKind, description: Option<&Description>) -> Value {
        if kind != CustomKind::Histogram {
            return Value::Number(Number::default());
        }
        let bounds = description.map(|it| it.bounds.clone()).filter(|bounds| !bounds.is_empty());
        let bounds = bounds.unwrap_or_else(|| BOUNDS.to_vec());
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Value::Histogram { bounds, counts, sum: Number::default() }
    }

    /// The lines of a scrape, but for the bucket that holds all.
    fn lines(&self) -> usize {
        match self {
            Value::Number(_) | Value::Refused => 1,
            Value::Histogram { bounds, .. } => bounds.len() + 2,
        }
    }
}

impl Cell {
    fn is_refused(&self) -> bool {
        matches!(self.value, Value::Refused)
    }

    /// The lines of a scrape.
    fn metric(&self, series: &CustomSeries, endpoint: &str) -> Metric {
        let own = series.labels.iter().map(|(name, value)| (&**name, &**value));
        let labels: Vec<(&str, &str)> = [("endpoint", endpoint)].into_iter().chain(own).collect();
        let mut metric = labelled(&labels);
        match (&self.value, series.kind) {
            (Value::Number(number), CustomKind::Counter) => {
                let mut counter = Counter::default();
                counter.set_value(number.get());
                metric.set_counter(counter);
            }
            (Value::Number(number), _) => {
                let mut gauge = Gauge::default();
                gauge.set_value(number.get());
                metric.set_gauge(gauge);
            }
            (Value::Histogram { bounds, counts, sum }, _) => {
                metric.set_histogram(distribution(bounds, counts, sum.get()));
            }
            // It is not rendered.
            (Value::Refused, _) => {}
        }
        metric
    }
}

impl Number {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    fn add(&self, by: f64) {
        let add = |bits: u64| Some((f64::from_bits(bits) + by).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

#[cfg(test)]
mod tests;
