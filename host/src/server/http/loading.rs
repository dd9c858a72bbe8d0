//! What is answered while models and handlers are loading.
//!
//! Place in the flow: behind the `switch` until the whole service takes over. Both listeners have it from the
//! process's first moment.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /healthz`, `/livez`, `/v2/health/live`, `/metrics` | as later |
//! | `GET /` on the main listener | 200: the server is alive |
//! | `GET /v2/health/ready`, `/readyz`, `/ping` | 503 `{"ready": false}` |
//! | everything else | 503 `not_ready`; on `/v1/models/…` in the words of its clients; under `host dev` why |

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::error::{refuse, refuse_with};
use super::health;
use crate::error::{Code, RequestError, Stage};
use crate::server::compat::client::LoadingPath;
use crate::server::served::Served;

/// The routes that both listeners answer, and `router` besides.
pub(in crate::server) fn router(
    mut router: Router<Arc<Served>>,
    served: &Arc<Served>,
    with_metrics: bool,
) -> Router<Arc<Served>> {
    for (path, methods) in health::methods(served, with_metrics) {
        let methods = if health::READY.contains(&path) { get(unready).with_state(()) } else { methods };
        router = router.route(path, methods.with_state(()));
    }
    // A method that is not answered now may be later.
    router.method_not_allowed_fallback(not_ready).fallback(not_ready)
}

async fn unready() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ready": false }))).into_response()
}

async fn not_ready(State(served): State<Arc<Served>>, request: Request) -> Response {
    if let Some(development) = &served.development {
        let (message, detail) = development.refusal();
        let error = RequestError::new(Code::NotReady, Stage::Admit, message);
        let error = detail.into_iter().fold(error, RequestError::with_detail);
        return refuse_with(error, &served, request.headers());
    }
    let path = request.uri().path();
    let dialect = LoadingPath::of(path, &served);
    let message = dialect.as_ref().and_then(|dialect| dialect.message.clone());
    let message = message.unwrap_or_else(|| "the server is still loading models and handlers".to_owned());
    let response = refuse(Code::NotReady, message, &served, request.headers());
    match dialect {
        Some(dialect) => dialect.finish(response),
        None => response,
    }
}
