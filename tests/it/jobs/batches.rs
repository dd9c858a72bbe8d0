//! Lists of inputs in the form of Cortex's BatchAPI: progress, failures, stops, within limits and past kills.

use e2e::setup::Endpoint;
use e2e::{Host, wait_until};
use serde_json::{Value, json};

use super::{stored, submit, until};

fn batch(name: &str, guest: &str) -> Endpoint {
    Endpoint::new(name).guest(guest).set("jobs = 'batch'")
}

fn list(items: &Value, size: usize) -> Value {
    json!({"workers": 2, "item_list": {"items": items, "batch_size": size}, "config": {"mine": [1]}})
}

fn start(host: &Host, name: &str, submission: &Value) -> String {
    let reply = host.post(&format!("/{name}"), submission.to_string());
    assert_eq!(reply.status, 200, "{}", reply.text());
    let job = reply.json();
    assert_eq!(
        (&job["kind"], &job["api_name"], &job["workers"]),
        (&json!("BatchAPI"), &json!(name), &json!(2))
    );
    assert_eq!(job["config"], json!({"mine": [1]}));
    job["job_id"].as_str().unwrap().to_owned()
}

fn ask(host: &Host, name: &str, id: &str) -> Value {
    let reply = host.get(&format!("/{name}?jobID={id}"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn until_status(host: &Host, name: &str, id: &str, status: &str) -> Value {
    let mut seen = Value::Null;
    wait_until(&format!("batch {id} to be {status}"), || {
        seen = ask(host, name, id);
        seen["job_status"]["status"] == status
    });
    seen
}

fn parts(host: &Host, name: &str, query: &str) -> Vec<Value> {
    host.get(&format!("/{name}/jobs?{query}")).json()["jobs"].as_array().unwrap().clone()
}

#[test]
fn a_list_is_run_part_by_part_and_its_progress_told() {
    let folder = tempfile::tempdir().unwrap();
    let model = Endpoint::new("model").model("iris_dyn").set("jobs = 'batch'");
    let host = stored(folder.path(), [batch("echo", "echo"), model, batch("app", "responder")]).serve();
    let id = start(&host, "echo", &list(&json!([1, {"a": "b"}, [2], null, "x"]), 2));
    let seen = until_status(&host, "echo", &id, "succeeded");
    let (status, metrics) = (&seen["job_status"], &seen["metrics"]);
    for (name, expected) in
        [("job_id", json!(id)), ("total_batch_count", json!(3)), ("batches_in_queue", json!(0))]
    {
        assert_eq!(status[name], expected, "{name}");
    }
    assert!(status["end_time"].as_str() >= status["created_time"].as_str(), "{status}");
    assert_eq!((&metrics["succeeded"], &metrics["failed"]), (&json!(3), &json!(0)));
    assert!(metrics["average_time_per_batch"].is_f64() && seen["endpoint"] == "/echo", "{seen}");
    // Results are kept, in the order of the list.
    let jobs = parts(&host, "echo", &format!("batch={id}"));
    let results: Vec<String> = jobs
        .iter()
        .map(|job| {
            assert_eq!((&job["batch"], &job["priority"]), (&json!(id), &json!(2)));
            host.get(job["result"].as_str().unwrap()).json()["body"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(results, [r#"[1,{"a":"b"}]"#, "[[2],null]", r#"["x"]"#]);
    let after = format!("batch={id}&limit=2&after={}", jobs[0]["id"].as_str().unwrap());
    let ids: Vec<Value> = parts(&host, "echo", &after).iter().map(|job| job["id"].clone()).collect();
    assert_eq!(ids, [jobs[1]["id"].clone(), jobs[2]["id"].clone()]);
    assert_eq!(host.get("/echo").status, 200, "what the endpoint says of itself");

    let flower = json!([5.1, 3.5, 1.4, 0.2]);
    let id = start(&host, "model", &list(&json!([flower, "no flower", flower]), 1));
    let seen = until_status(&host, "model", &id, "completed_with_failures");
    assert_eq!((&seen["metrics"]["succeeded"], &seen["metrics"]["failed"]), (&json!(2), &json!(1)));
    assert_eq!(parts(&host, "model", &format!("batch={id}&state=failed")).len(), 1);

    // An application is told when all have ended, whether it listens or not.
    let id = start(&host, "app", &list(&json!([1]), 1));
    until_status(&host, "app", &id, "completed_with_failures");
    assert!(parts(&host, "app", "limit=9").iter().any(|job| job["path"] == "/on-job-complete"));
    for (body, text) in [
        (json!({"workers": 1}), "the batch has no `item_list`"),
        (json!([]), "the body is no batch: "),
        (json!({"workers": 1, "file_path_lister": {}}), "`file_path_lister` and `delimited_files` are not"),
    ] {
        let answer = host.post("/echo", body.to_string()).error(400, "invalid_input", "admit");
        assert!(answer.starts_with(text), "{body}: {answer}");
    }
    let unknown = "01936c1e-2f6b-7abc-8def-0123456789ab";
    host.get(&format!("/echo?jobID={unknown}")).error(404, "not_found", "admit");
    host.get(&format!("/app?jobID={id}x")).error(404, "not_found", "admit");
}

#[test]
fn a_batch_is_stopped_by_its_client_by_its_time_and_kept_within_limits() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "job_concurrency = 1, job_queue = 20, pre_timeout = '60s', wall_timeout = '60s'";
    let host = stored(folder.path(), [batch("slow", "files").limits(limits), batch("echo", "echo")]).serve();
    let running = submit(&host, "/slow/jobs", &[], "sleep:6000");
    until(&host, "slow", &running, "running");
    let id = start(&host, "slow", &list(&json!([1, 2, 3]), 1));
    let seen = ask(&host, "slow", &id);
    assert_eq!(
        (&seen["job_status"]["status"], &seen["job_status"]["batches_in_queue"]),
        (&json!("running"), &json!(3))
    );
    // All of a list, or nothing of it.
    let reply = host.post("/slow", list(&json!(vec![0; 18]), 1).to_string());
    let text = reply.error(503, "jobs_full", "admit");
    assert_eq!(text, "more than 20 jobs would not be finished with these 18, `limits.job_queue`");
    let other = start(&host, "echo", &list(&json!([1]), 1));
    until_status(&host, "echo", &other, "succeeded");

    let stop = || host.request("DELETE", &format!("/slow?jobID={id}"), &[], b"").json();
    assert_eq!(stop(), json!({"message": format!("stopped job {id}")}));
    let seen = until_status(&host, "slow", &id, "stopped");
    assert_eq!(seen["job_status"]["batches_in_queue"], 0);
    assert_eq!(parts(&host, "slow", &format!("batch={id}&state=cancelled")).len(), 3);
    let mut brief = list(&json!([1, 2]), 1);
    brief["timeout"] = json!(1);
    let brief = start(&host, "slow", &brief);
    until_status(&host, "slow", &brief, "timed_out");
    until(&host, "slow", &running, "completed");
    stop();
    until_status(&host, "slow", &id, "stopped");
    // What runs is stopped as well, and its place is free.
    let next = submit(&host, "/slow/jobs", &[], "sleep:1");
    until(&host, "slow", &next, "completed");
}

/// The process is killed while a list is run: each part is counted once.
#[test]
fn a_batch_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let setup = stored(folder.path(), [batch("echo", "echo").limits("job_attempts = 50")]);
    let mut host = setup.serve();
    let items: Vec<u32> = (0..300).collect();
    let id = start(&host, "echo", &list(&json!(items), 1));
    for round in 1..=2 {
        wait_until("progress", || {
            ask(&host, "echo", &id)["metrics"]["succeeded"].as_u64().unwrap() >= 30 * round
        });
        host.signal("KILL");
        host.wait();
        host = setup.serve();
    }
    let seen = until_status(&host, "echo", &id, "succeeded");
    assert_eq!((&seen["metrics"]["succeeded"], &seen["metrics"]["failed"]), (&json!(300), &json!(0)));
}
