//! Embeds one tokenised sentence, for the benchmark. Needs its model `encoder.onnx`, see `tests/bench/models.py`.
//!
//! In:   `{"input_ids": [101, …], "attention_mask": [1, …]}`, one number a token each.
//! Out:  `{"embedding": [0.054, …]}`: the first row of the model's last output.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, internal, invalid};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Tokens {
    input_ids: Vec<i64>,
    attention_mask: Vec<i64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    embedding: &'a [f32],
}

struct Encoder;

export!(Encoder);

impl Handler for Encoder {
    fn new() -> Self {
        Encoder
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let Tokens { input_ids, attention_mask } = sample.json()?;
        if input_ids.len() != attention_mask.len() {
            let (ids, mask) = (input_ids.len(), attention_mask.len());
            return Err(invalid(format!("`input_ids` has {ids} numbers and `attention_mask` has {mask}")));
        }
        let shape = [1, input_ids.len() as u64];
        Ok(vec![
            Tensor::new("input_ids", shape, &input_ids),
            Tensor::new("attention_mask", shape, &attention_mask),
        ])
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let embedding = rows.first().ok_or_else(|| internal("the model's last output has no row"))?;
        Response::json(&Answer { embedding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pre(body: &str) -> Result<Vec<Tensor>> {
        Encoder.pre_inference(Sample::new("application/json", body), &Context::builder().build())
    }

    #[test]
    fn a_sentence_is_one_row_of_both_inputs() {
        let tensors = pre(r#"{"input_ids": [5, 6, 7], "attention_mask": [1, 1, 0]}"#).unwrap();
        let expected = [
            Tensor::new("input_ids", [1, 3], &[5i64, 6, 7]),
            Tensor::new("attention_mask", [1, 3], &[1i64, 1, 0]),
        ];
        assert_eq!(tensors, expected);
    }

    #[test]
    fn a_mask_of_another_length_is_the_callers_mistake() {
        let error = pre(r#"{"input_ids": [5, 6], "attention_mask": [1]}"#).unwrap_err();
        assert_eq!(error, invalid("`input_ids` has 2 numbers and `attention_mask` has 1"));
    }

    #[test]
    fn the_answer_is_the_first_row() {
        let outputs = vec![Tensor::new("embedding", [1, 2], &[0.5f32, -0.25])];
        let response = Encoder.post_inference(outputs, &Context::builder().build()).unwrap();
        assert_eq!(response.body, br#"{"embedding":[0.5,-0.25]}"#);
    }
}
