//! An application built with the SDK: routes, streams, models, work after the response, and all that its
//! contract does not allow.

#![allow(
    clippy::print_stdout,
    clippy::panic,
    reason = "a guest of tests, whose output and panics are looked for"
)]

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::Duration;

use modelhost_guest::app::{Event, Json, Output, Path, Query, Reply, Request, Router, Sent};
use modelhost_guest::{
    Context, Handler, Metadata, Response, Result, Sample, Tensor, export, internal, invalid, models,
};
use serde::Deserialize;
use serde_json::{Value, json};

struct App {
    /// Requests that this instance has served.
    served: u32,
    prepared: String,
}

static ROUTES: LazyLock<Router<App>> = LazyLock::new(|| {
    Router::new()
        .get("/served", |app: &mut App| app.served.to_string())
        .get("/prepared", |app: &mut App| app.prepared.clone())
        .get("/items/{id}", |_: &mut App, Path(id): Path<u32>, Query(query): Query<Vec<(String, String)>>| {
            Json(json!({"id": id, "query": query}))
        })
        .post("/echo", |_: &mut App, sample: Sample| Response::new(200, sample.content_type, sample.body))
        .get("/context", |_: &mut App, context: &Context| {
            (418, [("x-seen", "1"), ("x-kind", "teapot")], context.header("X_Mine").unwrap_or_default())
        })
        .post("/add", add)
        .summary("Adds two vectors")
        .input(&json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}))
        .output(&json!({"type": "array", "items": {"type": "number"}}))
        .get("/count/{to}", count)
        .produces("text/event-stream")
        .post("/generate_stream", generate)
        .get("/bytes/{pieces}", bytes)
        .get("/ticks/{events}", ticks)
        .post("/later", later)
        // As pydantic and schemars write types with others, or themselves, inside.
        .input(&json!({
            "$defs": {"Tree": {"type": "object", "properties": {"below": {"$ref": "#/$defs/Tree"}}}},
            "anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "array", "items": {"$ref": "#"}}],
        }))
        .get("/wrong/{how}", wrong)
        .delete("/items/{id}", |_: &mut App, _: Path<u32>| ())
});

#[derive(Deserialize)]
struct Pair {
    a: [f32; 2],
    b: [f32; 2],
}

#[derive(Deserialize)]
struct Pause {
    ms: u64,
}

fn add(_: &mut App, Json(pair): Json<Pair>) -> Result<Json<Vec<f32>>> {
    let tensor = |name: &str, values: &[f32]| Tensor::new(name, [2], values);
    let outputs = models::infer("", &[tensor("a", &pair.a), tensor("b", &pair.b)])?;
    let sum = outputs.first().ok_or_else(|| internal("no output"))?;
    Ok(Json(sum.values::<f32>()?.into_owned()))
}

fn count(_: &mut App, Path(to): Path<u32>, output: Output) -> Result<Sent> {
    let mut events = output.events()?;
    for number in 0..to {
        if !events.send(&Event::new(number.to_string()).id(number.to_string())) {
            break;
        }
    }
    Ok(events.finish())
}

/// An event every so many milliseconds.
fn ticks(_: &mut App, Path(events): Path<u32>, Query(pause): Query<Pause>, output: Output) -> Result<Sent> {
    let mut stream = output.events()?;
    for number in 0..events {
        if !stream.send(&Event::new(number.to_string())) {
            break;
        }
        std::thread::sleep(Duration::from_millis(pause.ms));
    }
    Ok(stream.finish())
}

/// Two events as Inferless's handlers send them; then the end that is asked for.
fn generate(_: &mut App, Json(end): Json<String>, output: Output) -> Result<Sent> {
    let mut events = output.events()?;
    for text in ["a", "b"] {
        if !events.send(&Event::json(&json!({"OUT": text}))?) {
            break;
        }
    }
    match end.as_str() {
        "error" => Err(internal("after the second event")),
        _ => Ok(events.finish()),
    }
}

fn bytes(_: &mut App, Path(pieces): Path<usize>, output: Output) -> Result<Sent> {
    let mut body = output.begin(200, "application/octet-stream", &[])?;
    let piece = [b'x'; 100_000];
    let _ = (0..pieces).all(|_| body.write(piece));
    Ok(body.finish())
}

/// Prints when it has worked on.
fn later(_: &mut App, Json(milliseconds): Json<u64>, output: Output) -> Result<Sent> {
    let sent = output.send(Response::json(&json!({"started": true}))?)?;
    std::thread::sleep(Duration::from_millis(milliseconds));
    println!("worked for {milliseconds} ms");
    Ok(sent)
}

thread_local! {
    static KEPT: RefCell<Option<Output>> = const { RefCell::new(None) };
}

fn wrong(_: &mut App, Path(how): Path<String>, output: Output) -> Result<Reply> {
    use modelhost_guest::app::IntoReply as _;
    match how.as_str() {
        "invalid" => return Err(invalid("it is not what it should be")),
        "internal" => return Err(internal("it does not work")),
        "header" => drop(output.begin(200, "text/plain", &[("transfer-encoding".into(), "gzip".into())])?),
        "status" => drop(output.begin(99, "text/plain", &[])?),
        "never-begun" => {
            let reply = output.send(Response::text("first"))?;
            return reply.into_reply();
        }
        "unfinished" => drop(output.begin(200, "text/plain", &[])?),
        "twice" => {
            drop(output.begin(200, "text/plain", &[])?);
            return Response::text("second").into_reply();
        }
        "trap" => {
            let mut body = output.begin(200, "text/plain", &[])?;
            let _ = body.write("begun");
            panic!("in the middle");
        }
        "keep" => {
            KEPT.set(Some(output));
            return "kept".into_reply();
        }
        "kept" => {
            let kept = KEPT.take().ok_or_else(|| internal("nothing was kept"))?;
            let _ = kept.send(Response::text("to somebody else"))?;
        }
        _ => {}
    }
    ().into_reply()
}

impl Handler for App {
    fn new() -> Self {
        App { served: 0, prepared: String::new() }
    }

    fn init(&mut self, metadata: &Metadata) -> Result<()> {
        let metadata: Value = metadata.parse()?;
        self.prepared = format!("with {metadata}");
        Ok(())
    }

    fn router() -> Option<&'static Router<App>> {
        Some(&ROUTES)
    }

    fn respond(&mut self, request: Request<'_>) -> Result<Reply> {
        self.served += 1;
        ROUTES.respond(self, request)
    }
}

export!(App: init, respond);
