//! How many sequences there are, for the metrics.
//!
//! Place in the flow: beside it. In: the sequences of a handle. Out: two numbers.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Sequences;

impl Sequences {
    /// Sequences that have begun and not ended, without those that have been idle for too long; bytes of the
    /// state of all that are held.
    pub fn figures(&self) -> (usize, usize) {
        let now = Instant::now();
        let count = self.running().entries.values().filter(|entry| !self.is_over(entry, now)).count();
        (count, self.bytes.load(Ordering::Relaxed))
    }
}
