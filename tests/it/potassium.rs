//! Potassium's contract: handlers by path, warm-up, status, request ids; and banana's own SDK against it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, clients, component, wait_until};
use serde_json::{Value, json};

/// Potassium's app, a path for each of its handlers.
fn app() -> Host {
    let endpoint =
        |(name, path): (&str, &str)| Endpoint::new(name).guest("potassium").set(format!("path = '{path}'"));
    let handlers = [
        ("hello", "/"),
        ("count", "/count"),
        ("headers", "/some_headers_request"),
        ("binary", "/some_binary_response"),
    ];
    Setup::of(handlers.map(endpoint)).serve()
}

fn status(host: &Host) -> Value {
    host.get("/_k/status").json()
}

#[test]
fn handlers() {
    let host = app();
    let hello = |headers: &[(&str, &str)], body: &str| {
        let json = [("content-type", "application/json")];
        host.request("POST", "/", &[&json, headers].concat(), body.as_bytes())
    };
    // P1
    let reply = hello(&[("X-Banana-Request-Id", "r1")], r#"{"a":1}"#);
    assert_eq!((reply.status, reply.header("x-a")), (201, Some("b")));
    assert_eq!(reply.json(), json!({ "echo": { "a": 1 }, "hello": "world", "id": "r1" }));
    assert_eq!((reply.header("x-request-id"), reply.header("x-banana-request-id")), (Some("r1"), Some("r1")));
    // P2
    let reply = hello(&[], "{}");
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert!(id.len() == 36 && id.as_bytes()[14] == b'4', "{id} is no uuid4");
    assert_eq!(reply.header("x-banana-request-id"), None);
    // P3
    let counts: Vec<Value> = (0..3).map(|_| host.post("/count", "{}").json()["n"].take()).collect();
    assert_eq!(counts, [1, 2, 3]);
    // P4; ours: an error in JSON, and JSON without a content type is JSON.
    for body in ["{bad", ""] {
        let reply = hello(&[("x-banana-request-id", "r4")], body);
        reply.error(400, "invalid_input", "pre_inference");
        assert_eq!(reply.header("x-banana-request-id"), Some("r4"));
    }
    assert_eq!(host.request("POST", "/", &[], b"[1]").status, 201);
    // P5
    assert_eq!(hello(&[], "[1,2]").json()["echo"], json!([1, 2]));
    // P6; ours: an endpoint describes itself.
    assert!(host.get("/").json()["message"].is_string());
    host.request("PUT", "/", &[], b"").error(405, "method_not_allowed", "admit");
    // P7
    host.post("/nope", "{}").error(404, "not_found", "admit");
    assert_eq!(hello(&[], "{}").status, 201);
    // P25
    let headers = [("A", "a"), ("B", "b"), ("X-Banana-Request-ID", "123")];
    let reply = host.request("POST", "/some_headers_request", &headers, b"{}");
    let found = ["a", "b", "x-banana-request-id"].map(|name| reply.header(name).unwrap_or_default());
    assert_eq!((reply.status, found), (200, ["a", "b", "123"]));
    assert_eq!(reply.json(), json!({ "hello": "some_headers_request", "id": "123" }));
    // P26
    let reply = host.post("/some_binary_response", "{}");
    assert_eq!(
        (reply.header("content-type"), reply.text().as_str()),
        (Some("application/octet-stream"), "hello")
    );
}

#[test]
fn warm_up() {
    let host = app();
    // P15
    for method in ["POST", "GET"] {
        let reply = host.request(method, "/_k/warmup", &[], b"");
        assert_eq!((reply.status, reply.json()), (200, json!({ "warm": true })), "{method}");
    }
    host.request("PUT", "/_k/warmup", &[], b"").error(405, "method_not_allowed", "admit");
}

#[test]
fn calls_are_counted() {
    let host = app();
    assert_eq!(status(&host)["sequence_number"], 0);
    // P17: whatever becomes of it.
    for (path, body, expected) in [
        ("/", "{}", 201),
        ("/nope", "{}", 404),
        ("/", "{bad", 400),
        ("/_k/warmup", "{}", 200),
        ("/_k/status", "", 405),
    ] {
        let before = status(&host)["sequence_number"].as_u64().unwrap();
        assert_eq!(host.post(path, body).status, expected);
        assert_eq!(status(&host)["sequence_number"], before + 1, "{path}");
    }
    // To look is no call.
    assert_eq!(host.get("/__status__").json()["sequence_number"], 5);
}

#[test]
fn a_busy_server_says_so() {
    let host = Host::with(
        Some(&component("tests/files")),
        None,
        &["--name", "door", "--concurrency", "1", "--pre-timeout", "60s", "--request-timeout", "60s"],
    );
    // P16
    let idle = status(&host);
    assert_eq!((&idle["gpu_available"], &idle["inference_time"]), (&json!(true), &json!(0)));
    wait_until("some time without a call", || status(&host)["idle_time"].as_u64() > Some(20));
    let mut slow = Wire::connect(&host.url).unwrap();
    slow.send(&wire::post("/door", &[], "sleep:2000")).unwrap();
    wait_until("the only place to be taken", || status(&host)["gpu_available"] == false);
    let first = status(&host)["inference_time"].as_u64().unwrap();
    wait_until("the call to grow older", || status(&host)["inference_time"].as_u64() > Some(first + 50));
    let busy = host.get("/__status__").json();
    assert_eq!((&busy["idle_time"], &busy["sequence_number"]), (&json!(0), &json!(1)));
    // A younger call that waits does not make the oldest younger; when it hangs up, it is not there any more.
    let mut waiting = Wire::connect(&host.url).unwrap();
    waiting.send(&wire::post("/door", &[], "sleep:1")).unwrap();
    wait_until("the second call", || status(&host)["sequence_number"] == 2);
    assert!(status(&host)["inference_time"].as_u64() > Some(first + 50));
    drop(waiting);
    assert_eq!(slow.read().unwrap().status, 200);
    wait_until("nothing to do", || status(&host)["inference_time"] == 0);
    let idle = status(&host);
    assert_eq!((&idle["gpu_available"], &idle["sequence_number"]), (&json!(true), &json!(2)));
    assert!(idle["idle_time"].as_u64() < Some(2000), "{idle}");
    // A client that goes away leaves nothing behind either.
    let mut gone = Wire::connect(&host.url).unwrap();
    gone.send(&wire::post("/door", &[], "sleep:60000")).unwrap();
    wait_until("the third call", || status(&host)["gpu_available"] == false);
    drop(gone);
    wait_until("its place to be free", || {
        let status = status(&host);
        status["gpu_available"] == true && status["inference_time"] == 0
    });
}

/// What `tests/clients/banana.py` printed: the SDK's own words, and the answer.
fn banana(host: &Host, route: &str, what: &str) -> (String, Value) {
    let output = clients::run("banana", &[&host.url, route, what]);
    let (words, answer) = output.trim_end().rsplit_once('\n').unwrap_or(("", output.trim_end()));
    (words.to_owned(), serde_json::from_str(answer).expect(answer))
}

#[test]
fn bananas_own_sdk() {
    let host = app();
    let (words, answer) = banana(&host, "/?ok", "call");
    assert_eq!((words.as_str(), &answer["answer"]["echo"]), ("", &json!({ "a": 1 })));
    // The SDK made it.
    assert_eq!(answer["id"], answer["answer"]["id"]);
    assert_eq!(banana(&host, "/", "warmup").1["answer"], json!({ "warm": true }));
}

struct LetGo<'a>(&'a AtomicBool);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn bananas_own_sdk_comes_back_to_a_full_server() {
    let host = Host::with(
        Some(&component("tests/potassium")),
        None,
        &[
            "--name",
            "hello",
            "--concurrency",
            "1",
            "--queue",
            "0",
            "--log-level",
            "debug",
            "--post-timeout",
            "30s",
        ],
    );
    // P24: slow calls hold the only place, until the SDK was refused.
    let refused = || host.metric(r#"modelhost_requests_total{endpoint="hello",outcome="overloaded"}"#);
    let held = AtomicBool::new(true);
    let hold = || {
        let mut holder = Wire::connect(&host.url).unwrap();
        while held.load(Ordering::SeqCst) {
            holder.send(&wire::post("/hello?slow", &[], "{}")).unwrap();
            // Refused while one of the calls below has the place.
            let status = holder.read().unwrap().status;
            assert!([201, 503].contains(&status), "{status}");
        }
    };
    let client = thread::scope(|scope| {
        scope.spawn(hold);
        // Whatever fails below, the scope comes to its end.
        let _let_go = LetGo(&held);
        wait_until("the place to be taken", || host.post("/hello?ok", "{}").status == 503);
        let before = refused();
        let url = host.url.clone();
        let client = thread::spawn(move || clients::run("banana", &[&url, "/hello?ok", "patient"]));
        wait_until("the SDK to be refused", || refused() > before);
        client
    });
    let output = client.join().unwrap();
    assert!(output.contains("Status code: 503") && output.contains("Retrying..."), "{output}");
    let answer: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    // One id for every attempt: the refusals are in the log under it.
    let id = answer["id"].as_str().unwrap();
    let refusal = |line: &str| line.contains(id) && line.contains("overloaded");
    wait_until("the refusal in the log", || host.log().lines().any(refusal));
}
