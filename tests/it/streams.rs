//! Streams of applications, by either protocol: how they end, who waits for whom, and what outlives them.

use std::thread;
use std::time::{Duration, Instant};

use e2e::frames::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, Http2, RST_STREAM, head, is_ok};
use e2e::wire::Wire;
use e2e::{Host, component, replace, request, wait_until};

const IN_FLIGHT: &str = "modelhost_requests_in_flight{endpoint=\"app\"}";

fn serve(guest: &str, more: &[&str]) -> Host {
    let mut arguments = vec!["--name", "app", "--pre-timeout", "300ms"];
    arguments.extend(more);
    Host::with(Some(&component(guest)), None, &arguments)
}

fn open(host: &Host, path: &str) -> Wire {
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
    wire
}

fn receive(wire: &mut Wire, text: &str) {
    while !String::from_utf8_lossy(wire.unread()).contains(text) {
        wire.receive().unwrap();
    }
}

/// Frames of one stream, up to the last one.
fn frames(connection: &mut Http2, stream: u32) -> Vec<Frame> {
    let mut seen = Vec::new();
    loop {
        let frame = connection.receive().unwrap();
        if frame.stream == stream && [DATA, HEADERS, RST_STREAM].contains(&frame.kind) {
            let is_last = frame.kind == RST_STREAM || frame.flags & END_STREAM != 0;
            seen.push(frame);
            if is_last {
                return seen;
            }
        }
    }
}

fn data(frames: &[Frame]) -> String {
    let data = frames.iter().filter(|frame| frame.kind == DATA);
    data.map(|frame| String::from_utf8_lossy(&frame.payload).into_owned()).collect()
}

#[test]
fn a_stream_of_http2_ends_or_is_reset() {
    let host = serve("tests/application", &["--stream-timeout", "500ms"]);
    let mut connection = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    for (number, (path, says, is_whole)) in [
        ("/app/stream", "data: 2", true),
        ("/app/trap-in-body", "event: error", false),
        ("/app/leave-body", "half", false),
        ("/app/drop-body", "half", false),
        ("/app/spin-in-body", "half", false),
        ("/app/wait-in-body?ms=60000", "half", false),
        ("/app/stream", "data: 2", true),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 2 * u32::try_from(number).unwrap() + 1;
        connection.send(HEADERS, END_HEADERS | END_STREAM, stream, &head("GET", path, &[])).unwrap();
        let seen = frames(&mut connection, stream);
        assert!(is_ok(&seen[0]) && data(&seen).contains(says), "{path}: {seen:?}");
        assert_eq!(seen.last().unwrap().kind != RST_STREAM, is_whole, "{path}: {seen:?}");
    }
}

#[test]
fn bodies_and_trailers_stream_in_both_directions_over_http2() {
    let host = serve("tests/application", &[]);
    let mut connection = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    connection.send(HEADERS, END_HEADERS, 1, &head("POST", "/app/echo", &[("te", "trailers")])).unwrap();
    assert!(is_ok(&connection.receive_kind(HEADERS).unwrap()));
    // Each piece is answered before the next one is sent.
    let mut seen = String::new();
    for piece in ["one", "two", "three"] {
        connection.send(DATA, 0, 1, piece.as_bytes()).unwrap();
        while !seen.contains(piece) {
            seen += &String::from_utf8_lossy(&connection.receive_kind(DATA).unwrap().payload);
        }
    }
    connection.send(DATA, END_STREAM, 1, b"").unwrap();
    let rest = frames(&mut connection, 1);
    let last = rest.last().unwrap();
    assert_eq!((last.kind, last.flags & END_STREAM), (HEADERS, END_STREAM), "trailers: {rest:?}");
}

#[test]
fn every_method_reaches_an_application() {
    let host = serve("tests/application", &[]);
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
        let mut wire = Wire::connect(&host.url).unwrap();
        let head = format!("{method} /app/echo HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
        wire.send(head.as_bytes()).unwrap();
        let text = String::from_utf8_lossy(&wire.until_closed()).into_owned();
        let expected = match method {
            "BREW" => method.to_owned(),
            _ => format!("Method::{}{}", &method[..1], method[1..].to_lowercase()),
        };
        let says = format!("\"method\":\"{expected}\"");
        assert!(text.starts_with("HTTP/1.1 200 ") && text.contains(&says), "{method}: {text}");
    }
    // The head of a response, whatever body the application makes for it.
    for guest in ["tests/application", "tests/responder"] {
        let host = serve(guest, &[]);
        let path = if guest == "tests/responder" { "/app/served" } else { "/app/served?" };
        let reply = request("HEAD", &format!("{}{path}", host.url), &[], b"");
        assert_eq!((reply.status, reply.body.len()), (200, 0), "{guest}");
        let mut connection = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
        connection.send(HEADERS, END_HEADERS | END_STREAM, 1, &head("HEAD", path, &[])).unwrap();
        let seen = frames(&mut connection, 1);
        assert!(is_ok(&seen[0]) && data(&seen).is_empty(), "{guest}: {seen:?}");
    }
}

/// A client that reads slowly holds the handler in its write, not the host's memory; it loses nothing.
#[test]
fn a_slow_reader_holds_the_handler_in_its_write() {
    for (guest, path, length) in [
        ("tests/application", "/app/flood?pieces=3200", 3200 << 16),
        ("tests/responder", "/app/bytes/2000", 200_000_000),
    ] {
        let host = serve(guest, &[]);
        let mut wire = open(&host, path);
        wire.receive().unwrap();
        let before = host.memory("VmRSS");
        thread::sleep(Duration::from_millis(500));
        assert_eq!(host.metric(IN_FLIGHT), 1.0, "{guest} waits in its write");
        // Half of what the handler writes would be 100 MB.
        let grown = host.memory("VmRSS").saturating_sub(before);
        assert!(grown < 80 << 10, "{guest}: {grown} KiB more");
        let rest = wire.until_closed();
        assert!(rest.len() > length && rest.ends_with(b"0\r\n\r\n"), "{guest}: {} bytes", rest.len());
        assert!(host.memory("VmHWM") < 400 << 10, "{guest}: {} KiB", host.memory("VmHWM"));
    }
}

/// A permit is for what the handler does, not for what its client has yet to read.
#[test]
fn unread_data_take_no_place() {
    for (guest, path) in [("tests/application", "/app/flood?pieces=12"), ("tests/responder", "/app/bytes/8")]
    {
        let host = serve(guest, &["--concurrency", "1", "--queue", "0"]);
        let unread: Vec<Wire> = (0..20)
            .map(|_| {
                let mut wire = open(&host, path);
                receive(&mut wire, "200 OK");
                wait_until("the handler to be done", || host.metric(IN_FLIGHT) == 0.0);
                wire
            })
            .collect();
        for wire in unread {
            assert!(wire.until_closed().ends_with(b"0\r\n\r\n"), "{guest}");
        }
    }
}

/// Streams that end within the time of the drain are whole; those that would not are cut, and say so.
#[test]
fn a_drain_waits_for_streams_within_its_time() {
    let host = serve("tests/application", &["--drain-timeout", "3s"]);
    let mut short = open(&host, "/app/stream?events=15&pause_ms=100");
    let mut long = open(&host, "/app/stream?events=10000&pause_ms=100");
    let mut after = open(&host, "/app/after?ms=1500");
    for wire in [&mut short, &mut long] {
        receive(wire, "data: 0");
    }
    receive(&mut after, "begun");
    let started = Instant::now();
    host.signal("TERM");
    let short = String::from_utf8_lossy(&short.until_closed()).into_owned();
    assert!(short.contains("data: 14") && short.ends_with("0\r\n\r\n"), "{short}");
    let long = String::from_utf8_lossy(&long.until_closed()).into_owned();
    assert!(long.contains("event: error") && !long.ends_with("0\r\n\r\n"), "{long}");
    let (_, log) = host.wait();
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(log.contains("the work after the response is done"), "{log}");
}

/// A version lives as long as its last stream, and no longer.
#[test]
fn a_version_goes_with_its_last_stream() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.wasm");
    std::fs::copy(component("tests/application"), &file).unwrap();
    let host = Host::with(Some(&file), None, &["--name", "app"]);
    let digest = |host: &Host| host.get("/app/served").header("x-handler-digest").unwrap().to_owned();
    let first = digest(&host);
    let mut stream = open(&host, "/app/stream?events=160&pause_ms=50");
    receive(&mut stream, "data: 0");
    for note in 1..=3 {
        let before = digest(&host);
        replace(&file, &e2e::version("tests/application", note));
        wait_until("the next version", || digest(&host) != before);
    }
    let instances = || host.metric("modelhost_plugin_instances{endpoint=\"app\"}");
    assert!(instances() >= 1.0);
    let text = String::from_utf8_lossy(&stream.until_closed()).into_owned();
    assert!(text.contains(&format!("x-handler-digest: {first}")) && text.contains("data: 159"), "{text}");
    assert!(text.ends_with("0\r\n\r\n"), "{text}");
    wait_until("its instance to go", || instances() <= 1.0);
}

/// Instances of `wasi:http` serve one request, unless the operator asks for more and a trial shows that they can.
#[test]
fn an_instance_is_reused_where_it_is_asked_for_and_can_be() {
    let served = |host: &Host, path: &str| host.get(path).text();
    let fresh = serve("tests/application", &["--concurrency", "1"]);
    assert_eq!([(); 3].map(|()| served(&fresh, "/app/served")), ["1", "1", "1"]);
    let reused = serve("tests/application", &["--concurrency", "1", "--reuse-instances"]);
    reused.wait_for_log("answered two requests, both with 404");
    assert_eq!([(); 3].map(|()| served(&reused, "/app/served")), ["1", "2", "3"]);
    // One that failed, streamed without an end, or keeps more of the host than before, serves no more.
    for bad in ["/app/trap", "/app/leave-body", "/app/served?leak=1"] {
        assert!(!open(&reused, bad).until_closed().is_empty(), "{bad}");
    }
    assert_eq!(served(&reused, "/app/served"), "1");
    // Each response is its own.
    for n in 0..20 {
        let reply = reused.request("POST", &format!("/app/echo?{n}"), &[], format!("body {n}").as_bytes());
        assert!(
            reply.text().contains(&format!("/echo?{n}\"")) && reply.text().ends_with(&format!("body {n}"))
        );
    }
    let once = serve("tests/once", &["--reuse-instances"]);
    wait_until("the refusal in the log", || {
        let log = once.log();
        log.contains("instances are not reused") && log.contains("the second failed")
    });
    assert_eq!([(); 3].map(|()| served(&once, "/app/")), ["first", "first", "first"]);
    let isolated = serve("tests/application", &["--reuse-instances", "--isolation", "request"]);
    assert_eq!([(); 2].map(|()| served(&isolated, "/app/served")), ["1", "1"]);
}
