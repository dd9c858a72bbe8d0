//! The iris endpoint, as `examples/iris-wasm` has it.
//!
//! In:  `{"sepal_length": cm, "sepal_width": cm, "petal_length": cm, "petal_width": cm}`.
//! Out: `{"class_label", "class_index", "probabilities"}`.
//!
//! The model takes microseconds, so it is run on the thread that read the request.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use crossbeam_queue::ArrayQueue;
use ort::session::Session;
use ort::value::TensorRef;
use serde::{Deserialize, Serialize};

use crate::{Failure, answer, refuse};

const LABELS: [&str; 3] = ["iris-setosa", "iris-versicolor", "iris-virginica"];

/// Body of a request.
#[derive(Deserialize)]
struct Flower {
    sepal_length: f32,
    sepal_width: f32,
    petal_length: f32,
    petal_width: f32,
}

/// Body of an answer; borrows the model's output.
#[derive(Serialize)]
struct Verdict<'a> {
    class_label: &'a str,
    class_index: usize,
    probabilities: &'a [f32],
}

pub fn router(sessions: Vec<Session>) -> Router {
    let queue = ArrayQueue::new(sessions.len().max(1));
    for session in sessions {
        // There is a place for each of them.
        let _ = queue.push(session);
    }
    Router::new().route("/iris", post(iris)).with_state(Arc::new(queue))
}

/// Never waits between pop and push, so at most one request a worker holds a session and one is always free.
async fn iris(State(sessions): State<Arc<ArrayQueue<Session>>>, body: Bytes) -> Response {
    let flower: Flower = match serde_json::from_slice(&body) {
        Ok(flower) => flower,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error),
    };
    let Some(mut session) = sessions.pop() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "no session is free");
    };
    let json = classify(&mut session, &flower);
    let _ = sessions.push(session);
    answer(json)
}

/// Runs the model on one row of four and writes the answer; the model's last output is `[1, 3]`.
fn classify(session: &mut Session, flower: &Flower) -> Result<Vec<u8>, Failure> {
    let row = [flower.sepal_length, flower.sepal_width, flower.petal_length, flower.petal_width];
    let outputs = session.run(ort::inputs![TensorRef::from_array_view(([1, 4], row.as_slice()))?])?;
    let last = outputs.values().last().ok_or("the model has no output")?;
    let (_, probabilities) = last.try_extract_tensor::<f32>()?;
    let (class_index, _) = probabilities
        .iter()
        .enumerate()
        .max_by(|one, other| one.1.total_cmp(other.1))
        .ok_or("the model's output is empty")?;
    let class_label = LABELS.get(class_index).ok_or("the model knows more classes than there are labels")?;
    Ok(serde_json::to_vec(&Verdict { class_label, class_index, probabilities })?)
}
