//! What Potassium's clients and its platform ask a server: is it warm, what is it doing; and their name of a
//! request's id.
//!
//! Place in the flow: beside it. Handlers are called by their endpoints' own paths, as everywhere.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use serde::Serialize;
use serde_json::{Value, json};

use crate::server::head::ID_ALIAS;
use crate::server::served::Served;

/// `response` to a request that had an id of banana's, with the id by that name as well.
pub(in crate::server) fn name(response: &mut Response, id: &HeaderName) {
    if let Some(id) = response.headers().get(id).cloned() {
        response.headers_mut().insert(ID_ALIAS, id);
    }
}

/// Paths and their methods.
pub(in crate::server) fn methods(served: &Arc<Served>) -> [(&'static str, MethodRouter); 3] {
    let status = || get(status).with_state(served.clone());
    [("/_k/warmup", get(warmup).post(warmup)), ("/_k/status", status()), ("/__status__", status())]
}

/// A client that gets an answer finds everything loaded: there is nothing to warm up.
async fn warmup() -> Json<Value> {
    Json(json!({ "warm": true }))
}

#[derive(Serialize)]
struct Status {
    /// Whether a call would be served at once by some endpoint.
    gpu_available: bool,
    /// Calls since the start: `POST` on any path, answered, refused or in flight.
    sequence_number: u64,
    /// Milliseconds since the last call ended, or since the start; 0 while there is one.
    idle_time: u128,
    /// Milliseconds that the oldest call in flight has lasted; 0 if there is none.
    inference_time: u128,
}

async fn status(State(served): State<Arc<Served>>) -> Json<Status> {
    let snapshot = served.activity.snapshot();
    Json(Status {
        gpu_available: served.endpoints.iter().any(|endpoint| endpoint.free_places() > 0),
        sequence_number: snapshot.begun,
        idle_time: if snapshot.oldest.is_some() { 0 } else { snapshot.quiet.as_millis() },
        inference_time: snapshot.oldest.map_or(0, |oldest| oldest.as_millis()),
    })
}
