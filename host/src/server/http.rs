//! The main listener's table of contents.
//!
//! | method and path | answered by |
//! |---|---|
//! | `POST <endpoint>`, `POST /` and `POST /predict` if there is one endpoint | [`call`] |
//! | `GET` on the same paths, `GET <path>/signature` | [`describe`] |
//! | `GET /healthz`, `/v2/health/live`, `/v2/health/ready`, `/metrics` | [`health`] |
//!
//! Place in the flow: between a connection and an endpoint. Every error leaves through [`error`].

mod call;
mod describe;
mod error;
pub(super) mod health;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderName, HeaderValue};
use axum::routing::{MethodRouter, get, post};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

pub(super) use self::error::{method_not_allowed, not_found};
use super::Served;
use crate::deploy::Endpoint;

/// What a call needs: its endpoint and the process around it.
#[derive(Clone)]
struct Target {
    endpoint: Arc<Endpoint>,
    served: Arc<Served>,
}

/// Everything the main listener answers.
pub fn router(served: &Arc<Served>) -> Router {
    // Paths in one map, first come first served: configured paths, then what is derived from them.
    let mut paths: BTreeMap<String, MethodRouter> = BTreeMap::new();
    for endpoint in &served.endpoints {
        paths.insert(endpoint.config.path.clone(), endpoint_methods(endpoint, served));
    }
    for (path, methods) in health::methods(served, served.config.metrics_on_main) {
        paths.entry(path.to_owned()).or_insert(methods);
    }
    if let [only] = served.endpoints.as_slice() {
        for alias in ["/", "/predict"] {
            paths.entry(alias.to_owned()).or_insert_with(|| endpoint_methods(only, served));
        }
    }
    for endpoint in &served.endpoints {
        let target = Target { endpoint: endpoint.clone(), served: served.clone() };
        let path = format!("{}/signature", endpoint.config.path.trim_end_matches('/'));
        paths.entry(path).or_insert_with(|| get(describe::signature).with_state(target));
    }

    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(&path, methods.with_state(()));
    }
    let router =
        router.method_not_allowed_fallback(method_not_allowed).fallback(not_found).with_state(served.clone());
    match served.config.cors_allow_origin.as_deref().and_then(cors) {
        Some(layer) => router.layer(layer),
        None => router,
    }
}

fn endpoint_methods(endpoint: &Arc<Endpoint>, served: &Arc<Served>) -> MethodRouter {
    let target = Target { endpoint: endpoint.clone(), served: served.clone() };
    post(call::call).get(describe::describe).with_state(target)
}

/// Lets pages of `origin` (or of any, `*`) call the endpoints from a browser.
fn cors(origin: &str) -> Option<CorsLayer> {
    let origin = match origin {
        "*" => AllowOrigin::any(),
        origin => AllowOrigin::exact(HeaderValue::from_str(origin).ok()?),
    };
    let layer = CorsLayer::new()
        .allow_origin(origin)
        .allow_methods(AllowMethods::any())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([X_REQUEST_ID, X_HANDLER_DIGEST]);
    Some(layer)
}

/// Names the request, in both directions.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same, as the clients of one of the systems this host follows send it.
const X_BANANA_REQUEST_ID: HeaderName = HeaderName::from_static("x-banana-request-id");
/// SHA-256 of the handler that answered.
const X_HANDLER_DIGEST: HeaderName = HeaderName::from_static("x-handler-digest");
