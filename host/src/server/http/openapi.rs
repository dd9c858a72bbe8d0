//! `GET /openapi.json`: what is served right now, as an OpenAPI 3.1 document.
//!
//! Place in the flow: beside it; reads the current generations, runs nothing. The page at `/docs` is made
//! from it.
//! In:   endpoints, their handlers' stages, their models' signatures. Out: JSON, made anew when another
//!       generation is served, one document at a time and not on a worker: it takes long for many. Each
//!       path is text before the next one is made, so the memory for it is that of the document.
//! Invariants: an operation's answers are all that its path gives; its request schema accepts what the path
//! accepts, as far as JSON Schema can say it. `tests/it/schemathesis.rs` holds both against a running host.
//!
//! What an endpoint with keys adds to each of its operations is added here, so that no protocol can forget
//! it. Each protocol is a function in [`PROTOCOLS`] that gives its paths; [`answers`] and [`values`] are what
//! they share.

pub(in crate::server) mod answers;
pub(in crate::server) mod application;
mod bodies;
mod definitions;
pub(in crate::server) mod endpoint;
mod job_forms;
pub(in crate::server) mod jobs;
mod oip;
mod process;
mod split;
mod v1;
pub(in crate::server) mod values;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use serde::Serialize;
use serde::ser::Error as _;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use self::answers::Paths;
use crate::server::served::Served;

/// Everything that is documented, first come, first served: as the router of `http.rs` has it, a path is its
/// first taker's.
const PROTOCOLS: [fn(&Served) -> Paths<'_>; 8] = [
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
    let documents = Documents { served: served.clone(), last: Arc::default() };
    vec![("/openapi.json", get(serve).with_state(documents))]
}

/// The document as it was made last, and what it was made of.
#[derive(Clone)]
struct Documents {
    served: Arc<Served>,
    last: Arc<Mutex<Option<(u64, Bytes)>>>,
}

async fn serve(State(documents): State<Documents>) -> Response {
    let mut last = documents.last.clone().lock_owned().await;
    // To its end, also if the client leaves: so there is one at a time.
    let made = tokio::task::spawn_blocking(move || {
        let served = &documents.served;
        let now = generations(served);
        match &*last {
            Some((then, document)) if *then == now => Ok(document.clone()),
            _ => {
                let document = Bytes::from(document(served)?);
                *last = Some((now, document.clone()));
                Ok(document)
            }
        }
    });
    match made.await.unwrap_or_else(|error| Err(serde_json::Error::custom(error))) {
        Ok(document) => ([(CONTENT_TYPE, "application/json")], document).into_response(),
        Err(error) => {
            tracing::error!("the OpenAPI document cannot be made: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A number that is another one when another generation is served.
fn generations(served: &Served) -> u64 {
    let mut hasher = DefaultHasher::new();
    served
        .endpoints
        .iter()
        .for_each(|endpoint| endpoint.read_current(|current| current.id.hash(&mut hasher)));
    hasher.finish()
}

/// The document: its paths, which are text already, and everything else.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Value,
    paths: BTreeMap<String, Box<RawValue>>,
}

fn document(served: &Served) -> serde_json::Result<Vec<u8>> {
    let (mut paths, mut used, mut schemas) = (BTreeMap::new(), BTreeSet::new(), Map::new());
    let locked: HashSet<&str> = served
        .endpoints
        .iter()
        .filter(|endpoint| !endpoint.config.keys.is_empty())
        .map(|endpoint| &*endpoint.config.name)
        .collect();
    for (path, mut item) in PROTOCOLS.iter().flat_map(|protocol| protocol(served)) {
        let Entry::Vacant(place) = paths.entry(path) else { continue };
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let names = operation["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let is_locked: Vec<bool> = names.map(|name| locked.contains(name)).collect();
            if is_locked.contains(&true) {
                // A request that is sent to an endpoint without keys needs none. What is told of several
                // needs those of all.
                answers::lock(operation, method == "post" && is_locked.contains(&false));
            }
            definitions::take_out(operation, &mut schemas);
        }
        answers::references(&item, &mut used);
        place.insert(to_raw_value(&item)?);
    }
    let mut components = answers::components(used, !locked.is_empty());
    if let Some(Value::Object(all)) = components.get_mut("schemas") {
        all.append(&mut schemas);
    }
    let endpoints = served.endpoints.iter().map(|endpoint| endpoint::tag(endpoint));
    let tags: Vec<Value> = endpoints.chain([answers::process_tag()]).collect();
    let head = json!({
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
        "components": components,
    });
    serde_json::to_vec(&Document { head, paths })
}
