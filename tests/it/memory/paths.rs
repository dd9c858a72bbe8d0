//! Paths by which many clients have one endpoint hold memory behind its requests: messages of sockets, streams and results that no
//! client reads, objects, recordings. Each takes its part of `[server] memory` or of a limit of its own, beyond it a request is
//! refused, a neighbour is answered all the while, and what was taken comes back.

use std::sync::{Mutex, PoisonError};

use e2e::recorded::{files, text};
use e2e::setup::{Endpoint, Setup};
use e2e::socket::{BINARY, FINAL, WebSocket, masked};
use e2e::wire::{self, Wire};
use e2e::{Host, wait_until};
use serde_json::json;
use tempfile::TempDir;

use super::{BUDGET, MIB, assert_unharmed, by_http, held, in_flight, neighbour_is_answered, overloaded};

/// Longer than any test takes.
const PATIENT: &str = "stream_timeout = '10m', request_timeout = '10m', wall_timeout = '10m', pre_timeout = '30s', \
                       post_timeout = '30s'";

/// Taken by the test that floods every path, which leaves no processor to others, and by the one that counts which streams stay whole
/// while their clients read one after the other.
static FLOOD: Mutex<()> = Mutex::new(());

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
    let _alone = FLOOD.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Clients of every path at once, 1.5 GiB in all, against a budget of 128 MiB. Beside it are the instances of seven handlers.
#[test]
fn all_paths_at_once_are_in_one_budget() {
    const TOGETHER: u64 = 128 * MIB;
    const INSTANCES: u64 = 640 * MIB;
    let _alone = FLOOD.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = TempDir::new().unwrap();
    let at = |name: &str| text(&folder.path().join(name)).to_owned();
    let large = "memory = '128MiB', body = '16MiB'";
    let of = |name: &str, guest: &str, limits: &str| {
        Endpoint::new(name).guest(guest).limits(PATIENT).limits(limits)
    };
    let host = Setup::of([
        of("flooded", "files", "concurrency = 2, queue = 100, body = '16MiB', body_timeout = '60s'"),
        of("sockets", "socket", "sockets = 100, socket_message = '2MiB'"),
        of("waiting", "responder", "concurrency = 64"),
        of("done", "application", "concurrency = 4"),
        of("objects", "blobstore", "memory = '128MiB'").set("blobs = ['a']"),
        of("results", "echo", large).set("jobs = 'on'"),
        of("recorded", "draws", &format!("{large}, concurrency = 2, queue = 100")),
        Endpoint::new("neighbour").guest("echo"),
    ])
    .tables(format!(
        "[record]\ndir = {:?}\nsize = '2GiB'\n[blobs]\nstore = {:?}\n[jobs]\nstore = {:?}",
        at("recordings"),
        at("objects"),
        at("jobs.redb"),
    ))
    .arguments(&["--memory", "128MiB"])
    .serve();
    let job = host.post("/results/jobs", "x".repeat(4 << 20)).json()["id"].as_str().unwrap().to_owned();
    let job = format!("/results/jobs/{job}");
    wait_until("the job to end", || host.get(&job).json()["state"] == "completed");
    assert_eq!(host.ask("/objects", &json!([["fill", "a", "large", "1024"]])), json!([null]));
    let sleepers = [(); 2].map(|()| unread(&host, &wire::post("/flooded", &[], "sleep:60000")));
    wait_until("both places to be taken", || in_flight(&host) == 2.0);
    neighbour_is_answered(&host);
    let before = host.memory("VmHWM") << 10;

    let mut floods: Vec<(usize, Vec<u8>)> = by_http().into_iter().map(|(_, request)| (10, request)).collect();
    floods.extend([
        (60, get("/waiting/bytes/60")),
        (60, get("/done/flood?pieces=16")),
        (60, wire::post("/objects", &[], &json!([["get", "a", "large"]]).to_string())),
        (60, get(&format!("{job}/result"))),
        (24, wire::post("/recorded", &[], &" ".repeat(4 << 20))),
    ]);
    let message = masked(FINAL | BINARY, &vec![0; 1 << 20]);
    std::thread::scope(|scope| {
        let clients = floods.iter().flat_map(|(count, request)| {
            (0..*count).map(|_| {
                scope.spawn(|| {
                    let mut wire = Wire::connect(&host.url).unwrap();
                    // One that is refused may be cut off before it has sent all.
                    let _ = wire.send(request);
                    wire
                })
            })
        });
        let clients: Vec<_> = clients.collect();
        let mut sockets: Vec<WebSocket> =
            (0..48).filter_map(|_| WebSocket::open(&host.url, "/sockets", &[]).ok()).collect();
        for socket in &mut sockets {
            socket.say("sleep 8000");
            let _ = socket.send(&message);
        }
        neighbour_is_answered(&host);
        let wires: Vec<Wire> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        neighbour_is_answered(&host);
        drop((wires, sockets));
    });
    drop(sleepers);
    let all = || -> f64 {
        let metrics = host.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("modelhost_memory_bytes{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    wait_until("the memory to come back", || all() == 0.0);
    let more = (host.memory("VmHWM") << 10).saturating_sub(before);
    assert!(more < TOGETHER + INSTANCES, "{} MiB more", more / MIB);
    assert!(overloaded(&host) > 0.0);
    neighbour_is_answered(&host);
}
