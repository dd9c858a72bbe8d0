//! What a capability is: something of the host that an endpoint may grant to its handler.
//!
//! Place in the flow: implemented once in each folder of `capabilities/`. An endpoint's settings become a
//! grant when its handler is loaded; an instance has a state of each; a host function works on a [`View`].
//! In: settings, stores, the imports of a component. Out: host functions, linked; whether an instance that
//! has used it may serve again; its calls, logged.
//! Invariants: a capability sees its own grant and state and the [`Kernel`], and nothing of another one; a
//! handler without the grant pays for an empty field.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::DynPollable;

use super::deadline::DeadlineExceeded;
use super::host_call_log::{CallSource, HostCallLog, LoggedCall};
use super::limits::Limits;
use crate::jobs;
use crate::model_access::HandlerModels;
use crate::outbound::Rules;
use crate::request::Request;
use crate::request::dependencies::{Dependencies, Dependency};
use crate::telemetry::metrics::EndpointMetrics;

/// Something of the host that an endpoint may grant to its handler.
pub trait Capability: Sized + 'static {
    /// The settings of an endpoint for it.
    type Settings: fmt::Debug + Clone + PartialEq + Eq;
    /// The store of the process, or the lack of one.
    type Store: Clone + Send + Sync;
    /// The grant of a loaded handler.
    type Granted: Clone + Send + Sync;
    /// The state of an instance; made with each, so anything large is behind a pointer.
    type State: Default + Send;
    /// The grant as a recording has it.
    type Recorded: RecordedGrant;

    /// The interfaces that a handler imports to use it, without versions.
    const INTERFACES: &'static [&'static str];
    /// The hint for a handler that imports one without the grant.
    const HINT: &'static str;
    /// The kind of what its answers depend on beside the request; `None` if equal requests get equal ones.
    const DEPENDENCY: Option<Dependency>;
    /// The row of `inspect` for a handler that imports one.
    const USE: &'static str;
    /// Whether every handler has it.
    const OF_EVERY: bool = false;
    /// Whether it answers `init`, from what changes: then nothing that `init` leaves is kept on the disk.
    const ANSWERS_INIT: bool = Self::DEPENDENCY.is_some();
    /// Whether one call may bring as much as a handler may return.
    const BRINGS_OUTPUT: bool = false;

    /// The store of a process that stores nothing.
    fn no_store() -> Self::Store;

    /// The grant of an endpoint with these settings; `None` if there is none.
    ///
    /// # Errors
    /// Something that it needs of the system is missing: text for the operator.
    fn grant(
        settings: &Self::Settings,
        endpoint: &EndpointView<'_>,
        store: &Self::Store,
    ) -> impl Future<Output = Result<Option<Self::Granted>, String>> + Send;

    /// Whether a component that imports this can use it.
    fn is_used_by(import: &str) -> bool;

    /// Links its host functions.
    ///
    /// # Errors
    /// Two have one name.
    fn link<T: Send + 'static>(
        linker: &mut Linker<T>,
        view: fn(&mut T) -> View<'_, Self>,
    ) -> wasmtime::Result<()>;

    /// A run begins: what start functions have left is let go.
    fn begin(state: &mut Self::State);

    /// A run has ended.
    fn end(state: &mut Self::State) {
        Self::begin(state);
    }

    /// Whether an instance may serve again as its guest has left it.
    fn is_at_rest(_: &Self::State, _: &Limits) -> bool {
        true
    }

    /// The handles of an instance that are none of WASI's, where it has a table of its own.
    fn table(_: &mut Self::State) -> Option<&mut ResourceTable> {
        None
    }

    /// Most bytes that one call may bring beyond what any call may.
    fn most_bytes(_: &Self::Granted) -> usize {
        0
    }

    /// The kind of a handle that it has given out; `None` if it has not.
    fn handle(_: &(dyn Any + Send)) -> Option<&'static str> {
        None
    }

    /// The grant, for a recording.
    fn recorded(granted: Option<&Self::Granted>) -> Self::Recorded;

    /// The grant of a replay, where every call is answered by the recording.
    fn replayed(recorded: &Self::Recorded, store: &Self::Store) -> Option<Self::Granted>;

    /// Whether two grants of replays let a handler do the same.
    fn is_like(_: &Self::Granted, _: &Self::Granted) -> bool {
        true
    }

    /// Begins the series of an endpoint that uses it, at zero.
    fn begin_metrics(_: &Self::Settings, _: &EndpointView<'_>) {}

    /// Brings those series of an endpoint up to date that are not counted.
    fn refresh_metrics(_: &Self::Settings, _: &EndpointView<'_>, _: &Self::Store) {}

    /// Whether an endpoint with these settings has what it needs of the store to be ready.
    fn is_ready(_: &Self::Settings, _: &Self::Store) -> bool {
        true
    }

    /// Closes the store, at the end of the process. Takes as long as the disk does.
    fn close(_: &Self::Store) {}
}

/// A grant as a recording has it.
pub trait RecordedGrant: fmt::Debug + Default + Serialize + DeserializeOwned {
    /// Whether a recording does without it.
    fn is_left_out(&self) -> bool {
        false
    }
}

/// A capability that no recording knows of.
impl RecordedGrant for () {
    fn is_left_out(&self) -> bool {
        true
    }
}

/// Whether it is granted.
impl RecordedGrant for bool {}

/// The parts of an endpoint that its capabilities see beside their settings.
#[derive(Clone, Copy)]
pub struct EndpointView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Most bytes of a request's body.
    pub body: usize,
    /// Most bytes of an answer.
    pub output: usize,
    /// Where its handler may send requests.
    pub allow_outbound: &'a Rules,
    /// Its jobs, those of its clients too.
    pub jobs: &'a jobs::Config,
    /// Its metrics.
    pub metrics: &'a EndpointMetrics,
}

/// The data of a host function: its capability's, and what all of them share.
pub struct View<'a, C: Capability> {
    /// The grant; `None` if there is none.
    pub granted: Option<&'a C::Granted>,
    /// The state of the instance.
    pub state: &'a mut C::State,
    /// The shared parts of the instance.
    pub kernel: Kernel<'a>,
}

impl<C: Capability> View<'_, C> {
    /// Notes that the guest gets what another request would get differently.
    pub fn note_dependency(&mut self) {
        C::DEPENDENCY.into_iter().for_each(|dependency| self.kernel.run.dependencies.add(dependency));
    }
}

/// Names the [`View`] of a capability to the bindings.
pub struct HasView<C>(PhantomData<C>);

impl<C: Capability> HasData for HasView<C> {
    type Data<'a> = View<'a, C>;
}

/// The parts of an instance that all capabilities work on.
pub struct Kernel<'a> {
    /// The guest's handles.
    pub table: &'a mut ResourceTable,
    /// The current run.
    pub run: &'a mut Run,
    /// The request that is served, if one is.
    pub request: Option<&'a Arc<Request>>,
    /// The log of all host calls, of a request that is recorded or replayed.
    pub log: Option<&'a Arc<HostCallLog>>,
    /// The limits of the instance.
    pub limits: &'a Limits,
    /// The variables that its endpoint grants.
    pub env: &'a [(String, String)],
    /// The metadata of its endpoint, JSON text.
    pub metadata: &'a str,
    /// Whether the handler is an application.
    pub is_application: bool,
}

/// The run of an instance, as far as its host calls go.
#[derive(Default)]
pub struct Run {
    /// Whether it is a client's: requests to others are sent, and what the handler keeps is stored.
    pub calls_out: bool,
    /// Of a request whose calls of others are logged, known or recorded.
    pub calls_log: Option<Arc<HostCallLog>>,
    /// The models that it may call; none outside of a request.
    pub models: Option<Arc<dyn HandlerModels>>,
    /// How often the guest has called the host in the call that is under way.
    pub host_calls: u32,
    /// The things that the guest has asked for beside its request, since that began.
    pub dependencies: Dependencies,
}

/// The way of a call that a log knows of.
pub enum Way<O> {
    /// The host answers; the log, if there is one, notes it under this number.
    Live(Option<usize>),
    /// An earlier run had this answer.
    Known(O),
    /// The recorded one had.
    Recorded(O),
}

impl Kernel<'_> {
    /// Counts a call that costs more than the guest's own time.
    pub fn count_host_call(&mut self) {
        self.run.count_host_call();
    }

    /// Remembers that a pollable is a timer, or waits for anything else that a log knows of.
    pub fn timer(&self, timer: Resource<DynPollable>) -> Resource<DynPollable> {
        if let Some(log) = self.log {
            log.timer(timer.rep());
        }
        timer
    }

    /// Asks the log, if there is one, for the answer to this call.
    ///
    /// # Errors
    /// In a replay: the recorded handler was stopped in this call, or made another one.
    pub fn look_up<C: LoggedCall>(&self, call: impl FnOnce() -> C) -> wasmtime::Result<Way<C::Outcome>> {
        let Some(log) = &self.run.calls_log else { return Ok(Way::Live(None)) };
        match log.called(call()) {
            CallSource::Live(number) => Ok(Way::Live(Some(number))),
            CallSource::Known(outcome) => Ok(Way::Known(outcome)),
            CallSource::Recorded(outcome) => Ok(Way::Recorded(outcome)),
            CallSource::CutOff => Err(DeadlineExceeded::Cpu.into()),
            CallSource::Diverged => Err(wasmtime::Error::msg("the handler has left its recording")),
        }
    }

    /// Notes the host's answer to the call of this number.
    pub fn answered<C: LoggedCall>(&self, number: Option<usize>, outcome: &C::Outcome) {
        if let Some((log, number)) = self.run.calls_log.as_ref().zip(number) {
            log.answered_call::<C>(number, outcome);
        }
    }
}

impl Run {
    /// Counts a call that costs more than the guest's own time.
    pub fn count_host_call(&mut self) {
        self.host_calls = self.host_calls.saturating_add(1);
    }
}
