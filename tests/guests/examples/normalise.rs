//! The work of an image handler, for benchmarks. Needs a model with an FP32 input `[1, 3, 224, 224]`, or none.
//!
//! In:   150,528 bytes: the red plane of 224 × 224 pixels, then the green, then the blue one.
//! Out:  `{"top": [[index, value], …]}`: the five largest values of the last output's first row.

use modelhost_guest::{Context, Handler, Response, Result, Sample, Tensor, export, internal, invalid};
use serde_json::json;

const PLANE: usize = 224 * 224;

/// Mean and standard deviation of each colour, as models trained on ImageNet expect them.
const COLOURS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];

struct Normalise;

export!(Normalise);

impl Handler for Normalise {
    fn new() -> Self {
        Normalise
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        if sample.body.len() != 3 * PLANE {
            return Err(invalid(format!("expected {} bytes, got {}", 3 * PLANE, sample.body.len())));
        }
        let planes = sample.body.chunks_exact(PLANE).zip(COLOURS);
        Ok(vec![Tensor::build("data", [1, 3, 224, 224], |values: &mut [f32]| {
            for (out, (plane, (mean, deviation))) in values.chunks_exact_mut(PLANE).zip(planes) {
                let (scale, shift) = (1.0 / (255.0 * deviation), mean / deviation);
                for (value, pixel) in out.iter_mut().zip(plane) {
                    *value = f32::from(*pixel) * scale - shift;
                }
            }
        })])
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let mut top: Vec<(usize, f32)> = Vec::new();
        for (index, value) in rows.first().unwrap_or_default().iter().enumerate() {
            let rank = top.partition_point(|(_, larger)| larger >= value);
            if rank < 5 {
                top.truncate(4);
                top.insert(rank, (index, *value));
            }
        }
        Response::json(&json!({"top": top}))
    }
}
