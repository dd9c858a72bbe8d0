//! The configuration of one endpoint: plain data.
//!
//! Place in the flow: made by `config/`, read by the files of `endpoint`, `capture` and `rollout`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::breaker::Policy;
use crate::jobs::Mode;
use crate::json::path::Pattern;
use crate::keys::Keys;
use crate::model::{Batching, ModelConfig};
use crate::pipeline::ensemble::{ENSEMBLE, EnsembleConfig};
use crate::plugin::capability::EndpointView;
use crate::request::Protocol;
use crate::request::dependencies::Dependencies;
use crate::schema::Schema;
use crate::schema::raw_body::RawBody;
use crate::telemetry::metrics::EndpointMetrics;
use crate::values::Ratio;
use crate::{jobs, pipeline, plugin};

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
    /// Canonical paths of what no handler may see of its project: the config file, every endpoint's model,
    /// files with keys. One list for all endpoints.
    pub hidden: Arc<[PathBuf]>,
    /// The models by name; without any, the handler runs alone. The first is the one that requests go to by
    /// themselves.
    pub models: Vec<(String, ModelConfig)>,
    /// The models as steps of one, if requests go to that by themselves.
    pub ensemble: Option<EnsembleConfig>,
    /// How requests share runs of a model.
    pub batching: Batching,
    /// How requests share calls of a handler that serves them together.
    pub request_batching: Batching,
    /// Free-form JSON text for the handler; `null` if none was configured.
    pub metadata: Arc<str>,
    /// Environment variables the handler sees.
    pub env: Vec<(String, String)>,
    /// The network that the handler sees.
    pub network: plugin::Network,
    /// Headers of a handler's responses that need a [grant](plugin::headers) and have it, in lower case.
    pub response_headers: Arc<[String]>,
    /// Paths of the server that it answers in its place, if it is an application.
    pub paths: Vec<String>,
    /// The path of an application that says whether it is ready.
    pub readiness: Option<String>,
    /// The capabilities of its handler.
    pub capabilities: plugin::capabilities::Settings,
    /// Its jobs.
    pub jobs: jobs::Config,
    /// How long a handler's instance lives.
    pub isolation: plugin::Isolation,
    /// Whether an application on `wasi:http` may keep its instances.
    pub reuse_instances: bool,
    /// Whether a changed handler file is swapped in.
    pub watch: bool,
    /// Whether the models of the generation before stay loaded for a rollback.
    pub keep_model: bool,
    /// The keys of its callers; without any, every caller is let in.
    pub keys: Keys,
    /// Which part of its requests is recorded, if any are.
    pub record_share: Ratio,
    /// The inputs that it takes, if that was configured; they win over the handler's own.
    pub schema: Option<Arc<Schema>>,
    /// The files that its body has to be one of; then it has no schema.
    pub raw_body: Option<Arc<RawBody>>,
    /// Whether a generation has to answer the schema's example before it serves.
    pub smoke: bool,
    /// The protocols by which it can be reached.
    pub protocols: Arc<[Protocol]>,
    /// Whether tensors go past a handler that takes bodies only.
    pub bare_tensors: bool,
    /// The answer to a request whose handler fails.
    pub on_fault: OnFault,
    /// When a handler that keeps failing is no longer called; `None`: never.
    pub breaker: Option<Policy>,
    /// Which answers are kept for equal requests, if any are.
    pub response_cache: Option<CacheConfig>,
    /// The predictions that are counted, if any are.
    pub tracker: Option<TrackerConfig>,
    /// The gate that a new handler has to pass before it serves.
    pub gate: GateConfig,
    /// The limits of a request.
    pub limits: pipeline::Limits,
}

/// The settings of a response cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// Most bytes of all answers.
    pub size: usize,
    /// How long an answer is kept at most; `None`: until it makes way.
    pub ttl: Option<Duration>,
    /// Headers of a request that are part of its key, in lower case.
    pub headers: Arc<[String]>,
    /// The things that an answer which is kept may depend on beside its key.
    pub allowed: Dependencies,
}

/// Where a response has its prediction, and what that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackerConfig {
    /// Keys and indices in the JSON, or an output's name; empty if the response is the prediction.
    pub key: Vec<String>,
    /// The kind of the prediction.
    pub kind: PredictionKind,
}

/// The kind of a model's predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredictionKind {
    /// One of some classes.
    Classification,
    /// A number.
    Regression,
}

impl PredictionKind {
    /// A value of this kind, in words.
    pub fn expected(self) -> &'static str {
        match self {
            PredictionKind::Classification => "text or an integer",
            PredictionKind::Regression => "a number",
        }
    }
}

/// The answer to a request whose handler fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFault {
    /// The failure.
    #[default]
    Error,
    /// The answer of an endpoint without the handler, if its model can give one.
    Bypass,
}

impl EndpointConfig {
    /// Whether there is anything of it to record, if there is a folder for it.
    pub fn is_recorded(&self) -> bool {
        self.plugin.is_some() && self.record_share != Ratio::ZERO
    }
}

impl EndpointConfig {
    /// The parts of it that the capabilities of its handler see beside their settings.
    pub fn view<'a>(&'a self, metrics: &'a EndpointMetrics) -> EndpointView<'a> {
        EndpointView {
            name: &self.name,
            body: self.limits.body,
            output: self.limits.plugin.output,
            allow_outbound: &self.capabilities.outbound,
            jobs: &self.jobs,
            metrics,
        }
    }

    /// The names of its models: an ensemble's first.
    pub fn model_names(&self) -> Vec<&str> {
        let models = self.models.iter().map(|(name, _)| name.as_str());
        self.ensemble.iter().map(|_| ENSEMBLE).chain(models).collect()
    }

    /// The path of its jobs, if it has any.
    pub fn jobs_path(&self) -> String {
        format!("{}/jobs", self.path.trim_end_matches('/'))
    }

    /// The paths below which its jobs are; none without any.
    pub fn job_paths(&self) -> Vec<String> {
        let own = self.path.trim_end_matches('/');
        let further: &[&str] = match self.jobs.mode {
            Mode::Off => return Vec::new(),
            Mode::On => &[],
            Mode::Also(form) => form.below,
        };
        let further = further.iter().map(|name| format!("{own}/{name}"));
        [self.jobs_path()].into_iter().chain(further).collect()
    }

    /// Headers of a request that are part of its key in the response cache; none without one.
    pub fn key_headers(&self) -> Arc<[String]> {
        self.response_cache.as_ref().map(|cache| cache.headers.clone()).unwrap_or_default()
    }

    /// Whether it can be reached by this protocol; by `None`, the operator's own, always.
    pub fn speaks(&self, protocol: Option<Protocol>) -> bool {
        protocol.is_none_or(|protocol| self.protocols.contains(&protocol))
    }
}

/// The gate that a new handler has to pass.
#[derive(Debug, Clone, PartialEq)]
pub struct GateConfig {
    /// Which requests are kept for it.
    pub samples: SamplesConfig,
    /// Folder with further samples.
    pub golden: Option<PathBuf>,
    /// The differences that are allowed in an answer.
    pub bounds: Bounds,
    /// The part of the samples that may differ beyond that.
    pub mismatches: Ratio,
    /// How many times the old handler's time the new one may take; `None` does not judge time.
    pub slowdown: Option<f64>,
    /// How many times the old handler's memory the new one may take; `None` does not judge memory.
    pub memory: Option<f64>,
    /// How long it may take. What has not been compared by then is not.
    pub timeout: Duration,
}

/// Its numbers are numbers: the configuration reads no other.
impl Eq for GateConfig {}

/// The gate of one order, where it says otherwise than the endpoint's [`GateConfig`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GateOverrides {
    /// The differences that are allowed, beside those that the endpoint ignores.
    pub ignore: Vec<Pattern>,
    /// In place of the endpoint's tolerance.
    pub tolerance: Option<f64>,
    /// In place of the part of the samples that may differ.
    pub mismatches: Option<Ratio>,
}

impl GateOverrides {
    /// The endpoint's settings with these in their place.
    pub fn applied_to(&self, config: &GateConfig) -> GateConfig {
        let mut config = config.clone();
        config.bounds.ignore.extend_from_slice(&self.ignore);
        config.bounds.tolerance = self.tolerance.unwrap_or(config.bounds.tolerance);
        config.mismatches = self.mismatches.unwrap_or(config.mismatches);
        config
    }
}

/// The differences that are allowed in an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// How far a decimal number may be from another: absolutely, or in relation to the larger one. Whole
    /// numbers are equal or they are not.
    pub tolerance: f64,
    /// Places in JSON bodies, tensors (`/NAME/INDEX`) and names of headers that are not compared.
    pub ignore: Vec<Pattern>,
}

/// A tolerance is a number: the configuration reads no other.
impl Eq for Bounds {}

/// Which requests are kept for the gate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SamplesConfig {
    /// Most requests. None are kept by default.
    pub samples: usize,
    /// Most bytes of them together.
    pub bytes: usize,
    /// The values that are taken out of a request before it is kept: places in its JSON, tensors (`/NAME`),
    /// headers and parameters of its query by name.
    pub redact: Vec<Pattern>,
}
