//! Computes in `pre_inference` for as many thousand rounds of a generator as the body says; then like `echo`.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, invalid};

struct Compute;

export!(Compute);

impl Handler for Compute {
    fn new() -> Self {
        Compute
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let rounds: u64 = sample.text()?.parse().map_err(|_| invalid("the body is not a number"))?;
        let mut state = rounds + 1;
        for _ in 0..rounds * 1000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        std::hint::black_box(state);
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        guests::echo(&guests::body_text(&prediction)?, context)
    }
}
