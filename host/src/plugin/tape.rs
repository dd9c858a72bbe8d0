//! What a handler gets from outside by itself while it serves one request: clocks, random bytes, waits, headers.
//!
//! Place in the flow: beside an instance that is recorded or replayed, and only there. `outside.rs` and
//! `context.rs` write it, or read from it what they give to the guest.
//! In: while recording, what the guest got, call by call. Out: a [`Reel`], which a replay gives to the guest again.
//!
//! A replay that asks for anything else than what comes next has diverged: the call traps and [`Tape::divergence`] says where.
//! Invariants: a tape belongs to one request, so its lock is never contended; it holds at most [`LONGEST`] bytes, whatever
//! the guest draws.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::deadline::DeadlineExceeded;
use crate::json::base64;
use crate::tensor::{Signature, Tensor};

/// Most bytes of draws and headers that one request's tape holds; a longer one is spoilt.
pub const LONGEST: usize = 4 << 20;
/// What a draw counts for beside its bytes.
const DRAW_COST: usize = 32;

/// One thing that a guest got from outside. Its name is that of the WASI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// `wall-clock.now`: seconds since 1970 and nanoseconds.
    WallClock(u64, u32),
    /// `wall-clock.resolution`, likewise.
    WallClockResolution(u64, u32),
    /// `monotonic-clock.now`, in nanoseconds since a moment of the instance's own.
    MonotonicClock(u64),
    /// `monotonic-clock.resolution`, in nanoseconds.
    MonotonicClockResolution(u64),
    /// `random.get-random-bytes`.
    Random(#[serde(with = "base64")] Vec<u8>),
    /// `random.get-random-u64`.
    RandomU64(u64),
    /// `insecure.get-insecure-random-bytes`.
    InsecureRandom(#[serde(with = "base64")] Vec<u8>),
    /// `insecure.get-insecure-random-u64`.
    InsecureRandomU64(u64),
    /// `insecure-seed.insecure-seed`.
    InsecureSeed(u64, u64),
    /// `poll.poll` for timers: which of them had run out.
    Poll(Vec<u32>),
    /// `pollable.ready` of a timer.
    Ready(bool),
    /// `pollable.block` of a timer: it ran out.
    Waited,
}

impl Draw {
    /// What it is a value of.
    fn name(&self) -> &'static str {
        match self {
            Draw::WallClock(..) => "the wall clock",
            Draw::WallClockResolution(..) => "the wall clock's resolution",
            Draw::MonotonicClock(_) => "the monotonic clock",
            Draw::MonotonicClockResolution(_) => "the monotonic clock's resolution",
            Draw::Random(_) | Draw::RandomU64(_) => "random bytes",
            Draw::InsecureRandom(_) | Draw::InsecureRandomU64(_) => "insecure random bytes",
            Draw::InsecureSeed(..) => "the insecure seed",
            Draw::Poll(_) | Draw::Ready(_) => "whether a timer has run out",
            Draw::Waited => "the end of a wait",
        }
    }

    fn cost(&self) -> usize {
        DRAW_COST
            + match self {
                Draw::Random(bytes) | Draw::InsecureRandom(bytes) => bytes.len(),
                Draw::Poll(ready) => 4 * ready.len(),
                _ => 0,
            }
    }
}

/// One call into the guest, and what it drew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The contract's function; [`START`] for what an instance runs before its first call.
    pub function: String,
    /// In order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<Draw>,
}

/// What stands in a [`Call`] for an instance's start functions.
pub const START: &str = "start";

/// All that a guest drew for one request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reel {
    /// In order; the first is [`START`].
    pub calls: Vec<Call>,
    /// The headers that it asked for, names in lower case, and what it was told.
    pub headers: BTreeMap<String, Option<String>>,
}

/// In what a replay went another way than the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("in {function}: {what}")]
pub struct Divergence {
    /// As in [`Call::function`].
    pub function: String,
    /// `asks for the wall clock where the recording has random bytes`.
    pub what: String,
}

/// A tape in use. Made for one request, shared between its instance and whoever wants to know.
pub struct Tape(Mutex<Inner>);

struct Inner {
    reel: Reel,
    /// Of a replay; `None` while recording.
    head: Option<Head>,
    /// Timers that the guest holds, by their handles.
    timers: BTreeSet<u32>,
    /// Bytes recorded so far.
    length: usize,
    signature: Option<Arc<Signature>>,
    sample: Option<Vec<Tensor>>,
    sent: Option<Vec<Tensor>>,
    received: Option<Vec<Tensor>>,
    answer: Option<Vec<Tensor>>,
}

/// Where a replay is.
#[derive(Default)]
struct Head {
    /// The calls begun.
    calls: usize,
    /// Of the last one, the draws given out.
    draws: usize,
    /// The recorded handler was cut off after its last draw.
    cut: bool,
    divergence: Option<Divergence>,
}

impl Tape {
    /// An empty one, to record on.
    pub fn blank() -> Tape {
        Tape::new(Reel::default(), None)
    }

    /// One to replay. `cut`: the recorded handler ran out of time, so that whoever asks for more than there is was cut off
    /// as well.
    pub fn recorded(reel: Reel, cut: bool) -> Tape {
        Tape::new(reel, Some(Head { cut, ..Head::default() }))
    }

    fn new(reel: Reel, head: Option<Head>) -> Tape {
        Tape(Mutex::new(Inner {
            reel,
            head,
            timers: BTreeSet::new(),
            length: 0,
            signature: None,
            sample: None,
            sent: None,
            received: None,
            answer: None,
        }))
    }

    /// What was recorded; `None` if nothing ran, or if it was more than [`LONGEST`].
    pub fn reel(&self) -> Option<Reel> {
        let inner = self.lock();
        (!inner.reel.calls.is_empty() && inner.length <= LONGEST).then(|| inner.reel.clone())
    }

    /// Whether a handler has run with it.
    pub fn is_used(&self) -> bool {
        !self.lock().reel.calls.is_empty()
    }

    /// Bytes recorded so far.
    pub fn length(&self) -> usize {
        self.lock().length
    }

    /// The headers that the handler asked for and that there were, in lower case.
    pub fn headers_told(&self) -> Vec<String> {
        let inner = self.lock();
        let told = inner.reel.headers.iter().filter(|(_, value)| value.is_some());
        told.map(|(name, _)| name.clone()).collect()
    }

    /// Of the model that the request went to.
    pub fn signature(&self) -> Option<Arc<Signature>> {
        self.lock().signature.clone()
    }

    /// The tensors that `pre-inference-tensors` got.
    pub fn sample(&self) -> Option<Vec<Tensor>> {
        self.lock().sample.clone()
    }

    /// What the model got, if the request came as far; without a model, what `pre-inference` made.
    pub fn sent(&self) -> Option<Vec<Tensor>> {
        self.lock().sent.clone()
    }

    /// What `post-inference` got, if the model answered.
    pub fn received(&self) -> Option<Vec<Tensor>> {
        self.lock().received.clone()
    }

    /// The tensors that `post-inference-tensors` made.
    pub fn answer(&self) -> Option<Vec<Tensor>> {
        self.lock().answer.clone()
    }

    /// `post-inference-tensors` made these.
    pub(super) fn note_answer(&self, tensors: &[Tensor]) {
        self.lock().answer = Some(tensors.to_vec());
    }

    /// The model is to get this. Counted references: nothing is copied.
    pub fn note_sent(&self, inputs: &[Tensor]) {
        self.lock().sent = Some(inputs.to_vec());
    }

    /// The model's answer.
    pub fn note_received(&self, outputs: &[Tensor]) {
        self.lock().received = Some(outputs.to_vec());
    }

    /// Where a replay left the recording, if it did.
    pub fn divergence(&self) -> Option<Divergence> {
        self.lock().head.as_ref()?.divergence.clone()
    }

    pub(super) fn begin(&self, signature: Option<&Arc<Signature>>) {
        self.lock().signature = signature.cloned();
    }

    /// A call begins, with these tensors for a sample if it takes any.
    pub(super) fn enter(&self, function: &'static str, sample: Option<&[Tensor]>) {
        let mut inner = self.lock();
        let Inner { reel, head, .. } = &mut *inner;
        match head {
            None => {
                reel.calls.push(Call { function: function.to_owned(), draws: Vec::new() });
                inner.sample = sample.map(<[Tensor]>::to_vec).or(inner.sample.take());
            }
            Some(head) => {
                let recorded = reel.calls.get(head.calls).map(|call| call.function.as_str());
                head.calls += 1;
                head.draws = 0;
                if recorded != Some(function) {
                    // Whatever somebody has written there.
                    let recorded: String =
                        recorded.unwrap_or("nothing more").escape_debug().take(64).collect();
                    let what = format!("is called where the recording has {recorded}");
                    head.diverge(function, what);
                }
            }
        }
    }

    /// The next draw of a replay, which `wanted` takes apart; `None` while recording: the guest gets the real thing.
    pub(super) fn next<T>(
        &self,
        name: &'static str,
        wanted: impl FnOnce(&Draw) -> Option<T>,
    ) -> Result<Option<T>, wasmtime::Error> {
        let mut inner = self.lock();
        let Inner { reel, head: Some(head), .. } = &mut *inner else { return Ok(None) };
        let last = head.calls >= reel.calls.len();
        let Some(call) = head.calls.checked_sub(1).and_then(|call| reel.calls.get(call)) else {
            return Err(head
                .diverge(START, format!("asks for {name} before any call of the recording"))
                .into());
        };
        let found = match call.draws.get(head.draws) {
            Some(draw) => match wanted(draw) {
                Some(value) => {
                    head.draws += 1;
                    return Ok(Some(value));
                }
                None => draw.name(),
            },
            None if last && head.cut => return Err(DeadlineExceeded::Cpu.into()),
            None => "nothing more",
        };
        let text = match found == name {
            true => format!("asks for {name} in another way, or for another number of them"),
            false => format!("asks for {name} where the recording has {found}"),
        };
        Err(head.diverge(&call.function, text).into())
    }

    /// The guest got this.
    pub(super) fn note(&self, draw: Draw) {
        let mut inner = self.lock();
        inner.length = inner.length.saturating_add(draw.cost());
        if inner.length <= LONGEST
            && let Some(call) = inner.reel.calls.last_mut()
        {
            call.draws.push(draw);
        }
    }

    /// The guest asks for a header, which while recording is `real`.
    pub(super) fn header(&self, name: &str, real: impl FnOnce() -> Option<String>) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let mut inner = self.lock();
        let Inner { reel, head, length, .. } = &mut *inner;
        if let Some(head) = head {
            let recorded = reel.headers.get(&name);
            if recorded.is_none() {
                let call = head.calls.checked_sub(1).and_then(|call| reel.calls.get(call));
                let function = call.map_or(START, |call| call.function.as_str()).to_owned();
                let shown: String = name.escape_debug().take(64).collect();
                head.diverge(
                    &function,
                    format!("asks for the header `{shown}`, and the recorded one did not"),
                );
            }
            return recorded.cloned().flatten();
        }
        let value = real();
        if let Entry::Vacant(place) = reel.headers.entry(name) {
            *length += DRAW_COST + place.key().len() + value.as_ref().map_or(0, String::len);
            if *length <= LONGEST {
                place.insert(value.clone());
            }
        }
        value
    }

    /// The guest holds a timer from here on.
    pub(super) fn timer(&self, handle: u32) {
        self.lock().timers.insert(handle);
    }

    /// Whether one of these handles is a timer's.
    pub(super) fn has_timer(&self, handles: impl IntoIterator<Item = u32>) -> bool {
        let inner = self.lock();
        handles.into_iter().any(|handle| inner.timers.contains(&handle))
    }

    /// The guest has let go of it.
    pub(super) fn forget(&self, handle: u32) {
        self.lock().timers.remove(&handle);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape").field("length", &self.length()).finish_non_exhaustive()
    }
}

impl Head {
    /// Only the first one counts: what follows comes of it.
    fn diverge(&mut self, function: &str, what: String) -> Divergence {
        self.divergence.get_or_insert(Divergence { function: function.to_owned(), what }).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: &str = "the wall clock";

    fn clock(draw: &Draw) -> Option<u64> {
        if let Draw::WallClock(seconds, _) = draw { Some(*seconds) } else { None }
    }

    fn reel() -> Reel {
        let tape = Tape::blank();
        tape.enter(START, None);
        tape.enter("pre-inference", None);
        tape.note(Draw::WallClock(7, 5));
        tape.note(Draw::Random(vec![1, 2]));
        assert_eq!(tape.header("X-User", || Some("ann".to_owned())).as_deref(), Some("ann"));
        tape.reel().unwrap()
    }

    #[test]
    fn what_is_recorded_is_given_again() {
        let text = serde_json::to_string(&reel()).unwrap();
        assert_eq!(
            text,
            r#"{"calls":[{"function":"start"},{"function":"pre-inference","draws":[{"wall-clock":[7,5]},{"random":"AQI="}]}],"headers":{"x-user":"ann"}}"#
        );
        let tape = Tape::recorded(serde_json::from_str(&text).unwrap(), false);
        tape.enter(START, None);
        tape.enter("pre-inference", None);
        assert_eq!(tape.next(CLOCK, clock).unwrap(), Some(7));
        assert_eq!(tape.header("x-USER", || None).as_deref(), Some("ann"));
        assert_eq!(tape.divergence(), None);
        assert!(tape.next(CLOCK, clock).is_err());
        let divergence = tape.divergence().unwrap().to_string();
        assert_eq!(
            divergence,
            "in pre-inference: asks for the wall clock where the recording has random bytes"
        );
    }

    #[test]
    fn the_end_of_a_tape_is_a_divergence_or_the_cut() {
        for cut in [false, true] {
            let tape = Tape::recorded(Reel { calls: Vec::new(), ..reel() }, cut);
            tape.enter(START, None);
            assert!(tape.next(CLOCK, clock).is_err());
            assert!(tape.divergence().is_some(), "a call that was never made");

            let tape = Tape::recorded(reel(), cut);
            tape.enter(START, None);
            let error = tape.next(CLOCK, clock).unwrap_err();
            assert!(!error.is::<DeadlineExceeded>(), "a later call was reached");

            let tape = Tape::recorded(reel(), cut);
            tape.enter(START, None);
            tape.enter("pre-inference", None);
            tape.next("", |_| Some(())).unwrap();
            tape.next("", |_| Some(())).unwrap();
            let error = tape.next(CLOCK, clock).unwrap_err();
            assert_eq!((error.is::<DeadlineExceeded>(), tape.divergence().is_none()), (cut, cut));
        }
        let tape = Tape::recorded(reel(), false);
        tape.enter(START, None);
        tape.enter("post-inference", None);
        let text = tape.divergence().unwrap().to_string();
        assert_eq!(text, "in post-inference: is called where the recording has pre-inference");
        assert_eq!(Tape::recorded(reel(), false).header("cookie", || unreachable!()), None);
    }

    #[test]
    fn a_tape_is_bounded() {
        let tape = Tape::blank();
        tape.enter(START, None);
        for _ in 0..LONGEST {
            tape.note(Draw::MonotonicClock(1));
        }
        assert_eq!(tape.reel(), None);
        assert!(tape.lock().reel.calls[0].draws.len() <= LONGEST / DRAW_COST);
    }
}
