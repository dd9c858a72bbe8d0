//! Models as TensorFlow Serving, KServe's first protocol and Truss call them.
//!
//! Place in the flow: beside it; documents `http/v1.rs` with the models' own names in the paths. The same
//! paths with `/versions/VERSION`, and under the name `model` for a server of one, are answered too and not
//! listed.

use serde_json::{Map, Value, json};

use super::answers::{PROCESS_TAG, Path, Paths, error_free, get, json_ok, with_errors};
use super::endpoint::codes;
use super::values::{self, list, object, text};
use crate::error::Code;
use crate::model::PREDICT_METHOD;
use crate::request::Protocol;
use crate::server::compat::truss;
use crate::server::models::Entry;
use crate::server::served::Served;
use crate::tensor::TensorSpec;

pub(super) fn paths(served: &Served) -> Paths<'_> {
    let names = json!({
        "type": "object",
        "properties": { "models": { "type": "array", "items": { "type": "string" } } },
        "required": ["models"],
    });
    let list = get("v1.models", PROCESS_TAG, "Names of all models", json_ok("All of them.", &names), &[]);
    let all = [("/v1/models".to_owned(), list)];
    Box::new(all.into_iter().chain(served.entries(Some(Protocol::V1)).flat_map(|entry| model(&entry))))
}

fn model(entry: &Entry<'_>) -> Vec<Path> {
    let (name, tag) = (&entry.name, &entry.endpoint.config.name);
    let base = format!("/v1/models/{name}");
    let told = |what: &str, ok: &str, schema: &Value, codes: &[Code]| {
        let summary = format!("{name}: {what} (TensorFlow Serving, Truss)");
        get(&format!("{name}.v1.{what}"), tag, &summary, json_ok(ok, schema), codes)
    };
    let unloaded = [Code::ModelUnloaded];
    let schema_path = format!("{base}/schema");
    let mut paths = vec![
        (format!("{base}:predict"), json!({ "post": predict(entry, "predict") })),
        (format!("{base}:predict_binary"), json!({ "post": predict(entry, "predict_binary") })),
        (format!("{base}/metadata"), told("metadata", "Its signature.", &metadata(), &unloaded)),
        (format!("{base}/loaded"), told("loaded", "It is.", &object(&[]), &unloaded)),
        (
            base,
            told(
                "status",
                "It serves.",
                &status(),
                &[Code::ModelUnloaded, Code::NotReady, Code::ShuttingDown],
            ),
        ),
    ];
    if entry.is_application() {
        paths.retain(|(path, _)| !path.contains(":predict"));
    } else if !entry.inputs().is_empty() {
        let base = format!("/v1/models/{name}");
        let examples = |verb: &str, item: &Value| {
            (format!("{base}:{verb}"), json!({ "post": examples(entry, verb, item) }))
        };
        let class = json!({ "type": "array", "items": { "type": ["string", "number", "null"] } });
        paths.push(examples("classify", &list(&class)));
        paths.push(examples("regress", &json!({ "type": ["number", "null"] })));
    }
    if truss::schema(&entry.endpoint.current()).is_some() {
        paths.push((schema_path, told("schema", "What it takes.", &schema(), &[])));
    }
    paths
}

/// The status, as `tf_serving::ready` writes it.
fn status() -> Value {
    let error = object(&[("error_code", text()), ("error_message", text())]);
    let version = object(&[("version", text()), ("state", text()), ("status", error)]);
    object(&[
        ("name", text()),
        ("ready", json!({ "type": "boolean" })),
        ("model_version_status", list(&version)),
    ])
}

/// The metadata, as `tf_serving::metadata` writes it.
fn metadata() -> Value {
    let map = |of: &Value| json!({ "type": "object", "additionalProperties": of });
    let extent = object(&[("size", text()), ("name", text())]);
    let shape = object(&[("dim", list(&extent)), ("unknown_rank", json!({ "type": "boolean" }))]);
    let tensors = map(&object(&[("name", text()), ("dtype", text()), ("tensor_shape", shape)]));
    let signature = object(&[("inputs", tensors.clone()), ("outputs", tensors), ("method_name", text())]);
    let model = object(&[("name", text()), ("signature_name", text()), ("version", text())]);
    let signatures = object(&[("signature_def", map(&signature))]);
    object(&[("model_spec", model), ("metadata", object(&[("signature_def", signatures)]))])
}

/// The declared schema, as Truss gives it.
fn schema() -> Value {
    object(&[
        ("input_schema", json!({ "type": "object" })),
        ("output_schema", json!({ "type": ["object", "boolean", "null"] })),
        ("supports_streaming", json!({ "type": "boolean" })),
    ])
}

/// `:classify` and `:regress`, whose answer has an `item` for each example.
fn examples(entry: &Entry<'_>, verb: &str, item: &Value) -> Value {
    let name = &entry.name;
    let current = entry.endpoint.current();
    let has_handler = current.stages().is_some();
    let codes = codes(has_handler, !current.models().0.is_empty(), false);
    let answer =
        json_ok("One for each example.", &object(&[("result", list(item)), ("results", list(item))]));
    let mut answers = with_errors(answer, &codes, has_handler);
    if let (Value::Object(answers), true) = (&mut answers, has_handler) {
        answers.insert("default".to_owned(), error_free("What the handler decides.", &json!({ "*/*": {} })));
    }
    let features = |types: Value| {
        let description = "A value, or a list of them, for each feature.";
        json!({ "type": types, "description": description })
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "signature_name": { "type": ["string", "null"] },
            "context": features(json!(["object", "null"])),
            "examples": { "type": "array", "items": features(json!("object")), "minItems": 1 },
        },
        "required": ["examples"],
    });
    let mut content: Map<String, Value> = [("schema".to_owned(), schema)].into_iter().collect();
    if !has_handler && entry.method_name() == PREDICT_METHOD {
        let signature = entry.signature();
        let zeros = |spec: &TensorSpec| {
            let zeros = vec![values::zero(spec.datatype); values::example_length(spec)?];
            Some((spec.name.to_string(), Value::Array(zeros)))
        };
        let example: Option<Map<String, Value>> = signature.required().iter().map(zeros).collect();
        content.extend(example.map(|example| ("example".to_owned(), json!({ "examples": [example] }))));
    }
    json!({
        "operationId": format!("{name}.v1.{verb}"),
        "tags": [entry.endpoint.config.name],
        "summary": format!("{name}: {verb} (TensorFlow Serving)"),
        "requestBody": { "required": true, "content": { "application/json": content } },
        "responses": answers,
    })
}

/// `:predict`, in JSON, and `:predict_binary`, in MessagePack.
fn predict(entry: &Entry<'_>, verb: &str) -> Value {
    let name = &entry.name;
    let current = entry.endpoint.current();
    let stages = current.stages();
    let is_binary = verb == "predict_binary";
    // The path names the model, so there is none to be named wrongly.
    let codes: Vec<Code> = codes(stages.is_some(), !current.models().0.is_empty(), false)
        .into_iter()
        .chain(is_binary.then_some(Code::PluginBadOutput))
        .collect();
    let any = || json!({ "schema": {} });
    let answered = match (is_binary, stages) {
        (_, Some(stages)) if stages.post => json!({ "*/*": {} }),
        (true, _) => json!({ "application/octet-stream": any() }),
        (false, _) => json!({ "application/json": any() }),
    };
    let mut answers = with_errors(error_free("The prediction.", &answered), &codes, stages.is_some());
    if let (Value::Object(answers), true) = (&mut answers, stages.is_some()) {
        answers.insert("default".to_owned(), error_free("What the handler decides.", &json!({ "*/*": {} })));
    }
    let (media_type, description) = match is_binary {
        true => {
            ("application/octet-stream", "The same as `:predict` takes, in MessagePack; so is the answer.")
        }
        false => (
            "application/json",
            "A handler that reads bodies gets it as it is. Otherwise `instances`: a list with an entry for each row; or \
             `inputs`: the inputs as a whole.",
        ),
    };
    let mut content: Map<String, Value> = [("schema".to_owned(), json!({}))].into_iter().collect();
    if !is_binary {
        let declared = current.schema().and_then(|schema| schema.example());
        let reads_json = !stages.unwrap_or_default().pre && entry.model.is_some();
        let made_up = || Some(json!({ "inputs": values::example(&entry.signature())? }));
        let example = declared.or_else(|| reads_json.then(made_up).flatten());
        content.extend(example.map(|example| ("example".to_owned(), example)));
    }
    json!({
        "operationId": format!("{name}.v1.{verb}"),
        "tags": [entry.endpoint.config.name],
        "summary": format!("{name}: {verb} (TensorFlow Serving, Truss)"),
        "requestBody": { "description": description, "required": true, "content": { media_type: content } },
        "responses": answers,
    })
}
