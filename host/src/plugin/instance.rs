//! One instance of a handler: its store, its limits, its calls.
//!
//! Life of an instance: *fresh* (made when no idle one is left, or for every request) → *lent* to one request →
//! `pre-inference` → (the model runs) → `post-inference` → *idle* again, or dropped.
//! It is dropped, never reused, when a call trapped, was cut off or returned nonsense, when its request ended
//! before `post-inference` returned, and always under `isolation = request`.
//! Invariants: between two calls of one request nobody else holds the instance; its deadline is set before every
//! entry into guest code; its memory never passes the limit.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::{self, ResourceTable};
use wasmtime::{PoolConcurrencyLimitError, ResourceLimiter, Store};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::bindings::exports::modelhost::handler::pre_inference;
use super::bindings::modelhost::handler::types;
use super::context::Context;
use super::deadline::{self, DeadlineExceeded};
use super::exports::Exports;
use super::fault::{self, Bounds, TooManyHostCalls};
use super::output::{Output, Stream};
use super::tape::{START, Tape};
use super::{Outcome, Shared, convert};
use crate::error::{Code, PluginFault, RequestError, Stage};
use crate::request::{Request, Response, until};
use crate::schema::Schema;
use crate::telemetry::metrics::Alive;
use crate::tensor::{Signature, Tensor};
use crate::text;

/// Most calls of files, streams and timers in one guest call: each may cost a thread that others need. Enough to read the
/// largest project in pieces of a few kilobytes.
const HOST_CALLS: u32 = 100_000;
/// Most random bytes one host call may return.
const RANDOM_BYTES: u64 = 1 << 20;
/// Most entries all tables of an instance may have together.
const TABLE_ELEMENTS: usize = 1 << 20;

/// What the store of one instance owns.
pub(super) struct State {
    pub(super) shared: Arc<Shared>,
    pub(super) request: Option<Arc<Request>>,
    /// Of the model that the last request went to; kept, since the next one's is most likely the same.
    pub(super) signature: Option<Arc<Signature>>,
    limiter: Limiter,
    /// Made when the guest first asks WASI for anything: a handler that only computes never pays for it.
    wasi: Option<Box<(WasiCtx, Output)>>,
    table: ResourceTable,
    /// The project's copy could not be opened: whatever the guest answers without it is not to be trusted.
    broken: bool,
    deadline: Instant,
    ticks: u32,
    host_calls: u32,
    /// Of a request that is recorded or replayed.
    pub(super) tape: Option<Arc<Tape>>,
}

impl State {
    /// WASI, for a call that costs more than the guest's own time: it is counted.
    pub(super) fn host_call(&mut self) -> WasiCtxView<'_> {
        self.host_calls = self.host_calls.saturating_add(1);
        self.ctx()
    }

    fn bounds(&self, stage: Stage) -> Bounds {
        Bounds {
            memory: self.limiter.memory_limit,
            output: self.shared.facts.limits.output,
            handles: self.shared.handles,
            time: time(self, stage),
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self
            .wasi
            .get_or_insert_with(|| wasi_context(&self.shared, self.request.as_ref(), &mut self.broken));
        WasiCtxView { ctx: &mut wasi.0, table: &mut self.table }
    }
}

impl State {
    /// What the guest has of the host's in its hands; empty if nothing.
    pub(super) fn handles(&mut self) -> Vec<&'static str> {
        let kind = |entry: &mut (dyn Any + Send)| match () {
            _ if entry.is::<Descriptor>() => "a file or a folder",
            _ if entry.is::<DynInputStream>() || entry.is::<DynOutputStream>() => "a stream",
            _ if entry.is::<DynPollable>() => "a pollable",
            _ => "a handle",
        };
        self.table.iter_mut().map(kind).collect()
    }

    /// Lets the instance have so many bytes more of memory than its limit.
    pub(super) fn allow_memory(&mut self, more: usize) {
        self.limiter.memory_limit = self.limiter.memory_limit.saturating_add(more);
    }
}

fn wasi_context(
    shared: &Shared,
    request: Option<&Arc<Request>>,
    broken: &mut bool,
) -> Box<(WasiCtx, Output)> {
    let id = request.map_or_else(|| "-".into(), |request| request.id.clone());
    let output = Output::new(shared.facts.endpoint.clone(), id, shared.facts.limits.output);
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(output.stream(Stream::Stdout))
        .stderr(output.stream(Stream::Stderr))
        .envs(&shared.facts.env)
        .max_random_size(RANDOM_BYTES);
    if let Some(project) = &shared.project
        && let Err(error) = builder.preopened_dir(project.path(), "/mnt/project", FsPerms::ReadOnly)
    {
        *broken = true;
        tracing::error!(endpoint = %shared.facts.endpoint, "cannot open the copy of the project files: {error:#}");
    }
    Box::new((builder.build(), output))
}

/// Counts memory over all of an instance's linear memories and tables.
#[derive(Debug)]
struct Limiter {
    memory: usize,
    memory_limit: usize,
    elements: usize,
    /// Whether growth was refused since the request began: what makes a trap an out-of-memory.
    refused: bool,
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        let granted = total <= self.memory_limit;
        if granted {
            self.memory = total;
        }
        self.refused |= !granted;
        Ok(granted)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refused = true;
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.elements.saturating_add(desired.saturating_sub(current));
        let granted = total <= TABLE_ELEMENTS;
        if granted {
            self.elements = total;
        }
        Ok(granted)
    }
}

/// A live instance and its bound exports.
pub(super) struct Instance {
    pub(super) store: Store<State>,
    pub(super) handle: component::Instance,
    pub(super) exports: Exports,
    _alive: Alive,
}

impl Instance {
    /// Makes a fresh instance. Guest start functions run here, until `deadline` at the latest. `tape`: of the only request it
    /// is for, if that is recorded or replayed.
    pub(super) async fn new(
        shared: &Arc<Shared>,
        deadline: Instant,
        tape: Option<Arc<Tape>>,
    ) -> Result<Box<Instance>, StartError> {
        if let Some(tape) = &tape {
            tape.enter(START, None);
        }
        let limits = &shared.facts.limits;
        let mut table = ResourceTable::new();
        table.set_max_capacity(shared.handles);
        let state = State {
            shared: shared.clone(),
            request: None,
            signature: None,
            limiter: Limiter { memory: 0, memory_limit: limits.memory, elements: 0, refused: false },
            wasi: None,
            table,
            broken: false,
            deadline,
            ticks: 0,
            host_calls: 0,
            tape,
        };
        let mut store = Store::new(shared.pre.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(limits.output);
        store.epoch_deadline_callback(|mut store| {
            let state = store.data_mut();
            if state.host_calls > HOST_CALLS {
                return Err(TooManyHostCalls(HOST_CALLS).into());
            }
            deadline::on_tick(state.deadline, &mut state.ticks, &state.shared.pace)
        });
        store.set_epoch_deadline(deadline::FIRST_TICKS);
        // Two guards, as for every call: the epoch stops guest code, the timer what waits outside of it.
        let made = until(deadline, pin!(shared.pre.instantiate_async(&mut store))).await;
        let instance = match made {
            Some(Ok(instance)) => instance,
            Some(Err(error)) => return Err(StartError::of(error, store.data())),
            None => return Err(StartError::Time),
        };
        let exports = shared.exports.bind(&mut store, &instance)?;
        let _alive = shared.facts.instances.made();
        // Boxed: it changes hands several times a request.
        Ok(Box::new(Instance { store, handle: instance, exports, _alive }))
    }

    /// From here on the instance belongs to `request`.
    pub(super) fn begin(&mut self, request: &Arc<Request>, signature: Option<&Arc<Signature>>) {
        let state = self.store.data_mut();
        // Comparing is cheaper than counting: every thread counts at the same place.
        if state.signature.as_ref().map(Arc::as_ptr) != signature.map(Arc::as_ptr) {
            state.signature = signature.cloned();
        }
        state.limiter.refused = false;
        if let Some(wasi) = &state.wasi {
            wasi.1.begin(&request.id);
        }
        state.request = Some(request.clone());
    }

    /// The request is answered; what it printed without a line end is logged.
    pub(super) fn end(&mut self) {
        let state = self.store.data_mut();
        state.request = None;
        if let Some(wasi) = &state.wasi {
            wasi.1.flush();
        }
    }

    /// Bytes of all its linear memories.
    pub(super) fn memory(&self) -> usize {
        self.store.data().limiter.memory
    }

    /// Calls `pre-inference`; `None` if the handler has none.
    pub(super) async fn pre_inference(
        &mut self,
        request: &Request,
    ) -> Option<Result<Outcome<Vec<Tensor>>, RequestError>> {
        const STAGE: Stage = Stage::PreInference;
        let guest = self.exports.pre.as_ref()?;
        let deadline = arm(&mut self.store, request, STAGE);
        let sample = pre_inference::Sample { content_type: request.sample_type(), body: request.body() };
        let outcome =
            until(deadline, pin!(guest.call_pre_inference(&mut self.store, sample, Context::handle()))).await;
        Some(self.settled(outcome, STAGE, convert::tensors_from_guest))
    }

    /// Calls `pre-inference-tensors`; `None` if the handler has none.
    pub(super) async fn pre_inference_tensors(
        &mut self,
        request: &Request,
        sample: &[Tensor],
    ) -> Option<Result<Outcome<Vec<Tensor>>, RequestError>> {
        const STAGE: Stage = Stage::PreInference;
        let guest = self.exports.pre_tensors.as_ref()?;
        let deadline = arm(&mut self.store, request, STAGE);
        let sample = convert::tensors_to_guest(sample);
        let outcome = until(
            deadline,
            pin!(guest.call_pre_inference_tensors(&mut self.store, &sample, Context::handle())),
        )
        .await;
        Some(self.settled(outcome, STAGE, convert::tensors_from_guest))
    }

    /// Calls `post-inference`; `None` if the handler has none.
    pub(super) async fn post_inference(
        &mut self,
        request: &Request,
        prediction: &[Tensor],
    ) -> Option<Result<Response, RequestError>> {
        const STAGE: Stage = Stage::PostInference;
        let guest = self.exports.post.as_ref()?;
        let deadline = arm(&mut self.store, request, STAGE);
        let prediction = convert::tensors_to_guest(prediction);
        let outcome =
            until(deadline, pin!(guest.call_post_inference(&mut self.store, &prediction, Context::handle())))
                .await;
        let settled = self.settled(outcome, STAGE, |response| self.response(response));
        Some(settled.map(|outcome| match outcome {
            Outcome::Next(response) | Outcome::Respond(response) => response,
        }))
    }

    /// Calls `post-inference-tensors`; `None` if the handler has none.
    pub(super) async fn post_inference_tensors(
        &mut self,
        request: &Request,
        prediction: &[Tensor],
    ) -> Option<Result<Outcome<Vec<Tensor>>, RequestError>> {
        const STAGE: Stage = Stage::PostInference;
        let guest = self.exports.post_tensors.as_ref()?;
        let deadline = arm(&mut self.store, request, STAGE);
        let prediction = convert::tensors_to_guest(prediction);
        let outcome = until(
            deadline,
            pin!(guest.call_post_inference_tensors(&mut self.store, &prediction, Context::handle())),
        )
        .await;
        Some(self.settled(outcome, STAGE, convert::tensors_from_guest))
    }

    /// Calls `input-schema`, as `pre-inference` is called; `None` if the handler has none, or says nothing by it.
    ///
    /// # Errors
    /// Text for the operator.
    pub(super) async fn input_schema(&mut self) -> Result<Option<Schema>, String> {
        const STAGE: Stage = Stage::PreInference;
        let Some(guest) = &self.exports.schema else { return Ok(None) };
        let deadline = Instant::now() + time(self.store.data(), STAGE);
        arm_until(&mut self.store, deadline);
        let outcome = until(deadline, pin!(guest.call_input_schema(&mut self.store))).await;
        let failed = |error: RequestError| error.to_string();
        self.disarm(STAGE).map_err(failed)?;
        match outcome {
            Some(Ok(inputs)) => convert::schema_from_guest(inputs),
            Some(Err(error)) => Err(failed(self.fault(error, STAGE))),
            None => Err(failed(timed_out(self.store.data(), STAGE))),
        }
    }

    /// What a call led to, once it has ended in whatever way; `None` is out of time.
    fn settled<T, U>(
        &self,
        outcome: Option<wasmtime::Result<Result<T, types::Error>>>,
        stage: Stage,
        convert: impl FnOnce(T) -> Result<U, String>,
    ) -> Result<Outcome<U>, RequestError> {
        self.disarm(stage)?;
        match outcome {
            Some(Ok(Ok(value))) => convert(value).map(Outcome::Next).map_err(|text| bad_output(stage, text)),
            Some(Ok(Err(error))) => self.handler_error(error, stage),
            Some(Err(error)) => Err(self.fault(error, stage)),
            None => Err(timed_out(self.store.data(), stage)),
        }
    }

    /// What a handler's own error means for the request.
    fn handler_error<T>(&self, error: types::Error, stage: Stage) -> Result<Outcome<T>, RequestError> {
        match error {
            types::Error::InvalidInput(text) => Err(RequestError::invalid(stage, text::cut(text))),
            types::Error::Internal(text) => {
                Err(RequestError::new(Code::PluginError, stage, "the handler failed")
                    .with_detail(text::cut(text)))
            }
            types::Error::Respond(response) => {
                self.response(response).map(Outcome::Respond).map_err(|text| bad_output(stage, text))
            }
        }
    }

    fn response(&self, response: types::Response) -> Result<Response, String> {
        convert::response_from_guest(response, &self.store.data().shared.facts.response_headers)
    }

    /// The call has ended, in whatever way.
    pub(super) fn disarm(&self, stage: Stage) -> Result<(), RequestError> {
        let state = self.store.data();
        state.shared.pace.end(state.ticks);
        if state.broken {
            return Err(RequestError::new(Code::Internal, stage, "the project files are not there"));
        }
        Ok(())
    }

    /// Turns what ended a call into the request's error.
    pub(super) fn fault(&self, error: wasmtime::Error, stage: Stage) -> RequestError {
        let state = self.store.data();
        let failure = fault::of(&error, stage, state.bounds(stage), state.limiter.refused);
        if failure.code == Code::PluginTimeout { over(state, stage).unwrap_or(failure) } else { failure }
    }
}

/// Sets the deadline of the coming call: its own time or what is left of the request's, whichever is less.
fn arm(store: &mut Store<State>, request: &Request, stage: Stage) -> Instant {
    let time = time(store.data(), stage);
    let deadline = (Instant::now() + time).min(request.deadline);
    arm_until(store, deadline);
    deadline
}

pub(super) fn arm_until(store: &mut Store<State>, deadline: Instant) {
    let state = store.data_mut();
    state.deadline = deadline;
    state.ticks = 0;
    state.host_calls = 0;
    state.shared.pace.begin();
    store.set_epoch_deadline(deadline::FIRST_TICKS);
}

/// How long a call of this stage may run.
fn time(state: &State, stage: Stage) -> Duration {
    let limits = &state.shared.facts.limits;
    if stage == Stage::PreInference { limits.pre_timeout } else { limits.post_timeout }
}

fn timed_out(state: &State, stage: Stage) -> RequestError {
    over(state, stage).unwrap_or_else(|| fault::timed_out(stage, time(state, stage)))
}

/// Whether it is the request's own time that is over.
fn over(state: &State, stage: Stage) -> Option<RequestError> {
    let is_over = state.request.as_ref().is_some_and(|request| Instant::now() >= request.deadline);
    is_over.then(|| RequestError::new(Code::RequestTimeout, stage, "the request took longer than it may"))
}

fn bad_output(stage: Stage, text: String) -> RequestError {
    RequestError::new(Code::PluginBadOutput, stage, format!("the handler returned nonsense: {text}"))
}

/// Why a fresh instance could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("its start functions took too long")]
    Time,
    #[error("it needs more than its {0} bytes of memory")]
    Memory(usize),
    #[error("all sandboxes are in use")]
    Full,
    #[error("`{0}` does not have the contract's type: {1:#}")]
    Type(&'static str, wasmtime::Error),
    #[error("{0:#}")]
    Trap(wasmtime::Error),
    #[error("its `init` says: {0}")]
    Init(String),
    #[error("its `init` ran longer than {0:?}")]
    InitTime(Duration),
    #[error("its `init` failed: {}", _0.message)]
    InitFault(RequestError),
}

impl StartError {
    fn of(error: wasmtime::Error, state: &State) -> StartError {
        if error.is::<DeadlineExceeded>() {
            StartError::Time
        } else if error.is::<PoolConcurrencyLimitError>() {
            StartError::Full
        } else if state.limiter.refused {
            StartError::Memory(state.limiter.memory_limit)
        } else {
            StartError::Trap(error)
        }
    }

    /// What it means for a request with this deadline.
    pub(super) fn in_request(self, deadline: Instant) -> RequestError {
        const STAGE: Stage = Stage::PreInference;
        let code = match &self {
            StartError::Full => return RequestError::new(Code::Overloaded, Stage::Admit, self.to_string()),
            StartError::Time | StartError::InitTime(_) if Instant::now() >= deadline => Code::RequestTimeout,
            StartError::Time | StartError::InitTime(_) => Code::PluginTimeout,
            StartError::Init(_) => Code::PluginError,
            StartError::InitFault(error) => error.code,
            StartError::Memory(_) => Code::PluginOutOfMemory,
            StartError::Type(..) | StartError::Trap(_) => Code::PluginTrap,
        };
        let detail = match &self {
            StartError::Trap(error) => fault::detail(error),
            other => other.to_string(),
        };
        let error = RequestError::new(code, STAGE, "the handler could not be started");
        error.by_plugin(PluginFault::Start).with_detail(detail)
    }
}
