//! Clients that keep the host busy with what costs them nothing, or hold places by not reading: each is stopped, and a neighbour
//! feels nothing.

use std::time::{Duration, Instant};

use e2e::frames::{
    CONTINUATION as CONTINUED, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, PING, PRIORITY,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, head, is_ok, post,
};
use e2e::load::{Load, Pattern, alone, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::socket::{CONTINUATION, FINAL, PING as ASK, TEXT, WebSocket, masked};
use e2e::wire::Wire;
use e2e::{Host, request, wait_until};

const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];
/// Longer than any test waits: nothing ends a stream by its clock.
const PATIENT: &str = "stream_timeout = '10m', request_timeout = '10m'";

fn neighbour(host: &Host) -> Load {
    let load = Pattern::new(&host.url, "/echo").start();
    load.wait_for_more(5);
    load
}

fn unharmed(neighbour: Load) {
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}

fn serve(endpoint: Endpoint) -> Host {
    Setup::of([endpoint, Endpoint::new("echo").guest("echo")]).serve()
}

fn open(host: &Host, path: &str) -> Wire {
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").as_bytes()).unwrap();
    wire.receive().unwrap();
    wire
}

/// Small fragments take their part of a second, as messages do.
#[test]
fn fragments_of_a_message_are_read_no_faster_than_messages() {
    let host = serve(Endpoint::new("talk").guest("socket").limits("socket_rate = 50"));
    let mut socket = WebSocket::open(&host.url, "/talk", &[]).map_err(|reply| reply.status).unwrap();
    let begun = Instant::now();
    let mut frames = masked(TEXT, b"a");
    for _ in 0..150 {
        frames.extend(masked(CONTINUATION, b""));
    }
    frames.extend(masked(FINAL | CONTINUATION, b"b"));
    socket.send(&frames).unwrap();
    assert_eq!(socket.hear(), "echo ab");
    // They may have been read at once; what comes after them waits for its time.
    socket.send(&masked(FINAL | TEXT, b"c")).unwrap();
    assert_eq!(socket.hear(), "echo c");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1900), "fifty at once, then fifty a second: {took:?}");
    // Large ones are paid for by the length of the message.
    let begun = Instant::now();
    let part = vec![b'x'; 1 << 10];
    let mut frames = masked(TEXT, b"");
    for _ in 0..200 {
        frames.extend(masked(CONTINUATION, &part));
    }
    frames.extend(masked(FINAL | CONTINUATION, b""));
    socket.send(&frames).unwrap();
    assert_eq!(socket.hear().len(), "echo ".len() + 200 * part.len());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn sockets_full_of_frames_that_say_nothing_harm_no_neighbour() {
    let _alone = alone();
    for frame in [masked(CONTINUATION, b""), masked(FINAL | ASK, b"")] {
        let host = serve(Endpoint::new("talk").guest("socket"));
        let neighbour = neighbour(&host);
        let flood = frame.repeat(2000);
        let sockets: Vec<_> = (0..20)
            .map(|_| {
                let mut socket =
                    WebSocket::open(&host.url, "/talk", &[]).map_err(|reply| reply.status).unwrap();
                socket.send(&masked(TEXT, b"a")).unwrap();
                let flood = flood.clone();
                std::thread::spawn(move || {
                    // Until nothing more is taken of it, or it is closed.
                    while socket.send(&flood).is_ok() {}
                })
            })
            .collect();
        neighbour.wait_for_more(200);
        unharmed(neighbour);
        drop(host);
        for socket in sockets {
            socket.join().unwrap();
        }
    }
}

/// Frames that carry nothing of a request end the connection that sends too many, by either listener.
#[test]
fn floods_of_frames_end_a_connection_of_http2() {
    let setup = Setup::of([Endpoint::new("echo").guest("echo")]);
    let host = setup.arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    let neighbour = neighbour(&host);
    let flags_and_payload: [(u8, u8, u32, &[u8]); 7] = [
        (SETTINGS, 0, 0, &[]),
        (PING, 0, 0, b"12345678"),
        (PRIORITY, 0, 1, &[0, 0, 0, 3, 1]),
        (WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        (200, 0, 0, b"unknown"),
        (DATA, 0, 1, &[]),
        (CONTINUED, 0, 1, &[]),
    ];
    for url in [host.url.clone(), host.grpc.clone().unwrap()] {
        for (kind, flags, stream, payload) in flags_and_payload {
            let mut frames = Http2::begin(Wire::connect(&url).unwrap()).unwrap();
            frames.receive_kind(SETTINGS).unwrap();
            if kind == DATA || kind == CONTINUED {
                let flags = if kind == DATA { END_HEADERS } else { 0 };
                frames.send(HEADERS, flags, 1, &post("/echo", &[])).unwrap();
            }
            for _ in 0..10_000 {
                if frames.send(kind, flags, stream, payload).is_err() {
                    break;
                }
            }
            let end = frames.receive_kind(GOAWAY).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(end.payload[4..8], ENHANCE_YOUR_CALM, "{kind} {:?}", end.payload);
            while frames.receive().is_ok() {}
        }
    }
    unharmed(neighbour);
}

/// A client that acknowledges each part of what it takes, twice, sends as many frames and is served.
#[test]
fn a_client_that_acknowledges_all_it_takes_is_served() {
    let host = serve(Endpoint::new("app").guest("application").limits(PATIENT));
    let mut frames = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &head("GET", "/app/flood?pieces=400", &[])).unwrap();
    assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    let mut acknowledged = 0;
    loop {
        let frame = frames.receive().unwrap();
        assert!(![GOAWAY, RST_STREAM].contains(&frame.kind), "{frame:?} after {acknowledged}");
        if frame.kind != DATA {
            continue;
        }
        if frame.flags & END_STREAM != 0 {
            break;
        }
        let length = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
        for stream in [0, 1] {
            if !frame.payload.is_empty() {
                frames.send(WINDOW_UPDATE, 0, stream, &length).unwrap();
                acknowledged += 1;
            }
        }
    }
    assert!(acknowledged > 2 * 1024, "{acknowledged}");
}

/// Who does not read holds no place against requests that are there; who reads keeps its own.
#[test]
fn answers_that_no_client_takes_make_way() {
    for (guest, flood, other) in [
        ("application", "/app/flood?pieces=100000", "/app/served"),
        ("concurrent", "/app/flood?pieces=100000", "/app/served"),
        ("responder", "/app/bytes/100000", "/app/served"),
    ] {
        for queue in [0, 4] {
            let limits = format!("concurrency = 3, queue = {queue}, {PATIENT}");
            let host = serve(Endpoint::new("app").guest(guest).limits(&limits));
            let neighbour = neighbour(&host);
            let in_flight = || host.metric(r#"modelhost_requests_in_flight{endpoint="app"}"#);
            let stuck: Vec<Wire> = (0..2).map(|_| open(&host, flood)).collect();
            let mut reader = open(&host, flood);
            wait_until("all places to be taken", || in_flight() == 3.0);
            let reading = std::thread::spawn(move || {
                let begun = Instant::now();
                let mut bytes = 0;
                while begun.elapsed() < Duration::from_secs(4) {
                    reader.receive().unwrap();
                    bytes += reader.forget();
                }
                bytes
            });
            // Within the queue a request waits for it; without one the next that comes gets it.
            wait_until("a place", || request("GET", &format!("{}{other}", host.url), &[], b"").status == 200);
            assert_eq!(request("GET", &format!("{}{other}", host.url), &[], b"").status, 200, "{guest}");
            assert!(reading.join().unwrap() > 1 << 20, "{guest}");
            unharmed(neighbour);
            drop(stuck);
        }
    }
}

#[test]
fn sockets_that_no_client_reads_make_way() {
    let limits = "sockets = 2, stream_timeout = '10m', socket_idle = '10m'";
    let host = serve(Endpoint::new("talk").guest("socket").limits(limits));
    let mut stuck: Vec<WebSocket> = (0..2)
        .map(|_| WebSocket::open(&host.url, "/talk", &[]).map_err(|reply| reply.status).unwrap())
        .collect();
    stuck[0].say("flood");
    assert_eq!(stuck[1].ask("a"), "echo a");
    let mut third = None;
    wait_until("a place", || {
        third = WebSocket::open(&host.url, "/talk", &[]).ok();
        third.is_some()
    });
    assert_eq!(third.unwrap().ask("b"), "echo b");
    // The one that reads stays.
    assert_eq!(stuck[1].ask("c"), "echo c");
}
