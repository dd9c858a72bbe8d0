//! Bodies that begin and never come to their end: what becomes of them, and that requests that are there are served all the while.

use std::time::{Duration, Instant};

use e2e::frames::{DATA, END_HEADERS, HEADERS, Http2, post};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, clients};

/// One endpoint with places for 12 requests in all, and a neighbour.
fn serve(limits: &str, more: &[&str]) -> Host {
    let endpoint =
        |name: &str| Endpoint::new(name).guest("orders").limits("concurrency = 4, queue = 8").limits(limits);
    Setup::of(["orders", "neighbour"].map(endpoint)).arguments(more).serve()
}

/// Requests to both endpoints, one at a time.
fn all_are_answered(host: &Host, request: &[u8]) {
    for path in ["/orders", "/neighbour"].repeat(20) {
        let reply = host.post(path, request);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    }
}

const ORDER: &[u8] = br#"{"order": [""]}"#;

#[test]
fn begun_bodies_take_no_place_from_requests_that_are_there() {
    let host = serve("body_timeout = '1s'", &[]);
    let begun = wire::post("/orders", &[], r#"{"order": [""]}"#);
    let mut wires: Vec<Wire> = (0..40).map(|_| Wire::connect(&host.url).unwrap()).collect();
    for wire in &mut wires {
        wire.send(&begun[..begun.len() - 1]).unwrap();
    }
    all_are_answered(&host, ORDER);
    // Two connections with many begun bodies each are no more than many with one.
    let mut many: Vec<Http2> =
        (0..2).map(|_| Http2::begin(Wire::connect(&host.url).unwrap()).unwrap()).collect();
    let head = post("/orders", &[("content-type", "application/json")]);
    for frames in &mut many {
        for stream in (1..100).step_by(2) {
            frames.send(HEADERS, END_HEADERS, stream, &head).unwrap();
            frames.send(DATA, 0, stream, b"{").unwrap();
        }
    }
    all_are_answered(&host, ORDER);
    let mut codes = Vec::new();
    for mut wire in wires {
        let reply = wire.read().unwrap();
        let code = reply.json()["code"].as_str().unwrap().to_owned();
        assert!(
            [(408, "body_timeout"), (503, "overloaded")].contains(&(reply.status, code.as_str())),
            "{code}"
        );
        codes.push(code);
        // What of the body is still to come would be taken for a request.
        let started = Instant::now();
        assert_eq!(wire.until_closed(), b"");
        assert!(started.elapsed() < Duration::from_secs(10), "the connection goes on");
    }
    assert!(codes.iter().any(|code| code == "overloaded"), "{codes:?}");
}

#[test]
fn a_body_has_to_come_with_a_least_rate() {
    let host = serve("body_timeout = '400ms', body_rate = '2KiB'", &[]);
    let body = format!(r#"{{"order": [""], "more": "{}"}}"#, "x".repeat(10_000));
    let request = wire::post("/orders", &[], &body);
    let send = |bytes: usize| {
        let started = Instant::now();
        let mut wire = Wire::connect(&host.url).unwrap();
        for part in request.chunks(bytes) {
            if wire.send(part).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        (wire.read(), started.elapsed())
    };
    // Twice as fast as it has to, for longer than a body may take that does not come at all.
    let (reply, took) = send(500);
    assert_eq!(reply.unwrap().status, 200);
    assert!(took > Duration::from_secs(1), "{took:?}");
    let mut slow = Wire::connect(&host.url).unwrap();
    slow.send(&request[..request.len() - body.len() + 20]).unwrap();
    let started = Instant::now();
    let reply = slow.read().unwrap();
    assert_eq!(
        reply.error(408, "body_timeout", "admit"),
        "the body came too slowly, expected 2048 bytes a second after 400ms"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
    all_are_answered(&host, ORDER);
}

/// gRPC knows the model only by the message, which is still on its way.
#[test]
fn begun_messages_close_no_endpoint() {
    let host = serve("body_timeout = '20s'", &["--grpc-listen", "127.0.0.1:0"]);
    let address = host.grpc.clone().unwrap();
    let url = format!("http://{address}");
    let head = post(
        "/inference.GRPCInferenceService/ModelInfer",
        &[("content-type", "application/grpc"), ("te", "trailers")],
    );
    let connect = || Http2::begin(Wire::connect(&url).unwrap()).unwrap();
    let mut connections = [(); 6].map(|()| connect());
    for frames in &mut connections {
        for stream in (1..160).step_by(2) {
            frames.send(HEADERS, END_HEADERS, stream, &head).unwrap();
            // A message of 4 KiB whose model's name is there, and nothing more of it.
            frames.send(DATA, 0, stream, b"\0\0\0\x10\0\x0a\x06orders").unwrap();
        }
    }
    clients::run("grpc_raw", &[&address, "served"]);
    drop(connections);
}
