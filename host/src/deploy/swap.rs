//! Makes generations: the first at start, later ones when a handler, a model, or both together are replaced.
//!
//! ```text
//! load → verify (contract, imports, types, signature) → init → smoke → gate → [persist] → publish → the old one drains → and is kept for a rollback
//! ```
//! In: a [`Change`] and who asked for it, an [`Order`]. Out: the next [`Generation`], or the step that refused it.
//! Invariants: nothing is published that has not passed every step; until the one atomic store that publishes it,
//! a new generation serves nobody and the old one serves everybody; handler and models change together or not at all;
//! what an attempt came to stands in the [`History`](super::history::History).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use serde::Serialize;
use tokio::sync::{MutexGuard, OnceCell};

use super::admission::AdmissionQueue;
use super::breaker::{Breaker, Policy};
use super::error::DeployError;
use super::gate::GateOverrides;
use super::history::{Attempt, Origin, unix_seconds};
use super::ledger::Ledger;
use super::samples::Samples;
use super::{Endpoint, EndpointConfig, Generation, gate, models, persist, smoke};
use crate::model::Catalog;
use crate::pipeline::Pipeline;
use crate::pipeline::models::Models;
use crate::plugin::{Binary, Facts, Plugin, Sandbox};
use crate::telemetry::metrics::{EndpointMetrics, Metrics};
use crate::text;

/// How long the first instance of a generation that takes over again may take to start.
const WARM_TIMEOUT: Duration = Duration::from_secs(10);

/// What is to be another than it is. Empty: nothing.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// A handler component; `None` keeps the handler there is.
    pub plugin: Option<Binary>,
    /// Models to load as their files are now, by name; a number picks one of a folder of versions.
    pub models: Vec<(String, Option<u64>)>,
    /// Whether the handler is to be in the endpoint's file as well, and serve after a restart.
    pub persist: bool,
}

/// Who wants it.
#[derive(Debug, Clone)]
pub struct Order {
    /// What asked.
    pub origin: Origin,
    /// Why, in the words of whoever asked.
    pub note: Option<Arc<str>>,
    /// Only if this is the digest of the current handler.
    pub expected: Option<String>,
    /// What the gate is to let pass this once.
    pub gate: GateOverrides,
}

impl Order {
    /// An order without conditions.
    pub fn by(origin: Origin) -> Order {
        Order { origin, note: None, expected: None, gate: GateOverrides::default() }
    }
}

/// What became of an order that was not refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Swapped {
    /// `published`, or `unchanged` if this very handler and these very models are current already.
    pub outcome: &'static str,
    /// The current generation.
    pub generation: u64,
    /// SHA-256 of its handler.
    pub digest: Option<Arc<str>>,
}

impl Swapped {
    fn published(new: &Generation) -> Swapped {
        Swapped { outcome: "published", generation: new.number, digest: new.digest.clone() }
    }

    pub(super) fn unchanged(current: &Generation) -> Swapped {
        Swapped { outcome: "unchanged", ..Swapped::published(current) }
    }

    /// Whether there is a new generation.
    pub fn is_new(&self) -> bool {
        self.outcome == "published"
    }
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
        let started = Instant::now();
        let metrics = metrics.endpoint(&config.name);
        // After the handler: most that is wrong with one is found without running or compiling anything.
        let models = OnceCell::new();
        let make = async |binary: Option<Binary>| {
            let plugin = match binary {
                Some(binary) => Some(load(&config, sandbox, &metrics, binary, Origin::Start).await?),
                None => None,
            };
            let models = models.get_or_try_init(|| models::load_all(&config, catalog)).await?;
            let pipeline = pipeline(&config, plugin, models.clone());
            if config.smoke {
                smoke::run(&config, &pipeline).await?;
            }
            gate::first(&config, &pipeline).await?;
            Ok(pipeline)
        };
        let found = match &config.plugin {
            Some(path) => Some(read(&config, path).await?),
            None => None,
        };
        let ledger = Ledger::open(&config, sandbox).await;
        let pipeline = match (&ledger, found) {
            (Some(ledger), Some(found)) => {
                ledger.first(found, async |binary| make(Some(binary)).await).await?
            }
            (_, found) => make(found).await?,
        };
        let generation = Generation::new(1, pipeline, config.breaker);
        metrics.generation.set(1);
        let endpoint = Endpoint {
            metrics,
            admission: AdmissionQueue::new(config.limits.concurrency, config.limits.queue),
            sandbox: sandbox.clone(),
            catalog: catalog.clone(),
            current: ArcSwap::from_pointee(generation),
            previous: ArcSwapOption::empty(),
            trial: ArcSwapOption::empty(),
            swapping: tokio::sync::Mutex::default(),
            written: ArcSwapOption::empty(),
            opened: Default::default(),
            ledger,
            history: Default::default(),
            recorder: None,
            samples: Samples::start(config.gate.samples.clone()),
            config,
        };
        endpoint.note(&Order::by(Origin::Start), started, None, Ok(&endpoint.current()));
        Ok(endpoint)
    }

    /// Makes and publishes another generation; requests in flight are not touched.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn swap(&self, change: Change, order: &Order) -> Result<Swapped, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        self.expect(order, self.current().digest.as_deref())?;
        self.change(&turn, change, order, started).await
    }

    /// Reads the handler's file and loads the models there are, all as the files are now, and makes one generation of them.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn reload(&self, order: &Order) -> Result<Swapped, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let current = self.current();
        self.expect(order, current.digest.as_deref())?;
        let plugin = match &self.config.plugin {
            Some(path) => {
                let binary = read(&self.config, path).await;
                let noted = |error: &_| self.note(order, started, None, Err(error));
                Some(binary.inspect_err(noted)?)
            }
            None => None,
        };
        let loaded = current.models().0.iter().filter(|named| named.lane.is_some());
        let models = loaded.map(|named| (named.name.to_string(), None)).collect();
        self.change(&turn, Change { plugin, models, persist: false }, order, started).await
    }

    /// All steps, for whoever's turn it is.
    async fn change(
        &self,
        turn: &MutexGuard<'_, ()>,
        change: Change,
        order: &Order,
        started: Instant,
    ) -> Result<Swapped, DeployError> {
        let file = match (&self.config.plugin, change.persist) {
            (Some(path), true) => Some(path),
            (None, true) => return Err(DeployError::NoFile { endpoint: self.config.name.clone() }),
            _ => None,
        };
        let old = self.current();
        let made = async {
            let pipeline = self.make(&change, order, &old).await?;
            if let Some(pipeline) = &pipeline {
                self.gate(&old, pipeline, order).await?;
            }
            if let (Some(plugin), Some(path)) = (&change.plugin, file) {
                let written = persist::write(&self.config.name, plugin.bytes().clone(), path).await?;
                self.written.store(Some(Arc::new(written)));
            }
            Ok(pipeline)
        };
        let in_file = matches!(order.origin, Origin::Watch | Origin::Signal) || change.persist;
        let in_file = change.plugin.as_ref().filter(|_| in_file);
        match made.await {
            Ok(None) => Ok(Swapped::unchanged(&old)),
            Ok(Some(pipeline)) => {
                let swapped = self.publish(turn, pipeline, order, started);
                match (&self.ledger, in_file) {
                    (Some(ledger), Some(handler)) => ledger.good(handler).await,
                    (Some(ledger), None) => ledger.published(swapped.digest.as_deref()).await,
                    (None, _) => {}
                }
                Ok(swapped)
            }
            Err(error) => {
                let digest = change.plugin.as_ref().map(|plugin| plugin.digest().clone());
                let is_new = digest != old.digest;
                if let (Some(ledger), Some(handler)) =
                    (&self.ledger, in_file.filter(|_| is_new && !change.persist))
                {
                    ledger.refused(handler.digest(), &error).await;
                }
                self.note(order, started, digest.or_else(|| old.digest.clone()), Err(&error));
                Err(error)
            }
        }
    }

    /// Goes back to the generation before, which has been kept: nothing is compiled, read or loaded.
    ///
    /// # Errors
    /// [`DeployError`]: there is none, or its handler does not start any more.
    pub async fn rollback(&self, order: &Order) -> Result<Swapped, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let old = self.current();
        self.expect(order, old.digest.as_deref())?;
        // Another generation has come in between: it has done nothing wrong yet.
        let is_needed =
            order.origin != Origin::Breaker || old.breaker.as_deref().is_some_and(Breaker::is_open);
        let Some(previous) = self.previous.load_full().filter(|_| is_needed) else {
            return Err(DeployError::NoPrevious { endpoint: self.config.name.clone() });
        };
        if let Some(plugin) = &previous.pipeline.plugin
            && let Err(error) = plugin.revive(Instant::now() + WARM_TIMEOUT).await
        {
            let error = self.config.refused_plugin(order.origin, error);
            self.note(order, started, previous.digest.clone(), Err(&error));
            return Err(error);
        }
        let swapped = self.publish(&turn, previous.pipeline.clone(), order, started);
        if order.origin == Origin::Breaker {
            // What failed is nothing to go back to.
            self.previous.store(None);
        }
        Ok(swapped)
    }

    /// The generation that a rollback goes back to.
    pub fn previous(&self) -> Option<Arc<Generation>> {
        self.previous.load_full()
    }

    /// Whether an order is about the handler of this digest.
    pub(super) fn expect(&self, order: &Order, found: Option<&str>) -> Result<(), DeployError> {
        let found = found.unwrap_or_default();
        match &order.expected {
            Some(expected) if expected != found => Err(DeployError::Expected {
                endpoint: self.config.name.clone(),
                expected: expected.clone(),
                found: found.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The steps up to the gate; `None` if nothing would be another than it is.
    pub(super) async fn make(
        &self,
        change: &Change,
        order: &Order,
        old: &Generation,
    ) -> Result<Option<Pipeline>, DeployError> {
        let is_new = |binary: &&Binary| old.digest.as_ref() != Some(binary.digest());
        let binary = change.plugin.as_ref().filter(is_new);
        let models = self.loaded(old, &change.models).await?;
        if binary.is_none() && models.is_none() {
            return Ok(None);
        }
        let models = models.unwrap_or_else(|| old.models().clone());
        let plugin = match binary {
            Some(binary) => {
                let (config, sandbox, metrics) = (&self.config, &self.sandbox, &self.metrics);
                Some(load(config, sandbox, metrics, binary.clone(), order.origin).await?)
            }
            None => {
                self.fits(old, &models)?;
                old.pipeline.plugin.clone()
            }
        };
        let pipeline = pipeline(&self.config, plugin, models);
        if self.config.smoke {
            smoke::run(&self.config, &pipeline).await?;
        }
        Ok(Some(pipeline))
    }

    /// The last step before requests get answers of `new`.
    pub(super) async fn gate(
        &self,
        old: &Generation,
        new: &Pipeline,
        order: &Order,
    ) -> Result<(), DeployError> {
        gate::examine(&self.config, &order.gate, self.samples.as_ref(), &old.pipeline, new).await
    }

    /// Makes the next generation, and the one atomic store by which it takes over. `_turn` proves that nobody else is at it.
    pub(super) fn publish(
        &self,
        _turn: &MutexGuard<'_, ()>,
        pipeline: Pipeline,
        order: &Order,
        started: Instant,
    ) -> Swapped {
        self.supersede_trial(order);
        let old = self.current();
        let new = Arc::new(Generation::new(old.number + 1, pipeline, self.config.breaker));
        self.current.store(new.clone());
        // Nothing is kept for requests to come.
        if let Some(plugin) = &old.pipeline.plugin
            && !new.pipeline.plugin.as_ref().is_some_and(|new| Arc::ptr_eq(new, plugin))
        {
            plugin.retire();
        }
        let kept = self.config.keep_model || !old.models().holds_others_than(new.models());
        // What cannot answer is nothing to go back to.
        let lanes = |generation: &Generation| {
            generation.models().0.iter().map(|named| named.lane.is_some()).collect::<Vec<_>>()
        };
        let serves = lanes(&new).into_iter().zip(lanes(&old)).all(|(new, old)| old || !new);
        self.previous.store((kept && serves).then_some(old));
        self.metrics.generation.set(i64::try_from(new.number).unwrap_or(i64::MAX));
        self.note(order, started, None, Ok(&new));
        tracing::info!(endpoint = %self.config.name, generation = new.number, plugin.digest = new.digest.as_deref(),
            origin = order.origin.name(), note = order.note.as_deref(), duration_ms = started.elapsed().as_millis(),
            "new generation published");
        Swapped::published(&new)
    }

    /// Writes down what an attempt came to.
    pub(super) fn note(
        &self,
        order: &Order,
        started: Instant,
        digest: Option<Arc<str>>,
        outcome: Result<&Generation, &DeployError>,
    ) {
        match (&outcome, order.origin) {
            (_, Origin::Start) => {}
            (Ok(_), _) => self.metrics.swaps_published.inc(),
            (Err(_), _) => self.metrics.swaps_refused.inc(),
        }
        let new = outcome.ok();
        let error = outcome.err();
        self.history.add(Attempt {
            at: unix_seconds(SystemTime::now()),
            origin: order.origin,
            note: order.note.clone(),
            outcome: if new.is_some() { "published" } else { "refused" },
            generation: new.map(|new| new.number),
            digest: new.map_or(digest, |new| new.digest.clone()),
            step: error.map(DeployError::step),
            error: error.map(|error| text::cut(error.to_string())),
            gate: error.and_then(DeployError::report).cloned(),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

impl Generation {
    pub(super) fn new(number: u64, pipeline: Pipeline, breaker: Option<Policy>) -> Generation {
        let digest = pipeline.plugin.as_ref().map(|plugin| plugin.digest().clone());
        let breaker =
            breaker.filter(|_| pipeline.plugin.is_some()).map(|policy| Arc::new(Breaker::new(policy)));
        Generation { number, digest, published: SystemTime::now(), pipeline, breaker }
    }
}

/// Handler and models of a generation.
pub(super) fn pipeline(config: &EndpointConfig, plugin: Option<Arc<Plugin>>, models: Models) -> Pipeline {
    let schema = match &plugin {
        Some(plugin) => plugin.schema().cloned(),
        None => config.schema.clone(),
    };
    Pipeline { plugin, models, schema, bare_tensors: config.bare_tensors }
}

async fn read(config: &EndpointConfig, path: &Path) -> Result<Binary, DeployError> {
    Binary::read(path).await.map_err(|cause| DeployError::Read {
        endpoint: config.name.clone(),
        path: path.display().to_string(),
        cause,
    })
}

/// Compiles, checks and starts a handler.
pub(super) async fn load(
    config: &EndpointConfig,
    sandbox: &Sandbox,
    metrics: &EndpointMetrics,
    binary: Binary,
    origin: Origin,
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
        response_headers: config.response_headers.clone(),
        schema: config.schema.clone(),
        instances: metrics.instances.clone(),
    };
    let loaded = Plugin::load(sandbox, binary, facts).await;
    loaded.map(Arc::new).map_err(|cause| config.refused_plugin(origin, cause))
}
