//! The models as a repository: which there are; load and unload (Triton's model repository extension).
//!
//! Place in the flow: beside it; the orders themselves are `rollout/models.rs`.
//! Invariant: no order of a web page is taken, and none at all on a listener that was not told to.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::json::object::{Object, problem};
use crate::json::special;

use super::model_request::{ModelRequest, not_from_a_page};
use crate::arrivals::BodyRate;
use crate::error::{RequestError, Stage};
use crate::memory::Account;
use crate::server::body::{Bounds, read_body};

/// The bounds of a body's length and time: a line of JSON, if anything.
const LONGEST: usize = 64 << 10;
const TIMEOUT: Duration = Duration::from_secs(10);
const BODY_RATE: BodyRate = BodyRate { timeout: TIMEOUT, rate: 1 << 10 };

/// The body of `POST /v2/repository/index`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IndexRequest {
    ready: bool,
}

/// The body of a load or an unload.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ModelControlRequest {
    parameters: Map<String, Value>,
}

/// `POST /v2/repository/index`.
pub(super) async fn index(request: ModelRequest, body: Body) -> Response {
    let query = read::<IndexRequest>(&request, body).await;
    request.answer(query.map(|query| {
        let index =
            request.served.index(request.protocol()).into_iter().filter(|entry| entry.ready || !query.ready);
        let entries = index.map(|entry| {
            let (state, reason) = if entry.ready { ("READY", "") } else { ("UNAVAILABLE", "unloaded") };
            json!({ "name": entry.name, "version": entry.version, "state": state, "reason": reason })
        });
        Json(entries.collect::<Vec<_>>()).into_response()
    }))
}

/// `POST /v2/repository/models/{model}/load`.
pub(super) async fn load(request: ModelRequest, headers: HeaderMap, body: Body) -> Response {
    if let Err(refusal) = not_from_a_page(&headers) {
        return request.answer(Err(refusal));
    }
    let outcome = async {
        let entry = request.entry()?;
        let control: ModelControlRequest = read(&request, body).await?;
        if control.parameters.keys().any(|key| key == "config" || key.starts_with("file:")) {
            let message =
                "models and their configuration are files of the server; they are not taken from clients";
            return Err(RequestError::invalid(Stage::Admit, message));
        }
        entry.load(&request.served).await
    };
    request.answer(outcome.await.map(done))
}

/// `POST /v2/repository/models/{model}/unload`.
pub(super) async fn unload(request: ModelRequest, headers: HeaderMap, body: Body) -> Response {
    if let Err(refusal) = not_from_a_page(&headers) {
        return request.answer(Err(refusal));
    }
    let outcome = async {
        let entry = request.entry()?;
        read::<ModelControlRequest>(&request, body).await?;
        entry.unload(&request.served).await
    };
    request.answer(outcome.await.map(done))
}

/// An order where none are taken.
pub(super) async fn refused(request: ModelRequest) -> Response {
    let message = "models are not loaded and unloaded by clients of this address; use the admin address, or start the \
                   server with `--model-control`";
    request.answer(Err(RequestError::invalid(Stage::Admit, message)))
}

pub(super) fn done((): ()) -> Response {
    (StatusCode::OK, Json(json!({}))).into_response()
}

/// A body of JSON; without one, as if it said nothing.
pub(super) async fn read<T: Default + DeserializeOwned>(
    request: &ModelRequest,
    body: Body,
) -> Result<T, RequestError> {
    let arrived = request.arrived;
    let bounds = Bounds {
        longest: LONGEST,
        body_rate: BODY_RATE,
        arrived,
        deadline: arrived + TIMEOUT,
        memory: Account::unknown(),
    };
    let body = read_body(body, bounds).await?.unwrap_or_default();
    if body.is_empty() {
        return Ok(T::default());
    }
    let read =
        serde_json::from_slice::<Object<T>>(special::without_mark(&body)).map(|Object(request)| request);
    read.map_err(|error| RequestError::invalid(Stage::Admit, problem("no order", &error)))
}
