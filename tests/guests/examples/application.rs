//! An application on bare `wasi:http`. Its path says what it does: answers, streams, and every way to fail at
//! either.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a guest that fails in every way"
)]

use std::sync::atomic::{AtomicU32, Ordering};

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingRequest, Method, OutgoingBody,
    OutgoingRequest, OutgoingResponse, ResponseOutparam, Scheme,
};
use wasip2::io::streams::{OutputStream, StreamError};

struct Application;

wasip2::http::proxy::export!(Application);

/// Requests for their number that this instance has served.
static SERVED: AtomicU32 = AtomicU32::new(0);

impl Guest for Application {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let number = |name: &str, default: u64| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        match path {
            "/echo" => echo(request, out),
            "/count" => answer(out, 200, &read(request, |_| {}).to_string()),
            "/stream" => events(out, number("events", 3), number("pause_ms", 10), number("size", 0), &[]),
            "/served" => {
                let served = SERVED.fetch_add(1, Ordering::Relaxed) + 1;
                if number("leak", 0) > 0 {
                    std::mem::forget(Fields::new());
                }
                answer(out, 200, &served.to_string());
            }
            "/trap" => panic!("as asked"),
            "/trap-in-body" => {
                events(out, number("events", 2), 1, 0, &[("x-kind", "broken")]);
            }
            "/drop-body" => {
                let (body, stream) = begin(out, 200, &[("content-type", "text/plain")]);
                write(&stream, b"half").unwrap();
                drop(stream);
                drop(body);
            }
            "/leave-body" => {
                let (body, stream) = begin(out, 200, &[("content-type", "text/plain")]);
                write(&stream, b"half").unwrap();
                std::mem::forget((stream, body));
            }
            "/no-response" => drop(out),
            "/refuse" => ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some("no".to_owned())))),
            "/spin" => spin(),
            "/spin-in-body" => {
                let (_body, stream) = begin(out, 200, &[("content-type", "text/plain")]);
                write(&stream, b"half").unwrap();
                spin();
            }
            "/wait" => {
                pause(number("ms", 1000));
                answer(out, 200, "waited");
            }
            "/wait-in-body" => {
                let (body, stream) = begin(out, 200, &[("content-type", "text/plain")]);
                write(&stream, b"half").unwrap();
                pause(number("ms", 1000));
                let _ = write(&stream, b" and half");
                drop(stream);
                let _ = OutgoingBody::finish(body, None);
            }
            "/after" => {
                answer(out, 200, "begun");
                pause(number("ms", 50));
                println!("the work after the response is done");
            }
            "/flood" => {
                let (body, stream) = begin(out, 200, &[("content-type", "application/octet-stream")]);
                let piece = vec![7_u8; 64 << 10];
                for _ in 0..number("pieces", 16) {
                    if write(&stream, &piece).is_err() {
                        println!("the client is gone");
                        break;
                    }
                }
                drop(stream);
                let _ = OutgoingBody::finish(body, None);
            }
            "/headers" => {
                let status = number("status", 200);
                let headers = [
                    ("content-type", "text/plain"),
                    ("set-cookie", "a=b"),
                    ("x-handler-digest", "forged"),
                    ("x-own", "1"),
                ];
                let (body, stream) = begin(out, u16::try_from(status).unwrap(), &headers);
                drop(stream);
                let _ = OutgoingBody::finish(body, None);
            }
            "/packed" => {
                let coding = [("content-type", "text/plain"), ("content-encoding", query)];
                let (body, stream) = begin(out, 200, &coding);
                let _ = write(&stream, b"packed");
                drop(stream);
                let _ = OutgoingBody::finish(body, None);
            }
            "/fields" => {
                let fields: Vec<Fields> = (0..number("count", 10_000)).map(|_| Fields::new()).collect();
                answer(out, 200, &fields.len().to_string());
            }
            "/fetch" => fetch(out, query),
            "/post" => post(out, query),
            _ => match path.strip_prefix("/upstream/") {
                Some(port) => fetch(out, &format!("http://127.0.0.1:{port}/")),
                None => answer(out, 404, "no such path"),
            },
        }
    }
}

/// Everything that can be seen of the request, then its body, as it comes.
fn echo(request: IncomingRequest, out: ResponseOutparam) {
    let method = match request.method() {
        Method::Other(method) => method,
        method => format!("{method:?}"),
    };
    let headers = request.headers().entries().into_iter();
    let headers: serde_json::Map<String, serde_json::Value> =
        headers.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned().into())).collect();
    let head = serde_json::json!({
        "method": method,
        "path": request.path_with_query(),
        "authority": request.authority(),
        "scheme": matches!(request.scheme(), Some(Scheme::Http)).then_some("http"),
        "headers": headers,
    });
    let (body, stream) = begin(out, 200, &[("content-type", "text/plain")]);
    write(&stream, format!("{head}\n").as_bytes()).unwrap();
    read(request, |piece| write(&stream, piece).unwrap());
    drop(stream);
    let trailers = Fields::from_list(&[("x-trailer".to_owned(), b"last".to_vec())]).unwrap();
    OutgoingBody::finish(body, Some(trailers)).unwrap();
}

/// Server-sent events with pauses between; those of a `broken` stream end with a trap.
fn events(out: ResponseOutparam, events: u64, pause_ms: u64, size: u64, headers: &[(&str, &str)]) {
    let content = [("content-type", "text/event-stream"), ("cache-control", "no-store")];
    let (body, stream) = begin(out, 200, &[&content, headers].concat());
    for event in 0..events {
        let filling = "x".repeat(usize::try_from(size).unwrap());
        if write(&stream, format!("data: {event}{filling}\n\n").as_bytes()).is_err() {
            println!("the client is gone");
            return;
        }
        pause(pause_ms);
    }
    assert!(headers.is_empty(), "as asked");
    drop(stream);
    OutgoingBody::finish(body, None).unwrap();
}

/// Asks the address in the query, and tells what came of it.
fn fetch(out: ResponseOutparam, url: &str) {
    tell(out, outgoing_handler::handle(to(url), None));
}

/// Posts to it, and says nothing of the body's length.
fn post(out: ResponseOutparam, url: &str) {
    let request = to(url);
    request.set_method(&Method::Post).unwrap();
    let body = request.body().unwrap();
    let sent = outgoing_handler::handle(request, None);
    let stream = body.write().unwrap();
    write(&stream, b"one, ").unwrap();
    write(&stream, b"two").unwrap();
    drop(stream);
    OutgoingBody::finish(body, None).unwrap();
    tell(out, sent);
}

fn to(url: &str) -> OutgoingRequest {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let request = OutgoingRequest::new(Fields::new());
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).unwrap();
    request.set_authority(Some(authority)).unwrap();
    request.set_path_with_query(Some(&format!("/{path}"))).unwrap();
    request
}

fn tell(out: ResponseOutparam, sent: Result<FutureIncomingResponse, ErrorCode>) {
    let sent = sent.and_then(|response| {
        response.subscribe().block();
        response.get().unwrap().unwrap()
    });
    match sent {
        Ok(response) => {
            let body = response.consume().unwrap();
            let mut all = Vec::new();
            let ended = drain(&body, |piece| all.extend_from_slice(piece));
            let text = String::from_utf8_lossy(&all);
            answer(out, 200, &format!("{} {text} {ended:?}", response.status()));
        }
        Err(code) => answer(out, 502, &format!("{code:?}")),
    }
}

fn answer(out: ResponseOutparam, status: u16, text: &str) {
    let length = text.len().to_string();
    let (body, stream) = begin(out, status, &[("content-type", "text/plain"), ("content-length", &length)]);
    let _ = write(&stream, text.as_bytes());
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn begin(out: ResponseOutparam, status: u16, headers: &[(&str, &str)]) -> (OutgoingBody, OutputStream) {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let response = OutgoingResponse::new(Fields::from_list(&headers).unwrap());
    response.set_status_code(status).unwrap();
    let body = response.body().unwrap();
    let stream = body.write().unwrap();
    ResponseOutparam::set(out, Ok(response));
    (body, stream)
}

fn write(stream: &OutputStream, mut bytes: &[u8]) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        stream.subscribe().block();
        let most = usize::try_from(stream.check_write()?).unwrap_or(usize::MAX).min(bytes.len());
        let (now, later) = bytes.split_at(most);
        stream.write(now)?;
        bytes = later;
    }
    stream.flush()
}

/// Reads a body to its end; its bytes.
fn read(request: IncomingRequest, each: impl FnMut(&[u8])) -> usize {
    drain(&request.consume().unwrap(), each).unwrap()
}

fn drain(body: &IncomingBody, mut each: impl FnMut(&[u8])) -> Result<usize, String> {
    let stream = body.stream().unwrap();
    let mut length = 0;
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(piece) => {
                length += piece.len();
                each(&piece);
            }
            Err(StreamError::Closed) => return Ok(length),
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
}

fn pause(ms: u64) {
    subscribe_duration(ms * 1_000_000).block();
}

fn spin() -> ! {
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}
