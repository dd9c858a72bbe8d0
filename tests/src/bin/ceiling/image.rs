//! The image endpoint, as `tests/guests/examples/image.rs` has it.
//!
//! In:  3 × 224 × 224 values as little-endian FP32, 602,112 bytes.
//! Out: `{"top": [{"class": 310, "score": 0.795}, …]}`, the five likeliest classes after softmax, best first.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use ort::session::Session;
use ort::value::TensorRef;
use serde::Serialize;

use crate::sessions::Sessions;
use crate::{Failure, answer, refuse};

const SHAPE: [usize; 4] = [1, 3, 224, 224];
const TOP: usize = 5;

#[derive(Serialize)]
struct Candidate {
    class: usize,
    score: f32,
}

/// Body of an answer.
#[derive(Serialize)]
struct Answer {
    top: Vec<Candidate>,
}

pub fn router(sessions: Vec<Session>) -> Router {
    Router::new().route("/image", post(image)).with_state(Sessions::new(sessions))
}

async fn image(State(sessions): State<Arc<Sessions>>, body: Bytes) -> Response {
    let (values, rest) = body.as_chunks::<4>();
    if values.len() != SHAPE.iter().product::<usize>() || !rest.is_empty() {
        return refuse(StatusCode::BAD_REQUEST, "expected 602112 bytes");
    }
    // The one copy, and one pass at the speed of memory: a body need not lie where a float may.
    let pixels: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    drop(body);
    answer(sessions.run(move |session| classify(session, &pixels)).await)
}

/// Runs the model on one image and writes the answer; the model's last output is `[1, classes]`.
fn classify(session: &mut Session, pixels: &[f32]) -> Result<Vec<u8>, Failure> {
    let outputs = session.run(ort::inputs![TensorRef::from_array_view((SHAPE, pixels))?])?;
    let last = outputs.values().last().ok_or("the model has no output")?;
    let (_, logits) = last.try_extract_tensor::<f32>()?;
    let mut top: Vec<(usize, f32)> = Vec::with_capacity(TOP + 1);
    for (class, logit) in logits.iter().enumerate() {
        let rank = top.partition_point(|(_, larger)| larger >= logit);
        if rank < TOP {
            top.truncate(TOP - 1);
            top.insert(rank, (class, *logit));
        }
    }
    let (_, largest) = *top.first().ok_or("the model's output is empty")?;
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let score = |(class, logit): (usize, f32)| Candidate { class, score: (logit - largest).exp() / sum };
    Ok(serde_json::to_vec(&Answer { top: top.into_iter().map(score).collect() })?)
}
