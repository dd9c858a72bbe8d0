//! Answers with everything it can learn of the request; the body takes the way through both functions.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};

struct Echo;

export!(Echo);

impl Handler for Echo {
    fn new() -> Self {
        Echo
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        guests::echo(&guests::body_text(&prediction)?, context)
    }
}
