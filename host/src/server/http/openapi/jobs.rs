//! Jobs: submitted, looked at, listed, cancelled, their results, their webhooks.
//!
//! Place in the flow: beside it; documents `http/jobs.rs` for endpoints with jobs. Of the paths of an
//! application below its jobs those are listed that it says it serves by `POST`, without parameters; the
//! forms of other systems are in `job_forms.rs`.
//! In: an endpoint. Out: its operations.

use serde_json::{Value, json};

use super::answers::{Path, Paths, error_free, header, json_ok, with_errors};
use super::application::identifier;
use super::values::{list, text};
use crate::endpoint::config::EndpointConfig;
use crate::error::Code;
use crate::jobs::{JobState, LAST_PRIORITY, LONGEST_KEY, MOST_LISTED, Mode, WebhookState};
use crate::rollout::deployment::Deployment;
use crate::server::served::Served;

/// An id, as JSON Schema has patterns.
const ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// A duration in a header, in the one form that is documented.
const TIME: &str = "^[1-9][0-9]{0,5}s$";

/// Why a submission is no job.
pub(in crate::server) const REFUSED: [Code; 8] = [
    Code::InvalidInput,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::IdempotencyConflict,
    Code::JobsFull,
    Code::Overloaded,
    Code::ShuttingDown,
    Code::RequestTimeout,
];

pub(super) fn paths(served: &Served) -> Paths<'_> {
    let endpoints = served.endpoints.iter().filter(|endpoint| endpoint.config.jobs.mode != Mode::Off);
    Box::new(endpoints.flat_map(|endpoint| of_one(&endpoint.config).into_iter().chain(own_paths(endpoint))))
}

/// `POST <endpoint>/jobs/<path>`, of an application.
fn own_paths(endpoint: &Deployment) -> Vec<Path> {
    let (config, current) = (&endpoint.config, endpoint.current());
    let is_listed =
        |path: &str| path != "/" && !path.contains('{') && !config.paths.iter().any(|given| given == path);
    let posts = current.operations().iter().filter(|it| it.method == "POST" && is_listed(&it.path));
    let paths = posts.map(|operation| {
        let submit = submit(config, &format!("submit{}", identifier(&operation.path)));
        (format!("{}{}", config.jobs_path(), operation.path), json!({ "post": submit }))
    });
    paths.collect()
}

fn of_one(config: &EndpointConfig) -> Vec<Path> {
    let base = config.jobs_path();
    let job = || json!({ "application/json": { "schema": job() } });
    let mut looked = operation(config, "job", "a job", error_free("The job.", &job()), &[Code::NotFound]);
    add(&mut looked, "parameters", json!([id()]));
    let mut cancelled =
        operation(config, "cancel", "cancels a job", error_free("The job.", &job()), &[Code::NotFound]);
    add(&mut cancelled, "parameters", json!([id()]));
    let again = [Code::InvalidInput, Code::NotFound];
    let sent = error_free("The job, whose message is sent again.", &job());
    let mut again = accepted(operation(config, "webhook", "sends a job's webhook again", sent, &again));
    add(&mut again, "parameters", json!([id()]));
    vec![
        (base.clone(), json!({ "post": submit(config, "submit"), "get": listed(config) })),
        (format!("{base}/{{id}}"), json!({ "get": looked, "delete": cancelled })),
        (format!("{base}/{{id}}/result"), json!({ "get": result(config) })),
        (format!("{base}/{{id}}/webhook"), json!({ "post": again })),
    ]
}

/// An operation that ends in `ok`, one of `codes`, or because the store cannot be used.
pub(in crate::server) fn operation(
    config: &EndpointConfig,
    id: &str,
    what: &str,
    ok: Value,
    codes: &[Code],
) -> Value {
    let name = &config.name;
    let codes = [codes, &[Code::MethodNotAllowed, Code::JobsUnavailable, Code::Internal]].concat();
    json!({
        "operationId": format!("{name}.jobs.{id}"),
        "tags": [name],
        "summary": format!("{name}: {what}"),
        "responses": with_errors(ok, &codes, false),
    })
}

pub(in crate::server) fn add(operation: &mut Value, name: &str, value: Value) {
    if let Value::Object(operation) = operation {
        operation.insert(name.to_owned(), value);
    }
}

/// An operation whose answer is 202.
fn accepted(operation: Value) -> Value {
    answered(operation, "202")
}

/// An operation whose answer has this status.
pub(in crate::server) fn answered(mut operation: Value, status: &str) -> Value {
    if let Some(Value::Object(answers)) = operation.get_mut("responses")
        && let Some(ok) = answers.remove("200")
    {
        answers.insert(status.to_owned(), ok);
    }
    operation
}

/// `POST <endpoint>/jobs`, under this id.
fn submit(config: &EndpointConfig, id: &str) -> Value {
    let mut stored =
        error_free("The job, which is stored.", &json!({ "application/json": { "schema": job() } }));
    let location = json!({ "description": "Its path.", "required": true, "schema": text() });
    add(&mut stored, "headers", json!({ "x-request-id": header("x-request-id"), "location": location }));
    let mut operation = accepted(operation(config, id, "submits a job", stored, &REFUSED));
    let optional = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "header", "description": description, "schema": schema });
    let whole = |least: u32, most: u32| json!({ "type": "integer", "minimum": least, "maximum": most });
    let time = json!({ "type": "string", "pattern": TIME, "examples": ["90s"] });
    let key = json!({ "type": "string", "pattern": format!("^[!-~]{{1,{LONGEST_KEY}}}$") });
    let mut parameters = vec![
        optional("idempotency-key", "A second submission with the same key is the same job.", key),
        optional("x-modelhost-job-priority", "0 comes first.", whole(0, u32::from(LAST_PRIORITY))),
        optional("x-modelhost-job-delay", "Not before this time is over.", time.clone()),
        optional("x-modelhost-job-wait", "Fails if it has not begun after this time.", time),
        optional("x-modelhost-job-attempts", "How often it is tried.", whole(1, config.jobs.attempts)),
    ];
    if !config.capabilities.outbound.0.is_empty() {
        let description = "Where the result is sent: on the endpoint's list.";
        parameters.push(optional("x-modelhost-job-webhook", description, text()));
    }
    add(&mut operation, "parameters", parameters.into());
    let description = "The request that the job is: what the endpoint itself takes by `POST`.";
    let content = json!({ "application/json": { "schema": {} }, "*/*": { "schema": {} } });
    add(&mut operation, "requestBody", json!({ "description": description, "content": content }));
    operation
}

/// `GET <endpoint>/jobs`.
fn listed(config: &EndpointConfig) -> Value {
    let next = json!({ "type": ["string", "null"], "description": "The `after` of the next page." });
    let page = json!({
        "type": "object",
        "properties": { "jobs": list(&job()), "next": next },
        "required": ["jobs", "next"],
    });
    let ok = json_ok("A page of jobs, the last submitted first.", &page);
    let mut operation = operation(config, "list", "its jobs", ok, &[Code::InvalidInput, Code::Overloaded]);
    let uuid = json!({ "type": "string", "pattern": ID });
    let parameters = [
        ("limit", json!({ "type": "integer", "minimum": 1, "maximum": MOST_LISTED })),
        ("after", uuid.clone()),
        ("state", json!({ "enum": JobState::ALL.map(JobState::name) })),
        ("webhook", json!({ "enum": WebhookState::ALL.map(WebhookState::name) })),
        ("batch", uuid),
    ];
    let parameters =
        parameters.map(|(name, schema)| json!({ "name": name, "in": "query", "schema": schema }));
    add(&mut operation, "parameters", json!(parameters));
    operation
}

/// `GET <endpoint>/jobs/<id>/result`.
fn result(config: &EndpointConfig) -> Value {
    let anything = json!({ "*/*": {} });
    let ok = error_free("The answer to the job.", &anything);
    let codes = [Code::NotFound, Code::Overloaded];
    let mut operation = operation(config, "result", "the result of a job", ok, &codes);
    let waiting =
        error_free("The job, which is not finished.", &json!({ "application/json": { "schema": job() } }));
    if let Some(Value::Object(answers)) = operation.get_mut("responses") {
        answers.insert("202".to_owned(), waiting);
        answers.insert("default".to_owned(), error_free("The answer to the job.", &anything));
    }
    add(&mut operation, "parameters", json!([id()]));
    operation
}

pub(in crate::server) fn id() -> Value {
    json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string", "pattern": ID } })
}

/// A job, as `workers/view.rs` writes it.
fn job() -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    let webhook = json!({
        "type": "object",
        "properties": {
            "url": text(),
            "state": { "enum": WebhookState::ALL.map(WebhookState::name) },
            "attempts": count,
            "error": text(),
            "due": text(),
        },
        "required": ["url", "state", "attempts"],
    });
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "pattern": ID },
            "state": { "enum": JobState::ALL.map(JobState::name) },
            "path": text(),
            "batch": text(),
            "priority": count,
            "attempt": { "type": "integer", "minimum": 0, "description": "Attempts that have begun." },
            "attempts": count,
            "submitted": text(),
            "changed": text(),
            "due": text(),
            "error": text(),
            "status": { "type": "integer", "description": "That of the answer." },
            "result": { "type": "string", "description": "Where the answer is." },
            "webhook": webhook,
        },
        "required": ["id", "state", "priority", "attempt", "attempts", "submitted", "changed"],
    })
}
