//! The Open Inference Protocol, version 2: metadata, readiness and inference of every model.
//!
//! Place in the flow: beside it; documents the protocol's routes with the models' own names in the paths.
//! In: what clients call models (`server/models.rs`). Out: their operations, by the protocol's own rules (its REST document,
//! sections "Server Ready" to "Inference", and the binary tensor data extension).

use serde_json::{Map, Value, json};

use super::Paths;
use super::answers::{json_ok, with_errors};
use crate::error::Code;
use crate::schema;
use crate::server::Served;
use crate::server::models::{Entry, Metadata, TensorMetadata};
use crate::tensor::{Datatype, element_count};

/// Longest example that is made up, in elements of one input.
const LONGEST_EXAMPLE: usize = 64;

pub(super) fn paths(served: &Served) -> Paths {
    served.entries().flat_map(|entry| model(&entry)).collect()
}

fn model(entry: &Entry<'_>) -> Paths {
    let metadata = entry.metadata();
    let name = &metadata.name;
    let base = format!("/v2/models/{name}");
    let tag = &entry.endpoint.config.name;
    let of = |id: &str, summary: &str, answers: Value| {
        json!({
            "operationId": format!("{name}.v2.{id}"),
            "tags": [tag],
            "summary": format!("{name}: {summary}"),
            "responses": answers,
        })
    };
    let has_handler = entry.endpoint.current().digest.is_some();
    let mut infer = of("infer", "infer (Open Inference Protocol)", infer_answers(&metadata, has_handler));
    if let Value::Object(infer) = &mut infer {
        infer.insert("requestBody".to_owned(), infer_request(&metadata));
    }
    let simple = |ok| with_errors(ok, &[Code::NotFound, Code::MethodNotAllowed], false);
    let described = json_ok("Inputs and outputs.", &metadata_schema(&metadata));
    let ready = with_errors(
        json!({ "description": "It is.", "headers": { "x-request-id": { "$ref": "#/components/headers/x-request-id" } } }),
        &[Code::NotFound, Code::MethodNotAllowed, Code::ModelUnloaded],
        false,
    );
    vec![
        (format!("{base}/infer"), json!({ "post": infer })),
        (format!("{base}/ready"), json!({ "get": of("ready", "whether it is ready", ready) })),
        (base, json!({ "get": of("metadata", "metadata (Open Inference Protocol)", simple(described)) })),
    ]
}

fn metadata_schema(metadata: &Metadata) -> Value {
    let tensors = || {
        json!({
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": { "type": "string" },
                    "datatype": { "type": "string" },
                    "shape": { "type": "array", "items": { "type": "integer" } },
                },
                "required": ["name", "datatype", "shape"],
            },
        })
    };
    json!({
        "type": "object",
        "properties": {
            "name": { "const": metadata.name },
            "versions": { "type": "array", "items": { "type": "string" } },
            "platform": { "type": "string" },
            "inputs": tensors(),
            "outputs": tensors(),
        },
        "required": ["name", "platform", "inputs", "outputs"],
    })
}

fn infer_request(metadata: &Metadata) -> Value {
    let any = [any_tensor()];
    let own: Vec<Value> = metadata.inputs.iter().map(tensor).collect();
    // A handler alone says nothing about its inputs.
    let tensors = if own.is_empty() { any.as_slice() } else { own.as_slice() };
    let schema = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "description": "Comes back in the answer." },
            "parameters": { "type": "object", "description": "The handler's to read." },
            "inputs": { "type": "array", "items": { "anyOf": tensors } },
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": { "name": { "type": "string" }, "parameters": { "type": "object" } },
                    "required": ["name"],
                },
                "description": "Which outputs to return; all of them without this.",
            },
        },
        "required": ["inputs"],
    });
    let mut json: Map<String, Value> = [("schema".to_owned(), schema)].into_iter().collect();
    json.extend(example(metadata).map(|example| ("example".to_owned(), example)));
    let binary = json!({
        "schema": { "description": "The same JSON, as long as `Inference-Header-Content-Length` says, then the tensors' bytes." },
    });
    json!({ "required": true, "content": { "application/json": json, "application/octet-stream": binary } })
}

/// One input of a model.
fn tensor(spec: &TensorMetadata) -> Value {
    let extents: Vec<Value> = spec
        .shape
        .iter()
        .map(|extent| match u64::try_from(*extent) {
            Ok(extent) => json!({ "const": extent }),
            Err(_) => json!({ "type": "integer", "minimum": 0 }),
        })
        .collect();
    let mut shape = json!({ "type": "array", "items": { "type": "integer", "minimum": 0 } });
    if let (Value::Object(shape), false) = (&mut shape, extents.is_empty()) {
        shape.insert("minItems".to_owned(), extents.len().into());
        shape.insert("maxItems".to_owned(), extents.len().into());
        shape.insert("prefixItems".to_owned(), extents.into());
    }
    let element = match spec.datatype {
        Datatype::Bytes => json!({ "type": ["string", "number"] }),
        datatype => schema::element(datatype),
    };
    json!({
        "type": "object",
        "properties": {
            "name": { "enum": [spec.name] },
            "datatype": { "const": spec.datatype.name() },
            "shape": shape,
            "data": {
                "type": "array",
                "items": { "anyOf": [element, { "type": "array" }] },
                "description": "Row-major, in one list or nested by the shape.",
            },
            "parameters": { "type": "object" },
        },
        "required": ["name", "datatype", "shape", "data"],
    })
}

/// A tensor of which nothing is known.
fn any_tensor() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "datatype": { "type": "string" },
            "shape": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
            "data": { "type": "array" },
            "parameters": { "type": "object" },
        },
        "required": ["name", "datatype", "shape"],
    })
}

/// A request of zeros; `None` if it would be too long to be shown, or nothing is known.
fn example(metadata: &Metadata) -> Option<Value> {
    let zeros = |spec: &TensorMetadata| {
        let shape: Vec<u64> = spec.shape.iter().map(|extent| u64::try_from(*extent).unwrap_or(1)).collect();
        let elements = element_count(&shape).filter(|elements| *elements <= LONGEST_EXAMPLE)?;
        let zero = match spec.datatype {
            Datatype::Bool => json!(false),
            Datatype::Bytes => json!("text"),
            _ => json!(0),
        };
        let data = vec![zero; elements];
        Some(json!({ "name": spec.name, "datatype": spec.datatype.name(), "shape": shape, "data": data }))
    };
    let inputs: Option<Vec<Value>> = metadata.inputs.iter().map(zeros).collect();
    inputs.filter(|inputs| !inputs.is_empty()).map(|inputs| json!({ "inputs": inputs }))
}

fn infer_answers(metadata: &Metadata, has_handler: bool) -> Value {
    let names: Vec<&str> = metadata.outputs.iter().map(|output| &*output.name).collect();
    let name =
        if names.is_empty() || has_handler { json!({ "type": "string" }) } else { json!({ "enum": names }) };
    let schema = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "model_name": { "const": metadata.name },
            "model_version": { "type": "string" },
            "parameters": { "type": "object" },
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": name,
                        "datatype": { "type": "string" },
                        "shape": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
                        "data": { "type": "array" },
                        "parameters": { "type": "object" },
                    },
                    "required": ["name", "datatype", "shape"],
                },
            },
        },
        "required": ["model_name", "outputs"],
    });
    let mut ok = json_ok("The outputs.", &schema);
    if let Some(Value::Object(content)) = ok.get_mut("content") {
        content.insert("application/octet-stream".to_owned(), json!({}));
    }
    let mut codes = vec![
        Code::InvalidInput,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::BodyTooLarge,
        Code::Overloaded,
        Code::ShuttingDown,
        Code::RequestTimeout,
        Code::ModelUnloaded,
        Code::ModelError,
        Code::Internal,
    ];
    if has_handler {
        codes.extend([
            Code::PluginTrap,
            Code::PluginOutOfMemory,
            Code::PluginBadOutput,
            Code::PluginError,
            Code::PluginTimeout,
        ]);
    }
    with_errors(ok, &codes, has_handler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iris() -> Metadata {
        let tensor = |name: &str, datatype, shape: &[i64]| TensorMetadata {
            name: name.to_owned(),
            datatype,
            shape: shape.to_vec(),
        };
        Metadata {
            name: "iris".to_owned(),
            versions: vec!["1".to_owned()],
            platform: "onnxruntime_onnx",
            inputs: vec![tensor("input", Datatype::Fp32, &[-1, 4])],
            outputs: vec![tensor("label", Datatype::Int64, &[-1])],
            max_batch: 0,
            instances: 1,
        }
    }

    #[test]
    fn a_request_is_documented_by_the_models_inputs() {
        let request = infer_request(&iris());
        let json = &request["content"]["application/json"];
        let input = &json["schema"]["properties"]["inputs"]["items"]["anyOf"][0]["properties"];
        assert_eq!(
            (&input["name"]["enum"], &input["datatype"]["const"]),
            (&json!(["input"]), &json!("FP32"))
        );
        assert_eq!(
            input["shape"]["prefixItems"],
            json!([{ "type": "integer", "minimum": 0 }, { "const": 4 }])
        );
        let example = json!({ "name": "input", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0] });
        assert_eq!(json["example"], json!({ "inputs": [example] }));
    }

    #[test]
    fn a_handler_may_return_other_outputs_than_the_model() {
        let name = |has_handler| {
            let answers = infer_answers(&iris(), has_handler);
            let schema = &answers["200"]["content"]["application/json"]["schema"];
            schema["properties"]["outputs"]["items"]["properties"]["name"].clone()
        };
        assert_eq!((name(false), name(true)), (json!({ "enum": ["label"] }), json!({ "type": "string" })));
    }
}
