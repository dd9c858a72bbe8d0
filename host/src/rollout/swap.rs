//! Makes generations: the first at start, later ones when a handler, a model, or both together are replaced.
//!
//! ```text
//! load → verify (contract, imports, types, signature) → init → smoke → gate → [persist]
//!      → publish → the old one drains → and is kept for a rollback
//! ```
//! In: a [`GenerationChange`] and who asked for it, a [`DeployRequest`]. Out: the next [`Generation`], or
//! the step that refused it.
//! Invariants: nothing is published that has not passed every step, and what an order wants in the handler's
//! file is put there when it is published, or not at all; until the one atomic store that publishes it, a
//! new generation serves no request and the old one serves all; handler and models change together or not at
//! all; what an attempt came to stands in the [`History`](super::history::History).

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tokio::sync::{MutexGuard, Notify, OnceCell};

use super::deploy_request::{DeployOutcome, DeployRequest, GenerationChange};
use super::deployment::{Deployment, Serving};
use super::error::DeployError;
use super::history::Origin;
use super::ledger::Ledger;
use super::load::{load, load_all, pipeline, read};
use super::persist::Written;
use super::{gate, persist, smoke};
use crate::blocking;
use crate::capture::samples::Samples;
use crate::endpoint::Endpoint;
use crate::endpoint::breaker::Breaker;
use crate::endpoint::config::EndpointConfig;
use crate::endpoint::generation::Generation;
use crate::model::Catalog;
use crate::pipeline::Pipeline;
use crate::pipeline::models::Handle;
use crate::plugin::{Binary, Sandbox, capabilities};
use crate::telemetry::metrics::Metrics;

/// How long the first instance of a generation that takes over again may take to start.
const WARM_TIMEOUT: Duration = Duration::from_secs(10);

impl Deployment {
    /// Loads an endpoint's models and handler and makes its first generation.
    ///
    /// # Errors
    /// [`DeployError`]: the server must not start.
    pub async fn first(
        config: EndpointConfig,
        catalog: &Arc<Catalog>,
        sandbox: &Sandbox,
        metrics: &Metrics,
    ) -> Result<Deployment, DeployError> {
        let started = Instant::now();
        let metrics = metrics.endpoint(&config.name);
        capabilities::begin_metrics(&config.capabilities, &config.view(&metrics));
        // After the handler: most that is wrong with one is found without running or compiling anything.
        let models = OnceCell::new();
        let make = async |binary: Option<Binary>| {
            let plugin = match binary {
                Some(binary) => Some(load(&config, sandbox, &metrics, binary, Origin::Start).await?),
                None => None,
            };
            let models = models.get_or_try_init(|| load_all(&config, catalog)).await?;
            let pipeline = pipeline(&config, plugin, models.clone(), &metrics)?;
            if config.response_cache.is_some() && pipeline.is_application() {
                return Err(DeployError::Uncacheable { endpoint: config.name.clone() });
            }
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
        let breaker_opened = Arc::<Notify>::default();
        let breaker = config.breaker.map(|policy| Breaker::new(policy, breaker_opened.clone()));
        let samples = Samples::start(config.gate.samples.clone());
        let deployment = Deployment {
            endpoint: Endpoint::new(config, metrics, Generation::new(1, pipeline, breaker)),
            sandbox: sandbox.clone(),
            catalog: catalog.clone(),
            previous: ArcSwapOption::empty(),
            trial: ArcSwapOption::empty(),
            swapping: Default::default(),
            publishing: Default::default(),
            is_retired: Default::default(),
            written: ArcSwapOption::empty(),
            breaker_opened,
            ledger,
            history: Default::default(),
            recorder: None,
            samples,
        };
        deployment.note(&DeployRequest::by(Origin::Start), started, None, Ok(&deployment.current()));
        Ok(deployment)
    }

    /// Makes and publishes another generation; requests in flight are not touched.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn swap(
        &self,
        change: GenerationChange,
        order: &DeployRequest,
    ) -> Result<DeployOutcome, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        self.expect(order, self.current().digest.as_deref())?;
        self.change(&turn, change, order, started).await
    }

    /// Reads the handler's file and loads the models there are, all as the files are now, and makes one
    /// generation of them.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn reload(&self, order: &DeployRequest) -> Result<DeployOutcome, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let current = self.current();
        self.expect(order, current.digest.as_deref())?;
        let component = match &self.config.plugin {
            Some(path) => {
                let binary = read(&self.config, path).await;
                let noted = |error: &_| self.note(order, started, None, Err(error));
                Some(binary.inspect_err(noted)?)
            }
            None => None,
        };
        let is_loaded = |handle: &Handle| handle.model().is_some();
        let loaded = current.models().0.iter().filter(|named| named.handle.as_ref().is_some_and(is_loaded));
        let models = loaded.map(|named| (named.name.to_string(), None)).collect();
        self.change(&turn, GenerationChange { component, models, persist: false }, order, started).await
    }

    /// All steps, for the caller that holds the turn.
    async fn change(
        &self,
        turn: &MutexGuard<'_, ()>,
        change: GenerationChange,
        order: &DeployRequest,
        started: Instant,
    ) -> Result<DeployOutcome, DeployError> {
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
            let written = match (&change.component, file) {
                (Some(component), Some(path)) => {
                    Some(persist::write(&self.config.name, component.bytes().clone(), path).await?)
                }
                _ => None,
            };
            let concluded = self.conclude(turn, pipeline, written, order, started).await;
            if let (Ok(_), Some(path)) = (&concluded, file) {
                persist::settle(path).await;
            }
            concluded
        };
        let in_file = matches!(order.origin, Origin::Watch | Origin::Signal) || change.persist;
        let in_file = change.component.as_ref().filter(|_| in_file);
        match made.await {
            Ok(None) => {
                // It may have been ordered before it was in the file.
                if let (Some(ledger), Some(handler)) = (&self.ledger, in_file)
                    && !ledger.is_good(handler.digest())
                {
                    ledger.good(handler).await;
                }
                Ok(DeployOutcome::unchanged(&old))
            }
            Ok(Some(swapped)) => {
                match (&self.ledger, in_file) {
                    (Some(ledger), Some(handler)) => ledger.good(handler).await,
                    (Some(ledger), None) => ledger.published(swapped.digest.as_deref()).await,
                    (None, _) => {}
                }
                Ok(swapped)
            }
            Err(error) => {
                let digest = change.component.as_ref().map(|plugin| plugin.digest().clone());
                // An endpoint that is gone says nothing of what is in its file.
                let is_fault = !change.persist && !matches!(&error, DeployError::Gone { .. });
                let is_new = digest != old.digest;
                let refused = in_file.filter(|_| is_new && is_fault);
                if let (Some(ledger), Some(handler)) = (&self.ledger, refused) {
                    ledger.refused(handler.digest(), &error).await;
                }
                self.note(order, started, digest.or_else(|| old.digest.clone()), Err(&error));
                Err(error)
            }
        }
    }

    /// The last step: what is written is put in the file's place and the generation takes over, or neither.
    /// `None` if no other generation is wanted.
    ///
    /// # Errors
    /// [`DeployError::Gone`] and [`DeployError::Persist`]: nothing has changed.
    async fn conclude(
        &self,
        turn: &MutexGuard<'_, ()>,
        pipeline: Option<Pipeline>,
        written: Option<Written<'_>>,
        order: &DeployRequest,
        started: Instant,
    ) -> Result<Option<DeployOutcome>, DeployError> {
        let serving = self.serving().await?;
        if let Some(written) = written {
            // A reload waits for no more than a rename: the file may be another endpoint's afterwards.
            // Nothing is waited for between it and what follows, which an order that is given up would leave
            // undone.
            let stamp = blocking::off_worker(|| written.put())?;
            self.written.store(Some(Arc::new(stamp)));
        }
        Ok(pipeline.map(|pipeline| self.take_over(turn, &serving, pipeline, order, started)))
    }

    /// Goes back to the generation before, which has been kept: nothing is compiled, read or loaded.
    ///
    /// # Errors
    /// [`DeployError`]: there is none, or its handler does not start any more.
    pub async fn rollback(&self, order: &DeployRequest) -> Result<DeployOutcome, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let old = self.current();
        self.expect(order, old.digest.as_deref())?;
        // Another generation has come in between: it has done nothing wrong yet.
        let is_needed = order.origin != Origin::Breaker || old.is_open();
        let Some(previous) = self.previous.load_full().filter(|_| is_needed) else {
            return Err(DeployError::NoPrevious { endpoint: self.config.name.clone() });
        };
        if let Some(plugin) = &previous.pipeline.plugin
            && let Err(error) = plugin.reactivate(Instant::now() + WARM_TIMEOUT).await
        {
            let error = self.config.refused_plugin(order.origin, error);
            self.note(order, started, previous.digest.clone(), Err(&error));
            return Err(error);
        }
        let swapped = self.publish(&turn, previous.pipeline.clone(), order, started).await?;
        if order.origin == Origin::Breaker {
            // What failed is nothing to go back to.
            self.previous.store(None);
        }
        Ok(swapped)
    }

    /// The steps up to the gate; `None` if nothing would be another than it is.
    pub(super) async fn make(
        &self,
        change: &GenerationChange,
        order: &DeployRequest,
        old: &Generation,
    ) -> Result<Option<Pipeline>, DeployError> {
        // While a handler is being written, the files that it reads change too.
        let is_dev = order.origin == Origin::Dev;
        let is_new = |binary: &&Binary| is_dev || old.digest.as_ref() != Some(binary.digest());
        let component = change.component.as_ref().filter(is_new);
        let models = self.loaded(old, &change.models).await?;
        if component.is_none() && models.is_none() {
            return Ok(None);
        }
        let models = models.unwrap_or_else(|| old.models().clone());
        let plugin = match component {
            Some(binary) => {
                let (config, sandbox, metrics) = (&self.config, &self.sandbox, &self.metrics);
                Some(load(config, sandbox, metrics, binary.clone(), order.origin).await?)
            }
            None => {
                self.fits(old, &models)?;
                old.pipeline.plugin.clone()
            }
        };
        let pipeline = pipeline(&self.config, plugin, models, &self.metrics)?;
        let kind = |pipeline: &Pipeline| match pipeline.is_application() {
            true => "an application",
            false => "functions around a model",
        };
        if old.pipeline.is_application() != pipeline.is_application() {
            let (old, new) = (kind(&old.pipeline), kind(&pipeline));
            return Err(DeployError::Kind { endpoint: self.config.name.clone(), old, new });
        }
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
        order: &DeployRequest,
    ) -> Result<(), DeployError> {
        gate::evaluate(&self.config, &order.gate, self.samples.as_ref(), &old.pipeline, new).await
    }

    /// Has the next generation take over, if the endpoint still serves.
    ///
    /// # Errors
    /// [`DeployError::Gone`], which is written down: nothing has changed.
    pub(super) async fn publish(
        &self,
        turn: &MutexGuard<'_, ()>,
        pipeline: Pipeline,
        order: &DeployRequest,
        started: Instant,
    ) -> Result<DeployOutcome, DeployError> {
        let digest = pipeline.plugin.as_ref().map(|plugin| plugin.digest().clone());
        let serving =
            self.serving().await.inspect_err(|error| self.note(order, started, digest, Err(error)))?;
        Ok(self.take_over(turn, &serving, pipeline, order, started))
    }

    /// Makes the next generation, and the one atomic store by which it takes over. `_turn` proves that no
    /// other swap is under way, `_serving` that requests come here.
    pub(super) fn take_over(
        &self,
        _turn: &MutexGuard<'_, ()>,
        _serving: &Serving<'_>,
        pipeline: Pipeline,
        order: &DeployRequest,
        started: Instant,
    ) -> DeployOutcome {
        self.cancel_trial(order);
        let old = self.current();
        let new = Arc::new(Generation::new(old.number + 1, pipeline, self.breaker()));
        self.endpoint.publish(new.clone());
        // Nothing is kept for requests to come.
        if let Some(plugin) = &old.pipeline.plugin
            && !new.pipeline.plugin.as_ref().is_some_and(|new| Arc::ptr_eq(new, plugin))
        {
            plugin.retire();
        }
        let kept = self.config.keep_model || !old.models().holds_others_than(new.models());
        // What cannot answer is nothing to go back to.
        let handles = |generation: &Generation| {
            generation.models().0.iter().map(|named| named.handle.is_some()).collect::<Vec<_>>()
        };
        let serves = handles(&new).into_iter().zip(handles(&old)).all(|(new, old)| old || !new);
        self.previous.store((kept && serves).then_some(old));
        self.note(order, started, None, Ok(&new));
        tracing::info!(endpoint = %self.config.name, generation = new.number,
            plugin.digest = new.digest.as_deref(), origin = order.origin.name(), note = order.note.as_deref(),
            duration_ms = started.elapsed().as_millis(),
            "new generation published");
        DeployOutcome::published(&new)
    }
}
