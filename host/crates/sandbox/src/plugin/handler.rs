//! One loaded version of a handler.
//!
//! Place in the flow: `rollout` loads it (compile → check → first instance) and retires it; a generation of
//! an endpoint holds it. In: a component's bytes and the endpoint's config. Out: what is known of the
//! handler.
//! Invariant: a handler never runs before [`grants::check`](super::grants::check) has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::binary::Binary;
use super::component::LoadedComponent;
use super::engine::Sandbox;
use super::idle::Idle;
use super::init;
use super::instance::Instance;
use super::load_error::LoadError;
use super::operations::Operation;
use super::settings::HandlerConfig;
use super::source::{Source, blocking};
use super::stages::Stages;
use super::start_error::StartError;
use crate::schema::Schema;

/// One loaded version of a handler.
pub struct Plugin {
    pub(super) loaded: LoadedComponent,
    pub(super) idle: Arc<Idle<Instance>>,
    /// No longer current: instances that come back are not kept.
    pub(super) retired: AtomicBool,
    digest: Arc<str>,
    schema: Option<Arc<Schema>>,
    /// Handles that an instance may have between two requests; `None` if it serves one.
    pub(super) handles_kept: Option<usize>,
    operations: Vec<Operation>,
    batched_paths: Vec<String>,
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
        let (idle, retired) = (Idle::enter(&pool), AtomicBool::new(false));
        let (handles_kept, operations, batched_paths) = (None, Vec::new(), Vec::new());
        let mut plugin =
            Plugin { loaded, idle, retired, digest, schema, handles_kept, operations, batched_paths };
        let mut first =
            plugin.fresh(None).await.map_err(|error| error.at_load(&plugin.loaded.context.config))?;
        if plugin.schema.is_none() {
            plugin.schema = first.input_schema().await.map_err(LoadError::Schema)?.map(Arc::new);
            first.end();
        }
        if plugin.stages().is_application() {
            plugin.operations = first.operations().await.map_err(LoadError::Operations)?;
            first.end();
        }
        if plugin.stages().respond_all {
            plugin.batched_paths = first.batched_paths().await.map_err(LoadError::Batch)?;
            first.end();
        }
        plugin.handles_kept = plugin.try_reuse(&mut first).await;
        // Of many handlers most wait for their first request for long.
        if plugin.loaded.context.holding.is_roomy() {
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
        self.loaded.context.uses.models
    }

    /// Which stages the handler takes part in.
    pub fn stages(&self) -> Stages {
        self.loaded.context.stages
    }

    /// Whether it serves by `wasi:http` 0.3, whose tasks go on in an order that no log holds.
    pub fn is_concurrent(&self) -> bool {
        self.loaded.exports.is_concurrent()
    }

    /// The operations of an application, as far as it says so.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The paths, below its endpoint's, whose `POST`s it serves together.
    pub fn batched_paths(&self) -> &[String] {
        &self.batched_paths
    }

    /// The inputs that it takes: as configured, else as the handler says.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// The configuration that it was loaded with.
    pub fn config(&self) -> &HandlerConfig {
        &self.loaded.context.config
    }

    /// Names the project files it sees, by their paths and contents; `None` if it sees none, or they cannot
    /// be read. The first call reads all of them.
    pub fn project_digest(&self) -> Option<&str> {
        self.loaded.context.project.as_ref()?.digest()
    }

    /// A fresh instance, ready for a request by `end`.
    pub(super) async fn fresh(&self, end: Option<Instant>) -> Result<Box<Instance>, StartError> {
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
        let config = &self.loaded.context.config;
        let deadline =
            if self.loaded.init_in_each { deadline + config.limits.init_timeout } else { deadline };
        let first = self.fresh(Some(deadline)).await.map_err(|error| error.at_load(config))?;
        self.retired.store(false, Ordering::SeqCst);
        self.checkin(first);
        Ok(())
    }
}
