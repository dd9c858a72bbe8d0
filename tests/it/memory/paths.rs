//! Paths by which many clients have one endpoint hold memory behind its requests: messages of sockets, streams and results that no
//! client reads, objects, recordings. Each takes its part of `[server] memory` or of a limit of its own, beyond it a request is
//! refused, a neighbour is answered all the while, and what was taken comes back.

use e2e::recorded::{files, text};
use e2e::setup::{Endpoint, Setup};
use e2e::socket::{BINARY, FINAL, WebSocket, masked};
use e2e::wire::{self, Wire};
use e2e::{Host, wait_until};
use serde_json::json;
use tempfile::TempDir;

use super::{BUDGET, MIB, assert_unharmed, held, in_flight, neighbour_is_answered, overloaded};

/// Longer than any test takes.
const PATIENT: &str = "stream_timeout = '10m', request_timeout = '10m', wall_timeout = '10m', pre_timeout = '30s', \
                       post_timeout = '30s'";

/// Floods an endpoint: what `flood` gives back is what its clients hold, and is dropped here.
fn assert_bounded<T>(path: &str, flooded: Endpoint, tables: &str, flood: impl FnOnce(&Host) -> T) -> Host {
    let endpoints = [flooded.limits(PATIENT), Endpoint::new("neighbour").guest("echo")];
    let host = Setup::of(endpoints).tables(tables).arguments(&["--memory", "64MiB"]).serve();
    neighbour_is_answered(&host);
    let before = host.memory("VmHWM") << 10;
    let clients = flood(&host);
    // Half of the budget is for the neighbour.
    assert!(held(&host) <= BUDGET / 2 + MIB, "{path}: {}", held(&host));
    neighbour_is_answered(&host);
    drop(clients);
    assert_unharmed(&host, before, path);
    host
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").into_bytes()
}

/// A request whose answer is not read.
fn unread(host: &Host, request: &[u8]) -> Wire {
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(request).unwrap();
    wire
}

/// Handlers that take no message hold what their clients have said.
#[test]
fn messages_of_sockets() {
    let talk = Endpoint::new("flooded").guest("socket").limits("sockets = 100, socket_message = '2MiB'");
    assert_bounded("messages of sockets", talk, "", |host| {
        let open = || WebSocket::open(&host.url, "/flooded", &[]).map_err(|reply| reply.status).unwrap();
        let mut sockets: Vec<WebSocket> = (0..48).map(|_| open()).collect();
        let message = masked(FINAL | BINARY, &vec![0; 1 << 20]);
        for socket in &mut sockets {
            socket.say("sleep 8000");
            let _ = socket.send(&message);
        }
        let closed = r#"modelhost_websocket_closes_total{code="1013",endpoint="flooded"}"#;
        wait_until("the others to be closed", || {
            host.metrics().contains(closed) && host.metric(closed) >= 12.0
        });
        // One that was let in stays open.
        assert!(host.metric(r#"modelhost_websockets_open{endpoint="flooded"}"#) >= 16.0);
        sockets
    });
}

/// Each client has as much of its stream as the host keeps for it, and reads nothing of it; the handlers wait in their writes.
#[test]
fn streams_of_handlers_that_wait() {
    let app = Endpoint::new("flooded").guest("responder").limits("concurrency = 64");
    assert_bounded("streams of handlers that wait", app, "", |host| {
        let request = get("/flooded/bytes/60");
        let wires: Vec<Wire> = (0..60).map(|_| unread(host, &request)).collect();
        wait_until("some to be refused", || in_flight(host) <= 48.0);
        assert!(held(host) <= BUDGET / 2 + MIB, "{}", held(host));
        neighbour_is_answered(host);
        // What lost a part of its body does not look whole.
        let mut whole = 0;
        for wire in wires {
            let answer = wire.until_closed();
            assert_eq!(answer.ends_with(b"0\r\n\r\n"), answer.len() > 6_000_000, "{} bytes", answer.len());
            whole += usize::from(answer.len() > 6_000_000);
        }
        assert!((16..=48).contains(&whole), "{whole}");
    });
}

/// The handlers are done, and the ends of their bodies are kept for clients that do not read.
#[test]
fn streams_of_handlers_that_are_done() {
    let app = Endpoint::new("flooded").guest("application").limits("concurrency = 4");
    assert_bounded("streams of handlers that are done", app, "", |host| {
        let request = get("/flooded/flood?pieces=16");
        let mut wires = Vec::new();
        wait_until("a refusal", || {
            wires.push(unread(host, &request));
            wait_until("its handler to be done", || in_flight(host) == 0.0);
            overloaded(host) > 0.0
        });
        assert!(wires.len() > 16, "{}", wires.len());
        // The last one has a body that breaks off.
        let last = wires.pop().unwrap().until_closed();
        assert!(!last.ends_with(b"0\r\n\r\n"), "{} bytes", last.len());
        wires
    });
}

/// Answers that are objects; whole ones are the budget's while they are read, too.
#[test]
fn objects() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = Endpoint::new("flooded").guest("blobstore").set("blobs = ['a']").limits("memory = '128MiB'");
    let store = format!("[blobs]\nstore = {:?}", folder.path().join("objects"));
    assert_bounded("objects", keeper, &store, |host| {
        let get = json!([["get", "a", "large"]]).to_string();
        assert_eq!(host.ask("/flooded", &json!([["fill", "a", "large", "1024"]])), json!([null]));
        let request = wire::post("/flooded", &[], &get);
        let mut wires = Vec::new();
        wait_until("a refusal", || {
            wires.push(unread(host, &request));
            wait_until("its run to end", || in_flight(host) == 0.0);
            let reply = host.post("/flooded", &get);
            let is_refused = reply.text().contains("the server has no memory for the object now");
            assert!(is_refused || reply.status == 503 || reply.body.len() > 4 << 20, "{}", reply.status);
            is_refused || reply.status == 503
        });
        wires
    });
}

#[test]
fn results_of_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let worker =
        Endpoint::new("flooded").guest("echo").set("jobs = 'on'").limits("memory = '256MiB', body = '16MiB'");
    let store = format!("[jobs]\nstore = {:?}", folder.path().join("jobs.redb"));
    assert_bounded("results of jobs", worker, &store, |host| {
        let submitted = host.post("/flooded/jobs", "x".repeat(4 << 20));
        assert_eq!(submitted.status, 202, "{}", submitted.text());
        let id = submitted.json()["id"].as_str().unwrap().to_owned();
        let path = format!("/flooded/jobs/{id}");
        wait_until("the job to end", || host.get(&path).json()["state"] == "completed");
        let result = format!("{path}/result");
        let (request, mut wires) = (get(&result), Vec::new());
        wait_until("a refusal", || {
            wires.push(unread(host, &request));
            let reply = host.get(&result);
            // Some may have come before the one whose answer is not read.
            assert!(reply.status == 503 || reply.body.len() > 4 << 20, "{} {}", reply.status, wires.len());
            if reply.status == 503 {
                assert!(reply.error(503, "overloaded", "admit").contains("memory"));
            }
            reply.status == 503
        });
        // What takes little is told all the while.
        assert_eq!(host.get(&path).status, 200);
        wires
    });
}

/// What waits to be written is the budget's as long as it waits; what is not recorded is served.
#[test]
fn recordings() {
    let folder = TempDir::new().unwrap();
    let recorded = Endpoint::new("flooded")
        .guest("draws")
        .limits("memory = '128MiB', body = '16MiB', concurrency = 2, queue = 100");
    let tables = format!("[record]\ndir = {:?}\nsize = '2GiB'", text(folder.path()));
    assert_bounded("recordings", recorded, &tables, |host| {
        let body = " ".repeat(4 << 20);
        std::thread::scope(|scope| {
            for _ in 0..24 {
                scope.spawn(|| {
                    let reply = host.post("/flooded", &body);
                    assert!(
                        reply.status == 200 || reply.error(503, "overloaded", "admit").contains("memory")
                    );
                });
            }
        });
        let outcome = |outcome| {
            host.metric(&format!("modelhost_recordings_total{{endpoint=\"flooded\",outcome=\"{outcome}\"}}"))
        };
        wait_until("one to be written", || outcome("written") > 0.0);
        assert!(!files(folder.path()).is_empty());
    });
}
