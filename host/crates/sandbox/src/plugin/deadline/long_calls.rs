//! What a handler's calls have lately been like: long, or with large results, or with long work of the host.
//!
//! Place in the flow: told by [`Call`](super::Call), by what polls it, and by what copies results; asked when
//! a call begins, and when it goes on. In: ticks, CPU time and bytes. Out: whether the call waits for a turn
//! first, and whether the thread gives its worker's place away.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::thread_time;
use crate::blocking::{self, Lately};
use crate::plugin::turns::CpuAccount;

/// CPU time between two waits from which on a handler's calls take turns, and below which they do so no more.
/// A turn costs one or two microseconds.
const HEAVY: [Duration; 2] = [Duration::from_micros(150), Duration::from_micros(75)];
/// From which on they run on threads of their own: handing a worker's place over costs more than a tenth of
/// a millisecond.
const APART: Duration = Duration::from_millis(2);
/// Of the polls of a thread, one in so many is measured. Odd: calls of a request come in pairs.
const SAMPLE: u32 = 7;

/// The calls that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs on the thread that serves its request.
    Short,
    /// Runs on a thread of its own.
    Long,
}

/// Whether a handler's calls have lately been long, or their results large.
#[derive(Debug)]
pub(in crate::plugin) struct LongCallTracker {
    /// Raised by every long call, lowered by every short one; above zero, calls begin off the worker.
    pub(super) long: AtomicU32,
    /// CPU time between two waits, in nanoseconds: an exponential average.
    average: AtomicU32,
    /// Whether calls take turns.
    is_heavy: AtomicBool,
    results: Lately,
    /// Work of the host inside of calls of the guest's.
    pub(super) of_host: Lately,
    /// Of the processors.
    pub(super) account: Arc<CpuAccount>,
}

impl LongCallTracker {
    /// How many short calls make up for a long one.
    pub(super) const WEIGHT: u32 = 4;
    /// How far long calls add up.
    const MOST: u32 = 16;

    /// Of a handler of this weight among the others.
    pub(in crate::plugin) fn new(weight: u32) -> Arc<LongCallTracker> {
        Arc::new(LongCallTracker {
            long: AtomicU32::default(),
            average: AtomicU32::default(),
            is_heavy: AtomicBool::default(),
            results: Lately::default(),
            of_host: Lately::default(),
            account: CpuAccount::new(weight),
        })
    }

    /// A call is about to enter the guest on this thread, with so many bytes to copy there.
    pub(in crate::plugin) fn begin(&self, given: usize) {
        if self.results.is_large(given) {
            blocking::leave_worker();
        }
    }

    /// The kind of turn that a call takes before it goes on; `None` if it takes none.
    #[inline]
    pub(super) fn kind(&self) -> Option<Kind> {
        if self.long.load(Ordering::Relaxed) > 0 {
            return Some(Kind::Long);
        }
        if !self.is_heavy.load(Ordering::Relaxed) {
            return None;
        }
        let is_apart = Duration::from_nanos(self.average.load(Ordering::Relaxed).into()) >= APART;
        Some(if is_apart { Kind::Long } else { Kind::Short })
    }

    /// The thread's clock at the beginning of a poll that is measured: one in some, or each that has a turn.
    #[inline]
    pub(super) fn sample(has_turn: bool) -> Option<u64> {
        thread_local!(static POLLS: Cell<u32> = const { Cell::new(0) });
        let polls = POLLS.get().wrapping_add(1);
        POLLS.set(if polls == SAMPLE { 0 } else { polls });
        (has_turn || polls == SAMPLE).then(thread_time)
    }

    /// A poll that was measured has ended. `charged`: of one with a turn, what its account paid before.
    pub(super) fn polled(&self, begun: u64, charged: Option<u64>) {
        let took = thread_time().saturating_sub(begun);
        if let Some(charged) = charged {
            self.account.used(took.saturating_sub(charged));
        }
        let (took, average) = (i64::try_from(took).unwrap_or(i64::MAX), self.average.load(Ordering::Relaxed));
        let next = i64::from(average).saturating_add(took.saturating_sub(average.into()) / 4);
        let next = u32::try_from(next).unwrap_or(u32::MAX);
        self.average.store(next, Ordering::Relaxed);
        let [begins, ends] = HEAVY;
        let (is_heavy, next) = (self.is_heavy.load(Ordering::Relaxed), Duration::from_nanos(next.into()));
        if is_heavy != (next >= if is_heavy { ends } else { begins }) {
            self.is_heavy.store(!is_heavy, Ordering::Relaxed);
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
