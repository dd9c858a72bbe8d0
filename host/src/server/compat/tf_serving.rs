//! What TensorFlow Serving's clients read of a model: its status and its metadata, in the JSON of
//! TensorFlow's messages.
//!
//! Place in the flow: answers of `http/v1.rs`, where KServe's and Truss's clients ask the same paths; its
//! names of datatypes are those of `grpc/tensorflow` too. [`examples`] and [`scores`] are what both do with
//! calls that bring examples.

pub(in crate::server) mod examples;
pub(in crate::server) mod scores;

use serde_json::{Map, Value, json};

use crate::error::{RequestError, Stage};
use crate::server::models::{Entry, TensorMetadata};
use crate::tensor::Datatype;
use crate::text;

/// One object for all three: KServe reads `name` and `ready`, TensorFlow Serving's clients the rest, Truss's
/// the status code.
pub(in crate::server) fn ready(entry: &Entry<'_>) -> Value {
    let version = |version: String| {
        json!({
            "version": version, "state": "AVAILABLE", "status": { "error_code": "OK", "error_message": "" },
        })
    };
    let versions: Vec<Value> = entry.versions().into_iter().rev().map(version).collect();
    json!({ "name": entry.name, "ready": true, "model_version_status": versions })
}

/// As TensorFlow Serving tells it.
pub(in crate::server) fn metadata(entry: &Entry<'_>) -> Value {
    let metadata = entry.metadata();
    let key = entry.signature_key();
    let tensors =
        |tensors: &[TensorMetadata]| Value::Object(tensors.iter().map(tensor).collect::<Map<_, _>>());
    let signature = json!({
        "inputs": tensors(&metadata.inputs), "outputs": tensors(&metadata.outputs),
        "method_name": entry.method_name(),
    });
    json!({
        "model_spec": { "name": metadata.name, "signature_name": "", "version": entry.version() },
        "metadata": { "signature_def": { "signature_def": { key: signature } } },
    })
}

fn tensor(tensor: &TensorMetadata) -> (String, Value) {
    let extent = |extent: &i64| json!({ "size": extent.to_string(), "name": "" });
    let extents: Vec<Value> = tensor.shape.iter().map(extent).collect();
    let told = json!({
        "name": tensor.name, "dtype": dtype(tensor.datatype),
        "tensor_shape": { "dim": extents, "unknown_rank": false },
    });
    (tensor.name.clone(), told)
}

/// TensorFlow's name of a datatype.
pub(in crate::server) fn dtype(datatype: Datatype) -> &'static str {
    match datatype {
        Datatype::Bool => "DT_BOOL",
        Datatype::Uint8 => "DT_UINT8",
        Datatype::Uint16 => "DT_UINT16",
        Datatype::Uint32 => "DT_UINT32",
        Datatype::Uint64 => "DT_UINT64",
        Datatype::Int8 => "DT_INT8",
        Datatype::Int16 => "DT_INT16",
        Datatype::Int32 => "DT_INT32",
        Datatype::Int64 => "DT_INT64",
        Datatype::Fp16 => "DT_HALF",
        Datatype::Bf16 => "DT_BFLOAT16",
        Datatype::Fp32 => "DT_FLOAT",
        Datatype::Fp64 => "DT_DOUBLE",
        Datatype::Bytes => "DT_STRING",
    }
}

/// The refusal of a version by its label.
pub(in crate::server) fn no_label(label: &str) -> RequestError {
    let text = format!(
        "versions have no labels here, so none is `{}`: send `version`, or neither for the one that is served",
        text::shown(label)
    );
    RequestError::invalid(Stage::Admit, text)
}
