//! Loads and unloads the models of an endpoint while it serves.
//!
//! ```text
//! find → load beside the old one → check against the handler → warm up → try the example → publish → old one drains
//! ```
//! In:   an order from the admin listener. Out: a new generation, or the reason why the old one goes on.
//! Invariants: the new model is ready before the old one gets its last request; the old one is freed by its last
//! request; a request never meets the models of two generations.

use std::sync::Arc;
use std::time::Instant;

use super::swap::{self, DeployError};
use super::{Endpoint, EndpointConfig};
use crate::model::{Batching, Catalog, Lane, Model, ModelConfig, ModelError};
use crate::pipeline::models::{Models, Named};

/// All models of an endpoint, at start.
pub(super) async fn load_all(config: &EndpointConfig, catalog: &Catalog) -> Result<Models, DeployError> {
    let mut models = Models::default();
    for (name, model) in &config.models {
        let lane = async { open(catalog.load(model).await?, config.batching).await };
        let lane = lane.await.map_err(|cause| DeployError::Model { endpoint: config.name.clone(), cause })?;
        let signature = lane.signature().clone();
        models.0.push(Named { name: name.as_str().into(), signature, lane: Some(lane) });
    }
    Ok(models)
}

/// A way to a loaded model. With batching, this runs the model on batches.
async fn open(model: Arc<Model>, batching: Batching) -> Result<Arc<Lane>, ModelError> {
    let path = model.location().path.clone();
    let opened = tokio::task::spawn_blocking(move || model.lane(batching)).await;
    let lane = opened.map_err(|error| ModelError::Load { path, reason: error.to_string() })??;
    Ok(Arc::new(lane))
}

impl Endpoint {
    /// Loads a model as its files are now, and publishes it; `version` picks one of a folder of versions, until another
    /// order. Returns `false` if that very model is loaded already.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn load_model(&self, name: &str, version: Option<u64>) -> Result<bool, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let old = self.current();
        let place = self.place(name).ok_or_else(|| self.no_such_model(name))?;
        let (Some(before), Some((name, config))) = (old.models().0.get(place), self.config.models.get(place))
        else {
            return Err(self.no_such_model(name));
        };
        let config = ModelConfig { version: version.or(config.version), ..config.clone() };
        let failed = |cause| DeployError::Model { endpoint: self.config.name.clone(), cause };
        let model = self.catalog.load(&config).await.map_err(failed)?;
        if before.lane.as_ref().is_some_and(|before| Arc::ptr_eq(before.model(), &model)) {
            return Ok(false);
        }
        // A handler was written for a signature; without one, any will do.
        if old.pipeline.plugin.is_some()
            && let Some(mismatch) = before.signature.mismatch(model.signature())
        {
            let (endpoint, model) = (self.config.name.clone(), name.clone());
            return Err(DeployError::Mismatch { endpoint, model, mismatch });
        }
        let lane = open(model, self.config.batching).await.map_err(failed)?;
        let version = lane.model().location().version;
        let mut models = old.models().clone();
        if let Some(named) = models.0.get_mut(place) {
            named.signature = lane.signature().clone();
            named.lane = Some(lane);
        }
        let new = self.publish(&turn, self.tried(old.pipeline.plugin.clone(), models).await?);
        tracing::info!(endpoint = %self.config.name, generation = new.number, model = name, model.version = version,
            duration_ms = started.elapsed().as_millis(), "model loaded");
        Ok(true)
    }

    /// Takes a model out of service: requests for it are refused from now on, those in flight are answered, then its memory
    /// goes back. Returns `false` if it is not loaded.
    ///
    /// # Errors
    /// [`DeployError::NoSuchModel`].
    pub async fn unload_model(&self, name: &str) -> Result<bool, DeployError> {
        let turn = self.swapping.lock().await;
        let old = self.current();
        let place = self.place(name).ok_or_else(|| self.no_such_model(name))?;
        let mut models = old.models().clone();
        if models.0.get_mut(place).and_then(|named| named.lane.take()).is_none() {
            return Ok(false);
        }
        let pipeline = swap::pipeline(&self.config, &self.door, old.pipeline.plugin.clone(), models);
        let new = self.publish(&turn, pipeline);
        tracing::info!(endpoint = %self.config.name, generation = new.number, model = name, "model unloaded");
        Ok(true)
    }

    /// Where a model stands, in the configuration and in every generation.
    fn place(&self, name: &str) -> Option<usize> {
        self.config.models.iter().position(|(known, _)| known == name)
    }

    fn no_such_model(&self, name: &str) -> DeployError {
        DeployError::NoSuchModel { endpoint: self.config.name.clone(), model: name.to_owned() }
    }
}
