//! What a handler gets from outside by itself while it serves one request: clocks, random bytes, waits,
//! headers, answers of models and of other servers.
//!
//! Place in the flow: beside an instance that is recorded or replayed; for the calls of models and of others
//! alone (`calls.rs`, `capability_calls.rs`) beside one that something is compared with. `nondeterminism.rs`,
//! `context.rs` and capabilities write it, or read from it what they give to the guest.
//! In: while recording, what the guest got, call by call. Out: a [`RecordedCalls`], which a replay gives to
//! the guest again.
//!
//! A replay that asks for anything else than what comes next has diverged: the call traps and
//! [`HostCallLog::divergence`] says where.
//! Invariants: a log belongs to one request, so its lock is never contended; it holds at most [`LONGEST`]
//! bytes, for any guest.

mod calls;
mod capability_calls;
mod result;
pub mod secrets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

pub use self::calls::{AnswerSource, Answers, KnownCalls, Outgoing, ReplayedCalls, SentRequest};
pub use self::capability_calls::{CallSource, CapabilityCalls, LoggedCall};
pub use self::result::HostCallResult;

pub(super) use self::calls::shown;

use self::calls::OwnCalls;
use super::deadline::DeadlineExceeded;
use crate::error::{Code, RequestError, Stage};
use crate::model_access::ModelCall;
use crate::request::exchange::kept::Budget;
use crate::tensor::{Signature, Tensor};

/// Most bytes of draws and headers that one request's log holds; a longer one is spoilt.
pub const LONGEST: usize = 4 << 20;
/// The cost of a draw beside its bytes.
const DRAW_COST: usize = 32;

/// One call into the guest, and what it drew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The contract's function; [`START`] for what an instance runs before its first call.
    pub function: String,
    /// In order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<HostCallResult>,
}

/// The stage of a [`Call`] by an instance's start functions.
pub const START: &str = "start";

/// All that a guest drew for one request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordedCalls {
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

/// A log in use. Made for one request, shared between its instance and the readers of it.
pub struct HostCallLog {
    /// Whether it is of all host calls of the instance, or of the model's calls alone.
    is_of_instance: bool,
    /// Calls whose answers are known.
    known: Option<Arc<KnownCalls>>,
    /// Of a replay.
    answers: Option<Answers>,
    inner: Mutex<Inner>,
    own: OwnCalls,
    budget: Arc<Budget>,
}

struct Inner {
    recorded: RecordedCalls,
    /// Of a replay; `None` while recording.
    head: Option<Head>,
    /// Timers that the guest holds, by their handles.
    timers: BTreeSet<u32>,
    /// Bytes recorded so far.
    length: usize,
    signature: Option<Arc<Signature>>,
    sample: Option<Vec<Tensor>>,
    model_call: Option<ModelCall>,
    /// The known call answered it.
    was_known: bool,
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

impl HostCallLog {
    /// An empty one, to record on.
    pub fn blank() -> HostCallLog {
        HostCallLog::new(RecordedCalls::default(), None)
    }

    /// One of the calls of models and of others alone. What `known` has asked is answered by it.
    pub fn of_calls(known: Option<Arc<KnownCalls>>) -> HostCallLog {
        HostCallLog { is_of_instance: false, known, ..HostCallLog::blank() }
    }

    /// One to replay. `cut`: the recorded handler ran out of time, so that one which asks for more than there
    /// is was cut off as well.
    pub fn replay(calls: RecordedCalls, cut: bool, answers: Answers) -> HostCallLog {
        let log = HostCallLog::new(calls, Some(Head { cut, ..Head::default() }));
        HostCallLog { answers: Some(answers), ..log }
    }

    fn new(calls: RecordedCalls, head: Option<Head>) -> HostCallLog {
        let inner = Mutex::new(Inner {
            recorded: calls,
            head,
            timers: BTreeSet::new(),
            length: 0,
            signature: None,
            sample: None,
            model_call: None,
            was_known: false,
            answer: None,
        });
        HostCallLog {
            is_of_instance: true,
            known: None,
            answers: None,
            inner,
            own: OwnCalls::default(),
            budget: Arc::default(),
        }
    }

    /// The bytes that may be kept of bodies and tensors.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Whether it is of all that the instance gets from outside.
    pub fn is_of_instance(&self) -> bool {
        self.is_of_instance
    }

    /// The answers in place of the host, in a replay.
    pub fn answers(&self) -> Option<&Answers> {
        self.answers.as_ref()
    }

    /// The recorded calls; `None` if nothing ran, or if they were more than [`LONGEST`].
    pub fn recorded_calls(&self) -> Option<RecordedCalls> {
        let inner = self.lock();
        (!inner.recorded.calls.is_empty() && inner.length <= LONGEST).then(|| inner.recorded.clone())
    }

    /// Whether a handler has run with it.
    pub fn is_used(&self) -> bool {
        !self.lock().recorded.calls.is_empty()
    }

    /// Bytes recorded so far.
    pub fn length(&self) -> usize {
        self.lock().length
    }

    /// The headers that the handler asked for and that there were, in lower case.
    pub fn headers_told(&self) -> Vec<String> {
        let inner = self.lock();
        let told = inner.recorded.headers.iter().filter(|(_, value)| value.is_some());
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

    /// The call of the model, if the request came as far; without a model, what `pre-inference` made.
    pub fn model_call(&self) -> Option<ModelCall> {
        self.lock().model_call.clone()
    }

    /// Whether the answer of the model was known before.
    pub fn was_known(&self) -> bool {
        self.lock().was_known
    }

    /// The tensors that `post-inference-tensors` made.
    pub fn answer(&self) -> Option<Vec<Tensor>> {
        self.lock().answer.clone()
    }

    /// `post-inference-tensors` made these.
    pub(super) fn note_answer(&self, tensors: &[Tensor]) {
        self.lock().answer = Some(tensors.to_vec());
    }

    /// The model is asked this. Gives the answer where it is known; else the model is to be asked.
    ///
    /// # Errors
    /// A replay asks what was not recorded, or the recorded model failed.
    pub fn model_asked(&self, inputs: &[Tensor]) -> Option<Result<Vec<Tensor>, RequestError>> {
        let mut inner = self.lock();
        inner.model_call = Some(ModelCall { inputs: inputs.to_vec(), outputs: None });
        if let Some(answers) = &self.answers {
            let failed = || RequestError::new(Code::ModelError, Stage::Infer, "the recording has no answer");
            return Some(answers.outputs.clone().ok_or_else(failed));
        }
        let known = self.known.as_ref()?.model_call.as_ref().filter(|known| known.inputs == inputs)?;
        let known = known.outputs.clone()?;
        inner.was_known = true;
        Some(Ok(known))
    }

    /// The model's answer.
    pub fn model_answered(&self, outputs: &[Tensor]) {
        if let Some(call) = &mut self.lock().model_call {
            call.outputs = Some(outputs.to_vec());
        }
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
        let Inner { recorded, head, .. } = &mut *inner;
        match head {
            None => {
                recorded.calls.push(Call { function: function.to_owned(), draws: Vec::new() });
                inner.sample = sample.map(<[Tensor]>::to_vec).or(inner.sample.take());
            }
            Some(head) => {
                let expected = recorded.calls.get(head.calls).map(|call| call.function.as_str());
                head.calls += 1;
                head.draws = 0;
                if expected != Some(function) {
                    // A recording may have been edited by hand.
                    let expected: String =
                        expected.unwrap_or("nothing more").escape_debug().take(64).collect();
                    let what = format!("is called where the recording has {expected}");
                    head.diverge(function, what);
                }
            }
        }
    }

    /// The next draw of a replay, which `wanted` takes apart; `None` while recording: the guest gets the real
    /// thing.
    pub(super) fn next<T>(
        &self,
        name: &'static str,
        wanted: impl FnOnce(&HostCallResult) -> Option<T>,
    ) -> Result<Option<T>, wasmtime::Error> {
        let mut inner = self.lock();
        let Inner { recorded, head: Some(head), .. } = &mut *inner else { return Ok(None) };
        let last = head.calls >= recorded.calls.len();
        let Some(call) = head.calls.checked_sub(1).and_then(|call| recorded.calls.get(call)) else {
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
    pub(super) fn note(&self, draw: HostCallResult) {
        let mut inner = self.lock();
        inner.length = inner.length.saturating_add(draw.cost());
        if inner.length <= LONGEST
            && let Some(call) = inner.recorded.calls.last_mut()
        {
            call.draws.push(draw);
        }
    }

    /// The next draw of a replay, else the real thing, which is noted; `None` if a replay has left its
    /// recording. For what cannot trap.
    pub(super) fn tapped<T: Copy>(
        &self,
        name: &'static str,
        wanted: impl FnOnce(&HostCallResult) -> Option<T>,
        real: impl FnOnce() -> T,
        draw: impl FnOnce(T) -> HostCallResult,
    ) -> Option<T> {
        let recorded = self.next(name, wanted).ok()?;
        Some(recorded.unwrap_or_else(|| {
            let real = real();
            self.note(draw(real));
            real
        }))
    }

    /// The guest asks for a header, which while recording is `real`.
    pub(super) fn header(&self, name: &str, real: impl FnOnce() -> Option<String>) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let mut inner = self.lock();
        let Inner { recorded, head, length, .. } = &mut *inner;
        if let Some(head) = head {
            let value = recorded.headers.get(&name);
            if value.is_none() {
                let call = head.calls.checked_sub(1).and_then(|call| recorded.calls.get(call));
                let function = call.map_or(START, |call| call.function.as_str()).to_owned();
                let shown: String = name.escape_debug().take(64).collect();
                head.diverge(
                    &function,
                    format!("asks for the header `{shown}`, and the recorded one did not"),
                );
            }
            return value.cloned().flatten();
        }
        let value = real();
        if let Entry::Vacant(place) = recorded.headers.entry(name) {
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
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HostCallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostCallLog").field("length", &self.length()).finish_non_exhaustive()
    }
}

impl Head {
    /// Only the first one counts: what follows comes of it.
    fn diverge(&mut self, function: &str, what: String) -> Divergence {
        self.divergence.get_or_insert(Divergence { function: function.to_owned(), what }).clone()
    }
}
