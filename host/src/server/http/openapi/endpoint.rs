//! The endpoints themselves: call, description, signature.
//!
//! Place in the flow: beside it; documents `http/classic.rs` and `http/describe.rs`.
//! In: an endpoint's current generation. Out: its operations. A declared schema says what it takes; without
//! one, where the built-in conversion reads the body, the model's signature does; otherwise only its handler
//! knows.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answers::{HANDLER_CODES, Paths, error_free, json_ok, with_errors};
use super::{bodies, values};
use crate::endpoint::generation::Generation;
use crate::error::Code;
use crate::pipeline::models::Named;
use crate::request::Protocol;
use crate::rollout::deployment::Deployment;
use crate::schema::raw_body::RawBody;
use crate::server::served::Served;

pub(super) fn paths(served: &Served) -> Paths<'_> {
    let item = move |endpoint: &Arc<Deployment>| {
        let current = endpoint.current();
        let methods =
            json!({ "post": call(endpoint, &current, served), "get": describe(endpoint, &current) });
        (endpoint.config.path.clone(), methods)
    };
    let speaks = |endpoint: &&Arc<Deployment>| {
        endpoint.config.speaks(Some(Protocol::Http)) && !endpoint.is_application()
    };
    let own = served.endpoints.iter().filter(speaks).map(item);
    let signatures = served.endpoints.iter().filter(speaks).map(|endpoint| {
        let path = format!("{}/signature", endpoint.config.path.trim_end_matches('/'));
        (path, json!({ "get": signature(endpoint) }))
    });
    // As in the router: what is configured goes first.
    Box::new(own.chain(signatures))
}

/// The group of an endpoint's operations.
pub(super) fn tag(endpoint: &Deployment) -> Value {
    let current = endpoint.current();
    let handler = current.digest.as_ref().map(|digest| format!("Handler `{digest}`."));
    let models = current.models().0.iter().map(|model| format!("Model `{}`.", model.name));
    let description: Vec<String> = handler.into_iter().chain(models).collect();
    json!({ "name": endpoint.config.name, "description": description.join(" ") })
}

/// The names of all inputs and outputs of a model with shape and datatype.
fn specs() -> Value {
    let spec = json!({
        "type": "object",
        "properties": {
            "shape": {
                "type": "array",
                "items": { "type": ["integer", "string"] },
                "description": "Outermost first; a free extent has a name or is -1.",
            },
            "type": { "type": "string", "description": "Datatype by numpy's name; `string` for text." },
        },
        "required": ["shape", "type"],
    });
    json!({ "type": "object", "additionalProperties": spec })
}

/// `GET <endpoint>`.
pub(in crate::server) fn describe(endpoint: &Deployment, current: &Generation) -> Value {
    let mut properties =
        json!({ "model_signature": specs(), "model_outputs": specs(), "message": { "type": "string" } });
    if let (Value::Object(properties), true) = (&mut properties, current.models().0.len() > 1) {
        let both = json!({ "type": "object", "properties": { "inputs": specs(), "outputs": specs() } });
        properties.insert("models".to_owned(), json!({ "type": "object", "additionalProperties": both }));
    }
    let required = ["model_signature", "model_outputs", "message"];
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    reading(endpoint, "describe", "what it takes and returns", &schema)
}

/// `GET <endpoint>/signature`.
fn signature(endpoint: &Deployment) -> Value {
    let schema =
        json!({ "type": "object", "properties": { "signature": specs() }, "required": ["signature"] });
    reading(endpoint, "signature", "the inputs of its model", &schema)
}

fn reading(endpoint: &Deployment, operation: &str, what: &str, schema: &Value) -> Value {
    let name = &endpoint.config.name;
    json!({
        "operationId": format!("{name}.{operation}"),
        "tags": [name],
        "summary": format!("{name}: {what}"),
        "responses": with_errors(json_ok("Names, shapes and datatypes.", schema), &[Code::MethodNotAllowed], false),
    })
}

/// `POST <endpoint>`.
fn call(endpoint: &Deployment, current: &Generation, served: &Served) -> Value {
    let name = &endpoint.config.name;
    let mut text = match reads_json(current) {
        _ if current.raw_body().is_some_and(|it| is_form(it)) => "The body is a form. ".to_owned(),
        _ if current.raw_body().is_some() => "The body is a file. ".to_owned(),
        true => {
            "The body is the model's input: an object of inputs, or the value itself if there is only one. "
                .to_owned()
        }
        false => "The body goes to the handler as it is. ".to_owned(),
    };
    if served.endpoints.len() == 1 {
        text.push_str("Also at `/` and `/predict`.");
    }
    operation(&format!("{name}.predict"), &[name], &format!("{name}: predict"), text.trim_end(), &[current])
}

/// A call that one of these answers.
pub(super) fn operation(
    id: &str,
    tags: &[&str],
    summary: &str,
    description: &str,
    generations: &[&Generation],
) -> Value {
    let models: Vec<&Named> = generations.iter().flat_map(|generation| &generation.models().0).collect();
    let has_handler = generations.iter().any(|generation| generation.stages().is_some());
    let has_choice = generations.iter().any(|generation| generation.models().0.len() > 1);
    let mut parameters = vec![json!({
        "name": "debug",
        "in": "query",
        "description": "`true` writes what every stage makes of the request to the log of the host; anything else is ignored.",
        "schema": { "type": "string", "examples": ["true"] },
    })];
    if has_choice {
        let mut names: Vec<&str> = models.iter().map(|model| &*model.name).collect();
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        parameters.push(json!({
            "name": "model",
            "in": "query",
            "description": "Which model; the first by itself.",
            "schema": { "enum": names },
        }));
    }
    let body = same(generations, request).unwrap_or_else(
        || json!({ "description": "What the endpoint that answers reads.", "content": anything_sent() }),
    );
    let ok = same(generations, answered)
        .unwrap_or_else(|| error_free("What the endpoint that answers makes.", &anything()));
    let mut answers = with_errors(ok, &codes(has_handler, !models.is_empty(), has_choice), has_handler);
    if let (Value::Object(answers), true) = (&mut answers, has_handler) {
        answers.insert("default".to_owned(), error_free("What the handler decides.", &anything()));
    }
    json!({
        "operationId": id,
        "tags": tags,
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "requestBody": body,
        "responses": answers,
    })
}

/// The value of `of` for each of them, if it is the same.
fn same(generations: &[&Generation], of: fn(&Generation) -> Value) -> Option<Value> {
    let mut all = generations.iter().map(|generation| of(generation));
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// Whether the built-in conversion reads the body.
fn reads_json(generation: &Generation) -> bool {
    !generation.stages().unwrap_or_default().pre && !generation.models().0.is_empty()
}

/// The errors in which the operation may end, besides those that the handler makes up.
pub(super) fn codes(has_handler: bool, has_model: bool, has_choice: bool) -> Vec<Code> {
    let mut codes =
        vec![Code::InvalidInput, Code::MethodNotAllowed, Code::BodyTooLarge, Code::UnsupportedMediaType];
    if has_choice {
        codes.push(Code::NotFound);
    }
    if has_handler {
        codes.extend(HANDLER_CODES);
    }
    if has_model {
        codes.extend([Code::ModelError, Code::ModelUnloaded]);
    }
    codes.extend([Code::Internal, Code::Overloaded, Code::ShuttingDown, Code::RequestTimeout]);
    codes
}

fn is_form(raw_body: &RawBody) -> bool {
    raw_body.media_types.iter().all(|media_type| bodies::form(media_type).is_some())
}

/// The body of a call.
pub(in crate::server) fn request(current: &Generation) -> Value {
    if let Some(raw_body) = current.raw_body() {
        let body = |media_type: &String| {
            let schema = bodies::form(media_type).unwrap_or_else(bodies::file);
            (media_type.clone(), json!({ "schema": schema }))
        };
        let content: Map<String, Value> = raw_body.media_types.iter().map(body).collect();
        let description = if is_form(raw_body) { "A form." } else { "A file." };
        return json!({ "required": true, "description": description, "content": content });
    }
    let models = &current.models().0;
    let (schema, example) = match current.schema() {
        Some(schema) => {
            (values::declared(schema, current.stages().is_some_and(|stages| stages.pre)), schema.example())
        }
        None if reads_json(current) => {
            // A handler for tensors gets them as they came, and may want other shapes than its model does.
            let as_they_came = current.stages().is_some_and(|stages| stages.pre_tensors);
            let schemas = models.iter().map(|model| match as_they_came {
                true => values::body(&values::shapeless(&model.signature)),
                false => values::body(&model.signature),
            });
            (values::one_of(schemas), models.first().and_then(|model| values::example(&model.signature)))
        }
        None => {
            return json!({ "description": "What the handler reads.", "content": anything_sent() });
        }
    };
    let mut content: Map<String, Value> = [("schema".to_owned(), schema)].into_iter().collect();
    content.extend(example.map(|example| ("example".to_owned(), example)));
    json!({ "required": true, "content": { "application/json": content } })
}

/// The answer that all went well with.
fn answered(current: &Generation) -> Value {
    let handler = current.stages().unwrap_or_default();
    if handler.post {
        return error_free("The handler's answer.", &anything());
    }
    let schema = match current.models().0.as_slice() {
        _ if handler.post_tensors => {
            json!({ "type": "object", "description": "The handler's tensors by name." })
        }
        [] => json!({ "type": "array", "items": {}, "description": "The handler's tensors." }),
        models => values::one_of(models.iter().map(|model| values::outputs(&model.signature))),
    };
    json_ok("The outputs.", &schema)
}

/// Any media type.
fn anything() -> Value {
    json!({ "*/*": {} })
}

/// Any media type, with JSON for a start: most handlers read it. Swagger UI offers no field for a body that
/// has no schema.
fn anything_sent() -> Value {
    json!({ "application/json": { "schema": {} }, "*/*": { "schema": {} } })
}
