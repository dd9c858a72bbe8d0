//! Names irises, any number of them in a request of tensors.
//!
//! In:   `measurements`, FP32 `[flowers, 4]`: in centimetres, or in millimetres if the request's parameter `unit` is `mm`.
//! Out:  `label`, BYTES `[flowers]`, and `probability`, FP32 `[flowers]`.

use modelhost_guest::{
    Context, Datatype, Handler, Input, Metadata, Result, Tensor, handler, internal, invalid,
};
use serde::Deserialize;

/// The endpoint's `metadata` in modelhost.toml.
#[derive(Default, Deserialize)]
struct Settings {
    labels: Vec<String>,
}

/// The request's parameters.
#[derive(Deserialize)]
struct Parameters {
    unit: Option<String>,
}

#[derive(Default)]
struct Irises {
    settings: Settings,
}

#[handler]
impl Handler for Irises {
    /// By this a JSON body becomes tensors too.
    fn input_schema() -> Vec<Input> {
        let input = Input::new("measurements", Datatype::Fp32, [-1, 4]).example([[5.2, 3.6, 1.4, 0.3]]);
        vec![input.description("a row for each flower")]
    }

    /// Runs once, when the handler is loaded.
    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        self.settings = metadata.parse()?;
        Ok(())
    }

    /// From the caller's tensors to the model's.
    fn pre_inference_tensors(&mut self, sample: Vec<Tensor>, context: &Context) -> Result<Vec<Tensor>> {
        let measurements = Tensor::named(&sample, "measurements")?;
        let scale = match context.parameters::<Parameters>()?.unit.as_deref() {
            None | Some("cm") => 1.0,
            Some("mm") => 0.1,
            Some(_) => return Err(invalid("parameter `unit`: expected one of cm, mm")),
        };
        let centimetres: Vec<f32> = measurements.values::<f32>()?.iter().map(|value| value * scale).collect();
        Ok(vec![Tensor::new("input", measurements.shape.clone(), &centimetres)])
    }

    /// From the model's tensors to the caller's.
    fn post_inference_tensors(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Vec<Tensor>> {
        let (mut labels, mut probabilities) = (Vec::new(), Vec::new());
        for row in Tensor::named(&prediction, "probabilities")?.rows::<f32>()?.iter() {
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let (index, probability) = best.ok_or_else(|| internal("a row is empty"))?;
            let label = self.settings.labels.get(index).ok_or_else(|| internal("more classes than labels"))?;
            labels.push(label.as_str());
            probabilities.push(*probability);
        }
        let flowers = labels.len() as u64;
        Ok(vec![
            Tensor::from_bytes("label", [flowers], labels),
            Tensor::new("probability", [flowers], &probabilities),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millimetres_become_centimetres() {
        let context = Context::builder().parameters(serde_json::json!({"unit": "mm"})).build();
        let flowers = vec![Tensor::new("measurements", [1, 4], &[50.0f32, 30.0, 10.0, 0.0])];
        let tensors = Irises::new().pre_inference_tensors(flowers, &context);
        assert_eq!(tensors, Ok(vec![Tensor::new("input", [1, 4], &[5.0f32, 3.0, 1.0, 0.0])]));
    }

    #[test]
    fn each_flower_gets_its_name() {
        let mut irises = Irises::new();
        irises.init(&Metadata::new(r#"{"labels": ["a", "b"]}"#)).unwrap();
        let outputs = vec![Tensor::new("probabilities", [2, 2], &[0.25f32, 0.75, 1.0, 0.0])];
        let answer = irises.post_inference_tensors(outputs, &Context::builder().build()).unwrap();
        let expected = [
            Tensor::from_bytes("label", [2], ["b", "a"]),
            Tensor::new("probability", [2], &[0.75f32, 1.0]),
        ];
        assert_eq!(answer, expected);
    }
}
