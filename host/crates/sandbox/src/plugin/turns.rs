//! Turns on the processors, for guest calls that compute for long.
//!
//! Place in the flow: a call of a handler whose calls take long waits for a turn before it enters the guest
//! ([`super::deadline`]): as a task if it runs on the thread that serves its request, else as a thread. As
//! many run at the same time as there are processors; the others wait, each in its handler's own line. The
//! line that goes on is that of the handler that has used the least CPU time for its weight (stride
//! scheduling, Waldspurger and Weihl 1995): a handler with five hundred calls that wait costs one with a
//! single call one turn.
//! Invariants: short calls of handlers without long ones never come here; a handler that comes back after a
//! pause has no time saved up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};

use crate::blocking;

/// Ticks after which a call that runs lets one that waits take its place.
pub(super) const LENGTH: u64 = 5;

/// The turns of a process.
#[derive(Debug)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Turns that are free.
    free: usize,
    /// The CPU time by weight of the handler that was called last: where one begins that comes anew.
    clock: u64,
    /// The lines in which calls wait.
    lines: Vec<Line>,
}

/// The calls of one handler that wait, in order of arrival.
#[derive(Debug)]
struct Line {
    account: Arc<CpuAccount>,
    waiting: VecDeque<Waiter>,
}

/// The part of the processors that a handler has had.
#[derive(Debug)]
pub(super) struct CpuAccount {
    weight: u32,
    /// CPU time in nanoseconds by weight, or where it began if that is later.
    used: AtomicU64,
}

#[derive(Debug)]
struct Waiter {
    is_called: Arc<AtomicBool>,
    wake: Wake,
}

#[derive(Debug)]
enum Wake {
    Task(Waker),
    Thread(Thread),
}

/// The place of a call in its line that waits as a task.
#[derive(Debug)]
pub(super) struct Ticket(Arc<AtomicBool>);

impl CpuAccount {
    /// A handler's, of this weight among the others.
    pub(super) fn new(weight: u32) -> Arc<CpuAccount> {
        Arc::new(CpuAccount { weight: weight.max(1), used: AtomicU64::new(0) })
    }

    /// So many nanoseconds of CPU time were used.
    pub(super) fn used(&self, nanoseconds: u64) {
        self.used.fetch_add(nanoseconds / u64::from(self.weight), Ordering::Relaxed);
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns::of(thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Turns {
    fn of(processors: usize) -> Turns {
        Turns(Mutex::new(State { free: processors, clock: 0, lines: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, which [`Turns::end`] ends. `ticket`: the call's place while it waits; a call
    /// that no longer wants its turn leaves by [`Turns::leave`].
    pub(super) fn poll_take(
        &self,
        account: &Arc<CpuAccount>,
        ticket: &mut Option<Ticket>,
        context: &Context<'_>,
    ) -> Poll<()> {
        let mut state = self.state();
        if let Some(Ticket(is_called)) = ticket {
            if is_called.load(Ordering::Acquire) {
                *ticket = None;
                return Poll::Ready(());
            }
            if let Some(Waiter { wake: Wake::Task(waker), .. }) = state.find(is_called) {
                waker.clone_from(context.waker());
            }
            return Poll::Pending;
        }
        if state.take(account) {
            return Poll::Ready(());
        }
        let is_called = state.wait(account, Wake::Task(context.waker().clone()));
        *ticket = Some(Ticket(is_called));
        Poll::Pending
    }

    /// The same for the thread that runs a call, which waits for it.
    pub(super) fn take(&self, account: &Arc<CpuAccount>) {
        let mut state = self.state();
        if state.take(account) {
            return;
        }
        let is_called = state.wait(account, Wake::Thread(thread::current()));
        drop(state);
        blocking::off_worker(|| {
            while !is_called.load(Ordering::Acquire) {
                thread::park();
            }
        });
    }

    /// Ends a turn.
    pub(super) fn end(&self) {
        let called = self.state().end();
        match called {
            Some(Wake::Task(waker)) => waker.wake(),
            Some(Wake::Thread(thread)) => thread.unpark(),
            None => {}
        }
    }

    /// Lets the next one go first, if any waits.
    pub(super) fn offer(&self, account: &Arc<CpuAccount>) {
        if !self.state().lines.is_empty() {
            self.end();
            self.take(account);
        }
    }

    /// A call that waits as a task, or was called and has not gone on, does not want its turn any more.
    pub(super) fn leave(&self, ticket: &Ticket) {
        let mut state = self.state();
        if !ticket.0.load(Ordering::Acquire) {
            state.remove(&ticket.0);
            return;
        }
        drop(state);
        self.end();
    }
}

impl State {
    /// Takes a turn that is free.
    fn take(&mut self, account: &CpuAccount) -> bool {
        if self.free == 0 {
            return false;
        }
        self.free -= 1;
        self.clock = self.begin(account);
        true
    }

    /// Where the handler begins: what it has used, but no less than those who were here meanwhile.
    fn begin(&self, account: &CpuAccount) -> u64 {
        account.used.fetch_max(self.clock, Ordering::Relaxed).max(self.clock)
    }

    /// Joins the handler's line.
    fn wait(&mut self, account: &Arc<CpuAccount>, wake: Wake) -> Arc<AtomicBool> {
        let is_called = Arc::new(AtomicBool::new(false));
        let waiter = Waiter { is_called: is_called.clone(), wake };
        match self.lines.iter_mut().find(|line| Arc::ptr_eq(&line.account, account)) {
            Some(line) => line.waiting.push_back(waiter),
            None => {
                self.begin(account);
                let waiting = VecDeque::from([waiter]);
                self.lines.push(Line { account: account.clone(), waiting });
            }
        }
        is_called
    }

    fn find(&mut self, is_called: &Arc<AtomicBool>) -> Option<&mut Waiter> {
        let mut waiting = self.lines.iter_mut().flat_map(|line| &mut line.waiting);
        waiting.find(|waiter| Arc::ptr_eq(&waiter.is_called, is_called))
    }

    fn remove(&mut self, is_called: &Arc<AtomicBool>) {
        for line in &mut self.lines {
            line.waiting.retain(|waiter| !Arc::ptr_eq(&waiter.is_called, is_called));
        }
        self.lines.retain(|line| !line.waiting.is_empty());
    }

    /// Gives a turn that has ended to the first call of the handler that has used the least.
    fn end(&mut self) -> Option<Wake> {
        let used = |line: &Line| line.account.used.load(Ordering::Relaxed);
        let next = self.lines.iter().enumerate().min_by_key(|(_, line)| used(line)).map(|(at, _)| at);
        let Some((at, line)) = next.and_then(|at| Some((at, self.lines.get_mut(at)?))) else {
            self.free += 1;
            return None;
        };
        self.clock = self.clock.max(used(line));
        let waiter = line.waiting.pop_front();
        if line.waiting.is_empty() {
            self.lines.swap_remove(at);
        }
        waiter.map(|waiter| {
            waiter.is_called.store(true, Ordering::Release);
            waiter.wake
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn no_more_run_than_may_and_all_come_to_their_turn() {
        let (turns, running, most) = (Turns::of(2), AtomicUsize::new(0), AtomicUsize::new(0));
        let account = CpuAccount::new(1);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    turns.take(&account);
                    for _ in 0..50 {
                        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        turns.offer(&account);
                    }
                    turns.end();
                });
            }
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(turns.state().free, 2);
    }

    /// The handlers of the calls that get a turn, one after another, each of which uses a millisecond.
    fn order(turns: &Turns, accounts: &[Arc<CpuAccount>], calls: &[usize]) -> Vec<usize> {
        let context = Context::from_waker(Waker::noop());
        let mut tickets: Vec<Option<Ticket>> = calls.iter().map(|_| None).collect();
        let _ = turns.poll_take(&CpuAccount::new(1), &mut None, &context);
        let poll = |call: usize, ticket: &mut Option<Ticket>| {
            let account = &accounts[calls[call]];
            turns.poll_take(account, ticket, &context).is_ready()
        };
        for (call, ticket) in tickets.iter_mut().enumerate() {
            assert!(!poll(call, ticket));
        }
        let (mut order, mut waiting): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..calls.len()).collect());
        while !waiting.is_empty() {
            turns.end();
            let ready: Vec<usize> =
                waiting.iter().copied().filter(|call| poll(*call, &mut tickets[*call])).collect();
            let [call] = ready[..] else { panic!("{ready:?} have a turn") };
            waiting.retain(|other| *other != call);
            accounts[calls[call]].used(1_000_000);
            order.push(calls[call]);
        }
        turns.end();
        assert!(turns.state().lines.is_empty());
        order
    }

    #[test]
    fn a_crowd_of_one_handler_costs_another_one_turn() {
        let turns = Turns::of(1);
        let accounts = [CpuAccount::new(1), CpuAccount::new(1)];
        assert_eq!(order(&turns, &accounts, &[0, 0, 0, 0, 1, 1]), [0, 1, 0, 1, 0, 0]);
        // The second was away meanwhile, and has not saved up time.
        assert_eq!(order(&turns, &accounts, &[0, 0, 0, 0]), [0; 4]);
        assert_eq!(order(&turns, &accounts, &[0, 0, 0, 1, 1, 1]), [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn weights_are_parts_of_the_processors() {
        let accounts = [CpuAccount::new(3), CpuAccount::new(1)];
        let order = order(&Turns::of(1), &accounts, &[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(order[..8].iter().filter(|handler| **handler == 0).count(), 6, "{order:?}");
    }

    #[test]
    fn a_call_that_leaves_holds_nothing() {
        let (turns, account, context) =
            (Turns::of(1), CpuAccount::new(1), Context::from_waker(Waker::noop()));
        let take = |ticket: &mut Option<Ticket>| turns.poll_take(&account, ticket, &context);
        assert!(take(&mut None).is_ready());
        let (mut waits, mut called) = (None, None);
        assert!(take(&mut called).is_pending() && take(&mut waits).is_pending());
        turns.end();
        turns.leave(&waits.take().unwrap());
        turns.leave(&called.take().unwrap());
        assert_eq!(turns.state().free, 1);
        assert!(turns.state().lines.is_empty());
        turns.take(&account);
        assert!(take(&mut waits).is_pending(), "calls on threads of their own have the same turns");
        turns.end();
        assert!(take(&mut waits).is_ready());
    }
}
