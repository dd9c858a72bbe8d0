//! gRPC: the clients of the field against a host, what they may do to it, and how a stream ends.
//!
//! The clients are scripts of `tests/clients`; each test runs one function of one of them. What a client library would never
//! send is written here by hand, as frames of HTTP/2.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::oip_clients::{number, perf_analyzer};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, PATIENCE, clients, root, wait_until};

fn orders(name: &str, limits: &str) -> Endpoint {
    Endpoint::new(name).guest("orders").limits(limits)
}

/// A host that speaks gRPC, and its address.
fn serve(setup: Setup) -> (Host, String) {
    let host = setup.arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    let address = host.grpc.clone().unwrap();
    (host, address)
}

/// The same with the guest of orders at `/orders`.
fn serve_orders(limits: &str) -> (Host, String) {
    serve(Setup::of([orders("orders", limits)]))
}

fn in_flight(host: &Host) -> f64 {
    host.metric(r#"modelhost_requests_in_flight{endpoint="orders"}"#)
}

/// What `triton_grpc.py` expects.
fn zoo() -> Setup {
    let identity = |name: &str| Endpoint::new(name).model(&format!("identity_{name}"));
    Setup::of([Endpoint::new("iris").model("iris_dyn"), Endpoint::new("rows").model("rows").set(BATCHING)])
        .endpoints(["bytes", "fp16", "bf16", "bool", "int8", "uint64"].map(identity))
        .endpoint(Endpoint::new("defaults").model("defaults"))
        .endpoint(Endpoint::new("tensors").guest("tensors"))
        .endpoint(orders("orders", "pre_timeout = '30s'"))
}

const BATCHING: &str = "batching = { max_batch = 8, wait = 'always' }";

#[test]
fn tritonclient_works_unchanged() {
    let (host, address) = serve(zoo());
    for case in ["questions", "infer", "typed", "asynchronous", "stream", "no_control", "heads"] {
        clients::run("triton_grpc", &[&address, case]);
    }
    // Whoever gave up took their requests with them.
    wait_until("cancelled requests to end", || in_flight(&host) == 0.0);
    // A caller's own patience is no failure of the server's, nor is a caller's mistake.
    assert!(!host.log().contains("ERROR"), "{}", host.log());
}

#[test]
fn perf_analyzer_works_unchanged() {
    let batched = Endpoint::new("batched").model("iris_dyn").set(BATCHING);
    let (_host, address) = serve(zoo().endpoint(batched));
    for (model, more) in [
        ("iris", &["--shape", "input:2,4", "--concurrency-range", "4"][..]),
        ("iris", &["--shape", "input:2,4", "--concurrency-range", "4", "--async", "--streaming"]),
        ("iris", &["--shape", "input:2,4", "--grpc-compression-algorithm", "gzip"]),
        ("batched", &["-b", "2"]),
        ("bytes", &["--shape", "x:3"]),
    ] {
        let said = perf_analyzer(&address, model, &[&["-i", "grpc"], more].concat());
        let answered = number(&said, "Successful request count:");
        assert!(answered > 0.0 && number(&said, "Inference count:") >= answered, "{said}");
        assert!(number(&said, "compute infer") > 0.0, "{said}");
    }
}

#[test]
fn models_are_loaded_and_unloaded_by_clients_where_they_may() {
    let (_host, address) = serve(zoo().arguments(&["--model-control"]));
    clients::run("triton_grpc", &[&address, "control"]);
}

#[test]
fn every_failure_has_its_status() {
    let iris = Endpoint::new("iris").model("iris_dyn");
    let (host, address) = serve(Setup::of([iris, orders("orders", "pre_timeout = '500ms'")]));
    clients::run("grpc_raw", &[&address, "statuses"]);
    let failures = [("id-plugin_trap", "plugin_trap"), ("id-plugin_error", "a secret of the handler's")];
    wait_until("both in the log", || failures.iter().all(|(id, _)| host.log().contains(id)));
    let log = host.log();
    for (id, said) in failures {
        let is_it = |line: &&str| line.contains(id) && line.contains("ERROR");
        let line = log.lines().find(is_it).unwrap_or_else(|| panic!("no {id} in\n{log}"));
        assert!(line.contains(said), "{line}");
    }
    assert!(!log.contains("id-invalid_input") && !log.contains("id-not_found"), "{log}");

    let (_host, address) = serve_orders("pre_timeout = '30s', request_timeout = '1s'");
    clients::run("grpc_raw", &[&address, "timeout"]);

    let one = "concurrency = 1, queue = 0, pre_timeout = '30s'";
    let (_host, address) = serve(Setup::of([orders("orders", one), orders("neighbour", one)]));
    clients::run("grpc_raw", &[&address, "overload"]);
}

#[test]
fn messages_have_a_longest() {
    let endpoints = [orders("orders", "body = '1MiB'"), orders("neighbour", "body = '4MiB'")];
    let (_host, address) = serve(Setup::of(endpoints));
    clients::run("grpc_raw", &[&address, "sizes"]);
}

#[test]
fn a_stream_sends_no_more_than_its_client_may() {
    let (host, address) = serve_orders("concurrency = 2, queue = 16, pre_timeout = '30s'");
    clients::run("grpc_raw", &[&address, "bounded_stream"]);
    assert_eq!(host.metric(r#"modelhost_requests_total{endpoint="orders",outcome="ok"}"#), 300.0);
}

#[test]
fn tools_find_their_way_by_reflection_and_health() {
    let (_host, address) = serve_orders("");
    clients::run("grpc_raw", &[&address, "reflection"]);
    clients::run("grpc_raw", &[&address, "health"]);
}

/// A script that runs beside the test and says how far it is.
struct Beside {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Beside {
    fn start(address: &str, case: &str) -> Beside {
        let python = clients::program("bin/python");
        let script = root().join("tests/clients/grpc_raw.py");
        let mut command = Command::new(python);
        let mut child = command
            .arg(script)
            .args([address, case])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Beside { child, lines }
    }

    #[track_caller]
    fn says(&mut self, line: &str) {
        let said = self.lines.next().transpose().unwrap();
        assert_eq!(said.as_deref(), Some(line));
    }

    #[track_caller]
    fn ends(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn whoever_goes_away_takes_their_requests_along() {
    let (host, address) = serve_orders("concurrency = 10, pre_timeout = '60s', request_timeout = '60s'");
    for (case, signal) in [("leaves", None), ("stays", Some("-KILL"))] {
        let mut client = Beside::start(&address, case);
        wait_until("the requests to be in flight", || in_flight(&host) == 4.0);
        match signal {
            None => writeln!(client.child.stdin.take().unwrap(), "go").unwrap(),
            Some(signal) => {
                let pid = client.child.id().to_string();
                assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
            }
        }
        wait_until("the requests to be gone", || in_flight(&host) == 0.0);
        client.child.wait().unwrap();
    }
    assert_eq!(host.metric(r#"modelhost_requests_total{endpoint="orders",outcome="cancelled"}"#), 8.0);
    clients::run("grpc_raw", &[&address, "health"]);
}

#[test]
fn sigterm_under_load_loses_nothing() {
    let _alone = e2e::load::alone();
    for _ in 0..3 {
        let (host, address) = serve_orders("");
        let mut load = Beside::start(&address, "load");
        load.says("under load");
        host.signal("TERM");
        let (status, log) = host.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("every request is answered"), "{log}");
        load.ends();
    }
}

/// Streams that rest, and watchers of health, are told that the server goes and do not hold it up.
#[test]
fn whoever_only_listens_does_not_hold_the_end_up() {
    let (host, address) = serve_orders("");
    let (mut watcher, mut stream) = (Beside::start(&address, "watch"), Beside::start(&address, "resting"));
    watcher.says("serving");
    stream.says("resting");
    let started = Instant::now();
    host.signal("TERM");
    watcher.says("not serving");
    watcher.says("let go");
    stream.says("let go");
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    watcher.ends();
    stream.ends();
}

/// HTTP/2 by hand: frames of RFC 9113, headers of RFC 7541 without compression.
struct Frames(TcpStream);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_HEADERS: u8 = 4;

impl Frames {
    fn connect(address: &str) -> Frames {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        let mut frames = Frames(stream);
        frames.send(SETTINGS, 0, 0, &[]);
        frames
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).unwrap();
    }

    /// The head of a call, on a new stream.
    fn call(&mut self, stream: u32, path: &str) {
        let mut block = Vec::new();
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "test"),
            (":path", path),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for (name, value) in headers {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend(text.as_bytes());
            }
        }
        self.send(HEADERS, END_HEADERS, stream, &block);
    }

    /// The next frame of this kind: its stream, or the error that the connection ended with.
    fn next(&mut self, kind: u8) -> std::io::Result<u32> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload)?;
            if head[3] == kind {
                return Ok(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
            }
        }
    }
}

const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// The beginning of a message of 1000 bytes.
const BEGUN: [u8; 20] = [0, 0, 0, 3, 0xe8, 10, 6, b'o', b'r', b'd', b'e', b'r', b's', 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_message_that_stops_to_arrive_is_given_up() {
    let (_host, address) = serve_orders("request_timeout = '1s', pre_timeout = '1s'");
    for path in [INFER, STREAM] {
        let mut slow = Frames::connect(&address);
        slow.call(1, path);
        slow.send(DATA, 0, 1, &BEGUN);
        let started = Instant::now();
        if path == STREAM {
            // A stream is answered at once, and then ends.
            assert_eq!(slow.next(HEADERS).unwrap(), 1);
        }
        assert_eq!(slow.next(HEADERS).unwrap(), 1);
        let took = started.elapsed();
        assert!((Duration::from_millis(900)..Duration::from_secs(20)).contains(&took), "{path}: {took:?}");
    }
}

#[test]
fn as_many_messages_arrive_at_a_time_as_there_are_places() {
    let (_host, address) = serve_orders("concurrency = 2, queue = 1");
    let mut slow = Frames::connect(&address);
    for stream in [1, 3, 5, 7] {
        slow.call(stream, INFER);
        slow.send(DATA, 0, stream, &BEGUN);
    }
    // One is answered at once, long before the others are given up.
    assert!([1, 3, 5, 7].contains(&slow.next(HEADERS).unwrap()));
    // Whatever arrives whole needs no such place.
    clients::run("grpc_raw", &[&address, "health"]);
    let mut other = Frames::connect(&address);
    other.call(1, INFER);
    other.send(DATA, 0, 1, &BEGUN[..3]);
    assert_eq!(other.next(HEADERS).unwrap(), 1, "refused, on another connection too");
    drop(slow);
    // Their places are free again.
    wait_until("the places to be free", || {
        let mut next = Frames::connect(&address);
        next.call(1, INFER);
        next.send(DATA, 0, 1, &BEGUN);
        next.0.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        next.next(HEADERS).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
}

#[test]
fn nonsense_on_the_port_hurts_nobody() {
    let (host, address) = serve(zoo());
    let beside = thread::spawn({
        let address = address.clone();
        move || clients::run("triton_grpc", &[&address, "infer"])
    });
    let nonsense: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nhost: test\r\n\r\n",
        b"POST /inference.GRPCInferenceService/ModelInfer HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\n\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        &[0xff; 4096],
    ];
    for bytes in nonsense.iter().cycle().take(50) {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.read(&mut [0; 4096]);
    }
    beside.join().unwrap();
    clients::run("triton_grpc", &[&address, "infer"]);
    assert!(!host.log().contains("panicked"), "{}", host.log());
}

/// A peer that is gone without a word does not keep its connection; one that answers pings does.
#[test]
fn a_client_that_answers_no_ping_is_let_go() {
    let (_host, address) = serve_orders("");
    let mut gone = Frames::connect(&address);
    gone.call(1, STREAM);
    assert_eq!(gone.next(PING).unwrap(), 0);
    let ended = gone.next(PING).unwrap_err();
    assert!([ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&ended.kind()), "{ended}");
    clients::run("grpc_raw", &[&address, "health"]);
}
