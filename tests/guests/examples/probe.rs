//! Keeps the body in the instance from `pre_inference` to `post_inference` and answers with it, and with the one
//! that came through the pipeline: `{"kept": "x", "sent": "x"}`. If they differ, another request was in between.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::json;

struct Probe {
    kept: String,
}

export!(Probe);

impl Handler for Probe {
    fn new() -> Self {
        Probe { kept: String::new() }
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        self.kept = sample.text()?.into_owned();
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        Response::json(&json!({"kept": self.kept, "sent": guests::body_text(&prediction)?}))
    }
}
