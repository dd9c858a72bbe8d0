//! The models of an endpoint: loaded at start and for a swap, unloaded while it serves.
//!
//! ```text
//! find → load beside the old one → check against the handler → warm up → … → publish → the old one drains
//! ```
//! In:   names, from the configuration or from an [`Order`]. Out: models for the next generation.
//! Invariants: a new model is ready before the old one gets its last request; a request never meets the models of two
//! generations; an endpoint holds at most two generations' models in memory.

use std::sync::Arc;
use std::time::Instant;

use super::error::DeployError;
use super::swap::{self, Change, Order, Swapped};
use super::{Endpoint, EndpointConfig, Generation};
use crate::model::{Batching, Catalog, Lane, Model, ModelConfig, ModelError};
use crate::pipeline::models::{Models, Named};

/// All models of an endpoint, at start.
pub(super) async fn load_all(config: &EndpointConfig, catalog: &Catalog) -> Result<Models, DeployError> {
    let mut models = Models::default();
    for (name, model) in &config.models {
        let lane = async { open(catalog.load(model).await?, config.batching).await };
        let lane = lane
            .await
            .map_err(|cause| DeployError::Model { endpoint: config.name.clone(), cause: cause.into() })?;
        let signature = lane.signature().clone();
        // The only one is the endpoint to its clients.
        let shown = if config.models.len() > 1 { name } else { &config.name };
        let (name, shown) = (name.as_str().into(), shown.as_str().into());
        models.0.push(Named { name, shown, signature, lane: Some(lane) });
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
    /// order.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn load_model(
        &self,
        name: &str,
        version: Option<u64>,
        order: &Order,
    ) -> Result<Swapped, DeployError> {
        let models = vec![(name.to_owned(), version)];
        self.swap(Change { models, ..Change::default() }, order).await
    }

    /// Takes a model out of service: requests for it are refused from now on, those in flight are answered, then its memory
    /// goes back.
    ///
    /// # Errors
    /// [`DeployError::NoSuchModel`], or the current handler is not the one that the order is about.
    pub async fn unload_model(&self, name: &str, order: &Order) -> Result<Swapped, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let old = self.current();
        self.expect(order, old.digest.as_deref())?;
        let place = self.place(name)?;
        let mut models = old.models().clone();
        if models.0.get_mut(place).and_then(|named| named.lane.take()).is_none() {
            return Ok(Swapped::unchanged(&old));
        }
        let pipeline = swap::pipeline(&self.config, old.pipeline.plugin.clone(), models);
        let swapped = self.publish(&turn, pipeline, order, started);
        // Its memory is what is wanted.
        self.previous.store(None);
        Ok(swapped)
    }

    /// The models of `old` with those of `names` loaded anew; `None` if they are the same.
    pub(super) async fn loaded(
        &self,
        old: &Generation,
        names: &[(String, Option<u64>)],
    ) -> Result<Option<Models>, DeployError> {
        let mut models = old.models().clone();
        let mut is_new = false;
        for (name, version) in names {
            let place = self.place(name)?;
            let (Some(named), Some((_, config))) = (models.0.get_mut(place), self.config.models.get(place))
            else {
                continue;
            };
            let config = ModelConfig { version: version.or(config.version), ..config.clone() };
            let failed =
                |cause| DeployError::Model { endpoint: self.config.name.clone(), cause: Box::new(cause) };
            let model = self.catalog.load(&config).await.map_err(failed)?;
            if named.lane.as_ref().is_some_and(|lane| Arc::ptr_eq(lane.model(), &model)) {
                continue;
            }
            let lane = open(model, self.config.batching).await.map_err(failed)?;
            named.signature = lane.signature().clone();
            named.lane = Some(lane);
            is_new = true;
        }
        Ok(is_new.then_some(models))
    }

    /// A handler was written for a signature, and stays with models of that one. Without a handler, any will do.
    pub(super) fn fits(&self, old: &Generation, models: &Models) -> Result<(), DeployError> {
        if old.pipeline.plugin.is_none() {
            return Ok(());
        }
        for (before, after) in old.models().0.iter().zip(&models.0) {
            if let Some(mismatch) = before.signature.mismatch(&after.signature) {
                let (endpoint, model) = (self.config.name.clone(), after.name.to_string());
                return Err(DeployError::Mismatch { endpoint, model, mismatch });
            }
        }
        Ok(())
    }

    /// Where a model stands, in the configuration and in every generation.
    fn place(&self, name: &str) -> Result<usize, DeployError> {
        let place = self.config.models.iter().position(|(known, _)| known == name);
        place.ok_or_else(|| DeployError::NoSuchModel {
            endpoint: self.config.name.clone(),
            model: name.to_owned(),
        })
    }
}

impl Models {
    /// Whether a model is loaded here that is not loaded there.
    pub(super) fn holds_others_than(&self, there: &Models) -> bool {
        let pairs = self.0.iter().zip(&there.0);
        pairs.into_iter().any(|(here, there)| match (&here.lane, &there.lane) {
            (Some(here), Some(there)) => !Arc::ptr_eq(here.model(), there.model()),
            (Some(_), None) => true,
            (None, _) => false,
        })
    }
}
