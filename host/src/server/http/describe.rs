//! What an endpoint takes: `GET <endpoint>` and `GET <endpoint>/signature`.
//!
//! Place in the flow: beside it; reads the model's signature, runs nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use super::Target;
use crate::tensor::{Extent, TensorSpec};

const MESSAGE: &str = "make a prediction by sending a post request to this endpoint with a json sample";

/// `GET <endpoint>`.
pub(super) async fn describe(State(target): State<Arc<Target>>) -> Json<Value> {
    let model = target.endpoint.model();
    Json(json!({
        "model_signature": specs(model.map(|model| model.signature().inputs.as_slice())),
        "model_outputs": specs(model.map(|model| model.signature().outputs.as_slice())),
        "message": MESSAGE,
    }))
}

/// `GET <endpoint>/signature`.
pub(super) async fn signature(State(target): State<Arc<Target>>) -> Json<Value> {
    let inputs = target.endpoint.model().map(|model| model.signature().inputs.as_slice());
    Json(json!({ "signature": specs(inputs) }))
}

/// `{"input": {"shape": ["N", 4], "type": "float32"}}`; a free extent without a name is -1.
fn specs(specs: Option<&[TensorSpec]>) -> Value {
    let describe = |spec: &TensorSpec| {
        let shape: Vec<Value> = spec
            .shape
            .iter()
            .map(|extent| match extent {
                Extent::Fixed(fixed) => json!(fixed),
                Extent::Free(Some(name)) => json!(&**name),
                Extent::Free(None) => json!(-1),
            })
            .collect();
        (spec.name.to_string(), json!({ "shape": shape, "type": spec.datatype.numpy_name() }))
    };
    Value::Object(specs.unwrap_or_default().iter().map(describe).collect::<Map<_, _>>())
}
