//! The decoder endpoint, as `examples/decoder-wasm` has it.
//!
//! In:  `{"prompt": "Once", "tokens": 32}`.
//! Out: server-sent events, one a token, at last the whole text.
//!
//! A stream holds its session until it ends, the least that its tokens can cost. The cache is the engine's
//! own values, handed from run to run.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body::Frame;
use ort::memory::Allocator;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor, TensorRef};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::sessions::Sessions;
use crate::{Failure, refuse};

/// Body of a request.
#[derive(Deserialize)]
struct Generate {
    prompt: String,
    tokens: usize,
}

#[derive(Serialize)]
struct Token {
    token: i64,
    text: char,
}

#[derive(Serialize)]
struct Done {
    tokens: usize,
    text: String,
}

/// The events of a stream that is being made.
pub struct Events(Receiver<Bytes>);

impl Events {
    pub fn new(events: Receiver<Bytes>) -> Events {
        Events(events)
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

pub fn router(sessions: Vec<Session>) -> Router {
    Router::new().route("/decoder/generate", post(decoder)).with_state(Sessions::new(sessions))
}

async fn decoder(State(sessions): State<Arc<Sessions>>, body: Bytes) -> Response {
    let request: Generate = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error),
    };
    let (sender, receiver) = channel(16);
    tokio::spawn(async move {
        // A stream that fails ends without its last event, which the benchmark counts as an error.
        let _ = sessions.run(move |session| generate(session, &request, &sender)).await;
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(Events::new(receiver))).into_response()
}

/// Runs the model once a token; sends an event for each.
fn generate(session: &mut Session, request: &Generate, sender: &Sender<Bytes>) -> Result<(), Failure> {
    let names: Vec<String> = session.inputs().iter().skip(2).map(|input| input.name().to_owned()).collect();
    let mut cache = Vec::new();
    for input in session.inputs().iter().skip(2) {
        let shape = input.dtype().tensor_shape().ok_or("an input that is no tensor")?;
        let &[_, heads, _, size] = &**shape else { return Err("a cache of another rank".into()) };
        let empty = Tensor::<f32>::new(&Allocator::default(), [1, heads, 0, size])?;
        cache.push(empty.into_dyn());
    }
    let mut new: Vec<i64> = request.prompt.bytes().map(|byte| i64::from(byte) - 31).collect();
    let mut length = 0_i64;
    let mut text = String::new();
    for _ in 0..request.tokens {
        let token = step(session, &names, &mut cache, &new, length)?;
        length += i64::try_from(new.len())?;
        new = vec![token];
        let letter = if token == 0 { '\n' } else { char::from(u8::try_from(token + 31)?) };
        text.push(letter);
        let event = serde_json::to_string(&Token { token, text: letter })?;
        if sender.blocking_send(format!("data: {event}\n\n").into()).is_err() {
            return Ok(());
        }
    }
    let done = serde_json::to_string(&Done { tokens: text.len(), text })?;
    let _ = sender.blocking_send(format!("event: done\ndata: {done}\n\n").into());
    Ok(())
}

/// Reads tokens; the likeliest one to follow. The model's outputs after the logits are the next cache.
fn step(
    session: &mut Session,
    names: &[String],
    cache: &mut Vec<DynValue>,
    new: &[i64],
    length: i64,
) -> Result<i64, Failure> {
    let positions: Vec<i64> = (length..).take(new.len()).collect();
    let row = |numbers| TensorRef::from_array_view(([1, new.len()], numbers));
    let mut inputs: Vec<(&str, SessionInputValue<'_>)> =
        vec![("tokens", row(new)?.into()), ("positions", row(positions.as_slice())?.into())];
    inputs.extend(names.iter().map(String::as_str).zip(cache.drain(..).map(SessionInputValue::from)));
    let mut outputs = session.run(inputs)?.into_iter().map(|(_, value)| value);
    let logits = outputs.next().ok_or("the model has no output")?;
    cache.extend(outputs);
    let (_, logits) = logits.try_extract_tensor::<f32>()?;
    let largest = logits.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
    Ok(i64::try_from(largest.ok_or("the model's output is empty")?.0)?)
}
