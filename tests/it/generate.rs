//! Triton's generate extension, by plain HTTP as its documentation has it.

use e2e::Host;
use e2e::setup::{Endpoint, Setup};
use serde_json::{Value, json};

fn host() -> Host {
    Setup::of([
        Endpoint::new("iris").model("iris_dyn"),
        Endpoint::new("add").model("add"),
        Endpoint::new("texts").model("identity_bytes"),
        Endpoint::new("echo").guest("echo"),
    ])
    .serve()
}

fn generate(host: &Host, model: &str, body: &Value) -> Value {
    let reply = host.post(&format!("/v2/models/{model}/generate"), body.to_string());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[test]
fn fields_are_inputs_and_outputs() {
    let host = host();
    let said = generate(&host, "add", &json!({ "a": [1, 2], "b": [0.5, 4], "id": "7", "stream": false }));
    let expected = json!({ "model_name": "add", "model_version": "1", "id": "7", "sum": [1.5, 6.0] });
    assert_eq!(said, expected);
    // One element is itself, and may come as itself.
    let said = generate(&host, "texts", &json!({ "x": "hé", "parameters": { "temperature": 0.5 } }));
    assert_eq!(said, json!({ "model_name": "texts", "model_version": "1", "y": "hé" }));
    let said = generate(&host, "texts/versions/1", &json!({ "x": ["a", "", "b"] }));
    assert_eq!(said["y"], json!(["a", "", "b"]));
    // A row alone, and rows.
    let flower = [5.2, 3.6, 1.4, 0.3];
    let one = generate(&host, "iris", &json!({ "input": flower }));
    assert_eq!(one["label"], json!(0));
    let two = generate(&host, "iris", &json!({ "input": [flower, [6.7, 3.0, 5.2, 2.3]] }));
    assert_eq!(two["label"], json!([0, 2]));
    assert_eq!(two["probabilities"].as_array().unwrap().len(), 6);
    assert_eq!(two["probabilities"][0], one["probabilities"][0]);
}

#[test]
fn a_stream_is_one_event() {
    let host = host();
    let reply = host.post("/v2/models/add/generate_stream", json!({ "a": [1, 2], "b": [1, 1] }).to_string());
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let event = reply.text();
    let data = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(data).unwrap()["sum"], json!([2.0, 3.0]));
}

#[test]
fn mistakes_are_told() {
    let host = host();
    for (model, body, stage, expected) in [
        ("add", "{", "admit", "malformed json: "),
        ("add", "[1, 2]", "admit", "no request to generate: invalid type: sequence"),
        ("add", r#"{"a": "x", "b": [1, 2]}"#, "admit", "input `a`: "),
        ("add", r#"{"a": [1, 2]}"#, "pre_inference", "input `b`: missing, expected FP32 [2]"),
        ("add", r#"{"a": [1, 2, 3], "b": [1, 2]}"#, "pre_inference", "input `a`: expected FP32 [2]"),
    ] {
        for verb in ["generate", "generate_stream"] {
            let reply = host.post(&format!("/v2/models/{model}/{verb}"), body);
            let text = reply.error(400, "invalid_input", stage);
            assert!(text.starts_with(expected), "{text}");
        }
    }
    host.post("/v2/models/unknown/generate", "{}").error(404, "not_found", "admit");
    assert_eq!(host.get("/v2/models/add/generate").status, 405);
}

#[test]
fn a_handler_gets_the_body_as_it_is() {
    let host = host();
    let body = r#"{"text_input": "hi", "own": [1]}"#;
    for path in ["/echo", "/v2/models/echo/generate"] {
        let reply = host.post(path, body);
        let seen = reply.json();
        assert_eq!((reply.status, &seen["path"], &seen["body"]), (200, &json!(path), &json!(body)));
    }
}
