//! An application on `wasi:http` 0.3. Its path says what it does: answers, streams, waits for several things at
//! once, and every way to fail at that, or to do harm.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a guest that fails in every way"
)]

use std::sync::atomic::{AtomicU32, Ordering};

use modelhost_guest::{Tensor, models};
use wasip3::clocks::{monotonic_clock, system_clock};
use wasip3::exports::http::handler::Guest;
use wasip3::http::client;
use wasip3::http::types::{ErrorCode, Fields, Method, Request, Response, Scheme};
use wasip3::random::random::get_random_bytes;
use wasip3::wit_bindgen::{self, FutureWriter, StreamReader, StreamWriter};
use wasip3::{wit_future, wit_stream};

struct Application;

wasip3::http::service::export!(Application);

/// Requests for their number that this instance has served.
static SERVED: AtomicU32 = AtomicU32::new(0);

type End = FutureWriter<Result<Option<Fields>, ErrorCode>>;

impl Guest for Application {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let path = request.get_path_with_query().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let number = |name: &str, default: u64| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        match path {
            "/echo" => echo(request),
            "/pass-on" => {
                let (body, trailers) = Request::consume_body(request, done());
                Ok(Response::new(text(), Some(body), trailers).0)
            }
            // Reads to the end, and asks for no reason of it.
            "/count" => {
                let (mut body, _trailers) = Request::consume_body(request, done());
                let length = drain(&mut body).await;
                Ok(answer(200, &length.to_string()))
            }
            "/count-after" => {
                let (response, mut writer, end) = begin(200, &[]);
                wit_bindgen::spawn(async move {
                    let (mut body, _trailers) = Request::consume_body(request, done());
                    let length = drain(&mut body).await;
                    writer.write_all(length.to_string().into_bytes()).await;
                    drop(writer);
                    end.write(Ok(Some(Fields::new()))).await.unwrap();
                });
                Ok(response)
            }
            "/stream" => Ok(events(number("events", 3), number("pause_ms", 5))),
            "/together" => {
                let waits = (0..number("waits", 8)).map(|_| pause(number("ms", 100)));
                wit_bindgen::spawn(async {});
                futures::future::join_all(waits).await;
                Ok(answer(200, "waited"))
            }
            "/good" => Ok(answer(200, "good")),
            "/served" => Ok(answer(200, &(SERVED.fetch_add(1, Ordering::Relaxed) + 1).to_string())),
            "/now" => {
                let draw = get_random_bytes(4);
                Ok(answer(200, &format!("{} {draw:?}", system_clock::now().seconds > 0)))
            }
            "/infer" => {
                let pair = ["a", "b"].map(|name| Tensor::new(name, [2], &[1.0_f32, 2.0]));
                let outputs = models::infer("", &pair)
                    .map_err(|error| ErrorCode::InternalError(Some(error.to_string())))?;
                Ok(answer(200, &format!("{:?}", outputs[0].values::<f32>().unwrap())))
            }
            "/fetch" => tell(get(query)).await,
            "/post" => tell(post(query)).await,
            "/proxy" => {
                let response = client::send(get(query)).await?;
                let (body, trailers) = Response::consume_body(response, done());
                Ok(Response::new(text(), Some(body), trailers).0)
            }
            "/headers" => {
                let (response, writer, end) = begin(
                    u16::try_from(number("status", 200)).unwrap(),
                    &[("set-cookie", "a=b"), ("x-handler-digest", "forged"), ("x-own", "1")],
                );
                wit_bindgen::spawn(finish(writer, end));
                Ok(response)
            }
            "/packed" => {
                let (response, writer, end) = begin(200, &[("content-encoding", query)]);
                wit_bindgen::spawn(finish(writer, end));
                Ok(response)
            }
            // Text that a request would keep.
            "/method" => {
                let method = Method::Other("M".repeat(length(number("length", 1))));
                let set = get("http://127.0.0.1:1").set_method(&method);
                Ok(answer(200, if set.is_ok() { "taken" } else { "refused" }))
            }
            "/authority" => {
                let authority = "a".repeat(length(number("length", 1)));
                let set = get("http://127.0.0.1:1").set_authority(Some(&authority));
                Ok(answer(200, if set.is_ok() { "taken" } else { "refused" }))
            }
            "/refuse" => Err(ErrorCode::InternalError(Some("no".to_owned()))),
            "/after" => {
                let response = answer(200, "begun");
                let ms = number("ms", 50);
                wit_bindgen::spawn(async move {
                    pause(ms).await;
                    println!("the work after the response is done");
                });
                Ok(response)
            }
            "/wait" => {
                pause(number("ms", 1000)).await;
                Ok(answer(200, "waited"))
            }
            "/flood" => {
                let (response, mut writer, end) = begin(200, &[]);
                let pieces = number("pieces", 16);
                wit_bindgen::spawn(async move {
                    for _ in 0..pieces {
                        if !writer.write_all(vec![7; 64 << 10]).await.is_empty() {
                            println!("the client is gone");
                            return;
                        }
                    }
                    finish(writer, end).await;
                });
                Ok(response)
            }
            other => hostile(other.trim_start_matches('/')).await,
        }
    }
}

/// What no handler should do.
async fn hostile(kind: &str) -> Result<Response, ErrorCode> {
    let in_body = kind.strip_prefix("in-body/");
    let Some(kind) = in_body.or_else(|| kind.strip_prefix("before/")) else {
        return Ok(answer(404, "no such path"));
    };
    if in_body.is_none() {
        attack(kind, None).await;
        return Ok(answer(200, "survived"));
    }
    let (response, mut writer, end) = begin(200, &[]);
    let kind = kind.to_owned();
    wit_bindgen::spawn(async move {
        writer.write_all(b"half".to_vec()).await;
        attack(&kind, Some(writer)).await;
        let _ = end.write(Ok(None)).await;
    });
    Ok(response)
}

async fn attack(kind: &str, writer: Option<StreamWriter<u8>>) {
    match kind {
        "trap" => panic!("as asked"),
        "exit" => std::process::exit(3),
        "spin" => spin(),
        "never" => std::future::pending().await,
        "wait" => pause(24 * 3600 * 1000).await,
        "yield" => loop {
            wit_bindgen::yield_async().await;
        },
        "grow" => {
            let mut held = Vec::new();
            loop {
                held.push(vec![1_u8; 1 << 20]);
            }
        }
        "waits" => {
            let waits = (0..100_000).map(|_| pause(24 * 3600 * 1000));
            futures::future::join_all(waits).await;
        }
        "streams" => {
            let mut held = Vec::new();
            loop {
                held.push(wit_stream::new::<u8>());
            }
        }
        "fields" => {
            let mut held = Vec::new();
            loop {
                held.push(Fields::new());
            }
        }
        "print" => loop {
            println!("{}", "x".repeat(10_000));
        },
        "leave" => std::mem::forget(writer),
        "write" => {
            let Some(mut writer) = writer else { return };
            while writer.write_all(vec![0; 1 << 20]).await.is_empty() {}
        }
        other => panic!("no such attack: `{other}`"),
    }
}

/// Everything that can be seen of the request, then its body, as it comes.
fn echo(request: Request) -> Result<Response, ErrorCode> {
    let headers = request.get_headers().copy_all().into_iter();
    let headers: serde_json::Map<String, serde_json::Value> =
        headers.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned().into())).collect();
    let method = match request.get_method() {
        Method::Other(method) => method,
        method => format!("{method:?}"),
    };
    let head = serde_json::json!({
        "method": method,
        "path": request.get_path_with_query(),
        "authority": request.get_authority(),
        "scheme": matches!(request.get_scheme(), Some(Scheme::Http)).then_some("http"),
        "headers": headers,
    });
    let (response, mut writer, end) = begin(200, &[]);
    wit_bindgen::spawn(async move {
        writer.write_all(format!("{head}\n").into_bytes()).await;
        let (mut body, trailers) = Request::consume_body(request, done());
        while let Some(piece) = next(&mut body).await {
            writer.write_all(piece).await;
        }
        drop(writer);
        let last = match trailers.await {
            Ok(_) => Fields::from_list(&[("x-trailer".to_owned(), b"last".to_vec())]).map_err(|_| None),
            Err(code) => Err(Some(format!("{code:?}"))),
        };
        end.write(last.map(Some).map_err(ErrorCode::InternalError)).await.unwrap();
    });
    Ok(response)
}

fn events(events: u64, pause_ms: u64) -> Response {
    let (response, mut writer, end) = begin(200, &[("content-type", "text/event-stream")]);
    wit_bindgen::spawn(async move {
        for event in 0..events {
            if !writer.write_all(format!("data: {event}\n\n").into_bytes()).await.is_empty() {
                println!("the client is gone");
                return;
            }
            pause(pause_ms).await;
        }
        finish(writer, end).await;
    });
    response
}

/// Sends a request, and tells what came of it.
async fn tell(request: Request) -> Result<Response, ErrorCode> {
    Ok(match client::send(request).await {
        Ok(response) => {
            let status = response.get_status_code();
            let (mut body, trailers) = Response::consume_body(response, done());
            let mut all = Vec::new();
            while let Some(piece) = next(&mut body).await {
                all.extend(piece);
            }
            drop(body);
            let ended = trailers.await.is_ok();
            answer(200, &format!("{status} {} {ended}", String::from_utf8_lossy(&all)))
        }
        Err(code) => answer(502, &format!("{code:?}")),
    })
}

fn get(url: &str) -> Request {
    request_to(url, None)
}

/// A body of which nothing says how long it is.
fn post(url: &str) -> Request {
    let (mut writer, body) = wit_stream::new();
    let request = request_to(url, Some(body));
    request.set_method(&Method::Post).unwrap();
    wit_bindgen::spawn(async move {
        writer.write_all(b"one, ".to_vec()).await;
        writer.write_all(b"two".to_vec()).await;
    });
    request
}

/// To the address in the query.
fn request_to(url: &str, body: Option<StreamReader<u8>>) -> Request {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (end, trailers) = wit_future::new(|| Ok(None));
    drop(end);
    let (request, _) = Request::new(Fields::new(), body, trailers, None);
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).unwrap();
    request.set_authority(Some(authority)).unwrap();
    request.set_path_with_query(Some(&format!("/{path}"))).unwrap();
    request
}

fn length(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

fn text() -> Fields {
    Fields::from_list(&[("content-type".to_owned(), b"text/plain".to_vec())]).unwrap()
}

/// A response with this text, all of it.
fn answer(status: u16, text: &str) -> Response {
    let length = text.len().to_string();
    let (response, mut writer, end) = begin(status, &[("content-length", &length)]);
    let text = text.as_bytes().to_vec();
    wit_bindgen::spawn(async move {
        writer.write_all(text).await;
        finish(writer, end).await;
    });
    response
}

fn begin(status: u16, headers: &[(&str, &str)]) -> (Response, StreamWriter<u8>, End) {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let (writer, body) = wit_stream::new();
    let (end, trailers) = wit_future::new(|| Ok(None));
    let (response, _) = Response::new(Fields::from_list(&headers).unwrap(), Some(body), trailers);
    response.set_status_code(status).unwrap();
    (response, writer, end)
}

async fn finish(writer: StreamWriter<u8>, end: End) {
    drop(writer);
    let _ = end.write(Ok(None)).await;
}

/// The guest's word that it took a body well.
fn done() -> wit_bindgen::FutureReader<Result<(), ErrorCode>> {
    let (writer, reader) = wit_future::new(|| Ok(()));
    drop(writer);
    reader
}

async fn next(body: &mut StreamReader<u8>) -> Option<Vec<u8>> {
    let (status, piece) = body.read(Vec::with_capacity(64 << 10)).await;
    match status {
        wit_bindgen::StreamResult::Dropped if piece.is_empty() => None,
        _ => Some(piece),
    }
}

async fn drain(body: &mut StreamReader<u8>) -> usize {
    let mut length = 0;
    while let Some(piece) = next(body).await {
        length += piece.len();
    }
    length
}

async fn pause(ms: u64) {
    monotonic_clock::wait_for(ms * 1_000_000).await;
}

fn spin() -> ! {
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}
