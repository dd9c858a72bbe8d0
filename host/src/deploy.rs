//! What is being served: endpoints and their current generation.
//!
//! Place in the flow: `server` finds the [`Endpoint`] of a path and calls [`Endpoint::serve`], which pins the
//! current generation and runs its pipeline.
//! Invariants: the current generation is the only thing that changes while serving, by one atomic store
//! ([`swap`]); a request that began on a generation ends on it; the model stays where it is.

pub mod swap;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;

use self::swap::LastSwap;
use crate::error::RequestError;
use crate::model::{self, Model};
use crate::pipeline::admit::Door;
use crate::pipeline::trace::Trace;
use crate::pipeline::{self, Pipeline};
use crate::plugin::{self, Sandbox};
use crate::request::{Request, Response};
use crate::telemetry::metrics::EndpointMetrics;

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
    /// The model; `None` runs the handler alone.
    pub model: Option<model::ModelConfig>,
    /// Free-form JSON text for the handler; `null` if none was configured.
    pub metadata: Arc<str>,
    /// Environment variables the handler sees.
    pub env: Vec<(String, String)>,
    /// What the handler sees of the network.
    pub network: plugin::Network,
    /// How long a handler's instance lives.
    pub isolation: plugin::Isolation,
    /// Whether a changed handler file is swapped in.
    pub watch: bool,
    /// What a request may use.
    pub limits: pipeline::Limits,
}

/// One version of an endpoint's handler, with everything it needs to answer.
pub struct Generation {
    /// 1 for the first, then counting up.
    pub number: u64,
    /// SHA-256 of the handler in hex; `None` without a handler.
    pub digest: Option<Arc<str>>,
    /// When it became current.
    pub published: SystemTime,
    pipeline: Pipeline,
}

impl Generation {
    /// Serves one request, and says in `trace` where the time went.
    ///
    /// # Errors
    /// What the failing stage says.
    pub async fn handle(&self, request: &Arc<Request>, trace: &mut Trace) -> Result<Response, RequestError> {
        self.pipeline.handle(request, trace).await
    }
}

/// An endpoint that serves.
pub struct Endpoint {
    /// As configured.
    pub config: EndpointConfig,
    /// Its metrics.
    pub metrics: EndpointMetrics,
    model: Option<Arc<Model>>,
    door: Arc<Door>,
    sandbox: Sandbox,
    current: ArcSwap<Generation>,
    /// Held while a new generation is made, so that two never race; says how the last attempt ended.
    last_swap: tokio::sync::Mutex<Option<LastSwap>>,
}

/// A response and the handler that gave it.
pub struct Served {
    /// What the pipeline said.
    pub outcome: Result<Response, RequestError>,
    /// Digest of the handler that answered.
    pub digest: Option<Arc<str>>,
}

impl Endpoint {
    /// The model, if the endpoint has one.
    pub fn model(&self) -> Option<&Model> {
        self.model.as_deref()
    }

    /// The generation that new requests begin on.
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Serves one request on the current generation, to its end.
    pub async fn serve(&self, request: Arc<Request>) -> Served {
        let generation = self.current.load_full();
        let mut count = Count {
            metrics: &self.metrics,
            trace: Trace::start(request.arrived, request.debug),
            done: false,
        };
        let outcome = generation.handle(&request, &mut count.trace).await;
        count.done(&outcome);
        for (name, object) in count.trace.objects() {
            tracing::info!(endpoint = %self.config.name, request.id = %request.id, "{name}: {object}");
        }
        Served { outcome, digest: generation.digest.clone() }
    }

    /// Answers the requests that are waiting with `shutting_down`, and any that would have to wait.
    pub fn close(&self) {
        self.door.close();
    }

    /// Requests that are in flight or waiting, now.
    pub fn unanswered(&self) -> usize {
        let (in_flight, queued) = self.door.load();
        in_flight + queued
    }

    /// Brings the gauges up to date, before they are rendered.
    pub fn refresh_metrics(&self) {
        let (in_flight, queued) = self.door.load();
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.metrics.in_flight.set(gauge(in_flight));
        self.metrics.queued.set(gauge(queued));
    }
}

/// Counts a request when it ends, also if it ends because its client went away.
struct Count<'a> {
    metrics: &'a EndpointMetrics,
    trace: Trace,
    done: bool,
}

impl Count<'_> {
    fn done(&mut self, outcome: &Result<Response, RequestError>) {
        self.done = true;
        match outcome {
            Ok(_) => self.metrics.ok(),
            Err(error) => self.metrics.error(error.code),
        }
        self.metrics.durations(self.trace.elapsed(), self.trace.durations());
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.metrics.cancelled();
        }
    }
}
