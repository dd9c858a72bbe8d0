//! Counts and durations of requests, cheap enough for every request to record.
//!
//! Place in the flow: [`super::EndpointMetrics`] records into its endpoint's [`Tally`]; the registry reads
//! all tallies through [`Requests`] when the metrics are asked for.
//! In: outcomes and durations. Out: the first four of [`super::METRICS`], in `prometheus`' own types, and
//! [`Statistics`].
//! Invariants: a thread writes to its own shard only, so the atomics stay in its core's cache; they only ever
//! grow. A scrape adds the shards up and stops no request: two metrics may differ by a request that ends
//! meanwhile, but a histogram's count is always that of its own buckets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter::once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Histogram, MetricFamily, MetricType};

use super::exemplars::{BucketExemplars, Exemplar};
use super::families::{Forget, counter, distribution, family, histogram};
use super::openmetrics::Exemplars;
use super::statistics::{Statistics, Timing};
use super::totals::{BOUNDS, BUCKETS, Spread, Totals};
use crate::error::{Code, Stage};
use crate::shard;
use crate::time::{nanoseconds, unix_milliseconds};
use crate::trace::TraceId;

/// Label value of requests that were answered by handler or model.
const OK: &str = "ok";
/// Label value of requests whose client went away.
const CANCELLED: &str = "cancelled";

/// Requests in one run of a model, upper ends of the buckets.
const SIZES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Name and help text of a metric.
type Named = (&'static str, &'static str);

/// The counters of every endpoint's requests, as the registry sees them.
#[derive(Clone)]
pub(super) struct Requests(Arc<Endpoints>);

struct Endpoints {
    requests: Desc,
    duration: Desc,
    stages: Desc,
    batches: Desc,
    tallies: Mutex<BTreeMap<String, Arc<Tally>>>,
}

/// The counters of one endpoint's requests.
pub(super) struct Tally {
    shards: Box<[Shard]>,
    since: Instant,
    exemplars: OnceLock<Box<BucketExemplars>>,
}

/// One thread's part of a tally.
/// Aligned so that no two shards share a cache line (or a pair of them, which x86 fetches together).
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    ok: AtomicU64,
    /// The part of `ok` that a handler itself refused, by a status of 400 to 499.
    ok_refused: AtomicU64,
    /// The part of `ok` that a handler itself failed, by a status of 500 and above.
    ok_failed: AtomicU64,
    /// Those of `duration` that the current handler has no part in.
    others: AtomicU64,
    cancelled: AtomicU64,
    errors: [AtomicU64; Code::ALL.len()],
    duration: Durations,
    /// Nanoseconds, the part of `duration` that failed requests took.
    failed: AtomicU64,
    stages: [Durations; Stage::ALL.len()],
    batches: Batches,
    /// When the last request ended: milliseconds after the tally began, rounded up.
    last: AtomicU64,
}

/// How many runs had how many requests, and all of those added up.
#[derive(Default)]
struct Batches {
    buckets: [AtomicU64; SIZES.len() + 1],
    requests: AtomicU64,
}

/// How many durations fell into each bucket, and all of them added up.
#[derive(Default)]
struct Durations {
    /// Each counts its own durations only; the last is for those above every bound.
    buckets: [AtomicU64; BUCKETS],
    /// Enough for 584 years.
    nanoseconds: AtomicU64,
}

impl Requests {
    /// # Errors
    /// If a name or a help text is not one.
    pub(super) fn new(
        [requests, duration, stages, batches]: [Named; 4],
    ) -> Result<Requests, prometheus::Error> {
        let desc = |(name, help): Named, labels: &[&str]| {
            let labels = labels.iter().copied().map(String::from).collect();
            Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())
        };
        Ok(Requests(Arc::new(Endpoints {
            requests: desc(requests, &["endpoint", "outcome"])?,
            duration: desc(duration, &["endpoint"])?,
            stages: desc(stages, &["endpoint", "stage"])?,
            batches: desc(batches, &["endpoint"])?,
            tallies: Mutex::default(),
        })))
    }

    /// The endpoint's tally, the same one for the same name. Its counters are rendered from now on, its
    /// histograms from the first duration on.
    pub(super) fn endpoint(&self, name: &str) -> Arc<Tally> {
        let mut tallies = self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tallies.entry(name.to_owned()).or_insert_with(|| Arc::new(Tally::new(shard::count()))))
    }

    /// The exemplars of all endpoints that have some.
    pub(super) fn exemplars(&self) -> Exemplars {
        let tallies = self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let traced = tallies.iter().filter(|(_, tally)| tally.exemplars.get().is_some());
        traced.map(|(name, tally)| (name.clone(), tally.exemplars())).collect()
    }
}

impl Forget for Requests {
    fn forget(&self, endpoints: &HashSet<&str>) {
        let mut tallies = self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.retain(|name, _| !endpoints.contains(name.as_str()));
    }
}

impl Tally {
    fn new(shards: usize) -> Tally {
        let shards = (0..shards).map(|_| Shard::default()).collect();
        Tally { shards, since: Instant::now(), exemplars: OnceLock::new() }
    }

    pub(super) fn ok(&self, status: u16) {
        let Some(own) = self.own() else { return };
        add(&own.ok, 1);
        match status {
            ..400 => {}
            400..500 => add(&own.ok_refused, 1),
            500.. => add(&own.ok_failed, 1),
        }
    }

    pub(super) fn of_another(&self) {
        if let Some(own) = self.own() {
            add(&own.others, 1);
        }
    }

    pub(super) fn cancelled(&self) {
        if let Some(own) = self.own() {
            add(&own.cancelled, 1);
        }
    }

    pub(super) fn error(&self, code: Code) {
        if let Some(counter) = self.own().and_then(|own| own.errors.get(code as usize)) {
            add(counter, 1);
        }
    }

    pub(super) fn run(&self, requests: usize) {
        let Some(own) = self.own() else { return };
        let requests = requests as u64;
        if let Some(bucket) = own.batches.buckets.get(SIZES.partition_point(|&size| size < requests)) {
            add(bucket, 1);
        }
        add(&own.batches.requests, requests);
    }

    pub(super) fn durations(
        &self,
        arrived: Instant,
        total: Duration,
        ok: bool,
        stages: impl Iterator<Item = (Stage, Duration)>,
    ) {
        let Some(own) = self.own() else { return };
        own.duration.record(total);
        if !ok {
            add(&own.failed, nanoseconds(total));
        }
        // From the times at hand: asking the clock again would cost more than all of this.
        let ended = (arrived + total).saturating_duration_since(self.since);
        own.last.store(u64::try_from(ended.as_millis()).unwrap_or(u64::MAX - 1) + 1, Ordering::Relaxed);
        for (stage, duration) in stages {
            if let Some(durations) = own.stages.get(stage as usize) {
                durations.record(duration);
            }
        }
    }

    /// A request that took so long is part of this trace.
    pub(super) fn exemplar(&self, trace: TraceId, took: Duration) {
        self.exemplars.get_or_init(Box::default).put(bucket(nanoseconds(took)), trace, took);
    }

    /// The exemplars of the durations, each with its bucket's upper bound in seconds.
    fn exemplars(&self) -> Vec<(f64, Exemplar)> {
        let bound = |bucket: usize| BOUNDS.get(bucket).map_or(f64::INFINITY, |bound| seconds(*bound));
        let all = self.exemplars.get().into_iter().flat_map(|exemplars| exemplars.all());
        all.map(|(bucket, exemplar)| (bound(bucket), exemplar)).collect()
    }

    /// The current thread's shard; there always is one.
    fn own(&self) -> Option<&Shard> {
        self.shards.get(shard::current(self.shards.len()))
    }

    pub(super) fn statistics(&self) -> Statistics {
        let sum = self.sum();
        let (ok, failed) = (read(&sum.ok), read(&sum.failed));
        let ns =
            |stage: Stage| sum.stages.get(stage as usize).map(|stage| stage.timing().ns).unwrap_or_default();
        let timing = |stage: Stage| Timing { count: ok, ns: ns(stage) };
        Statistics {
            inference_count: ok,
            execution_count: sum.batches.buckets.iter().map(read).sum(),
            last_inference: self.last_inference(),
            success: Timing { count: ok, ns: sum.duration.timing().ns.saturating_sub(failed) },
            fail: Timing { count: sum.errors.iter().map(read).sum(), ns: failed },
            queue: Timing { count: ok, ns: ns(Stage::Admit) + ns(Stage::Queue) },
            compute_input: timing(Stage::PreInference),
            compute_infer: timing(Stage::Infer),
            compute_output: timing(Stage::PostInference),
        }
    }

    /// All requests that have ended. Looks at few counters, for what looks often.
    pub(super) fn ended(&self) -> u64 {
        let of = |shard: &Shard| {
            let errors: u64 = shard.errors.iter().map(read).sum();
            read(&shard.ok) + read(&shard.cancelled) + errors
        };
        self.shards.iter().map(of).sum()
    }

    pub(super) fn totals(&self) -> Totals {
        let sum = self.sum();
        let [refused, failed] = [read(&sum.ok_refused), read(&sum.ok_failed)];
        let mut totals = Totals {
            answered: read(&sum.ok).saturating_sub(refused + failed),
            refused,
            failed,
            cancelled: read(&sum.cancelled),
            durations: sum.duration.spread(),
            stages: sum.stages.each_ref().map(Durations::spread),
        };
        for (code, count) in Code::ALL.into_iter().zip(&sum.errors) {
            let side = if code.http() < 500 { &mut totals.refused } else { &mut totals.failed };
            *side += read(count);
        }
        totals
    }

    /// Requests that have a duration, without those of others.
    pub(super) fn served(&self) -> u64 {
        let of = |shard: &Shard| shard.duration.timing().count.saturating_sub(read(&shard.others));
        self.shards.iter().map(of).sum()
    }

    /// By the clock of the wall as it is now: it may have been set since then.
    fn last_inference(&self) -> u64 {
        let last = self.shards.iter().map(|shard| read(&shard.last)).max().unwrap_or(0);
        if last == 0 {
            return 0;
        }
        let ago = self.since.elapsed().saturating_sub(Duration::from_millis(last));
        SystemTime::now().checked_sub(ago).map_or(0, unix_milliseconds)
    }

    /// All shards, added up.
    fn sum(&self) -> Shard {
        let sum = Shard::default();
        for shard in &self.shards {
            for (total, counter) in sum.counters().zip(shard.counters()) {
                add(total, read(counter));
            }
        }
        sum
    }
}

impl Shard {
    /// Everything in it that adds up, always in the same order.
    fn counters(&self) -> impl Iterator<Item = &AtomicU64> {
        let durations = once(&self.duration).chain(&self.stages);
        [&self.ok, &self.ok_refused, &self.ok_failed, &self.others, &self.cancelled, &self.failed]
            .into_iter()
            .chain(&self.errors)
            .chain(durations.flat_map(|durations| durations.buckets.iter().chain([&durations.nanoseconds])))
            .chain(self.batches.buckets.iter().chain([&self.batches.requests]))
    }

    /// The counters of requests, each with its label value.
    fn outcomes(&self) -> impl Iterator<Item = (&'static str, &AtomicU64)> {
        let errors = Code::ALL.into_iter().map(Code::name).zip(&self.errors);
        [(OK, &self.ok), (CANCELLED, &self.cancelled)].into_iter().chain(errors)
    }
}

impl Durations {
    fn record(&self, duration: Duration) {
        let nanoseconds = nanoseconds(duration);
        if let Some(bucket) = self.buckets.get(bucket(nanoseconds)) {
            add(bucket, 1);
        }
        add(&self.nanoseconds, nanoseconds);
    }

    fn timing(&self) -> Timing {
        Timing { count: self.buckets.iter().map(read).sum(), ns: read(&self.nanoseconds) }
    }

    fn spread(&self) -> Spread {
        Spread { buckets: self.buckets.each_ref().map(read), sum: read(&self.nanoseconds) }
    }

    fn render(&self) -> Histogram {
        distribution(&BOUNDS.map(seconds), &self.buckets, seconds(read(&self.nanoseconds)))
    }
}

impl Batches {
    fn render(&self) -> Histogram {
        distribution(&SIZES.map(|size| size as f64), &self.buckets, read(&self.requests) as f64)
    }
}

impl Collector for Requests {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.requests, &self.0.duration, &self.0.stages, &self.0.batches]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let [mut requests, mut duration, mut stages, mut batches] = [const { Vec::new() }; 4];
        let tallies = self.0.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, tally) in tallies.iter() {
            let sum = tally.sum();
            for (outcome, count) in sum.outcomes() {
                requests.push(counter(&[("endpoint", name), ("outcome", outcome)], read(count)));
            }
            // Most of the text of a thousand endpoints would be empty histograms of those that are not used.
            if sum.duration.timing().count == 0 {
                continue;
            }
            duration.push(histogram(&[("endpoint", name)], sum.duration.render()));
            for (stage, durations) in Stage::ALL.into_iter().zip(&sum.stages) {
                stages.push(histogram(&[("endpoint", name), ("stage", stage.name())], durations.render()));
            }
            batches.push(histogram(&[("endpoint", name)], sum.batches.render()));
        }
        vec![
            family(&self.0.requests, MetricType::COUNTER, requests),
            family(&self.0.duration, MetricType::HISTOGRAM, duration),
            family(&self.0.stages, MetricType::HISTOGRAM, stages),
            family(&self.0.batches, MetricType::HISTOGRAM, batches),
        ]
    }
}

/// Which bucket a duration falls into; one that equals a bound is in that bound's bucket.
/// A binary search of fixed length, about 5 ns.
fn bucket(nanoseconds: u64) -> usize {
    BOUNDS.partition_point(|&bound| bound < nanoseconds)
}

/// Relaxed: nothing else is read on the strength of a count.
fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_in_its_own_bucket() {
        assert!(BOUNDS.is_sorted_by(|a, b| a < b));
        for (number, bound) in BOUNDS.into_iter().enumerate() {
            assert_eq!([bound - 1, bound, bound + 1].map(bucket), [number, number, number + 1], "{bound}");
        }
        assert_eq!([0, u64::MAX].map(bucket), [0, BOUNDS.len()]);
    }

    #[test]
    fn bounds_read_well() {
        let labels = BOUNDS.map(|bound| seconds(bound).to_string());
        assert_eq!(
            labels.join(" "),
            "0.00001 0.000025 0.00005 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 1 5 30"
        );
    }

    #[test]
    fn shards_share_no_cache_line_and_all_are_summed() {
        assert_eq!((align_of::<Shard>(), size_of::<Shard>() % 128), (128, 0));
        let tally = Tally::new(3);
        for (shard, n) in tally.shards.iter().zip([1, 10, 100]) {
            shard.counters().for_each(|counter| add(counter, n));
        }
        let sum = tally.sum();
        assert!(sum.counters().all(|counter| read(counter) == 111));
        // None is forgotten: what is left of the last cache lines is too small for one more histogram.
        let left = size_of::<Shard>() - sum.counters().count() * size_of::<AtomicU64>();
        assert!(left < 128, "{left}");
    }

    #[test]
    fn statistics_tell_success_from_failure() {
        let tally = Tally::new(shard::count());
        assert_eq!(tally.statistics(), Statistics::default());
        let us = Duration::from_micros;
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        for (ok, total) in [(true, 100), (true, 50), (false, 7)] {
            if ok {
                tally.ok(200)
            } else {
                tally.error(Code::ModelError)
            }
            let stages = Stage::ALL.into_iter().zip([us(1), us(2), us(3), us(4), us(5)]);
            tally.durations(Instant::now(), us(total), ok, stages.take(if ok { 5 } else { 2 }));
        }
        // Two requests shared one run. One was refused at once.
        tally.run(2);
        tally.error(Code::Overloaded);
        let found = tally.statistics();
        let timing = |count, ns| Timing { count, ns };
        let expected = Statistics {
            inference_count: 2,
            execution_count: 1,
            last_inference: found.last_inference,
            success: timing(2, 150_000),
            fail: timing(2, 7_000),
            queue: timing(2, 9_000),
            compute_input: timing(2, 6_000),
            compute_infer: timing(2, 8_000),
            compute_output: timing(2, 10_000),
        };
        assert_eq!(found, expected);
        let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let last = u128::from(found.last_inference);
        assert!((before..=after + 1).contains(&last), "{before} {last} {after}");
    }

    #[test]
    fn totals_tell_the_callers_mistakes_from_failures() {
        let tally = Tally::new(shard::count());
        [101, 200, 399, 400, 499, 500, 599].into_iter().for_each(|status| tally.ok(status));
        [Code::InvalidInput, Code::BodyTooLarge, Code::Overloaded]
            .into_iter()
            .for_each(|code| tally.error(code));
        tally.cancelled();
        let found = tally.totals();
        assert_eq!((found.answered, found.refused, found.failed, found.cancelled), (3, 4, 3, 1));
        assert_eq!((found.requests(), tally.ended()), (11, 11));
    }
}
