//! A loaded handler component: what the pipeline sees of the sandbox.
//!
//! Place in the flow: `rollout` loads a [`Plugin`] (compile → check → first instance); the pipeline borrows
//! an instance for each request with [`Plugin::checkout`] and calls both stages on it.
//! In: a component's bytes and the endpoint's config. Out: tensors and responses in the crate's own types.
//! Invariants: everything of wasmtime stays below this module; a handler never runs before [`grants::check`]
//! has passed; a [`Lease`] that is not finished takes its instance with it.

mod batch;
mod binary;
mod bindings;
mod cache;
mod compiled;
mod compiler;
mod context;
mod convert;
mod deadline;
mod engine;
mod exports;
mod fault;
mod grants;
pub mod headers;
mod wasi_blobstore;
mod wasi_config;
mod wasi_http;
mod wasi_keyvalue;
mod wasi_nn;
mod idle;
mod init;
mod inspect;
mod instance;
mod jobs;
mod kv;
mod lease;
mod load_error;
mod loaded;
mod models;
mod output;
mod nondeterminism;
mod operations;
mod pool;
mod project;
mod runtime;
mod snapshot;
mod source;
mod state;
mod exchange;
mod streaming;
pub mod host_call_log;
mod turns;
mod versions;
mod wasi_async;
mod websocket;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wasmtime::component::InstancePre;

use self::compiled::Compiled;
use self::deadline::{LongCallTracker, Scheduler};
use self::exports::Indices;
use self::host_call_log::HostCallLog;
use self::idle::Idle;
use self::instance::{Instance, StartError};
use self::pool::Holding;
use self::project::ProjectView;
use self::source::{Source, blocking};
use self::state::State;
use crate::blobs::EndpointBlobs;
use crate::error::RequestError;
use crate::kv::{EndpointKv, Quota};
use crate::outbound::Outbound;
use crate::request::{Request, Response};
use crate::schema::Schema;
use crate::telemetry::metrics::{BlobCalls, Instances, KvCalls};
use crate::tensor::Signature;
use crate::throttle::Throttle;

pub use self::batch::Answers;
pub use self::binary::Binary;
pub use self::cache::Shelf;
pub use self::engine::{Sandbox, SandboxError};
pub use self::exports::{Application, Stages};
pub use self::inspect::{Inspection, inspect};
pub use self::jobs::JobAccess;
pub use self::lease::Lease;
pub use self::load_error::LoadError;
pub use self::operations::Operation;
pub use self::project::ProjectError;

/// CPU time an instance that is kept has for its start functions, within the request's own time. Interpreters
/// need more than a call may take.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The version of the handler contract that this host speaks.
pub const CONTRACT: &str = bindings::VERSION;

/// The version of wasmtime that runs handlers.
pub const WASMTIME: &str = wasmtime_environ::VERSION;

/// How long an instance lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// An instance serves one request after another; its globals persist between them.
    #[default]
    Worker,
    /// Every request gets a fresh instance; nothing survives it.
    Request,
}

impl Isolation {
    /// As it is configured.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Worker => "worker",
            Isolation::Request => "request",
        }
    }
}

/// Where the instance of a run comes from, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InstanceSource {
    /// As [`Isolation`] says.
    #[default]
    ByIsolation,
    /// A fresh one, which goes with the run.
    Fresh,
}

/// The network that a handler sees. None, in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// A component that imports sockets is refused.
    #[default]
    None,
    /// Sockets are there, and every call is denied. For language runtimes that import them whether used or
    /// not.
    Stub,
}

impl Network {
    /// As it is configured.
    pub fn name(self) -> &'static str {
        match self {
            Network::None => "none",
            Network::Stub => "stub",
        }
    }
}

/// The limits of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one instance, in bytes.
    pub memory: usize,
    /// Most bytes one call may return, tensors or response together.
    pub output: usize,
    /// CPU time of `pre-inference`; of an instance for one request, with its start functions.
    pub pre_timeout: Duration,
    /// CPU time of `post-inference`.
    pub post_timeout: Duration,
    /// CPU time of `init`.
    pub init_timeout: Duration,
    /// How long any of them may take, waits included; `None` is five times its CPU time.
    pub wall_timeout: Option<Duration>,
    /// Most bytes of project files an endpoint may mount.
    pub project: u64,
    /// Of an application: how long nothing of its response may be taken by the client.
    pub stream_timeout: Duration,
    /// Of an application: how long it may work after its response.
    pub background_timeout: Duration,
    /// Tensors that the host may hold for one request.
    pub tensors: usize,
    /// Bytes of them together.
    pub tensor_memory: usize,
    /// How often one request may run models.
    pub model_runs: u32,
    /// The most that its buckets hold.
    pub kv: Quota,
}

impl Limits {
    /// How long a call may take that may use so much CPU time. On a busy machine the two are far apart.
    pub fn wall(&self, cpu: Duration) -> Duration {
        self.wall_timeout.unwrap_or(cpu.saturating_mul(5))
    }
}

/// The settings that all handlers of a process share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where compiled components are kept; `None` switches the cache off.
    pub cache_dir: Option<PathBuf>,
    /// Most bytes they may take there.
    pub cache_size: u64,
    /// Most instances of all handlers together; `None`: as many as the endpoints may need at once, up to a
    /// bound.
    pub instances: Option<usize>,
}

/// The settings of one handler: what it may know of its endpoint, and what it may use.
#[derive(Clone)]
pub struct HandlerConfig {
    /// The endpoint's name, for logs.
    pub endpoint: Arc<str>,
    /// JSON text.
    pub metadata: Arc<str>,
    /// The network that it sees.
    pub network: Network,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Folder to mount, if any.
    pub project: Option<PathBuf>,
    /// Canonical paths the mount leaves out: models and the config file.
    pub hidden: Arc<[PathBuf]>,
    /// The limits of an instance.
    pub limits: Limits,
    /// How long an instance lives.
    pub isolation: Isolation,
    /// Whether an application on `wasi:http` may keep its instances.
    pub reuse_instances: bool,
    /// Whether the headers that carry keys are kept from it.
    pub hides_credentials: bool,
    /// Headers of a request that are part of its key in the response cache; none without one.
    pub key_headers: Arc<[String]>,
    /// Headers of its responses that need a [grant](headers) and have it, in lower case.
    pub response_headers: Arc<[String]>,
    /// How it reaches others, if it may.
    pub outbound: Option<Arc<Outbound>>,
    /// Its buckets, if it is granted any.
    pub kv: Option<EndpointKv>,
    /// Counts what it asks of them.
    pub kv_calls: Option<KvCalls>,
    /// Its endpoint's jobs, if that has any.
    pub jobs: Option<JobAccess>,
    /// Its containers of objects, if it is granted any.
    pub blobs: Option<EndpointBlobs>,
    /// Counts what it asks of them.
    pub blob_calls: Option<BlobCalls>,
    /// The inputs that the endpoint takes, as configured; without them the handler is asked.
    pub schema: Option<Arc<Schema>>,
    /// Counts the endpoint's instances.
    pub instances: Instances,
}

/// Everything the instances of one loaded component have in common.
struct LoadedComponent {
    pre: InstancePre<State>,
    /// The code of `pre`: held, so that another load of the same file finds it.
    _compiled: Arc<Compiled>,
    exports: Indices,
    config: HandlerConfig,
    project: Option<Arc<ProjectView>>,
    long_calls: LongCallTracker,
    /// Lines of the log about memory that it was refused.
    refused_memory: Throttle,
    scheduler: Scheduler,
    /// Most handles (files, streams, clocks) an instance may hold.
    handles: usize,
    /// The places of the process that they hold.
    holding: Arc<Holding>,
    /// An instance is not ready before it has run `init`: what instances are made from does not begin with
    /// what `init` leaves.
    init_in_each: bool,
    /// Whether it calls models by itself.
    calls_models: bool,
    /// The headers that are left out of its responses, as far as the log has named them.
    left_out: wasi_http::LeftOut,
}

/// One loaded version of a handler.
pub struct Plugin {
    loaded: Arc<LoadedComponent>,
    idle: Arc<Idle>,
    /// No longer current: instances that come back are not kept.
    retired: AtomicBool,
    digest: Arc<str>,
    schema: Option<Arc<Schema>>,
    /// Handles that an instance may have between two requests; `None` if it serves one.
    handles_kept: Option<usize>,
    operations: Vec<Operation>,
    batched_paths: Vec<String>,
}

/// The outcome of a stage.
#[derive(Debug)]
pub enum Outcome<T> {
    /// Go on with this.
    Next(T),
    /// The handler answers the caller at once.
    Respond(Response),
}

impl Plugin {
    /// Compiles and checks a component, runs its `init`, then starts a first instance and asks it for its
    /// schema, so that a component which cannot run never becomes current. Takes milliseconds to seconds, on
    /// a thread of its own.
    ///
    /// # Errors
    /// [`LoadError`]. Nothing of a refused component stays behind.
    pub async fn load(sandbox: &Sandbox, binary: Binary, config: HandlerConfig) -> Result<Plugin, LoadError> {
        let (digest, schema) = (binary.digest().clone(), config.schema.clone());
        let (sandbox, pool) = (sandbox.clone(), sandbox.pool.clone());
        let source = blocking(move || Source::new(sandbox, binary, config)).await?;
        let loaded = match source.has_init {
            true => init::prepare(source).await?,
            false => source.original().await?,
        };
        let loaded = Arc::new(loaded);
        let (idle, retired) = (pool.enter(), AtomicBool::new(false));
        let (handles_kept, operations, batched_paths) = (None, Vec::new(), Vec::new());
        let mut plugin =
            Plugin { loaded, idle, retired, digest, schema, handles_kept, operations, batched_paths };
        let mut first = plugin.fresh(None).await.map_err(|error| error.at_load(&plugin.loaded.config))?;
        if plugin.schema.is_none() {
            plugin.schema = first.input_schema().await.map_err(LoadError::Schema)?.map(Arc::new);
            first.end();
        }
        plugin.operations = plugin.ask_operations(&mut first).await?;
        plugin.batched_paths = plugin.ask_batched_paths(&mut first).await?;
        plugin.handles_kept = plugin.try_reuse(&mut first).await;
        // Of many handlers most wait for their first request for long.
        if plugin.loaded.holding.is_roomy() {
            plugin.checkin(first);
        }
        Ok(plugin)
    }

    /// SHA-256 of the component, in hex.
    pub fn digest(&self) -> &Arc<str> {
        &self.digest
    }

    /// Whether it calls models by itself.
    pub fn calls_models(&self) -> bool {
        self.loaded.calls_models
    }

    /// Which stages the handler takes part in.
    pub fn stages(&self) -> Stages {
        self.loaded.exports.stages()
    }

    /// Whether it serves by `wasi:http` 0.3, whose tasks go on in an order that no log holds.
    pub fn is_concurrent(&self) -> bool {
        self.loaded.exports.is_concurrent()
    }

    /// The inputs that it takes: as configured, else as the handler says.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// Checks out an instance for a request that goes to a model of this `signature`, if it goes to one: an
    /// idle one under [`Isolation::Worker`] if there is one and it may be kept, else a fresh one.
    ///
    /// # Errors
    /// `overloaded` if the process has no sandbox left, `plugin_trap` if the component fails to start.
    pub async fn checkout(
        &self,
        request: &Arc<Request>,
        signature: Option<&Arc<Signature>>,
        source: InstanceSource,
    ) -> Result<Lease<'_>, RequestError> {
        // Nothing is ever idle under `isolation = request`.
        let kept = source == InstanceSource::ByIsolation && self.reuses();
        let idle = if kept { self.idle.pop() } else { None };
        let mut instance = match idle {
            Some(instance) => instance,
            None => {
                let end = request.deadline;
                // Boxed: it is large, and with an idle instance it never comes to be.
                Box::pin(self.fresh(Some(end))).await.map_err(|error| error.in_request(end))?
            }
        };
        instance.begin(request, signature);
        Ok(Lease::new(self, instance, kept, None))
    }

    /// Checks out a fresh instance, dropped afterwards, for a request that is recorded or replayed.
    ///
    /// # Errors
    /// As [`Plugin::checkout`].
    pub async fn checkout_logged(
        &self,
        request: &Arc<Request>,
        signature: Option<&Arc<Signature>>,
        log: &Arc<HostCallLog>,
    ) -> Result<Lease<'_>, RequestError> {
        log.begin(signature);
        let instance = Instance::new(&self.loaded, Some(request.deadline), Some(log.clone())).await;
        let mut instance = instance.map_err(|error| error.in_request(request.deadline))?;
        if self.loaded.init_in_each {
            let end = request.deadline;
            instance.init(Some(end)).await.map_err(|error| error.in_request(end))?;
        }
        instance.begin(request, signature);
        Ok(Lease::new(self, instance, false, Some(log.clone())))
    }

    /// The configuration that it was loaded with.
    pub fn config(&self) -> &HandlerConfig {
        &self.loaded.config
    }

    /// Names the project files it sees, by their paths and contents; `None` if it sees none, or they cannot
    /// be read. The first call reads all of them.
    pub fn project_digest(&self) -> Option<&str> {
        self.loaded.project.as_ref()?.digest()
    }

    /// A fresh instance, ready for a request by `end`.
    async fn fresh(&self, end: Option<Instant>) -> Result<Box<Instance>, StartError> {
        let mut instance = Instance::new(&self.loaded, end, None).await?;
        if self.loaded.init_in_each {
            instance.init(end).await?;
        }
        Ok(instance)
    }

    /// A newer version has taken over: idle instances go now, those checked out when their requests end.
    /// Sandboxes are shared by the whole process, so a version that one slow request still holds must not sit
    /// on any.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
        self.idle.clear();
    }

    /// It takes over again: starts a first instance, by `deadline`.
    ///
    /// # Errors
    /// [`LoadError::Start`], or [`LoadError::Init`] if instances run it themselves: it stays retired.
    pub async fn reactivate(&self, deadline: Instant) -> Result<(), LoadError> {
        let config = &self.loaded.config;
        let deadline =
            if self.loaded.init_in_each { deadline + config.limits.init_timeout } else { deadline };
        let first = self.fresh(Some(deadline)).await.map_err(|error| error.at_load(config))?;
        self.retired.store(false, Ordering::SeqCst);
        self.checkin(first);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
