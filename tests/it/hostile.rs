//! Hostile handlers of every kind that could be thought of, beside a good neighbour in the same process: the neighbour loses
//! nothing, the host lives, the fault says who did what, and what was taken is given back.
//!
//! What is returned as tensors and responses, and many spinners at once, is in `instances`.

mod applications;
mod hoards;
mod load_time;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use e2e::load::{Load, Pattern, alone, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, component, root, wait_until};
use tempfile::TempDir;

/// Longest a neighbour's request may take; see `instances`.
const SOON: Duration = Duration::from_millis(500);
/// Of a component whose compilation keeps every core busy, the kernel's scheduler takes its share as well.
const SOON_BESIDE_A_COMPILER: Duration = Duration::from_secs(2);

const PRE: &str = "pre_inference";
const POST: &str = "post_inference";
const TRAP: (u16, &str) = (500, "plugin_trap");
const MEMORY: (u16, &str) = (500, "plugin_out_of_memory");
const OUTPUT: (u16, &str) = (500, "plugin_bad_output");
const TIME: (u16, &str) = (504, "plugin_timeout");

/// Endpoint and body; status and code, kind of fault, stage.
type Case = (&'static str, &'static str, (u16, &'static str), &'static str, &'static str);

const FAULTS: [Case; 58] = [
    // Time.
    ("hostile", "loop", TIME, "deadline", PRE),
    ("hostile", "post:loop", TIME, "deadline", POST),
    ("hostile", "read clocks", TIME, "deadline", PRE),
    ("hostile", "sleep", TIME, "deadline", PRE),
    ("hostile", "post:sleep", TIME, "deadline", POST),
    ("hostile", "ask for a header", TIME, "deadline", PRE),
    ("hostile", "ask for the sample", TIME, "deadline", PRE),
    ("realloc_loops", "z", TIME, "deadline", PRE),
    // Stack and memory.
    ("hostile", "recurse", TRAP, "stack_overflow", PRE),
    ("hostile", "post:recurse", TRAP, "stack_overflow", POST),
    ("patient", "allocate crumbs", MEMORY, "out_of_memory", PRE),
    ("patient", "post:allocate crumbs", MEMORY, "out_of_memory", POST),
    ("hostile", "allocate at once", MEMORY, "out_of_memory", PRE),
    ("wat", "g", MEMORY, "out_of_memory", PRE),
    ("wat", "h", TRAP, "trap", PRE),
    // Traps and ends.
    ("hostile", "panic", TRAP, "trap", PRE),
    ("hostile", "post:panic", TRAP, "trap", POST),
    ("hostile", "abort", TRAP, "trap", PRE),
    ("hostile", "exit 0", TRAP, "exit", PRE),
    ("hostile", "exit 1", TRAP, "exit", PRE),
    ("hostile", "post:exit 0", TRAP, "exit", POST),
    ("wat", "a", TRAP, "trap", PRE),
    ("wat", "b", TRAP, "trap", PRE),
    ("wat", "c", TRAP, "trap", PRE),
    ("wat", "d", TRAP, "trap", PRE),
    ("wat", "e", TRAP, "trap", PRE),
    ("wat", "f", TRAP, "trap", PRE),
    // What goes over to the host.
    ("hostile", "print", OUTPUT, "output_flood", PRE),
    ("hostile", "post:print", OUTPUT, "output_flood", POST),
    ("patient", "print bytes", TRAP, "host_calls", PRE),
    ("patient", "stat", TRAP, "host_calls", PRE),
    ("patient", "leak files", TRAP, "handles", PRE),
    ("patient", "post:leak files", TRAP, "handles", POST),
    ("patient", "leak folders", TRAP, "handles", PRE),
    ("patient", "tiny tensors", OUTPUT, "output_flood", PRE),
    ("hostile", "negative", OUTPUT, "bad_output", PRE),
    ("hostile", "overflowing", OUTPUT, "bad_output", PRE),
    ("hostile", "post:status", OUTPUT, "bad_output", POST),
    ("hostile", "post:header", OUTPUT, "bad_output", POST),
    ("hostile", "post:wide header", OUTPUT, "output_flood", POST),
    // The component ABI.
    ("wat", "i", OUTPUT, "bad_output", PRE),
    ("wat", "j", OUTPUT, "bad_output", PRE),
    ("wat", "k", OUTPUT, "bad_output", PRE),
    ("wat", "l", OUTPUT, "bad_output", PRE),
    ("wat", "m", OUTPUT, "bad_output", PRE),
    ("wat", "n", OUTPUT, "bad_output", PRE),
    ("wat", "o", OUTPUT, "bad_output", PRE),
    ("wat", "p", OUTPUT, "bad_output", PRE),
    ("wat", "q", OUTPUT, "bad_output", PRE),
    ("wat", "r", OUTPUT, "bad_output", PRE),
    ("wat", "s", OUTPUT, "bad_output", PRE),
    ("wat", "t", OUTPUT, "bad_output", PRE),
    ("wat", "u", OUTPUT, "bad_output", PRE),
    ("wat", "v", TIME, "deadline", PRE),
    ("wat", "w", TIME, "deadline", PRE),
    ("wat", "x", TRAP, "handles", PRE),
    ("realloc_lies", "z", OUTPUT, "bad_output", PRE),
    ("realloc_traps", "z", TRAP, "trap", PRE),
];

/// Attempts that cost nobody anything, and what they come to.
const HARMLESS: [(&str, &str, &str); 6] = [
    ("hostile", "read outside", r#"{"got":[]}"#),
    ("hostile", "write", r#"{"got":[]}"#),
    ("hostile", "environment", r#"{"got":["GRANTED"]}"#),
    ("hostile", "long path", r#"{"got":[]}"#),
    ("hostile", "forge a line", "forge a line"),
    ("hostile", "post:forged digest", "post:forged digest"),
];

/// The common endpoint, and `/neighbour`.
struct Stage {
    host: Host,
    folder: TempDir,
}

impl Stage {
    fn set() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        fs::create_dir(&project).unwrap();
        fs::write(project.join("labels.json"), "[]").unwrap();
        fs::write(project.join(".env"), "SECRET=1").unwrap();
        for (target, link) in [("/etc/hostname", "link-to-a-file"), ("/etc", "link-to-a-folder")] {
            std::os::unix::fs::symlink(target, project.join(link)).unwrap();
        }
        let guest = component("tests/hostile");
        let given = format!("project = {project:?}\nenv = [\"GRANTED=1\"]");
        let mut setup = Setup::of([
            endpoint("hostile", &guest, "300ms").set(&given),
            endpoint("patient", &guest, "60s").set(&given),
            neighbour(),
        ]);
        let wat = fs::read_to_string(root().join("tests/guests/wat/hostile.wat")).unwrap();
        let allocator = "(result i32) (i32.const 1024)";
        assert!(wat.contains(allocator) && wat.contains(";; START\n"));
        for (name, new_allocator) in [
            ("wat", allocator),
            ("realloc_lies", "(result i32) (i32.const 0x7ffffff0)"),
            ("realloc_traps", "(result i32) unreachable"),
            ("realloc_loops", "(result i32) (loop (br 0)) unreachable"),
        ] {
            let file = folder.path().join(name).with_extension("wasm");
            fs::write(&file, wat::parse_str(wat.replace(allocator, new_allocator)).unwrap()).unwrap();
            setup = setup.endpoint(endpoint(name, &file, "300ms"));
        }
        Stage { host: setup.serve(), folder }
    }

    /// One request, under an id of its own.
    fn send(&self, endpoint: &str, body: &str, id: &str) -> Reply {
        let headers = [("content-type", "text/plain"), ("x-request-id", id)];
        self.host.request("POST", &format!("/{endpoint}"), &headers, body.as_bytes())
    }

    /// Whoever shares the process with all of them.
    fn neighbour(&self) -> Load {
        Pattern::new(&self.host.url, "/neighbour").start()
    }

    fn faults(&self, endpoint: &str, kind: &str) -> f64 {
        self.host.metric(&format!("modelhost_plugin_faults_total{{endpoint=\"{endpoint}\",kind=\"{kind}\"}}"))
    }
}

fn open_files(host: &Host) -> usize {
    fs::read_dir(format!("/proc/{}/fd", host.pid())).unwrap().count()
}

/// One that is hostile: it has little memory and output, and this much time.
fn endpoint(name: &str, plugin: &Path, time: &str) -> Endpoint {
    limited(name, plugin, time).limits("output = '1MiB'")
}

fn neighbour() -> Endpoint {
    limited("neighbour", &component("tests/echo"), "10s")
}

fn limited(name: &str, plugin: &Path, time: &str) -> Endpoint {
    let limits =
        format!("memory = '32MiB', concurrency = 8, pre_timeout = '{time}', post_timeout = '{time}'");
    Endpoint::new(name).plugin(plugin).set("watch = false").limits(&limits)
}

#[test]
fn every_fault_is_told_counted_and_costs_the_neighbour_nothing() {
    let _alone = alone();
    let stage = Stage::set();
    let digest = |name: &str| stage.host.endpoint(name)["digest"].as_str().unwrap().to_owned();
    let (files, neighbour) = (open_files(&stage.host), stage.neighbour());
    for (number, (endpoint, body, (status, code), kind, at)) in FAULTS.into_iter().enumerate() {
        let id = format!("fault-{number}");
        let before = stage.faults(endpoint, kind);
        let reply = stage.send(endpoint, body, &id);
        eprintln!("{endpoint} `{body}`: {}", reply.text());
        let text = reply.error(status, code, at);
        assert!(!text.contains("/mnt") && !text.contains("0x"), "{text}");
        let digest = digest(endpoint);
        assert_eq!(reply.header("x-handler-digest"), Some(&*digest), "{endpoint} `{body}`");
        assert_eq!(stage.faults(endpoint, kind), before + 1.0, "{endpoint} `{body}`: {kind}");
        let is_it = |line: &&str| {
            line.contains("ERROR") && [&*id, code, kind, &digest].iter().all(|word| line.contains(*word))
        };
        wait_until("its line in the log", || stage.host.log().lines().any(|line| is_it(&line)));
        let log = stage.host.log();
        let line = log.lines().find(is_it).unwrap();
        assert!(line.len() < 16 << 10, "{} bytes", line.len());
        assert!(!line.contains(stage.folder.path().to_str().unwrap()), "{line}");

        // The next request gets another instance.
        if let Some((good, answer)) = good(endpoint) {
            let next = stage.send(endpoint, good, "good");
            assert_eq!((next.status, next.text().contains(answer)), (200, true), "{}", next.text());
        }
    }
    for (endpoint, body, expected) in HARMLESS {
        let reply = stage.send(endpoint, body, "harmless");
        assert_eq!(reply.status, 200, "{body}: {}", reply.text());
        assert!(reply.text().contains(expected), "{body}: {}", reply.text());
        assert_eq!(reply.header("x-handler-digest"), Some(&*digest(endpoint)), "{body}");
        assert_eq!(reply.header("x-handler-bypassed"), None, "{body}");
    }
    neighbour.wait_for_more(50);
    assert_echoed(&neighbour.stop(), SOON);

    // A handler that dies says why: under the request's id, on one line, without steering a terminal.
    let log = stage.host.log();
    let panicked = FAULTS.iter().position(|(_, body, ..)| *body == "panic").unwrap();
    let id = format!("request.id=fault-{panicked} ");
    for (level, words) in [("INFO", "the hostile guest panics"), ("ERROR", "hostile::attack")] {
        let says = |line: &str| [&*id, level, words].iter().all(|word| line.contains(word));
        assert!(log.lines().any(says), "no `{words}` under {id}in {log}");
    }
    assert!(!log.contains(['\u{1b}', '\u{7}', '\u{9b}']), "control characters reached the log");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z ERROR")), "a forged line");

    // Everything comes back: at most one instance is idle for each thread that served.
    let endpoints = FAULTS.iter().map(|case| case.0).collect::<std::collections::BTreeSet<_>>();
    for endpoint in endpoints {
        let series = format!("modelhost_plugin_instances{{endpoint=\"{endpoint}\"}}");
        wait_until("instances to end", || stage.host.metric(&series) <= 2.0);
    }
    wait_until("files to be closed", || open_files(&stage.host) < files + 40);
}

/// A body that the endpoint answers, and a part of the answer.
fn good(endpoint: &str) -> Option<(&'static str, &'static str)> {
    match endpoint {
        "hostile" | "patient" => Some(("hello", "\"body\":\"hello\"")),
        "wat" => Some(("z", "good")),
        _ => None,
    }
}

/// Many at once: each of the endpoint's places taken by the same attack.
#[test]
fn crowds_of_attackers_leave_the_neighbour_alone() {
    let _alone = alone();
    let stage = Stage::set();
    let (files, neighbour) = (open_files(&stage.host), stage.neighbour());
    for (endpoint, body) in [
        ("patient", "leak files"),
        ("patient", "allocate crumbs"),
        ("hostile", "loop"),
        ("hostile", "print"),
        ("hostile", "read clocks"),
        ("hostile", "ask for the sample"),
        ("hostile", "long path"),
        ("wat", "v"),
        ("wat", "w"),
    ] {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| stage.send(endpoint, body, "crowd"));
            }
        });
        let (good, answer) = good(endpoint).unwrap();
        assert!(stage.send(endpoint, good, "good").text().contains(answer), "after `{body}`");
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON);
    wait_until("files to be closed", || open_files(&stage.host) < files + 40);
    let memory = stage.host.memory("VmRSS") >> 10;
    assert!(memory < 1024, "{memory} MiB are left");
}
