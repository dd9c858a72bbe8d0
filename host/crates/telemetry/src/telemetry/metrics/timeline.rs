//! The last fifteen minutes of an endpoint, as samples of its counters.
//!
//! In: [`Totals`] of an endpoint, every [`PERIOD`]. Out: what each period had, [`Columns`], and what the last
//! minute came to, [`Recent`].
//! Invariant: bounded. A timeline holds [`SAMPLES`] samples and the distributions of one minute, of requests
//! and of their stages, at most [`Timeline::LARGEST`] bytes; nothing here is touched by a request.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::totals::{BOUNDS, BUCKETS, STAGES, Spread, Totals};
use crate::time::milliseconds_of;

/// Time between two samples.
pub const PERIOD: Duration = Duration::from_secs(5);
/// Samples that are kept: 15 minutes.
const SAMPLES: usize = 180;
/// Those of the last minute.
const MINUTE: usize = 12;

/// One period.
#[derive(Debug, Clone, Copy)]
struct Sample {
    answered: u32,
    refused: u32,
    failed: u32,
    cancelled: u32,
    in_flight: u32,
    queued: u32,
    p50: f32,
    p99: f32,
    /// Milliseconds of a request, on average.
    stages: [f32; STAGES],
}

/// How many durations of a period fell into each bucket.
type Buckets = [u32; BUCKETS];

/// The samples of one endpoint.
#[derive(Debug, Default)]
pub struct Timeline {
    last: Totals,
    samples: VecDeque<Sample>,
    /// Of requests, and of each of their stages.
    minute: VecDeque<(Buckets, [Buckets; STAGES])>,
    /// Samples since the last request.
    idle: usize,
}

/// The samples, the oldest first, each figure in a list of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each key means")]
pub struct Columns {
    pub answered: Vec<u32>,
    pub refused: Vec<u32>,
    pub failed: Vec<u32>,
    pub cancelled: Vec<u32>,
    pub in_flight: Vec<u32>,
    pub queued: Vec<u32>,
    pub p50_ms: Vec<f64>,
    pub p99_ms: Vec<f64>,
    pub admit_ms: Vec<f64>,
    pub pre_inference_ms: Vec<f64>,
    pub queue_ms: Vec<f64>,
    pub infer_ms: Vec<f64>,
    pub post_inference_ms: Vec<f64>,
}

/// The last minute, added up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/reference.md says what each key means")]
pub struct Recent {
    pub seconds: u64,
    pub answered: u64,
    pub refused: u64,
    pub failed: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub stages: Stages,
}

/// The stages of the last minute's requests; `null` if none had it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the stages by their names")]
pub struct Stages {
    pub admit: Option<Percentiles>,
    pub pre_inference: Option<Percentiles>,
    pub queue: Option<Percentiles>,
    pub infer: Option<Percentiles>,
    pub post_inference: Option<Percentiles>,
}

/// Durations that half of all, and 99 of 100, are below.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Timeline {
    /// Bytes of a timeline that is full.
    pub const LARGEST: usize = size_of::<Timeline>()
        + SAMPLES * size_of::<Sample>()
        + MINUTE * size_of::<(Buckets, [Buckets; STAGES])>();

    /// Takes the sample of a period, which ended with these totals and gauges.
    pub fn add(&mut self, totals: Totals, in_flight: u32, queued: u32) {
        let new = totals.since(&self.last);
        self.last = totals;
        let requests = new.requests();
        self.idle = if requests == 0 { self.idle + 1 } else { 0 };
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let timed: u64 = new.durations.buckets.iter().sum();
        let counts = |spread: Spread| spread.buckets.map(count);
        let buckets = counts(new.durations);
        push(&mut self.minute, (buckets, new.stages.map(counts)), MINUTE);
        let sample = Sample {
            answered: count(new.answered),
            refused: count(new.refused),
            failed: count(new.failed),
            cancelled: count(new.cancelled),
            in_flight,
            queued,
            p50: quantile(&buckets, 0.5),
            p99: quantile(&buckets, 0.99),
            stages: new.stages.map(|stage| (milliseconds_of(stage.sum) / timed.max(1) as f64) as f32),
        };
        push(&mut self.samples, sample, SAMPLES);
        if self.idle >= SAMPLES {
            *self = Timeline { last: std::mem::take(&mut self.last), ..Timeline::default() };
        }
    }

    /// Leaves out the requests up to these totals.
    pub fn skip(&mut self, totals: Totals) {
        self.last = totals;
    }

    /// Whether it has no samples: it is not used, or has not been for as long as samples are kept.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// All requests that it knows of.
    pub fn requests(&self) -> u64 {
        self.last.requests()
    }

    /// The last minute; `None` if it had no request.
    pub fn recent(&self) -> Option<Recent> {
        let samples = self.samples.iter().rev().take(MINUTE);
        let sum = |of: fn(&Sample) -> u32| samples.clone().map(|sample| u64::from(of(sample))).sum();
        let answered = sum(|sample| sample.answered);
        let (refused, failed) = (sum(|sample| sample.refused), sum(|sample| sample.failed));
        if answered + refused + failed == 0 {
            return None;
        }
        let (mut all, mut stages) = ([0; BUCKETS], [[0; BUCKETS]; STAGES]);
        for (requests, by_stage) in &self.minute {
            add(&mut all, requests);
            stages.iter_mut().zip(by_stage).for_each(|(sum, stage)| add(sum, stage));
        }
        let [admit, pre_inference, queue, infer, post_inference] = stages.map(|stage| percentiles(&stage));
        let stages = Stages { admit, pre_inference, queue, infer, post_inference };
        let seconds = samples.len() as u64 * PERIOD.as_secs();
        let [p50_ms, p99_ms] = [0.5, 0.99].map(|share| rounded(quantile(&all, share)));
        Some(Recent { seconds, answered, refused, failed, p50_ms, p99_ms, stages })
    }

    /// All samples.
    pub fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for sample in &self.samples {
            columns.answered.push(sample.answered);
            columns.refused.push(sample.refused);
            columns.failed.push(sample.failed);
            columns.cancelled.push(sample.cancelled);
            columns.in_flight.push(sample.in_flight);
            columns.queued.push(sample.queued);
            columns.p50_ms.push(rounded(sample.p50));
            columns.p99_ms.push(rounded(sample.p99));
            let [admit, pre, queue, infer, post] = sample.stages;
            columns.admit_ms.push(rounded(admit));
            columns.pre_inference_ms.push(rounded(pre));
            columns.queue_ms.push(rounded(queue));
            columns.infer_ms.push(rounded(infer));
            columns.post_inference_ms.push(rounded(post));
        }
        columns
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    } else if list.len() == list.capacity() {
        // Twice as many, as ever, but never room for more than there will be.
        list.reserve_exact(list.len().clamp(1, most - list.len()));
    }
    list.push_back(item);
}

fn add(sum: &mut Buckets, more: &Buckets) {
    sum.iter_mut().zip(more).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
}

/// `None` if there was none.
fn percentiles(buckets: &Buckets) -> Option<Percentiles> {
    let [p50_ms, p99_ms] = [0.5, 0.99].map(|share| rounded(quantile(buckets, share)));
    buckets.iter().any(|&n| n > 0).then_some(Percentiles { p50_ms, p99_ms })
}

/// To the microsecond.
fn rounded(milliseconds: f32) -> f64 {
    (f64::from(milliseconds) * 1e3).round() / 1e3
}

/// The duration, in milliseconds, that this share of all is below; by the straight line within its bucket.
fn quantile(buckets: &Buckets, share: f64) -> f32 {
    let all: f64 = buckets.iter().map(|&n| f64::from(n)).sum();
    let (mut below, mut lower) = (0.0, 0.0);
    for (&n, upper) in buckets.iter().zip(BOUNDS.map(milliseconds_of)) {
        let n = f64::from(n);
        if n > 0.0 && below + n >= share * all {
            return (lower + (upper - lower) * (share * all - below) / n) as f32;
        }
        below += n;
        lower = upper;
    }
    // Above every bound: at least the last.
    if all > 0.0 { lower as f32 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests more, each of this bucket.
    fn more(totals: &Totals, answered: u64, failed: u64, bucket: usize) -> Totals {
        let mut totals = totals.clone();
        totals.answered += answered;
        totals.failed += failed;
        totals.durations.buckets[bucket] += answered + failed;
        totals.stages[3].buckets[7] += answered + failed;
        totals.stages[3].sum += (answered + failed) * 2_000_000;
        totals
    }

    #[test]
    fn a_sample_is_what_its_period_had() {
        let mut timeline = Timeline::default();
        let mut totals = Totals::default();
        for (answered, failed, bucket) in [(100, 0, 7), (0, 0, 0), (97, 3, 12)] {
            totals = more(&totals, answered, failed, bucket);
            timeline.add(totals.clone(), 4, 2);
        }
        let columns = timeline.columns();
        assert_eq!((&columns.answered[..], &columns.failed[..]), (&[100, 0, 97][..], &[0, 0, 3][..]));
        // Halfway through 1 to 2.5 ms, and through 50 to 100 ms.
        assert_eq!(columns.p50_ms, [1.75, 0.0, 75.0]);
        assert_eq!(columns.infer_ms, [2.0, 0.0, 2.0]);
        assert_eq!((columns.in_flight[2], columns.queued[2]), (4, 2));
        let recent = timeline.recent().unwrap();
        assert_eq!((recent.seconds, recent.answered, recent.failed), (15, 197, 3));
        assert!(recent.p50_ms <= 2.5 && recent.p99_ms > 95.0, "{recent:?}");
        let infer = Percentiles { p50_ms: 1.75, p99_ms: 2.485 };
        assert_eq!((recent.stages.infer, recent.stages.queue), (Some(infer), None));
        // The counters of an endpoint that is served again begin at zero.
        timeline.add(more(&Totals::default(), 5, 0, 0), 0, 0);
        assert_eq!(timeline.columns().answered.last(), Some(&5));
    }

    #[test]
    fn a_timeline_is_bounded_and_at_last_idle() {
        let mut timeline = Timeline::default();
        let used = more(&Totals::default(), 1, 0, BUCKETS - 1);
        timeline.add(used.clone(), 0, 0);
        assert_eq!(timeline.recent().unwrap().p99_ms, 30_000.0);
        for n in 1..SAMPLES {
            timeline.add(used.clone(), 0, 0);
            assert_eq!(timeline.columns().answered.len(), n + 1);
        }
        assert_eq!(timeline.minute.len(), MINUTE);
        let held = timeline.samples.capacity() * size_of::<Sample>()
            + timeline.minute.capacity() * size_of::<(Buckets, [Buckets; STAGES])>();
        assert!(held + size_of::<Timeline>() <= Timeline::LARGEST, "{held} {}", Timeline::LARGEST);
        const { assert!(Timeline::LARGEST <= 100 * SAMPLES) };
        // Fifteen minutes without a request, and it holds its totals only.
        timeline.add(used.clone(), 0, 0);
        assert!(timeline.is_empty() && timeline.recent().is_none());
        timeline.add(more(&used, 7, 0, 0), 0, 0);
        assert_eq!(timeline.columns().answered, [7]);
    }
}
