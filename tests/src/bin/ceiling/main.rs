//! The native ceiling of `make bench`: the endpoints of its workloads written by hand, without a sandbox.
//!
//! Place in the flow: `tests/bench/run.py` drives it beside the host, window by window, and divides.
//! In:  `ceiling iris|encoder|image|oip|decoder MODEL HOST:PORT`, and ONNX Runtime's library in `ORT_DYLIB_PATH`; then `POST
//!      /WORKLOAD` (`oip`: its protocol's path, `decoder`: `/decoder/generate`) with the body that the handler of the same name takes.
//!      Or `ceiling streams none HOST:PORT`, which needs no model; then `GET /ticks/EVENTS?ms=PAUSE`.
//! Out: `listening on http://HOST:PORT`; then the answers that the host gives with that handler.
//!
//! Invariants: the least that a correct native server can do, so that no ratio flatters the host. Everything the
//! host could choose as well is the same here: axum on tokio's multi-thread runtime with one worker a core, no
//! delayed packets, one session a core with one thread each and the host's options. What the host does by design is its own: it
//! batches, and it has answers leave together (`host/src/server/listen/turn.rs`).
#![expect(clippy::print_stdout, reason = "the address is this program's output")]

mod decoder;
mod encoder;
mod image;
mod iris;
mod oip;
mod sessions;
mod streams;

use std::error::Error;
use std::fmt::Display;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use tokio::signal::unix::{SignalKind, signal};

/// Whatever went wrong; nothing that is measured fails.
type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [workload, model, listen] = arguments.as_slice() else {
        return Err("usage: ceiling iris|encoder|image|oip|decoder|streams MODEL HOST:PORT".into());
    };
    let router = match workload.as_str() {
        "iris" => iris::router(load(model)?),
        "encoder" => encoder::router(load(model)?),
        "image" => image::router(load(model)?),
        "oip" => oip::router(load(model)?),
        "decoder" => decoder::router(load(model)?),
        "streams" => streams::router(),
        other => return Err(format!("no workload is called `{other}`").into()),
    };
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // A connection that is already gone cannot be set up, and needs not be.
        let _ = stream.set_nodelay(true);
    });
    // Ended in order, as a profile of it needs (`scripts/dist.sh`), and beside the server, which so pays nothing for it.
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        terminated.recv().await;
        std::process::exit(0)
    });
    Ok(axum::serve(listener, router).await?)
}

/// One session a core, with the options of `host/crates/models/src/model/onnx/session.rs`.
fn load(model: &str) -> Result<Vec<Session>, Failure> {
    let environment = ort::init().build()?;
    let cores = std::thread::available_parallelism()?.get();
    let session = |_| {
        let mut builder = Session::builder(&environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(1)?
            .with_inter_threads(1)?
            .with_parallel_execution(false)?
            .with_intra_op_spinning(false)?
            .with_inter_op_spinning(false)?
            .with_memory_pattern(false)?
            .with_execution_providers([ort::ep::CPU::default().with_arena_allocator(false).build()])?;
        builder.commit_from_file(model)
    };
    Ok((0..cores).map(session).collect::<ort::Result<_>>()?)
}

/// What a handler made of a request, as a response: JSON, or a text for whoever watches the benchmark.
fn answer(json: Result<Vec<u8>, Failure>) -> Response {
    match json {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error),
    }
}

fn refuse(status: StatusCode, error: impl Display) -> Response {
    (status, error.to_string()).into_response()
}
