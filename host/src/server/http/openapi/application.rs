//! Applications: the operations that they say they serve.
//!
//! Place in the flow: beside it; documents `http/application.rs`.
//! In: an endpoint's current generation. Out: its operations, below the endpoint's path, or on the paths of
//! the server that it was given. Of one that says nothing, only that it is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answers::{HANDLER_CODES, Paths, error_free, with_errors};
use super::bodies;
use crate::error::Code;
use crate::plugin::Operation;
use crate::request::Protocol;
use crate::rollout::deployment::Deployment;
use crate::server::served::Served;

/// The methods that OpenAPI has a place for.
const METHODS: [&str; 8] = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];

/// The errors in which an operation may end, besides those that the application makes up.
const CODES: [Code; 6] = [
    Code::InvalidInput,
    Code::BodyTooLarge,
    Code::Internal,
    Code::Overloaded,
    Code::ShuttingDown,
    Code::RequestTimeout,
];

pub(super) fn paths(served: &Served) -> Paths<'_> {
    let is_application = |endpoint: &&Arc<Deployment>| {
        let speaks = endpoint.config.speaks(Some(Protocol::Http));
        speaks && endpoint.is_application()
    };
    Box::new(served.endpoints.iter().filter(is_application).flat_map(|endpoint| of_one(endpoint)))
}

fn of_one(endpoint: &Deployment) -> BTreeMap<String, Value> {
    let current = endpoint.current();
    let mut paths: BTreeMap<String, Value> = BTreeMap::new();
    for operation in current.operations() {
        if METHODS.contains(&&*operation.method) {
            let item = paths.entry(path(endpoint, &operation.path)).or_insert_with(|| json!({}));
            if let Value::Object(item) = item {
                item.insert(operation.method.to_ascii_lowercase(), described(endpoint, operation));
            }
        }
    }
    if paths.is_empty() {
        let path = endpoint.config.path.clone();
        paths.insert(path, json!({ "get": silent(endpoint, "get"), "post": silent(endpoint, "post") }));
    }
    paths
}

/// Where an operation is served.
pub(in crate::server) fn path(endpoint: &Deployment, own: &str) -> String {
    let is_given = |given: &String| {
        own.strip_prefix(&**given).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let prefix = endpoint.config.path.trim_end_matches('/');
    let whole = match own {
        own if endpoint.config.paths.iter().any(is_given) => own.to_owned(),
        "/" => endpoint.config.path.clone(),
        own => format!("{prefix}{own}"),
    };
    // OpenAPI has no parameter that is all the rest.
    whole.replace("{*", "{")
}

fn described(endpoint: &Deployment, operation: &Operation) -> Value {
    let name = &endpoint.config.name;
    let summary = match &*operation.summary {
        "" => format!("{name}: {} {}", operation.method, operation.path),
        said => format!("{name}: {said}"),
    };
    let mut value = json!({
        "operationId": format!("{name}.{}{}", operation.method.to_ascii_lowercase(), identifier(&operation.path)),
        "tags": [name],
        "summary": summary,
        "parameters": parameters(&operation.path),
        "responses": responses(&operation.produces, operation.output.as_ref()),
    });
    if let (Value::Object(value), Some(body)) = (&mut value, body(operation)) {
        value.insert("requestBody".to_owned(), body);
    }
    value
}

/// The body that an operation reads; `None`: none.
pub(in crate::server) fn body(operation: &Operation) -> Option<Value> {
    let content_type = match (&*operation.consumes, &operation.input) {
        ("", None) => return None,
        ("", Some(_)) => "application/json",
        (said, _) => said,
    };
    let declared = operation.input.clone().or_else(|| bodies::form(content_type));
    let content = json!({ content_type: { "schema": declared.unwrap_or(json!({})) } });
    Some(json!({ "required": true, "content": content }))
}

/// Of an application that does not say what it serves.
fn silent(endpoint: &Deployment, method: &str) -> Value {
    let name = &endpoint.config.name;
    json!({
        "operationId": format!("{name}.{method}"),
        "tags": [name],
        "summary": format!("{name}: an application"),
        "description": "It serves every method on this path and below, and does not say which: its `operations` would.",
        "responses": responses("", None),
    })
}

fn responses(produces: &str, schema: Option<&Value>) -> Value {
    let media_type = match (produces, schema) {
        ("", None) => "*/*",
        ("", Some(_)) => "application/json",
        (said, _) => said,
    };
    let content = match schema {
        Some(schema) => json!({ media_type: { "schema": schema } }),
        None => json!({ media_type: {} }),
    };
    let codes: Vec<Code> = CODES.into_iter().chain(HANDLER_CODES).collect();
    let mut answers = with_errors(error_free("The application's answer.", &content), &codes, true);
    if let Value::Object(answers) = &mut answers {
        let anything = json!({ "*/*": {} });
        answers.insert("default".to_owned(), error_free("What the application decides.", &anything));
    }
    answers
}

fn parameters(path: &str) -> Vec<Value> {
    let parameter = |segment: &str| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        let name = name.strip_prefix('*').unwrap_or(name);
        Some(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
    };
    path.split('/').filter_map(parameter).collect()
}

/// A path as a part of a name: `/items/{id}` is `.items.id`.
pub(super) fn identifier(path: &str) -> String {
    let segments = path.split('/').map(|segment| segment.trim_matches(['{', '}', '*']));
    segments.filter(|segment| !segment.is_empty()).map(|segment| format!(".{segment}")).collect()
}
