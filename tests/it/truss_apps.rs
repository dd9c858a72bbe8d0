//! Truss's `class Model` as an application: load, preprocess, predict, postprocess, generators, `is_healthy`. The
//! component is tests/guests-py/apps; what Truss's public tests ask of a server is asked here.

use std::thread;
use std::time::{Duration, Instant};

use e2e::setup::Setup;
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, component, wait_until};
use serde_json::{Value, json};

use crate::potassium_apps::in_turn;

const PREDICT: &str = "/v1/models/model:predict";

const SECRET: &str = "of-no-ones-business";

/// The model, on the paths that Truss's clients call, with all that a model is given.
fn model(concurrency: usize) -> Host {
    model_of_server("", concurrency)
}

fn model_of_server(settings: &str, concurrency: usize) -> Host {
    let plugin = component("tests/apps_py");
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join("data")).unwrap();
    std::fs::write(project.path().join("data/x.txt"), "hello").unwrap();
    let secret = project.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    in_turn(&Setup::default().tables(format!(
        "[server]\n{settings}\n[[endpoint]]\nname = 'model'\nplugin = {plugin:?}\nreadiness = '/v1/models/model'\n\
         paths = ['{PREDICT}', '/v1/chat/completions']\nproject = {:?}\n\
         metadata = {{ style = 'truss', config = {{ model_name = 'm' }}, environment = 'staging' }}\n\
         env = {{ TRUSS_SECRET_key = {{ file = {secret:?} }} }}\n\
         [endpoint.limits]\nmemory = '128MiB'\nconcurrency = {concurrency}\nstream_timeout = '2s'\n",
        project.path()
    )))
}

fn predict(host: &Host, inputs: &Value) -> Reply {
    host.request("POST", PREDICT, &[("content-type", "application/json")], inputs.to_string().as_bytes())
}

fn truss_code(reply: &Reply) -> Option<&str> {
    reply.header("x-baseten-error-code")
}

/// Bytes of a prediction, as raw as they come, until the connection ends.
fn raw(host: &Host, inputs: &Value) -> String {
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&wire::post(PREDICT, &[("connection", "close")], &inputs.to_string())).unwrap();
    String::from_utf8_lossy(&wire.until_closed()).into_owned()
}

#[test]
fn a_model_predicts_between_pre_and_post() {
    let host = model(1);
    for (inputs, status, code, expected) in [
        // T3, T5
        (json!({"a": 1}), 200, None, json!({"a": 1})),
        (json!(null), 200, None, json!(null)),
        // T19, T20: the body's length by the request, the marker by postprocess.
        (
            json!({"test": 123}),
            200,
            None,
            json!({"test": 123, "preprocessed": 12, "postprocess": "was here"}),
        ),
        // T6, T7
        (
            json!({"do": "boom"}),
            500,
            Some("600"),
            json!({"error": "Internal Server Error (in model/chainlet)."}),
        ),
        (json!({"do": "teapot"}), 418, Some("600"), json!({"error": "teapot"})),
    ] {
        let reply = predict(&host, &inputs);
        assert_eq!((reply.status, truss_code(&reply), reply.json()), (status, code, expected), "{inputs}");
    }
    host.wait_for_log("a secret of the model's");
    // T4
    for body in ["{bad", ""] {
        let reply = host.post(PREDICT, body);
        assert_eq!((reply.status, truss_code(&reply)), (400, Some("700")), "{body}");
        assert!(reply.json()["error"].as_str().unwrap().starts_with("Invalid JSON payload: "));
    }
    // T8
    for (status, code) in [(201, None), (404, Some("700"))] {
        let reply = predict(&host, &json!({"do": "status", "status": status}));
        assert_eq!((reply.status, truss_code(&reply), reply.text().as_str()), (status, code, "as it is"));
        assert_eq!((reply.header("x-mine"), reply.header("content-type")), (Some("1"), Some("text/plain")));
    }
    // T23
    let chat = |body: &str| host.post("/v1/chat/completions", body);
    assert_eq!(chat(r#"{"a": 1}"#).json(), json!({"got": {"a": 1}}));
    let reply = chat(r#"{"stream": true}"#);
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.text(), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    // T2, T18
    assert_eq!(host.get("/v1/models/model/loaded").text(), "{}");
    let schema = host.get("/v1/models/model/schema").json();
    assert_eq!(schema["input_schema"]["properties"]["do"], json!({"type": "string"}));
    assert_eq!((&schema["output_schema"], &schema["supports_streaming"]), (&json!(null), &json!(false)));
}

/// What `__init__` is given: config, data, secrets, environment. A secret is a granted variable.
#[test]
fn a_model_gets_its_config_data_secrets_and_environment() {
    let host = model(1);
    // T31, T1: loaded once in the instance.
    let expected =
        json!({"config": {"model_name": "m"}, "data": "hello", "environment": "staging", "loaded": 1});
    for _ in 0..2 {
        assert_eq!(predict(&host, &json!({"do": "given"})).json(), expected);
    }
    // T21
    let secret_of = |name: &str| predict(&host, &json!({"do": "secret", "name": name}));
    assert_eq!(secret_of("key").json(), json!({"length": SECRET.len()}));
    assert_eq!(secret_of("none").status, 500);
    host.wait_for_log("grant the variable `TRUSS_SECRET_none`");
    assert!(!host.log().contains(SECRET));
    // One that the host does not have refuses the start, by its name.
    let plugin = component("tests/apps_py");
    let Err((_, log)) =
        Host::try_serve(&["--plugin", plugin.to_str().unwrap(), "--env", "TRUSS_SECRET_none"])
    else {
        panic!("it is served")
    };
    assert!(log.contains("`TRUSS_SECRET_none` is not set") && log.contains("hint: "), "{log}");
}

/// T11, T12, T13.
#[test]
fn a_generator_is_a_stream() {
    let host = model(1);
    let reply = predict(&host, &json!({"do": "stream"}));
    assert_eq!((reply.header("transfer-encoding"), reply.text().as_str()), (Some("chunked"), "01234"));
    let json = [("accept", "application/json"), ("content-type", "application/json")];
    let reply = host.request("POST", PREDICT, &json, br#"{"do": "stream"}"#);
    assert_eq!((reply.header("transfer-encoding"), reply.json()), (None, json!("01234")));
    for (inputs, begin) in
        [(json!({"do": "stream", "fails_after": 2}), "01"), (json!({"do": "stream", "pause": 60}), "0")]
    {
        let response = raw(&host, &inputs);
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{response}");
        let chunks: String = body.split("\r\n").skip(1).step_by(2).collect();
        assert!(chunks.starts_with(begin) && !response.ends_with("0\r\n\r\n"), "{inputs}: {response}");
        assert_eq!(predict(&host, &json!({"a": 1})).status, 200);
    }
}

/// T22: what `is_healthy` returns is what readiness says; predictions and `loaded` go on.
#[test]
fn a_model_says_whether_it_is_healthy() {
    let host = model(1);
    let ready = ["/v1/models/model", "/v2/models/model/ready", "/v2/health/ready", "/readyz"];
    for (value, is_healthy) in [
        (json!(true), true),
        (json!(false), false),
        (json!("yessss"), true),
        (json!(""), false),
        (json!(34), true),
        (json!(0), false),
        (json!({"woo": "hoo"}), true),
        (json!({}), false),
    ] {
        assert_eq!(predict(&host, &json!({"healthy": value})).json(), json!({}));
        let status = if is_healthy { 200 } else { 503 };
        // Its instance is asked as soon as it is back from the prediction; until then a new one is.
        for path in ready {
            wait_until(&format!("{value} at {path}"), || host.get(path).status == status);
        }
        assert_eq!(host.get("/v1/models/model/loaded").status, 200, "{value}");
        assert_eq!(host.get("/healthz").status, 200, "{value}");
        assert_eq!(predict(&host, &json!(1)).json(), json!(1), "{value}");
    }
    let reply = host.get("/v1/models/model");
    assert_eq!(reply.error(503, "not_ready", "admit"), "model `model` is not ready");
    assert_eq!(truss_code(&reply), Some("600"));
    // It asks while the only place is taken, and is no request: neither counts.
    let slow = thread::spawn({
        let url = host.url.clone();
        move || e2e::request("POST", &format!("{url}{PREDICT}"), &[], br#"{"do": "wait", "seconds": 1.5}"#)
    });
    wait_until("the only place to be taken", || host.get("/__status__").json()["gpu_available"] == false);
    let begun = Instant::now();
    host.get("/v2/health/ready");
    assert!(begun.elapsed() < Duration::from_millis(1400), "{:?}", begun.elapsed());
    assert_eq!(slow.join().unwrap().status, 200);
}

/// T26: a client that leaves is seen at the next look, and its place is free.
#[test]
fn a_model_sees_that_its_client_is_gone() {
    let host = model(1);
    let in_flight = || host.metric("modelhost_requests_in_flight{endpoint=\"model\"}");
    for (inputs, says) in [
        (json!({"do": "wait", "seconds": 0.8}), "Cancelled (before gen)."),
        (json!({"do": "watch"}), "Cancelled (during gen)."),
    ] {
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&wire::post(PREDICT, &[], &inputs.to_string())).unwrap();
        wait_until("it to be in flight", || in_flight() == 1.0);
        thread::sleep(Duration::from_millis(300));
        drop(wire);
        host.wait_for_log(says);
        wait_until("its place to be free", || in_flight() == 0.0);
    }
}

/// T14: as many at once as there are places; the next one waits.
#[test]
fn predictions_share_the_places() {
    let host = model(2);
    let slow = json!({"do": "wait", "seconds": 1.0});
    let timed = || {
        let begun = Instant::now();
        assert_eq!(predict(&host, &slow).status, 200);
        begun.elapsed()
    };
    // Both instances are there.
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(timed))));
    let mut took: Vec<Duration> = thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(timed)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    took.sort();
    assert!(took[1] < Duration::from_millis(1950) && took[2] >= Duration::from_secs(2), "{took:?}");
}

/// T16: a stream holds its place while it is made, not while nobody reads it.
#[test]
fn a_place_covers_what_is_made_and_not_what_is_read() {
    let host = model(2);
    let stream = json!({"do": "stream", "pause": 0.2});
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(|| predict(&host, &stream)))));
    let unread: Vec<Wire> = (0..2)
        .map(|_| {
            let mut wire = Wire::connect(&host.url).unwrap();
            wire.send(&wire::post(PREDICT, &[("connection", "close")], &stream.to_string())).unwrap();
            wire
        })
        .collect();
    wait_until("both to be made", || host.get("/__status__").json()["gpu_available"] == false);
    let timed = || {
        let begun = Instant::now();
        assert_eq!(predict(&host, &stream).text(), "01234");
        begun.elapsed()
    };
    let (third, fourth) = (timed(), timed());
    assert!(third > Duration::from_millis(1100), "it waits for a place: {third:?}");
    assert!(fourth < third && fourth >= Duration::from_millis(800), "{third:?}, {fourth:?}");
    for wire in unread {
        let response = String::from_utf8(wire.until_closed()).unwrap();
        assert!(response.ends_with("0\r\n\r\n"), "{response}");
    }
}

/// T27: what is here when the server is asked to stop is answered, as far as its time allows.
#[test]
fn a_stop_waits_for_predictions() {
    for (settings, expected) in
        [("drain_timeout = '30s'", [200, 200]), ("drain_timeout = '1500ms'", [200, 503])]
    {
        let host = model_of_server(settings, 1);
        predict(&host, &json!(1));
        let slow = json!({"do": "wait", "seconds": 1.0}).to_string();
        let url = format!("{}{PREDICT}", host.url);
        let call = |number: u64| {
            let (url, slow) = (url.clone(), slow.clone());
            let call = thread::spawn(move || e2e::request("POST", &url, &[], slow.as_bytes()).status);
            wait_until("it to be here", || host.get("/__status__").json()["sequence_number"] == number);
            call
        };
        let calls = [call(2), call(3)];
        let begun = Instant::now();
        host.signal("TERM");
        let (status, log) = host.wait();
        assert_eq!(status.success(), expected == [200, 200], "{log}");
        assert_eq!(calls.map(|call| call.join().unwrap()), expected, "{settings}");
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(1000) && took < Duration::from_secs(10),
            "{settings}: {took:?}"
        );
    }
}
