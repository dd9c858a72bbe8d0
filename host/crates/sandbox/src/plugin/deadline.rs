//! Time limits of guest calls, and the fair use of the async threads.
//!
//! One background thread counts ticks of two milliseconds, and advances the engines' epochs with each.
//! Compiled guest code compares the epoch at loop heads, function entries and before long operations on
//! memory; every call from the guest into the host compares the ticks. Both end in [`Call::look`], so
//! that no guest code, however it is laid out, runs for long without it. There a call
//! - that has used the CPU time it may ends with a trap, which ends one request. What counts is the clock of
//!   the thread: on a busy machine a handler is not charged for the work of others. A limit on the time that
//!   passes, waits included, lies beside it;
//! - may else go on, but not on a thread that serves other requests. A guest call starts on an async worker
//!   because it usually takes microseconds; one that is still running at the second tick hands the worker's
//!   place to another thread ([`blocking::leave_worker`]) and from then on competes for the CPU as any other
//!   OS thread does. A handler whose calls have lately done that leaves the worker before it even begins
//!   ([`LongCallTracker`]): a crowd of such calls would otherwise fight for the CPU with the very threads
//!   that have to let them go.
//!
//! What the host computes inside of one call of the guest's is not looked at before it ends: lists
//! that are lifted, tensors that are checked. Where that took as long as a long call, the handler's
//! calls begin and go on off the workers for a hundred times as long ([`blocking::Lately`]): however much a
//! guest hands over, and however it waits between two such calls, it takes a hundredth of a worker's time.
//!
//! Calls that are long take turns on the processors ([`super::turns`]), so that a crowd of them leaves some
//! to the threads that serve requests. So do calls of a handler that compute for a good part of a
//! millisecond, before they begin: sixty of them that are ready at the same time would else be sixty tasks
//! before each step of a neighbour's request. Their turn passes on only after all that was ready meanwhile
//! has run ([`Scheduler::end_short_turn`]).
//!
//! The thread rests while no guest runs: what begins or goes on with guest code says so first. So a slow
//! handler costs its neighbours at most three ticks once, however long it runs, and a fast one pays next to
//! nothing: its calls end before the first tick, and the thread's clock is read at one in seven.

mod long_calls;
mod metered;
mod ticker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use self::long_calls::Kind;
pub(super) use self::long_calls::LongCallTracker;
pub(super) use self::metered::{metered, stream_metered};
use self::ticker::TICK;
pub(super) use self::ticker::{Scheduler, start_ticker};
use super::turns::{self, Ticket};
use crate::blocking;

/// Epochs from the start of a call to its first [`Call::look`]: between one and two ticks of time.
pub(super) const FIRST_TICKS: u64 = 2;

/// Ticks after which a call is long. Not at the first look: a short call that the kernel interrupted for some
/// milliseconds ends right after it.
const LONG: u64 = FIRST_TICKS + 1;

/// A guest call that ran past a limit on its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum DeadlineExceeded {
    /// It used the CPU time that it may.
    #[error("deadline exceeded")]
    Cpu,
    /// More time has passed than may, the guest's waits included.
    #[error("deadline exceeded")]
    Wall,
}

/// The time that a call may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    /// CPU time of the guest, and of what the host computes for it.
    pub(super) cpu: Duration,
    /// When it ends at the latest.
    pub(super) until: Instant,
}

/// The current call of an instance.
#[derive(Debug)]
pub(super) struct Call {
    allowed: Allowed,
    begun: Instant,
    /// The tick in which it began.
    first: u64,
    /// Ticks that had passed at the last look.
    passed: u64,
    /// Ticks after which it is asked again to leave the worker.
    leaves: u64,
    /// Of a stream: how often it had gone on after a wait when that was last looked at.
    resumed: u32,
    meter: Arc<Meter>,
}

impl Call {
    /// Before the first call of an instance of a handler with these long calls.
    pub(super) fn new(allowed: Allowed, scheduler: &Scheduler, long_calls: &Arc<LongCallTracker>) -> Call {
        let first = scheduler.now();
        let meter = Meter::new(scheduler, long_calls);
        Call { allowed, begun: Instant::now(), first, passed: 0, leaves: LONG, resumed: 0, meter }
    }

    /// A call begins, `now`.
    pub(super) fn begin(&mut self, now: Instant, allowed: Allowed, scheduler: &Scheduler) {
        self.allowed = allowed;
        self.meter.reset();
        self.count_from(now, scheduler);
    }

    /// Counts ticks from `now` on.
    fn count_from(&mut self, now: Instant, scheduler: &Scheduler) {
        self.begun = now;
        self.first = scheduler.now();
        self.passed = 0;
        self.leaves = LONG;
        self.meter.waited.store(0, Ordering::Relaxed);
    }

    /// The call that has begun serves a stream: `allowed` holds anew whenever it goes on after a wait.
    pub(super) fn begin_stream(&mut self, allowed: Allowed) {
        self.allowed = allowed;
        self.resumed = 0;
        self.meter.is_stream.store(true, Ordering::Relaxed);
    }

    /// Whether a stream has gone on after a wait since this was last asked: then it is like a call that
    /// begins.
    pub(super) fn has_resumed(&mut self, scheduler: &Scheduler) -> bool {
        let resumed = self.meter.resumed.load(Ordering::Relaxed);
        if resumed == self.resumed {
            return false;
        }
        self.resumed = resumed;
        self.count_from(Instant::now(), scheduler);
        true
    }

    /// The meter of the code that polls the call.
    pub(super) fn meter(&self) -> Arc<Meter> {
        self.meter.clone()
    }

    /// The time that it has taken so far, to the accuracy of some ticks: CPU time, and time that has passed.
    pub(super) fn taken(&self) -> (Duration, Duration) {
        (self.meter.used(), self.begun.elapsed())
    }

    /// Looks whether a new tick has come. Called whenever the guest calls the host.
    ///
    /// # Errors
    /// As [`Call::look`].
    pub(super) fn glance(&mut self, scheduler: &Scheduler) -> Result<(), DeadlineExceeded> {
        let passed = self.ticks(scheduler);
        if passed < FIRST_TICKS || passed == self.passed { Ok(()) } else { self.look(scheduler) }
    }

    /// Ticks since it began, but for those in which it waited for a turn.
    fn ticks(&self, scheduler: &Scheduler) -> u64 {
        let waited = self.meter.waited.load(Ordering::Relaxed);
        scheduler.now().saturating_sub(self.first).saturating_sub(waited)
    }

    /// Decides what becomes of a call that is still running.
    ///
    /// # Errors
    /// It has run as long as it may.
    pub(super) fn look(&mut self, scheduler: &Scheduler) -> Result<(), DeadlineExceeded> {
        scheduler.wake();
        let now = Instant::now();
        if now >= self.allowed.until || scheduler.is_stopped() {
            return Err(DeadlineExceeded::Wall);
        }
        self.meter.start();
        // It cannot have used more than has passed.
        if now.duration_since(self.begun) >= self.allowed.cpu && self.meter.used() >= self.allowed.cpu {
            return Err(DeadlineExceeded::Cpu);
        }
        self.passed = self.ticks(scheduler);
        // The first attempt nearly always succeeds. Should the new owner not have got a processor in time,
        // later ticks try again.
        if self.passed >= self.leaves {
            if self.leaves == LONG {
                // Said before the call has ended, for those that begin meanwhile.
                self.meter.long_calls.long();
            }
            self.leaves = self.passed + turns::LENGTH;
            blocking::leave_worker();
        }
        if self.passed >= LONG {
            self.meter.turn(self.passed);
        }
        Ok(())
    }

    /// The host begins to work for the guest, on this thread.
    pub(super) fn enter_host(&self) {
        self.meter.enter_host();
    }

    /// It has ended.
    pub(super) fn leave_host(&self) {
        self.meter.look_at_host();
        self.meter.in_host.store(0, Ordering::Relaxed);
    }

    /// The call has ended.
    pub(super) fn end(&self) {
        self.meter.long_calls.end(self.passed >= LONG);
    }
}

/// CPU time of one call: of its polls, each on the thread it happens on. And its turn.
#[derive(Debug)]
pub(super) struct Meter {
    scheduler: Scheduler,
    /// The tick of the call in which its turn was last offered to others; 0 if it has none.
    turn: AtomicU64,
    /// Whether it has a turn on the thread that serves its request.
    is_short: AtomicBool,
    /// Ticks in which the call waited for turns.
    waited: AtomicU64,
    /// Of the current poll's time, what the handler's account was charged already, in nanoseconds.
    charged: AtomicU64,
    /// Of the polls that have ended, in nanoseconds.
    ended: AtomicU64,
    /// The thread's clock when the current poll began, in nanoseconds; 0 if nothing has asked yet.
    begun: AtomicU64,
    /// Whether time is counted from the last wait on.
    is_stream: AtomicBool,
    /// How often a stream has gone on after a wait.
    resumed: AtomicU32,
    /// The tick after which the host began to work inside of a call of the guest's, or went on after a wait;
    /// 0 if it does not.
    in_host: AtomicU64,
    /// Of the handler.
    long_calls: Arc<LongCallTracker>,
}

impl Meter {
    fn new(scheduler: &Scheduler, long_calls: &Arc<LongCallTracker>) -> Arc<Meter> {
        let (scheduler, long_calls) = (scheduler.clone(), long_calls.clone());
        let (turn, is_short, waited, charged, ended, begun, is_stream, resumed, in_host) = Default::default();
        Arc::new(Meter {
            scheduler,
            turn,
            is_short,
            waited,
            charged,
            ended,
            begun,
            is_stream,
            resumed,
            in_host,
            long_calls,
        })
    }

    fn enter_host(&self) {
        self.in_host.store(self.scheduler.now() + 1, Ordering::Relaxed);
    }

    /// Notes what the host has done since, if that was long.
    fn look_at_host(&self) {
        let begun = self.in_host.load(Ordering::Relaxed);
        let passed = (self.scheduler.now() + 1).saturating_sub(begun);
        if begun > 0 && passed >= LONG {
            self.long_calls.of_host.took(TICK.saturating_mul(passed.try_into().unwrap_or(u32::MAX)));
        }
    }

    /// A long call wants to go on.
    fn turn(&self, passed: u64) {
        let (turns, account) = (self.scheduler.turns(), &self.long_calls.account);
        let (last, since) = (self.turn.load(Ordering::Relaxed), self.scheduler.now());
        if last == 0 {
            // The turn of a short call goes on as a long one's.
            if !self.is_short.swap(false, Ordering::Relaxed) {
                turns.take(account);
            }
        } else if passed >= last + turns::LENGTH {
            let ran = u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX).saturating_mul(turns::LENGTH);
            account.used(ran);
            self.charged.fetch_add(ran, Ordering::Relaxed);
            turns.offer(account);
        } else {
            return;
        }
        self.waited(since);
        self.turn.store(passed, Ordering::Relaxed);
    }

    /// A turn of this kind, from a call's beginning on, or after a wait; `ticket`: its place while it waits.
    fn poll_begin_turn(&self, kind: Kind, ticket: &mut Option<Ticket>, context: &Context<'_>) -> Poll<()> {
        let (turns, account) = (self.scheduler.turns(), &self.long_calls.account);
        if kind == Kind::Long && ticket.is_none() {
            // Before the turn: to hand a worker's place over takes longer than some calls.
            blocking::leave_worker();
            turns.take(account);
            self.turn.store(1, Ordering::Relaxed);
        } else {
            ready!(turns.poll_take(account, ticket, context));
            self.is_short.store(true, Ordering::Relaxed);
        }
        Poll::Ready(())
    }

    /// The call has waited for a turn since this tick.
    fn waited(&self, since: u64) {
        self.waited.fetch_add(self.scheduler.now().saturating_sub(since), Ordering::Relaxed);
    }

    fn end_turn(&self) {
        if self.turn.load(Ordering::Relaxed) > 0 {
            self.turn.store(0, Ordering::Relaxed);
            self.scheduler.turns().end();
        }
        if self.is_short.load(Ordering::Relaxed) {
            self.is_short.store(false, Ordering::Relaxed);
            self.scheduler.end_short_turn();
        }
    }

    fn reset(&self) {
        self.ended.store(0, Ordering::Relaxed);
        self.begun.store(0, Ordering::Relaxed);
        self.is_stream.store(false, Ordering::Relaxed);
        self.resumed.store(0, Ordering::Relaxed);
        self.in_host.store(0, Ordering::Relaxed);
    }

    /// Reads the clock for a first poll that has become long. It began up to two ticks ago, which are not
    /// charged.
    fn start(&self) {
        if self.begun.load(Ordering::Relaxed) == 0 {
            self.begun.store(thread_time(), Ordering::Relaxed);
        }
    }

    fn used(&self) -> Duration {
        let running = match self.begun.load(Ordering::Relaxed) {
            0 => 0,
            begun => thread_time().saturating_sub(begun),
        };
        Duration::from_nanos(self.ended.load(Ordering::Relaxed).saturating_add(running))
    }

    /// A poll that is not the first begins. That of a stream is like a first one: the thread's clock, a call
    /// of the system, is read only if it turns out to be long ([`Meter::start`]).
    fn resume(&self) {
        if self.in_host.load(Ordering::Relaxed) > 0 {
            self.enter_host();
        }
        if self.is_stream.load(Ordering::Relaxed) {
            let resumed = self.resumed.load(Ordering::Relaxed);
            self.resumed.store(resumed.wrapping_add(1), Ordering::Relaxed);
        } else {
            self.begun.store(thread_time(), Ordering::Relaxed);
        }
    }

    /// The guest waits: the thread's time is no longer its own. Of a stream nothing is kept of it.
    fn pause(&self) {
        if !self.is_stream.load(Ordering::Relaxed) {
            let used = u64::try_from(self.used().as_nanos()).unwrap_or(u64::MAX);
            self.ended.store(used, Ordering::Relaxed);
        }
        self.begun.store(0, Ordering::Relaxed);
    }
}

/// CPU time of this thread, in nanoseconds; never 0.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = Duration::try_from(time).map_or(0, |time| time.as_nanos());
    u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn call(cpu: Duration, wall: Duration) -> (Call, Scheduler, Arc<LongCallTracker>) {
        let (ticks, long_calls) = (Scheduler::default(), LongCallTracker::new(1));
        let call = Call::new(Allowed { cpu, until: Instant::now() + wall }, &ticks, &long_calls);
        (call, ticks, long_calls)
    }

    #[test]
    fn waiting_costs_no_cpu_time_and_computing_does() {
        let (mut call, ticks, _) = call(Duration::from_millis(20), HOUR);
        ticks.pass(FIRST_TICKS);
        assert_eq!(call.look(&ticks), Ok(()));
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!(call.look(&ticks), Ok(()));
        // The same after a wait outside of it, during which the thread works for others.
        call.meter.pause();
        let other = thread_time();
        while thread_time() - other < 40_000_000 {}
        call.meter.resume();
        assert_eq!(call.look(&ticks), Ok(()));
        while call.meter.used() < Duration::from_millis(20) {}
        assert_eq!(call.look(&ticks), Err(DeadlineExceeded::Cpu));
        call.begin(Instant::now(), Allowed { cpu: HOUR, until: Instant::now() }, &ticks);
        assert_eq!(call.look(&ticks), Err(DeadlineExceeded::Wall));
    }

    #[test]
    fn a_stream_may_compute_as_long_again_after_a_wait_and_no_longer() {
        let (mut call, ticks, _) = call(HOUR, HOUR);
        let until = Instant::now() + HOUR;
        let allowed = Allowed { cpu: Duration::from_millis(20), until };
        call.begin(Instant::now(), allowed, &ticks);
        call.begin_stream(allowed);
        for _ in 0..3 {
            ticks.pass(FIRST_TICKS);
            assert_eq!(call.look(&ticks), Ok(()));
            while call.meter.used() < Duration::from_millis(20) {}
            assert_eq!(call.look(&ticks), Err(DeadlineExceeded::Cpu));
            call.meter.pause();
            call.meter.resume();
            assert!(call.has_resumed(&ticks) && !call.has_resumed(&ticks));
        }
    }

    #[test]
    fn a_wait_for_a_turn_counts_neither_for_nor_against_a_call() {
        let (mut call, ticks, _) = call(HOUR, HOUR);
        let allowed = Allowed { cpu: HOUR, until: Instant::now() + HOUR };
        call.begin(Instant::now(), allowed, &ticks);
        let since = ticks.now();
        ticks.pass(1000);
        call.meter.waited(since);
        assert_eq!((call.glance(&ticks), call.passed), (Ok(()), 0));
        ticks.pass(LONG);
        assert_eq!((call.glance(&ticks), call.passed), (Ok(()), LONG));
        call.meter.end_turn();
        // Nor for what a stream does after its next wait.
        call.begin_stream(allowed);
        call.meter.resume();
        assert!(call.has_resumed(&ticks));
        ticks.pass(LONG);
        assert_eq!((call.glance(&ticks), call.passed), (Ok(()), LONG));
        call.meter.end_turn();
    }

    #[test]
    fn a_call_of_the_host_looks_once_a_tick() {
        let (mut call, ticks, long_calls) = call(HOUR, Duration::ZERO);
        assert_eq!(call.glance(&ticks), Ok(()));
        ticks.pass(FIRST_TICKS);
        assert_eq!(call.glance(&ticks), Err(DeadlineExceeded::Wall));
        call.begin(Instant::now(), Allowed { cpu: HOUR, until: Instant::now() + HOUR }, &ticks);
        ticks.pass(LONG);
        assert_eq!(call.glance(&ticks), Ok(()));
        assert_eq!((call.passed, call.leaves), (LONG, LONG + turns::LENGTH));
        call.meter.end_turn();
        assert_eq!(long_calls.long.load(Ordering::Relaxed), LongCallTracker::WEIGHT);
        call.end();
        call.begin(Instant::now(), Allowed { cpu: HOUR, until: Instant::now() + HOUR }, &ticks);
        call.end();
        assert_eq!(long_calls.long.load(Ordering::Relaxed), LongCallTracker::WEIGHT - 1);
    }

    /// Also of a call that does not come back.
    #[tokio::test]
    async fn long_work_of_the_host_is_noted_and_waits_are_none() {
        for (before, waited, after, expected) in [
            (0, 0, 0, false),
            (LONG - 1, 0, LONG - 1, false),
            (0, 1000, 0, false),
            (LONG, 0, 0, true),
            (0, 9, LONG, true),
        ] {
            let (call, ticks, long_calls) = call(HOUR, HOUR);
            let (meter, work) = (call.meter(), ticks.clone());
            let guest = async {
                call.enter_host();
                work.pass(before);
                tokio::task::yield_now().await;
                work.pass(after);
                call.leave_host();
                work.pass(LONG);
            };
            let mut guest = std::pin::pin!(guest);
            let mut metered = stream_metered(meter, guest.as_mut());
            let first = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut metered).poll(context)));
            assert!(first.await.is_pending());
            assert_eq!(long_calls.of_host.is_large(0), before >= LONG, "{before}, before it comes back");
            ticks.pass(waited);
            metered.await;
            assert_eq!(long_calls.of_host.is_large(0), expected, "{before}, {waited}, {after}");
        }
    }
}
