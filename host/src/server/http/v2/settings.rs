//! Triton's trace and logging extensions over HTTP: what is so can be asked, and is not changed by clients.
//!
//! Place in the flow: beside it; [`crate::server::triton_settings`] knows.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value};

use super::model_request::ModelRequest;
use super::repository::read;
use crate::server::triton_settings::{LogSetting, log, refused, trace};

/// `GET /v2[/models/{model}]/trace/setting`.
pub(super) async fn traced(request: ModelRequest) -> Response {
    let found = request.named_entry().map(|_| tracing_settings());
    request.answer(found)
}

/// `POST` on the same: an order without settings is a question.
pub(super) async fn order_trace(request: ModelRequest, body: Body) -> Response {
    let outcome = async {
        request.named_entry()?;
        match read::<Map<String, Value>>(&request, body).await?.is_empty() {
            true => Ok(tracing_settings()),
            false => Err(refused("tracing")),
        }
    };
    request.answer(outcome.await)
}

/// `GET /v2/logging`.
pub(super) async fn logged() -> Response {
    log_settings()
}

/// `POST /v2/logging`.
pub(super) async fn order_log(request: ModelRequest, body: Body) -> Response {
    let outcome = async {
        match read::<Map<String, Value>>(&request, body).await?.is_empty() {
            true => Ok(log_settings()),
            false => Err(refused("logging")),
        }
    };
    request.answer(outcome.await)
}

fn tracing_settings() -> Response {
    // The level is a list, everything else is one value.
    let value = |(name, values): &(&str, &str)| match *name {
        "trace_level" => ((*name).to_owned(), vec![(*values).to_owned()].into()),
        _ => ((*name).to_owned(), Value::from(*values)),
    };
    Json(trace().iter().map(value).collect::<Map<_, _>>()).into_response()
}

fn log_settings() -> Response {
    let value = |(name, setting): (&str, LogSetting)| {
        let value = match setting {
            LogSetting::Is(is) => is.into(),
            LogSetting::Level(level) => level.into(),
            LogSetting::Text(text) => text.into(),
        };
        (name.to_owned(), value)
    };
    Json(log().into_iter().map(value).collect::<Map<String, Value>>()).into_response()
}
