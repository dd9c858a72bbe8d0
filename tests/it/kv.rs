//! Values that handlers keep, in a file and in a Redis: buckets, quotas, time to live, ends of the process at any moment.

mod redis;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use e2e::load::{Pattern, assert_echoed};
use e2e::recorded::{assert_same, by_id, files};
use e2e::redis::Kept;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, host, wait_until};
use serde_json::{Value, json};

/// An endpoint whose handler keeps values in these buckets.
fn keeper(name: &str, buckets: &str) -> Endpoint {
    Endpoint::new(name).guest("kv").set(format!("kv = {buckets}"))
}

/// These endpoints, with their values there.
fn setup(kept: &Kept, endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
    Setup::of(endpoints).tables(kept.store("kv"))
}

#[test]
fn values_outlive_requests_instances_and_hosts() {
    for kept in Kept::each() {
        let setup = setup(
            &kept,
            [
                keeper("one", "['default', 'other', 'shared/all']").set("isolation = \"request\""),
                keeper("two", "['*', 'shared/all']"),
            ],
        );
        let host = setup.serve();
        for (path, orders, expected) in [
            (
                "/one",
                json!([
                    ["open", "default"],
                    ["get", "a"],
                    ["put", "a", "1"],
                    ["get", "a"],
                    ["put", "b/1", ""],
                    ["put", "b/2", ""]
                ]),
                json!(["opened", null, null, "1", null, null]),
            ),
            (
                "/one",
                json!([
                    ["open", "default"],
                    ["get", "a"],
                    ["increment", "a", 4],
                    ["keys", "b/"],
                    ["page", "b/", "", 1],
                    ["page", "b/", "b/1", 1]
                ]),
                json!(["opened", "1", 5, ["b/1", "b/2"], [["b/1"], "b/1"], [["b/2"], null]]),
            ),
            (
                "/one",
                json!([
                    ["open", "other"],
                    ["get", "a"],
                    ["open", "shared/all"],
                    ["put", "s", "of one"],
                    ["add", "s", "x"]
                ]),
                json!(["opened", null, "opened", null, false]),
            ),
            (
                "/one",
                json!([
                    ["open", "default"],
                    ["swap", "a", "4", "x"],
                    ["swap", "a", "5", "6"],
                    ["delete", "b/1"],
                    ["keys", ""],
                    ["increment", "b/2", 1]
                ]),
                json!(["opened", false, true, null, ["a", "b/2"], {"error": "Invalid(\"the value is not a whole number of 64 bits\")"}]),
            ),
            ("/one", json!([["open", "not granted"]]), json!([{"error": "NoSuchBucket(\"not granted\")"}])),
            ("/one", json!([["open", "shared/other"]]), json!([{"error": "NoSuchBucket(\"shared/other\")"}])),
            (
                "/two",
                json!([
                    ["open", "default"],
                    ["get", "a"],
                    ["open", "any"],
                    ["put", "a", "2"],
                    ["open", "shared/all"],
                    ["get", "s"]
                ]),
                json!(["opened", null, "opened", null, "opened", "of one"]),
            ),
        ] {
            assert_eq!(host.ask(path, &orders), expected, "{path} {orders}");
        }
        let count = |operation: &str, outcome: &str| {
            let labels = format!("endpoint=\"one\",operation=\"{operation}\",outcome=\"{outcome}\"");
            host.metric(&format!("modelhost_kv_operations_total{{{labels}}}"))
        };
        assert_eq!(
            (count("increment", "ok"), count("increment", "error"), count("swap", "ok")),
            (1.0, 1.0, 2.0)
        );

        host.signal("TERM");
        assert!(host.wait().0.success());
        let host = setup.serve();
        assert_eq!(host.ask("/one", &json!([["open", "default"], ["get", "a"]])), json!(["opened", "6"]));
    }
}

#[test]
fn a_value_is_gone_when_its_time_is_over_and_an_idle_host_does_nothing_for_it() {
    for kept in Kept::each() {
        let host = setup(&kept, [keeper("it", "['a']")]).serve();
        let seen = host.ask(
            "/it",
            &json!([["open", "a"], ["put", "k", "v", 300], ["get", "k"], ["put", "l", "v", 60_000]]),
        );
        assert_eq!(seen[2], "v");
        wait_until("the value to be gone", || {
            host.ask("/it", &json!([["open", "a"], ["get", "k"]]))[1].is_null()
        });
        assert_eq!(host.ask("/it", &json!([["open", "a"], ["keys", ""]]))[1], json!(["l"]));
    }
}

/// The process is killed while it writes: what was answered is there.
#[test]
fn what_was_answered_survives_a_kill_under_load() {
    for kept in Kept::each() {
        let setup = setup(&kept, [keeper("it", "['a']")]);
        let mut answered: Vec<usize> = vec![0; 8];
        for round in 0..3 {
            let host = setup.serve();
            let counts: Vec<Arc<AtomicUsize>> =
                answered.iter().map(|count| Arc::new(AtomicUsize::new(*count))).collect();
            let writers: Vec<_> = counts
                .iter()
                .cloned()
                .enumerate()
                .map(|(writer, count)| {
                    let url = format!("{}/it", host.url);
                    thread::spawn(move || {
                        loop {
                            let next = count.load(Ordering::SeqCst) + 1;
                            let orders = json!([
                                ["open", "a"],
                                ["put", format!("{writer}"), next.to_string()],
                                ["put", format!("{writer}/{next}"), "x".repeat(2000)]
                            ]);
                            match e2e::try_request(
                                &e2e::agent(),
                                "POST",
                                &url,
                                &[],
                                orders.to_string().as_bytes(),
                            ) {
                                Ok(reply)
                                    if reply.status == 200
                                        && reply.json() == json!(["opened", null, null]) =>
                                {
                                    count.store(next, Ordering::SeqCst);
                                }
                                _ => return,
                            }
                        }
                    })
                })
                .collect();
            let total = || counts.iter().map(|count| count.load(Ordering::SeqCst)).sum::<usize>();
            let begun = total();
            wait_until("writes to be answered", || total() > begun + 40);
            host.signal("KILL");
            for writer in writers {
                writer.join().unwrap();
            }
            drop(host);
            answered = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();

            let host = setup.serve();
            for (writer, &count) in answered.iter().enumerate() {
                let orders =
                    json!([["open", "a"], ["get", writer.to_string()], ["keys", format!("{writer}/")]]);
                let seen = host.ask("/it", &orders);
                // One more may have been stored whose answer was lost.
                let stored: usize = seen[1].as_str().unwrap_or("0").parse().unwrap();
                assert!(
                    stored == count || stored == count + 1,
                    "round {round}: {stored} of {count} by {writer}"
                );
                let keys = seen[2].as_array().unwrap().len();
                assert!(keys >= count, "round {round}: {keys} keys of {count} by {writer}");
            }
        }
    }
}

#[test]
fn quotas_end_the_writes_of_one_endpoint_and_a_neighbour_is_unharmed() {
    for kept in Kept::each() {
        let limits = "kv_bytes = 1000, kv_entries = 5, kv_value = 600";
        let host = setup(
            &kept,
            [
                keeper("full", "['*']").limits(limits),
                keeper("room", "['a']"),
                Endpoint::new("neighbour").guest("echo"),
            ],
        )
        .serve();
        let load = Pattern::new(&host.url, "/neighbour").start();
        let error = |text: &str| json!({ "error": format!("Limit({text:?})") });
        for (orders, expected) in [
            (
                json!([["open", "a"], ["fill", "k", 601]]),
                error("a value of 601 bytes, and 600 are `limits.kv_value`"),
            ),
            (
                json!([["open", "a"], ["fill", "k", 600], ["fill", "l", 400]]),
                error("the buckets would hold more than 1000 bytes, `limits.kv_bytes`"),
            ),
            (
                json!([["open", "b"], ["many", "k", 5]]),
                error("the buckets would hold more than 5 keys, `limits.kv_entries`"),
            ),
        ] {
            let answers = host.ask("/full", &orders);
            assert_eq!(answers.as_array().unwrap().last(), Some(&expected), "{orders}");
        }
        assert_eq!(
            host.ask("/room", &json!([["open", "a"], ["fill", "k", 2000], ["many", "m", 20]])),
            json!(["opened", null, 20])
        );
        // Handlers that ask without end, or hold buckets without end, are ended.
        for (orders, message) in [
            (json!([["open", "a"], ["forever", "k"]]), "the handler "),
            (json!([["open", "a"], ["open-many", "a", 1_000_000]]), "the handler holds more than "),
        ] {
            let reply = host.post("/full", orders.to_string());
            assert_eq!(reply.status / 100, 5, "{orders}: {}", reply.text());
            assert!(reply.text().contains(message), "{orders}: {}", reply.text());
        }
        assert_echoed(&load.stop(), std::time::Duration::from_secs(5));
    }
}

#[test]
fn a_handler_without_a_bucket_and_a_bucket_without_a_store_are_refused_with_a_hint() {
    let plugin = component("tests/kv").display().to_string();
    let refused = |arguments: &[&str]| {
        let (status, log) = Host::try_serve(&[&["--plugin", &plugin], arguments].concat()).err().unwrap();
        (status.code(), log)
    };
    let (code, log) = refused(&[]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("imports what it is not granted: `modelhost:handler/kv@0.1.0`"), "{log}");
    assert!(
        log.contains(
            "hint: handlers keep values only in the buckets that their endpoint grants: `kv = [\"default\"]`"
        ),
        "{log}"
    );
    let (code, log) = refused(&["--kv", "default"]);
    assert_eq!(code, Some(2), "{log}");
    assert!(
        log.contains("has buckets, and there is no store for them")
            && log.contains("hint: give `--kv-store FILE|URL`"),
        "{log}"
    );
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("none/values").display().to_string();
    let (code, log) = refused(&["--kv", "default", "--kv-store", &nowhere]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains(&format!("cannot use the store `{nowhere}`")) && log.contains("hint: "), "{log}");
    // One host at a time.
    let store = folder.path().join("values").display().to_string();
    let arguments = ["--plugin", &plugin, "--kv", "default", "--kv-store", &store];
    let _first = Host::serve(&arguments);
    let (_, log) = Host::try_serve(&arguments).err().unwrap();
    assert!(log.contains("another process has it open"), "{log}");

    let output = host(&["inspect", &plugin]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("it keeps values, in the buckets that the endpoint's `kv` grants"), "{text}");
}

#[test]
fn a_run_that_is_no_request_sees_the_store_and_writes_nothing() {
    for kept in Kept::each() {
        let folder = tempfile::tempdir().unwrap();
        let (body, plugin) = (folder.path().join("body.json"), component("tests/kv"));
        let orders = json!([["open", "a"], ["increment", "n", 1], ["get", "n"]]);
        std::fs::write(&body, orders.to_string()).unwrap();
        let arguments = ["run", "--plugin", plugin.to_str().unwrap(), "--kv", "a", body.to_str().unwrap()];
        for _ in 0..2 {
            let output = host(&arguments);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                text.contains(r#"["opened",1,"1"]"#),
                "{text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }

        // Kept requests go through the new handler, and their answers hold although the store has gone on.
        let served = folder.path().join("kv.wasm");
        std::fs::copy(&plugin, &served).unwrap();
        let endpoint = Endpoint::new("it")
            .plugin(&served)
            .set("kv = ['a']")
            .set("watch = false")
            .table("gate", "samples = 10");
        let host = setup(&kept, [endpoint]).serve();
        for expected in 1..=3 {
            assert_eq!(host.ask("/it", &orders), json!(["opened", expected, expected.to_string()]));
        }
        wait_until("the requests to be kept", || host.endpoint("it")["gate_samples"] == 3);
        let reply = e2e::request(
            "PUT",
            &format!("{}/admin/v1/endpoints/it/plugin", host.admin),
            &[],
            // The same with a section that says nothing, which is another handler.
            &[&std::fs::read(&plugin).unwrap()[..], &[0, 2, 1, b'x']].concat(),
        );
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(host.ask("/it", &orders), json!(["opened", 4, "4"]));
    }
}

#[test]
fn a_recorded_handler_is_replayed_without_the_store_and_no_secret_is_recorded() {
    for kept in Kept::each() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        std::fs::create_dir(&records).unwrap();
        let host = setup(&kept, [keeper("it", "['a', 'shared/b']")])
            .tables(format!("[record]\ndir = {records:?}"))
            .serve();
        let post = |id: &str, orders: &Value| {
            let reply = host.request("POST", "/it", &[("x-request-id", id)], orders.to_string().as_bytes());
            assert_eq!(reply.status, 200, "{}", reply.text());
        };
        let orders = json!([
            ["open", "a"],
            ["increment", "n", 1],
            ["set", "k", "v", 500],
            ["get", "k"],
            ["keys", ""],
            ["open", "shared/b"],
            ["swap", "x", null, "y"],
            ["open", "c"],
            ["increment", "k", 1]
        ]);
        post("first", &orders);
        post("second", &orders);
        post("secret", &json!([["open", "a"], ["put", "user/password", "hush"]]));
        post("within", &json!([["open", "a"], ["put", "user", "{\"api_key\": \"hush\"}"]]));
        wait_until("the recordings", || {
            let count = |outcome: &str| {
                host.metric(&format!("modelhost_recordings_total{{endpoint=\"it\",outcome=\"{outcome}\"}}"))
            };
            (count("written"), count("refused")) == (2.0, 2.0)
        });
        assert_eq!(
            by_id(&records)["second"]["kv"][0],
            json!({"bucket": "a", "increment": {"key": "n", "by": 1, "ttl": null},
        "answer": {"Ok": {"number": 2}}})
        );
        drop(host);
        assert_eq!(files(&records).len(), 2);
        assert_same(&records, &component("tests/kv"), &[], 2);
    }
}

/// Components that were made for other hosts.
#[test]
fn wasi_keyvalue_reaches_the_same_buckets_in_both_drafts() {
    for kept in Kept::each() {
        let endpoint = Endpoint::new("it").guest("keyvalue").set("kv = ['a', 'many']");
        let host = setup(&kept, [endpoint]).serve();
        for (order, expected) in [
            (json!(["draft", "a", "set", "k", "1"]), json!(null)),
            (json!(["draft2", "a", "get", "k"]), json!("1")),
            (json!(["draft2", "a", "increment", "k", -3]), json!(-2)),
            (json!(["draft", "a", "increment", "k", 7]), json!(5)),
            (json!(["draft", "a", "exists", "k"]), json!(true)),
            (json!(["draft2", "a", "delete", "k"]), json!(null)),
            (json!(["draft2", "a", "exists", "k"]), json!(false)),
            (json!(["draft2", "a", "swap", "k", "new"]), json!([null, "in between", true])),
            (json!(["draft", "a", "set-many", "l", "2", "m", "3"]), json!(null)),
            (json!(["draft2", "a", "get-many", "l", "none", "k"]), json!([["l", "2"], null, ["k", "new"]])),
            (json!(["draft2", "a", "delete-many", "l", "none"]), json!(null)),
            (json!(["draft", "a", "get-many", "l", "m"]), json!([null, ["m", "3"]])),
            (json!(["draft", "many", "fill", 2500]), json!(2500)),
            (json!(["draft", "many", "list"]), json!([2500, 3])),
            (json!(["draft2", "many", "list"]), json!([2500, 3])),
            (
                json!(["draft2", "a", "hoard", "k"]),
                json!({"error": "Error::Other(\"more than 16 values are held to be replaced\")"}),
            ),
            (json!(["draft2", "a", "get", "k"]), json!("new")),
            (json!(["draft", "other", "get", "k"]), json!({"error": "Error::NoSuchStore"})),
            (
                json!(["draft2", "a", "increment", "k", 1]),
                json!({"error": "Error::Other(\"the value is not a whole number of 64 bits\")"}),
            ),
        ] {
            assert_eq!(host.ask("/it", &order), expected, "{order}");
        }
    }
}
