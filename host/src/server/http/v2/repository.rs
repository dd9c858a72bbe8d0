//! The models as a repository: which there are; load and unload (Triton's model repository extension).
//!
//! Place in the flow: beside it; the orders themselves are `deploy/models.rs`.
//! Invariant: no order of a web page is taken, and none at all on a listener that was not told to.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Asked;
use crate::error::{Code, RequestError, Stage};
use crate::server::admin;

/// What `POST /v2/repository/index` may ask for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IndexRequest {
    ready: bool,
}

/// What an order may say beside its path.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Order {
    parameters: Map<String, Value>,
}

/// `POST /v2/repository/index`.
pub(super) async fn index(asked: Asked, body: Result<Bytes, BytesRejection>) -> Response {
    asked.answer(read::<IndexRequest>(body).map(|request| {
        let index = asked.served.index().into_iter().filter(|entry| entry.ready || !request.ready);
        let entries = index.map(|entry| {
            let (state, reason) = if entry.ready { ("READY", "") } else { ("UNAVAILABLE", "unloaded") };
            json!({ "name": entry.name, "version": entry.version, "state": state, "reason": reason })
        });
        Json(entries.collect::<Vec<_>>()).into_response()
    }))
}

/// `POST /v2/repository/models/{model}/load`.
pub(super) async fn load(asked: Asked, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    if let Some(refusal) = admin::from_a_page(&headers) {
        return refusal;
    }
    let outcome = async {
        let entry = asked.entry()?;
        let order: Order = read(body)?;
        if order.parameters.keys().any(|key| key == "config" || key.starts_with("file:")) {
            let message =
                "models and their configuration are files of the server; they are not taken from clients";
            return Err(RequestError::invalid(Stage::Admit, message));
        }
        entry.load().await
    };
    asked.answer(outcome.await.map(done))
}

/// `POST /v2/repository/models/{model}/unload`.
pub(super) async fn unload(
    asked: Asked,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if let Some(refusal) = admin::from_a_page(&headers) {
        return refusal;
    }
    let outcome = async {
        let entry = asked.entry()?;
        read::<Order>(body)?;
        entry.unload().await
    };
    asked.answer(outcome.await.map(done))
}

/// An order where none are taken.
pub(super) async fn refused(asked: Asked) -> Response {
    let message = "models are not loaded and unloaded by clients of this address; use the admin address, or start the \
                   server with `--model-control`";
    asked.answer(Err(RequestError::invalid(Stage::Admit, message)))
}

fn done((): ()) -> Response {
    (StatusCode::OK, Json(json!({}))).into_response()
}

/// A body of JSON; without one, as if it said nothing.
fn read<T: Default + DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, RequestError> {
    let body = body.map_err(|rejection| {
        let too_large = rejection.status() == StatusCode::PAYLOAD_TOO_LARGE;
        let code = if too_large { Code::BodyTooLarge } else { Code::InvalidInput };
        RequestError::new(code, Stage::Admit, rejection.body_text())
    })?;
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(&body)
        .map_err(|error| RequestError::invalid(Stage::Admit, format!("malformed json: {error}")))
}
