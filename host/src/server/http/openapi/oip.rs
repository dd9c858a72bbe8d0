//! The Open Inference Protocol, version 2, with Triton's extensions: inference and everything that is told of
//! models.
//!
//! Place in the flow: beside it; documents `http/v2.rs` and the files beside it, with the models' own names
//! in the paths. The same paths with `/versions/VERSION` are answered too and not listed: there is one
//! version of each model.
//! In: what clients call models (`server/models.rs`). Out: their operations.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answers::{HANDLER_CODES, PROCESS_TAG, Path, Paths, error_free, get, json_ok, with_errors};
use super::values::{self, list, object, one_of, text};
use crate::error::Code;
use crate::model::sequences::LONGEST_ID;
use crate::request::Protocol;
use crate::schema::{self, Input, Schema};
use crate::server::models::Entry;
use crate::server::served::Served;
use crate::tensor::{Datatype, Signature, TensorSpec};

pub(super) fn paths(served: &Served) -> Paths<'_> {
    let models = served.entries(Some(Protocol::V2)).flat_map(|entry| model(&entry, served));
    let index = json!({
        "type": "array",
        "items": object(&[("name", text()), ("version", text()), ("state", text()), ("reason", text())]),
    });
    let server = object(&[("name", text()), ("version", text()), ("extensions", list(&text()))]);
    let of_all = [
        (
            "/v2".to_owned(),
            get(
                "v2.server",
                PROCESS_TAG,
                "Open Inference Protocol: the server",
                json_ok("What it speaks.", &server),
                &[],
            ),
        ),
        (
            "/v2/models/stats".to_owned(),
            get("v2.stats", PROCESS_TAG, "Statistics of all models", json_ok(STATISTICS, &statistics()), &[]),
        ),
        ("/v2/repository/index".to_owned(), {
            let request = json!({ "type": "object", "properties": { "ready": { "type": "boolean" } } });
            order("v2.index", PROCESS_TAG, "All models", &request, &index)
        }),
    ];
    Box::new(models.chain(of_all))
}

const STATISTICS: &str = "Requests and the time they took, since the start.";

fn model(entry: &Entry<'_>, served: &Served) -> Vec<Path> {
    let (name, tag) = (&entry.name, &entry.endpoint.config.name);
    let base = format!("/v2/models/{name}");
    let unloaded = [Code::ModelUnloaded];
    let told = |what: &str, summary: &str, ok: &str, schema: Value, codes: &[Code]| {
        get(&format!("{name}.v2.{what}"), tag, &format!("{name}: {summary}"), json_ok(ok, &schema), codes)
    };
    let readiness = object(&[("name", json!({ "const": name })), ("ready", json!({ "type": "boolean" }))]);
    let mut ready = told("ready", "whether it is ready", "It is.", readiness.clone(), &[]);
    // Not an error: the answer to the question.
    if let Some(Value::Object(answers)) = ready.pointer_mut("/get/responses") {
        answers.insert("503".to_owned(), json_ok("It is not.", &readiness));
    }
    let config = object(&[
        ("name", json!({ "const": name })),
        ("platform", text()),
        ("max_batch_size", json!({ "type": "integer" })),
    ]);
    let mut paths = vec![
        (format!("{base}/infer"), json!({ "post": infer(entry) })),
        (format!("{base}/ready"), ready),
        (
            format!("{base}/config"),
            told("config", "configuration as Triton has it", "As far as there is any.", config, &unloaded),
        ),
        (format!("{base}/stats"), told("stats", "statistics", STATISTICS, statistics(), &[])),
        (
            base,
            told("metadata", "inputs and outputs", "As the protocol names them.", metadata(name), &unloaded),
        ),
    ];
    if entry.is_application() {
        let infer = format!("/v2/models/{name}/infer");
        paths.retain(|(path, _)| *path != infer);
    }
    if served.config.model_control {
        for (verb, what) in [("load", "Load it as its files are now"), ("unload", "Take it out of service")] {
            let request = json!({ "type": "object", "properties": { "parameters": { "type": "object" } } });
            let id = format!("{name}.v2.{verb}");
            let mut item =
                order(&id, tag, &format!("{name}: {what}"), &request, &json!({ "type": "object" }));
            if let Some(Value::Object(answers)) = item.pointer_mut("/post/responses") {
                answers.insert(
                    "403".to_owned(),
                    json_ok("Orders of web pages are not taken.", &json!({ "type": "object" })),
                );
            }
            paths.push((format!("/v2/repository/models/{name}/{verb}"), item));
        }
    }
    paths
}

fn order(id: &str, tag: &str, summary: &str, request: &Value, answer: &Value) -> Value {
    let codes = [Code::InvalidInput, Code::MethodNotAllowed, Code::BodyTooLarge];
    json!({
        "post": {
            "operationId": id,
            "tags": [tag],
            "summary": summary,
            "requestBody": { "content": { "application/json": { "schema": request, "example": {} } } },
            "responses": with_errors(json_ok("Done.", answer), &codes, false),
        },
    })
}

fn metadata(name: &str) -> Value {
    let tensor = object(&[
        ("name", text()),
        ("datatype", json!({ "enum": Datatype::ALL.map(Datatype::name) })),
        ("shape", json!({ "type": "array", "items": { "type": "integer", "minimum": -1 } })),
    ]);
    object(&[
        ("name", json!({ "const": name })),
        ("versions", list(&text())),
        ("platform", text()),
        ("inputs", list(&tensor)),
        ("outputs", list(&tensor)),
    ])
}

fn statistics() -> Value {
    object(&[(
        "model_stats",
        list(&object(&[
            ("name", text()),
            ("version", text()),
            ("inference_stats", json!({ "type": "object" })),
        ])),
    )])
}

/// `POST …/infer`.
fn infer(entry: &Entry<'_>) -> Value {
    let name = &entry.name;
    let current = entry.endpoint.current();
    let stages = current.stages();
    // A handler for tensors may want others than its model does; of one that works alone nothing is known.
    let takes = match current.schema_of_tensors() {
        Some(schema) => Takes::Declared(schema),
        None if stages.is_some_and(|stages| stages.pre_tensors) || entry.model.is_none() => Takes::Anything,
        None => Takes::Model(entry.signature()),
    };
    let mut codes = vec![
        Code::InvalidInput,
        Code::MethodNotAllowed,
        Code::BodyTooLarge,
        Code::UnsupportedMediaType,
        Code::Overloaded,
        Code::ShuttingDown,
        Code::RequestTimeout,
        Code::Internal,
    ];
    if stages.is_some() {
        codes.extend(HANDLER_CODES);
    }
    if entry.model.is_some() {
        codes.extend([Code::ModelError, Code::ModelUnloaded]);
    }
    let mut answers = with_errors(inferred(name), &codes, stages.is_some());
    if let (Value::Object(answers), true) = (&mut answers, stages.is_some()) {
        answers.insert("default".to_owned(), error_free("What the handler decides.", &json!({ "*/*": {} })));
    }
    json!({
        "operationId": format!("{name}.v2.infer"),
        "tags": [entry.endpoint.config.name],
        "summary": format!("{name}: infer (Open Inference Protocol)"),
        "requestBody": request(&takes, entry.keeps_state(&current)),
        "responses": answers,
    })
}

/// The source of the tensors that are wanted.
enum Takes<'a> {
    Declared(&'a Schema),
    Model(Arc<Signature>),
    Anything,
}

/// `in_sequence`: the model keeps state, so that a request belongs to a sequence.
fn request(takes: &Takes<'_>, in_sequence: bool) -> Value {
    let (specs, least) = match takes {
        Takes::Declared(schema) => {
            (schema.signature().inputs, schema.inputs.iter().filter(|input| input.required).count())
        }
        Takes::Model(signature) => (signature.inputs.clone(), signature.required().len()),
        Takes::Anything => (Vec::new(), 0),
    };
    let any = || tensor(&text(), &json!({ "enum": Datatype::ALL.map(Datatype::name) }), json!({}));
    let mut inputs = match specs.as_slice() {
        [] => list(&any()),
        // A tensor of any name binds to a model's only input.
        [only] if matches!(takes, Takes::Model(_)) => list(&input(only, &text())),
        specs => list(&one_of(specs.iter().map(|spec| input(spec, &json!({ "const": spec.name }))))),
    };
    if let (Value::Object(inputs), false) = (&mut inputs, specs.is_empty()) {
        inputs.insert("minItems".to_owned(), least.into());
        inputs.insert("maxItems".to_owned(), specs.len().into());
    }
    let output = json!({
        "type": "object",
        "properties": { "name": text(), "parameters": { "type": "object" } },
        "required": ["name"],
    });
    let parameters = json!({ "type": ["object", "null"], "description": "The handler's to read." });
    let schema = json!({
        "type": "object",
        "properties": {
            "id": { "type": ["string", "null"], "description": "Comes back in the answer." },
            "parameters": if in_sequence { sequence() } else { parameters },
            "inputs": inputs,
            "outputs": {
                "type": ["array", "null"],
                "items": output,
                "description": "Which outputs to return; all of them without this.",
            },
        },
        "required": if in_sequence { json!(["inputs", "parameters"]) } else { json!(["inputs"]) },
    });
    let mut json: Map<String, Value> = [("schema".to_owned(), schema)].into_iter().collect();
    let example = match takes {
        Takes::Declared(schema) => declared_example(schema),
        Takes::Model(signature) => example(signature.required()),
        Takes::Anything => None,
    };
    let example = example.map(|mut example| {
        if let (true, Value::Object(example)) = (in_sequence, &mut example) {
            let alone = json!({ "sequence_id": 1, "sequence_start": true, "sequence_end": true });
            example.insert("parameters".to_owned(), alone);
        }
        example
    });
    json.extend(example.map(|example| ("example".to_owned(), example)));
    let description = "Tensors, each with as many elements as its shape says. With the binary tensor data extension the body is \
                       that JSON, as long as `Inference-Header-Content-Length` says, then the tensors' bytes.";
    json!({ "description": description, "required": true, "content": { "application/json": json } })
}

/// The parameters of a request in a sequence.
fn sequence() -> Value {
    let flag = |description: &str| json!({ "type": "boolean", "description": description });
    let number = json!({ "type": "integer", "not": { "const": 0 } });
    let name = json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_ID });
    let id = json!({ "anyOf": [number, name], "description": "Whose state the model is given." });
    json!({
        "type": "object",
        "description": "The sequence, and what else is the handler's to read.",
        "properties": {
            "sequence_id": id,
            "sequence_start": flag("The first request: the state is zeros."),
            "sequence_end": flag("The last one: the state is kept no longer."),
        },
        "required": ["sequence_id"],
    })
}

/// One input. Its shape is the one that is wanted, or for a model any of as many elements.
fn input(spec: &TensorSpec, name: &Value) -> Value {
    let element = values::element(spec.datatype);
    let data = json!({ "anyOf": [element, list(&element), list(&list(&element))] });
    let mut schema = tensor(name, &json!({ "const": spec.datatype.name() }), data);
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), format!("`{}`: {spec}", spec.name).into());
    }
    schema
}

fn tensor(name: &Value, datatype: &Value, mut data: Value) -> Value {
    if let Value::Object(data) = &mut data {
        data.insert("description".to_owned(), "Flat, or nested to any depth.".into());
    }
    json!({
        "type": "object",
        "properties": {
            "name": name,
            "datatype": datatype,
            "shape": list(&schema::element(Datatype::Uint64)),
            "data": data,
            "parameters": { "type": "object" },
        },
        "required": ["name", "datatype", "shape", "data"],
    })
}

/// A request of zeros; `None` if it would be too long to be shown, or nothing is known.
fn example(specs: &[TensorSpec]) -> Option<Value> {
    let zeros = |spec: &TensorSpec| {
        let data = vec![values::zero(spec.datatype); values::example_length(spec)?];
        let shape = spec.smallest_shape();
        Some(json!({ "name": spec.name, "datatype": spec.datatype.name(), "shape": shape, "data": data }))
    };
    let inputs: Option<Vec<Value>> = specs.iter().map(zeros).collect();
    inputs.filter(|inputs| !inputs.is_empty()).map(|inputs| json!({ "inputs": inputs }))
}

/// A request of what is declared as examples; `None` without them.
fn declared_example(schema: &Schema) -> Option<Value> {
    let given = |input: &Input| {
        let value = input.example.as_ref()?;
        let nested: Vec<usize> = std::iter::successors(Some(value), |value| value.get(0))
            .map_while(|value| value.as_array().map(Vec::len))
            .collect();
        // A scalar's example is bare, or a list of one.
        let shape = if input.is_scalar() { json!(input.shape) } else { json!(nested) };
        let data = if value.is_array() { value.clone() } else { json!([value]) };
        Some(json!({ "name": input.name, "datatype": input.datatype.name(), "shape": shape, "data": data }))
    };
    let inputs: Vec<Value> = schema.inputs.iter().filter_map(given).collect();
    (!inputs.is_empty()).then(|| json!({ "inputs": inputs }))
}

/// The answer that all went well with.
fn inferred(name: &str) -> Value {
    let output = json!({
        "type": "object",
        "properties": {
            "name": text(),
            "datatype": { "enum": Datatype::ALL.map(Datatype::name) },
            "shape": list(&json!({ "type": "integer", "minimum": 0 })),
            "data": { "type": "array", "items": {} },
            "parameters": { "type": "object" },
        },
        "required": ["name", "datatype", "shape"],
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "id": text(),
            "model_name": { "const": name },
            "model_version": text(),
            "outputs": list(&output),
        },
        "required": ["model_name", "model_version", "outputs"],
    });
    let binary = json!({ "description": "That JSON, then the bytes of the tensors that were asked for as binary data." });
    error_free(
        "The outputs.",
        &json!({ "application/json": { "schema": schema }, "application/octet-stream": { "schema": binary } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Extent, Role};

    fn signature(inputs: &[&str]) -> Signature {
        let shape = vec![Extent::Free(None), Extent::Fixed(4)];
        let spec = |name: &&str| TensorSpec {
            name: (*name).into(),
            datatype: Datatype::Fp32,
            shape: shape.clone(),
            role: Role::Plain,
        };
        Signature { inputs: inputs.iter().map(spec).collect(), outputs: Vec::new() }
    }

    #[test]
    fn a_request_is_documented_by_the_models_inputs() {
        let request = request(&Takes::Model(Arc::new(signature(&["a", "b"]))), false);
        let json = &request["content"]["application/json"];
        let inputs = &json["schema"]["properties"]["inputs"];
        assert_eq!((&inputs["minItems"], &inputs["maxItems"]), (&json!(2), &json!(2)));
        let a = &inputs["items"]["anyOf"][0]["properties"];
        assert_eq!((&a["name"]["const"], &a["datatype"]["const"]), (&json!("a"), &json!("FP32")));
        let example =
            |name| json!({ "name": name, "datatype": "FP32", "shape": [1, 4], "data": [0.0, 0.0, 0.0, 0.0] });
        assert_eq!(json["example"], json!({ "inputs": [example("a"), example("b")] }));
    }

    #[test]
    fn a_request_is_documented_by_what_is_declared() {
        let input = |name: &str, shape: &[i64], required, example: Value| Input {
            name: name.into(),
            datatype: Datatype::Int32,
            shape: shape.to_vec(),
            required,
            example: Some(example),
            description: String::new(),
        };
        let inputs = vec![
            input("a", &[1], true, json!(7)),
            input("b", &[-1, 2], false, json!([[1, 2], [3, 4], [5, 6]])),
        ];
        let request = request(&Takes::Declared(&Schema { inputs }), false);
        let json = &request["content"]["application/json"];
        let inputs = &json["schema"]["properties"]["inputs"];
        assert_eq!((&inputs["minItems"], &inputs["maxItems"]), (&json!(1), &json!(2)));
        let inputs = [
            json!({ "name": "a", "datatype": "INT32", "shape": [1], "data": [7] }),
            json!({ "name": "b", "datatype": "INT32", "shape": [3, 2], "data": [[1, 2], [3, 4], [5, 6]] }),
        ];
        assert_eq!(json["example"], json!({ "inputs": inputs }));
    }

    #[test]
    fn of_a_handler_alone_nothing_is_known() {
        let request = request(&Takes::Anything, false);
        let inputs = &request["content"]["application/json"]["schema"]["properties"]["inputs"];
        assert_eq!(inputs["items"]["properties"]["name"], json!({ "type": "string" }));
        assert_eq!(inputs.get("minItems"), None);
    }
}
