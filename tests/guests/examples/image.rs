//! Classifies one image, for the benchmark. Needs its model `image.onnx`, see `tests/bench/models.py`.
//!
//! In:   602,112 bytes: 3 × 224 × 224 values as little-endian FP32, which are the model's input as they are.
//! Out:  `{"top": [{"class": 310, "score": 0.795}, …]}`: the five likeliest classes after softmax, best first.

use modelhost_guest::{
    Context, Datatype, Handler, Response, Result, Sample, Tensor, export, internal, invalid,
};
use serde::Serialize;

const SHAPE: [u64; 4] = [1, 3, 224, 224];
const BYTES: usize = 3 * 224 * 224 * size_of::<f32>();
const TOP: usize = 5;

#[derive(Debug, PartialEq, Serialize)]
struct Candidate {
    class: usize,
    score: f32,
}

#[derive(Serialize)]
struct Answer {
    top: Vec<Candidate>,
}

struct Image;

export!(Image);

impl Handler for Image {
    fn new() -> Self {
        Image
    }

    fn pre_inference(&mut self, sample: Sample, _context: &Context) -> Result<Vec<Tensor>> {
        if sample.body.len() != BYTES {
            return Err(invalid(format!("expected {BYTES} bytes, got {}", sample.body.len())));
        }
        // Moved, not copied: the body is what a tensor's data is, little-endian FP32.
        let data = sample.body;
        Ok(vec![Tensor { name: "pixels".into(), datatype: Datatype::Fp32, shape: SHAPE.to_vec(), data }])
    }

    fn post_inference(&mut self, prediction: Vec<Tensor>, _context: &Context) -> Result<Response> {
        let rows = prediction.last().ok_or_else(|| internal("the model has no output"))?.rows::<f32>()?;
        let logits = rows.first().ok_or_else(|| internal("the model's last output has no row"))?;
        Response::json(&Answer { top: likeliest(logits) })
    }
}

/// The classes with the largest logits, best first, and what softmax makes of them.
fn likeliest(logits: &[f32]) -> Vec<Candidate> {
    let mut top: Vec<(usize, f32)> = Vec::with_capacity(TOP + 1);
    for (class, logit) in logits.iter().enumerate() {
        let rank = top.partition_point(|(_, larger)| larger >= logit);
        if rank < TOP {
            top.truncate(TOP - 1);
            top.insert(rank, (class, *logit));
        }
    }
    // Less the largest, so that no power overflows.
    let largest = top.first().map_or(0.0, |(_, logit)| *logit);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    top.into_iter().map(|(class, logit)| Candidate { class, score: (logit - largest).exp() / sum }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_the_tensors_data_or_refused() {
        let pre = |body: Vec<u8>| {
            let sample = Sample::new("application/octet-stream", body);
            Image.pre_inference(sample, &Context::builder().build())
        };
        let body: Vec<u8> = (0..BYTES).map(|index| index as u8).collect();
        let address = body.as_ptr();
        let tensors = pre(body).unwrap();
        assert_eq!((tensors[0].shape.as_slice(), tensors[0].data.len()), (SHAPE.as_slice(), BYTES));
        assert_eq!(tensors[0].data.as_ptr(), address);
        assert_eq!(pre(vec![0; 3]).unwrap_err(), invalid("expected 602112 bytes, got 3"));
    }

    #[test]
    fn the_likeliest_classes_come_first_and_share_one() {
        let logits = [0.0, 3.0, 1.0, 2.0, 3.0, -1.0, 500.0_f32.ln()];
        let top = likeliest(&logits);
        assert_eq!(top.iter().map(|each| each.class).collect::<Vec<_>>(), [6, 1, 4, 3, 2]);
        let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
        assert!((top[0].score - 500.0 / sum).abs() < 1e-6);

        // Neither does a large logit overflow nor does a short row lack anything.
        assert_eq!(likeliest(&[1e30]), [Candidate { class: 0, score: 1.0 }]);
        assert_eq!(likeliest(&[]), []);
    }
}
