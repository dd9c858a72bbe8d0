//! The encoder endpoint, as `tests/guests/examples/encoder.rs` has it.
//!
//! In:  `{"input_ids": [101, …], "attention_mask": [1, …]}`, one number a token each.
//! Out: `{"embedding": [0.054, …]}`.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use ort::session::Session;
use ort::value::TensorRef;
use serde::{Deserialize, Serialize};

use crate::sessions::Sessions;
use crate::{Failure, answer, refuse};

/// Body of a request.
#[derive(Deserialize)]
struct Tokens {
    input_ids: Vec<i64>,
    attention_mask: Vec<i64>,
}

/// Body of an answer; borrows the model's output.
#[derive(Serialize)]
struct Answer<'a> {
    embedding: &'a [f32],
}

pub fn router(sessions: Vec<Session>) -> Router {
    Router::new().route("/encoder", post(encoder)).with_state(Sessions::new(sessions))
}

async fn encoder(State(sessions): State<Arc<Sessions>>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(tokens) => answer(sessions.run(move |session| embed(session, &tokens)).await),
        Err(error) => refuse(StatusCode::BAD_REQUEST, error),
    }
}

/// Runs the model on one sequence and writes the answer; the model's last output is `[1, width]`.
fn embed(session: &mut Session, tokens: &Tokens) -> Result<Vec<u8>, Failure> {
    let row = |numbers| TensorRef::from_array_view(([1, tokens.input_ids.len()], numbers));
    let outputs = session.run(ort::inputs! {
        "input_ids" => row(tokens.input_ids.as_slice())?,
        "attention_mask" => row(tokens.attention_mask.as_slice())?,
    })?;
    let last = outputs.values().last().ok_or("the model has no output")?;
    let (_, embedding) = last.try_extract_tensor::<f32>()?;
    Ok(serde_json::to_vec(&Answer { embedding })?)
}
