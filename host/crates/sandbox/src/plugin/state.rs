//! What the store of one instance owns, and what it may take.
//!
//! Place in the flow: made with an [`Instance`](super::instance::Instance); host functions work on it, and it
//! is asked whenever the guest calls the host, grows its memory, or has run for a while.
//! Invariants: a guest's memory never passes its limit; WASI is made when the guest first asks for it.

mod handles;

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::component::ResourceTable;
use wasmtime::{CallHook, Engine, ResourceLimiter, Store, UpdateDeadline};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

pub(super) use self::handles::Handle;
use super::batch_state::Members;
use super::capabilities::{Grants, Holder, States};
use super::capability::{Kernel, Run};
use super::deadline::{self, Allowed, Call, Meter};
use super::fault::Bounds;
use super::handler_context::HandlerContext;
use super::host_call_log::HostCallLog;
use super::output::{Output, Stream};
use super::streaming_state::Streaming;
use super::wasi_http_state::{Http, abort_bodies};
use super::websocket_state::Conversation;
use crate::error::Stage;
use crate::request::Request;
use crate::request::dependencies::{Dependencies, Dependency};
use crate::request::exchange::Progress;
use crate::tensor::Signature;

/// Most bytes that the guest may hand to one call of the host, models aside.
const ARGUMENTS: usize = 4 << 20;
/// Most random bytes one host call may return.
const RANDOM_BYTES: u64 = 1 << 20;
/// Longer than any process runs, and no overflow of a clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Most entries all tables of an instance may have together.
const TABLE_ELEMENTS: usize = 1 << 20;

/// The state in the store of one instance.
pub(super) struct State {
    pub(super) loaded: Arc<HandlerContext>,
    pub(super) request: Option<Arc<Request>>,
    /// The requests that it serves together, while it does.
    pub(super) batch: Members,
    /// Of the model that the last request went to; kept, since the next one's is most likely the same.
    pub(super) signature: Option<Arc<Signature>>,
    pub(super) limiter: Limiter,
    /// Made when the guest first asks WASI for anything: a handler that only computes never pays for it.
    pub(super) wasi: Option<Box<(WasiCtx, Output)>>,
    /// The same of `wasi:http`.
    http: Option<Box<Http>>,
    /// The current run.
    pub(super) run: Run,
    /// The states of what the endpoint grants.
    pub(super) capabilities: States,
    /// Of an application: how far its response has come.
    pub(super) response: Option<Arc<Progress>>,
    /// The same, of an application that exports `respond`.
    pub(super) streaming: Streaming,
    /// The WebSocket that it serves, or served last.
    pub(super) conversation: Conversation,
    table: ResourceTable,
    /// The project's copy could not be opened: what the guest answers without it is not to be trusted.
    pub(super) broken: bool,
    pub(super) call: Call,
    /// Whether the guest holds more listings of folders than it may.
    has_many_listings: bool,
    /// Between a call into the host and the return from it.
    in_host: bool,
    /// Most bytes one call may return.
    pub(super) output: usize,
    /// The start's part of the time of `pre-inference`: CPU time, and time that passed.
    pub(super) start: (Duration, Duration),
    /// Of a request that is recorded or replayed.
    pub(super) log: Option<Arc<HostCallLog>>,
    /// The things that the guest had asked for when `init` ended.
    pub(super) init_dependencies: Dependencies,
}

impl Holder for State {
    fn parts(&mut self) -> (&Grants, &mut States, Kernel<'_>) {
        let config = &self.loaded.config;
        let kernel = Kernel {
            table: &mut self.table,
            run: &mut self.run,
            request: self.request.as_ref(),
            log: self.log.as_ref(),
            limits: &config.limits,
            env: &config.env,
            metadata: &config.metadata,
            is_application: self.loaded.stages.is_application(),
        };
        (&config.grants, &mut self.capabilities, kernel)
    }
}

impl State {
    /// WASI, for a call that costs more than the guest's own time: it is counted.
    pub(super) fn host_call(&mut self) -> WasiCtxView<'_> {
        self.count_host_call();
        self.ctx()
    }

    /// The same without WASI.
    pub(super) fn count_host_call(&mut self) {
        self.run.count_host_call();
    }

    /// The guest's last lines of output.
    pub(super) fn last_lines(&self) -> String {
        self.wasi.as_ref().map_or_else(String::new, |wasi| wasi.1.last_lines())
    }

    /// The bounds by which faults of the current call are measured.
    pub(super) fn bounds(&self, stage: Stage) -> Bounds {
        let cpu = self.time(stage);
        Bounds {
            memory: self.limiter.memory_limit,
            output: if self.in_host { self.arguments() } else { self.loaded.config.limits.output },
            handles: self.loaded.handles(),
            cpu,
            wall: self.loaded.config.limits.wall(cpu),
        }
    }

    /// Most bytes that the guest may hand to one call of the host: of tensors and of a response as many as it
    /// may return.
    fn arguments(&self) -> usize {
        let are_large = self.loaded.uses.bring_output() || self.response.is_some();
        let granted = ARGUMENTS.saturating_add(self.loaded.config.grants.most_bytes());
        granted.max(if are_large { self.output } else { 0 })
    }

    /// CPU time of a call of this stage.
    pub(super) fn time(&self, stage: Stage) -> Duration {
        let limits = &self.loaded.config.limits;
        if stage == Stage::PreInference { limits.pre_timeout } else { limits.post_timeout }
    }

    pub(super) fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }

    /// The guest's state of `wasi:http`, and the table of its handles.
    pub(super) fn http_and_table(&mut self) -> (&mut Http, &mut ResourceTable) {
        self.run.dependencies.add(Dependency::Outbound);
        let http =
            self.http.get_or_insert_with(|| Box::new(Http::new(self.loaded.config.grants.outbound.clone())));
        http.allow_outbound(self.run.calls_out, self.run.calls_log.as_ref());
        let trace = self.request.as_ref().and_then(|request| request.trace.as_ref());
        http.hooks.continue_trace(trace);
        (http, &mut self.table)
    }

    /// A request begins.
    pub(super) fn begin_http(&mut self) {
        if let Some(http) = &mut self.http {
            http.begin(handles::held(&mut self.table, &mut self.capabilities).count());
        }
    }

    /// Guest code has been running for a while.
    fn look(&mut self) -> wasmtime::Result<()> {
        self.resume();
        self.count()?;
        Ok(self.call.look(&self.loaded.scheduler)?)
    }

    /// The guest calls the host, in any way.
    fn enter_host(&mut self) -> wasmtime::Result<()> {
        self.in_host = true;
        self.call.enter_host();
        self.resume();
        self.count()?;
        Ok(self.call.glance(&self.loaded.scheduler)?)
    }

    /// After a wait, a stream may use as much again. Whether there was one.
    fn resume(&mut self) -> bool {
        let has_resumed = self.call.has_resumed(&self.loaded.scheduler);
        if has_resumed {
            self.run.host_calls = 0;
        }
        has_resumed
    }
}

impl Drop for State {
    /// A body whose end the guest has not reached must not look as if it had.
    fn drop(&mut self) {
        let Some(http) = &self.http else { return };
        if let Some(response) = self.response.take()
            && !http.settle()
        {
            response.break_off();
        }
        // The same of requests that the guest was sending.
        abort_bodies(&mut self.table);
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self
            .wasi
            .get_or_insert_with(|| wasi_context(&self.loaded, self.request.as_ref(), &mut self.broken));
        WasiCtxView { ctx: &mut wasi.0, table: &mut self.table }
    }
}

impl State {
    /// Lets the instance have so many bytes more of memory than its limit.
    pub(super) fn allow_memory(&mut self, more: usize) {
        self.limiter.memory_limit = self.limiter.memory_limit.saturating_add(more);
    }
}

fn wasi_context(
    loaded: &HandlerContext,
    request: Option<&Arc<Request>>,
    broken: &mut bool,
) -> Box<(WasiCtx, Output)> {
    let id = request.map_or_else(|| "-".into(), |request| request.id.clone());
    let output = Output::new(loaded.config.endpoint.clone(), id, loaded.config.limits.output);
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(output.stream(Stream::Stdout))
        .stderr(output.stream(Stream::Stderr))
        .envs(&loaded.config.env)
        .max_random_size(RANDOM_BYTES);
    if let Some(project) = &loaded.project
        && let Err(error) = builder.preopened_dir(project.path(), "/mnt/project", FsPerms::ReadOnly)
    {
        *broken = true;
        tracing::error!(endpoint = %loaded.config.endpoint, "cannot open the copy of the project files: {error:#}");
    }
    Box::new((builder.build(), output))
}

/// Makes a store whose first calls, of start functions, are `allowed` this much.
pub(super) fn store(
    engine: &Engine,
    loaded: &Arc<HandlerContext>,
    allowed: Allowed,
    log: Option<Arc<HostCallLog>>,
) -> Store<State> {
    let limits = &loaded.config.limits;
    let mut table = ResourceTable::new();
    table.set_max_capacity(loaded.handles());
    let state = State {
        loaded: loaded.clone(),
        request: None,
        batch: Members::default(),
        signature: None,
        limiter: Limiter::of(limits.memory),
        wasi: None,
        http: None,
        run: Run::default(),
        capabilities: States::default(),
        response: None,
        streaming: Streaming::default(),
        conversation: Conversation::default(),
        table,
        broken: false,
        call: Call::new(allowed, &loaded.scheduler, &loaded.long_calls),
        has_many_listings: false,
        in_host: false,
        output: limits.output,
        start: (Duration::ZERO, Duration::ZERO),
        log,
        init_dependencies: Dependencies::default(),
    };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    if let Some(tasks) = store.concurrent_resource_table() {
        // What its tasks and streams take of the engine: there is no other bound to their number.
        tasks.set_max_capacity(loaded.handles());
    }
    store.set_hostcall_fuel(limits.output);
    store.epoch_deadline_callback(|mut store| {
        store.data_mut().look()?;
        Ok(UpdateDeadline::Continue(1))
    });
    store.call_hook(|mut store, hook| match hook {
        CallHook::CallingHost => {
            let arguments = store.data().arguments();
            store.set_hostcall_fuel(arguments);
            store.data_mut().enter_host()
        }
        CallHook::ReturningFromHost => {
            let state = store.data_mut();
            state.in_host = false;
            state.call.leave_host();
            let output = state.output;
            // It may have been there for long.
            state.loaded.scheduler.wake();
            let has_resumed = state.resume();
            // What is read next is what the call itself returns.
            store.set_hostcall_fuel(output);
            if has_resumed {
                // Ticks that passed while it waited are none of its own.
                store.set_epoch_deadline(deadline::FIRST_TICKS);
            }
            Ok(())
        }
        CallHook::CallingWasm | CallHook::ReturningFromWasm => Ok(()),
    });
    store.set_epoch_deadline(deadline::FIRST_TICKS);
    store
}

/// Sets the limits of the coming call: its own, less what the start took of them, and what is left of the
/// request's time. `given`: bytes that it copies into the guest.
pub(super) fn arm(
    store: &mut Store<State>,
    request: &Request,
    stage: Stage,
    given: usize,
) -> (Arc<Meter>, Instant) {
    let mut cpu = store.data().time(stage);
    let mut end = request.deadline;
    if stage == Stage::PreInference {
        let state = store.data();
        let (start, passed) = state.start;
        if !passed.is_zero() {
            end = end.min(Instant::now() + state.loaded.config.limits.wall(cpu).saturating_sub(passed));
            cpu = cpu.saturating_sub(start);
        }
    }
    arm_until(store, cpu, Some(end), given)
}

/// Sets the limits of the coming call: CPU time, and the time that follows from it, until `end` at the
/// latest. Gives what the call is to be polled with.
pub(super) fn arm_until(
    store: &mut Store<State>,
    cpu: Duration,
    end: Option<Instant>,
    given: usize,
) -> (Arc<Meter>, Instant) {
    let state = store.data_mut();
    let now = Instant::now();
    let until = now + state.loaded.config.limits.wall(cpu);
    let until = end.map_or(until, |end| until.min(end));
    state.call.begin(now, Allowed { cpu, until }, &state.loaded.scheduler);
    state.run.host_calls = 0;
    state.in_host = false;
    state.loaded.long_calls.begin(given);
    let meter = state.call.meter();
    store.set_epoch_deadline(deadline::FIRST_TICKS);
    (meter, until)
}

/// Sets the limits of a call that serves a stream: its CPU time, anew after every wait. How long it may take
/// is for its own clocks to say.
pub(super) fn arm_stream(store: &mut Store<State>, stage: Stage, given: usize) -> Arc<Meter> {
    let cpu = store.data().time(stage);
    let (meter, _) = arm_until(store, cpu, None, given);
    let until = Instant::now() + FOREVER;
    let state = store.data_mut();
    state.call.begin_stream(Allowed { cpu, until });
    meter
}

/// Counts memory over all of an instance's linear memories and tables.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) memory: usize,
    pub(super) memory_limit: usize,
    elements: usize,
    /// Whether growth was refused since the request began: what makes a trap an out-of-memory.
    pub(super) refused: bool,
    /// Memory when the first request began.
    at_first: Option<usize>,
}

impl Limiter {
    fn of(memory_limit: usize) -> Limiter {
        Limiter { memory: 0, memory_limit, elements: 0, refused: false, at_first: None }
    }

    /// A request begins.
    pub(super) fn begin(&mut self) {
        self.refused = false;
        self.at_first.get_or_insert(self.memory);
    }

    /// Whether most of the memory is taken, and much of it by requests: the next one, which may be small,
    /// could lack the rest. Memory never shrinks.
    pub(super) fn is_nearly_full(&self) -> bool {
        let taken = self.memory.saturating_sub(self.at_first.unwrap_or(self.memory));
        self.memory > self.memory_limit / 4 * 3 && taken > self.memory_limit / 8
    }
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
