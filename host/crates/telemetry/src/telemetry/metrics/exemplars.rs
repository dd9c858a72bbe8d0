//! Exemplars: of each bucket of an endpoint's durations, the trace of a request that fell into it.
//!
//! In: requests that are sampled, when they are over. Out: the last of each bucket.
//! Invariants: a request that finds an exemplar being written leaves none, and waits for nothing; an exemplar
//! stays for [`LEAST`], so that a scrape finds it.

use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use super::totals::BUCKETS;
use crate::time::since_1970;
use crate::trace::TraceId;

/// How long an exemplar stays.
const LEAST: Duration = Duration::from_millis(500);

/// A request of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exemplar {
    pub trace: TraceId,
    /// Its duration.
    pub seconds: f64,
    /// When it ended, since 1970.
    pub at: Duration,
}

/// The exemplars of one endpoint.
#[derive(Default)]
pub(super) struct BucketExemplars([Slot; BUCKETS]);

type Slot = Mutex<Option<(Instant, Exemplar)>>;

impl BucketExemplars {
    /// A request of this bucket has ended.
    pub(super) fn put(&self, bucket: usize, trace: TraceId, took: Duration) {
        let Some(Ok(mut slot)) = self.0.get(bucket).map(Mutex::try_lock) else { return };
        if slot.as_ref().is_none_or(|(put, _)| put.elapsed() >= LEAST) {
            let (seconds, at) = (took.as_secs_f64(), since_1970(SystemTime::now()));
            *slot = Some((Instant::now(), Exemplar { trace, seconds, at }));
        }
    }

    /// Those that there are, each with its bucket.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, Exemplar)> {
        let read = |slot: &Slot| match slot.try_lock() {
            Ok(slot) => slot.as_ref().map(|(_, exemplar)| *exemplar),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.get_ref().as_ref().map(|(_, it)| *it),
            Err(TryLockError::WouldBlock) => None,
        };
        self.0.iter().enumerate().filter_map(move |(bucket, slot)| Some((bucket, read(slot)?)))
    }
}
