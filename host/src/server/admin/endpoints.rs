//! Orders about endpoints: what is deployed, and what is to be deployed instead.
//!
//! Place in the flow: routes of the admin listener. In: an order of the operator. Out: what it did, or why
//! nothing was done.
//! Invariants: an order runs on the runtime of the requests, not on this listener's, which
//! answers meanwhile; one that was taken is carried out even if its client hangs up; no order is taken from a
//! web page but the operator's own.

#![expect(clippy::result_large_err, reason = "an order is rare, and its refusal is the answer")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{ETAG, IF_MATCH, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::parameters::{self, Forms, OrderParams, Pairs, invalid, no_parameters};
use super::timelines::Timelines;
use crate::arrivals::BodyRate;
use crate::capture::samples::Samples;
use crate::endpoint::generation::Generation;
use crate::error::{Code, SHUTTING_DOWN};
use crate::memory::Account;
use crate::pipeline::models::{Handle, Named};
use crate::plugin::Binary;
use crate::rollout::deploy_request::{DeployOutcome, DeployRequest, GenerationChange};
use crate::rollout::deployment::Deployment;
use crate::rollout::error::DeployError;
use crate::rollout::history::Origin;
use crate::server::body::{Bounds, read_body};
use crate::server::browser::{not_from_a_page, refused};
use crate::server::head::credentials;
use crate::server::served::Served;
use crate::server::status;
use crate::text::{on_one_line, shown};
use crate::time::{milliseconds_of, unix_seconds};

/// An answer, or the refusal that stands in its place.
pub(super) type Answer = Result<Response, Response>;

pub(super) fn router() -> Router<Arc<Served>> {
    Router::new()
        .route("/admin/v1/endpoints", get(list))
        .route("/admin/v1/endpoints/{endpoint}", get(show))
        .route("/admin/v1/endpoints/{endpoint}/timeline", get(timeline))
        .route("/admin/v1/endpoints/{endpoint}/plugin", put(swap))
        .route("/admin/v1/endpoints/{endpoint}/reload", post(reload))
        .route("/admin/v1/endpoints/{endpoint}/rollback", post(rollback))
        .route("/admin/v1/endpoints/{endpoint}/models/{model}/load", post(load_model))
        .route("/admin/v1/endpoints/{endpoint}/models/{model}/unload", post(unload_model))
}

async fn list(
    State(served): State<Arc<Served>>,
    Extension(timelines): Extension<Arc<Timelines>>,
    query: Pairs,
) -> Answer {
    no_parameters(query)?;
    let describe = |endpoint: &Arc<Deployment>| describe(endpoint, &timelines);
    let endpoints: Vec<Value> = served.endpoints.iter().map(describe).collect();
    Ok(Json(json!({ "endpoints": endpoints })).into_response())
}

async fn show(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    Extension(timelines): Extension<Arc<Timelines>>,
    query: Pairs,
) -> Answer {
    no_parameters(query)?;
    let endpoint = find(&served, &name)?;
    let mut answer = describe(&endpoint, &timelines);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("history".to_owned(), json!(endpoint.history.all()));
    }
    Ok(with_etag(Json(answer).into_response(), endpoint.current().digest.as_deref()))
}

async fn timeline(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    Extension(timelines): Extension<Arc<Timelines>>,
    query: Pairs,
) -> Answer {
    no_parameters(query)?;
    let endpoint = find(&served, &name)?;
    Ok(Json(timelines.of(&endpoint.config.name)).into_response())
}

fn describe(endpoint: &Deployment, timelines: &Timelines) -> Value {
    let current = endpoint.current();
    json!({
        "name": endpoint.config.name,
        "path": endpoint.config.path,
        "generation": current.number,
        "digest": current.digest,
        "published": unix_seconds(current.published),
        "models": models(&current),
        "previous": endpoint.previous().map(|previous| json!({
            "generation": previous.number,
            "digest": previous.digest,
            "models": models(&previous),
        })),
        "breaker": current.breaker_state(),
        "requests": requests(endpoint),
        "recent": timelines.recent(&endpoint.config.name),
        "instances": endpoint.metrics.instances.alive(),
        "memory_bytes": endpoint.metrics.memory.get(),
        "trial": endpoint.trial().map(|trial| json!({
            "mode": trial.spec.mode.name(),
            "share": trial.share(),
            "digest": trial.digest(),
        })),
        "last_swap": endpoint.history.last_swap(),
        "gate_samples": endpoint.samples.as_ref().map(Samples::kept),
    })
}

/// The requests since the start of the process, and those that there are now.
fn requests(endpoint: &Deployment) -> Value {
    endpoint.refresh_metrics();
    let totals = endpoint.metrics.totals();
    let ended = endpoint.metrics.statistics().success;
    json!({
        "answered": totals.answered,
        "refused": totals.refused,
        "failed": totals.failed,
        "mean_ms": milliseconds_of(ended.ns) / ended.count.max(1) as f64,
        "in_flight": endpoint.metrics.in_flight.get(),
        "queued": endpoint.metrics.queued.get(),
    })
}

fn models(generation: &Generation) -> Vec<Value> {
    generation.models().0.iter().map(model).collect()
}

fn model(named: &Named) -> Value {
    let loaded = named.handle.as_ref().and_then(Handle::model);
    json!({
        "name": named.name,
        "loaded": named.handle.is_some(),
        "version": loaded.and_then(|model| model.location().version),
        "other_versions": named.others.iter().map(Handle::version).collect::<Vec<_>>(),
        "device": loaded.map(|model| model.device().to_string()),
        "instances": loaded.map(|model| model.sessions()),
        "max_batch": named.handle.as_ref().map(Handle::max_batch),
    })
}

/// The common part of the routes for swaps: is it an order, whom is it for, what does it say?
pub(super) struct AdminCommand {
    pub endpoint: Arc<Deployment>,
    pub params: OrderParams,
    pub order: DeployRequest,
}

impl AdminCommand {
    /// Reads an order whose route has the parameters `forms`.
    pub(super) fn parse(
        served: &Served,
        name: &str,
        (query, forms): (Pairs, Forms),
        headers: &HeaderMap,
        origin: Origin,
    ) -> Result<AdminCommand, Response> {
        not_from_a_page(headers)?;
        let params = OrderParams::parse(query, forms)?;
        let endpoint = find(served, name)?;
        let order = DeployRequest {
            origin,
            by: ordered_by(served, headers),
            note: params.note.clone(),
            expected: expected(headers),
            gate: params.gate.clone(),
        };
        Ok(AdminCommand { endpoint, params, order })
    }
}

/// The name of the key that an order came with.
pub(super) fn ordered_by(served: &Served, headers: &HeaderMap) -> Option<Arc<str>> {
    served.config.admin_keys.name(|| credentials(headers))
}

/// The digest that the current handler is to have, by `If-Match`.
pub(super) fn expected(headers: &HeaderMap) -> Option<String> {
    // What is no text is no handler's digest either.
    let tag = String::from_utf8_lossy(headers.get(IF_MATCH)?.as_bytes());
    (tag.trim() != "*").then(|| tag.trim().trim_matches('"').to_owned())
}

/// The components that are being sent. Few are read at a time, in order; the clients of the others wait to
/// send theirs, so what has arrived is bounded, and one that comes too slowly makes way.
pub(super) struct Uploads {
    reading: Semaphore,
    /// Those that are read, and those that wait.
    places: Semaphore,
}

impl Uploads {
    const READ: usize = 4;
    const PLACES: usize = 64;
    /// How long one waits for its turn, and how long it may take.
    const WAIT: Duration = Duration::from_secs(60);
    const TIME: Duration = Duration::from_secs(600);
    const BODY_RATE: BodyRate = BodyRate { timeout: Duration::from_secs(10), rate: 64 << 10 };

    pub(super) fn new() -> Uploads {
        Uploads { reading: Semaphore::new(Uploads::READ), places: Semaphore::new(Uploads::PLACES) }
    }

    /// The component in a body.
    pub(super) async fn component(&self, body: Body) -> Result<Bytes, Response> {
        self.body(body, Binary::LARGEST).await
    }

    /// A body of at most `longest` bytes.
    pub(super) async fn body(&self, body: Body, longest: usize) -> Result<Bytes, Response> {
        let busy = || {
            let text = "too many components are being sent; try again in a moment".to_owned();
            let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, "overloaded", text);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        };
        let _place = self.places.try_acquire().map_err(|_| busy())?;
        let turn = tokio::time::timeout(Uploads::WAIT, self.reading.acquire()).await;
        let _turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let arrived = Instant::now();
        let deadline = arrived + Uploads::TIME;
        let bounds =
            Bounds { longest, body_rate: Uploads::BODY_RATE, arrived, deadline, memory: Account::default() };
        match read_body(body, bounds).await {
            Ok(Some(component)) => Ok(component),
            Ok(None) => Err(invalid("the body broke off".to_owned())),
            Err(error) => Err(refused(status::of(error.code).0, error.code.name(), error.message.clone())),
        }
    }
}

async fn swap(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    Extension(uploads): Extension<Arc<Uploads>>,
    request: Request,
) -> Answer {
    let headers = request.headers().clone();
    not_from_a_page(&headers)?;
    // Before anything is found wrong with the order: a client that sends megabytes sees an answer only when
    // they are taken.
    let component = uploads.component(request.into_body()).await?;
    let AdminCommand { endpoint, params, order } =
        AdminCommand::parse(&served, &name, (query, parameters::OF_A_SWAP), &headers, Origin::Admin)?;
    carry_out(&served, async move {
        let component = Some(Binary::new(component));
        let change = GenerationChange { component, models: params.models, persist: params.persist };
        endpoint.swap(change, &order).await
    })
    .await
}

async fn reload(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Answer {
    let AdminCommand { endpoint, params, order } =
        AdminCommand::parse(&served, &name, (query, parameters::OF_A_RELOAD), &headers, Origin::Admin)?;
    carry_out(&served, async move {
        match params.models.is_empty() {
            true => endpoint.reload(&order).await,
            false => {
                endpoint
                    .swap(GenerationChange { models: params.models, ..GenerationChange::default() }, &order)
                    .await
            }
        }
    })
    .await
}

async fn rollback(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
    query: Pairs,
    headers: HeaderMap,
) -> Answer {
    let query = (query, parameters::ONLY_A_NOTE);
    let AdminCommand { endpoint, order, .. } =
        AdminCommand::parse(&served, &name, query, &headers, Origin::Rollback)?;
    carry_out(&served, async move { endpoint.rollback(&order).await }).await
}

async fn load_model(
    State(served): State<Arc<Served>>,
    Path((endpoint, model)): Path<(String, String)>,
    query: Pairs,
    headers: HeaderMap,
) -> Answer {
    let query = (query, parameters::OF_A_LOAD);
    let AdminCommand { endpoint, params, order } =
        AdminCommand::parse(&served, &endpoint, query, &headers, Origin::Admin)?;
    let loading = async move { endpoint.load_model(&model, params.version, &order).await };
    named(carry_out_raw(&served, loading).await?, "loaded")
}

async fn unload_model(
    State(served): State<Arc<Served>>,
    Path((endpoint, model)): Path<(String, String)>,
    query: Pairs,
    headers: HeaderMap,
) -> Answer {
    let query = (query, parameters::NONE);
    let AdminCommand { endpoint, order, .. } =
        AdminCommand::parse(&served, &endpoint, query, &headers, Origin::Admin)?;
    let unloading = async move { endpoint.unload_model(&model, &order).await };
    named(carry_out_raw(&served, unloading).await?, "unloaded")
}

/// Why an order was not carried out.
pub(super) enum Refusal {
    Deploy(DeployError),
    /// The process goes away.
    ShuttingDown,
    /// A defect of this host.
    Lost,
}

impl From<DeployError> for Refusal {
    fn from(error: DeployError) -> Refusal {
        Refusal::Deploy(error)
    }
}

/// Carries an order out to its end, also if its request is dropped.
pub(super) async fn carry_out_raw<T: Send + 'static>(
    served: &Served,
    order: impl Future<Output = Result<T, DeployError>> + Send + 'static,
) -> Result<T, Refusal> {
    match served.orders.spawn(&served.runtime, order).ok_or(Refusal::ShuttingDown)?.await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(Refusal::Lost),
    }
}

pub(super) async fn carry_out(
    served: &Served,
    order: impl Future<Output = Result<DeployOutcome, DeployError>> + Send + 'static,
) -> Answer {
    let swapped = carry_out_raw(served, order).await?;
    let digest = swapped.digest.clone();
    Ok(with_etag(Json(swapped).into_response(), digest.as_deref()))
}

/// The answer to an order whose outcome is called `done` where a new generation serves.
fn named(swapped: DeployOutcome, done: &str) -> Answer {
    let outcome = if swapped.is_new() { done } else { swapped.outcome };
    Ok(Json(json!({ "outcome": outcome, "generation": swapped.generation })).into_response())
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Response {
        refusal.into_response()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = match self {
            Refusal::Deploy(error) => error,
            Refusal::ShuttingDown => {
                let code = Code::ShuttingDown.name();
                let refusal = refused(StatusCode::SERVICE_UNAVAILABLE, code, SHUTTING_DOWN.to_owned());
                return ([(RETRY_AFTER, "1")], refusal).into_response();
            }
            Refusal::Lost => {
                let text = "the order came to no end; the log says why".to_owned();
                return refused(StatusCode::INTERNAL_SERVER_ERROR, "internal", text);
            }
        };
        let (status, code) = match &error {
            DeployError::NoSuchModel { .. } | DeployError::NoCandidate { .. } => {
                (StatusCode::NOT_FOUND, "not_found")
            }
            DeployError::Expected { .. } => (StatusCode::PRECONDITION_FAILED, "precondition_failed"),
            _ => (StatusCode::CONFLICT, "refused"),
        };
        tracing::error!("order of the operator refused: {}", on_one_line(&error));
        let body = json!({ "error": error.to_string(), "code": code, "step": error.step() });
        (status, Json(body)).into_response()
    }
}

pub(super) fn find(served: &Served, name: &str) -> Result<Arc<Deployment>, Response> {
    let endpoint = served.endpoints.named(name).cloned();
    endpoint.ok_or_else(|| {
        refused(StatusCode::NOT_FOUND, "not_found", format!("there is no endpoint `{}`", shown(name)))
    })
}

/// Names what is served, for an order on the condition that it is still that.
pub(super) fn with_etag(mut response: Response, digest: Option<&str>) -> Response {
    if let Some(tag) = digest.and_then(|digest| HeaderValue::try_from(format!("\"{digest}\"")).ok()) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
