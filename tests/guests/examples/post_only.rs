//! The iris handler without its first half, which the component does not export: the JSON body is the model's
//! input. Answers `{"class_index": 0}` for the first row of the last output.

use modelhost_guest::{Context, Handler, Response, Result, Tensor, export, internal};
use serde_json::json;

struct PostOnly;

export!(PostOnly: post_inference);

impl Handler for PostOnly {
    fn new() -> Self {
        PostOnly
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let row = rows.first().unwrap_or_default();
        let largest = row.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
        Response::json(&json!({"class_index": largest.map(|(index, _)| index)}))
    }
}
