//! Counts in `pre_inference` and tells the count in `post_inference`: `{"n": 3}`.
//!
//! Shows how long an instance lives: under `isolation = "worker"` the count goes on, under `"request"` it is
//! always 1.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::json;

struct Count {
    n: u64,
}

export!(Count);

impl Handler for Count {
    fn new() -> Self {
        Count { n: 0 }
    }

    fn pre_inference(&mut self, _sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        self.n += 1;
        Ok(Vec::new())
    }

    fn post_inference(&mut self, _prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        Response::json(&json!({"n": self.n}))
    }
}
