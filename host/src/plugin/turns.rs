//! Turns on the processors, for guest calls that take long.
//!
//! Place in the flow: a call that has left its async worker takes a turn before it goes on
//! ([`super::deadline`]). As many calls run at the same time as there are processors; the others wait in
//! order of arrival. However many handlers compute, the threads that serve requests so compete with a few of
//! them, and not with a crowd.
//! Invariants: short calls never come here; a turn ends with the poll in which it was taken, and is offered
//! to others every [`LENGTH`] ticks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use crate::blocking;

/// Ticks after which a call that runs lets one that waits take its place.
pub(super) const LENGTH: u64 = 5;

/// A semaphore that is fair.
#[derive(Debug)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    is_called: AtomicBool,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns::of(thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Turns {
    fn of(processors: usize) -> Turns {
        Turns(Mutex::new(State { free: processors, waiting: VecDeque::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn, which [`Turns::end`] ends.
    pub(super) fn take(&self) {
        let mut state = self.state();
        if state.free > 0 {
            state.free -= 1;
            return;
        }
        let waiter = Arc::new(Waiter { thread: thread::current(), is_called: AtomicBool::new(false) });
        state.waiting.push_back(waiter.clone());
        drop(state);
        blocking::off_worker(|| {
            while !waiter.is_called.load(Ordering::Acquire) {
                thread::park();
            }
        });
    }

    /// Ends a turn.
    pub(super) fn end(&self) {
        let mut state = self.state();
        match state.waiting.pop_front() {
            Some(next) => {
                next.is_called.store(true, Ordering::Release);
                next.thread.unpark();
            }
            None => state.free += 1,
        }
    }

    /// Lets one that waits go first, if there is one.
    pub(super) fn offer(&self) {
        if !self.state().waiting.is_empty() {
            self.end();
            self.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn no_more_run_than_may_and_all_come_to_their_turn() {
        let (turns, running, most) = (Arc::new(Turns::of(2)), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    turns.take();
                    for _ in 0..50 {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        turns.offer();
                    }
                    turns.end();
                });
            }
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(turns.state().free, 2);
    }
}
