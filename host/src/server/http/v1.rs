//! Models as TensorFlow Serving, KServe's first protocol and Truss call them.
//!
//! | method and path | answered by |
//! |---|---|
//! | `GET /v1/models`, `/v1/models/{m}[/versions/{v}][/metadata]`, `/v1/models/{m}/loaded`, `/v1/models/{m}/schema` | here |
//! | `POST /v1/models/{m}[/versions/{v}]:predict`, `:predict_binary` | [`predict`] |
//! | `POST /v1/models/{m}[/versions/{v}]:classify`, `:regress` | [`examples`] |
//! | `OPTIONS` on all of them | [`cors`] |
//!
//! Place in the flow: between a connection and an endpoint. A path names its model and what is wanted of it
//! in one segment, so it is taken apart here, not by the router. Truss's clients call every model `model`; so
//! may those of a server with one. Every error leaves through [`refuse`], with the headers that Truss's
//! clients read.

mod examples;
mod path;
mod predict;
mod response;

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, options};
use serde_json::{Value, json};

use self::path::{ModelPath, Operation, V1, no_route, wrong_method};
use self::response::encode_error;
use super::{cors, error};
use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::server::compat::{openai, tf_serving, truss};
use crate::server::head::{Head, credentials, request_id};
use crate::server::models::Entry;
use crate::server::serve::Call;
use crate::server::served::Served;

/// Paths and their methods.
pub(super) fn methods(served: &Arc<Served>) -> [(&'static str, MethodRouter); 2] {
    let allowed = served.config.cors_allow_origin.is_some();
    let models = get(read).post(call).with_state(served.clone());
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
        Some(operation) if operation.is_call() => cors::preflight_of_calls(allowed, headers).await,
        _ => cors::preflight_of_reads(allowed, headers).await,
    }
}

/// `POST` on everything below `/v1/models`.
async fn call(State(served): State<Arc<Served>>, request: Request) -> Response {
    let (mut head, body) = Head::split(request);
    let call = Call::new(&served, head.id(), Instant::now());
    let path = head.parts.uri.path();
    let (entry, operation) = match ModelPath::of(path) {
        Some(path) if path.operation.is_call() => {
            (path.find(&served, credentials(head.headers())), path.operation)
        }
        Some(_) => {
            let mut response = encode_error(wrong_method(path, "POST"), &call, None);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            return response;
        }
        None => (Err(no_route(path)), Operation::Prediction),
    };
    let is_binary = predict::is_binary(head.headers());
    // The handler's body is JSON in any case.
    head.parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(predict::JSON));
    match operation {
        Operation::Examples(method) => examples::call(call, entry, method, head, body).await,
        _ => predict::predict(call, entry, is_binary, head, body).await,
    }
}

/// `GET /v1/models`.
async fn list(State(served): State<Arc<Served>>) -> Json<Value> {
    let names: Vec<String> = served.index(V1).into_iter().map(|entry| entry.name).collect();
    Json(match openai::list(&served) {
        None => json!({ "models": names }),
        Some(models) => json!({ "models": names, "object": "list", "data": models }),
    })
}

/// `GET` on everything below.
async fn read(State(served): State<Arc<Served>>, request: Request) -> Response {
    answer(&served, request.uri().path(), credentials(request.headers()))
        .await
        .map(|answer| Json(answer).into_response())
        .unwrap_or_else(|error| {
            let path = ModelPath::of(request.uri().path());
            let is_model = error.code == Code::NotFound
                && path.is_some_and(|path| path.operation == Operation::Status && path.version.is_none());
            let response = refuse(error, &served, &request);
            // Of a server that is asked by OpenAI's clients; the others look at the status alone.
            match is_model && openai::is_served(&served) {
                true => openai::put_in_form(openai::unknown_model(response)),
                false => response,
            }
        })
}

async fn answer(served: &Served, path: &str, credentials: Credentials<'_>) -> Result<Value, RequestError> {
    let model_path = ModelPath::of(path).ok_or_else(|| no_route(path))?;
    let entry = model_path.find(served, credentials)?;
    let name = &entry.name;
    if model_path.operation.is_call() {
        return Err(wrong_method(path, "GET"));
    }
    if model_path.operation != Operation::Schema {
        entry.check_loaded()?;
    }
    match model_path.operation {
        Operation::Status if served.drain.has_begun() => Err(RequestError::shutting_down(Stage::Admit)),
        Operation::Status if !served.says_ready(entry.endpoint).await => {
            let message = format!("model `{name}` is not ready");
            Err(RequestError::new(Code::NotReady, Stage::Admit, message))
        }
        Operation::Status | Operation::Prediction | Operation::Examples(_) => Ok(told(&entry)),
        Operation::Loaded => Ok(json!({})),
        Operation::Metadata => Ok(tf_serving::metadata(&entry)),
        Operation::Schema => match truss::schema(&entry.endpoint.current()) {
            Some(schema) => Ok(schema),
            None => Err(RequestError::new(Code::NotFound, Stage::Admit, "No schema found")),
        },
    }
}

/// One object for the clients of all: KServe's, TensorFlow Serving's, Truss's and OpenAI's.
fn told(entry: &Entry<'_>) -> Value {
    let mut told = tf_serving::ready(entry);
    if openai::is_answered_by(entry.endpoint)
        && let (Value::Object(told), Value::Object(described)) =
            (&mut told, openai::described(entry.endpoint))
    {
        told.extend(described);
    }
    told
}

/// Answers a request that reads. Only predictions are ever refused for their method.
fn refuse(error: RequestError, served: &Served, request: &Request) -> Response {
    let is_method = error.code == Code::MethodNotAllowed;
    let id = request_id(request.headers());
    let code = truss::code(error.code);
    let mut response = truss::marked(error::respond(error, &id, served, None, Instant::now()), code);
    if is_method {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("OPTIONS, POST"));
    }
    response
}
