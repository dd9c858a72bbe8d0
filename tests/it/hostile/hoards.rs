//! Handlers that have the host hold as much as they can, and work as long as they can, beside a good neighbour: what they hold is
//! counted somewhere, the host's memory stays within what is configured, and their requests alone pay.
//!
//! The rows are those of the table in docs/security.md; what each import's own tests show is not repeated here.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use e2e::load::{Pattern, alone, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, component, root};
use tempfile::TempDir;

/// Longest a neighbour's request may take.
const SOON: Duration = Duration::from_secs(2);
/// The middle one of its requests, on a machine of two cores that are busy: beside handlers that compute for ever it takes up to
/// 10 ms, and it took up to 216 beside work of the host that held the workers.
const USUAL: Duration = Duration::from_millis(35);

/// Path; a text of the response; most MiB that the host may have needed for eight of them at the same time.
const HELD: [(&str, &str, u64); 14] = [
    // `models`: shapes, names, handles, runs.
    ("/respond/models=ranks", "more than 32", 200),
    ("/respond/models=names", "expected at most 1000", 400),
    ("/respond/models=shapes", "`limits.tensors`", 100),
    ("/respond/models=pending", "`limits.", 300),
    ("/respond/models=tensors", "`limits.tensors`", 100),
    ("/respond/models=bytes", "`limits.tensor_memory`", 300),
    // `wasi:http`: headers, changed copies of them, heads of requests and responses, bodies.
    ("/http/leak=wide-fields", "headers of more than", 600),
    ("/http/leak=changed-fields", "headers of more than", 600),
    ("/http/leak=responses-with-fields", "headers of more than", 600),
    ("/http/leak=paths", "headers of more than", 600),
    ("/http/hoard=300", "good", 200),
    // `wasi:io`, clocks, files.
    ("/http/poll-list=100000", "files, streams, clocks and resources", 200),
    ("/http/leak=timers", "files, streams, clocks and resources", 100),
    ("/files", "the handler holds more than", 200),
];

/// The rows of the table in docs/security.md, and the tests that show each limit exceeded.
const ROWS: [(&str, &[&str]); 22] = [
    ("`types.context`, `request`", &["every_kind_by_respond_costs_the_neighbour_nothing"]),
    ("`models.resident`, `wasi:nn/tensor`", &[HOARDS, "nn_tensors_are_limited_and_a_neighbour_is_unharmed"]),
    ("`models.pending`", &[HOARDS]),
    ("`wasi:nn/graph`, `errors`", &["nn_tensors_are_limited_and_a_neighbour_is_unharmed"]),
    (
        "`kv`, `wasi:keyvalue`",
        &[
            "quotas_end_the_writes_of_one_endpoint_and_a_neighbour_is_unharmed",
            "wasi_keyvalue_reaches_the_same_buckets_in_both_drafts",
        ],
    ),
    (
        "`wasi:blobstore`",
        &[
            "quotas_end_the_writes_of_one_endpoint_and_a_neighbour_is_unharmed",
            "objects_that_are_left_open_go_with_their_instance",
        ],
    ),
    ("`jobs`", &["limits_end_the_submissions_of_one_endpoint_and_a_neighbour_is_unharmed"]),
    ("`metrics`", &["series_are_bounded_and_a_neighbour_is_unharmed"]),
    ("`streaming.output`", &["every_kind_by_respond_costs_the_neighbour_nothing"]),
    ("`websockets`", &["a_message_of_the_handler_has_a_limit_too", "a_handler_waits_for_its_client_to_read"]),
    ("`wasi:http/types` `fields`, requests, responses, trailers", &[HOARDS]),
    ("`wasi:http/types` bodies", &[HOARDS, BY_WASI_HTTP]),
    ("`wasi:http/outgoing-handler`, `client`", &[BY_WASI_HTTP]),
    ("`wasi:io/poll`, `wasi:clocks`", &[HOARDS]),
    ("`wasi:io/streams`, `error`", &[BY_WASI_HTTP]),
    ("`wasi:filesystem`", &[HOARDS, "every_fault_is_told_counted_and_costs_the_neighbour_nothing"]),
    (
        "`wasi:cli/stdout`, `stderr`",
        &["a_flood_of_output_is_cut", "every_fault_is_told_counted_and_costs_the_neighbour_nothing"],
    ),
    ("`wasi:cli/environment`, `wasi:config`, `wasi:random`", &[BY_WASI_HTTP]),
    ("`wasi:sockets`", &["a_stub_of_the_network_denies_every_call"]),
    (
        "tasks, streams and futures of WASI 0.3",
        &["every_kind_by_concurrent_wasi_http_costs_the_neighbour_nothing"],
    ),
    (
        "any of them, of a request that is recorded or on trial",
        &["a_tape_is_bounded", "what_is_too_long_is_served_and_not_recorded_and_said_once"],
    ),
    (
        "`kv`, `jobs`, `wasi:blobstore` in a run that must not write",
        &["a_run_that_is_no_request_writes_no_more_than_its_allowance"],
    ),
];
const HOARDS: &str = "what_handlers_have_the_host_hold_is_bounded_and_the_neighbour_unharmed";
const BY_WASI_HTTP: &str = "every_kind_by_wasi_http_costs_the_neighbour_nothing";

/// Work of the host whose length the handler decides, with a wait of a millisecond between two calls.
const STORMS: [&str; 5] = ["rows", "rows-of-rows", "reshape", "make", "describe"];

struct Stage {
    host: Host,
    _project: TempDir,
}

fn stage() -> Stage {
    let project = tempfile::tempdir().unwrap();
    for number in 0..1000 {
        fs::write(project.path().join(format!("{number:0>100}.json")), "{}").unwrap();
    }
    let hostile = |name: &str, guest: &str| {
        let limits = "memory = '64MiB', output = '20MiB', concurrency = 8, pre_timeout = '1s', \
             request_timeout = '30s', stream_timeout = '30s', tensors = 200, tensor_memory = '24MiB', \
             model_runs = 2000";
        Endpoint::new(name).plugin(&component(&format!("tests/{guest}"))).set("watch = false").limits(limits)
    };
    let host = Setup::of([
        hostile("http", "hostile_http"),
        hostile("respond", "hostile_respond").named_model("identity", "identity_fp32", ""),
        hostile("files", "hostile").set(format!("project = {:?}", project.path())),
        Endpoint::new("neighbour").guest("echo"),
    ]);
    Stage { host: host.serve(), _project: project }
}

#[test]
fn what_handlers_have_the_host_hold_is_bounded_and_the_neighbour_unharmed() {
    let _alone = alone();
    let stage = stage();
    let host = &stage.host;
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for (path, words, most) in HELD {
        let before = host.memory("VmHWM") >> 10;
        thread::scope(|scope| {
            let asked = || match path {
                "/files" => host.request("POST", path, &[("content-type", "text/plain")], b"leak folders"),
                _ => host.request("GET", path, &[], b""),
            };
            let clients: Vec<_> = (0..8).map(|_| scope.spawn(asked)).collect();
            for client in clients {
                let reply = client.join().unwrap();
                let text = reply.text();
                assert!(text.contains(words) && text.len() < 1000, "{path}: {} {text:.1000}", reply.status);
            }
        });
        let more = (host.memory("VmHWM") >> 10) - before;
        eprintln!("{path}: {more} MiB");
        assert!(more < most, "{path}: {more} MiB");
        let good = host.request("GET", "/http/good", &[], b"");
        assert_eq!((good.status, &*good.text()), (200, "good"), "after {path}");
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON);
}

#[test]
fn what_the_host_does_for_a_handler_between_its_waits_holds_no_worker() {
    let _alone = alone();
    let stage = stage();
    let host = &stage.host;
    for storm in STORMS {
        let clients: Vec<Wire> = (0..8)
            .map(|_| {
                let mut wire = Wire::connect(&host.url).unwrap();
                wire.send(&wire::get(&format!("/respond/storm={storm}"))).unwrap();
                wire
            })
            .collect();
        let begun = "modelhost_requests_in_flight{endpoint=\"respond\"}";
        e2e::wait_until("all storms to have begun", || host.metric(begun) >= 8.0);
        let neighbour = Pattern::new(&host.url, "/neighbour").start();
        neighbour.wait_for_more(300);
        let answers = neighbour.stop();
        assert_echoed(&answers, SOON);
        let mut latencies: Vec<Duration> = answers.iter().map(|answer| answer.latency).collect();
        latencies.sort();
        let middle = latencies[latencies.len() / 2];
        eprintln!("{storm}: {middle:?}, {:?} at most", latencies.last());
        assert!(middle < USUAL, "{storm}: {middle:?}");
        drop(clients);
        e2e::wait_until("all storms to have ended", || host.metric(begun) == 0.0);
    }
}

/// Every Rust file below this folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.extension() {
            _ if entry.is_dir() => sources(&entry, found),
            Some(extension) if extension == "rs" => found.push(entry),
            _ => {}
        }
    }
}

#[test]
fn every_row_of_the_table_has_a_test() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, section) = page.split_once("### What a handler has the host hold").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let documented: Vec<&str> = rows.skip(1).collect();
    assert_eq!(documented, ROWS.map(|(row, _)| row));
    let mut files = Vec::new();
    ["tests/it", "host"].iter().for_each(|folder| sources(&root().join(folder), &mut files));
    let all: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for (row, tests) in ROWS {
        for test in tests {
            assert!(all.contains(&format!("fn {test}()")), "{row}: there is no test `{test}`");
        }
    }
}
