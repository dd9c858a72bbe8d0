//! The buckets of durations, and the counters of an endpoint as numbers.
//!
//! In: what a tally has counted. Out: [`Totals`], from which timelines are made.

use crate::error::Stage;

/// Nanoseconds, upper ends of the buckets. From what an iris request takes to the default request timeout.
pub(super) const BOUNDS: [u64; 17] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
    30_000_000_000,
];

/// The buckets of durations, and the stages of a request.
pub(super) const BUCKETS: usize = BOUNDS.len() + 1;
pub(super) const STAGES: usize = Stage::ALL.len();

/// The counters of an endpoint since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests whose client went away.
    pub cancelled: u64,
    /// Nanoseconds in each stage, in the order of the flow.
    pub stages: [u64; STAGES],
    /// Durations by bucket.
    pub durations: [u64; BUCKETS],
}

impl Totals {
    /// The requests since `before`. Counters that begin again have come from zero.
    pub(super) fn since(&self, before: &Totals) -> Totals {
        if self.requests() < before.requests() {
            return self.clone();
        }
        let less = |now: u64, then: u64| now.saturating_sub(then);
        let each = |(now, then): (&u64, &u64)| less(*now, *then);
        let mut durations = self.durations.iter().zip(&before.durations).map(each);
        let mut stages = self.stages.iter().zip(&before.stages).map(each);
        Totals {
            answered: less(self.answered, before.answered),
            failed: less(self.failed, before.failed),
            cancelled: less(self.cancelled, before.cancelled),
            stages: [(); STAGES].map(|()| stages.next().unwrap_or_default()),
            durations: [(); BUCKETS].map(|()| durations.next().unwrap_or_default()),
        }
    }

    /// All requests that have ended.
    pub fn requests(&self) -> u64 {
        self.answered + self.failed + self.cancelled
    }
}
