//! Answers with what the endpoint tells a handler about itself: `{"metadata": …, "signature": {"inputs": […],
//! "outputs": […]}}`. Does so in `pre_inference`, so that any model will do.

use modelhost_guest::{Context, Error, Handler, Response, Result, Sample, Tensor, TensorSpec, export};
use serde_json::{Value, json};

struct Metadata;

export!(Metadata: pre_inference);

impl Handler for Metadata {
    fn new() -> Self {
        Metadata
    }

    fn pre_inference(&mut self, _sample: Sample, context: &Context) -> Result<Vec<Tensor>> {
        let signature = context.signature();
        Err(Error::Respond(Response::json(&json!({
            "metadata": context.metadata::<Value>()?,
            "signature": {"inputs": specs(&signature.inputs), "outputs": specs(&signature.outputs)},
        }))?))
    }
}

fn specs(specs: &[TensorSpec]) -> Vec<Value> {
    let spec =
        |spec: &TensorSpec| json!({"name": spec.name, "datatype": spec.datatype.name(), "shape": spec.shape});
    specs.iter().map(spec).collect()
}
