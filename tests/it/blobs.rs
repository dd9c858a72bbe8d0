//! Objects that handlers keep, in a folder and in S3: of any size, by quotas, through ends of the process and of the server.

mod s3;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use e2e::load::{Pattern, assert_echoed};
use e2e::recorded::files;
use e2e::s3::{KEY, S3};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, host, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An endpoint whose handler keeps objects in these containers.
fn keeper(name: &str, containers: &str) -> Endpoint {
    Endpoint::new(name).guest("blobs").set(format!("blobs = {containers}"))
}

/// Where the objects of a test are, as long as this is there.
enum Kept {
    Folder(TempDir),
    S3(S3),
}

impl Kept {
    /// One of each: what a handler sees is the same.
    fn each() -> [Kept; 2] {
        [Kept::Folder(tempfile::tempdir().unwrap()), Kept::S3(S3::start())]
    }

    /// These endpoints, with this store.
    fn setup(&self, endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
        Setup::of(endpoints).tables(match self {
            Kept::Folder(folder) => format!("[blobs]\nstore = {:?}", folder.path().join("objects")),
            Kept::S3(s3) => s3.store("fleet-a", KEY),
        })
    }
}

/// Names that lead elsewhere where they are taken for paths.
const HOSTILE: [&str; 7] =
    ["../../../etc/passwd", "/etc/passwd", "..", "a/../../b", "a//b", "nul\0l\n", ".hidden/%2e%2e/ä?&=+ "];

#[test]
fn objects_outlive_requests_instances_and_hosts() {
    for kept in Kept::each() {
        let setup = kept.setup([
            keeper("one", "['default', 'other', 'shared/all']").set("isolation = \"request\""),
            keeper("two", "['*', 'shared/all']"),
        ]);
        let host = setup.serve();
        let long = "n".repeat(512);
        for (path, orders, expected) in [
            (
                "/one",
                json!([
                    ["open", "default"],
                    ["get", "a"],
                    ["size", "a"],
                    ["set", "a", "0123456789"],
                    ["get", "a"],
                    ["size", "a"],
                    ["age", "a"],
                    ["range", "a", 2, 4],
                    ["range", "a", 8, 99],
                    ["range", "a", 99, 100],
                    ["range", "a", 5, 5]
                ]),
                json!(["opened", null, null, null, "0123456789", 10, true, "23", "89", "", ""]),
            ),
            (
                "/one",
                json!([
                    ["open", "default"],
                    ["set", "a", "in its place"],
                    ["get", "a"],
                    ["set", "empty", ""],
                    ["get", "empty"],
                    ["range", "empty", 0, 5],
                    ["set", "dir/b", "x"],
                    ["names"],
                    ["first", 2]
                ]),
                json!(["opened", null, "in its place", null, "", "", null, ["a", "dir/b", "empty"], 2]),
            ),
            (
                "/one",
                json!([
                    ["open", "default"],
                    ["begin", "half", "some of it"],
                    ["get", "half"],
                    ["begin", "whole", "all of it"],
                    ["end"],
                    ["get", "whole"],
                    ["delete", "whole"],
                    ["delete", "whole"],
                    ["get", "whole"]
                ]),
                json!(["opened", 1, null, 2, null, "all of it", null, null, null]),
            ),
            (
                "/one",
                json!([["open", "other"], ["get", "a"], ["open", "shared/all"], ["set", "s", "of one"]]),
                json!(["opened", null, "opened", null]),
            ),
            (
                "/one",
                json!([["open", "not granted"], ["open", "shared/other"], ["open", ".."], ["open", "*"]]),
                json!([
                    {"error": "the endpoint is granted no container `not granted`"},
                    {"error": "the endpoint is granted no container `shared/other`"},
                    {"error": "the endpoint is granted no container `..`"},
                    {"error": "the endpoint is granted no container `*`"}
                ]),
            ),
            (
                "/two",
                json!([
                    ["open", "default"],
                    ["get", "a"],
                    ["open", ".."],
                    ["set", "a", "2"],
                    ["open", "shared/all"],
                    ["get", "s"],
                    ["set", "", "x"],
                    ["set", format!("{long}n"), "x"],
                    ["set", long, "x"],
                    ["get", long]
                ]),
                json!([
                    "opened",
                    null,
                    "opened",
                    null,
                    "opened",
                    "of one",
                    {"error": "a name of 0 bytes, expected 1 to 512"},
                    {"error": "a name of 513 bytes, expected 1 to 512"},
                    null,
                    "x"
                ]),
            ),
        ] {
            assert_eq!(host.ask(path, &orders), expected, "{path} {orders}");
        }
        // Each of the hostile names is an object's like any other.
        for (number, name) in HOSTILE.iter().enumerate() {
            let orders = json!([["open", "hostile"], ["set", name, number.to_string()]]);
            assert_eq!(host.ask("/two", &orders)[1], Value::Null, "{name:?}");
        }
        for (number, name) in HOSTILE.iter().enumerate() {
            let seen = host.ask("/two", &json!([["open", "hostile"], ["get", name]]));
            assert_eq!(seen[1], number.to_string(), "{name:?}");
        }
        let mut names = HOSTILE.to_vec();
        names.sort_unstable();
        assert_eq!(host.ask("/two", &json!([["open", "hostile"], ["names"]]))[1], json!(names));
        if let Kept::Folder(folder) = &kept {
            let found: Vec<_> =
                std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(found, ["objects"], "nothing is beside the store");
        }
        let count = |operation: &str, outcome: &str| {
            let labels = format!("endpoint=\"one\",operation=\"{operation}\",outcome=\"{outcome}\"");
            host.metric(&format!("modelhost_blob_operations_total{{{labels}}}"))
        };
        assert_eq!((count("write", "ok"), count("delete", "ok")), (6.0, 2.0));

        host.signal("TERM");
        assert!(host.wait().0.success());
        let host = setup.serve();
        let orders = json!([["open", "default"], ["get", "a"], ["names"], ["clear"], ["count"]]);
        let expected = json!(["opened", "in its place", ["a", "dir/b", "empty"], null, 0]);
        assert_eq!(host.ask("/one", &orders), expected);
        let seen = host.ask("/two", &json!([["open", "shared/all"], ["get", "s"], ["size", long]]));
        assert_eq!(seen, json!(["opened", "of one", 1]));
    }
}

/// Pieces alone are in memory, the guest's and the host's; in S3 it is an upload of several parts.
#[test]
fn an_object_is_larger_than_the_memory_of_its_handler() {
    for kept in Kept::each() {
        let size = 80 << 20;
        let limits = "memory = '16MiB', blob_size = '100MiB', pre_timeout = '60s', request_timeout = '120s'";
        let host = kept.setup([keeper("it", "['a']").limits(limits)]).serve();
        let before = peak_memory(&host);
        let orders = json!([["open", "a"], ["fill", "big", size], ["size", "big"], ["verify", "big"]]);
        assert_eq!(host.ask("/it", &orders), json!(["opened", null, size, [size, true]]));
        let grown = peak_memory(&host) - before;
        assert!(grown < 64 << 10, "{grown} KiB more for an object of {size} bytes");
    }
}

/// In KiB.
fn peak_memory(host: &Host) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn quotas_end_the_writes_of_one_endpoint_and_a_neighbour_is_unharmed() {
    for kept in Kept::each() {
        let limits = "blob_bytes = 1000, blob_count = 5, blob_size = 600";
        let host = kept
            .setup([
                keeper("full", "['*']").limits(limits),
                keeper("room", "['a']"),
                Endpoint::new("neighbour").guest("echo"),
            ])
            .serve();
        let load = Pattern::new(&host.url, "/neighbour").start();
        for (orders, expected) in [
            (
                json!([["open", "a"], ["fill", "k", 601]]),
                json!({"error": "an object of more than 600 bytes, `limits.blob_size`"}),
            ),
            (
                json!([["open", "a"], ["fill", "k", 600], ["fill", "l", 401]]),
                json!({"error": "the containers would hold more than 1000 bytes, `limits.blob_bytes`"}),
            ),
            // What was refused has left nothing.
            (json!([["open", "a"], ["names"]]), json!(["k"])),
            (json!([["open", "a"], ["fill", "l", 390], ["delete", "k"], ["names"]]), json!(["l"])),
            (
                json!([["open", "b"], ["many", "k", 5]]),
                json!({"error": "the containers would hold more than 5 objects, `limits.blob_count`"}),
            ),
            (json!([["open", "b"], ["count"]]), json!(4)),
            (
                json!([["open", "a"], ["read-many", "l", 17]]),
                json!({"error": "more than 16 objects and listings are open"}),
            ),
            // Those of an earlier request are closed.
            (json!([["open", "a"], ["read-many", "l", 16]]), json!(16)),
        ] {
            let answers = host.ask("/full", &orders);
            assert_eq!(answers.as_array().unwrap().last(), Some(&expected), "{orders}");
        }
        let orders = json!([["open", "a"], ["fill", "k", 2000], ["many", "m", 20], ["count"]]);
        assert_eq!(host.ask("/room", &orders), json!(["opened", null, 20, 21]));
        assert_echoed(&load.stop(), Duration::from_secs(5));
    }
}

/// An instance whose guest has left objects open serves no other request: they hold connections and files.
#[test]
fn objects_that_are_left_open_go_with_their_instance() {
    for kept in Kept::each() {
        let host = kept.setup([keeper("it", "['a']"), keeper("neighbour", "['a']")]).serve();
        let orders = json!([["open", "a"], ["set", "k", "v"], ["leave-open", "k", 10]]);
        for _ in 0..15 {
            assert_eq!(host.ask("/it", &orders), json!(["opened", null, "open"]));
        }
        let orders = json!([["open", "a"], ["set", "k", "v"], ["get", "k"]]);
        assert_eq!(host.ask("/neighbour", &orders), json!(["opened", null, "v"]));
    }
}

#[test]
fn components_of_other_hosts_keep_objects() {
    for kept in Kept::each() {
        let endpoint =
            Endpoint::new("it").guest("blobstore").set("blobs = ['a', 'b']").limits("pre_timeout = '10s'");
        let host = kept.setup([endpoint]).serve();
        for (order, expected) in [
            (json!(["content-first", "a", "x", "the content"]), json!(null)),
            (json!(["get", "a", "x"]), json!("the content")),
            (json!(["name-first", "a", "y", "another one"]), json!(null)),
            (json!(["copy", "a", "y", "b", "z"]), json!(null)),
            (json!(["get", "b", "z"]), json!("another one")),
            (json!(["move", "a", "x", "b", "x"]), json!(null)),
            (json!(["has", "a", "x"]), json!(false)),
            (json!(["has", "b", "x"]), json!(true)),
            (json!(["get", "a", "x"]), json!({"error": "there is no object `x`"})),
            (json!(["copy", "a", "none", "b", "z"]), json!({"error": "there is no object `none`"})),
            (json!(["nameless"]), json!([true, true])),
            (json!(["twice", "a"]), json!([true, false, false])),
            (json!(["has", "a", "a"]), json!(false)),
            (json!(["name-first", "b", "w", ""]), json!(null)),
            (json!(["pages", "b"]), json!([2, [1, true], true])),
            (json!(["create", "a"]), json!("a")),
            (json!(["create", "c"]), json!({"error": "the endpoint is granted no container `c`"})),
            (json!(["exists", "b"]), json!(true)),
            (json!(["exists", "c"]), json!(false)),
            (json!(["delete-container", "b"]), json!(null)),
            (json!(["has", "b", "z"]), json!(false)),
        ] {
            assert_eq!(host.ask("/it", &json!([order]))[0], expected, "{order}");
        }
    }
}

/// The process is killed while it writes: what was answered is there, and what was not is there as a whole or not at all.
#[test]
fn what_was_answered_survives_a_kill() {
    for kept in Kept::each() {
        let setup = kept.setup([keeper("it", "['a']").limits("pre_timeout = '60s'")]);
        let size = 3_000_000;
        let answered = AtomicUsize::new(0);
        let mut host = setup.serve();
        for _ in 0..3 {
            let (url, before) = (format!("{}/it", host.url), answered.load(Ordering::SeqCst));
            thread::scope(|scope| {
                scope.spawn(|| {
                    loop {
                        let number = answered.load(Ordering::SeqCst).to_string();
                        let orders = json!([["open", "a"], ["fill", number, size]]).to_string();
                        let reply = e2e::try_request(&e2e::agent(), "POST", &url, &[], orders.as_bytes());
                        let is_stored = |reply: &e2e::Reply| {
                            reply.status == 200 && reply.json() == json!(["opened", null])
                        };
                        if !reply.is_ok_and(|reply| is_stored(&reply)) {
                            return;
                        }
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                });
                wait_until("writes to be answered", || answered.load(Ordering::SeqCst) > before + 2);
                host.signal("KILL");
            });
            // Until it has ended, the folder is its own.
            host.wait();
            host = setup.serve();
            let answered = answered.load(Ordering::SeqCst);
            for number in 0..answered {
                let seen = host.ask("/it", &json!([["open", "a"], ["verify", number.to_string()]]));
                assert_eq!(seen[1], json!([size, true]), "{number} of {answered}");
            }
            if let Kept::Folder(folder) = &kept {
                let seen = host.ask("/it", &json!([["open", "a"], ["verify", answered.to_string()]]));
                assert!(seen[1].is_null() || seen[1] == json!([size, true]), "{seen}");
                let unfinished = std::fs::read_dir(folder.path().join("objects/unfinished")).unwrap();
                assert_eq!(unfinished.count(), 0);
            }
        }
    }
}

#[test]
fn a_start_without_grant_store_or_key_is_refused_with_a_hint() {
    let plugin = component("tests/blobs").display().to_string();
    let refused = |arguments: &[&str]| {
        let (status, log) = Host::try_serve(&[&["--plugin", &plugin], arguments].concat()).err().unwrap();
        (status.code(), log)
    };
    let s3 = S3::start();
    let server = format!("http://127.0.0.1:{}", s3.port);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(folder.path().join(name), content).unwrap();
        format!("@{}", folder.path().join(name).display())
    };
    let (key, wrong) = (file("key", KEY), file("wrong", "wrong-secret"));
    let nowhere = file("nowhere", "") + "/none";
    let nowhere = nowhere.trim_start_matches('@');
    let keys = ["--blobs-access-key", &key, "--blobs-secret-key", &key];
    let grant = ["--blobs", "default", "--blobs-store"];
    let with = |store: &'static str, more: &[&str]| {
        let all: Vec<String> = grant.iter().chain([&store]).chain(more).map(ToString::to_string).collect();
        all
    };
    let server_at = |url: &str| ["--blobs-server".to_owned(), url.to_owned()];
    for (arguments, code, texts) in [
        (
            vec![],
            1,
            ["imports what it is not granted: `wasi:blobstore/", "hint: handlers keep objects only in"],
        ),
        (
            vec!["--blobs".to_owned(), "default".to_owned()],
            2,
            ["has containers, and there is no store for them", "hint: give `--blobs-store DIR`"],
        ),
        (with("s3://objects", &[]), 2, ["there is no key for it", "hint: give `blobs.access_key` too"]),
        (with("objects", &keys), 2, ["is of S3, and there is none", "hint: give `blobs.store` the address"]),
        (with("https://x", &keys), 2, ["is no folder and no bucket", "hint: "]),
        (
            [
                with("s3://objects", &["--blobs-access-key", &key, "--blobs-secret-key", &wrong]),
                server_at(&server).into(),
            ]
            .concat(),
            1,
            ["the server has answered 403 SignatureDoesNotMatch", "`blobs.secret_key`"],
        ),
        (
            [with("s3://no-such-bucket", &keys), server_at(&server).into()].concat(),
            1,
            ["the server has answered 404 NoSuchBucket", "the bucket has to be there"],
        ),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (found, log) = refused(&arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {log}");
        assert!(texts.iter().all(|text| log.contains(text)), "{arguments:?}: {log}");
        assert!(!log.contains("wrong-secret"), "{log}");
    }
    let (code, log) = refused(&["--blobs", "default", "--blobs-store", nowhere]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("cannot use the store `") && log.contains("hint: "), "{log}");
    // One host at a time.
    let store = folder.path().join("objects").display().to_string();
    let arguments = ["--plugin", &plugin, "--blobs", "default", "--blobs-store", &store];
    let _first = Host::serve(&arguments);
    let (_, log) = Host::try_serve(&arguments).err().unwrap();
    assert!(log.contains("another process has it open"), "{log}");

    let output = host(&["inspect", &plugin]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("it keeps objects, in the containers that the endpoint's `blobs` grants"),
        "{text}"
    );
}

#[test]
fn a_run_that_is_no_request_sees_the_store_and_writes_nothing() {
    for kept in Kept::each() {
        let folder = tempfile::tempdir().unwrap();
        let (body, plugin) = (folder.path().join("body.json"), component("tests/blobs"));
        let orders =
            json!([["open", "a"], ["set", "n", "v"], ["get", "n"], ["names"], ["delete", "n"], ["get", "n"]]);
        std::fs::write(&body, orders.to_string()).unwrap();
        let arguments = ["run", "--plugin", plugin.to_str().unwrap(), "--blobs", "a", body.to_str().unwrap()];
        for _ in 0..2 {
            let output = host(&arguments);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(text.contains(r#"["opened",null,"v",["n"],null,null]"#), "{text}{error}");
        }

        // A shadow beside the handler writes as it does, and what it writes is nowhere.
        let served = folder.path().join("blobs.wasm");
        std::fs::copy(&plugin, &served).unwrap();
        let endpoint = Endpoint::new("it")
            .plugin(&served)
            .set("blobs = ['a']\nwatch = false")
            .table("gate", "samples = 5");
        let host = kept.setup([endpoint]).serve();
        let write = json!([["open", "a"], ["set", "k", "v"], ["delete", "k"], ["count"]]);
        assert_eq!(host.ask("/it", &write), json!(["opened", null, null, 0]));
        assert_eq!(host.ask("/it", &json!([["open", "a"], ["set", "kept", "v"]])), json!(["opened", null]));
        let url = format!("{}/admin/v1/endpoints/it/plugin", host.admin);
        let reply = e2e::request("PUT", &url, &[], &std::fs::read(&plugin).unwrap());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(host.ask("/it", &json!([["open", "a"], ["names"]])), json!(["opened", ["kept"]]));
    }
}

#[test]
fn a_request_that_asks_for_objects_is_not_recorded_and_others_are() {
    let (kept, folder) = (Kept::Folder(tempfile::tempdir().unwrap()), tempfile::tempdir().unwrap());
    let records = folder.path().join("records");
    std::fs::create_dir(&records).unwrap();
    let host = kept.setup([keeper("it", "['a']")]).tables(format!("[record]\ndir = {records:?}")).serve();
    host.ask("/it", &json!([["open", "a"], ["set", "k", "v"]]));
    wait_until("the refusal", || {
        host.metric("modelhost_recordings_total{endpoint=\"it\",outcome=\"refused\"}") == 1.0
    });
    host.wait_for_log("no recording holds objects that the handler keeps");
    assert_eq!(host.post("/it", "[]").status, 200);
    wait_until("the recording", || files(&records).len() == 1);
    let file = files(&records).remove(0);
    let plugin = component("tests/blobs");
    let output = e2e::host(&["replay", file.to_str().unwrap(), "--plugin", plugin.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
