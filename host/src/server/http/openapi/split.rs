//! Paths that stand for several endpoints.
//!
//! Place in the flow: beside it; documents `http/split.rs`. In: the endpoints of a split. Out: its
//! operations: the body that all of them read, if it is the same, and every answer that one of them gives.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answers::{Paths, json_ok, with_errors};
use super::endpoint::operation;
use crate::endpoint::generation::Generation;
use crate::error::Code;
use crate::rollout::deployment::Deployment;
use crate::server::served::Served;
use crate::server::split::Split;

pub(super) fn paths(served: &Served) -> Paths<'_> {
    Box::new(served.config.splits.iter().map(|split| (split.path.clone(), item(split, served))))
}

fn item(split: &Split, served: &Served) -> Value {
    let endpoints: Vec<&Arc<Deployment>> =
        split.endpoints.iter().filter_map(|(name, _)| served.endpoints.named(name)).collect();
    let current: Vec<Arc<Generation>> = endpoints.iter().map(|endpoint| endpoint.current()).collect();
    let current: Vec<&Generation> = current.iter().map(Arc::as_ref).collect();
    let tags: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.config.name.as_str()).collect();
    let path = &split.path;
    let shares: Vec<String> =
        split.endpoints.iter().map(|(name, weight)| format!("`{name}` ({weight})")).collect();
    let text = format!("One of these endpoints answers, by weight: {}.", shares.join(", "));
    let schema = json!({
        "type": "object",
        "properties": {
            "endpoints": { "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 } },
            "message": { "type": "string" },
        },
        "required": ["endpoints", "message"],
    });
    json!({
        "post": operation(&format!("{path}.predict"), &tags, &format!("{path}: predict"), &text, &current),
        "get": {
            "operationId": format!("{path}.describe"),
            "tags": tags,
            "summary": format!("{path}: the endpoints behind it"),
            "responses": with_errors(json_ok("Endpoints with their weights.", &schema), &[Code::MethodNotAllowed], false),
        },
    })
}
