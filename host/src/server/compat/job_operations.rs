//! Jobs in the words of other systems: Cortex's AsyncAPI and BatchAPI, Truss's asynchronous calls.
//!
//! Place in the flow: documents for `http/openapi/job_forms.rs` what the dialects beside it answer. In: an
//! endpoint with jobs. Out: its operations.

use serde_json::{Value, json};

use crate::error::Code;
use crate::jobs::LAST_PRIORITY;
use crate::rollout::deployment::Deployment;
use crate::server::http::openapi::answers::{Path, error_free, json_ok};
use crate::server::http::openapi::endpoint::describe;
use crate::server::http::openapi::jobs::{REFUSED, add, answered, id, operation};
use crate::server::http::openapi::values::text;

/// Of an endpoint whose own path takes jobs.
pub(super) fn at_own_path(endpoint: &Deployment) -> Vec<Path> {
    let config = &endpoint.config;
    let path = config.path.trim_end_matches('/');
    let get = || describe(endpoint, &endpoint.current());
    vec![
        (config.path.clone(), own(endpoint, get, json!({ "post": async_submit(endpoint) }))),
        (format!("{path}/{{id}}"), json!({ "get": async_job(endpoint) })),
    ]
}

/// Of one whose own path takes lists of inputs.
pub(super) fn batches(endpoint: &Deployment) -> Vec<Path> {
    let stop = batch(endpoint, "stop_batch", "stops a batch", &object(&["message"]), true);
    let status = object(&["job_status", "endpoint", "metrics"]);
    let get = || batch(endpoint, "batch", "a batch; without `jobID` what it takes", &status, false);
    let methods = json!({ "post": batch_submit(endpoint), "delete": stop });
    vec![(endpoint.config.path.clone(), own(endpoint, get, methods))]
}

/// Of one that takes asynchronous predictions.
pub(super) fn predictions(endpoint: &Deployment) -> Vec<Path> {
    let path = endpoint.config.path.trim_end_matches('/');
    let name = &endpoint.config.name;
    let further = predict(endpoint, "async_predict_by_name");
    vec![
        (format!("{path}/async_predict"), json!({ "post": predict(endpoint, "async_predict") })),
        (format!("/v1/models/{name}:async_predict"), json!({ "post": further })),
        (format!("{path}/async_request/{{id}}"), request(endpoint)),
    ]
}

/// The methods of the endpoint's own path, with the one that describes it.
fn own(endpoint: &Deployment, get: impl FnOnce() -> Value, mut methods: Value) -> Value {
    if !endpoint.is_application() {
        add(&mut methods, "get", get());
    }
    methods
}

/// An object with these members.
fn object(members: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    json!({ "type": "object", "properties": properties, "required": members })
}

fn plain() -> Value {
    json!({ "description": "Cortex's text.", "content": { "text/plain": { "schema": text() } } })
}

fn answer(operation: &mut Value, status: &str, answer: Value) {
    if let Some(answers) = operation.get_mut("responses") {
        add(answers, status, answer);
    }
}

fn async_submit(endpoint: &Deployment) -> Value {
    let ok = json_ok("The job, which is stored.", &object(&["id"]));
    let mut submit =
        operation(&endpoint.config, "async", "submits a job as in Cortex's AsyncAPI", ok, &REFUSED);
    let content = json!({ "application/json": { "schema": {} }, "*/*": { "schema": {} } });
    let description = "The request that the job is. Without a content type it is refused with Cortex's text.";
    add(&mut submit, "requestBody", json!({ "description": description, "content": content }));
    submit
}

fn async_job(endpoint: &Deployment) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": text(),
            "status": { "enum": ["in_queue", "in_progress", "completed", "failed"] },
            "result": { "description": "The answer, if it is JSON." },
            "timestamp": text(),
        },
        "required": ["id", "status"],
    });
    let ok = json_ok("The job.", &schema);
    let mut looked = operation(&endpoint.config, "async_job", "a job as in Cortex's AsyncAPI", ok, &[]);
    answer(&mut looked, "404", plain());
    add(&mut looked, "parameters", json!([id()]));
    looked
}

fn batch_submit(endpoint: &Deployment) -> Value {
    let ok = json_ok("The batch, which is stored.", &object(&["job_id", "total_batch_count"]));
    let mut submit = operation(&endpoint.config, "submit_batch", "submits a list of inputs", ok, &REFUSED);
    let one = json!({ "type": "integer", "minimum": 1 });
    let list = json!({
        "type": "object",
        "properties": { "items": { "type": "array", "minItems": 1 }, "batch_size": one },
        "required": ["items", "batch_size"],
    });
    let schema = json!({
        "type": "object",
        "properties": { "workers": one, "item_list": list, "config": { "type": "object" }, "timeout": one },
        "required": ["workers", "item_list"],
    });
    let content = json!({ "application/json": { "schema": schema } });
    add(&mut submit, "requestBody", json!({ "required": true, "content": content }));
    submit
}

fn batch(endpoint: &Deployment, name: &str, what: &str, schema: &Value, is_required: bool) -> Value {
    let content =
        json!({ "application/json": { "schema": if is_required { schema.clone() } else { json!({}) } } });
    let ok = error_free("The batch.", &content);
    let codes = [Code::InvalidInput, Code::NotFound];
    let mut operation = operation(&endpoint.config, name, what, ok, &codes);
    let mut parameter = id();
    add(&mut parameter, "name", json!("jobID"));
    add(&mut parameter, "in", json!("query"));
    add(&mut parameter, "required", json!(is_required));
    add(&mut operation, "parameters", json!([parameter]));
    operation
}

fn predict(endpoint: &Deployment, name: &str) -> Value {
    let ok = json_ok("The request, which is stored.", &object(&["request_id"]));
    let mut submit = operation(&endpoint.config, name, "submits a request as Truss does", ok, &REFUSED);
    let whole = |least: u64| json!({ "type": "integer", "minimum": least });
    let most = json!({ "type": "integer", "minimum": 1, "maximum": endpoint.config.jobs.attempts });
    let retries = json!({
        "type": "object",
        "properties": { "max_attempts": most, "initial_delay_ms": whole(0), "max_delay_ms": whole(0) },
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "model_input": { "description": "The body of the request that is run." },
            "webhook_endpoint": { "type": "string", "description": "On the endpoint's list." },
            "priority": { "type": "integer", "minimum": 0, "maximum": LAST_PRIORITY },
            "max_time_in_queue_seconds": whole(1),
            "inference_retry_config": retries,
        },
        "required": ["model_input"],
    });
    let content = json!({ "application/json": { "schema": schema } });
    add(&mut submit, "requestBody", json!({ "required": true, "content": content }));
    answered(submit, "201")
}

fn request(endpoint: &Deployment) -> Value {
    let of = |name: &str, what: &str, members: &[&str]| {
        let ok = json_ok("The request.", &object(members));
        let mut operation = operation(&endpoint.config, name, what, ok, &[Code::NotFound]);
        add(&mut operation, "parameters", json!([id()]));
        operation
    };
    let state =
        ["request_id", "model_id", "deployment_id", "status", "webhook_status", "created_at", "errors"];
    json!({
        "get": of("async_request", "a request as Truss sees it", &state),
        "delete": of("async_cancel", "cancels a request that is queued", &["request_id", "canceled", "message"]),
    })
}
