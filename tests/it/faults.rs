//! What follows when a handler fails: the breaker, the way around the handler, and what every protocol says of a failure.
//!
//! The kinds of faults are in `hostile` and `instances`.

use e2e::load::{Pattern, alone};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::Wire;
use e2e::{Host, Reply, component, oip, request, wait_until};
use serde_json::{Value, json};

fn endpoint(name: &str, guest: &str) -> Endpoint {
    Endpoint::new(name).guest(guest)
}

fn serve(endpoint: Endpoint) -> Host {
    Setup::of([endpoint]).serve()
}

fn metric(host: &Host, name: &str, endpoint: &str) -> f64 {
    host.metric(&format!("modelhost_plugin_{name}{{endpoint=\"{endpoint}\"}}"))
}

const BREAKER: &str = "breaker = { faults = 0.5, min = 4, window = '1m', pause = '300ms' }";

/// One that stays open for as long as a test takes.
fn long_breaker() -> String {
    BREAKER.replace("300ms", "1h")
}

#[test]
fn a_handler_that_keeps_failing_is_left_alone_and_tried_again() {
    let host = serve(endpoint("it", "hostile").set(BREAKER));
    let state = || host.endpoint("it")["breaker"].clone();
    assert_eq!((state(), metric(&host, "breaker_open", "it")), (json!("closed"), 0.0));
    // Errors that a handler may return are no faults, and good answers count.
    for body in ["a", "panic", "b", "panic", "c"] {
        host.post("/", body);
    }
    assert_eq!(state(), "closed", "too few since the first");
    host.post("/", "panic").error(500, "plugin_trap", "pre_inference");
    let refused = host.post("/", "hello");
    let text = refused.error(503, "plugin_unavailable", "admit");
    assert_eq!(
        (refused.header("retry-after"), text.contains("failed too often")),
        (Some("1"), true),
        "{text}"
    );
    assert_eq!((state(), metric(&host, "breaker_open", "it")), (json!("open"), 1.0));
    let digest = host.endpoint("it")["digest"].as_str().unwrap().to_owned();
    assert_eq!(refused.header("x-handler-digest"), Some(&*digest));
    // The first to come after the pause tries, and fails; the pause begins anew.
    wait_until("the pause to be over", || host.post("/", "panic").status == 500);
    host.post("/", "hello").error(503, "plugin_unavailable", "admit");
    wait_until("the handler to work again", || host.post("/", "hello").status == 200);
    assert_eq!((state(), metric(&host, "breaker_open", "it")), (json!("closed"), 0.0));
    assert_eq!(host.post("/", "hello").status, 200);
    assert_eq!(host.metric(r#"modelhost_plugin_faults_total{endpoint="it",kind="trap"}"#), 4.0);
    let refusals = host.metric(r#"modelhost_requests_total{endpoint="it",outcome="plugin_unavailable"}"#);
    assert!(refusals >= 2.0, "{refusals}");
}

#[test]
fn an_open_breaker_refuses_before_the_body_is_read() {
    let host = serve(endpoint("it", "hostile").set(long_breaker()));
    for _ in 0..4 {
        host.post("/", "panic").error(500, "plugin_trap", "pre_inference");
    }
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n").unwrap();
    let refused = wire.read().unwrap();
    refused.error(503, "plugin_unavailable", "admit");
    assert!(refused.header("retry-after").is_some() && refused.header("x-handler-digest").is_some());
}

#[test]
fn without_a_breaker_every_request_is_tried() {
    let host = serve(endpoint("it", "hostile"));
    for _ in 0..30 {
        host.post("/", "panic").error(500, "plugin_trap", "pre_inference");
    }
    assert_eq!((host.post("/", "hello").status, host.endpoint("it")["breaker"].clone()), (200, Value::Null));
}

#[test]
fn the_generation_before_takes_over_from_one_that_fails() {
    let _alone = alone();
    let host = Setup::of([endpoint("it", "echo").set(long_breaker()), endpoint("other", "echo")]).serve();
    let good = host.endpoint("it")["digest"].clone();
    let bad = std::fs::read(component("tests/hostile")).unwrap();
    let url = format!("{}/admin/v1/endpoints/it/plugin", host.admin);
    assert_eq!(request("PUT", &url, &[], &bad).status, 200);
    assert_ne!(host.endpoint("it")["digest"], good);
    let neighbour = Pattern::new(&host.url, "/other").start();
    for _ in 0..4 {
        host.post("/it", "panic").error(500, "plugin_trap", "pre_inference");
    }
    wait_until("the way back", || host.endpoint("it")["digest"] == good);
    assert_eq!(host.post("/it", "panic").json()["body"], "panic", "to the old one it is a word");
    let endpoint = host.endpoint("it");
    assert_eq!((&endpoint["breaker"], &endpoint["previous"]), (&json!("closed"), &Value::Null));
    assert_eq!((&endpoint["last_swap"]["origin"], &endpoint["generation"]), (&json!("breaker"), &json!(3)));
    neighbour.wait_for_more(10);
    for answer in neighbour.stop() {
        answer.ok();
    }
}

/// A candidate is judged by its trial: its failures are no more the breaker's than its good answers.
#[test]
fn errors_of_a_canary_do_not_keep_the_breaker_closed() {
    let host = serve(endpoint("it", "hostile").set(long_breaker()));
    let fail = || host.post("/it", "panic").error(500, "plugin_trap", "pre_inference");
    fail();
    let candidate = format!("{}/admin/v1/endpoints/it/plugin/candidate", host.admin);
    let terms = "mode=canary&share=1&max_faults=1000&min_requests=1000&max_errors=1";
    let failing = std::fs::read(component("tests/trap")).unwrap();
    let begun = request("PUT", &format!("{candidate}?{terms}"), &[], &failing);
    assert_eq!(begun.status, 200, "{}", begun.text());
    (0..10).for_each(|_| drop(fail()));
    assert_eq!(request("GET", &candidate, &[], b"").json()["candidate"]["requests"], 10);
    assert_eq!(request("DELETE", &candidate, &[], b"").status, 200);
    (0..3).for_each(|_| drop(fail()));
    assert_eq!(host.endpoint("it")["breaker"], "open");
}

/// The model's answer without a handler: what every bypassed request has to get.
fn bare(path: &str, body: &str) -> Reply {
    let host = serve(Endpoint::new("it").model("iris_static"));
    let reply = host.post(path, body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply
}

const FLOWER: &str = r#"{"input": [[5.2, 3.6, 1.4, 0.3]]}"#;

#[test]
fn a_handler_that_fails_is_bypassed_where_the_operator_asks_for_it() {
    let bypass = |endpoint: Endpoint| endpoint.set("on_fault = 'bypass'");
    let endpoints = [
        // `trap` makes tensors that this model does not take: a fault in `pre_inference`, whatever is sent.
        bypass(endpoint("it", "trap").model("iris_static")),
        endpoint("strict", "trap").model("iris_static"),
        // `liar` makes a good request of anything, and nonsense of `json` afterwards.
        bypass(endpoint("post", "liar").model("iris_static")),
        bypass(endpoint("alone", "trap")),
        // `tensors` doubles what it gets, as long as it may return so much.
        bypass(endpoint("doubles", "tensors").model("identity_fp32").limits("output = '1KiB'")),
        bypass(endpoint("open", "trap").model("iris_static").set(long_breaker())),
    ];
    let host = Setup::of(endpoints).serve();
    let expected = bare("/", FLOWER);

    let reply = host.post("/it", FLOWER);
    assert_eq!((reply.status, &reply.body), (200, &expected.body), "{}", reply.text());
    assert_eq!(reply.header("x-handler-bypassed"), Some("pre_inference"));
    assert_eq!(reply.header("x-handler-digest"), host.endpoint("it")["digest"].as_str());
    assert_eq!(metric(&host, "bypassed_total", "it"), 1.0);
    assert_eq!(host.metric(r#"modelhost_plugin_faults_total{endpoint="it",kind="bad_output"}"#), 1.0);
    assert_eq!(host.metric(r#"modelhost_requests_total{endpoint="it",outcome="ok"}"#), 1.0);
    let id = reply.header("x-request-id").unwrap();
    wait_until("a line in the log", || {
        host.log().lines().any(|line| line.contains(id) && line.contains("answered without the handler"))
    });

    // The outputs of the run there was, not of another.
    let reply = host.post("/post", "json");
    assert_eq!((reply.status, &reply.body), (200, &expected.body), "{}", reply.text());
    assert_eq!(reply.header("x-handler-bypassed"), Some("post_inference"));
    assert_eq!(host.post("/post", "fine").text(), "fine", "the next request has its handler");

    // No way around the handler: what is no JSON, what has no model, where nobody asked for it.
    for (path, body, code) in [
        ("/it", "unreachable", "plugin_trap"),
        ("/it", "{\"input\": [1]}", "plugin_bad_output"),
        ("/alone", "panic", "plugin_trap"),
        ("/strict", FLOWER, "plugin_bad_output"),
    ] {
        let reply = host.post(path, body);
        reply.error(500, code, "pre_inference");
        assert_eq!(reply.header("x-handler-bypassed"), None);
    }

    // Truss's and TensorFlow Serving's clients get their own form, and are told.
    let serving = json!({"instances": [[5.2, 3.6, 1.4, 0.3]]}).to_string();
    let reply = host.post("/v1/models/it:predict", &serving);
    assert_eq!(reply.json(), bare("/v1/models/it:predict", &serving).json());
    assert_eq!(reply.header("x-handler-bypassed"), Some("pre_inference"));

    // Tensors stay what they were.
    for (length, factor, bypassed) in [(4, 2.0, None), (400, 1.0, Some("pre_inference"))] {
        let inputs =
            json!({"inputs": [oip::input("x", "FP32", &[length], json!(vec![1.5; length as usize]))]});
        let reply = oip::infer(&host, "doubles", &inputs);
        assert_eq!(reply.header("x-handler-bypassed"), bypassed, "{}", reply.text());
        assert_eq!(reply.json()["outputs"][0]["data"], json!(vec![1.5 * factor; length as usize]));
    }

    // While the breaker is open the handler is not even tried.
    for _ in 0..4 {
        assert_eq!(host.post("/open", FLOWER).header("x-handler-bypassed"), Some("pre_inference"));
    }
    let reply = host.post("/open", FLOWER);
    assert_eq!((reply.status, reply.header("x-handler-bypassed")), (200, Some("admit")));
    host.post("/open", "hello").error(503, "plugin_unavailable", "admit");
    assert_eq!(host.metric(r#"modelhost_plugin_faults_total{endpoint="open",kind="bad_output"}"#), 4.0);
}

#[test]
fn a_failure_names_its_handler_in_every_protocol() {
    let host = serve(endpoint("spin", "spin_pre").limits("pre_timeout = '50ms'"));
    let digest = host.endpoint("spin")["digest"].as_str().unwrap().to_owned();
    let tensor = json!({"inputs": [oip::input("x", "BYTES", &[1], json!(["spin"]))]});
    for reply in [
        host.post("/spin", "spin"),
        oip::infer(&host, "spin", &tensor),
        host.post("/v1/models/spin:predict", "\"spin\""),
    ] {
        reply.error(504, "plugin_timeout", "pre_inference");
        assert_eq!(reply.header("x-handler-digest"), Some(&*digest));
    }
    host.wait_for_log("plugin_timeout");
    let log = host.log();
    let line = log.lines().find(|line| line.contains("plugin_timeout")).unwrap();
    for word in ["fault=\"deadline\"", &*digest, "spin_pre"] {
        assert!(line.contains(word), "no {word} in {line}");
    }
}

/// What a handler wrote before it failed is told with the failure, and of that request only.
#[test]
fn the_last_words_on_stderr_are_in_the_failure() {
    let host =
        Host::serve(&["--plugin", component("tests/trap").to_str().unwrap(), "--name", "trap", "--debug"]);
    let detail = |how: &str| {
        let reply = host.post("/trap", format!("post:{how}"));
        reply.json()["detail"].as_str().unwrap_or_default().to_owned()
    };
    let panicked = detail("panic");
    assert!(panicked.contains("stderr:") && panicked.contains("the test asked for a panic"), "{panicked}");
    assert!(!panicked.contains("RUST_BACKTRACE"), "{panicked}");
    let large = Host::with(Some(&component("tests/hog")), None, &["--instance-memory", "16MiB", "--debug"]);
    let refused = large.post("/hog", "hog").json()["detail"].as_str().unwrap().to_owned();
    assert!(refused.contains("\nhint: `limits.memory` gives it more memory"), "{refused}");
    let silent = detail("unreachable");
    assert!(silent.contains("unreachable") && !silent.contains("the test asked"), "{silent}");
    host.wait_for_log("plugin_trap");
    let log = host.log();
    let line = log.lines().find(|line| line.contains("ERROR") && line.contains("plugin_trap")).unwrap();
    assert!(line.contains("the test asked for a panic"), "{line}");
    assert!(!log.contains("RUST_BACKTRACE"), "{log}");
}
