//! Keeps its processor busy in `pre_inference` for as many milliseconds as the body says; then like `echo`.

use std::time::{Duration, Instant};

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, invalid};

struct Slow;

export!(Slow);

impl Handler for Slow {
    fn new() -> Self {
        Slow
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let start = Instant::now();
        let milliseconds = sample.text()?.parse().map_err(|_| invalid("the body is not a number"))?;
        while start.elapsed() < Duration::from_millis(milliseconds) {}
        Ok(guests::body_tensor(sample))
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        guests::echo(&guests::body_text(&prediction)?, context)
    }
}
