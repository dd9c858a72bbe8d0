//! `GET /openapi.json`: what is served right now, as an OpenAPI 3.1 document.
//!
//! Place in the flow: beside it; reads the current generations, runs nothing. The page at `/docs` is made
//! from it.
//! In:   endpoints, their handlers' stages, their models' signatures. Out: JSON, made anew for every request.
//! Invariants: an operation's answers are all that its path gives; its request schema accepts what the path
//! accepts, as far as JSON Schema can say it. `tests/it/schemathesis.rs` holds both against a running host.
//!
//! What an endpoint with keys adds to each of its operations is added here, so that no protocol can forget
//! it. Each protocol is a function in [`PROTOCOLS`] that gives its paths; [`answers`] and [`values`] are what
//! they share.

mod answers;
mod application;
mod endpoint;
mod job_forms;
mod jobs;
mod oip;
mod process;
mod split;
mod v1;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::routing::{MethodRouter, get};
use serde_json::{Value, json};

use self::answers::Paths;
use crate::server::served::Served;

/// Everything that is documented, first come, first served: as the router of `http.rs` has it, a path is its
/// first taker's.
const PROTOCOLS: [fn(&Served) -> Paths; 8] = [
    job_forms::paths,
    jobs::paths,
    application::paths,
    split::paths,
    endpoint::paths,
    oip::paths,
    v1::paths,
    process::paths,
];

/// Paths and their methods.
pub(super) fn methods(served: &Arc<Served>) -> Vec<(&'static str, MethodRouter)> {
    vec![("/openapi.json", get(serve).with_state(served.clone()))]
}

async fn serve(State(served): State<Arc<Served>>) -> Json<Value> {
    Json(document(&served))
}

fn document(served: &Served) -> Value {
    let mut paths = BTreeMap::new();
    let locked: Vec<&str> = served
        .endpoints
        .iter()
        .filter(|endpoint| !endpoint.config.keys.is_empty())
        .map(|endpoint| &*endpoint.config.name)
        .collect();
    for (path, mut item) in PROTOCOLS.iter().flat_map(|protocol| protocol(served)) {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let names = operation["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let is_locked: Vec<bool> = names.map(|name| locked.contains(&name)).collect();
            if is_locked.contains(&true) {
                // A request that is sent to an endpoint without keys needs none. What is told of several
                // needs those of all.
                answers::lock(operation, method == "post" && is_locked.contains(&false));
            }
        }
        paths.entry(path).or_insert(item);
    }
    let endpoints = served.endpoints.iter().map(|endpoint| endpoint::tag(endpoint));
    let tags: Vec<Value> = endpoints.chain([answers::process_tag()]).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "modelhost",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
            "description": "Every answer has the request's id in `x-request-id`; every error is JSON that names it.",
        },
        "servers": [{ "url": "/" }],
        "security": [],
        "tags": tags,
        "components": answers::components(&json!(paths).to_string(), !locked.is_empty()),
        "paths": paths,
    })
}
