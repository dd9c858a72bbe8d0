//! Webhooks of jobs: signed, sent again, dead letters, past kills, and beside receivers that mean harm.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, wait_until};
use serde_json::{Value, json};

use super::{look, result, stored, submit, until, worker};
use crate::webhooks::{BUSY, GONE, OK, Receiver, SECRET, assert_signed};

/// Endpoints that may send webhooks anywhere on this machine, with `limits` of their own.
fn with(folder: &Path, endpoint: Endpoint, places: &[&str]) -> Setup {
    let secrets = folder.join("secrets");
    fs::write(&secrets, SECRET).unwrap();
    let own = format!("allow_outbound = {places:?}\nwebhook_secrets = ['@{}']", secrets.display());
    stored(folder, [endpoint.set(own)])
}

fn to(host: &Host, url: &str, body: &str) -> String {
    submit(host, "/it/jobs", &[("x-modelhost-job-webhook", url)], body)
}

/// Waits until a job's webhook is in this state, and gives it.
fn until_webhook(host: &Host, id: &str, state: &str) -> Value {
    let mut webhook = Value::Null;
    wait_until(&format!("the webhook of {id} to be {state}"), || {
        webhook = look(host, "it", id)["webhook"].take();
        webhook["state"] == state
    });
    webhook
}

/// A receiver that does this with each connection; gives its URL.
fn hostile(act: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || act(stream.unwrap()));
        }
    });
    url
}

fn read_some(mut stream: &TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
}

#[test]
fn a_result_is_sent_signed_and_again_until_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&[BUSY, "", OK]);
    let it = worker("it").limits("job_timeout = '3s', job_attempts = 1");
    let host = with(folder.path(), it, &[&receiver.url]).serve();
    let url = format!("{}/done?token=abc", receiver.url);
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("x-modelhost-job-webhook", &*url), ("traceparent", context), ("tracestate", "a=1")];
    let id = submit(&host, "/it/jobs", &headers, "sleep:20");
    let pending = || host.metric("modelhost_job_webhooks_pending{endpoint=\"it\"}");
    assert_eq!(pending(), 0.0);
    receiver.wait_for(1);
    wait_until("the message to be one that waits", || pending() == 1.0);
    let requests = receiver.wait_for(3);
    for request in &requests {
        assert_eq!(request.line, "POST /done?token=abc HTTP/1.1");
        assert_eq!(
            (request.header("webhook-id"), request.header("content-type")),
            (&*id, "application/json")
        );
        assert_signed(request);
        assert_eq!((request.header("traceparent"), request.header("tracestate")), (context, "a=1"));
        assert_eq!(request.body, requests[0].body, "one message, however often it is sent");
    }
    let pauses = [requests[1].arrived - requests[0].arrived, requests[2].arrived - requests[1].arrived];
    assert!(
        pauses[0] >= Duration::from_millis(700) && pauses[1] >= Duration::from_millis(1400),
        "{pauses:?}"
    );
    let message: Value = serde_json::from_slice(&requests[0].body).unwrap();
    let job = look(&host, "it", &id);
    assert_eq!((&message["type"], &message["timestamp"]), (&json!("job.completed"), &job["changed"]));
    let data = &message["data"];
    assert_eq!(
        (&data["id"], &data["state"], &data["result"]),
        (&json!(id), &json!("completed"), &job["result"])
    );
    let answer = json!({"status": 200, "content_type": "application/json", "size": 11, "body": {"ok": null}});
    assert_eq!(data["answer"], answer);
    let webhook = until_webhook(&host, &id, "delivered");
    wait_until("no message to wait", || pending() == 0.0);
    let shown = json!({"url": format!("{}/done", receiver.url), "state": "delivered", "attempts": 3});
    assert_eq!(webhook, shown, "what may be a secret in a URL is not shown");
    for (outcome, expected) in [("delivered", 1.0), ("failed", 2.0)] {
        let series = format!("modelhost_job_webhooks_total{{endpoint=\"it\",outcome=\"{outcome}\"}}");
        assert_eq!(host.metric(&series), expected, "{outcome}");
    }
    assert!(!host.log().contains("dGVsbCBub2JvZHk") && !host.log().contains("token=abc"));

    // A failure is told as well, what is cancelled is not.
    let failing = to(&host, &receiver.url, "sleep:50000");
    let message: Value = serde_json::from_slice(&receiver.wait_for(4)[3].body).unwrap();
    assert_eq!((&message["type"], &message["data"]["id"]), (&json!("job.failed"), &json!(failing)));
    let slow = to(&host, &receiver.url, "sleep:50000");
    assert_eq!(look(&host, "it", &slow)["webhook"]["state"], "waiting");
    host.request("DELETE", &format!("/it/jobs/{slow}"), &[], b"");
    assert_eq!(look(&host, "it", &slow)["webhook"]["state"], "cancelled");
    let last = to(&host, &receiver.url, "sleep:1");
    until_webhook(&host, &last, "delivered");
    assert_eq!(receiver.seen().len(), 5);
}

#[test]
fn what_is_not_taken_is_a_dead_letter_that_can_be_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let (busy, gone) = (Receiver::start(&[BUSY, BUSY, OK]), Receiver::start(&[GONE]));
    let it = worker("it").limits("webhook_attempts = 2, job_keep = '2s'");
    let host = with(folder.path(), it, &[&busy.url, &gone.url]).serve();
    let (first, second) = (to(&host, &busy.url, "sleep:1"), to(&host, &gone.url, "sleep:1"));
    let webhook = until_webhook(&host, &first, "failed");
    assert_eq!((&webhook["attempts"], &webhook["error"]), (&json!(2), &json!("the receiver answered 503")));
    assert_eq!(until_webhook(&host, &second, "failed")["attempts"], 1, "it wants no more");
    let dead: BTreeSet<String> = host.get("/it/jobs?webhook=failed").json()["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(dead, BTreeSet::from([first.clone(), second]));
    assert_eq!(host.metric("modelhost_job_webhooks_total{endpoint=\"it\",outcome=\"dead\"}"), 2.0);
    host.wait_for_log("a webhook was not delivered, and is a dead letter now");

    let again = |id: &str| host.request("POST", &format!("/it/jobs/{id}/webhook"), &[], b"");
    let reply = again(&first);
    assert_eq!((reply.status, &reply.json()["webhook"]["state"]), (202, &json!("pending")));
    until_webhook(&host, &first, "delivered");
    assert_eq!(busy.seen()[2].body, busy.seen()[0].body);
    let without = submit(&host, "/it/jobs", &[], "sleep:1");
    until(&host, "it", &without, "completed");
    let text = again(&without).error(400, "invalid_input", "admit");
    assert!(text.starts_with("the job has no webhook that could be sent again"), "{text}");
    again("01936c1e-2f6b-7abc-8def-0123456789ab").error(404, "not_found", "admit");
    // Kept from its delivery on, then gone.
    wait_until("it to be gone", || host.get(&format!("/it/jobs/{first}")).status == 404);
}

#[test]
fn no_webhook_goes_where_the_operator_lets_none() {
    let folder = tempfile::tempdir().unwrap();
    let host =
        with(folder.path(), worker("it"), &["http://127.0.0.1:9", "https://hooks.example.com"]).serve();
    let long = format!("https://hooks.example.com/{}", "x".repeat(2048));
    for (url, why) in [
        ("http://127.0.0.1:10/x", "names a place that is not on the endpoint's list `allow_outbound`"),
        (
            "http://169.254.169.254/latest",
            "names a place that is not on the endpoint's list `allow_outbound`",
        ),
        ("http://hooks.example.com", "names a place that is not on the endpoint's list `allow_outbound`"),
        ("http://me:secret@127.0.0.1:9", "is not a URL such as"),
        ("file:///etc/passwd", "is not a URL such as"),
        (&long, "is longer than 2048 bytes"),
        ("", "is not a URL such as"),
    ] {
        let reply = host.request("POST", "/it/jobs", &[("x-modelhost-job-webhook", url)], b"sleep:1");
        let text = reply.error(400, "invalid_input", "admit");
        assert!(text.starts_with(&format!("the header `x-modelhost-job-webhook` {why}")), "{url}: {text}");
    }
    // Nothing answers there; the job is none the worse for it.
    let id = to(&host, "http://127.0.0.1:9", "sleep:1");
    assert_eq!(result(&host, "it", &id).status / 100, 2);
    wait_until("an attempt", || look(&host, "it", &id)["webhook"]["attempts"] != 0);
    let webhook = look(&host, "it", &id)["webhook"].take();
    assert_eq!((&webhook["state"], &webhook["error"]), (&json!("pending"), &json!("there is no connection")));
    assert!(webhook["due"].is_string(), "{webhook}");
    assert_eq!(look(&host, "it", &id)["state"], "completed");
}

#[test]
fn hostile_receivers_harm_neither_jobs_nor_other_receivers() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&[OK]);
    let forbidden = Receiver::start(&[OK]);
    // It takes connections, and says nothing.
    let silent = hostile(|stream| {
        read_some(&stream);
        thread::sleep(Duration::from_secs(60));
    });
    let endless_head = hostile(|mut stream| {
        read_some(&stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x-more: of it\r\n").is_ok() {}
    });
    let endless_body = hostile(|mut stream| {
        read_some(&stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        while stream.write_all(b"4\r\nmore\r\n").is_ok() {}
    });
    let garbage = hostile(|mut stream| {
        read_some(&stream);
        let _ = stream.write_all(&[0xff; 4096]);
    });
    let redirect = format!("HTTP/1.1 307 Go\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", forbidden.url);
    let redirect = Receiver::start(Box::leak(Box::new([&*Box::leak(redirect.into_boxed_str())])));
    let places = [&receiver.url, &silent, &endless_head, &endless_body, &garbage, &redirect.url];
    let places = places.map(String::as_str);
    let it = worker("it").limits("webhook_timeout = '3s', webhook_attempts = 1");
    let host = with(folder.path(), it, &places).serve();
    // Far more than may be under way wait for the one that says nothing.
    let waiting: Vec<String> = (0..40).map(|_| to(&host, &silent, "sleep:1")).collect();
    waiting.iter().for_each(|id| drop(until(&host, "it", id, "completed")));
    let begun = Instant::now();
    let id = to(&host, &receiver.url, "sleep:1");
    until_webhook(&host, &id, "delivered");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for (url, state, error) in [
        (&endless_head, "failed", json!("the connection has failed")),
        (&endless_body, "delivered", Value::Null),
        (&garbage, "failed", json!("the connection has failed")),
        (&redirect.url, "failed", json!("the receiver answered 307")),
    ] {
        let id = to(&host, url, "sleep:1");
        assert_eq!(until_webhook(&host, &id, state)["error"], error, "{url}");
    }
    assert_eq!(until_webhook(&host, &waiting[0], "failed")["error"], "it took too long");
    assert_eq!((forbidden.seen().len(), receiver.seen().len()), (0, 1));
    let open = silent.strip_prefix("http://").unwrap().to_owned();
    assert!(TcpStream::connect(open).is_ok());
}

/// The process is killed while webhooks are sent: each job that was acknowledged is told of, by the same id.
#[test]
fn webhooks_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&[BUSY, OK, "", OK, BUSY, OK]);
    let setup = with(folder.path(), worker("it").limits("job_attempts = 50"), &[&receiver.url]);
    let mut ids = BTreeSet::new();
    for round in 1..=3 {
        let host = setup.serve();
        ids.extend((0..10).map(|_| to(&host, &receiver.url, "sleep:5")));
        wait_until("webhooks", || receiver.seen().len() >= 5 * round);
        host.signal("KILL");
        host.wait();
    }
    let host = setup.serve();
    for id in &ids {
        assert_eq!(until_webhook(&host, id, "delivered")["state"], "delivered");
        assert_eq!(look(&host, "it", id)["state"], "completed");
    }
    let told: BTreeSet<String> =
        receiver.seen().iter().map(|request| request.header("webhook-id").to_owned()).collect();
    assert_eq!(told, ids);
}

#[test]
fn a_changed_endpoint_and_a_drain_send_on() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&[BUSY, BUSY, OK]);
    let config = folder.path().join("c.toml");
    let write = |more: &str| {
        let it = worker("it").limits(more);
        fs::write(&config, with(folder.path(), it, &[&receiver.url]).text()).unwrap();
    };
    write("webhook_attempts = 9");
    let host = Host::serve(&["--config", config.to_str().unwrap()]);
    let id = to(&host, &receiver.url, "sleep:1");
    receiver.wait_for(1);
    write("webhook_attempts = 8");
    host.signal("HUP");
    receiver.wait_for(2);
    host.signal("TERM");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
    let host = Host::serve(&["--config", config.to_str().unwrap()]);
    let webhook = until_webhook(&host, &id, "delivered");
    assert_eq!((&webhook["attempts"], receiver.seen().len()), (&json!(3), 3));
}
