//! Signs every answer with `a`, in both functions: `{"pre": "a", "post": "a"}`. Runs with the model `add` or none.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};

struct Version;

export!(Version);

impl Handler for Version {
    fn new() -> Self {
        Version
    }

    fn pre_inference(&mut self, _sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        Ok(guests::version::sign(1.0))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        guests::version::report(&prediction, "a")
    }
}
