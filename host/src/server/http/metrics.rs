//! `GET /metrics`: Prometheus' text format.
//!
//! Place in the flow: a route of both listeners, see [`super::health`]. In: the metrics of all endpoints.
//! Out: their text.
//! Invariants: no worker of requests writes it; on the address of the endpoints, which no key guards, it is
//! one of [`MetricsTexts`](crate::server::MetricsTexts), the operator's is always new.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use crate::server::head::Operator;
use crate::server::metrics_text::MetricsText;
use crate::server::served::Served;

pub(super) async fn metrics(
    State(served): State<Arc<Served>>,
    operator: Option<Extension<Operator>>,
) -> Response {
    let made = if operator.is_some() {
        tokio::task::spawn_blocking(move || MetricsText::new(served.render_metrics())).await
    } else {
        let mut texts = served.metrics_texts.0.clone().lock_owned().await;
        // To its end, also if the client leaves: so there is one at a time.
        tokio::task::spawn_blocking(move || texts.text(|| served.render_metrics())).await
    };
    match made {
        Ok(text) => {
            let head = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
            (head, Bytes::from_owner(text)).into_response()
        }
        Err(error) => {
            tracing::error!("the metrics cannot be written: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
