//! A model of Truss's: `{"prompt": "ab", "n": 2}` becomes `{"generated_text": "abab"}`, any other JSON comes back as it is.
//! `{"status": 418}` is answered with that status.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::{Value, json};

struct Model {
    input: Value,
}

export!(Model);

impl Handler for Model {
    fn new() -> Self {
        Model { input: Value::Null }
    }

    fn pre_inference(&mut self, sample: Sample, _: &Context) -> Result<Vec<Tensor>> {
        assert_eq!(sample.content_type, "application/json");
        self.input = sample.json()?;
        Ok(Vec::new())
    }

    fn post_inference(&mut self, _: Vec<Tensor>, _: &Context) -> Result<Response> {
        let number = |key| self.input.get(key).and_then(Value::as_u64);
        if let Some(status) = number("status") {
            return Ok(Response::json(&self.input)?.status(status as u16));
        }
        match self.input.get("prompt").and_then(Value::as_str) {
            Some(prompt) => {
                let times = number("n").unwrap_or(1);
                Response::json(&json!({ "generated_text": prompt.repeat(times as usize) }))
            }
            None => Response::json(&self.input),
        }
    }
}
