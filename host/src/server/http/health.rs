//! Liveness, readiness, metrics: the same on both listeners.
//!
//! Place in the flow: beside it. A process that answers here at all is alive; it is ready once everything is loaded (until
//! then `loading` answers), until it is asked to stop.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use serde_json::json;

use crate::server::Served;

/// Whether requests are served.
pub(in crate::server) const READY: &str = "/v2/health/ready";
/// Whether the process is alive.
pub(in crate::server) const LIVE: [&str; 2] = ["/healthz", "/v2/health/live"];

/// Paths and their methods.
pub(in crate::server) fn methods(
    served: &Arc<Served>,
    with_metrics: bool,
) -> Vec<(&'static str, MethodRouter)> {
    let mut methods = vec![(READY, get(ready).with_state(served.clone()))];
    methods.extend(LIVE.map(|path| (path, get(live).with_state(served.clone()))));
    if with_metrics {
        methods.push(("/metrics", get(metrics).with_state(served.clone())));
    }
    methods
}

async fn live() -> impl IntoResponse {
    axum::Json(json!({ "ok": true }))
}

async fn ready(State(served): State<Arc<Served>>) -> Response {
    let ready = !served.drain.has_begun();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(json!({ "ready": ready }))).into_response()
}

async fn metrics(State(served): State<Arc<Served>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], served.render_metrics())
}
