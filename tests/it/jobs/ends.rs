//! Ends of the process, swaps, keys, and requests that are made to do harm.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, agent, component, replace, serve_command, try_request, version, wait_until};
use serde_json::{Value, json};

use super::{look, result, stored, submit, until, worker};

/// The process is killed while jobs are submitted and run: each that was acknowledged is there, and is run.
#[test]
fn what_was_acknowledged_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let setup = stored(folder.path(), [worker("it").limits("job_attempts = 50")]);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let host = setup.serve();
        let submitters = [(); 4].map(|()| {
            let (url, acknowledged) = (format!("{}/it/jobs", host.url), acknowledged.clone());
            thread::spawn(move || {
                let agent = agent();
                while let Ok(reply) = try_request(&agent, "POST", &url, &[], b"sleep:5") {
                    if reply.status != 202 {
                        return;
                    }
                    acknowledged.lock().unwrap().push(reply.json()["id"].as_str().unwrap().to_owned());
                }
            })
        });
        let count = || acknowledged.lock().unwrap().len();
        let before = count();
        wait_until("jobs to be acknowledged", || count() > before + 40);
        host.signal("KILL");
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    }
    let host = setup.serve();
    let ids = acknowledged.lock().unwrap().clone();
    assert!(ids.len() > 120, "{}", ids.len());
    for id in &ids {
        let job = until(&host, "it", id, "completed");
        assert_eq!(result(&host, "it", id).json(), json!({"ok": null}), "{job}");
    }
}

/// The disk is full for a while: nothing that was acknowledged is lost, requests go on, and so do jobs afterwards.
#[test]
fn a_full_disk_costs_submissions_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    fs::write(&config, stored(folder.path(), [worker("it")]).text()).unwrap();
    let plain = serve_command(&["--config", config.to_str().unwrap()]);
    // A write beyond the limit fails then, and does not end the process.
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    let host = Host::try_start(command).ok().unwrap();
    let longest_file = |bytes: &str| {
        let limit = format!("--fsize={bytes}:unlimited");
        let pid = host.pid().to_string();
        assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
    };
    let before = submit(&host, "/it/jobs", &[("x-modelhost-job-delay", "3s")], "sleep:1");
    let running = submit(&host, "/it/jobs", &[], "sleep:1000");
    until(&host, "it", &running, "running");
    longest_file("4096");
    let body = format!("stat:{}", "x".repeat(3 << 20));
    let mut refused = host.post("/it/jobs", &body);
    wait_until("the disk to be full", || {
        refused = host.post("/it/jobs", &body);
        refused.status == 503
    });
    refused.error(503, "jobs_unavailable", "admit");
    let full = "modelhost_requests_total{endpoint=\"it\",outcome=\"jobs_unavailable\"}";
    assert!(host.metric(full) >= 1.0);
    assert_eq!(host.post("/it", "sleep:1").status, 200);
    wait_until("the running job to end", || {
        host.metrics().contains("modelhost_job_attempts_total{endpoint=\"it\",outcome=\"completed\"} 1")
    });
    longest_file("unlimited");
    assert_eq!(look(&host, "it", &before)["id"], *before, "reads need no write first");
    wait_until("jobs to be stored again", || host.post("/it/jobs", "sleep:1").status == 202);
    for id in [&running, &before] {
        assert_eq!(until(&host, "it", id, "completed")["attempt"], 1);
    }
    host.wait_for_log("jobs could not be written");
}

#[test]
fn a_drain_waits_for_jobs_that_run_and_leaves_the_others_to_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let setup = stored(folder.path(), [worker("it").limits("job_concurrency = 1")]);
    let host = setup.serve();
    let (first, second) =
        (submit(&host, "/it/jobs", &[], "sleep:800"), submit(&host, "/it/jobs", &[], "sleep:1"));
    until(&host, "it", &first, "running");
    host.signal("TERM");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
    let host = setup.clone().arguments(&["--drain-timeout", "100ms"]).serve();
    assert_eq!(look(&host, "it", &first)["state"], "completed", "before the stop");
    until(&host, "it", &second, "completed");

    // One that takes longer than the drain is queued again; the attempt does not count.
    let long = submit(&host, "/it/jobs", &[], "sleep:1500");
    until(&host, "it", &long, "running");
    host.signal("TERM");
    host.wait();
    let host = setup.serve();
    let job = until(&host, "it", &long, "completed");
    assert_eq!((&job["attempt"], &job["error"]), (&json!(1), &Value::Null));
}

#[test]
fn a_swap_and_a_changed_endpoint_cut_no_job() {
    let folder = tempfile::tempdir().unwrap();
    let handler = folder.path().join("handler.wasm");
    fs::write(&handler, fs::read(component("tests/files")).unwrap()).unwrap();
    let config = folder.path().join("c.toml");
    let write = |more: &str| {
        let limits = format!("pre_timeout = '60s', wall_timeout = '60s', job_concurrency = 1{more}");
        let it = Endpoint::new("it").plugin(&handler).set("jobs = 'on'").limits(&limits);
        fs::write(&config, stored(folder.path(), [it]).text()).unwrap();
    };
    write("");
    let host = Host::serve(&["--config", config.to_str().unwrap()]);
    let before = submit(&host, "/it/jobs", &[], "sleep:1500");
    until(&host, "it", &before, "running");
    replace(&handler, &version("tests/files", 1));
    wait_until("the swap", || host.endpoint("it")["generation"] == 2);
    assert_eq!(look(&host, "it", &before)["state"], "running");
    let job = until(&host, "it", &before, "completed");
    assert_eq!(job["attempt"], 1);
    let digest = |id: &str| result(&host, "it", id).header("x-handler-digest").unwrap().to_owned();
    let after = submit(&host, "/it/jobs", &[], "sleep:1");
    until(&host, "it", &after, "completed");
    assert_ne!(digest(&before), digest(&after), "each ran on the handler that it began on");

    // The endpoint itself is another one now: what ran on it ends on it, what waits runs on the new one.
    let (running, waiting) =
        (submit(&host, "/it/jobs", &[], "sleep:1500"), submit(&host, "/it/jobs", &[], "sleep:2"));
    until(&host, "it", &running, "running");
    write(", job_attempts = 7");
    host.signal("HUP");
    wait_until("the new endpoint", || {
        let id = submit(&host, "/it/jobs", &[], "sleep:3");
        look(&host, "it", &id)["attempts"] == 7
    });
    assert_eq!(look(&host, "it", &running)["attempt"], 1);
    for id in [&running, &waiting] {
        assert_eq!(until(&host, "it", id, "completed")["attempt"], 1);
    }
}

#[test]
fn jobs_are_behind_the_endpoints_keys() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    fs::write(&keys, "k3y-of-the-endpoint").unwrap();
    let it = worker("it").set(format!("keys = ['@{}']", keys.display()));
    let host = stored(folder.path(), [it]).serve();
    let key = [("authorization", "Bearer k3y-of-the-endpoint")];
    let id = submit(&host, "/it/jobs", &key, "sleep:1");
    let own = format!("/it/jobs/{id}");
    wait_until("it to be run, without a key", || {
        host.request("GET", &own, &key, b"").json()["state"] == "completed"
    });
    let result = format!("{own}/result");
    for (method, path) in
        [("POST", "/it/jobs"), ("GET", "/it/jobs"), ("GET", &own), ("GET", &result), ("DELETE", &own)]
    {
        let reply = host.request(method, path, &[], b"");
        reply.error(401, "unauthorized", "admit");
        assert!(!reply.text().contains(&id), "{method} {path}");
        let wrong = [("authorization", "Bearer another")];
        assert_eq!(host.request(method, path, &wrong, b"").status, 401, "{method} {path}");
        if method != "POST" {
            assert_eq!(host.request(method, path, &key, b"").status, 200, "{method} {path}");
        }
    }
    let kept = fs::read(folder.path().join("jobs.redb")).unwrap();
    assert!(!kept.windows(19).any(|bytes| bytes == b"k3y-of-the-endpoint"), "a key is on the disk");
}

#[test]
fn ids_headers_queries_and_paths_of_all_kinds_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let app = Endpoint::new("app").guest("responder").set("jobs = 'on'");
    let host = stored(folder.path(), [worker("it"), worker("other"), app]).serve();
    let known = submit(&host, "/it/jobs", &[], "sleep:1");
    let long = "a".repeat(10_000);
    for id in ["x", "..", "%2e%2e", "%00", &known.to_uppercase(), &known[..35], &long, &format!("{known}%20")]
    {
        for (method, tail) in [("GET", ""), ("GET", "/result"), ("DELETE", "")] {
            let reply = host.request(method, &format!("/it/jobs/{id}{tail}"), &[], b"");
            assert_eq!(reply.status, 404, "{method} {id}{tail}: {}", reply.text());
        }
    }
    host.get(&format!("/other/jobs/{known}")).error(404, "not_found", "admit");
    host.get(&format!("/it/jobs/{known}/other")).error(404, "not_found", "admit");
    host.post("/it/jobs/below", "sleep:1").error(405, "method_not_allowed", "admit");
    host.post("/it/jobs/far/below", "sleep:1").error(404, "not_found", "admit");
    for (name, value) in [
        ("idempotency-key", ""),
        ("idempotency-key", "a b"),
        ("idempotency-key", &"k".repeat(256)),
        ("x-modelhost-job-priority", "3"),
        ("x-modelhost-job-priority", "-1"),
        ("x-modelhost-job-attempts", "0"),
        ("x-modelhost-job-attempts", "4"),
        ("x-modelhost-job-delay", "31d"),
        ("x-modelhost-job-delay", "soon"),
        ("x-modelhost-job-delay", "0"),
        ("x-modelhost-job-wait", "99999999999999999999y"),
        ("x-modelhost-job-webhook", "no url"),
    ] {
        let reply = host.request("POST", "/it/jobs", &[(name, value)], b"sleep:1");
        let text = reply.error(400, "invalid_input", "admit");
        assert!(text.starts_with(&format!("the header `{name}` is not ")), "{text}");
    }
    let values =
        ["limit=0", "limit=1001", "limit=x", "after=x", "state=done", "webhook=done", "after=../../x"];
    for query in values.into_iter().chain(["status=failed", "limit"]) {
        host.get(&format!("/it/jobs?{query}")).error(400, "invalid_input", "admit");
    }
    let unknown = "01936c1e-2f6b-7abc-8def-0123456789ab";
    assert_eq!(host.get(&format!("/it/jobs?after={unknown}")).status, 200);
    for (method, path, allow) in [
        ("PUT", "/it/jobs", "GET, HEAD, OPTIONS, POST"),
        ("PATCH", "/it/jobs/x", "DELETE, GET, HEAD, OPTIONS"),
    ] {
        let reply = host.request(method, path, &[], b"");
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{method} {path}");
        let reply = host.request("OPTIONS", path, &[], b"");
        assert_eq!((reply.status, reply.header("access-control-allow-methods")), (204, Some(allow)));
    }
    // A body of bytes that are no text, and one that is packed.
    let id = submit(&host, "/app/jobs/echo", &[("content-type", "application/octet-stream")], "\u{0}\u{1}é");
    until(&host, "app", &id, "completed");
    assert_eq!(result(&host, "app", &id).text(), "\u{0}\u{1}é");
    let reply = host.request("POST", "/it/jobs", &[("content-encoding", "compress")], b"x");
    assert_eq!(reply.status, 415, "{}", reply.text());
    assert_eq!(host.get("/it/jobs").json()["jobs"].as_array().unwrap().len(), 1, "nothing of it is a job");
}

#[test]
fn a_store_that_cannot_be_used_is_refused_at_the_start_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let setup = stored(folder.path(), [worker("it")]);
    let host = setup.serve();
    let config = folder.path().join("c.toml");
    let refused = |setup: &Setup| {
        fs::write(&config, setup.text()).unwrap();
        Host::try_serve(&["--config", config.to_str().unwrap()]).err().unwrap().1
    };
    let log = refused(&setup);
    assert!(log.contains("hint: another process has it open"), "{log}");
    drop(host);
    let log = refused(&Setup::of([worker("it")]));
    assert!(log.contains("endpoint `it` has jobs, and there is no store for them; hint: give"), "{log}");
    fs::write(folder.path().join("jobs.redb"), "no store of jobs").unwrap();
    let log = refused(&setup);
    assert!(log.contains("cannot use the store"), "{log}");
}
