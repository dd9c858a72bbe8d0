//! The operator's listener: health, metrics, what is deployed; behind a key of its own, if there is one.
//!
//! Place in the flow: beside it, on a thread and runtime of its own, so that it answers while every worker is busy.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /healthz`, `/v2/health/live`, `/v2/health/ready`, `/metrics` | as on the main listener |
//! | `/v2/…`, but for inference | as on the main listener; orders to load and unload are always taken |
//! | `GET /admin/v1/endpoints` | every endpoint: generation, digest, models, last swap and why it was refused |
//! | `POST /admin/v1/endpoints/{endpoint}/models/{model}/load` | the model as its files are now, `?version=N` of a folder of versions; new before old |
//! | `POST /admin/v1/endpoints/{endpoint}/models/{model}/unload` | requests for it are refused from now on |

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Served;
use super::front::Front;
use super::http::{Operator, Site, health, loading, method_not_allowed, not_found, presented, refuse, v2};
use super::listen::{self, Edge, Limits};
use crate::deploy::Endpoint;
use crate::deploy::swap::DeployError;
use crate::error::Code;
use crate::pipeline::models::Named;

/// Connections of operators and their tools: enough for all, and few beside those of the endpoints.
const MAX_CONNECTIONS: usize = 256;

/// Serves the admin listener on its own thread until `stop` is dropped or sent: whoever asks during the start or the drain
/// gets an answer.
///
/// # Errors
/// The operating system refuses a thread, a runtime or the socket.
pub fn spawn(
    listener: std::net::TcpListener,
    front: Arc<Front>,
    edge: Edge,
    stop: oneshot::Receiver<()>,
) -> std::io::Result<JoinHandle<()>> {
    let limits = Limits { max_connections: MAX_CONNECTIONS, ..(*edge.limits).clone() };
    let edge = Edge { limits: Arc::new(limits), ..edge };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let listener = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => listener,
                Err(error) => return tracing::error!("cannot serve the admin listener: {error}"),
            };
            tokio::select! {
                () = listen::serve(listener, front, listen::Drain::default(), edge) => {}
                // Sent or dropped: both mean stop.
                _ = stop => {}
            }
        });
    })
}

/// What it answers while everything is loading.
pub fn loading(served: &Arc<Served>) -> Site {
    guarded(loading::router(Router::new(), served, true), served)
}

/// What it answers from then on.
pub fn site(served: &Arc<Served>) -> Site {
    guarded(router(served), served)
}

/// The site, behind the operator's key. Whoever watches the process needs none to see that it is alive and ready.
fn guarded(router: Router<Arc<Served>>, served: &Arc<Served>) -> Site {
    let guard = async |State(served): State<Arc<Served>>, mut request: Request, next: Next| {
        let path = request.uri().path();
        let is_open = path == health::READY || health::LIVE.contains(&path);
        if is_open || served.config.admin_keys.admit(presented(request.headers())) {
            request.extensions_mut().insert(Operator);
            return next.run(request).await;
        }
        let message = "the administration wants a key: send `authorization: Bearer KEY`";
        refuse(Code::Unauthorized, message.to_owned(), &served, &request)
    };
    let router = router.layer(middleware::from_fn_with_state(served.clone(), guard));
    Site::of(router.with_state(served.clone()))
}

fn router(served: &Arc<Served>) -> Router<Arc<Served>> {
    let mut router = Router::new();
    for (path, methods) in health::methods(served, true) {
        router = router.route(path, methods.with_state(()));
    }
    router
        .merge(v2::router(v2::Orders::Taken))
        .route("/admin/v1/endpoints", get(endpoints))
        .route("/admin/v1/endpoints/{endpoint}/models/{model}/load", post(load_model))
        .route("/admin/v1/endpoints/{endpoint}/models/{model}/unload", post(unload_model))
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
}

async fn endpoints(State(served): State<Arc<Served>>) -> impl IntoResponse {
    let mut answer: Vec<Value> = Vec::with_capacity(served.endpoints.len());
    for endpoint in &served.endpoints {
        let current = endpoint.current();
        let published = current.published.duration_since(SystemTime::UNIX_EPOCH);
        answer.push(json!({
            "name": endpoint.config.name,
            "path": endpoint.config.path,
            "generation": current.number,
            "digest": current.digest,
            "published": published.map_or(0, |since| since.as_secs()),
            "models": current.models().0.iter().map(model).collect::<Vec<_>>(),
            "last_swap": endpoint.last_swap(),
        }));
    }
    Json(json!({ "endpoints": answer }))
}

fn model(named: &Named) -> Value {
    let loaded = named.lane.as_ref().map(|lane| lane.model());
    json!({
        "name": named.name,
        "loaded": loaded.is_some(),
        "version": loaded.and_then(|model| model.location().version),
        "device": loaded.map(|model| model.device().to_string()),
        "instances": loaded.map(|model| model.instances()),
        "max_batch": named.lane.as_ref().map(|lane| lane.batching().max_batch),
    })
}

/// What an order may say beside its path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadQuery {
    version: Option<u64>,
}

async fn load_model(
    State(served): State<Arc<Served>>,
    Path((endpoint, model)): Path<(String, String)>,
    query: Result<Query<LoadQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = from_a_page(&headers) {
        return refusal;
    }
    let query = match query {
        Ok(Query(query)) => query,
        Err(error) => return refused(StatusCode::BAD_REQUEST, "invalid_input", error.body_text()),
    };
    match find(&served, &endpoint) {
        Some(endpoint) => ordered(endpoint.load_model(&model, query.version).await, "loaded"),
        None => no_such_endpoint(&endpoint),
    }
}

async fn unload_model(
    State(served): State<Arc<Served>>,
    Path((endpoint, model)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = from_a_page(&headers) {
        return refusal;
    }
    match find(&served, &endpoint) {
        Some(endpoint) => ordered(endpoint.unload_model(&model).await, "unloaded"),
        None => no_such_endpoint(&endpoint),
    }
}

/// Refuses an order that a web page gave. A browser sends a plain POST to any address its user can reach, loopback included,
/// and says with every one where the page came from; the operator's tools do not.
pub(super) fn from_a_page(headers: &HeaderMap) -> Option<Response> {
    let text = "orders from web pages are not taken".to_owned();
    headers.contains_key(ORIGIN).then(|| refused(StatusCode::FORBIDDEN, "forbidden", text))
}

fn find<'a>(served: &'a Served, name: &str) -> Option<&'a Endpoint> {
    served.endpoints.iter().find(|endpoint| endpoint.config.name == name).map(|endpoint| &**endpoint)
}

fn no_such_endpoint(name: &str) -> Response {
    refused(StatusCode::NOT_FOUND, "not_found", format!("there is no endpoint `{name}`"))
}

/// The answer to an order: what it did, or why nothing was done. The texts are for the operator.
fn ordered(outcome: Result<bool, DeployError>, done: &str) -> Response {
    match outcome {
        Ok(changed) => Json(json!({ "outcome": if changed { done } else { "unchanged" } })).into_response(),
        Err(error @ DeployError::NoSuchModel { .. }) => {
            refused(StatusCode::NOT_FOUND, "not_found", error.to_string())
        }
        Err(error) => {
            tracing::error!("order of the operator refused: {error}");
            refused(StatusCode::CONFLICT, "refused", error.to_string())
        }
    }
}

fn refused(status: StatusCode, code: &str, error: String) -> Response {
    (status, Json(json!({ "error": error, "code": code }))).into_response()
}
