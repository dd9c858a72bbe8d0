//! Keeps a core for models that answer in milliseconds while slow ones work.
//!
//! Flow: a runner of a slow model asks before each run, [`begin`]; a run of any other model says that it
//! happened, [`note_fast_run`].
//!
//! A run cannot be interrupted. Even at a lower priority, a run of seconds delays a thread that wants its
//! core by a tick of the kernel's scheduler, milliseconds at a time. So while faster models are in use, slow
//! runs together leave one core alone; otherwise they take all of them.
//!
//! Invariants: one slow run is always allowed, so nothing waits for ever; the fast side pays one relaxed load
//! a run, and a store once a millisecond.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How long after its last run a faster model still counts as in use.
const RECENT: Duration = Duration::from_secs(1);

/// How often a slow run that waits looks whether they still are.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Where times are counted from.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When a model that is not slow last ran: milliseconds after [`EPOCH`], plus one; 0 for never.
static FAST_RUN: AtomicU64 = AtomicU64::new(0);

/// Cores that slow runs take now.
static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// Cores that a slow run has; given back when dropped.
#[derive(Debug)]
pub struct CorePermit(usize);

/// A model that is not slow runs now.
pub fn note_fast_run(now: Instant) {
    let now = stamp(now);
    // Written once a millisecond at most, so that the threads that read it keep it in their caches.
    if FAST_RUN.load(Ordering::Relaxed) != now {
        FAST_RUN.store(now, Ordering::Relaxed);
    }
}

/// Waits until a slow run may have `cores`.
pub fn begin(cores: usize) -> CorePermit {
    let machine = available_parallelism().map_or(1, NonZero::get);
    let mut taken = lock();
    while !may_run(*taken, cores, machine, fast_models_are_in_use()) {
        taken = FREED.wait_timeout(taken, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
    }
    *taken += cores;
    CorePermit(cores)
}

/// Whether a slow run of `cores` may begin beside others that have `taken` some of the `machine`'s.
fn may_run(taken: usize, cores: usize, machine: usize, contended: bool) -> bool {
    taken == 0 || !contended || taken + cores < machine
}

fn fast_models_are_in_use() -> bool {
    let last = FAST_RUN.load(Ordering::Relaxed);
    let recent = u64::try_from(RECENT.as_millis()).unwrap_or(u64::MAX);
    last > 0 && stamp(Instant::now()).saturating_sub(last) < recent
}

fn stamp(now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(*EPOCH).as_millis()).map_or(u64::MAX, |time| time + 1)
}

fn lock() -> MutexGuard<'static, usize> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for CorePermit {
    fn drop(&mut self) {
        *lock() -= self.0;
        FREED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_runs_leave_a_core_alone_while_others_want_it() {
        for (taken, cores, machine, contended, expected) in [
            // No other run is there.
            (1, 1, 2, false, true),
            (2, 1, 2, false, true),
            // One of two cores; three of four; never none.
            (0, 1, 2, true, true),
            (1, 1, 2, true, false),
            (2, 1, 4, true, true),
            (3, 1, 4, true, false),
            (0, 1, 1, true, true),
            (0, 8, 4, true, true),
            // A run with several threads.
            (8, 4, 16, true, true),
            (12, 4, 16, true, false),
        ] {
            assert_eq!(
                may_run(taken, cores, machine, contended),
                expected,
                "{taken} {cores} {machine} {contended}"
            );
        }
    }

    #[test]
    fn a_share_is_given_back() {
        drop(begin(1));
        let first = begin(1);
        note_fast_run(Instant::now());
        assert!(fast_models_are_in_use());
        assert_eq!(*lock(), 1);
        drop(first);
        assert_eq!(*lock(), 0);
    }
}
