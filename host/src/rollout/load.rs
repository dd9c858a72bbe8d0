//! What a generation is made of: handler and models, read, loaded and put together.
//!
//! Place in the flow: the first steps of a start, a swap, a trial, and of `host diff`.
//! In: configuration, files, components. Out: a [`Pipeline`] that serves no request yet.

use std::path::Path;
use std::sync::Arc;

use super::error::DeployError;
use super::history::Origin;
use crate::endpoint::config::EndpointConfig;
use crate::model::location::Location;
use crate::model::{Catalog, Model, ModelConfig, ModelError, ModelHandle};
use crate::pipeline::Pipeline;
use crate::pipeline::batches::Batches;
use crate::pipeline::ensemble::{ENSEMBLE, Ensemble, Member};
use crate::pipeline::models::{Handle, Models, Named};
use crate::plugin::capabilities::Grants;
use crate::plugin::{Binary, HandlerConfig, LoadError, Plugin, Sandbox};
use crate::telemetry::metrics::EndpointMetrics;

/// Handler and models of a generation, with the ensemble that the configuration makes of these.
///
/// # Errors
/// [`DeployError::Ensemble`].
pub(super) fn pipeline(
    config: &EndpointConfig,
    plugin: Option<Arc<Plugin>>,
    models: Models,
    metrics: &EndpointMetrics,
) -> Result<Pipeline, DeployError> {
    let models = with_ensemble(config, models)?;
    let raw_body = config.raw_body.clone();
    let schema = match &plugin {
        // What the configuration says wins.
        _ if raw_body.is_some() => None,
        Some(plugin) => plugin.schema().cloned(),
        None => config.schema.clone(),
    };
    let batches = Batches::new(plugin.as_ref(), &models, config.request_batching, &metrics.batch_sizes);
    Ok(Pipeline { plugin, models, schema, raw_body, bare_tensors: config.bare_tensors, batches })
}

/// These models, and before them an ensemble, if there is to be one.
fn with_ensemble(config: &EndpointConfig, mut models: Models) -> Result<Models, DeployError> {
    let Some(ensemble) = &config.ensemble else { return Ok(models) };
    models.0.retain(|named| *named.name != *ENSEMBLE);
    let member = |named: &Named| {
        let handle = match &named.handle {
            Some(Handle::Model(handle)) => Some(handle.clone()),
            _ => None,
        };
        Member { name: named.name.clone(), signature: named.signature.clone(), handle }
    };
    let members: Vec<Member> = models.0.iter().map(member).collect();
    let (signature, handle) = Ensemble::new(ensemble, &members)
        .map_err(|problems| DeployError::Ensemble { endpoint: config.name.clone(), problems })?;
    let handle = handle.map(Handle::Ensemble);
    let shown = config.name.as_str().into();
    models.0.insert(0, Named { name: ENSEMBLE.into(), shown, signature, handle, others: Arc::default() });
    Ok(models)
}

pub(super) async fn read(config: &EndpointConfig, path: &Path) -> Result<Binary, DeployError> {
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
    let refused = |cause| config.refused_plugin(origin, cause);
    let grants = Grants::new(&config.capabilities, &config.view(metrics), sandbox.stores()).await;
    let handler = HandlerConfig {
        endpoint: config.name.as_str().into(),
        metadata: config.metadata.clone(),
        network: config.network,
        env: config.env.clone(),
        project: config.project.clone(),
        hidden: config.hidden.clone(),
        limits: config.limits.plugin.clone(),
        isolation: config.isolation,
        reuse_instances: config.reuse_instances,
        hides_credentials: !config.keys.is_empty(),
        key_headers: config.key_headers(),
        response_headers: config.response_headers.clone(),
        grants: grants.map_err(|why| refused(LoadError::Start(why)))?,
        schema: config.schema.clone(),
        instances: metrics.instances.clone(),
    };
    let loaded = Plugin::load(sandbox, binary, handler).await;
    loaded.map(Arc::new).map_err(refused)
}

/// All models of an endpoint, at start.
pub(super) async fn load_all(config: &EndpointConfig, catalog: &Catalog) -> Result<Models, DeployError> {
    let mut models = Models::default();
    for (name, model) in &config.models {
        let turn = catalog.turn().await;
        let (handle, others) = versions(catalog, model, config, &[])
            .await
            .map_err(|cause| DeployError::Model { endpoint: config.name.clone(), cause: cause.into() })?;
        drop(turn);
        let signature = handle.signature().clone();
        // The only one is the endpoint to its clients.
        let shown = if config.models.len() > 1 { name } else { &config.name };
        let (name, shown) = (name.as_str().into(), shown.as_str().into());
        models.0.push(Named { name, shown, signature, handle: Some(handle), others });
    }
    Ok(models)
}

/// The ways to a model: to the version that requests go to by themselves, and to the others that are served
/// beside it. Those of `known` that run the same stay.
///
/// # Errors
/// One cannot be loaded, or a handler would meet inputs and outputs that it was not written for.
pub(super) async fn versions(
    catalog: &Catalog,
    config: &ModelConfig,
    endpoint: &EndpointConfig,
    known: &[Handle],
) -> Result<(Handle, Arc<[Handle]>), ModelError> {
    let way = async |config: &ModelConfig| {
        let model = catalog.load(config).await?;
        let is_its = |handle: &&Handle| handle.model().is_some_and(|known| Arc::ptr_eq(known, &model));
        match known.iter().find(is_its) {
            Some(handle) => Ok(handle.clone()),
            None => open(model, config, endpoint).await.map(Handle::Model),
        }
    };
    let first = way(config).await?;
    let count = config.others;
    let failed = |reason| ModelError::Load { path: config.path.clone(), reason };
    let number = match first.model().and_then(|model| model.location().version) {
        _ if count == 0 && !config.watch => return Ok((first, Arc::default())),
        Some(number) => number,
        None => {
            let setting = if config.watch { "watch" } else { "versions" };
            let reason = format!("`{setting}` is set, but it is one model, not a folder of versions");
            return Err(failed(reason));
        }
    };
    let path = config.path.clone();
    let found = tokio::task::spawn_blocking(move || Location::others(&path, number, count));
    let found = found.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let mut others = Vec::new();
    for version in found {
        let other = way(&ModelConfig { version: Some(version), ..config.clone() }).await?;
        let mismatch = first.signature().mismatch(other.signature()).filter(|_| endpoint.plugin.is_some());
        if let Some(mismatch) = mismatch {
            return Err(failed(format!(
                "version {version} is not like version {number}, and the handler is for both: {mismatch}; hint: \
                 lower `versions`"
            )));
        }
        others.push(other);
    }
    Ok((first, others.into()))
}

/// A way to a loaded model. With batching, this runs the model on batches.
async fn open(
    model: Arc<Model>,
    config: &ModelConfig,
    endpoint: &EndpointConfig,
) -> Result<Arc<ModelHandle>, ModelError> {
    let (path, batching) = (model.location().path.clone(), endpoint.batching);
    let opened = tokio::task::spawn_blocking(move || model.handle(batching)).await;
    let handle = opened.map_err(|error| ModelError::Load { path, reason: error.to_string() })??;
    handle.with_state(&config.state, endpoint.limits.sequences).map(Arc::new)
}

impl Models {
    /// Whether a model is loaded here that is not loaded there.
    pub(super) fn holds_others_than(&self, there: &Models) -> bool {
        let pairs = self.0.iter().zip(&there.0);
        pairs.into_iter().any(|(here, there)| {
            here.handles().any(|handle| !there.handles().any(|other| handle.runs_those_of(other)))
        })
    }
}
