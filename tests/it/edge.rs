//! Clients that take liberties with their connections: what each limit does to them, and that a neighbour feels nothing.

use std::time::{Duration, Instant};

use e2e::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, Http2, RST_STREAM, SETTINGS, is_ok, post,
};
use e2e::load::{Load, Pattern, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, wait_until};

/// Three endpoints: `echo`; `few`, which sleeps as the body says, one request at a time; `flood`, whose answers are long.
fn serve(server: &str) -> Host {
    let few = "concurrency = 1, queue = 1, pre_timeout = '60s', request_timeout = '2s'";
    let endpoints = [
        Endpoint::new("echo").guest("echo"),
        Endpoint::new("few").guest("files").limits(few),
        Endpoint::new("flood").guest("liar").limits("output = '128MiB', memory = '256MiB'"),
    ];
    Setup::of(endpoints).tables(format!("[server]\n{server}")).serve()
}

fn connect(host: &Host) -> Wire {
    Wire::connect(&host.url).unwrap()
}

/// One request on a connection of its own.
fn answered(host: &Host, request: &[u8]) -> Reply {
    let mut wire = connect(host);
    wire.send(request).unwrap();
    wire.read().unwrap()
}

/// A neighbour that calls `echo` all the time; to be asked in the end.
fn neighbour(host: &Host) -> Load {
    let load = Pattern::new(&host.url, "/echo").start();
    load.wait_for_more(5);
    load
}

fn unharmed(neighbour: Load) {
    neighbour.wait_for_more(10);
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}

fn in_flight(host: &Host) -> usize {
    host.metric(r#"modelhost_requests_in_flight{endpoint="few"}"#) as usize
}

/// Requests that have a place at `few`, or wait for one.
fn known(host: &Host) -> usize {
    in_flight(host) + host.metric(r#"modelhost_requests_queued{endpoint="few"}"#) as usize
}

#[test]
fn a_head_beyond_the_limits_is_431() {
    let host = serve("header_size = '8KiB'\nheaders = 10");
    let neighbour = neighbour(&host);
    let with = |headers: usize, length: usize| {
        let mut headers: Vec<(String, String)> =
            (0..headers).map(|n| (format!("x-{n}"), "v".to_owned())).collect();
        headers.push(("x-long".to_owned(), "v".repeat(length)));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        wire::post("/echo", &headers, "hello")
    };
    // Beside these there are host, content type and length.
    assert_eq!(answered(&host, &with(6, 1)).status, 200);
    assert_eq!(answered(&host, &with(0, 8000)).status, 200);
    let text = answered(&host, &with(7, 1)).error(431, "head_too_large", "admit");
    assert_eq!(text, "the head has 11 headers, of at most 10");
    let expected = "the head is longer than 8192 bytes";
    assert_eq!(answered(&host, &with(0, 8200)).error(431, "head_too_large", "admit"), expected);
    let long_path = wire::get(&format!("/{}", "p".repeat(8200)));
    assert_eq!(answered(&host, &long_path).error(431, "head_too_large", "admit"), expected);
    // The operator's listener is no other.
    let mut wire = Wire::connect(&host.admin).unwrap();
    wire.send(&with(7, 1)).unwrap();
    assert_eq!(wire.read().unwrap().status, 431);
    // What is far beyond is not read to its end: the status alone, and the connection is closed.
    for far in [with(200, 1), with(0, 1 << 20)] {
        let mut wire = connect(&host);
        // The host may be gone before all of it is sent.
        let _ = wire.send(&far);
        let answer = String::from_utf8(wire.until_closed()).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    // HTTP/2 has the same limits.
    let mut frames = Http2::begin(connect(&host)).unwrap();
    let many: Vec<(String, String)> = (0..20).map(|n| (format!("x-{n}"), "v".to_owned())).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &post("/echo", &many)).unwrap();
    assert!(!is_ok(&frames.receive_kind(HEADERS).unwrap()));
    frames.send(HEADERS, END_HEADERS | END_STREAM, 3, &post("/echo", &many[..2])).unwrap();
    assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    unharmed(neighbour);
}

#[test]
fn a_head_that_does_not_come_to_its_end_is_cut_off() {
    let host = serve("header_timeout = '600ms'");
    let neighbour = neighbour(&host);
    let request = wire::post("/echo", &[], "hello");
    // One that has had an answer is no better than the others; one that keeps still after it is.
    let mut later = connect(&host);
    let mut kept = connect(&host);
    for wire in [&mut later, &mut kept] {
        wire.send(&request).unwrap();
        assert_eq!(wire.read().unwrap().status, 200);
    }
    let mut wires = vec![later];
    wires.extend((0..40).map(|_| connect(&host)));
    let started = Instant::now();
    // A byte now and then is no excuse; some send none at all.
    'dripping: for byte in &request {
        for (n, wire) in wires.iter_mut().enumerate() {
            if n % 4 != 3 && wire.send(&[*byte]).is_err() {
                break 'dripping;
            }
        }
        std::thread::sleep(Duration::from_millis(40));
    }
    for wire in wires {
        assert_eq!(wire.until_closed(), b"", "no answer, for there was no request");
    }
    assert!(started.elapsed() < Duration::from_secs(30), "took {:?}", started.elapsed());
    kept.send(&request).unwrap();
    assert_eq!(kept.read().unwrap().status, 200, "silence between requests is another thing");
    unharmed(neighbour);
}

#[test]
fn a_body_that_drips_ends_with_its_requests_time_and_frees_its_place() {
    let host = serve("");
    let neighbour = neighbour(&host);
    let body = format!("sleep:1{}", " ".repeat(4000));
    let request = wire::post("/few", &[("expect", "100-continue")], &body);
    let mut wires: Vec<Wire> = (0..2).map(|_| connect(&host)).collect();
    let started = Instant::now();
    for wire in &mut wires {
        wire.send(&request[..request.len() - 4000]).unwrap();
        assert_eq!(wire.read().unwrap().status, 100, "its body is awaited");
    }
    // They take every place there is, until a request is there that can be served: the older makes way.
    assert_eq!(answered(&host, &wire::post("/few", &[], "sleep:1")).status, 200);
    wires[0].read().unwrap().error(503, "overloaded", "admit");
    let mut drip = || -> std::io::Result<Reply> {
        while started.elapsed() < Duration::from_millis(1700) {
            wires[1].send(b" ")?;
            std::thread::sleep(Duration::from_millis(50));
        }
        wires[1].read()
    };
    drip().unwrap().error(504, "request_timeout", "admit");
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert_eq!(answered(&host, &wire::post("/few", &[], "sleep:1")).status, 200);
    unharmed(neighbour);
}

#[test]
fn a_client_that_takes_nothing_of_its_answer_is_cut_off_and_a_slow_one_is_not() {
    const LENGTH: usize = 40 << 20;
    let host = serve("idle_timeout = '1s'");
    let neighbour = neighbour(&host);
    let flood = wire::post("/flood", &[], &format!("flood {LENGTH}"));
    let mut stalled = connect(&host);
    let mut slow = connect(&host);
    for wire in [&mut stalled, &mut slow] {
        wire.send(&flood).unwrap();
        wire.receive().unwrap();
    }
    // Longer than the timeout, a little at a time.
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(4) {
        for _ in 0..20 {
            slow.receive().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(slow.read().unwrap().body.len(), LENGTH);
    assert!(stalled.until_closed().len() < LENGTH, "the host went on writing to nobody");
    unharmed(neighbour);
}

#[test]
fn an_idle_connection_is_closed_and_one_with_a_request_is_not() {
    let host = serve("idle_timeout = '400ms'");
    let mut idle = connect(&host);
    idle.send(&wire::get("/healthz")).unwrap();
    assert_eq!(idle.read().unwrap().status, 200);
    let mut busy = connect(&host);
    busy.send(&wire::post("/few", &[], "sleep:1500")).unwrap();
    assert_eq!(idle.until_closed(), b"");
    assert_eq!(busy.read().unwrap().status, 200);
    // HTTP/2 says goodbye.
    let mut frames = Http2::begin(connect(&host)).unwrap();
    frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &post("/echo", &[])).unwrap();
    assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    frames.receive_kind(GOAWAY).unwrap();
}

#[test]
fn more_connections_than_may_be_wait_for_their_turn() {
    let host = serve("max_connections = 3");
    // Two with requests, one that answers all the time: nobody has a place to give.
    let mut first = connect(&host);
    first.send(&wire::post("/few", &[], "sleep:1200")).unwrap();
    wait_until("the first to be served", || in_flight(&host) == 1);
    let mut second = connect(&host);
    second.send(&wire::post("/few", &[], "sleep:1")).unwrap();
    let load = Pattern { clients: 1, ..Pattern::new(&host.url, "/echo") }.start();
    load.wait_for_more(5);
    let mut more = connect(&host);
    more.send(&wire::get("/healthz")).unwrap();
    host.wait_for_log("3 connections are open");
    assert_eq!(first.read().unwrap().status, 200);
    assert_eq!(second.read().unwrap().status, 200);
    // They keep their connections without a request, and are asked to leave for the one that waits.
    assert_eq!(more.read().unwrap().status, 200);
    unharmed(load);
    // The operator is never locked out.
    assert_eq!(host.endpoints().as_array().unwrap().len(), 3);
}

/// Clients that connect and say nothing do not keep others out for as long as a head may take.
#[test]
fn silent_connections_leave_their_places_to_others() {
    let host = serve("max_connections = 3");
    let _silent: Vec<Wire> = (0..3).map(|_| connect(&host)).collect();
    host.wait_for_log("3 connections are open");
    let started = Instant::now();
    let mut more = connect(&host);
    more.send(&wire::get("/healthz")).unwrap();
    assert_eq!(more.read().unwrap().status, 200);
    assert!(started.elapsed() < Duration::from_secs(8), "took {:?}", started.elapsed());
}

/// Value of a setting (RFC 9113, section 6.5.2).
fn setting(settings: &Frame, id: u16) -> Option<u32> {
    let (entries, _) = settings.payload.as_chunks::<6>();
    let value = |entry: &[u8; 6]| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
    entries.iter().find(|entry| u16::from_be_bytes([entry[0], entry[1]]) == id).map(value)
}

#[test]
fn streams_are_limited_and_taking_them_back_fast_ends_the_connection() {
    let host = serve("http2_streams = 5");
    let neighbour = neighbour(&host);
    let mut frames = Http2::begin(connect(&host)).unwrap();
    let settings = frames.receive_kind(SETTINGS).unwrap();
    assert_eq!(setting(&settings, 3), Some(5), "{settings:?}");
    assert_eq!(setting(&settings, 6), Some(128 << 10), "{settings:?}");
    frames.send(SETTINGS, 1, 0, &[]).unwrap();
    // One stream too many, the others with a body to come, is refused by itself.
    let ids: Vec<u32> = (0..6).map(|n| 2 * n + 1).collect();
    for id in &ids {
        frames.send(HEADERS, END_HEADERS, *id, &post("/echo", &[])).unwrap();
    }
    assert_eq!(frames.receive_kind(RST_STREAM).unwrap().stream, 11);
    for id in &ids[..5] {
        frames.send(0, END_STREAM, *id, b"body").unwrap();
        assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    }
    // Rapid reset: begun and taken back, again and again.
    let mut reset = || -> std::io::Result<()> {
        for id in (13..).step_by(2) {
            frames.send(HEADERS, END_HEADERS, id, &post("/echo", &[]))?;
            frames.send(RST_STREAM, 0, id, &8_u32.to_be_bytes())?;
        }
        Ok(())
    };
    reset().unwrap_err();
    unharmed(neighbour);
}

/// Whatever else its client does on the connection, a response that nobody takes is not held for ever.
#[test]
fn a_stream_that_nobody_reads_ends_a_connection_that_is_alive() {
    let host = serve("idle_timeout = '1s'");
    let neighbour = neighbour(&host);
    let mut frames = Http2::begin(connect(&host)).unwrap();
    // A window of 100 bytes a stream: a setting's number, its value.
    let window = |bytes: u32| [&[0, 4], bytes.to_be_bytes().as_slice()].concat();
    frames.send(SETTINGS, 0, 0, &window(100)).unwrap();
    let body = vec![b'x'; 10_000];
    frames.send(HEADERS, END_HEADERS, 1, &post("/echo", &[])).unwrap();
    frames.send(DATA, END_STREAM, 1, &body).unwrap();
    assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    let mut busy = || -> std::io::Result<()> {
        for id in (3..).step_by(2) {
            // Refused at once, in fewer bytes than the window: a sign of life.
            frames.send(HEADERS, END_HEADERS | END_STREAM, id, &post("/none", &[]))?;
            while frames.receive()?.stream != id {}
        }
        Ok(())
    };
    busy().unwrap_err();
    unharmed(neighbour);
}

/// A refusal is read on a connection that goes on, though nobody wanted the body.
#[test]
fn small_bodies_that_nobody_wants_do_not_cost_the_connection() {
    let host = serve("");
    for (address, path, status) in
        [(&host.url, "/none", 404), (&host.url, "/v1/models/none:predict", 404), (&host.admin, "/none", 404)]
    {
        let mut wire = Wire::connect(address).unwrap();
        for _ in 0..3 {
            wire.send(&wire::post(path, &[], &"x".repeat(30_000))).unwrap();
            assert_eq!(wire.read().unwrap().status, status, "{path}");
        }
    }
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let host = serve("");
    let mut wire = connect(&host);
    let requests: Vec<u8> = (0..20).flat_map(|n| wire::post("/echo", &[], &format!("request {n}"))).collect();
    let (first, rest) = requests.split_at(requests.len() / 2);
    wire.send(first).unwrap();
    wire.send(rest).unwrap();
    for n in 0..20 {
        assert_eq!(wire.read().unwrap().json()["body"], format!("request {n}"));
    }
}

#[test]
fn a_client_that_asks_before_its_body_is_told() {
    let host = serve("");
    let request = wire::post("/few", &[("expect", "100-continue")], "sleep:1");
    let (head, body) = request.split_at(request.len() - 7);
    let mut wire = connect(&host);
    wire.send(head).unwrap();
    assert_eq!(wire.read().unwrap().status, 100);
    wire.send(body).unwrap();
    assert_eq!(wire.read().unwrap().status, 200);
    // Who has no place to hope for is told that instead.
    let mut others: Vec<Wire> = (0..2).map(|_| connect(&host)).collect();
    others.iter_mut().for_each(|wire| wire.send(&wire::post("/few", &[], "sleep:1000")).unwrap());
    wait_until("no place to be left", || known(&host) == 2);
    let mut wire = connect(&host);
    wire.send(head).unwrap();
    wire.read().unwrap().error(503, "overloaded", "admit");
}

/// The reply after any number of `100 Continue`.
fn final_reply(wire: &mut Wire) -> Reply {
    loop {
        let reply = wire.read().unwrap();
        if reply.status >= 200 {
            return reply;
        }
        assert_eq!(reply.status, 100);
    }
}

#[test]
fn a_client_that_only_listens_gets_its_answer_and_one_that_has_gone_frees_its_place() {
    let host = serve("");
    let cancelled =
        || host.metric(r#"modelhost_requests_total{endpoint="few",outcome="cancelled"}"#) as usize;
    let ok = || host.metric(r#"modelhost_requests_total{endpoint="few",outcome="ok"}"#) as usize;
    let mut listens: Vec<Wire> = (0..2).map(|_| connect(&host)).collect();
    for wire in &mut listens {
        wire.send(&wire::post("/few", &[], "sleep:500")).unwrap();
        wire.finish().unwrap();
    }
    for mut wire in listens {
        let reply = final_reply(&mut wire);
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert_eq!(wire.until_closed(), b"");
    }
    assert_eq!((ok(), cancelled()), (2, 0));
    // A long answer comes whole.
    let mut wire = connect(&host);
    wire.send(&wire::post("/flood", &[], "flood 20000000")).unwrap();
    wire.finish().unwrap();
    assert_eq!(final_reply(&mut wire).body.len(), 20_000_000);

    // Gone while in flight, and while waiting: long before their time is up both places are free.
    for (gone, before) in [(1, 0), (2, 1)] {
        let mut wires: Vec<Wire> = (0..gone).map(|_| connect(&host)).collect();
        wires.iter_mut().for_each(|wire| wire.send(&wire::post("/few", &[], "sleep:60000")).unwrap());
        wait_until("them to be known", || known(&host) == gone);
        let started = Instant::now();
        drop(wires);
        wait_until("them to be cancelled", || cancelled() == before + gone);
        assert!(started.elapsed() < Duration::from_millis(1500), "took {:?}", started.elapsed());
    }
    assert_eq!(answered(&host, &wire::post("/few", &[], "sleep:1")).status, 200);
    // A body that ends too early is one that has gone, whoever listens.
    let mut wire = connect(&host);
    let request = wire::post("/few", &[], "sleep:1");
    wire.send(&request[..request.len() - 1]).unwrap();
    drop(wire);
    wait_until("it to be cancelled", || cancelled() == 4);
}
