//! The budget of memory, `[server] memory`: many clients that make the host hold all they can, by one path each, do not end
//! it; what is beyond the budget is 503, a neighbour is answered all the while, and what was taken comes back.

mod paths;

use std::io::Write as _;
use std::thread;

use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, clients, oip, wait_until};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

const MIB: u64 = 1 << 20;
/// Of the host in these tests.
const BUDGET: u64 = 64 * MIB;
/// What the host may take besides: connections, instances, what the allocator keeps of what was freed.
const SLACK: u64 = 192 * MIB;
/// Each of them makes the host hold [`HELD`] bytes or more: seven times the budget.
const CLIENTS: usize = 60;
const HELD: usize = 8 << 20;

/// An endpoint whose two places are taken by requests that sleep, so that all others wait with what they have brought, and a
/// neighbour.
struct Stage {
    host: Host,
    _sleepers: Vec<Wire>,
    before: u64,
}

impl Stage {
    fn serve(more: &[&str]) -> Stage {
        let flooded = Endpoint::new("flooded").guest("files").limits(
            "concurrency = 2, queue = 100, request_timeout = '60s', pre_timeout = '60s', body = '16MiB', \
             body_timeout = '60s'",
        );
        let neighbour = Endpoint::new("neighbour").guest("echo");
        let host = Setup::of([flooded, neighbour]).arguments(&["--memory", "64MiB"]).arguments(more).serve();
        let sleeper = || {
            let mut wire = Wire::connect(&host.url).unwrap();
            wire.send(&wire::post("/flooded", &[], "sleep:60000")).unwrap();
            wire
        };
        let sleepers = vec![sleeper(), sleeper()];
        wait_until("both places to be taken", || in_flight(&host) == 2.0);
        neighbour_is_answered(&host);
        let before = host.memory("VmHWM") << 10;
        Stage { host, _sleepers: sleepers, before }
    }

    fn held(&self) -> u64 {
        held(&self.host)
    }

    fn assert_unharmed(&self, path: &str) {
        assert_unharmed(&self.host, self.before, path);
    }
}

/// The flood is over: the host took no more than it may on top of `before`, and has nothing of it any more.
fn assert_unharmed(host: &Host, before: u64, path: &str) {
    wait_until("the memory to come back", || held(host) == 0);
    let more = (host.memory("VmHWM") << 10).saturating_sub(before);
    assert!(more < BUDGET + SLACK, "{path}: {} MiB more", more / MIB);
    neighbour_is_answered(host);
}

/// Bytes that the flooded endpoint holds.
fn held(host: &Host) -> u64 {
    host.metric(r#"modelhost_memory_bytes{endpoint="flooded"}"#) as u64
}

fn in_flight(host: &Host) -> f64 {
    host.metric(r#"modelhost_requests_in_flight{endpoint="flooded"}"#)
}

/// Its requests that were refused.
fn overloaded(host: &Host) -> f64 {
    host.metric(r#"modelhost_requests_total{endpoint="flooded",outcome="overloaded"}"#)
}

fn neighbour_is_answered(host: &Host) {
    // A body that counts, and one that does not.
    for length in [512 << 10, 10] {
        let text = "x".repeat(length);
        let reply = host.post("/neighbour", &text);
        assert_eq!((reply.status, reply.json()["body"].as_str()), (200, Some(&*text)), "{}", reply.text());
    }
}

fn request(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut request =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
    [request.as_bytes(), b"\r\n", body].concat()
}

/// Requests of which each is held for as long as it waits.
fn by_http() -> Vec<(&'static str, Vec<u8>)> {
    let body = vec![b'0'; HELD];
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&body).unwrap();
    // Two bytes of JSON are eight of the tensor.
    let zeros = vec!["0"; HELD / 8].join(",");
    let shape = HELD / 8;
    let grows = format!(
        r#"{{"inputs": [{{"name": "x", "datatype": "INT64", "shape": [{shape}], "data": [{zeros}]}}]}}"#
    );
    let binary = json!({"inputs": [oip::binary("x", "UINT8", &[HELD as i64], HELD)]}).to_string();
    let infer = oip::path("flooded");
    let mut begun = request("/flooded", &[], &[&body[..], b"0"].concat());
    begun.pop();
    vec![
        ("a body", request("/flooded", &[], &body)),
        ("a body without its last byte", begun),
        (
            "a form of one part",
            request(
                "/flooded",
                &[("content-type", "multipart/form-data; boundary=b")],
                &[
                    b"--b\r\ncontent-disposition: form-data; name=f; filename=f\r\n\r\n",
                    &body[..],
                    b"\r\n--b--\r\n",
                ]
                .concat(),
            ),
        ),
        ("a compressed body", request("/flooded", &[("content-encoding", "gzip")], &gzip.finish().unwrap())),
        ("JSON that grows", request(&infer, &[("content-type", "application/json")], grows.as_bytes())),
        (
            "binary tensors",
            request(
                &infer,
                &[("inference-header-content-length", &binary.len().to_string())],
                &[binary.as_bytes(), &body].concat(),
            ),
        ),
    ]
}

fn assert_is_refused(reply: &Reply, path: &str) {
    let text = reply.error(503, "overloaded", "admit");
    assert_eq!(reply.header("retry-after"), Some("1"), "{path}: {text}");
    assert!(text.contains("memory"), "{path}: {text}");
}

#[test]
fn no_path_over_http_takes_more_than_the_budget() {
    for (path, request) in by_http() {
        let stage = Stage::serve(&[]);
        let mut wires: Vec<Wire> = (0..CLIENTS).map(|_| Wire::connect(&stage.host.url).unwrap()).collect();
        thread::scope(|scope| {
            for wire in &mut wires {
                // One that is refused may be cut off before it has sent all.
                scope.spawn(|| wire.send(&request).is_ok());
            }
        });
        let refused = || overloaded(&stage.host);
        // Half of the budget is for the neighbour.
        let room = CLIENTS - (BUDGET / 2) as usize / HELD;
        wait_until("all others to be refused", || refused() >= room as f64);
        assert!(stage.held() <= BUDGET / 2 + MIB, "{path}: {}", stage.held());
        neighbour_is_answered(&stage.host);
        // The rest of the room, then one more.
        let mut late = loop {
            let (before, held) = (refused(), stage.held());
            let mut late = Wire::connect(&stage.host.url).unwrap();
            let _ = late.send(&request);
            let is_held = || stage.held() > held + HELD as u64 - MIB;
            wait_until("one more to be held or refused", || refused() > before || is_held());
            if refused() > before {
                break late;
            }
            wires.push(late);
        };
        assert_is_refused(&late.read().unwrap(), path);
        drop(wires);
        stage.assert_unharmed(path);
    }
}

/// Those that have no key may not hold a byte.
#[test]
fn a_client_without_a_key_holds_nothing() {
    let keys = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(keys.path(), "a-key-that-is-long-enough-to-be-one\n").unwrap();
    let endpoint =
        Endpoint::new("flooded").guest("files").set(format!("keys = ['@{}']", keys.path().display()));
    let host = Setup::of([endpoint]).arguments(&["--memory", "64MiB"]).serve();
    let before = host.memory("VmHWM") << 10;
    for (path, request) in by_http() {
        for _ in 0..8 {
            let mut wire = Wire::connect(&host.url).unwrap();
            let _ = wire.send(&request);
            assert!(wire.read().is_ok_and(|reply| reply.status == 401), "{path}");
        }
    }
    let more = (host.memory("VmHWM") << 10).saturating_sub(before);
    assert!(more < 32 * MIB, "{} MiB", more / MIB);
}

#[test]
fn messages_over_grpc_take_no_more_than_the_budget() {
    let stage = Stage::serve(&["--grpc-listen", "127.0.0.1:0"]);
    let address = stage.host.grpc.clone().unwrap();
    thread::scope(|scope| {
        let flood = scope.spawn(|| clients::run("grpc_raw", &[&address, "flood"]));
        while !flood.is_finished() {
            neighbour_is_answered(&stage.host);
        }
        flood.join().unwrap();
    });
    stage.assert_unharmed("gRPC");
}

/// Answers that their clients do not read are held until these are gone.
#[test]
fn answers_that_are_not_read_take_no_more_than_the_budget() {
    let endpoint = |name: &str| {
        Endpoint::new(name)
            .guest("echo")
            .limits("body = '16MiB', memory = '256MiB', pre_timeout = '60s', post_timeout = '60s'")
    };
    let host = Setup::of(["flooded", "neighbour"].map(endpoint)).arguments(&["--memory", "64MiB"]).serve();
    neighbour_is_answered(&host);
    let body = "x".repeat(12 << 20);
    let mut wires = Vec::new();
    // One after the other: each is run to its end, and its answer waits for a client that reads nothing.
    wait_until("a refusal", || {
        let mut wire = Wire::connect(&host.url).unwrap();
        let _ = wire.send(&wire::post("/flooded", &[], &body));
        wires.push(wire);
        wait_until("its run to end", || in_flight(&host) == 0.0);
        overloaded(&host) > 0.0
    });
    assert!((BUDGET / 8..=BUDGET / 2).contains(&held(&host)), "{} after {}", held(&host), wires.len());
    neighbour_is_answered(&host);
    drop(wires);
    wait_until("the memory to come back", || held(&host) == 0);
}
