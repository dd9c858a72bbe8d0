//! Jobs: stored before they are acknowledged, run when there is a place, within limits, past kills, swaps and drains.

mod batches;
mod caller;
mod ends;
mod handler;
mod redis;
mod truss;
mod webhooks;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e2e::load::{Pattern, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, agent, try_request, wait_until};
use serde_json::{Value, json};

/// An endpoint with jobs whose handler does what the body says, such as `sleep:100`.
fn worker(name: &str) -> Endpoint {
    Endpoint::new(name).guest("files").set("jobs = 'on'").limits("pre_timeout = '60s', wall_timeout = '60s'")
}

/// These endpoints, with a store of jobs in the folder.
fn stored(folder: &Path, endpoints: impl IntoIterator<Item = Endpoint>) -> Setup {
    Setup::of(endpoints).tables(format!("[jobs]\nstore = {:?}", folder.join("jobs.redb")))
}

/// Submits a job; gives its id.
fn submit(host: &Host, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let reply = host.request("POST", path, headers, body.as_bytes());
    assert_eq!(reply.status, 202, "{}", reply.text());
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    let own = path.split("/jobs").next().unwrap().split('?').next().unwrap();
    assert_eq!(reply.header("location"), Some(&*format!("{own}/jobs/{id}")));
    id
}

fn look(host: &Host, name: &str, id: &str) -> Value {
    let reply = host.get(&format!("/{name}/jobs/{id}"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Waits until a job is in this state, and gives it.
fn until(host: &Host, name: &str, id: &str, state: &str) -> Value {
    let mut job = Value::Null;
    wait_until(&format!("job {id} to be {state}"), || {
        job = look(host, name, id);
        job["state"] == state
    });
    job
}

fn result(host: &Host, name: &str, id: &str) -> Reply {
    host.get(&format!("/{name}/jobs/{id}/result"))
}

#[test]
fn a_job_is_stored_run_and_its_result_is_the_answer_to_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let host = stored(
        folder.path(),
        [
            worker("it"),
            Endpoint::new("echo").guest("echo").set("jobs = 'on'"),
            Endpoint::new("app").guest("responder").set("jobs = 'on'"),
            Endpoint::new("none").guest("echo"),
        ],
    )
    .serve();
    let id = submit(&host, "/it/jobs", &[], "sleep:400");
    let early = result(&host, "it", &id);
    assert_eq!((early.status, early.header("retry-after")), (202, Some("1")));
    assert!(["queued", "running"].contains(&early.header("x-modelhost-job-state").unwrap()));
    let job = until(&host, "it", &id, "completed");
    assert_eq!((&job["attempt"], &job["status"], &job["priority"]), (&json!(1), &json!(200), &json!(1)));
    assert_eq!(job["result"], format!("/it/jobs/{id}/result"));
    let answer = result(&host, "it", &id);
    assert_eq!((answer.status, answer.json()), (200, json!({"ok": null})));
    assert_eq!(answer.header("x-modelhost-job-state"), Some("completed"));
    let head = host.request("HEAD", &format!("/it/jobs/{id}/result"), &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["content-length", "content-type", "x-modelhost-job-state", "x-handler-digest"] {
        assert!(head.header(name).is_some() && head.header(name) == answer.header(name), "{name}");
    }

    // Headers and query come along, credentials and what calls itself a job's do not.
    let headers = [("x-test", "mine"), ("content-type", "text/x"), ("authorization", "Bearer s3cret-key")];
    let id = submit(&host, "/echo/jobs?a=b%20c", &headers, "hello");
    until(&host, "echo", &id, "completed");
    let seen = result(&host, "echo", &id).json();
    let expected = json!({
        "request_id": id, "method": "POST", "path": "/echo", "query": "a=b%20c", "header": "mine",
        "credentials": [null, null], "content_type": "text/x", "body": "hello",
    });
    assert_eq!(seen, expected);
    let kept = std::fs::read(folder.path().join("jobs.redb")).unwrap();
    assert!(!kept.windows(10).any(|bytes| bytes == b"s3cret-key"), "a credential is on the disk");
    assert!(kept.windows(5).any(|bytes| bytes == b"hello"), "that is how it would be found");

    // An application has jobs for each of its paths; an answer of its own that is the caller's fault stands.
    let id = submit(&host, "/app/jobs/echo", &[("content-type", "text/y")], "to the app");
    assert_eq!(until(&host, "app", &id, "completed")["path"], "/echo");
    let answer = result(&host, "app", &id);
    assert_eq!((answer.text(), answer.header("content-type")), ("to the app".to_owned(), Some("text/y")));
    let failed = submit(&host, "/app/jobs/nowhere", &[], "");
    let job = until(&host, "app", &failed, "failed");
    assert_eq!((&job["attempt"], &job["status"]), (&json!(1), &json!(404)));
    assert_eq!(result(&host, "app", &failed).status, 404);
    // Work after the response is part of a job.
    let id = submit(&host, "/app/jobs/later", &[("content-type", "application/json")], "300");
    let begun = Instant::now();
    until(&host, "app", &id, "completed");
    assert!(begun.elapsed() >= Duration::from_millis(250));
    host.wait_for_log("worked for 300 ms");

    let listed = host.get("/app/jobs?limit=2").json();
    assert_eq!((listed["jobs"].as_array().unwrap().len(), listed["next"].is_string()), (2, true));
    let next = host.get(&format!("/app/jobs?limit=2&after={}", listed["next"].as_str().unwrap())).json();
    assert_eq!((next["jobs"].as_array().unwrap().len(), &next["next"]), (1, &Value::Null));
    assert_eq!(host.get("/app/jobs?state=failed").json()["jobs"].as_array().unwrap().len(), 1);
    for (series, expected) in [
        ("modelhost_jobs_submitted_total{endpoint=\"app\",outcome=\"stored\"}", 3.0),
        ("modelhost_jobs_ended_total{endpoint=\"app\",outcome=\"completed\"}", 2.0),
        ("modelhost_jobs_ended_total{endpoint=\"app\",outcome=\"failed\"}", 1.0),
        ("modelhost_jobs_ended_total{endpoint=\"app\",outcome=\"cancelled\"}", 0.0),
        ("modelhost_job_attempts_total{endpoint=\"app\",outcome=\"completed\"}", 2.0),
        ("modelhost_job_attempts_total{endpoint=\"app\",outcome=\"failed\"}", 1.0),
        ("modelhost_jobs{endpoint=\"app\",state=\"queued\"}", 0.0),
        ("modelhost_jobs{endpoint=\"app\",state=\"running\"}", 0.0),
        ("modelhost_jobs_oldest_seconds{endpoint=\"app\"}", 0.0),
    ] {
        // A job's end is seen a moment before it is counted.
        wait_until(&format!("{series} {expected}"), || host.metric(series) == expected);
    }
    let why = format!("is not tried again: the answer has status 404 endpoint=\"app\" job.id=\"{failed}\"");
    host.wait_for_log(&why);
    assert_eq!(host.log().lines().filter(|line| line.contains(&why)).count(), 1, "{}", host.log());
    assert!(!host.metrics().contains("modelhost_jobs{endpoint=\"none\""));
    assert_eq!((host.get("/none/jobs").status, host.post("/none/jobs", "").status), (404, 404));
}

/// Case C30.
#[test]
fn clients_of_cortex_poll_at_the_endpoints_own_path() {
    let folder = tempfile::tempdir().unwrap();
    let host = stored(
        folder.path(),
        [
            Endpoint::new("trap").guest("trap").set("jobs = 'async'").limits("job_attempts = 1"),
            Endpoint::new("slow")
                .guest("files")
                .set("jobs = 'async'")
                .limits("job_concurrency = 1, pre_timeout = '60s', wall_timeout = '60s'"),
        ],
    )
    .serve();
    let headers = [("content-type", "application/json")];
    let submit = |path: &str, body: &str| {
        let reply = host.request("POST", path, &headers, body.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.text());
        let answer = reply.json();
        assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    };
    let ask = |path: &str, id: &str| host.get(&format!("{path}/{id}")).json();
    let (first, second) = (submit("/slow", "sleep:500"), submit("/slow", "sleep:1"));
    wait_until("the first to run", || ask("/slow", &first)["status"] == "in_progress");
    assert_eq!(ask("/slow", &second), json!({"id": second, "status": "in_queue"}));
    wait_until("the second to end", || ask("/slow", &second)["status"] == "completed");
    let done = ask("/slow", &first);
    assert_eq!((&done["status"], &done["result"]), (&json!("completed"), &json!({"ok": null})));
    assert!(done["timestamp"].as_str().unwrap().ends_with('Z'), "{done}");

    let failing = submit("/trap", "panic");
    wait_until("the failure", || ask("/trap", &failing)["status"] == "failed");
    assert_eq!(ask("/trap", &failing), json!({"id": failing, "status": "failed"}));
    for id in ["unknown", &first.replace('-', "_"), "01936c1e-2f6b-7abc-8def-0123456789ab"] {
        let reply = host.get(&format!("/slow/{id}"));
        assert_eq!((reply.status, reply.text()), (404, format!("error: id {id} not found")));
    }
    let reply = host.request("POST", "/slow", &[], b"sleep:1");
    let text = "error: missing Content-Type key in request header";
    assert_eq!((reply.status, reply.text()), (400, text.to_owned()));
    assert_eq!(host.get("/slow").status, 200, "what the endpoint says of itself");
    assert_eq!(look(&host, "slow", &first)["state"], "completed", "the server's own form is there as well");
}

#[test]
fn a_key_makes_two_submissions_one_job() {
    let folder = tempfile::tempdir().unwrap();
    let host = stored(folder.path(), [worker("it"), worker("other")]).serve();
    let key = [("idempotency-key", "order-17")];
    let id = submit(&host, "/it/jobs", &key, "sleep:1");
    assert_eq!(submit(&host, "/it/jobs", &key, "sleep:1"), id);
    until(&host, "it", &id, "completed");
    assert_eq!(submit(&host, "/it/jobs", &key, "sleep:1"), id, "a finished one too");
    for (path, body) in [("/it/jobs", "sleep:2"), ("/it/jobs?x=1", "sleep:1")] {
        let reply = host.request("POST", path, &key, body.as_bytes());
        reply.error(409, "idempotency_conflict", "admit");
    }
    assert_ne!(submit(&host, "/other/jobs", &key, "sleep:1"), id);
    let repeated = "modelhost_jobs_submitted_total{endpoint=\"it\",outcome=\"repeated\"}";
    assert_eq!(host.metric(repeated), 2.0);
    // Of many at once one is stored.
    let ids: Vec<_> = (0..8)
        .map(|_| {
            let url = format!("{}/it/jobs", host.url);
            thread::spawn(move || {
                let key = [("idempotency-key", "at-once")];
                try_request(&agent(), "POST", &url, &key, b"sleep:1").unwrap().json()["id"].clone()
            })
        })
        .collect();
    let ids: Vec<Value> = ids.into_iter().map(|id| id.join().unwrap()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()), "{ids:?}");
}

#[test]
fn urgent_jobs_come_first_delayed_ones_later_and_what_waits_too_long_fails() {
    let folder = tempfile::tempdir().unwrap();
    let host = stored(folder.path(), [worker("it").limits("job_concurrency = 1")]).serve();
    let first = submit(&host, "/it/jobs", &[], "sleep:600");
    until(&host, "it", &first, "running");
    let late = submit(&host, "/it/jobs", &[("x-modelhost-job-wait", "50ms")], "sleep:1");
    let ids = ["2", "1", "0"]
        .map(|priority| submit(&host, "/it/jobs", &[("x-modelhost-job-priority", priority)], "sleep:20"));
    let job = until(&host, "it", &late, "failed");
    assert_eq!((&job["attempt"], &job["error"]), (&json!(0), &json!("the job waited longer than it may")));
    let refused = result(&host, "it", &late).error(404, "not_found", "admit");
    assert_eq!(refused, "the job is failed and has no result: the job waited longer than it may");
    let failed = "modelhost_jobs_ended_total{endpoint=\"it\",outcome=\"failed\"}";
    wait_until("the end to be counted", || host.metric(failed) == 1.0);
    let ended = ids.map(|id| until(&host, "it", &id, "completed")["changed"].as_str().unwrap().to_owned());
    assert!(ended[2] < ended[1] && ended[1] < ended[0], "{ended:?}");

    let begun = Instant::now();
    let id = submit(&host, "/it/jobs", &[("x-modelhost-job-delay", "700ms")], "sleep:1");
    let job = look(&host, "it", &id);
    assert_eq!((&job["state"], job["due"].is_string()), (&json!("queued"), true));
    until(&host, "it", &id, "completed");
    assert!(begun.elapsed() >= Duration::from_millis(690), "{:?}", begun.elapsed());
}

#[test]
fn a_job_is_cancelled_while_it_waits_and_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let host = stored(folder.path(), [worker("it").limits("job_concurrency = 1")]).serve();
    let cancel = |id: &str| host.request("DELETE", &format!("/it/jobs/{id}"), &[], b"");
    let running = submit(&host, "/it/jobs", &[], "sleep:50000");
    until(&host, "it", &running, "running");
    let [waiting, next] = [(); 2].map(|()| submit(&host, "/it/jobs", &[], "sleep:1"));
    for id in [&waiting, &running, &running] {
        let reply = cancel(id);
        assert_eq!((reply.status, &reply.json()["state"]), (200, &json!("cancelled")));
    }
    // Its worker and its place are free.
    until(&host, "it", &next, "completed");
    wait_until("the place", || host.metric("modelhost_requests_in_flight{endpoint=\"it\"}") == 0.0);
    assert_eq!(cancel(&next).json()["state"], "completed", "what is finished stays as it is");
    assert_eq!(look(&host, "it", &waiting)["attempt"], 0);
    result(&host, "it", &running).error(404, "not_found", "admit");
    assert_eq!(host.metric("modelhost_job_attempts_total{endpoint=\"it\",outcome=\"cancelled\"}"), 1.0);
}

#[test]
fn a_failing_job_is_tried_as_often_as_it_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let trap = Endpoint::new("trap").guest("trap").set("jobs = 'on'");
    let slow = worker("slow").limits("job_timeout = '200ms', job_attempts = 1, request_timeout = '100ms'");
    let long = Endpoint::new("long")
        .guest("application")
        .set("jobs = 'on'")
        .limits("output = '64KiB', job_attempts = 1");
    let host = stored(folder.path(), [trap, slow, long]).serve();
    let id = submit(&host, "/trap/jobs", &[("x-modelhost-job-attempts", "2")], "panic");
    let job = until(&host, "trap", &id, "failed");
    let error = "plugin_trap: the handler crashed";
    assert_eq!((&job["attempt"], &job["attempts"], &job["error"]), (&json!(2), &json!(2), &json!(error)));
    assert_eq!(result(&host, "trap", &id).json()["code"], "plugin_trap");
    // A job has a time limit of its own.
    let id = submit(&host, "/slow/jobs", &[], "sleep:150");
    until(&host, "slow", &id, "completed");
    let id = submit(&host, "/slow/jobs", &[], "sleep:50000");
    assert_eq!(until(&host, "slow", &id, "failed")["status"], 504);
    let id = submit(&host, "/long/jobs/stream?events=3&size=10000", &[], "");
    until(&host, "long", &id, "completed");
    let id = submit(&host, "/long/jobs/stream?events=9&size=10000", &[], "");
    let error = "the answer is longer than 65536 bytes, `limits.output`";
    assert_eq!(until(&host, "long", &id, "failed")["error"], error);
}

#[test]
fn limits_end_the_jobs_of_one_endpoint_and_requests_and_a_neighbour_are_unharmed() {
    let folder = tempfile::tempdir().unwrap();
    let full = worker("full").limits("job_concurrency = 1, job_queue = 3, body = '2KiB', concurrency = 2");
    let bytes = worker("bytes").limits("job_bytes = '4KiB'");
    let brief = worker("brief").limits("job_keep = '300ms'");
    let many = worker("many").limits("job_concurrency = 2, concurrency = 3");
    let echo = Endpoint::new("neighbour").guest("echo");
    let host = stored(folder.path(), [full, bytes, brief, many, echo]).serve();
    let load = Pattern::new(&host.url, "/neighbour").start();

    let running = submit(&host, "/full/jobs", &[], "sleep:50000");
    until(&host, "full", &running, "running");
    let waiting = [(); 2].map(|()| submit(&host, "/full/jobs", &[], "sleep:1"));
    let reply = host.post("/full/jobs", "sleep:1");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let text = reply.error(503, "jobs_full", "admit");
    assert_eq!(text, "3 jobs are not finished, and as many are `limits.job_queue`");
    assert_eq!(host.post("/full", "sleep:1").status, 200, "a request has a place beside the job");
    host.post("/full/jobs", "x".repeat(3000)).error(413, "body_too_large", "admit");
    for code in ["jobs_full", "body_too_large"] {
        let series = format!("modelhost_requests_total{{endpoint=\"full\",outcome=\"{code}\"}}");
        assert_eq!(host.metric(&series), 1.0, "{code}");
    }
    assert_eq!(host.request("DELETE", &format!("/full/jobs/{}", waiting[0]), &[], b"").status, 200);
    submit(&host, "/full/jobs", &[], "sleep:1");

    // It waits: what is finished takes less.
    submit(&host, "/bytes/jobs", &[("x-modelhost-job-delay", "1h")], &"x".repeat(2000));
    let text = host.post("/bytes/jobs", "x".repeat(3000)).error(503, "jobs_full", "admit");
    assert_eq!(text, "jobs and results would take more than 4096 bytes, `limits.job_bytes`");

    let id = submit(&host, "/brief/jobs", &[("idempotency-key", "once")], "sleep:1");
    wait_until("it to be gone", || host.get(&format!("/brief/jobs/{id}")).status == 404);
    assert_eq!(host.get("/brief/jobs").json(), json!({"jobs": [], "next": null}));
    assert_ne!(submit(&host, "/brief/jobs", &[("idempotency-key", "once")], "sleep:1"), id);

    // A thousand jobs wait; requests to the same endpoint have their place at once.
    let ids = Arc::new(Mutex::new(Vec::new()));
    let submitters = [(); 4].map(|()| {
        let (url, ids) = (format!("{}/many/jobs", host.url), ids.clone());
        thread::spawn(move || {
            let agent = agent();
            for _ in 0..250 {
                let reply = try_request(&agent, "POST", &url, &[], b"sleep:3").unwrap();
                assert_eq!(reply.status, 202, "{}", reply.text());
                ids.lock().unwrap().push(reply.json()["id"].as_str().unwrap().to_owned());
            }
        })
    });
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(host.post("/many", "sleep:1").status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    let queued = || host.metric("modelhost_jobs{endpoint=\"many\",state=\"queued\"}");
    wait_until("all to be run", || queued() == 0.0);
    let last = ids.lock().unwrap().clone();
    last.iter().step_by(50).for_each(|id| drop(until(&host, "many", id, "completed")));
    assert_echoed(&load.stop(), Duration::from_secs(5));
}
