//! Models as TensorFlow Serving, KServe's first protocol and Truss call them.
//!
//! | method and path | answered by |
//! |---|---|
//! | `GET /v1/models`, `/v1/models/{m}[/versions/{v}][/metadata]`, `/v1/models/{m}/loaded`, `/v1/models/{m}/schema` | here |
//! | `POST /v1/models/{m}[/versions/{v}]:predict`, `:predict_binary` | [`predict`] |
//! | `OPTIONS` on all of them | [`cors`] |
//!
//! Place in the flow: between a connection and an endpoint. A path names its model and what is wanted of it in one segment,
//! so it is taken apart here, not by the router. Truss's clients call every model `model`; so may those of a server with one.
//! Every error leaves through [`refuse`], with the headers that Truss's clients read.

mod predict;
mod pydantic_messages;

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, options};
use serde_json::{Map, Value, json};

use super::{call, cors, error};
use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::request::Protocol;
use crate::server::models::{Entry, TensorMetadata};
use crate::server::{Served, status};
use crate::tensor::Datatype;

/// The name by which Truss's clients call every model.
const ANY: &str = "model";
/// Which part of a system an error comes from, in Truss's numbering: the model's own server.
const X_BASETEN_ERROR_SOURCE: HeaderName = HeaderName::from_static("x-baseten-error-source");
const SOURCE: HeaderValue = HeaderValue::from_static("04");
const X_BASETEN_ERROR_CODE: HeaderName = HeaderName::from_static("x-baseten-error-code");

/// Paths and their methods.
pub(super) fn methods(served: &Arc<Served>) -> [(&'static str, MethodRouter); 2] {
    let allowed = served.config.cors_allow_origin.is_some();
    let models = get(read).post(predict::predict).with_state(served.clone());
    let preflight_of_list = options(cors::preflight_of_reads).with_state(allowed);
    [
        ("/v1/models", get(list).with_state(served.clone()).merge(preflight_of_list)),
        ("/v1/models/{*rest}", models.merge(options(preflight).with_state(allowed))),
    ]
}

/// `OPTIONS` on everything below `/v1/models`.
async fn preflight(allowed: State<bool>, request: Request) -> Response {
    let headers = request.headers().clone();
    match ModelPath::of(request.uri().path()).map(|path| path.operation) {
        Some(Operation::Prediction) => cors::preflight_of_calls(allowed, headers).await,
        _ => cors::preflight_of_reads(allowed, headers).await,
    }
}

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
struct ModelPath<'a> {
    model: &'a str,
    version: Option<&'a str>,
    operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Status,
    Metadata,
    Loaded,
    Schema,
    Prediction,
}

impl ModelPath<'_> {
    fn of(path: &str) -> Option<ModelPath<'_>> {
        let path = path.strip_prefix("/v1/models/")?;
        let (path, verb) = path.rsplit_once(':').map_or((path, None), |(path, verb)| (path, Some(verb)));
        let segments: Vec<&str> = path.split('/').collect();
        let (model, version, rest) = match segments.as_slice() {
            [model, "versions", version, rest @ ..] => (*model, Some(*version), rest),
            [model, rest @ ..] => (*model, None, rest),
            [] => return None,
        };
        let operation = match (rest, verb) {
            ([], None) => Operation::Status,
            ([], Some("predict" | "predict_binary")) => Operation::Prediction,
            (["metadata"], None) => Operation::Metadata,
            (["loaded"], None) if version.is_none() => Operation::Loaded,
            (["schema"], None) if version.is_none() => Operation::Schema,
            _ => return None,
        };
        Some(ModelPath { model, version, operation })
    }

    /// The model it names.
    fn find<'s>(&self, served: &'s Served, credentials: Credentials<'_>) -> Result<Entry<'s>, RequestError> {
        let found = served.model(self.model, self.version, credentials, V1);
        found.or_else(|unknown| match &*served.endpoints {
            [only] if self.model == ANY => served.model(&only.config.name, self.version, credentials, V1),
            _ => Err(unknown),
        })
    }
}

/// How models are looked for.
const V1: Option<Protocol> = Some(Protocol::V1);

/// `GET /v1/models`.
async fn list(State(served): State<Arc<Served>>) -> Json<Value> {
    let names: Vec<String> = served.index(V1).into_iter().map(|entry| entry.name).collect();
    Json(json!({ "models": names }))
}

/// `GET` on everything below.
async fn read(State(served): State<Arc<Served>>, request: Request) -> Response {
    answer(&served, request.uri().path(), call::credentials(request.headers()))
        .map(|answer| Json(answer).into_response())
        .unwrap_or_else(|error| refuse(error, &served, &request))
}

fn answer(served: &Served, path: &str, credentials: Credentials<'_>) -> Result<Value, RequestError> {
    let model_path = ModelPath::of(path).ok_or_else(|| no_route(path))?;
    let entry = model_path.find(served, credentials)?;
    let name = &entry.name;
    if model_path.operation == Operation::Prediction {
        return Err(wrong_method(path, "GET"));
    }
    if model_path.operation != Operation::Schema && !entry.is_ready() {
        let message = format!("model `{name}` is not loaded");
        return Err(RequestError::new(Code::ModelUnloaded, Stage::Admit, message));
    }
    match model_path.operation {
        Operation::Status if served.drain.has_begun() => {
            Err(RequestError::new(Code::ShuttingDown, Stage::Admit, "the server is shutting down"))
        }
        Operation::Status | Operation::Prediction => Ok(ready(&entry)),
        Operation::Loaded => Ok(json!({})),
        Operation::Metadata => Ok(metadata(&entry)),
        Operation::Schema => match entry.endpoint.current().schema() {
            Some(schema) => Ok(json!({
                "input_schema": schema.json_schema(), "output_schema": null, "supports_streaming": false,
            })),
            None => Err(RequestError::new(Code::NotFound, Stage::Admit, "No schema found")),
        },
    }
}

/// One object for all three: KServe reads `name` and `ready`, TensorFlow Serving's clients the rest, Truss's the status code.
fn ready(entry: &Entry<'_>) -> Value {
    let version = json!({
        "version": entry.version(), "state": "AVAILABLE", "status": { "error_code": "OK", "error_message": "" },
    });
    json!({ "name": entry.name, "ready": true, "model_version_status": [version] })
}

/// As TensorFlow Serving tells it.
fn metadata(entry: &Entry<'_>) -> Value {
    let metadata = entry.metadata();
    let key = entry.signature_key();
    let tensors =
        |tensors: &[TensorMetadata]| Value::Object(tensors.iter().map(tensor).collect::<Map<_, _>>());
    let signature = json!({
        "inputs": tensors(&metadata.inputs), "outputs": tensors(&metadata.outputs),
        "method_name": "tensorflow/serving/predict",
    });
    json!({
        "model_spec": { "name": metadata.name, "signature_name": "", "version": entry.version() },
        "metadata": { "signature_def": { "signature_def": { key: signature } } },
    })
}

fn tensor(tensor: &TensorMetadata) -> (String, Value) {
    let extent = |extent: &i64| json!({ "size": extent.to_string(), "name": "" });
    let extents: Vec<Value> = tensor.shape.iter().map(extent).collect();
    let told = json!({
        "name": tensor.name, "dtype": dtype(tensor.datatype),
        "tensor_shape": { "dim": extents, "unknown_rank": false },
    });
    (tensor.name.clone(), told)
}

fn dtype(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Bool => "DT_BOOL",
        Datatype::Uint8 => "DT_UINT8",
        Datatype::Uint16 => "DT_UINT16",
        Datatype::Uint32 => "DT_UINT32",
        Datatype::Uint64 => "DT_UINT64",
        Datatype::Int8 => "DT_INT8",
        Datatype::Int16 => "DT_INT16",
        Datatype::Int32 => "DT_INT32",
        Datatype::Int64 => "DT_INT64",
        Datatype::Fp16 => "DT_HALF",
        Datatype::Bf16 => "DT_BFLOAT16",
        Datatype::Fp32 => "DT_FLOAT",
        Datatype::Fp64 => "DT_DOUBLE",
        Datatype::Bytes => "DT_STRING",
    }
}

fn no_route(path: &str) -> RequestError {
    RequestError::new(Code::NotFound, Stage::Admit, format!("no endpoint at `{path}`"))
}

fn wrong_method(path: &str, method: &str) -> RequestError {
    let message = format!("`{path}` does not answer `{method}`");
    RequestError::new(Code::MethodNotAllowed, Stage::Admit, message)
}

/// Answers a request that reads. Only predictions are ever refused for their method.
fn refuse(error: RequestError, served: &Served, request: &Request) -> Response {
    let is_method = error.code == Code::MethodNotAllowed;
    let id = call::request_id(request.headers());
    let truss = status::truss(error.code);
    let mut response = marked(error::respond(error, &id, served, None, Instant::now()), truss);
    if is_method {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("OPTIONS, POST"));
    }
    response
}

/// `response` with Truss's headers of an error.
fn marked(mut response: Response, code: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_BASETEN_ERROR_SOURCE, SOURCE);
    headers.insert(X_BASETEN_ERROR_CODE, HeaderValue::from_static(code));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let shown = |path: &str| {
            ModelPath::of(path)
                .map(|path| format!("{} {} {:?}", path.model, path.version.unwrap_or("-"), path.operation))
        };
        for (path, expected) in [
            ("m", Some("m - Status")),
            ("m/versions/2", Some("m 2 Status")),
            ("m/metadata", Some("m - Metadata")),
            ("m/versions/2/metadata", Some("m 2 Metadata")),
            ("m/loaded", Some("m - Loaded")),
            ("m/schema", Some("m - Schema")),
            ("m:predict", Some("m - Prediction")),
            ("m:predict_binary", Some("m - Prediction")),
            ("a.b-c/versions/2:predict", Some("a.b-c 2 Prediction")),
            ("m:classify", None),
            ("m:", None),
            ("m/", None),
            ("m/x", None),
            ("m/versions", None),
            ("m/versions/2/loaded", None),
            ("m/loaded:predict", None),
        ] {
            assert_eq!(shown(&format!("/v1/models/{path}")).as_deref(), expected, "{path}");
        }
    }
}
