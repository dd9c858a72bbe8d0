//! Never returns from `pre_inference` if the body contains `spin`; otherwise like `echo`.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};

struct Spin;

export!(Spin);

impl Handler for Spin {
    fn new() -> Self {
        Spin
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        while sample.text()?.contains("spin") {}
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        guests::echo(&guests::body_text(&prediction)?, context)
    }
}
