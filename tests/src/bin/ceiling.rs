//! The native ceiling of `make bench`: the iris endpoint written by hand, without a sandbox.
//!
//! Place in the flow: `tests/bench/run.py` drives it beside the host, window by window, and divides.
//! In:  `ceiling MODEL HOST:PORT`, and ONNX Runtime's library in `ORT_DYLIB_PATH`; then `POST /iris` with
//!      `{"sepal_length": cm, "sepal_width": cm, "petal_length": cm, "petal_width": cm}`.
//! Out: `listening on http://HOST:PORT`; then `{"class_label", "class_index", "probabilities"}`, as the host answers.
//!
//! Invariants: the least that a correct native server can do, so that no ratio flatters the host. Everything the
//! host could choose as well is the same here: axum on tokio's multi-thread runtime with one worker a core, no
//! delayed packets, one session a core with one thread each, run on the thread that read the request.
#![expect(clippy::print_stdout, reason = "the address is this program's output")]

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use crossbeam_queue::ArrayQueue;
use ort::session::Session;
use ort::value::TensorRef;
use serde::{Deserialize, Serialize};

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(listen)) = (arguments.next(), arguments.next()) else {
        return Err("usage: ceiling MODEL HOST:PORT".into());
    };
    let cores = std::thread::available_parallelism()?.get();
    let environment = ort::init().build()?;
    let sessions = ArrayQueue::new(cores);
    while !sessions.is_full() {
        // Its answer is the session when the queue is full, which the loop rules out.
        let _ =
            sessions.push(Session::builder(&environment)?.with_intra_threads(1)?.commit_from_file(&model)?);
    }
    let router = Router::new().route("/iris", post(iris)).with_state(Arc::new(sessions));
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // A connection that is already gone cannot be set up, and needs not be.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}

/// Never waits between pop and push, so at most one request a worker holds a session and one is always free.
async fn iris(State(sessions): State<Arc<ArrayQueue<Session>>>, body: Bytes) -> Response {
    let flower: Flower = match serde_json::from_slice(&body) {
        Ok(flower) => flower,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let Some(mut session) = sessions.pop() else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    let answer = classify(&mut session, &flower);
    let _ = sessions.push(session);
    match answer {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Runs the model on one row of four and writes the answer; the model's last output is `[1, 3]`.
fn classify(session: &mut Session, flower: &Flower) -> Result<Vec<u8>, Box<dyn Error>> {
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
