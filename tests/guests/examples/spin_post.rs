//! Never returns from `post_inference` if the body contains `spin`; otherwise like `echo`.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export};

struct Spin;

export!(Spin);

impl Handler for Spin {
    fn new() -> Self {
        Spin
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        let body = guests::body_text(&prediction)?;
        while body.contains("spin") {}
        guests::echo(&body, context)
    }
}
