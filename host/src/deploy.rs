//! What is being served: endpoints and their current generation.
//!
//! Place in the flow: `server` finds the [`Endpoint`] of a path, has a request admitted by its head, and with its body
//! calls [`AdmittedRequest::serve`](admitted::AdmittedRequest::serve), which pins the current generation and runs it.
//! Invariants: the current generation is the only thing that changes while serving, by one atomic store
//! ([`swap`]), handler and models together; a request that began on a generation ends on it.

pub mod admission;
pub mod admitted;
pub mod breaker;
pub mod compare;
pub mod error;
pub mod gate;
pub mod history;
mod ledger;
mod models;
mod observers;
mod persist;
pub mod record;
pub mod replay;
pub mod samples;
pub mod smoke;
pub mod swap;
pub mod trial;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;

use self::admission::AdmissionQueue;
use self::breaker::{Breaker, Policy};
use self::history::History;
use self::ledger::Ledger;
use self::samples::Samples;
use self::trial::Trial;
use self::watch::FileStamp;
use crate::error::{Code, RequestError, Stage};
use crate::keys::{Credentials, Keys};
use crate::model::{Batching, Catalog, Model, ModelConfig};
use crate::pipeline::models::Models;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::pipeline::{self, Pipeline};
use crate::plugin::{self, Sandbox, Stages};
use crate::request::{Output, Protocol, Request};
use crate::schema::Schema;
use crate::telemetry::metrics::EndpointMetrics;
use crate::values::Ratio;

/// One endpoint, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Unique; metric label and admin path.
    pub name: String,
    /// Where it is called; starts with `/`.
    pub path: String,
    /// The handler component; `None` serves the bare model.
    pub plugin: Option<PathBuf>,
    /// Folder the handler sees, read-only, at `/mnt/project`; `None` mounts nothing.
    pub project: Option<PathBuf>,
    /// Canonical paths of what no handler may see of its project: the config file, every endpoint's model, files
    /// with keys. One list for all endpoints.
    pub hidden: Arc<[PathBuf]>,
    /// The models by name; without any, the handler runs alone. The first is the one that requests go to by themselves.
    pub models: Vec<(String, ModelConfig)>,
    /// How requests share runs of a model.
    pub batching: Batching,
    /// Free-form JSON text for the handler; `null` if none was configured.
    pub metadata: Arc<str>,
    /// Environment variables the handler sees.
    pub env: Vec<(String, String)>,
    /// What the handler sees of the network.
    pub network: plugin::Network,
    /// Headers of a handler's responses that need a [grant](plugin::headers) and have it, in lower case.
    pub response_headers: Arc<[String]>,
    /// How long a handler's instance lives.
    pub isolation: plugin::Isolation,
    /// Whether a changed handler file is swapped in.
    pub watch: bool,
    /// Whether the models of the generation before stay loaded for a rollback.
    pub keep_model: bool,
    /// Who may call it; without keys, everybody.
    pub keys: Keys,
    /// Which part of its requests is recorded, if any are.
    pub record_share: Ratio,
    /// What it takes, if that was configured; it wins over what the handler says.
    pub schema: Option<Arc<Schema>>,
    /// Whether a generation has to answer the schema's example before it serves.
    pub smoke: bool,
    /// The protocols by which it can be reached.
    pub protocols: Arc<[Protocol]>,
    /// Whether tensors go past a handler that takes bodies only.
    pub bare_tensors: bool,
    /// What a request gets whose handler fails.
    pub on_fault: OnFault,
    /// When a handler that keeps failing is no longer called; `None`: never.
    pub breaker: Option<Policy>,
    /// What a new handler is held to before it serves.
    pub gate: gate::Config,
    /// What a request may use.
    pub limits: pipeline::Limits,
}

/// What a request gets whose handler fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFault {
    /// The failure.
    #[default]
    Error,
    /// What an endpoint without the handler would answer, if its model can.
    Bypass,
}

impl EndpointConfig {
    /// Whether there is anything of it to record, if there is a folder for it.
    pub fn is_recorded(&self) -> bool {
        self.plugin.is_some() && self.record_share != Ratio::ZERO
    }
}

/// One version of an endpoint, handler and models: everything it needs to answer.
pub struct Generation {
    /// 1 for the first, then counting up.
    pub number: u64,
    /// SHA-256 of the handler in hex; `None` without a handler.
    pub digest: Option<Arc<str>>,
    /// When it became current.
    pub published: SystemTime,
    pipeline: Pipeline,
    breaker: Option<Arc<Breaker>>,
}

impl Generation {
    /// Runs one request.
    ///
    /// # Errors
    /// What the failing stage says.
    pub async fn run(
        &self,
        request: &Arc<Request>,
        plan: &RunPlan,
        report: &mut RunReport,
    ) -> Result<Output, RequestError> {
        self.pipeline.run(request, plan, report).await
    }

    /// Whether its handler is called: `closed`, `open` or `probing`; `None` without a breaker.
    pub fn breaker(&self) -> Option<&'static str> {
        self.breaker.as_deref().map(Breaker::state)
    }

    /// Its models.
    pub fn models(&self) -> &Models {
        &self.pipeline.models
    }

    /// Which stages its handler takes part in; `None` without a handler.
    pub fn stages(&self) -> Option<Stages> {
        self.pipeline.plugin.as_ref().map(|plugin| plugin.stages())
    }

    /// What it takes, if the configuration or the handler says so.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.pipeline.schema.as_ref()
    }

    /// What tensors have to fit, if that is not the model's signature alone.
    pub fn schema_of_tensors(&self) -> Option<&Arc<Schema>> {
        self.pipeline.schema_of_tensors()
    }

    /// The model that requests go to by themselves, if there is one and it is loaded.
    pub fn model(&self) -> Option<&Arc<Model>> {
        self.pipeline.models.first().map(|lane| lane.model())
    }
}

/// An endpoint that serves.
pub struct Endpoint {
    /// As configured.
    pub config: EndpointConfig,
    /// Its metrics.
    pub metrics: EndpointMetrics,
    admission: AdmissionQueue,
    sandbox: Sandbox,
    catalog: Arc<Catalog>,
    current: ArcSwap<Generation>,
    /// The generation before, kept for a rollback.
    previous: ArcSwapOption<Generation>,
    /// The handler that is on trial beside the current generation.
    trial: ArcSwapOption<Trial>,
    /// Held while a new generation is made, so that two never race.
    swapping: tokio::sync::Mutex<()>,
    /// The handler's file as an order has written it last: nothing that the watch has to swap in.
    written: ArcSwapOption<FileStamp>,
    /// Wakes who brings the generation before back.
    opened: Notify,
    /// What was refused in the handler's file.
    ledger: Option<Ledger>,
    /// What became of every attempt to publish another.
    pub history: History,
    /// Records its requests, if that was asked for.
    pub recorder: Option<record::Recorder>,
    /// Its last requests, if the gate wants any.
    pub samples: Option<Samples>,
}

impl EndpointConfig {
    /// Whether it can be reached by this protocol; by `None`, the operator's own, always.
    pub fn speaks(&self, protocol: Option<Protocol>) -> bool {
        protocol.is_none_or(|protocol| self.protocols.contains(&protocol))
    }
}

impl Endpoint {
    /// The generation that new requests begin on.
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Whether a request may know of this endpoint more than that it is there. Whatever a protocol tells of it or does with
    /// it asks here first; [`Endpoint::admit`] asks by itself.
    ///
    /// # Errors
    /// `unauthorized`, counted already.
    pub fn authorize<'a>(&self, credentials: impl FnOnce() -> Credentials<'a>) -> Result<(), RequestError> {
        if self.config.keys.admit(credentials) {
            return Ok(());
        }
        self.metrics.error(Code::Unauthorized);
        let message = format!("`{}` wants a key: send `authorization: Bearer KEY`", self.config.name);
        Err(RequestError::new(Code::Unauthorized, Stage::Admit, message))
    }

    /// Answers the requests that are here with `shutting_down`, and any that would have to wait for something.
    pub fn close(&self) {
        self.admission.close();
        self.sandbox.stop();
    }

    /// Requests that have arrived and have no answer yet.
    pub fn unanswered(&self) -> usize {
        self.admission.reserved()
    }

    /// Requests that could be in flight beside those that are, now.
    pub fn free_places(&self) -> usize {
        let (in_flight, _) = self.admission.load();
        self.config.limits.concurrency.saturating_sub(in_flight)
    }

    /// Brings the gauges up to date, before they are rendered.
    pub fn refresh_metrics(&self) {
        let (in_flight, queued) = self.admission.load();
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.metrics.in_flight.set(gauge(in_flight));
        self.metrics.queued.set(gauge(queued));
        let is_open = self.current().breaker.as_deref().is_some_and(Breaker::is_open);
        self.metrics.breaker_open.set(is_open.into());
        let trial = self.trial();
        if let Some(trial) = &trial {
            trial.count();
        }
        self.metrics.trial.share.set(trial.as_ref().map_or(0.0, |trial| trial.share()));
        let candidate = trial.and_then(|trial| trial.digest());
        let previous = self.previous().and_then(|previous| previous.digest.clone());
        self.metrics.plugins.set([self.current().digest.clone(), candidate, previous]);
    }
}
