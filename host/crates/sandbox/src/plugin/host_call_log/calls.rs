//! The calls of models, and the requests to others, that a handler makes by itself.
//!
//! Place in the flow: the models of a run ask here before they run, and `wasi_http/` before it sends. In:
//! what the handler asks. Out: the answer, where it is known or recorded; else the call is made, and its
//! answer noted. When the run is over, its readers get both lists. Invariants: calls stand in the order in
//! which the handler made them, their answers with them; what a call is answered from stands before it is
//! made, so nothing is asked or sent that need not be.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use super::capability_calls::{CapabilityCalls, CapabilityLists};
use super::{Divergence, HostCallLog, HostCallResult};
use crate::model_access::{HandlerModelCall, ModelCall, ModelCallError};
use crate::outbound::{OutboundAnswer, OutboundCall, OutboundError};
use crate::plugin::deadline::DeadlineExceeded;
use crate::request::exchange::kept::KeptBody;
use crate::tensor::{Signature, Tensor};

/// Most characters of a name that a divergence shows.
const SHOWN: usize = 120;
/// The cost of a call beside its bytes.
const CALL_COST: usize = 256;
/// The number of a call that is not kept, since there is no room: its answer is not, either.
pub(super) const NOT_KEPT: usize = usize::MAX;
/// After so many bodies more that go nowhere, those that are there are forgotten.
const DRAINS: usize = 64;

/// Calls of an earlier run, whose answers hold for the same calls of another one.
#[derive(Debug, Default)]
pub struct KnownCalls {
    /// Of the model that the request went to.
    pub model_call: Option<ModelCall>,
    /// Of models that the handler called.
    pub model_calls: Vec<HandlerModelCall>,
    /// The requests that it sent.
    pub outbound: Vec<OutboundCall>,
    /// The calls of capabilities.
    pub capabilities: CapabilityCalls,
}

/// The answers of a recording in place of the host, beside the [`RecordedCalls`](super::RecordedCalls).
#[derive(Debug, Default)]
pub struct Answers {
    /// Of the model that the request went to.
    pub signature: Option<Arc<Signature>>,
    /// The tensors that the host made of the request's body.
    pub sample: Option<Vec<Tensor>>,
    /// The model's outputs; `None` if it was not asked, or failed.
    pub outputs: Option<Vec<Tensor>>,
    /// The models that the handler may call by itself.
    pub models: Vec<(Arc<str>, Arc<Signature>)>,
    /// The calls of them, and their answers.
    pub model_calls: Vec<HandlerModelCall>,
    /// The requests that the handler sent.
    pub outbound: Vec<OutboundCall>,
    /// The calls of capabilities.
    pub capabilities: CapabilityCalls,
}

/// The way of a handler's call of a model.
pub enum AnswerSource {
    /// Its answer is here.
    Known(Result<Vec<Tensor>, ModelCallError>),
    /// The model is to be asked, and the answer noted under this number.
    Live(usize),
}

/// A request that a handler sends, as the log sees it.
pub struct SentRequest {
    /// Under which its answer is noted.
    pub number: usize,
    /// Its body is kept here.
    pub body: Arc<KeptBody>,
    /// The answer.
    pub way: Outgoing,
}

/// The way of a request that a handler sends.
pub enum Outgoing {
    /// It is sent.
    Live,
    /// It is answered, and goes nowhere.
    Known(OutboundAnswer),
    /// In a replay: it was never answered.
    Unanswered,
}

/// The calls of a replay, each with the recorded one whose answer it got.
pub struct ReplayedCalls {
    /// Of models: asked now, asked then.
    pub model_calls: Vec<(HandlerModelCall, HandlerModelCall)>,
    /// Requests: sent now, sent then.
    pub outbound: Vec<(OutboundCall, OutboundCall)>,
}

/// The calls so far.
#[derive(Default)]
pub(super) struct OwnCalls(Mutex<Lists>);

#[derive(Default)]
pub(super) struct Lists {
    model_calls: Vec<LoggedCall>,
    /// Calls of models that were made and are not kept.
    not_kept: usize,
    outbound: Vec<Sent>,
    /// The known requests whose answers have been given.
    given: BTreeSet<usize>,
    /// The calls of capabilities.
    pub(super) capabilities: CapabilityLists,
    /// A thing that the handler has got and that no log holds.
    spoilt: Option<&'static str>,
    /// Bodies of requests that go nowhere, on their way there.
    drains: Vec<JoinHandle<()>>,
}

struct LoggedCall {
    call: HandlerModelCall,
    /// The recorded call.
    recorded: Option<usize>,
    was_known: bool,
}

struct Sent {
    /// Without bodies.
    call: OutboundCall,
    body: Arc<KeptBody>,
    response: Option<Arc<KeptBody>>,
    recorded: Option<usize>,
}

impl Sent {
    fn call(&self) -> OutboundCall {
        let mut call = OutboundCall { body: self.body.joined().0, ..self.call.clone() };
        if let (Some(OutboundAnswer::Response { body, is_whole, .. }), Some(kept)) =
            (&mut call.answer, &self.response)
        {
            (*body, *is_whole) = kept.joined();
        }
        call
    }
}

impl OwnCalls {
    pub(super) fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostCallLog {
    /// The handler gets this, which no log holds.
    pub(in crate::plugin) fn spoil(&self, what: &'static str) {
        self.own.lock().spoilt = Some(what);
    }

    /// The thing that the handler has got and that is not in the log, so that nothing can be told from it.
    pub fn spoilt(&self) -> Option<&'static str> {
        self.own.lock().spoilt
    }

    /// The handler calls a model.
    pub fn model_called(&self, model: &str, inputs: &[Tensor]) -> AnswerSource {
        let mut lists = self.own.lock();
        let call = HandlerModelCall { model: model.to_owned(), inputs: inputs.to_vec(), outcome: None };
        let number = lists.model_calls.len();
        if !self.budget.take(CALL_COST + model.len() + bytes(inputs)) {
            lists.not_kept += 1;
            return AnswerSource::Live(NOT_KEPT);
        }
        if self.answers.is_some() {
            let (recorded, outcome) = self.recorded_model_call(model);
            let call = HandlerModelCall { outcome: Some(outcome.clone()), ..call };
            lists.model_calls.push(LoggedCall { call, recorded, was_known: true });
            return AnswerSource::Known(outcome);
        }
        if self.is_of_instance {
            self.note(HostCallResult::ModelCall(number));
        }
        let is_same = |known: &&HandlerModelCall| known.model == model && known.inputs == inputs;
        let known = self.known.as_ref().and_then(|known| known.model_calls.iter().find(is_same));
        let outcome = known.and_then(|known| known.outcome.clone());
        let was_known = outcome.is_some();
        lists.model_calls.push(LoggedCall {
            call: HandlerModelCall { outcome: outcome.clone(), ..call },
            recorded: None,
            was_known,
        });
        outcome.map_or(AnswerSource::Live(number), AnswerSource::Known)
    }

    /// The answer of the model to the call of this number.
    pub fn model_call_ended(&self, number: usize, outcome: &Result<Vec<Tensor>, ModelCallError>) {
        let is_kept = self.budget.take(outcome.as_ref().map_or(0, |outputs| bytes(outputs)));
        if let Some(noted) = self.own.lock().model_calls.get_mut(number).filter(|_| is_kept) {
            noted.call.outcome = Some(outcome.clone());
        }
    }

    /// The recorded call that comes next, and its answer.
    fn recorded_model_call(&self, model: &str) -> (Option<usize>, Result<Vec<Tensor>, ModelCallError>) {
        const NAME: &str = "an answer of a model";
        let number = match self.next_number(NAME, |draw| match draw {
            HostCallResult::ModelCall(number) => Some(*number),
            _ => None,
        }) {
            Ok(number) => number,
            Err(is_cut) => {
                return (None, Err(if is_cut { ModelCallError::CutOff } else { ModelCallError::Diverged }));
            }
        };
        let recorded = self.answers.as_ref().and_then(|answers| answers.model_calls.get(number));
        let outcome = match recorded {
            Some(recorded) if recorded.model != model => {
                self.diverged(format!(
                    "asks the model `{}` where the recorded one asked `{}`",
                    shown(model),
                    shown(&recorded.model)
                ));
                return (None, Err(ModelCallError::Diverged));
            }
            Some(HandlerModelCall { outcome: Some(outcome), .. }) => outcome.clone(),
            // The recorded handler never had an answer: it let go of the call, or was stopped.
            Some(_) => Err(ModelCallError::CutOff),
            None => {
                self.diverged(format!("asks for {NAME}, and the recording has lost it"));
                Err(ModelCallError::Diverged)
            }
        };
        (Some(number), outcome)
    }

    /// The handler sends a request, whose body is yet to come.
    pub(in crate::plugin) fn sent(&self, call: OutboundCall) -> SentRequest {
        let mut lists = self.own.lock();
        let number = lists.outbound.len();
        let (recorded, way) = self.way(&mut lists, &call);
        let body = KeptBody::new(&self.budget);
        let answer = match &way {
            Outgoing::Known(answer) => Some(answer.clone()),
            Outgoing::Live | Outgoing::Unanswered => None,
        };
        if !self.budget.take(head_bytes(&[&call.method, &call.url], &call.headers)) {
            return SentRequest { number: NOT_KEPT, body, way };
        }
        let call = OutboundCall { answer, ..call };
        lists.outbound.push(Sent { call, body: body.clone(), response: None, recorded });
        SentRequest { number, body, way }
    }

    fn way(&self, lists: &mut Lists, call: &OutboundCall) -> (Option<usize>, Outgoing) {
        const DENIED: Outgoing = Outgoing::Known(OutboundAnswer::Failed(OutboundError::Denied));
        if let Some(answers) = &self.answers {
            let next = self.next_number("an answer to a request that it sends", |draw| match draw {
                HostCallResult::Outbound(number) => Some(*number),
                _ => None,
            });
            let Some(number) = next.ok() else { return (None, DENIED) };
            let Some(recorded) = answers.outbound.get(number) else {
                self.diverged("sends a request whose answer the recording has lost".to_owned());
                return (None, DENIED);
            };
            if (&recorded.method, &recorded.url) != (&call.method, &call.url) {
                let (now, then) = (call.shown(), recorded.shown());
                self.diverged(match now == then {
                    true => format!("sends `{}` with another query than the recorded one", shown(&now)),
                    false => {
                        format!("sends `{}` where the recorded one sent `{}`", shown(&now), shown(&then))
                    }
                });
                return (None, DENIED);
            }
            return (Some(number), recorded.answer.clone().map_or(Outgoing::Unanswered, Outgoing::Known));
        }
        if self.is_of_instance {
            self.note(HostCallResult::Outbound(lists.outbound.len()));
        }
        let Some(known) = &self.known else { return (None, Outgoing::Live) };
        let is_same = |(number, known): &(usize, &OutboundCall)| {
            (&known.method, &known.url) == (&call.method, &call.url) && !lists.given.contains(number)
        };
        let found = known.outbound.iter().enumerate().find(is_same);
        let answer = found.and_then(|(_, known)| known.answer.clone());
        lists.given.extend(found.map(|(number, _)| number));
        // What was not sent before is not sent now.
        (None, answer.map_or(DENIED, Outgoing::Known))
    }

    /// The head of the response to the request of this number, or why there is none. Gives where its body is
    /// kept.
    pub(in crate::plugin) fn answered(&self, number: usize, answer: OutboundAnswer) -> Arc<KeptBody> {
        let body = KeptBody::new(&self.budget);
        let cost = match &answer {
            OutboundAnswer::Response { headers, .. } => head_bytes(&[], headers),
            OutboundAnswer::Failed(_) => 0,
        };
        let is_kept = self.budget.take(cost);
        if let Some(sent) = self.own.lock().outbound.get_mut(number).filter(|_| is_kept) {
            sent.call.answer = Some(answer);
            sent.response = Some(body.clone());
        }
        body
    }

    /// The body of a request that goes nowhere is being taken from the handler.
    pub(in crate::plugin) fn drains(&self, task: JoinHandle<()>) {
        let drains = &mut self.own.lock().drains;
        if drains.len().is_multiple_of(DRAINS) {
            drains.retain(|drain| !drain.is_finished());
        }
        drains.push(task);
    }

    /// Waits until all is here that a handler has sent whose run is over.
    pub async fn settle(&self) {
        let drains = std::mem::take(&mut self.own.lock().drains);
        for drain in drains {
            // One that failed has taken what there was.
            let _ = drain.await;
        }
    }

    /// The calls of models that the handler has made by itself.
    pub fn model_calls(&self) -> Vec<HandlerModelCall> {
        self.own.lock().model_calls.iter().map(|noted| noted.call.clone()).collect()
    }

    /// The requests that it has sent.
    pub fn outbound(&self) -> Vec<OutboundCall> {
        self.own.lock().outbound.iter().map(Sent::call).collect()
    }

    /// How many calls of models had to be answered by a model.
    pub fn models_asked(&self) -> usize {
        let lists = self.own.lock();
        lists.not_kept + lists.model_calls.iter().filter(|noted| !noted.was_known).count()
    }

    /// All calls of the run, to be known to another one.
    pub fn calls(&self) -> KnownCalls {
        KnownCalls {
            model_call: self.model_call(),
            model_calls: self.model_calls(),
            outbound: self.outbound(),
            capabilities: self.capability_calls(),
        }
    }

    /// The calls of a replay beside the recorded ones.
    pub fn replayed(&self) -> ReplayedCalls {
        let answers = self.answers.as_ref();
        let lists = self.own.lock();
        let model_calls = lists.model_calls.iter().filter_map(|noted| {
            Some((noted.call.clone(), answers?.model_calls.get(noted.recorded?)?.clone()))
        });
        let outbound = lists
            .outbound
            .iter()
            .filter_map(|sent| Some((sent.call(), answers?.outbound.get(sent.recorded?)?.clone())));
        ReplayedCalls { model_calls: model_calls.collect(), outbound: outbound.collect() }
    }

    /// The next draw of a replay, which has to be a number; else whether the recorded handler was cut off.
    pub(super) fn next_number(
        &self,
        name: &'static str,
        wanted: impl FnOnce(&HostCallResult) -> Option<usize>,
    ) -> Result<usize, bool> {
        match self.next(name, wanted) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => Err(false),
            Err(error) => Err(error.is::<DeadlineExceeded>()),
        }
    }

    /// A replay has left its recording in the call that is going on.
    pub(super) fn diverged(&self, what: String) {
        let mut inner = self.lock();
        let super::Inner { recorded, head: Some(head), .. } = &mut *inner else { return };
        let call = head.calls.checked_sub(1).and_then(|call| recorded.calls.get(call));
        let function = call.map_or(super::START, |call| call.function.as_str()).to_owned();
        let _: Divergence = head.diverge(&function, what);
    }
}

fn bytes(tensors: &[Tensor]) -> usize {
    let bytes = |tensor: &Tensor| {
        size_of::<Tensor>() + tensor.name.len() + size_of_val(tensor.shape.as_slice()) + tensor.data.len()
    };
    tensors.iter().map(bytes).sum()
}

/// The bytes of a request's head, or of a response's.
fn head_bytes(texts: &[&str], headers: &[(String, String)]) -> usize {
    let pair = |(name, value): &(String, String)| size_of::<(String, String)>() + name.len() + value.len();
    CALL_COST + texts.iter().map(|text| text.len()).sum::<usize>() + headers.iter().map(pair).sum::<usize>()
}

/// Of a recording, or of a handler: either may say anything.
pub(in crate::plugin) fn shown(text: &str) -> String {
    text.escape_debug().take(SHOWN).collect()
}
