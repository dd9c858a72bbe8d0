//! What a handler's calls have lately been like: long, or with large results, or with long work of the host.
//!
//! Place in the flow: told by [`Call`](super::Call) and by who copies results; asked when a call begins, and
//! when it goes on. In: ticks and bytes. Out: whether the thread gives its worker's place away first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::blocking::{self, Lately};

/// Whether a handler's calls have lately been long, or their results large.
#[derive(Debug, Default)]
pub(in crate::plugin) struct LongCallTracker {
    /// Raised by every long call, lowered by every short one; above zero, calls begin off the worker.
    pub(super) long: AtomicU32,
    results: Lately,
    /// Work of the host inside of calls of the guest's.
    pub(super) of_host: Arc<Lately>,
}

impl LongCallTracker {
    /// How many short calls make up for a long one.
    pub(super) const WEIGHT: u32 = 4;
    /// How far long calls add up.
    const MOST: u32 = 16;

    /// A call is about to enter the guest on this thread, with so many bytes to copy there.
    pub(in crate::plugin) fn begin(&self, given: usize) {
        if self.long.load(Ordering::Relaxed) > 0 || self.results.is_large(given) {
            blocking::leave_worker();
        }
    }

    /// So many bytes were copied from the guest.
    pub(in crate::plugin) fn returned(&self, bytes: usize) {
        self.results.returned(bytes);
    }

    /// A call has turned out to be long.
    pub(super) fn long(&self) {
        let raise = |long: u32| Some((long + Self::WEIGHT).min(Self::MOST));
        let _ = self.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
    }

    pub(super) fn end(&self, was_long: bool) {
        // The usual case, a short call of a handler without long ones, writes nothing.
        if !was_long && self.long.load(Ordering::Relaxed) > 0 {
            let lower = |long: u32| long.checked_sub(1);
            let _ = self.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }
}
