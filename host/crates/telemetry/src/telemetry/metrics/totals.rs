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

/// The counters of an endpoint since the start. Whose fault it was is told by the status, of the server's
/// answers and of a handler's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that were answered with a status below 400.
    pub answered: u64,
    /// Those of 400 to 499: the caller has to change something.
    pub refused: u64,
    /// Those of 500 and above.
    pub failed: u64,
    /// Requests whose client went away.
    pub cancelled: u64,
    /// From arrival to answer.
    pub durations: Spread,
    /// In each stage, in the order of the flow.
    pub stages: [Spread; STAGES],
}

/// How many durations each bucket has, and all of them added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    /// In the order of the bounds, the last for those above.
    pub buckets: [u64; BUCKETS],
    /// Nanoseconds.
    pub sum: u64,
}

impl Totals {
    /// The requests since `before`. Counters that begin again have come from zero.
    pub(super) fn since(&self, before: &Totals) -> Totals {
        if self.requests() < before.requests() {
            return self.clone();
        }
        let mut stages = self.stages;
        stages.iter_mut().zip(&before.stages).for_each(|(stage, before)| *stage = stage.since(before));
        Totals {
            answered: self.answered.saturating_sub(before.answered),
            refused: self.refused.saturating_sub(before.refused),
            failed: self.failed.saturating_sub(before.failed),
            cancelled: self.cancelled.saturating_sub(before.cancelled),
            durations: self.durations.since(&before.durations),
            stages,
        }
    }

    /// All requests that have ended.
    pub fn requests(&self) -> u64 {
        self.answered + self.refused + self.failed + self.cancelled
    }
}

impl Spread {
    fn since(mut self, before: &Spread) -> Spread {
        let buckets = self.buckets.iter_mut().zip(&before.buckets);
        buckets.for_each(|(count, before)| *count = count.saturating_sub(*before));
        Spread { sum: self.sum.saturating_sub(before.sum), ..self }
    }
}
