//! Jobs that a handler submits to its endpoint, as a capability: the contract's `jobs`.
//!
//! Place in the flow: an entry of the list of capabilities. In: the jobs of an endpoint, which its clients
//! submit too. Out: the grant of its handler, the state of an instance, and the grant in a recording.
//! Invariant: what a run submits that is no client's request is seen by itself alone, and gone with it.

mod call;
mod submit;

use std::sync::Arc;

use wasmtime::component::Linker;

use crate::jobs::handler::{HandlerJobs, JobScratch};
use crate::jobs::{JobStore, Mode};
use crate::outbound::Rules;
use crate::plugin::bindings;
use crate::plugin::capability::{Capability, EndpointView, HasView, View};
use crate::plugin::names::is_same;
use crate::request::dependencies::Dependency;
use crate::telemetry::metrics::JobCounts;

/// Full name of the contract's interface.
const JOBS: &str = "modelhost:handler/jobs@0.1.0";

/// Jobs that a handler submits.
pub struct Jobs;

/// The grant of a handler.
#[derive(Clone)]
pub struct Granted {
    /// The endpoint's jobs.
    jobs: HandlerJobs,
    /// Counts what it asks of them.
    counts: Option<JobCounts>,
    /// Where the results of those that it submits may be sent.
    webhook_places: Rules,
}

/// The state of an instance.
#[derive(Default)]
pub struct State {
    /// The jobs of a run that must not store any.
    scratch: Option<Box<JobScratch>>,
    /// How many the request has submitted, in any run.
    submitted: u32,
}

impl Capability for Jobs {
    /// The jobs are the endpoint's own.
    type Settings = ();
    type Store = Option<Arc<JobStore>>;
    type Granted = Granted;
    type State = State;
    /// Whether the endpoint had jobs.
    type Recorded = bool;

    const INTERFACES: &'static [&'static str] = &["modelhost:handler/jobs"];
    const HINT: &'static str = "handlers submit jobs only where their endpoint has some: `jobs = \"on\"`, and \
        once for the host `[jobs]` with `store = \"jobs.redb\"`";
    const DEPENDENCY: Option<Dependency> = Some(Dependency::Jobs);
    const USE: &'static str = "it submits jobs to its endpoint, where `jobs` is on";

    fn no_store() -> Option<Arc<JobStore>> {
        None
    }

    async fn grant(
        (): &(),
        endpoint: &EndpointView<'_>,
        store: &Option<Arc<JobStore>>,
    ) -> Result<Option<Granted>, String> {
        let EndpointView { name, body, output, allow_outbound, jobs, metrics } = *endpoint;
        let grant = || Granted {
            jobs: HandlerJobs::new(store.clone(), name, jobs.clone(), body, output),
            counts: Some(metrics.jobs.clone()),
            webhook_places: allow_outbound.clone(),
        };
        Ok((jobs.mode != Mode::Off).then(grant))
    }

    fn is_used_by(import: &str) -> bool {
        is_same(import, JOBS)
    }

    fn link<T: Send + 'static>(
        linker: &mut Linker<T>,
        view: fn(&mut T) -> View<'_, Jobs>,
    ) -> wasmtime::Result<()> {
        bindings::modelhost::handler::jobs::add_to_linker::<_, HasView<Jobs>>(linker, view)
    }

    fn begin(state: &mut State) {
        *state = State::default();
    }

    fn most_bytes(granted: &Granted) -> usize {
        granted.jobs.most_bytes()
    }

    fn recorded(granted: Option<&Granted>) -> bool {
        granted.is_some()
    }

    fn replayed(is_granted: &bool, _: &Option<Arc<JobStore>>) -> Option<Granted> {
        is_granted.then(|| Granted {
            jobs: HandlerJobs::nowhere(usize::MAX / 2),
            counts: None,
            webhook_places: Rules::default(),
        })
    }

    fn begin_metrics((): &(), endpoint: &EndpointView<'_>) {
        if endpoint.jobs.mode != Mode::Off {
            endpoint.metrics.jobs.begin();
        }
    }

    fn refresh_metrics((): &(), endpoint: &EndpointView<'_>, store: &Option<Arc<JobStore>>) {
        let Some(store) = store.as_ref().filter(|_| endpoint.jobs.mode != Mode::Off) else { return };
        let (metrics, queue) = (&endpoint.metrics.jobs, store.queue(endpoint.name));
        metrics.set(queue.numbers());
        metrics.add_ended(queue.take_ended());
        metrics.set_pending(queue.webhooks());
        if let Some(is_up) = store.is_reachable() {
            metrics.set_up(is_up);
        }
    }

    fn close(store: &Option<Arc<JobStore>>) {
        store.iter().for_each(|store| store.close());
    }
}
