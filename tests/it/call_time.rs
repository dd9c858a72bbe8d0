//! The time of guest calls: what counts as a handler's own, where it is looked at, and that large values and long stretches of host
//! calls leave the neighbours of an endpoint alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use e2e::load::{Answer, Load, Pattern, alone, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, clients, component, root};
use tempfile::TempDir;

/// Longest a neighbour's request may take, and the longest that half of them may.
const SOON: Duration = Duration::from_millis(500);
const USUALLY: Duration = Duration::from_millis(60);

/// `calls.wat` with a start function and a body.
fn calls(folder: &TempDir, name: &str, start: &str, body: &str) -> PathBuf {
    let mut text = fs::read_to_string(root().join("tests/guests/wat/calls.wat")).unwrap();
    for (place, code) in [(";; START\n", start), (";; BODY\n", body)] {
        assert!(text.contains(place));
        text = text.replacen(place, code, 1);
    }
    let file = folder.path().join(name).with_extension("wasm");
    fs::write(&file, wat::parse_str(text).unwrap()).unwrap();
    file
}

fn endpoint(name: &str, plugin: &Path, limits: &str) -> Endpoint {
    Endpoint::new(name).plugin(plugin).set("watch = false").limits("concurrency = 8").limits(limits)
}

fn neighbour() -> Endpoint {
    endpoint("neighbour", &component("tests/echo"), "")
}

/// For bodies and responses of tens of megabytes.
const LARGE: &str = "memory = '256MiB', body = '64MiB', pre_timeout = '10s'";

/// A neighbour that is called all the time.
fn beside(host: &Host) -> Load {
    Pattern::new(&host.url, "/neighbour").start()
}

fn assert_unharmed(answers: &[Answer]) {
    assert_echoed(answers, SOON);
    let mut latencies: Vec<_> = answers.iter().map(|answer| answer.latency).collect();
    latencies.sort_unstable();
    let median = latencies[latencies.len() / 2];
    assert!(median < USUALLY, "half of the neighbour's {} requests took {median:?} or more", latencies.len());
}

/// The code of an error; empty of another answer.
fn code(reply: &Reply) -> String {
    if reply.status == 200 { String::new() } else { reply.json()["code"].as_str().unwrap().to_owned() }
}

/// Without a loop and without a function, so that nothing but the calls themselves can be looked at.
#[test]
fn twenty_thousand_host_calls_in_a_row_are_interrupted() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let call = |length: usize| {
        format!("(call $header (local.get 4) (i32.const 1024) (i32.const {length}) (i32.const 8))")
            .repeat(20_000)
    };
    let limits = "pre_timeout = '300ms'";
    let asking = |name: &str, length| endpoint(name, &calls(&folder, name, "", &call(length)), limits);
    let asking =
        [("long", 58 << 20), ("medium", 3 << 20), ("short", 10)].map(|(name, length)| asking(name, length));
    let host = Setup::of(asking).endpoint(neighbour()).serve();
    let neighbour = beside(&host);
    for (path, expected) in
        [("/long", (500, "plugin_bad_output")), ("/medium", (504, "plugin_timeout")), ("/short", (200, ""))]
    {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let url = format!("{}{path}", host.url);
                thread::spawn(move || e2e::request("POST", &url, &[], b"x"))
            })
            .collect();
        for sender in senders {
            let reply = sender.join().unwrap();
            assert_eq!((reply.status, &*code(&reply)), expected, "{path}: {}", reply.text());
        }
    }
    neighbour.wait_for_more(50);
    assert_unharmed(&neighbour.stop());
    host.signal("TERM");
    assert!(host.wait().0.success());
}

/// Each of these keeps a thread busy for tens of milliseconds, in no guest code.
#[test]
fn large_values_are_handed_over_off_the_workers() {
    let _alone = alone();
    let large = endpoint("large", &component("tests/large"), LARGE);
    let host = Setup::of([neighbour(), large]).serve();
    let ballast = "b".repeat(30_000_000);
    for (body, status) in
        [("tensors 100000", 500), ("invalid 50000000", 400), ("internal 50000000", 500), (&*ballast, 200)]
    {
        let neighbour = beside(&host);
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let (url, body) = (format!("{}/large", host.url), body.to_owned());
                thread::spawn(move || {
                    for _ in 0..4 {
                        let reply =
                            e2e::request("POST", &url, &[("content-type", "text/plain")], body.as_bytes());
                        assert_eq!(reply.status, status, "{}", reply.text());
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        neighbour.wait_for_more(20);
        assert_unharmed(&neighbour.stop());
    }
}

/// Packed by gzip, thirty megabytes are thirty thousand bytes; unpacking them, and packing the answer, takes a while.
#[test]
fn compressed_messages_are_unpacked_and_packed_off_the_workers() {
    let _alone = alone();
    let orders = endpoint("orders", &component("tests/orders"), LARGE);
    let host = Setup::of([neighbour(), orders]).arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    let neighbour = beside(&host);
    let address = host.grpc.clone().unwrap();
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let address = address.clone();
            thread::spawn(move || clients::run("grpc_raw", &[&address, "packed"]))
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    assert_unharmed(&neighbour.stop());
}

/// As many threads that compute as make every share of a processor small.
struct Busy(Vec<std::process::Child>);

impl Busy {
    fn machine() -> Busy {
        let cores = thread::available_parallelism().unwrap().get();
        let hog = || std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Busy((0..cores * 8).map(|_| hog()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// How far a guest counts in so much CPU time.
fn counts_for(folder: &TempDir, time: Duration) -> u64 {
    const TRIAL: u64 = 1_000_000_000;
    let trial = calls(folder, "trial", "", &format!("(call $loop (i64.const {TRIAL}))"));
    let limits = "pre_timeout = '60s', wall_timeout = '60s', request_timeout = '60s'";
    let host = Setup::of([endpoint("trial", &trial, limits)]).serve();
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", host.pid())).unwrap();
        let user: u64 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(11).unwrap().parse().unwrap();
        // Hundredths of a second.
        Duration::from_millis(user * 10)
    };
    let taken = (0..3).map(|_| {
        let before = used();
        assert_eq!(host.post("/trial", "x").status, 200);
        used() - before
    });
    // The shortest: the host does other things too, and a core that shares its units is slower.
    let taken = taken.min().unwrap();
    u64::try_from(u128::from(TRIAL) * time.as_nanos() / taken.as_nanos()).unwrap()
}

#[test]
fn a_busy_machine_is_not_charged_to_the_handler() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let count = counts_for(&folder, Duration::from_millis(150));
    let counting = calls(&folder, "counting", "", &format!("(call $loop (i64.const {count}))"));
    let spinning = calls(&folder, "spinning", "", "(call $loop (i64.const 0x7fffffffffffffff))");
    let limits = "pre_timeout = '500ms', wall_timeout = '30s'";
    let endpoints = [("counting", &counting), ("spinning", &spinning)];
    let host = Setup::of(endpoints.map(|(name, plugin)| endpoint(name, plugin, limits))).serve();
    let busy = Busy::machine();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let url = format!("{}/counting", host.url);
            thread::spawn(move || e2e::request("POST", &url, &[], b"x"))
        })
        .collect();
    for sender in senders {
        let reply = sender.join().unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    // Its own time is still limited.
    let reply = host.post("/spinning", "x");
    assert_eq!((reply.status, &*code(&reply)), (504, "plugin_timeout"));
    assert!(reply.text().contains("the handler ran longer than 500ms"), "{}", reply.text());
    drop(busy);
}

#[test]
fn waiting_has_a_limit_of_its_own() {
    let sleeper = component("tests/hostile");
    let endpoints =
        [("sleeper", "pre_timeout = '100ms', wall_timeout = '1s'"), ("default", "pre_timeout = '50ms'")];
    let host = Setup::of(endpoints.map(|(name, limits)| endpoint(name, &sleeper, limits))).serve();
    for (path, limit) in [("/sleeper", "1s"), ("/default", "250ms")] {
        let reply = host.request("POST", path, &[("content-type", "text/plain")], b"sleep");
        let message = format!("the handler took longer than {limit}, waits included");
        assert_eq!((reply.status, &*code(&reply)), (504, "plugin_timeout"));
        assert!(reply.text().contains(&message), "{}", reply.text());
    }
}

/// With an instance for each request, its start functions are part of the request's call.
#[test]
fn a_start_function_takes_its_time_from_the_first_call() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let count = counts_for(&folder, Duration::from_millis(600));
    let start = format!("(func $start (call $loop (i64.const {count})))\n(start $start)\n");
    let slow = calls(&folder, "slow", &start, "");
    let slower = calls(&folder, "slower", &start, &format!("(call $loop (i64.const {count}))"));
    let each = |name, plugin, limits| endpoint(name, plugin, limits).set("isolation = 'request'");
    let host = Setup::of([
        each("each", &slow, "pre_timeout = '200ms'"),
        endpoint("kept", &slow, "pre_timeout = '200ms'"),
        each("both", &slower, "pre_timeout = '850ms'"),
        each("roomy", &slower, "pre_timeout = '5s'"),
    ])
    .serve();
    for (path, status) in [("/each", 504), ("/kept", 200), ("/both", 504), ("/roomy", 200)] {
        let reply = host.post(path, "x");
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert!(status == 200 || code(&reply) == "plugin_timeout", "{}", reply.text());
    }
}
