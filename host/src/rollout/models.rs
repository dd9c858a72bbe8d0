//! The models of an endpoint: loaded at start and for a swap, unloaded while it serves.
//!
//! ```text
//! find → load beside the old one → check against the handler → warm up → … → publish → the old one drains
//! ```
//! In:   names, from the configuration or from a [`DeployRequest`]. Out: models for the next generation.
//! Invariants: a new model is ready before the old one gets its last request; a request never meets the
//! models of two generations; an endpoint holds at most two generations' models in memory.

use std::sync::Arc;
use std::time::Instant;

use super::deploy_request::{DeployOutcome, DeployRequest, GenerationChange};
use super::deployment::Deployment;
use super::error::DeployError;
use super::load::{pipeline, versions};
use crate::endpoint::generation::Generation;
use crate::model::ModelConfig;
use crate::pipeline::models::{Handle, Models};

impl Deployment {
    /// Loads a model as its files are now, and publishes it; `version` picks one of a folder of versions,
    /// until another order.
    ///
    /// # Errors
    /// [`DeployError`]: the current generation goes on as if nothing had been asked.
    pub async fn load_model(
        &self,
        name: &str,
        version: Option<u64>,
        order: &DeployRequest,
    ) -> Result<DeployOutcome, DeployError> {
        let models = vec![(name.to_owned(), version)];
        self.swap(GenerationChange { models, ..GenerationChange::default() }, order).await
    }

    /// Takes a model out of service: requests for it are refused from now on, those in flight are answered,
    /// then its memory goes back.
    ///
    /// # Errors
    /// [`DeployError::NoSuchModel`], or the current handler is not the one that the order is about.
    pub async fn unload_model(
        &self,
        name: &str,
        order: &DeployRequest,
    ) -> Result<DeployOutcome, DeployError> {
        let started = Instant::now();
        let turn = self.swapping.lock().await;
        let old = self.current();
        self.expect(order, old.digest.as_deref())?;
        self.configured(name)?;
        let mut models = old.models().clone();
        let Some(named) = models.named(name).filter(|named| named.handle.is_some()) else {
            return Ok(DeployOutcome::unchanged(&old));
        };
        (named.handle, named.others) = (None, Arc::default());
        let pipeline = pipeline(&self.config, old.pipeline.plugin.clone(), models, &self.metrics)?;
        let swapped = self.publish(&turn, pipeline, order, started).await?;
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
            let config = self.configured(name)?;
            let Some(named) = models.named(name) else { continue };
            let config = ModelConfig { version: version.or(config.version), ..config.clone() };
            let failed =
                |cause| DeployError::Model { endpoint: self.config.name.clone(), cause: Box::new(cause) };
            let known: Vec<Handle> = named.handles().cloned().collect();
            let (handle, others) =
                versions(&self.catalog, &config, &self.config, &known).await.map_err(failed)?;
            named.signature = handle.signature().clone();
            (named.handle, named.others) = (Some(handle), others);
            is_new |= known.len() != named.handles().count()
                || !known.iter().zip(named.handles()).all(|(before, after)| before.runs_those_of(after));
        }
        Ok(is_new.then_some(models))
    }

    /// A handler was written for a signature, and stays with models of that one. Without a handler, any will
    /// do.
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

    /// The configuration of a model.
    fn configured(&self, name: &str) -> Result<&ModelConfig, DeployError> {
        let found = self.config.models.iter().find(|(known, _)| known == name);
        found.map(|(_, config)| config).ok_or_else(|| DeployError::NoSuchModel {
            endpoint: self.config.name.clone(),
            model: name.to_owned(),
        })
    }
}
