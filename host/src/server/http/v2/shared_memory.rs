//! Regions of shared memory over HTTP (Triton's system and CUDA shared memory extensions).
//!
//! Place in the flow: beside it; [`crate::server::shared_memory`] keeps the regions, `infer` uses them.
//! Invariant: no region is registered at the order of a web page, nor of another machine.

use axum::Json;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::model_request::{ModelRequest, not_from_a_page};
use super::repository::{done, read};
use crate::server::shared_memory::{authorize, authorize_registration, no_cuda};

/// The body of a registration.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Registration {
    key: String,
    offset: u64,
    byte_size: u64,
}

/// `GET /v2/systemsharedmemory[/region/{region}]/status`.
pub(super) async fn status(request: ModelRequest) -> Response {
    let memory = &request.served.shared_memory;
    let regions = authorize(&request.served.every_key(), request.credentials())
        .and_then(|()| memory.status(request.region()));
    request.answer(regions.map(|regions| {
        let told = regions.iter().map(|(name, region)| {
            let (key, offset, byte_size) = (&region.key, region.offset, region.byte_size);
            json!({ "name": name, "key": key, "offset": offset, "byte_size": byte_size })
        });
        Json(told.collect::<Vec<Value>>()).into_response()
    }))
}

/// `POST /v2/systemsharedmemory/region/{region}/register`.
pub(super) async fn register(request: ModelRequest, headers: HeaderMap, body: Body) -> Response {
    if let Err(refusal) = not_from_a_page(&headers) {
        return request.answer(Err(refusal));
    }
    let outcome = async {
        authorize_registration(&request.served.every_key(), request.credentials(), request.origin)?;
        let Registration { key, offset, byte_size } = read(&request, body).await?;
        let name = request.region().unwrap_or_default();
        request.served.shared_memory.register(name, &key, offset, byte_size)
    };
    request.answer(outcome.await.map(done))
}

/// `POST /v2/systemsharedmemory[/region/{region}]/unregister`.
pub(super) async fn unregister(request: ModelRequest, headers: HeaderMap) -> Response {
    if let Err(refusal) = not_from_a_page(&headers) {
        return request.answer(Err(refusal));
    }
    let allowed = authorize(&request.served.every_key(), request.credentials());
    let outcome = allowed.map(|()| request.served.shared_memory.unregister(request.region()));
    request.answer(outcome.map(done))
}

/// `GET /v2/cudasharedmemory[/region/{region}]/status`: there are none.
pub(super) async fn cuda_status() -> Json<Value> {
    Json(json!([]))
}

/// `POST /v2/cudasharedmemory/region/{region}/register`.
pub(super) async fn cuda_register(request: ModelRequest) -> Response {
    request.answer(Err(no_cuda()))
}

/// `POST /v2/cudasharedmemory[/region/{region}]/unregister`.
pub(super) async fn cuda_unregister() -> Json<Value> {
    Json(json!({}))
}
