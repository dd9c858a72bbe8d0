//! Hands the host a lot at once: `tensors 100000`, so many tensors of one element; `invalid 50000000` and `internal 50000000`,
//! an error text of so many bytes. Any other body: as `echo`.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, internal, invalid};

struct Large;

export!(Large);

impl Handler for Large {
    fn new() -> Self {
        Large
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let text = sample.text()?.into_owned();
        let (what, count) = text.split_once(' ').unwrap_or_default();
        let count: usize = count.parse().unwrap_or_default();
        match what {
            "tensors" => Ok(vec![Tensor::new("t", [1], &[0u8]); count]),
            "invalid" => Err(invalid("x".repeat(count))),
            "internal" => Err(internal("x".repeat(count))),
            _ => Ok(guests::body_tensor(sample)),
        }
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, context: &Context) -> Result<Response> {
        guests::echo(&guests::body_text(&prediction)?, context)
    }
}
