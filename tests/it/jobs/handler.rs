//! Jobs that handlers submit by themselves: in a file and in a Redis, within limits, past kills.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::recorded::{assert_same, by_id, files};
use e2e::redis::Kept;
use e2e::{component, host};

use super::*;
use crate::webhooks::{OK, Receiver};

/// An endpoint whose handler submits jobs.
fn submitter(name: &str) -> Endpoint {
    Endpoint::new(name).guest("jobs").set("jobs = 'on'")
}

/// These endpoints, with their jobs there.
fn setup(kept: &Kept, endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
    Setup::of(endpoints).tables(kept.store("jobs"))
}

/// The ids of an endpoint's jobs in a state, or in any.
fn all(host: &Host, name: &str, state: &str) -> Vec<String> {
    let listed = host.get(&format!("/{name}/jobs?limit=1000{state}")).json();
    listed["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_handler_submits_jobs_looks_at_them_and_cancels_them() {
    for kept in Kept::each() {
        let receiver = Receiver::start(&[OK]);
        let it = submitter("it").set(format!("allow_outbound = [{:?}]", receiver.url));
        let host = setup(&kept, [it, submitter("other")]).serve();
        let options =
            json!({"header": ["X-Mine", "1"], "priority": 0, "attempts": 2, "webhook": receiver.url});
        let submitted = host.ask("/it", &json!([["submit", "/?a=b%20c", "hello", options]]))[0].clone();
        let id = submitted["id"].as_str().unwrap();
        assert_eq!(
            (&submitted["state"], &submitted["attempts"]),
            (&json!("Queued"), &json!(2)),
            "{submitted}"
        );
        let job = until(&host, "it", id, "completed");
        assert_eq!((&job["priority"], &job["attempt"]), (&json!(0), &json!(1)));
        let seen = json!({"seen": "hello", "query": "a=b%20c", "header": "1"});
        assert_eq!(result(&host, "it", id).json(), seen);
        wait_until("the webhook", || receiver.seen().iter().any(|it| it.header("webhook-id") == id));

        let looked = host.ask("/it", &json!([["get", id], ["answer", id], ["cancel", id]]));
        let completed = json!({"id": id, "state": "Completed", "attempts": 2, "status": 200});
        assert_eq!((&looked[0], &looked[2]), (&completed, &completed), "what is finished stays as it is");
        assert_eq!((&looked[1][0], &looked[1][2]), (&json!(200), &json!(seen.to_string())), "{looked}");
        // Another endpoint has none of them.
        let none = json!([["get", id], ["answer", id], ["cancel", id], ["get", "../x"], ["cancel", ""]]);
        assert_eq!(host.ask("/other", &none), json!([null, null, null, null, null]));

        let later = json!([["submit", "/", 1, {"delay": 100_000}], ["answer", "last"], ["cancel", "last"]]);
        let answers = host.ask("/it", &later);
        assert_eq!((&answers[1], &answers[2]["state"]), (&Value::Null, &json!("Cancelled")));
        assert_eq!(look(&host, "it", answers[0]["id"].as_str().unwrap())["state"], "cancelled");
        // A run is stopped by the request of another.
        let long = host.ask("/it", &json!([["submit", "/", {"sleep": 60_000}]]))[0]["id"].clone();
        until(&host, "it", long.as_str().unwrap(), "running");
        assert_eq!(host.ask("/it", &json!([["cancel", long]]))[0]["state"], "Cancelled");

        // One key is one job, a client's too.
        let keyed = json!([["submit", "/", 1, {"key": "k"}]]);
        let first = host.ask("/it", &keyed)[0]["id"].clone();
        assert_eq!(host.ask("/it", &keyed)[0]["id"], first);
        let refused = host.ask("/it", &json!([["submit", "/", 2, {"key": "k"}]]));
        assert_eq!(refused, json!([{"error": "Conflict"}]));
        host.request("POST", "/it/jobs", &[("idempotency-key", "k")], b"2").error(
            409,
            "idempotency_conflict",
            "admit",
        );

        for (order, expected) in [
            (json!(["submit", "/train", 1]), "Invalid(\"the path is not `/`, and only an application has"),
            (json!(["submit", "train", 1]), "Invalid(\"the path is none"),
            (
                json!(["submit", "/", 1, {"header": ["authorization", "x"]}]),
                "Invalid(\"the header `authorization`",
            ),
            (json!(["submit", "/", 1, {"priority": 3}]), "Invalid(\"the priority is not 0 to 2"),
            (json!(["submit", "/", 1, {"attempts": 4}]), "Invalid(\"the attempts are not 1 to 3"),
            (json!(["submit", "/", 1, {"webhook": "https://example.com"}]), "Invalid(\"the webhook "),
            (json!(["submit", "/", 1, {"webhook": "no URL"}]), "Invalid(\"the webhook "),
        ] {
            let answer = host.ask("/it", &json!([order]))[0]["error"].clone();
            assert!(answer.as_str().unwrap_or_default().starts_with(expected), "{order}: {answer}");
        }
        let series = |outcome: &str| format!("jobs_submitted_total{{endpoint=\"it\",outcome=\"{outcome}\"}}");
        for (name, expected) in [
            (series("stored"), 4.0),
            (series("repeated"), 1.0),
            // One of them was the client's.
            (series("refused"), 9.0),
            ("job_operations_total{endpoint=\"it\",operation=\"submit\",outcome=\"ok\"}".to_owned(), 5.0),
            ("job_operations_total{endpoint=\"it\",operation=\"submit\",outcome=\"error\"}".to_owned(), 8.0),
            ("job_operations_total{endpoint=\"it\",operation=\"get-answer\",outcome=\"ok\"}".to_owned(), 2.0),
        ] {
            assert_eq!(host.metric(&format!("modelhost_{name}")), expected, "{name}");
        }
    }
}

#[test]
fn limits_end_the_submissions_of_one_endpoint_and_a_neighbour_is_unharmed() {
    for kept in Kept::each() {
        let limits = "job_queue = 4, job_submissions = 3, job_depth = 5, body = '1KiB', job_concurrency = 1";
        let host = setup(
            &kept,
            [
                submitter("it").limits(limits),
                submitter("room").limits("job_bytes = '64KiB', job_concurrency = 1"),
                Endpoint::new("neighbour").guest("echo"),
            ],
        )
        .serve();
        let load = Pattern::new(&host.url, "/neighbour").start();
        let limit = |text: &str| json!({"error": format!("Limit({text:?})")});
        // The limit of depth ends a chain that its handler would go on with.
        let mut id = host.ask("/it", &json!({"chain": 1})).as_str().unwrap().to_owned();
        let mut jobs = 1;
        loop {
            until(&host, "it", &id, "completed");
            let next = result(&host, "it", &id).json();
            let Some(next) = next.as_str() else {
                assert_eq!(next, limit("5 jobs follow each other at most, `limits.job_depth`"));
                break;
            };
            (id, jobs) = (next.to_owned(), jobs + 1);
        }
        assert_eq!(jobs, 6, "the first, and five more behind it");

        let most = limit("a request submits at most 3 jobs, `limits.job_submissions`");
        assert_eq!(host.ask("/it", &json!([["many", 9, 1]])), json!([[3, most]]));
        // The next request has its own count; what waits counts for all.
        wait_until("those to be finished", || {
            host.metric("modelhost_jobs{endpoint=\"it\",state=\"queued\"}") == 0.0
                && host.metric("modelhost_jobs{endpoint=\"it\",state=\"running\"}") == 0.0
        });
        host.ask("/it", &json!([["submit", "/", {"sleep": 60_000}]]));
        host.ask("/it", &json!([["many", 3, 1]]));
        // One of those before may end only now.
        let full = json!([limit("4 jobs are not finished, and as many are `limits.job_queue`")]);
        wait_until("the queue to be full", || host.ask("/it", &json!([["submit", "/", 1]])) == full);
        wait_until("a client's to be refused", || host.post("/it/jobs", "1").status == 503);
        host.post("/it/jobs", "1").error(503, "jobs_full", "admit");
        let large = limit("the body has more than 1024 bytes, `limits.body`");
        assert_eq!(host.ask("/room", &json!([["submit", "/", 1, {"fill": 20_000}]]))[0]["state"], "Queued");
        assert_eq!(host.ask("/it", &json!([["submit", "/", 1, {"fill": 2000}]])), json!([large]));
        let bytes = limit("jobs and results would take more than 65536 bytes, `limits.job_bytes`");
        assert_eq!(host.ask("/room", &json!([["submit", "/", 1, {"fill": 66_000}]])), json!([bytes]));
        // A handler that asks without end is ended.
        let reply = host.post("/room", json!([["forever"]]).to_string());
        assert_eq!(reply.status / 100, 5, "{}", reply.text());
        assert_echoed(&load.stop(), Duration::from_secs(5));
    }
}

/// The host is killed while handlers submit: what a handler was told is stored is there, and run.
#[test]
fn what_a_handler_was_told_is_stored_survives_kills() {
    for kept in Kept::each() {
        let setup = setup(&kept, [submitter("it").limits("job_attempts = 20")]);
        let told = Mutex::new(BTreeSet::new());
        for _ in 0..3 {
            let host = setup.serve();
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..6 {
                    let (url, told, is_over) = (format!("{}/it", host.url), &told, &is_over);
                    scope.spawn(move || {
                        let orders = json!([["submit", "/", {"sleep": 5}]]).to_string();
                        while !is_over.load(Ordering::SeqCst) {
                            let reply = try_request(&agent(), "POST", &url, &[], orders.as_bytes());
                            let Ok(reply) = reply else { return };
                            if let Some(id) = reply.json()[0]["id"].as_str() {
                                told.lock().unwrap().insert(id.to_owned());
                            }
                        }
                    });
                }
                let before = told.lock().unwrap().len();
                wait_until("jobs to be submitted", || told.lock().unwrap().len() > before + 40);
                host.signal("KILL");
                is_over.store(true, Ordering::SeqCst);
            });
        }
        let host = setup.serve();
        for id in told.into_inner().unwrap() {
            until(&host, "it", &id, "completed");
        }
    }
}

#[test]
fn a_handler_without_jobs_is_refused_with_a_hint_and_inspect_names_them() {
    let plugin = component("tests/jobs").display().to_string();
    let (status, log) = Host::try_serve(&["--plugin", &plugin]).err().unwrap();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("imports what it is not granted: `modelhost:handler/jobs@0.1.0`"), "{log}");
    assert!(
        log.contains("hint: handlers submit jobs only where their endpoint has some: `jobs = \"on\"`"),
        "{log}"
    );
    let output = host(&["inspect", &plugin]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("it submits jobs to its endpoint, where `jobs` is on"), "{text}");
}

#[test]
fn a_run_that_is_no_request_submits_nothing() {
    for kept in Kept::each() {
        let folder = tempfile::tempdir().unwrap();
        let (body, plugin) = (folder.path().join("body.json"), component("tests/jobs"));
        let orders = json!([["submit", "/", 1], ["get", "last"], ["cancel", "last"], ["get", "last"]]);
        std::fs::write(&body, orders.to_string()).unwrap();
        let arguments = ["run", "--plugin", plugin.to_str().unwrap(), "--jobs", "on", body.to_str().unwrap()];
        let output = host(&arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for state in ["\"state\":\"Queued\"", "\"state\":\"Cancelled\""] {
            assert!(text.contains(state), "{text}{said}");
        }

        // Kept requests go through the new handler, a shadow gets all: neither submits a job again.
        let served = folder.path().join("jobs.wasm");
        std::fs::copy(&plugin, &served).unwrap();
        let own = Endpoint::new("it").plugin(&served).set("jobs = 'on'");
        let endpoint = own.set("watch = false").table("gate", "samples = 10");
        let host = setup(&kept, [endpoint]).serve();
        let orders = json!([["submit", "/", 1, {"delay": 1000}], ["get", "last"]]);
        for _ in 0..3 {
            host.ask("/it", &orders);
        }
        wait_until("the requests to be kept", || host.endpoint("it")["gate_samples"] == 3);
        // The same with a section that says nothing, which is another handler.
        let code = std::fs::read(&plugin).unwrap();
        let another = [&code[..], &[0, 2, 1, b'x']].concat();
        let put = |path: &str, code: &[u8]| {
            let url = format!("{}/admin/v1/endpoints/it/plugin{path}", host.admin);
            let reply = e2e::request("PUT", &url, &[], code);
            assert_eq!(reply.status, 200, "{}", reply.text());
        };
        put("", &[&code[..], &[0, 2, 1, b'y']].concat());
        assert_eq!(all(&host, "it", "").len(), 3, "the gate has submitted none");
        put("/candidate?mode=shadow&share=1", &another);
        host.ask("/it", &orders);
        wait_until("the shadow to have run", || {
            host.metrics().lines().any(|line| {
                line.starts_with("modelhost_trial_requests_total")
                    && line.contains("shadow")
                    && !line.ends_with(" 0")
            })
        });
        assert_eq!(all(&host, "it", "").len(), 4, "the shadow has submitted none");
    }
}

#[test]
fn a_recorded_handler_is_replayed_without_the_jobs_and_no_secret_is_recorded() {
    for kept in Kept::each() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        std::fs::create_dir(&records).unwrap();
        let host = setup(&kept, [submitter("it")]).tables(format!("[record]\ndir = {records:?}")).serve();
        let post = |id: &str, orders: &Value| {
            let reply = host.request("POST", "/it", &[("x-request-id", id)], orders.to_string().as_bytes());
            assert_eq!(reply.status, 200, "{}", reply.text());
        };
        let delayed = json!({"delay": 100_000});
        let orders = json!([
            ["submit", "/?a=b", 1, delayed],
            ["get", "last"],
            ["answer", "last"],
            ["cancel", "last"],
            ["submit", "none", 1],
        ]);
        post("first", &orders);
        post("query", &json!([["submit", "/?api_key=hush", 1, delayed]]));
        post("header", &json!([["submit", "/", 1, {"header": ["x-api-key", "hush"]}]]));
        post("body", &json!([["submit", "/", {"password": "hush"}, delayed]]));
        wait_until("the recordings", || {
            let count = |outcome: &str| {
                host.metric(&format!("modelhost_recordings_total{{endpoint=\"it\",outcome=\"{outcome}\"}}"))
            };
            (count("written"), count("refused")) == (1.0, 3.0)
        });
        let calls = by_id(&records)["first"]["jobs"].clone();
        assert_eq!(
            calls[0]["submit"],
            json!({
                "path": "/?a=b", "headers": [["content-type", "application/json"]], "body": "MQ==", "delay": 100_000,
            })
        );
        assert_eq!(calls[3]["answer"]["Ok"]["job"]["state"], "cancelled");
        drop(host);
        assert_eq!(files(&records).len(), 1);
        assert_same(&records, &component("tests/jobs"), &[], 1);
    }
}
