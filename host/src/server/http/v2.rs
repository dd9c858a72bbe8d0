//! The Open Inference Protocol over HTTP (kserve/open-inference-protocol, version 2), with Triton's
//! extensions for binary tensors, classification, model configuration, model repository, parameters and
//! statistics.
//!
//! Place in the flow: beside the endpoints' own paths. [`infer`](mod@infer) serves: a body becomes tensors
//! ([`request`]), tensors become an answer ([`response`]). What the protocol tells about models is in
//! [`metadata`], what it does with them in [`repository`].
//!
//! | method and path | answered by |
//! |---|---|
//! | `POST /v2/models/{model}[/versions/{version}]/infer` | [`infer`](mod@infer) |
//! | `POST …/generate`, `…/generate_stream` | [`generate`] |
//! | `/v2[/models/{model}]/trace/setting`, `/v2/logging` | [`settings`] |
//! | `GET /v2`, `/v2/models/{model}[/versions/{version}]`, `…/ready`, `…/config`, `…/stats`, `/v2/models/stats` | [`metadata`] |
//! | `/v2/systemsharedmemory[/region/{region}]/…`, `/v2/cudasharedmemory[/region/{region}]/…` | [`shared_memory`] |
//! | `POST /v2/repository/index`, `/v2/repository/models/{model}/load`, `…/unload` | [`repository`] |

mod generate;
mod infer;
mod metadata;
mod model_request;
mod repository;
mod request;
mod response;
mod settings;
mod shared_memory;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, options, post};

#[cfg(fuzzing)]
pub use self::infer::fuzz;
pub(super) use self::infer::{infer, is_inference};
use super::cors;
use crate::server::served::Served;

/// Whether clients of a listener may load and unload models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Orders {
    Accepted,
    Refused,
}

/// Everything but inference.
pub(in crate::server) fn router(orders: Orders) -> Router<Arc<Served>> {
    let mut router = Router::new()
        .route("/v2", get(metadata::server))
        .route("/v2/models/stats", get(metadata::all_statistics))
        .route("/v2/logging", get(settings::logged).post(settings::order_log))
        .route("/v2/trace/setting", get(settings::traced).post(settings::order_trace))
        .route("/v2/models/{model}/trace/setting", get(settings::traced).post(settings::order_trace))
        .route("/v2/repository/index", post(repository::index));
    for model in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
        router = router
            .route(model, get(metadata::model))
            .route(&format!("{model}/ready"), get(metadata::ready))
            .route(&format!("{model}/config"), get(metadata::config))
            .route(&format!("{model}/stats"), get(metadata::statistics));
    }
    for region in ["", "/region/{region}"] {
        let path = |kind: &str, verb: &str| format!("/v2/{kind}sharedmemory{region}/{verb}");
        router = router
            .route(&path("system", "status"), get(shared_memory::status))
            .route(&path("system", "unregister"), post(shared_memory::unregister))
            .route(&path("cuda", "status"), get(shared_memory::cuda_status))
            .route(&path("cuda", "unregister"), post(shared_memory::cuda_unregister));
    }
    router = router
        .route("/v2/systemsharedmemory/region/{region}/register", post(shared_memory::register))
        .route("/v2/cudasharedmemory/region/{region}/register", post(shared_memory::cuda_register));
    let (load, unload) = match orders {
        Orders::Accepted => (post(repository::load), post(repository::unload)),
        Orders::Refused => (post(repository::refused), post(repository::refused)),
    };
    router
        .route("/v2/repository/models/{model}/load", load)
        .route("/v2/repository/models/{model}/unload", unload)
}

/// Inference, for the names that [`is_inference`] leaves to the router, and for its other methods; and its
/// other form, [`generate`].
pub(super) fn inference(served: &Served) -> Router<Arc<Served>> {
    let preflight = options(cors::preflight_of_calls).with_state(served.config.cors_allow_origin.is_some());
    let verbs = [
        ("infer", post(infer::routed)),
        ("generate", post(generate::generate)),
        ("generate_stream", post(generate::generate_stream)),
    ];
    let mut router = Router::new();
    for (verb, methods) in verbs {
        let methods = methods.merge(preflight.clone());
        router = router
            .route(&format!("/v2/models/{{model}}/{verb}"), methods.clone())
            .route(&format!("/v2/models/{{model}}/versions/{{version}}/{verb}"), methods);
    }
    router
}
