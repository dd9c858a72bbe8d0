//! Stops calling a handler that keeps failing, for a while.
//!
//! ```text
//! closed ──too many faults──▶ open ──the pause is over──▶ probing ──a good answer──▶ closed
//!                              ▲────────────a fault──────────┘
//! ```
//! Place in the flow: each generation has one, if the operator wants it; a request asks it when its head is
//! there and again before it runs, and tells it how that ended ([observers](super::observers)). When it
//! opens, `rollout/auto_rollback.rs` brings the generation before back, if that is kept.
//! In:   faults, and how many requests the endpoint has served at that moment. Out: who may [`Probe`], who
//!       has to wait how long.
//! Invariants: a request that is no fault costs one atomic load, of a place that is not written while the
//! breaker is closed: how many good ones there were is found out from the metrics' own counters, when a fault
//! happens. While it is open, of the requests that come at most one at a time calls the handler; those that
//! were let in before, and wait for a place, call it still.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::{Code, RequestError, Stage};
use crate::values::Ratio;

/// How many steps the window moves in.
const STEPS: u32 = 16;

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const PROBING: u8 = 2;

/// When a handler is no longer called, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The part of the requests that end in a fault: as many, or more, open it.
    pub faults: Ratio,
    /// Over how long. A window begins with a fault.
    pub window: Duration,
    /// Fewest requests in a window that say anything.
    pub min: u64,
    /// How long it stays open before a request may probe.
    pub pause: Duration,
}

/// One generation's breaker.
#[derive(Debug)]
pub struct Breaker {
    policy: Policy,
    /// Changed under the lock only.
    state: AtomicU8,
    /// Told when it opens.
    opened: Arc<Notify>,
    /// Locked when a fault happens, and by requests that come while it is open.
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    window: Window,
    /// When the first probe may go, once it has been opened.
    until: Option<Instant>,
    /// When another probe may go, although the last one has not ended.
    probe_until: Option<Instant>,
}

/// The request that finds out whether the handler works again. Dropped without a verdict, it leaves that to
/// the next, as does one that takes longer than another pause: a job or an open stream may take hours.
#[derive(Debug)]
pub(super) struct Probe(Option<Arc<Breaker>>);

impl Breaker {
    /// A closed one, which tells `opened` when it opens.
    pub fn new(policy: Policy, opened: Arc<Notify>) -> Breaker {
        let counts = Mutex::new(Counts { window: Window::default(), until: None, probe_until: None });
        Breaker { policy, state: AtomicU8::new(CLOSED), opened, counts }
    }

    /// Whether the handler is not called, but for probes.
    pub fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) != CLOSED
    }

    /// `closed`, `open` or `probing`.
    pub fn state(&self) -> &'static str {
        match self.state.load(Ordering::Relaxed) {
            CLOSED => "closed",
            OPEN => "open",
            _ => "probing",
        }
    }

    /// A request comes at `now`: the probe, if the breaker is open and its pause over.
    ///
    /// # Errors
    /// `plugin_unavailable`, with the time after which it is worth while to come again.
    pub(super) fn probe(self: &Arc<Self>, now: Instant) -> Result<Option<Probe>, RequestError> {
        let mut counts = self.counts();
        let state = self.state.load(Ordering::Relaxed);
        if state == CLOSED {
            return Ok(None);
        }
        if !counts.may_probe(state, now) {
            return Err(refusal(counts.wait(now)));
        }
        counts.probe_until = Some(now + self.policy.pause);
        self.state.store(PROBING, Ordering::Relaxed);
        Ok(Some(Probe(Some(self.clone()))))
    }

    /// Why a request that comes at `now` cannot be answered by the handler; `None` if it can, or may probe.
    pub(super) fn refusal(&self, now: Instant) -> Option<RequestError> {
        let counts = self.counts();
        let state = self.state.load(Ordering::Relaxed);
        (state != CLOSED && !counts.may_probe(state, now)).then(|| refusal(counts.wait(now)))
    }

    /// A request has ended in a fault at `now`, as the `served`th of its endpoint. Returns whether that has
    /// opened the breaker.
    pub fn fault(&self, now: Instant, served: u64) -> bool {
        let mut counts = self.counts();
        // Those that were in flight when it opened have nothing to add.
        if self.is_open() || !counts.window.fault(now, served, &self.policy) {
            return false;
        }
        self.open(&mut counts, now);
        self.opened.notify_one();
        true
    }

    fn open(&self, counts: &mut Counts, now: Instant) {
        counts.window = Window::default();
        counts.until = Some(now + self.policy.pause);
        self.state.store(OPEN, Ordering::Relaxed);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// How long the breaker stays open.
    fn wait(&self, now: Instant) -> Duration {
        self.until.map(|until| until.saturating_duration_since(now)).unwrap_or_default()
    }

    /// Whether a request that comes in this state may find out whether the handler works.
    fn may_probe(&self, state: u8, now: Instant) -> bool {
        match state {
            PROBING => self.probe_until.is_none_or(|until| until <= now),
            _ => self.wait(now).is_zero(),
        }
    }
}

/// A request is told after which time it is worth while to come again.
fn refusal(wait: Duration) -> RequestError {
    let message = "the handler has failed too often and is not called for a while";
    let mut refusal = RequestError::new(Code::PluginUnavailable, Stage::Admit, message);
    // While a request probes, the state is known soon.
    refusal.retry_after = Some(wait.max(Duration::from_secs(1)));
    refusal
}

impl Probe {
    /// The handler has answered, or failed again.
    pub(super) fn ended(mut self, now: Instant, good: bool) {
        let Some(breaker) = self.0.take() else { return };
        let mut counts = breaker.counts();
        match good {
            true => breaker.state.store(CLOSED, Ordering::Relaxed),
            // A slow one that fails after another has succeeded is one fault among good answers.
            false if breaker.is_open() => breaker.open(&mut counts, now),
            false => {}
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(breaker) = &self.0 {
            let _counts = breaker.counts();
            // Another probe may have ended since.
            if breaker.state.load(Ordering::Relaxed) == PROBING {
                breaker.state.store(OPEN, Ordering::Relaxed);
            }
        }
    }
}

/// Faults of the last while, oldest first.
#[derive(Debug, Default)]
struct Window(VecDeque<Step>);

#[derive(Debug)]
struct Step {
    began: Instant,
    /// Requests that the endpoint had served before the first fault of this step.
    served: u64,
    faults: u64,
}

impl Window {
    /// Counts a fault. Whether the faults since the first one of the window are now too large a share of all
    /// requests since then.
    fn fault(&mut self, now: Instant, served: u64, policy: &Policy) -> bool {
        let age = |step: &Step| now.saturating_duration_since(step.began);
        while self.0.front().is_some_and(|step| age(step) >= policy.window) {
            self.0.pop_front();
        }
        if self.0.back().is_none_or(|step| age(step) >= policy.window / STEPS) {
            self.0.push_back(Step { began: now, served: served.saturating_sub(1), faults: 0 });
        }
        if let Some(step) = self.0.back_mut() {
            step.faults += 1;
        }
        let faults: u64 = self.0.iter().map(|step| step.faults).sum();
        let before = self.0.front().map_or(served, |step| step.served);
        // Threads count at different moments: there are no more faults than requests.
        let requests = served.saturating_sub(before).max(faults);
        requests >= policy.min && Ratio::of(faults, requests) >= policy.faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        faults: Ratio::percent(50),
        window: Duration::from_secs(10),
        min: 4,
        pause: Duration::from_secs(30),
    };

    /// The events in it: seconds, and `g` for a good request or `f` for a fault; then when the breaker opens,
    /// if it does.
    type Case = (&'static str, &'static [(u64, &'static str)], Option<u64>);

    const CASES: [Case; 8] = [
        ("too few to say anything", &[(0, "fff")], None),
        ("nothing but faults", &[(0, "ffff")], Some(0)),
        ("half of them", &[(0, "f"), (1, "gggf"), (2, "ff")], Some(2)),
        ("less than half", &[(0, "fgggfgggfgggf")], None),
        ("good ones before the first fault do not count", &[(0, "gggggggggg"), (1, "ffff")], Some(1)),
        ("old faults are forgotten", &[(0, "fff"), (11, "f"), (12, "ggg")], None),
        ("and those within the window are not", &[(0, "ff"), (9, "f"), (9, "f")], Some(9)),
        ("a good time between is what it was", &[(0, "f"), (1, "gggggggg"), (9, "fff")], None),
    ];

    #[test]
    fn it_opens_when_the_share_is_reached() {
        for (what, events, expected) in CASES {
            let (breaker, start, mut served, mut opened) =
                (Breaker::new(POLICY, Arc::default()), Instant::now(), 1000, None);
            for &(second, requests) in events {
                for request in requests.chars() {
                    served += 1;
                    let now = start + Duration::from_secs(second);
                    if request == 'f' && breaker.fault(now, served) {
                        assert_eq!(opened.replace(second), None, "{what}: opened twice");
                    }
                }
            }
            assert_eq!(opened, expected, "{what}");
            assert_eq!(breaker.is_open(), expected.is_some(), "{what}");
        }
    }

    #[test]
    fn after_the_pause_one_request_at_a_time_probes() {
        let (breaker, start) = (Arc::new(Breaker::new(POLICY, Arc::default())), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!((0..4).any(|n| breaker.fault(at(0), n)));
        let wait = |seconds| breaker.probe(at(seconds)).unwrap_err().retry_after.unwrap().as_secs();
        assert_eq!((wait(10), breaker.state()), (20, "open"));
        // A probe that is given up leaves it to the next.
        drop(breaker.probe(at(30)).unwrap());
        let probe = breaker.probe(at(31)).unwrap().unwrap();
        assert_eq!((wait(31), breaker.state()), (1, "probing"), "one at a time");
        probe.ended(at(32), false);
        assert_eq!(wait(33), 29, "a fault begins the pause anew");
        let slow = breaker.probe(at(62)).unwrap().unwrap();
        assert_eq!((wait(91), breaker.refusal(at(91)).is_some()), (1, true), "it has another pause");
        assert!(breaker.refusal(at(92)).is_none(), "and the next does not wait for it");
        breaker.probe(at(92)).unwrap().unwrap().ended(at(92), true);
        slow.ended(at(93), false);
        assert_eq!((breaker.state(), breaker.probe(at(62)).unwrap().is_none()), ("closed", true));
        assert!(!breaker.fault(at(62), 100), "what was before is forgotten");
    }
}
