//! Liveness, readiness, metrics: the same on both listeners.
//!
//! Place in the flow: beside it. A process that answers here at all is alive; it is ready once everything is
//! loaded (until then `loading` answers) and its applications say so, until it is asked to stop.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use serde_json::json;

use crate::server::served::Served;

/// Whether requests are served: the Open Inference Protocol's path, Kubernetes', and that of SageMaker and
/// TorchServe.
pub(in crate::server) const READY: [&str; 3] = ["/v2/health/ready", "/readyz", "/ping"];
/// Whether the process is alive.
const LIVE: [&str; 3] = ["/healthz", "/livez", "/v2/health/live"];
/// Some scrapers are told the second.
const METRICS: [&str; 2] = ["/metrics", "/metrics/"];

/// Whether a path tells no more than how the process is.
pub(in crate::server) fn is_open(path: &str) -> bool {
    READY.contains(&path) || LIVE.contains(&path)
}

/// Paths and their methods.
pub(in crate::server) fn methods(
    served: &Arc<Served>,
    with_metrics: bool,
) -> Vec<(&'static str, MethodRouter)> {
    let of = |paths: &[&'static str], methods: fn() -> MethodRouter<Arc<Served>>| {
        let with_state = |path: &&'static str| (*path, methods().with_state(served.clone()));
        paths.iter().map(with_state).collect::<Vec<_>>()
    };
    let metrics: &[&str] = if with_metrics { &METRICS } else { &[] };
    [of(&READY, || get(ready)), of(&LIVE, || get(live)), of(metrics, || get(super::metrics::metrics))]
        .concat()
}

/// `GET /`: what clients of KServe's first protocol ask whether the server is alive by.
pub(in crate::server) async fn root() -> impl IntoResponse {
    axum::Json(json!({ "status": "alive" }))
}

async fn live() -> impl IntoResponse {
    axum::Json(json!({ "ok": true }))
}

async fn ready(State(served): State<Arc<Served>>) -> Response {
    let ready = !served.drain.has_begun() && served.all_are_ready().await;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(json!({ "ready": ready }))).into_response()
}
