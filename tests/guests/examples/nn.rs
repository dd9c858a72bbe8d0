//! Runs its endpoint's models by `wasi:nn`, as a component does that was made for other hosts: a pair of numbers for each input
//! of the model that the body names. Answers with what came of it.

#![allow(clippy::indexing_slicing, reason = "a guest of tests, which sees what it is sent")]

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

use bindings::wasi::nn::errors::Error;
use bindings::wasi::nn::graph::{ExecutionTarget, GraphEncoding, load, load_by_name};
use bindings::wasi::nn::tensor::{Tensor as NnTensor, TensorType};

mod bindings {
    wit_bindgen::generate!({ path: "../../host/crates/sandbox/wit/nn", world: "ml" });
}

struct Nn;

export!(Nn: pre_inference);

impl Handler for Nn {
    fn new() -> Self {
        Nn
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let order: Value = sample.json()?;
        let model = order["model"].as_str().unwrap_or_default();
        let answer = match order["do"].as_str().unwrap_or_default() {
            "load" => told(
                load(&[b"bytes".to_vec()], GraphEncoding::Onnx, ExecutionTarget::Cpu)
                    .map(|_| json!("loaded")),
            ),
            "run" => told(run(model, &order)),
            "hold" => {
                let number = order["times"].as_u64().unwrap_or_default();
                let held: Vec<NnTensor> =
                    (0..number).map(|_| NnTensor::new(&[1], TensorType::U8, &[1])).collect();
                json!(held.len())
            }
            "fill" => told(fill(model, &order)),
            "leak" => {
                let mut held = Vec::new();
                loop {
                    held.push(load_by_name(model));
                }
            }
            other => json!(format!("cannot `{other}`")),
        };
        Err(Response::json(&answer)?.into())
    }
}

fn run(model: &str, order: &Value) -> Result<Value, Error> {
    let context = load_by_name(model)?.init_execution_context()?;
    let inputs = order["inputs"].as_array().into_iter().flatten().map(|input| {
        let values: Vec<u8> = input["values"].as_array().into_iter().flatten().flat_map(bytes).collect();
        let extent = input["extent"].as_u64().unwrap_or(2) as u32;
        let name = input["name"].as_str().unwrap_or_default().to_owned();
        (name, NnTensor::new(&[extent], TensorType::Fp32, &values))
    });
    let outputs = context.compute(inputs.collect())?;
    let shown = outputs.iter().map(|(name, tensor)| {
        let data = tensor.data();
        let (values, _) = data.as_chunks();
        let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        json!([name, tensor.dimensions(), format!("{:?}", tensor.ty()), values])
    });
    Ok(shown.collect())
}

/// Holds so many tensors of so many bytes, and runs the model on the last one.
fn fill(model: &str, order: &Value) -> Result<Value, Error> {
    let [times, length] = ["times", "bytes"].map(|name| order[name].as_u64().unwrap_or_default());
    let data = vec![1; length as usize];
    let mut held: Vec<NnTensor> =
        (0..times).map(|_| NnTensor::new(&[length as u32], TensorType::U8, &data)).collect();
    let context = load_by_name(model)?.init_execution_context()?;
    let last = held.pop().into_iter().map(|last| ("x".to_owned(), last)).collect();
    Ok(json!([held.len(), context.compute(last)?.len()]))
}

fn bytes(number: &Value) -> [u8; 4] {
    (number.as_f64().unwrap_or_default() as f32).to_le_bytes()
}

fn told(result: Result<Value, Error>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": [format!("{:?}", error.code()), error.data()] }),
    }
}
