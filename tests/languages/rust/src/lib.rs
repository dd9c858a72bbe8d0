//! Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements.

use std::fs;

use modelhost_guest::{
    Context, Datatype, Element, Handler, Metadata, Response, Result, Sample, Tensor, bf16, export, f16, internal, invalid,
};
use serde::Deserialize;
use serde_json::json;

#[derive(Default)]
struct Everything {
    label: String,
}

export!(Everything: init, pre_inference, post_inference, pre_inference_tensors, post_inference_tensors);

#[derive(Deserialize)]
struct Settings {
    label: String,
}

#[derive(Deserialize)]
struct Order<'a> {
    #[serde(rename = "do")]
    what: &'a str,
}

#[derive(Deserialize)]
struct File {
    greeting: String,
}

impl Handler for Everything {
    fn new() -> Self {
        Everything::default()
    }

    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        self.label = metadata.parse::<Settings>()?.label;
        Ok(())
    }

    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        let order: Order<'_> = sample.json()?;
        let text = match order.what {
            "invalid" => return Err(invalid("as asked")),
            "internal" => return Err(internal("as asked")),
            "respond" => return Err(Response::text("teapot").status(418).into()),
            "file" => {
                let text = fs::read("/mnt/project/greeting.json").map_err(|error| internal(error.to_string()))?;
                let file: File = serde_json::from_slice(&text).map_err(|error| internal(error.to_string()))?;
                file.greeting
            }
            other => other.to_owned(),
        };
        Ok(vec![Tensor::from_bytes("text", [1], [text.as_str()])])
    }

    fn post_inference(&mut self, outputs: Vec<Tensor>, _: &Context) -> Result<Response> {
        let answer = Tensor::named(&outputs, "text")?.strings()?.concat();
        Response::json(&json!({ "answer": answer, "label": self.label }))
    }

    fn pre_inference_tensors(&mut self, sample: Vec<Tensor>, _: &Context) -> Result<Vec<Tensor>> {
        sample.iter().map(again).collect()
    }

    fn post_inference_tensors(&mut self, outputs: Vec<Tensor>, _: &Context) -> Result<Vec<Tensor>> {
        outputs.iter().map(again).collect()
    }
}

fn of<T: Element>(it: &Tensor) -> Result<Tensor> {
    Ok(Tensor::new(it.name.clone(), it.shape.clone(), &it.values::<T>()?))
}

fn again(it: &Tensor) -> Result<Tensor> {
    match it.datatype {
        Datatype::Bool => of::<bool>(it),
        Datatype::Uint8 => of::<u8>(it),
        Datatype::Uint16 => of::<u16>(it),
        Datatype::Uint32 => of::<u32>(it),
        Datatype::Uint64 => of::<u64>(it),
        Datatype::Int8 => of::<i8>(it),
        Datatype::Int16 => of::<i16>(it),
        Datatype::Int32 => of::<i32>(it),
        Datatype::Int64 => of::<i64>(it),
        Datatype::Fp16 => of::<f16>(it),
        Datatype::Bf16 => of::<bf16>(it),
        Datatype::Fp32 => of::<f32>(it),
        Datatype::Fp64 => of::<f64>(it),
        Datatype::Bytes => Ok(Tensor::from_bytes(it.name.clone(), it.shape.clone(), it.strings()?)),
    }
}
