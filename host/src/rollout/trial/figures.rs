//! What both sides of a trial have done, counted by thread.
//!
//! In:   one call a request that belongs to a trial. Out: [`Counted`], added up when asked for.
//! Invariants: a thread writes to its own shard; counts only ever grow; times are kept in buckets of at most
//! an eighth of themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::shard;
use crate::time::nanoseconds;

/// Bits of a time that a bucket tells apart, below its first one.
const FINE: u32 = 3;
/// Times below 2 to this many nanoseconds are one bucket.
const SHORTEST: u32 = 10;
/// Four and a half hours.
const LONGEST: u32 = 44;
const BUCKETS: usize = ((LONGEST - SHORTEST) << FINE) as usize;

/// Who.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The generation that serves.
    Current,
    /// The handler on trial.
    Candidate,
}

/// The result of comparing the two sides on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// They say the same.
    Same,
    /// They do not.
    Differs,
    /// The one that is not answering failed where the other did not.
    Failed,
    /// Nothing: there was no place or no time for it.
    Dropped,
}

impl Compared {
    /// Every one, in the order of the documents.
    pub const ALL: [Compared; 4] = [Compared::Same, Compared::Differs, Compared::Failed, Compared::Dropped];

    /// Its name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Compared::Same => "same",
            Compared::Differs => "differs",
            Compared::Failed => "failed",
            Compared::Dropped => "dropped",
        }
    }
}

/// The counters of one trial.
#[derive(Debug)]
pub struct Figures(Box<[Shard]>);

/// Aligned so that no two shards share a cache line (or a pair of them, which x86 fetches together).
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    sides: [Tally; 2],
    compared: [AtomicU64; Compared::ALL.len()],
}

#[derive(Debug)]
struct Tally {
    errors: AtomicU64,
    faults: AtomicU64,
    nanoseconds: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

impl Default for Tally {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Tally { errors: zero(), faults: zero(), nanoseconds: zero(), times: std::array::from_fn(|_| zero()) }
    }
}

impl Figures {
    pub fn new() -> Figures {
        let shard = || Shard { sides: Default::default(), compared: Default::default() };
        Figures((0..shard::count()).map(|_| shard()).collect())
    }

    /// A request has ended on this side.
    pub fn ended(&self, side: Side, error: bool, fault: bool, time: Duration) {
        let Some(tally) = self.own().and_then(|shard| shard.sides.get(side as usize)) else { return };
        for (is, counter) in [(error, &tally.errors), (fault, &tally.faults)] {
            if is {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        let nanoseconds = nanoseconds(time);
        tally.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if let Some(bucket) = tally.times.get(bucket(nanoseconds)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The two sides were compared, or were to be.
    pub fn compared(&self, what: Compared) {
        if let Some(counter) = self.own().and_then(|shard| shard.compared.get(what as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts of this side so far.
    pub fn of(&self, side: Side) -> Counted {
        let mut counted = Counted::default();
        for tally in self.0.iter().filter_map(|shard| shard.sides.get(side as usize)) {
            counted.errors += read(&tally.errors);
            counted.faults += read(&tally.faults);
            counted.nanoseconds += read(&tally.nanoseconds);
            for (sum, bucket) in counted.times.iter_mut().zip(&tally.times) {
                let count = read(bucket);
                *sum += count;
                counted.requests += count;
            }
        }
        counted
    }

    /// How often that came of comparing them.
    pub fn of_compared(&self, what: Compared) -> u64 {
        self.0.iter().filter_map(|shard| shard.compared.get(what as usize)).map(read).sum()
    }

    /// The current thread's shard; there always is one.
    fn own(&self) -> Option<&Shard> {
        self.0.get(shard::current(self.0.len()))
    }
}

/// The counts of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Requests that have ended.
    pub requests: u64,
    /// Those that failed, and not by the caller's doing.
    pub errors: u64,
    /// Those that the handler broke its contract or a limit on.
    pub faults: u64,
    nanoseconds: u64,
    times: Vec<u64>,
}

impl Default for Counted {
    fn default() -> Self {
        Counted { requests: 0, errors: 0, faults: 0, nanoseconds: 0, times: vec![0; BUCKETS] }
    }
}

impl Counted {
    /// The counts since they were `before`.
    #[must_use]
    pub fn since(&self, before: &Counted) -> Counted {
        let times = self.times.iter().zip(&before.times).map(|(now, then)| now.saturating_sub(*then));
        Counted {
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            faults: self.faults.saturating_sub(before.faults),
            nanoseconds: self.nanoseconds.saturating_sub(before.nanoseconds),
            times: times.collect(),
        }
    }

    /// Part of the requests that failed; 0 without any.
    pub fn error_rate(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.errors as f64 / self.requests as f64 }
    }

    /// How long they took on the average.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.checked_div(self.requests).unwrap_or(0))
    }

    /// How long at most this part of them took, to an eighth of that.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (self.requests as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.times.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        reached.map(|bucket| Duration::from_nanos(end(bucket))).unwrap_or_default()
    }

    /// How many took longer than this, as far as their buckets tell.
    pub fn longer_than(&self, time: Duration) -> u64 {
        self.times.iter().skip(bucket(nanoseconds(time)) + 1).sum()
    }

    #[cfg(test)]
    pub fn of(requests: impl IntoIterator<Item = (bool, Duration)>) -> Counted {
        let figures = Figures::new();
        for (error, time) in requests {
            figures.ended(Side::Candidate, error, false, time);
        }
        figures.of(Side::Candidate)
    }
}

/// Which bucket a time is in: its highest bit, and the [`FINE`] ones below that.
fn bucket(nanoseconds: u64) -> usize {
    let Some(highest) = nanoseconds.checked_ilog2().filter(|highest| *highest >= SHORTEST) else { return 0 };
    let below = (nanoseconds >> (highest - FINE)) as usize & ((1 << FINE) - 1);
    (((highest - SHORTEST) << FINE) as usize + below).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn end(bucket: usize) -> u64 {
    let (octave, below) = (bucket >> FINE, (bucket & ((1 << FINE) - 1)) as u64);
    let shift = u32::try_from(octave).unwrap_or(0) + SHORTEST - FINE;
    (((1 << FINE) + below + 1) << shift) - 1
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_at_most_an_eighth_later() {
        for time in [1024, 1500, 10_000, 123_456, 1_000_000, 987_654_321, 60_000_000_000, (1 << 44) - 1] {
            let end = end(bucket(time));
            assert!(end >= time && end <= time + time / 8, "{time} {end}");
            assert_eq!(bucket(end), bucket(time));
            assert_eq!(bucket(end + 1), (bucket(time) + 1).min(BUCKETS - 1));
        }
        assert_eq!((bucket(0), bucket(1), bucket(u64::MAX)), (0, 0, BUCKETS - 1));
    }

    #[test]
    fn threads_lose_nothing_and_sides_are_apart() {
        let figures = Figures::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..1000u64 {
                        figures.ended(Side::Current, false, false, Duration::from_micros(n));
                        figures.ended(Side::Candidate, n % 10 == 0, n % 100 == 0, Duration::from_millis(n));
                        figures.compared(Compared::Differs);
                    }
                });
            }
        });
        let (current, candidate) = (figures.of(Side::Current), figures.of(Side::Candidate));
        assert_eq!((current.requests, current.errors, current.faults), (4000, 0, 0));
        assert_eq!((candidate.requests, candidate.errors, candidate.faults), (4000, 400, 40));
        assert_eq!(candidate.mean(), Duration::from_micros(499_500));
        for (milliseconds, expected) in [(0, 3996..=3999), (500, 1740..=1999), (1000, 0..=0)] {
            let longer = candidate.longer_than(Duration::from_millis(milliseconds));
            assert!(expected.contains(&longer), "{milliseconds}: {longer}");
        }
        let p99 = candidate.quantile(0.99);
        assert!((990..=1114).contains(&p99.as_millis()), "{p99:?}");
        assert_eq!(figures.of_compared(Compared::Differs), 4000);
        assert_eq!(figures.of_compared(Compared::Same), 0);
        let none = candidate.since(&candidate);
        assert_eq!((none.requests, none.error_rate(), none.quantile(0.5)), (0, 0.0, Duration::ZERO));
        assert_eq!(none.mean(), Duration::ZERO);
    }
}
