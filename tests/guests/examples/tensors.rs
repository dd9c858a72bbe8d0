//! Takes tensors and returns tensors: doubles every FP32 input, upper-cases every BYTES input, passes the rest through, and
//! adds an output `parameters` with the request's parameters. The parameter `refuse` makes it answer with a text instead, of
//! that status, 418 if it is none.

use modelhost_guest::{Context, Datatype, Handler, Response, Result, Tensor, export};
use serde_json::Value;

struct Tensors;

export!(Tensors: pre_inference_tensors, post_inference_tensors);

impl Handler for Tensors {
    fn new() -> Self {
        Tensors
    }

    fn pre_inference_tensors(&mut self, sample: Vec<Tensor>, _: &Context) -> Result<Vec<Tensor>> {
        sample.into_iter().map(changed).collect()
    }

    fn post_inference_tensors(
        &mut self,
        mut prediction: Vec<Tensor>,
        context: &Context,
    ) -> Result<Vec<Tensor>> {
        let parameters: Value = context.parameters()?;
        if let Some(refuse) = parameters.get("refuse") {
            let status = refuse.as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(418);
            return Err(Response::text("teapot").status(status).into());
        }
        prediction.push(Tensor::from_bytes("parameters", [1], [parameters.to_string().as_str()]));
        Ok(prediction)
    }
}

fn changed(tensor: Tensor) -> Result<Tensor> {
    let shape = tensor.shape.clone();
    Ok(match tensor.datatype {
        Datatype::Fp32 => {
            let doubled: Vec<f32> = tensor.values::<f32>()?.iter().map(|value| value * 2.0).collect();
            Tensor::new(tensor.name.clone(), shape, &doubled)
        }
        Datatype::Bytes => {
            let upper: Vec<String> = tensor.strings()?.iter().map(|text| text.to_uppercase()).collect();
            Tensor::from_bytes(tensor.name.clone(), shape, upper.iter().map(String::as_str))
        }
        _ => tensor,
    })
}
