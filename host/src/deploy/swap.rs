//! Makes generations: the first at start, later ones while serving.
//!
//! ```text
//! read → compile → check (contract version, imports, types) → start an instance → publish → old one drains
//! ```
//! Invariants: nothing is published that has not passed every check; until the one atomic store that publishes it,
//! a new handler serves nobody and the old one serves everybody; the old one is freed by its last request.

use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use serde::Serialize;

use super::{Endpoint, EndpointConfig, Generation};
use crate::model::Model;
use crate::pipeline::Pipeline;
use crate::pipeline::admit::Door;
use crate::plugin::{self, Facts, LoadError, Plugin, Sandbox};
use crate::telemetry::metrics::{EndpointMetrics, Metrics};

/// Why a handler could not be loaded. The text is for the operator and names the file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum DeployError {
    #[error("endpoint `{endpoint}`: cannot read handler `{path}`: {cause}")]
    Read { endpoint: String, path: String, cause: std::io::Error },
    #[error("endpoint `{endpoint}`: handler `{path}` {cause}")]
    Load { endpoint: String, path: String, cause: LoadError },
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
    /// Loads an endpoint's handler and makes its first generation.
    ///
    /// # Errors
    /// [`DeployError`]: the server must not start.
    pub async fn first(
        config: EndpointConfig,
        model: Option<Arc<Model>>,
        sandbox: &Sandbox,
        metrics: &Metrics,
    ) -> Result<Endpoint, DeployError> {
        let door = Arc::new(Door::new(config.limits.concurrency, config.limits.queue));
        let metrics = metrics.endpoint(&config.name);
        let plugin = match &config.plugin {
            Some(path) => {
                let bytes = read(&config, path).await?;
                Some(load(&config, model.as_deref(), sandbox, &metrics, bytes).await?)
            }
            None => None,
        };
        let generation = generation(1, plugin, &door, &model);
        metrics.generation.set(1);
        Ok(Endpoint {
            metrics,
            model,
            door,
            sandbox: sandbox.clone(),
            current: ArcSwap::from_pointee(generation),
            swapping: tokio::sync::Mutex::default(),
            last_swap: ArcSwapOption::empty(),
            config,
        })
    }

    /// Loads a new version of the handler and publishes it; the model and requests in flight are not touched.
    /// Returns `false` if this very version is current already.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn swap(&self, bytes: Bytes, origin: &'static str) -> Result<bool, DeployError> {
        let started = Instant::now();
        let _turn = self.swapping.lock().await;
        let old = self.current();
        if old.digest.as_deref() == Some(&*plugin::digest(&bytes)) {
            return Ok(false);
        }
        let loaded = load(&self.config, self.model.as_deref(), &self.sandbox, &self.metrics, bytes).await;
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let plugin = match loaded {
            Ok(plugin) => plugin,
            Err(error) => {
                self.metrics.swaps_refused.inc();
                let text = Some(error.to_string());
                self.last_swap.store(Some(Arc::new(LastSwap {
                    at,
                    origin,
                    outcome: "refused",
                    error: text,
                })));
                return Err(error);
            }
        };
        let generation = generation(old.number + 1, Some(plugin), &self.door, &self.model);
        let (number, digest) = (generation.number, generation.digest.clone());
        self.current.store(Arc::new(generation));
        old.retire();
        self.metrics.generation.set(i64::try_from(number).unwrap_or(i64::MAX));
        self.metrics.swaps_published.inc();
        self.last_swap.store(Some(Arc::new(LastSwap { at, origin, outcome: "published", error: None })));
        tracing::info!(endpoint = %self.config.name, generation = number, plugin.digest = digest.as_deref(),
            origin, duration_ms = started.elapsed().as_millis(), "handler swapped");
        Ok(true)
    }

    /// How the last attempt to swap ended; `None` if there was none.
    pub fn last_swap(&self) -> Option<Arc<LastSwap>> {
        self.last_swap.load_full()
    }
}

fn generation(
    number: u64,
    plugin: Option<Plugin>,
    door: &Arc<Door>,
    model: &Option<Arc<Model>>,
) -> Generation {
    Generation {
        number,
        digest: plugin.as_ref().map(|plugin| plugin.digest().into()),
        published: SystemTime::now(),
        pipeline: Pipeline { door: door.clone(), plugin, model: model.clone() },
    }
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
    model: Option<&Model>,
    sandbox: &Sandbox,
    metrics: &EndpointMetrics,
    bytes: Bytes,
) -> Result<Plugin, DeployError> {
    let facts = Facts {
        endpoint: config.name.as_str().into(),
        signature: model.map_or_else(Arc::default, |model| model.signature().clone().into()),
        metadata: config.metadata.clone(),
        network: config.network,
        env: config.env.clone(),
        project: config.project.clone(),
        hidden: config.hidden.clone(),
        limits: config.limits.plugin.clone(),
        isolation: config.isolation,
        instances: metrics.instances.clone(),
    };
    Plugin::load(sandbox, bytes, facts).await.map_err(|cause| DeployError::Load {
        endpoint: config.name.clone(),
        path: config.plugin.as_deref().unwrap_or(Path::new("-")).display().to_string(),
        cause,
    })
}
