//! Makes generations: the first at start, later ones when a handler is swapped.
//!
//! ```text
//! read → compile → check (contract version, imports, types) → start an instance → try the example → publish → old one drains
//! ```
//! Invariants: nothing is published that has not passed every check; until the one atomic store that publishes it,
//! a new handler serves nobody and the old one serves everybody; the old one is freed by its last request.

use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::MutexGuard;

use super::{Endpoint, EndpointConfig, Generation, models, smoke};
use crate::model::{Catalog, ModelError};
use crate::pipeline::Pipeline;
use crate::pipeline::admit::Door;
use crate::pipeline::models::Models;
use crate::plugin::{self, Facts, LoadError, Plugin, Sandbox};
use crate::telemetry::metrics::{EndpointMetrics, Metrics};

/// Why a handler or a model could not be loaded. The text is for the operator and names the file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum DeployError {
    #[error("endpoint `{endpoint}`: cannot read handler `{path}`: {cause}")]
    Read { endpoint: String, path: String, cause: std::io::Error },
    #[error("endpoint `{endpoint}`: handler `{path}` {cause}")]
    Load { endpoint: String, path: String, cause: LoadError },
    #[error("endpoint `{endpoint}`: {cause}")]
    Model { endpoint: String, cause: ModelError },
    #[error("endpoint `{endpoint}`: there is no model `{model}`")]
    NoSuchModel { endpoint: String, model: String },
    #[error(
        "endpoint `{endpoint}`: model `{model}` does not fit the handler: {mismatch}\n  hint: load it together with a \
         handler for it, by a restart"
    )]
    Mismatch { endpoint: String, model: String, mismatch: String },
    #[error(
        "endpoint `{endpoint}`: the example of its input schema fails, {reason}\n  hint: mend handler or example; \
         `--no-smoke` serves without trying it"
    )]
    Smoke { endpoint: String, reason: String },
}

/// How the last attempt to swap a handler ended, for the admin listener.
#[derive(Debug, Clone, Serialize)]
pub struct LastSwap {
    /// Unix time in seconds.
    pub at: u64,
    /// What asked for it: `watch`.
    pub origin: &'static str,
    /// `published` or `refused`.
    pub outcome: &'static str,
    /// Why it was refused.
    pub error: Option<String>,
}

impl Endpoint {
    /// Loads an endpoint's models and handler and makes its first generation.
    ///
    /// # Errors
    /// [`DeployError`]: the server must not start.
    pub async fn first(
        config: EndpointConfig,
        catalog: &Arc<Catalog>,
        sandbox: &Sandbox,
        metrics: &Metrics,
    ) -> Result<Endpoint, DeployError> {
        let door = Arc::new(Door::new(config.limits.concurrency, config.limits.queue));
        let metrics = metrics.endpoint(&config.name);
        let models = models::load_all(&config, catalog).await?;
        let plugin = match &config.plugin {
            Some(path) => {
                let bytes = read(&config, path).await?;
                Some(load(&config, sandbox, &metrics, bytes).await?)
            }
            None => None,
        };
        let pipeline = pipeline(&config, &door, plugin, models);
        if config.smoke {
            smoke::run(&config, &pipeline).await?;
        }
        let generation = Generation::new(1, pipeline);
        metrics.generation.set(1);
        Ok(Endpoint {
            metrics,
            door,
            sandbox: sandbox.clone(),
            catalog: catalog.clone(),
            current: ArcSwap::from_pointee(generation),
            swapping: tokio::sync::Mutex::default(),
            last_swap: ArcSwapOption::empty(),
            config,
        })
    }

    /// Loads a new version of the handler and publishes it; models and requests in flight are not touched.
    /// Returns `false` if this very version is current already.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn swap(&self, bytes: Bytes, origin: &'static str) -> Result<bool, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let old = self.current();
        if old.digest.as_deref() == Some(&*plugin::digest(&bytes)) {
            return Ok(false);
        }
        let candidate = match self.candidate(bytes, old.models().clone()).await {
            Ok(candidate) => candidate,
            Err(error) => {
                self.metrics.swaps_refused.inc();
                self.note_swap(origin, "refused", Some(error.to_string()));
                return Err(error);
            }
        };
        let new = self.publish(&turn, candidate);
        // Nothing is kept for requests to come.
        if let Some(plugin) = &old.pipeline.plugin {
            plugin.retire();
        }
        self.metrics.swaps_published.inc();
        self.note_swap(origin, "published", None);
        tracing::info!(endpoint = %self.config.name, generation = new.number, plugin.digest = new.digest.as_deref(),
            origin, duration_ms = started.elapsed().as_millis(), "handler swapped");
        Ok(true)
    }

    /// A new version of the handler with the models there are, which has answered the example.
    async fn candidate(&self, bytes: Bytes, models: Models) -> Result<Pipeline, DeployError> {
        let plugin = load(&self.config, &self.sandbox, &self.metrics, bytes).await?;
        self.tried(Some(plugin), models).await
    }

    /// A pipeline of the endpoint that has answered the example.
    pub(super) async fn tried(
        &self,
        plugin: Option<Arc<Plugin>>,
        models: Models,
    ) -> Result<Pipeline, DeployError> {
        let pipeline = pipeline(&self.config, &self.door, plugin, models);
        if self.config.smoke {
            smoke::run(&self.config, &pipeline).await?;
        }
        Ok(pipeline)
    }

    /// Makes the next generation and the one atomic store by which it takes over. `_turn` proves that nobody else is at it.
    pub(super) fn publish(&self, _turn: &MutexGuard<'_, ()>, pipeline: Pipeline) -> Arc<Generation> {
        let number = self.current().number + 1;
        let new = Arc::new(Generation::new(number, pipeline));
        self.current.store(new.clone());
        self.metrics.generation.set(i64::try_from(number).unwrap_or(i64::MAX));
        new
    }

    /// How the last attempt to swap ended; `None` if there was none.
    pub fn last_swap(&self) -> Option<Arc<LastSwap>> {
        self.last_swap.load_full()
    }

    fn note_swap(&self, origin: &'static str, outcome: &'static str, error: Option<String>) {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.last_swap.store(Some(Arc::new(LastSwap { at, origin, outcome, error })));
    }
}

impl Generation {
    fn new(number: u64, pipeline: Pipeline) -> Generation {
        let digest = pipeline.plugin.as_ref().map(|plugin| plugin.digest().into());
        Generation { number, digest, published: SystemTime::now(), pipeline }
    }
}

/// Handler and models behind the endpoint's door.
pub(super) fn pipeline(
    config: &EndpointConfig,
    door: &Arc<Door>,
    plugin: Option<Arc<Plugin>>,
    models: Models,
) -> Pipeline {
    let schema = match &plugin {
        Some(plugin) => plugin.schema().cloned(),
        None => config.schema.clone(),
    };
    Pipeline { door: door.clone(), plugin, models, schema }
}

async fn read(config: &EndpointConfig, path: &Path) -> Result<Bytes, DeployError> {
    tokio::fs::read(path).await.map(Bytes::from).map_err(|cause| DeployError::Read {
        endpoint: config.name.clone(),
        path: path.display().to_string(),
        cause,
    })
}

async fn load(
    config: &EndpointConfig,
    sandbox: &Sandbox,
    metrics: &EndpointMetrics,
    bytes: Bytes,
) -> Result<Arc<Plugin>, DeployError> {
    let facts = Facts {
        endpoint: config.name.as_str().into(),
        metadata: config.metadata.clone(),
        network: config.network,
        env: config.env.clone(),
        project: config.project.clone(),
        hidden: config.hidden.clone(),
        limits: config.limits.plugin.clone(),
        isolation: config.isolation,
        hides_credentials: !config.keys.is_empty(),
        schema: config.schema.clone(),
        instances: metrics.instances.clone(),
    };
    Plugin::load(sandbox, bytes, facts).await.map(Arc::new).map_err(|cause| DeployError::Load {
        endpoint: config.name.clone(),
        path: config.plugin.as_deref().unwrap_or(Path::new("-")).display().to_string(),
        cause,
    })
}
