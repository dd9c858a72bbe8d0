//! What an endpoint takes: `GET <endpoint>` and `GET <endpoint>/signature`.
//!
//! Place in the flow: beside it; reads the model's signature, runs nothing.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};

use super::route::EndpointRoute;
use super::{error, health};
use crate::server::head::{credentials, request_id};
use crate::tensor::{Extent, TensorSpec};

const MESSAGE: &str = "make a prediction by sending a post request to this endpoint with a json sample";

/// `GET <endpoint>`.
pub(super) async fn describe(
    State(target): State<Arc<EndpointRoute>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    // The root is also where clients ask whether the server is alive, without a key.
    let is_root = uri.path() == "/" && target.endpoint.config.path != "/";
    if let Some(refusal) = refusal(&target, &headers) {
        return if is_root { health::root().await.into_response() } else { refusal };
    }
    let current = target.endpoint.current();
    let models = &current.models().0;
    let first = models.first().map(|model| &*model.signature);
    let mut answer = json!({
        "model_signature": specs(first.map(|signature| signature.inputs.as_slice())),
        "model_outputs": specs(first.map(|signature| signature.outputs.as_slice())),
        "message": MESSAGE,
    });
    if let (Some(answer), true) = (answer.as_object_mut(), models.len() > 1) {
        let each = models.iter().map(|model| {
            let signature =
                json!({ "inputs": specs(Some(&model.signature.inputs)), "outputs": specs(Some(&model.signature.outputs)) });
            (model.name.to_string(), signature)
        });
        answer.insert("models".to_owned(), Value::Object(each.collect()));
    }
    if let (Some(answer), true) = (answer.as_object_mut(), is_root) {
        answer.insert("status".to_owned(), "alive".into());
    }
    Json(answer).into_response()
}

/// `GET <endpoint>/signature`.
pub(super) async fn signature(State(target): State<Arc<EndpointRoute>>, headers: HeaderMap) -> Response {
    if let Some(refusal) = refusal(&target, &headers) {
        return refusal;
    }
    let current = target.endpoint.current();
    let inputs = current.models().0.first().map(|model| model.signature.inputs.as_slice());
    Json(json!({ "signature": specs(inputs) })).into_response()
}

/// The answer to a client without a key.
fn refusal(target: &EndpointRoute, headers: &HeaderMap) -> Option<Response> {
    let error = target.endpoint.authorize(|| credentials(headers)).err()?;
    let name = Some(target.endpoint.config.name.as_str());
    Some(error::respond(error, &request_id(headers), &target.served, name, Instant::now()))
}

/// `{"input": {"shape": ["N", 4], "type": "float32"}}`; a free extent without a name is -1, an input that
/// may be left out has `"optional": true`.
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
        let mut described = json!({ "shape": shape, "type": spec.datatype.numpy_name() });
        if let (true, Some(described)) = (spec.is_optional(), described.as_object_mut()) {
            described.insert("optional".to_owned(), true.into());
        }
        (spec.name.to_string(), described)
    };
    Value::Object(specs.unwrap_or_default().iter().map(describe).collect::<Map<_, _>>())
}
