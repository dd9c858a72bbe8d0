//! One instance of a handler: its store, its limits, its calls.
//!
//! Life of an instance: *fresh* (made when no idle one is left, or for every request) → *checked out* by one
//! request → `pre-inference` → (the model runs) → `post-inference` → *idle* again, or dropped. It is dropped,
//! never reused, when a call trapped, was cut off or returned nonsense, when its request ended before
//! `post-inference` returned, and always under `isolation = request`.
//! Invariants: between two calls of one request no other request holds the instance; its deadline is set
//! before every entry into guest code; its memory never passes the limit.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::Store;
use wasmtime::component;

use super::bindings::exports::modelhost::handler::pre_inference;
use super::bindings::modelhost::handler::types;
use super::component::LoadedComponent;
use super::context::Context;
use super::convert::{self, Returned};
use super::deadline::{Allowed, DeadlineExceeded, metered};
use super::exports::Exports;
use super::fault;
use super::host_call_log::{HostCallLog, START};
use super::pool::{Full, Place};
use super::settings::{Isolation, START_TIMEOUT};
use super::staged::{Outcome, StagedCall};
use super::start_error::StartError;
use super::state::{self, State};
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::model_access::HandlerModels;
use crate::request::dependencies::Dependencies;
use crate::request::exchange::Phase;
use crate::request::{Request, Response};
use crate::schema::Schema;
use crate::telemetry::metrics::Alive;
use crate::tensor::{Signature, Tensor};
use crate::text;

/// A live instance and its bound exports.
pub(super) struct Instance {
    pub(super) store: Store<State>,
    pub(super) handle: component::Instance,
    pub(super) exports: Exports,
    _alive: Alive,
    /// The last to go: by then the engine's own slot is free.
    _place: Place,
}

impl Instance {
    /// Makes a fresh instance. Guest start functions run here: within the time of `pre-inference` if it is
    /// for one request only, else within [`START_TIMEOUT`], and until `end` at the latest. `log`: of the only
    /// request it is for, if that is recorded or replayed.
    pub(super) async fn new(
        component: &LoadedComponent,
        end: Option<Instant>,
        log: Option<Arc<HostCallLog>>,
    ) -> Result<Box<Instance>, StartError> {
        if let Some(log) = &log {
            log.enter(START, None);
        }
        let loaded = &component.context;
        let _place = loaded.holding.take().map_err(|Full| StartError::Full)?;
        let limits = &loaded.config.limits;
        let of_request = end.is_some() && loaded.config.isolation == Isolation::Request;
        let cpu = if of_request { limits.pre_timeout } else { START_TIMEOUT };
        let until = Instant::now() + limits.wall(cpu);
        let allowed = Allowed { cpu, until: end.map_or(until, |end| until.min(end)) };
        let mut store = state::store(component.pre.engine(), loaded, allowed, log);
        // Two guards, as for every call: looks stop guest code, the timer what waits outside of it.
        let meter = store.data().call.meter();
        let made = metered(meter, allowed.until, pin!(component.pre.instantiate_async(&mut store))).await;
        if of_request {
            let state = store.data_mut();
            state.start = state.call.taken();
        }
        let instance = match made {
            Some(Ok(instance)) => instance,
            Some(Err(error)) => return Err(StartError::of(error, store.data())),
            None => return Err(StartError::Time),
        };
        let exports = component.exports.bind(&mut store, &instance)?;
        let _alive = loaded.config.instances.made();
        // Boxed: it changes hands several times a request.
        Ok(Box::new(Instance { store, handle: instance, exports, _alive, _place }))
    }

    /// From here on the instance belongs to `request`.
    pub(super) fn begin(&mut self, request: &Arc<Request>, signature: Option<&Arc<Signature>>) {
        let state = self.store.data_mut();
        // Comparing is cheaper than counting: every thread counts at the same place.
        if state.signature.as_ref().map(Arc::as_ptr) != signature.map(Arc::as_ptr) {
            state.signature = signature.cloned();
        }
        state.limiter.begin();
        state.begin_http();
        if let Some(wasi) = &state.wasi {
            wasi.1.begin(&request.id);
        }
        state.request = Some(request.clone());
    }

    /// These models may be called for the request.
    pub(super) fn give(&mut self, models: Arc<dyn HandlerModels>) {
        self.store.data_mut().run.models = Some(models);
    }

    /// A handler that was refused memory and has answered nevertheless, as one that finds a picture too
    /// large: the caller reads what it says, and the operator is told of the limit.
    pub(super) fn tell_of_refused_memory(&self) {
        let state = self.store.data();
        if state.limiter.refused && state.loaded.refused_memory.is_due() {
            tracing::warn!(
                endpoint = %state.loaded.config.endpoint,
                request.id = state.request.as_ref().map(|request| &*request.id),
                "the handler needed more than its {} bytes of memory, and answered without; hint: {}",
                state.limiter.memory_limit,
                fault::MORE_MEMORY,
            );
        }
    }

    /// The request is answered; what it printed without a line end is logged.
    pub(super) fn end(&mut self) {
        let state = self.store.data_mut();
        state.request = None;
        state.run.calls_log = None;
        state.run.models = None;
        state.capabilities.end();
        // Of what start functions ask for, the first answer may depend too.
        state.run.dependencies = Dependencies::default();
        if let Some(wasi) = &state.wasi {
            wasi.1.flush();
        }
    }

    /// How many of the host's resources the guest holds, streams and tasks of its own included.
    pub(super) fn handles(&mut self) -> usize {
        let tasks = self.store.concurrent_resource_table().map_or(0, |tasks| tasks.iter_mut().count());
        self.store.data_mut().handle_count() + tasks
    }

    /// Bytes of all its linear memories.
    pub(super) fn memory(&self) -> usize {
        self.store.data().limiter.memory
    }

    /// Runs a call around the model; `None` if the handler has no such function.
    pub(super) async fn call(
        &mut self,
        request: &Request,
        call: StagedCall<'_>,
    ) -> Option<Result<Outcome<Vec<Tensor>>, RequestError>> {
        let stage = call.stage();
        // The limits are set before the argument is made.
        macro_rules! ended {
            ($guest:ident.$function:ident($argument:expr), $given:expr) => {{
                let guest = self.exports.$guest.as_ref()?;
                let (meter, end) = state::arm(&mut self.store, request, stage, $given);
                let argument = $argument;
                metered(meter, end, pin!(guest.$function(&mut self.store, argument, Context::handle()))).await
            }};
        }
        Some(match call {
            StagedCall::Pre => {
                let body = request.body();
                let sample = pre_inference::Sample { content_type: request.sample_type(), body };
                let ended = ended!(pre.call_pre_inference(sample), body.len());
                self.settled(ended, stage, convert::tensors_from_guest)
            }
            StagedCall::PreTensors(sample) => {
                let (given, sample) = (blocking::weight(sample), || convert::tensors_to_guest(sample));
                let ended = ended!(pre_tensors.call_pre_inference_tensors(&sample()), given);
                self.settled(ended, stage, convert::tensors_from_guest)
            }
            StagedCall::Post(outputs) => {
                let (given, outputs) = (blocking::weight(outputs), || convert::tensors_to_guest(outputs));
                let ended = ended!(post.call_post_inference(&outputs()), given);
                let settled = self.settled(ended, stage, |response| self.response(response));
                settled.map(|outcome| match outcome {
                    Outcome::Next(response) | Outcome::Respond(response) => Outcome::Respond(response),
                })
            }
            StagedCall::PostTensors(outputs) => {
                let (given, outputs) = (blocking::weight(outputs), || convert::tensors_to_guest(outputs));
                let ended = ended!(post_tensors.call_post_inference_tensors(&outputs()), given);
                self.settled(ended, stage, convert::tensors_from_guest)
            }
        })
    }

    /// Calls `input-schema`, as `pre-inference` is called; `None` if the handler has none, or says nothing by
    /// it.
    ///
    /// # Errors
    /// Text for the operator.
    pub(super) async fn input_schema(&mut self) -> Result<Option<Schema>, String> {
        const STAGE: Stage = Stage::PreInference;
        let Some(guest) = &self.exports.schema else { return Ok(None) };
        let cpu = self.store.data().time(STAGE);
        let (meter, end) = state::arm_until(&mut self.store, cpu, None, 0);
        let outcome = metered(meter, end, pin!(guest.call_input_schema(&mut self.store))).await;
        self.told(outcome, STAGE).and_then(convert::schema_from_guest)
    }

    /// The value that a call at load returned, once it has ended in any way; `None` is out of time.
    ///
    /// # Errors
    /// Text for the operator.
    pub(super) fn told<T>(&self, outcome: Option<wasmtime::Result<T>>, stage: Stage) -> Result<T, String> {
        let failed = |error: RequestError| error.to_string();
        self.disarm(stage).map_err(failed)?;
        match outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(failed(self.fault(error, stage))),
            None => Err(failed(timed_out(self.store.data(), stage))),
        }
    }

    /// The outcome of a call, once it has ended in any way; `None` is out of time.
    pub(super) fn settled<T: Returned, U>(
        &self,
        outcome: Option<wasmtime::Result<Result<T, types::Error>>>,
        stage: Stage,
        convert: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<Outcome<U>, RequestError> {
        self.disarm(stage)?;
        let returned = |bytes| self.store.data().loaded.long_calls.returned(bytes);
        match outcome {
            Some(Ok(Ok(value))) => {
                returned(value.weight());
                convert(value).map(Outcome::Next).map_err(|text| bad_output(stage, text))
            }
            Some(Ok(Err(error))) => {
                returned(error.weight());
                self.handler_error(error, stage)
            }
            Some(Err(error)) => {
                let failure = self.fault(error, stage);
                if failure.code == Code::PluginBadOutput {
                    // All that may be copied may have been, before something was found wrong with it.
                    returned(self.store.data().loaded.config.limits.output);
                }
                Err(failure)
            }
            None => Err(timed_out(self.store.data(), stage)),
        }
    }

    /// The request's error for a handler's own.
    pub(super) fn handler_error<T>(
        &self,
        error: types::Error,
        stage: Stage,
    ) -> Result<Outcome<T>, RequestError> {
        match error {
            types::Error::InvalidInput(text) => Err(RequestError::invalid(stage, text::cut(text))),
            types::Error::Internal(text) => {
                let failure = RequestError::new(Code::PluginError, stage, "the handler failed");
                Err(failure.with_detail(text::cut(text)).with_last_lines(&self.store.data().last_lines()))
            }
            types::Error::Respond(response) => {
                self.response(response).map(Outcome::Respond).map_err(|text| bad_output(stage, text))
            }
        }
    }

    pub(super) fn response(&self, response: types::Response) -> Result<Response, String> {
        convert::response_from_guest(response, &self.store.data().loaded.config.response_headers)
    }

    /// The call has ended, in any way.
    pub(super) fn disarm(&self, stage: Stage) -> Result<(), RequestError> {
        let state = self.store.data();
        state.call.end();
        if state.broken {
            return Err(RequestError::new(Code::Internal, stage, "the project files are not there"));
        }
        Ok(())
    }

    /// Turns what ended a call into the request's error.
    pub(super) fn fault(&self, error: wasmtime::Error, stage: Stage) -> RequestError {
        let state = self.store.data();
        let failure = fault::of(&error, stage, state.bounds(stage), state.limiter.refused);
        let failure = failure.with_last_lines(&state.last_lines());
        if failure.code == Code::PluginTimeout { over(state, stage).unwrap_or(failure) } else { failure }
    }
}

pub(super) fn timed_out(state: &State, stage: Stage) -> RequestError {
    over(state, stage).unwrap_or_else(|| fault::timed_out(stage, DeadlineExceeded::Wall, state.bounds(stage)))
}

/// Whether it is the request's own time that is over.
fn over(state: &State, stage: Stage) -> Option<RequestError> {
    // Once there is an answer, that time is no matter any more.
    let is_answered = state.response.as_ref().is_some_and(|response| response.phase() != Phase::Head);
    let is_over = |request: &Arc<Request>| !is_answered && Instant::now() >= request.deadline;
    let is_over = state.request.as_ref().is_some_and(is_over);
    is_over.then(|| RequestError::new(Code::RequestTimeout, stage, "the request took longer than it may"))
}

pub(super) fn bad_output(stage: Stage, text: String) -> RequestError {
    RequestError::new(Code::PluginBadOutput, stage, format!("the handler returned invalid output: {text}"))
}
