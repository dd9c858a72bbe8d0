//! A hostile application on `wasi:http`: the path says how it fails at its response, floods the host, or lies.

// Natively its exports have names that no linker takes.
#![cfg(target_family = "wasm")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unsafe_code,
    reason = "a guest that does all that it should not, handles that are not its own included"
)]

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingRequest, Method, OutgoingBody, OutgoingRequest, OutgoingResponse,
    ResponseOutparam, Scheme,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{OutputStream, StreamError};
use wasip2::random::random::get_random_bytes;

struct Hostile;

wasip2::http::proxy::export!(Hostile);

const DAY_MS: u64 = 24 * 3600 * 1000;

impl Guest for Hostile {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let (kind, argument) = path.trim_start_matches('/').split_once('=').unwrap_or((&path[1..], ""));
        match kind {
            "good" => answer(out, 200, &[], "good"),
            // No answer.
            "wait-a-day" => pause(DAY_MS),
            "wait-for-ever" => subscribe_duration(u64::MAX).block(),
            "poll-storm" => storm(0),
            "wait-storm" => storm(1),
            "poll-list" => {
                let timer = subscribe_duration(DAY_MS * 1_000_000);
                poll(&vec![&timer; argument.parse().unwrap()]);
            }
            "no-response" => drop(out),
            "error-text" => {
                let text = "x".repeat(argument.parse().unwrap());
                ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some(text))));
            }
            // An answer that is none.
            "status" => answer(out, argument.parse().unwrap(), &[], "body"),
            "header" => {
                let (name, value) = argument.split_once(':').unwrap();
                let set = Fields::from_list(&[(name.to_owned(), value.as_bytes().to_vec())]);
                answer(out, 200, &[], &set.err().map_or("taken".to_owned(), |error| format!("{error:?}")));
            }
            "wide-header" => {
                let wide = "x".repeat(argument.parse().unwrap());
                answer(out, 200, &[("x-wide", &wide)], "good");
            }
            "many-headers" => {
                let many = vec![("x-many", "1"); argument.parse().unwrap()];
                answer(out, 200, &many, "good");
            }
            "server-headers" => {
                let headers = [
                    ("set-cookie", "a=b"),
                    ("strict-transport-security", "max-age=1"),
                    ("access-control-allow-origin", "elsewhere"),
                    ("x-request-id", "forged"),
                    ("x-handler-digest", "forged"),
                    ("x-handler-bypassed", "forged"),
                    ("te", "trailers"),
                    ("date", "yesterday"),
                ];
                answer(out, 200, &headers, "good");
            }
            "length" => {
                let lengths: Vec<_> = argument.split(',').map(|length| ("content-length", length)).collect();
                answer(out, 200, &lengths, "12345");
            }
            // Handles.
            "answer-twice" => {
                let handle = out.handle();
                answer(out, 200, &[], "first");
                answer(unsafe { ResponseOutparam::from_handle(handle) }, 200, &[], "second");
            }
            "forge-outparam" => answer(unsafe { ResponseOutparam::from_handle(77) }, 200, &[], "forged"),
            "forge-stream" => {
                let stream = unsafe { OutputStream::from_handle(1) };
                let _ = stream.write(b"forged");
            }
            "body-twice" => {
                let response = OutgoingResponse::new(Fields::new());
                let body = response.body().unwrap();
                let stream = body.write().unwrap();
                let refused = (response.body().is_err(), body.write().is_err());
                drop((stream, body, response));
                answer(out, 200, &[], &format!("{refused:?}"));
            }
            "finish-early" => {
                let (body, _stream) = begin(out, 200, &[]);
                let _ = OutgoingBody::finish(body, None);
            }
            "write-after-finish" => {
                let (body, stream) = begin(out, 200, &[]);
                let handle = stream.handle();
                drop(stream);
                let _ = OutgoingBody::finish(body, None);
                let _ = unsafe { OutputStream::from_handle(handle) }.write(b"more");
            }
            "leak" => leak(argument),
            // Text that a request would keep.
            "method" => {
                let method = Method::Other("M".repeat(argument.parse().unwrap()));
                let set = OutgoingRequest::new(Fields::new()).set_method(&method);
                answer(out, 200, &[], if set.is_ok() { "taken" } else { "refused" });
            }
            "authority" => {
                let authority = "a".repeat(argument.parse().unwrap());
                let set = OutgoingRequest::new(Fields::new()).set_authority(Some(&authority));
                answer(out, 200, &[], if set.is_ok() { "taken" } else { "refused" });
            }
            // Full bodies that are never sent.
            "hoard" => {
                for _ in 0..argument.parse().unwrap() {
                    let response = OutgoingResponse::new(Fields::new());
                    let body = response.body().unwrap();
                    let stream = body.write().unwrap();
                    while let Ok(room @ 1..) = stream.check_write() {
                        stream.write(&vec![0; usize::try_from(room).unwrap()]).unwrap();
                    }
                    drop((stream, body));
                    std::mem::forget(response);
                    // From here on it may compute as long again.
                    pause(1);
                }
                answer(out, 200, &[], "good");
            }
            // A body without an end.
            "leave-body" => std::mem::forget(half(out)),
            "drop-body" => drop(half(out)),
            "write-unasked" => {
                let (_body, stream) = half(out);
                let _ = stream.write(&[0; 1 << 20]);
            }
            "zeroes" => {
                let (_body, stream) = half(out);
                let _ = stream.write_zeroes(u64::MAX);
            }
            "in-body" => {
                let (_body, stream) = half(out);
                match argument {
                    "trap" => panic!("in the middle"),
                    "wait" => pause(DAY_MS),
                    "exit" => std::process::exit(0),
                    "drip" => {
                        while write(&stream, b".").is_ok() {
                            pause(50)
                        }
                    }
                    other => attack(other),
                }
            }
            "drip" => {
                let (body, stream) = begin(out, 200, &[]);
                for _ in 0..200 {
                    let _ = write(&stream, b".");
                }
                end(body, stream, None);
            }
            "trailers" => {
                let (body, stream) = half(out);
                let value = vec![b'x'; argument.parse().unwrap()];
                let trailers = Fields::new();
                trailers.set("x-last", &[value]).unwrap();
                end(body, stream, Some(trailers));
            }
            "odd-trailers" => {
                let (body, stream) =
                    begin(out, 200, &[("trailer", "x-last, set-cookie, x-request-id, content-length")]);
                let _ = write(&stream, b"whole");
                let trailers = Fields::new();
                for (name, value) in [
                    ("x-last", "kept"),
                    ("set-cookie", "a=b"),
                    ("x-request-id", "forged"),
                    ("content-length", "9"),
                ] {
                    trailers.append(name, value.as_bytes()).unwrap();
                }
                end(body, stream, Some(trailers));
            }
            // After the answer.
            "after" => {
                answer(out, 200, &[], "good");
                match argument {
                    "trap" => panic!("after the response"),
                    "wait" => pause(DAY_MS),
                    "storm" => storm(1),
                    other => attack(other),
                }
            }
            // The request's body.
            "drop-request" => {
                drop(request);
                answer(out, 200, &[], "good");
            }
            "read-after" => {
                answer(out, 200, &[], "good");
                let body = request.consume().unwrap();
                let stream = body.stream().unwrap();
                let mut read = 0;
                while let Ok(piece) = stream.blocking_read(u64::MAX) {
                    read += piece.len();
                }
                println!("read {read} bytes after the response");
            }
            "splice" => {
                let body = request.consume().unwrap();
                let input = body.stream().unwrap();
                let (body, stream) = begin(out, 200, &[]);
                while stream.blocking_splice(&input, u64::MAX).is_ok() {}
                end(body, stream, None);
            }
            // Others.
            "fetch-for-ever" => loop {
                let _ = fetch();
            },
            "fetch" => {
                let open: Vec<_> = (0..argument.parse::<usize>().unwrap()).map(|_| fetch()).collect();
                answer(out, 200, &[], &open.len().to_string());
            }
            other => attack(other),
        }
    }
}

/// What needs no response.
fn attack(kind: &str) {
    match kind {
        "trap" => panic!("as asked"),
        "exit" => std::process::exit(0),
        "spin" => spin(),
        "recurse" => drop(recurse(1)),
        "grow" => grow(),
        "print" => loop {
            println!("{}", "x".repeat(10_000));
        },
        "random" => drop(get_random_bytes(1 << 31)),
        other => panic!("no such attack: `{other}`"),
    }
}

fn leak(what: &str) {
    let is_wide = what.ends_with("-fields") || what == "paths";
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    loop {
        held.push(match what {
            "fields" => Box::new(Fields::new()),
            "timers" => Box::new(subscribe_duration(u64::MAX)),
            "responses" => Box::new(OutgoingResponse::new(Fields::new())),
            "bodies" => Box::new(OutgoingResponse::new(Fields::new()).body().unwrap()),
            "requests" => Box::new(fetch()),
            "wide-fields" => Box::new(wide()),
            // What is shared is not, once it is changed.
            "changed-fields" => {
                let shared = held.first().and_then(|it: &Box<dyn std::any::Any>| it.downcast_ref::<Fields>());
                let fields = shared.map_or_else(wide, Fields::clone);
                let _ = fields.append("x-own", b"1");
                let _ = fields.delete("x-own");
                Box::new(fields)
            }
            "paths" => {
                let request = OutgoingRequest::new(Fields::new());
                let path = format!("/{}", "p".repeat(60_000));
                request.set_path_with_query(Some(&path)).unwrap();
                Box::new(request)
            }
            "responses-with-fields" => Box::new(OutgoingResponse::new(wide())),
            other => panic!("cannot leak `{other}`"),
        });
        if is_wide && held.len().is_multiple_of(16) {
            // From here on it may compute as long again.
            pause(1);
        }
    }
}

/// As many headers as there may be.
fn wide() -> Fields {
    let wide = vec![b'x'; 120 << 10];
    Fields::from_list(&[("x-wide".to_owned(), wide)]).unwrap()
}

/// Waits of this length, for ever, on many at once.
fn storm(ms: u64) -> ! {
    loop {
        let timers: Vec<Pollable> = (0..16).map(|_| subscribe_duration(ms * 1_000_000)).collect();
        poll(&timers.iter().collect::<Vec<_>>());
    }
}

fn fetch() -> Option<outgoing_handler::FutureIncomingResponse> {
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&Scheme::Http)).unwrap();
    request.set_authority(Some("127.0.0.1:1")).unwrap();
    outgoing_handler::handle(request, None).ok()
}

fn answer(out: ResponseOutparam, status: u16, headers: &[(&str, &str)], text: &str) {
    let (body, stream) = begin(out, status, headers);
    let _ = write(&stream, text.as_bytes());
    end(body, stream, None);
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

fn half(out: ResponseOutparam) -> (OutgoingBody, OutputStream) {
    let (body, stream) = begin(out, 200, &[("content-type", "text/plain")]);
    write(&stream, b"half").unwrap();
    (body, stream)
}

fn end(body: OutgoingBody, stream: OutputStream, trailers: Option<Fields>) {
    drop(stream);
    let _ = OutgoingBody::finish(body, trailers);
}

fn write(stream: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    stream.blocking_write_and_flush(bytes)
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

fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if frame.contains(&0) { 0 } else { recurse(depth + 1).wrapping_add(frame.iter().sum()) }
}

fn grow() -> ! {
    let mut held = Vec::new();
    loop {
        held.push(vec![1_u8; 1 << 20]);
    }
}
