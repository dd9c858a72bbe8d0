//! What clients of the Open Inference Protocol can learn: of the server, of models, of what was asked of
//! them.
//!
//! Place in the flow: beside it; reads, runs nothing.
//! Out: JSON as the protocol and Triton's extensions have it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::model_request::ModelRequest;
use crate::error::{Code, RequestError, Stage};
use crate::server::models::{CacheFigures, Entry, Metadata, Statistics, TensorMetadata, Timing};
use crate::server::served::Served;
use crate::tensor::Datatype;

/// `GET /v2`.
pub(super) async fn server(State(served): State<Arc<Served>>) -> Json<Value> {
    let extensions: Vec<&str> = served.extensions().collect();
    Json(json!({ "name": "modelhost", "version": env!("CARGO_PKG_VERSION"), "extensions": extensions }))
}

/// `GET /v2/models/{model}`.
pub(super) async fn model(request: ModelRequest) -> Response {
    request.answer(metadata(&request).map(|model| {
        let tensors = |tensors: &[TensorMetadata]| -> Vec<Value> {
            let tensor = |tensor: &TensorMetadata| {
                json!({ "name": tensor.name, "datatype": tensor.datatype.name(), "shape": tensor.shape })
            };
            tensors.iter().map(tensor).collect()
        };
        Json(json!({
            "name": model.name,
            "versions": model.versions,
            "platform": model.platform,
            "inputs": tensors(&model.inputs),
            "outputs": tensors(&model.outputs),
        }))
        .into_response()
    }))
}

/// `GET /v2/models/{model}/ready`.
pub(super) async fn ready(request: ModelRequest) -> Response {
    let outcome = readiness(&request).await;
    request.answer(outcome)
}

async fn readiness(request: &ModelRequest) -> Result<Response, RequestError> {
    let entry = request.entry()?;
    let says = request.served.says_ready(entry.endpoint).await;
    let ready = says && entry.is_ready() && !request.served.drain.has_begun();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(json!({ "name": entry.name, "ready": ready }))).into_response())
}

/// `GET /v2/models/{model}/config`.
pub(super) async fn config(request: ModelRequest) -> Response {
    request.answer(metadata(&request).map(|model| Json(configuration(&model)).into_response()))
}

/// `GET /v2/models/{model}/stats`.
pub(super) async fn statistics(request: ModelRequest) -> Response {
    request.answer(request.entry().map(|entry| all([entry])))
}

/// `GET /v2/models/stats`.
pub(super) async fn all_statistics(request: ModelRequest) -> Response {
    request.answer(Ok(all(request.served.models(request.protocol()))))
}

/// Of a model that is loaded: what another one will take is unknown until it is loaded again.
fn metadata(request: &ModelRequest) -> Result<Metadata, RequestError> {
    let entry = request.entry()?;
    if !entry.is_ready() {
        let message = format!("model `{}` is not loaded", entry.name);
        return Err(RequestError::new(Code::ModelUnloaded, Stage::Admit, message));
    }
    Ok(entry.metadata())
}

/// The model as Triton's `config.pbtxt` would describe it. Of a model that takes batches, `dims` leave the
/// first extent out.
fn configuration(model: &Metadata) -> Value {
    let batched = model.max_batch > 0;
    let tensors = |tensors: &[TensorMetadata]| -> Vec<Value> {
        let tensor = |tensor: &TensorMetadata| {
            let dims = tensor.shape.get(usize::from(batched)..).unwrap_or_default();
            let mut described =
                json!({ "name": tensor.name, "data_type": data_type(tensor.datatype), "dims": dims });
            if let (true, Some(described)) = (tensor.optional, described.as_object_mut()) {
                described.insert("optional".to_owned(), true.into());
            }
            described
        };
        tensors.iter().map(tensor).collect()
    };
    let mut group = json!({ "name": model.name, "count": model.instances, "kind": "KIND_CPU" });
    if let (Some(gpu), Some(group)) = (model.gpu, group.as_object_mut()) {
        group.insert("kind".to_owned(), "KIND_GPU".into());
        group.insert("gpus".to_owned(), json!([gpu]));
    }
    let mut config = json!({
        "name": model.name,
        "platform": model.platform,
        "backend": model.platform.split('_').next(),
        "version_policy": { "latest": { "num_versions": model.versions.len() } },
        "max_batch_size": model.max_batch,
        "input": tensors(&model.inputs),
        "output": tensors(&model.outputs),
        "instance_group": [group],
        "model_transaction_policy": { "decoupled": false },
    });
    let scheduling = match &model.sequences {
        Some((idle, states)) => {
            let state = |(from, to): &(TensorMetadata, TensorMetadata)| {
                json!({
                    "input_name": to.name,
                    "output_name": from.name,
                    "data_type": data_type(to.datatype),
                    "dims": to.shape.get(usize::from(batched)..).unwrap_or_default(),
                })
            };
            let state: Vec<Value> = states.iter().map(state).collect();
            let batching = json!({ "max_sequence_idle_microseconds": idle, "state": state });
            Some(("sequence_batching", batching))
        }
        None if batched => Some(("dynamic_batching", json!({}))),
        None => None,
    };
    if let (Some((name, scheduling)), Some(config)) = (scheduling, config.as_object_mut()) {
        config.insert(name.to_owned(), scheduling);
    }
    config
}

/// A datatype's name in a model configuration.
fn data_type(datatype: Datatype) -> String {
    match datatype {
        Datatype::Bytes => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{other}"),
    }
}

fn all<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Response {
    let entry = |entry: Entry<'_>| figures(&entry.name, &entry.version(), entry.statistics(), entry.cache());
    Json(json!({ "model_stats": entries.into_iter().map(entry).collect::<Vec<_>>() })).into_response()
}

fn figures(name: &str, version: &str, figures: Statistics, cache: CacheFigures) -> Value {
    let timing = |timing: Timing| json!({ "count": timing.count, "ns": timing.ns });
    json!({
        "name": name,
        "version": version,
        "last_inference": figures.last_inference,
        "inference_count": figures.inference_count,
        "execution_count": figures.execution_count,
        "inference_stats": {
            "success": timing(figures.success),
            "fail": timing(figures.fail),
            "queue": timing(figures.queue),
            "compute_input": timing(figures.compute_input),
            "compute_infer": timing(figures.compute_infer),
            "compute_output": timing(figures.compute_output),
            "cache_hit": timing(cache.hits),
            "cache_miss": timing(cache.misses),
        },
        "batch_stats": [],
        "memory_usage": [],
    })
}
