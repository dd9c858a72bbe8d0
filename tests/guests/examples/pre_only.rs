//! The iris handler without its second half, which the component does not export: the model's outputs are the
//! response.

use modelhost_guest::{Context, Handler, Result, Sample, Tensor, export};
use serde::Deserialize;

#[derive(Deserialize)]
struct Flower {
    sepal_length: f32,
    sepal_width: f32,
    petal_length: f32,
    petal_width: f32,
}

struct PreOnly;

export!(PreOnly: pre_inference);

impl Handler for PreOnly {
    fn new() -> Self {
        PreOnly
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        let flower: Flower = sample.json()?;
        let row = [flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width];
        // No name: it binds to the only input.
        Ok(vec![Tensor::new("", [4], &row)])
    }
}
