//! Counts its requests, `{"n": 2}`, and dies in `post_inference` if the body is `die`, in the middle of a count.
//!
//! Shows that an instance that died is never lent again: the count begins anew.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};
use serde_json::json;

struct Mortal {
    n: u64,
}

export!(Mortal);

impl Handler for Mortal {
    fn new() -> Self {
        Mortal { n: 0 }
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        self.n += 1;
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        if guests::body_text(&prediction)? == "die" {
            std::process::abort();
        }
        Response::json(&json!({"n": self.n}))
    }
}
