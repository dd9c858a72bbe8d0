//! The client of Inferless, unchanged, against an endpoint with an input schema.

use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, clients, component};
use serde_json::{Value, json};

/// What `inferless.call` makes of the answer to `data`.
fn call(host: &Host, data: &Value) -> Value {
    call_batch(host, data, false)
}

/// The same with `is_batch`.
fn call_batch(host: &Host, data: &Value, is_batch: bool) -> Value {
    let url = format!("{}/v2/models/it/infer", host.url);
    let is_batch = if is_batch { "True" } else { "False" };
    let line = clients::run("inferless_call", &[&url, &data.to_string(), is_batch]);
    serde_json::from_str(&line).expect("a line of JSON")
}

/// I15, I16: streams of a handler that is an application. Nothing has to be finalised: an error ends them as
/// one.
#[test]
fn events_are_json_and_an_error_is_the_last_of_them() {
    let host = Host::with(Some(&component("tests/responder")), None, &["--name", "it"]);
    const EVENTS: &str = "data: {\"OUT\":\"a\"}\n\ndata: {\"OUT\":\"b\"}\n\n";
    let ask = |end: &str| {
        let mut wire = Wire::connect(&host.url).unwrap();
        let body = json!(end).to_string();
        wire.send(&wire::post("/it/generate_stream", &[("connection", "close")], &body)).unwrap();
        String::from_utf8(wire.until_closed()).unwrap()
    };
    for (end, is_whole) in [("none", true), ("error", false), ("none", true)] {
        let response = ask(end);
        assert!(response.contains("content-type: text/event-stream\r\n"), "{response}");
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let chunks = body.split("\r\n").collect::<Vec<_>>();
        let events: String = chunks.iter().skip(1).step_by(2).copied().collect();
        let rest = events.strip_prefix(EVENTS).unwrap_or_else(|| panic!("{response}"));
        assert_eq!(rest.is_empty(), is_whole, "{response}");
        assert_eq!(rest.starts_with("event: error\n"), !is_whole, "{response}");
        assert_eq!(response.ends_with("0\r\n\r\n"), is_whole, "{response}");
    }
}

/// Asserts that the call failed with a 400 that says all of this.
fn assert_refused(answer: &Value, parts: &[&str]) {
    let text = answer["error"].as_str().unwrap_or_else(|| panic!("not refused: {answer}"));
    for part in [&["status code 400"], parts].concat() {
        assert!(text.contains(part), "`{part}` in `{text}`");
    }
}

#[test]
fn a_handler_alone_answers_with_typed_outputs() {
    let host = Host::with(Some(&component("tests/greet")), None, &["--name", "it"]);
    assert_eq!(
        call(&host, &json!({ "prompt": "hi" })),
        json!({ "out": ["BYTES", [1], ["hi!"]], "once": ["BOOL", [1], [true]] })
    );
    // To a handler of bodies too: it gets `{"prompt": ["hi"]}`, not a list in a list.
    assert_eq!(
        call_batch(&host, &json!({ "prompt": "hi" }), true),
        json!({ "out": ["BYTES", [1], ["hi!"]], "once": ["BOOL", [1], [true]] })
    );
    assert_refused(&call(&host, &json!({})), &["input `prompt`: missing, expected BYTES [1]"]);
    // Whole numbers are INT64 to this client, whatever is declared.
    assert_refused(
        &call(&host, &json!({ "prompt": ["a", "b"], "times": 2, "other": 1 })),
        &[
            "input `prompt`: expected BYTES [1], got BYTES [2]",
            "input `times`: expected INT32 [1], got INT64 [1]",
            "input `other`: unknown",
        ],
    );
}

#[test]
fn every_datatype_that_the_client_sends_fits_its_declaration() {
    let mut endpoint = Endpoint::new("it").guest("tensors");
    for (name, datatype, shape, example) in [
        ("prompt", "STRING", "[1]", "'x'"),
        ("n", "INT64", "[1]", "3"),
        ("f", "FP64", "[1]", "1.5"),
        ("b", "BOOL", "[1]", "true"),
        ("list", "INT64", "[-1]", "[1, 2, 3]"),
        ("rows", "FP64", "[-1, 2]", "[[1, 2]]"),
    ] {
        let required = !["list", "rows"].contains(&name);
        let lines =
            format!("datatype = '{datatype}'\nshape = {shape}\nexample = {example}\nrequired = {required}");
        endpoint = endpoint.table(&format!("input.{name}"), &lines);
    }
    let host = Setup::of([endpoint]).serve();
    let mut data = json!({ "prompt": "x", "n": 3, "f": 1.5, "b": true });
    let mut expected = json!({
        "prompt": ["BYTES", [1], ["X"]],
        "n": ["INT64", [1], [3]],
        "f": ["FP64", [1], [1.5]],
        "b": ["BOOL", [1], [true]],
        "parameters": ["BYTES", [1], ["{}"]],
    });
    assert_eq!(call(&host, &data), expected);
    data["list"] = json!([1, 2, 3]);
    expected["list"] = json!(["INT64", [3], [1, 2, 3]]);
    assert_eq!(call(&host, &data), expected);
    // Lists in lists carry their shape.
    data["rows"] = json!([[1.5, 2.5], [3.5, 4.5]]);
    expected["rows"] = json!(["FP64", [2, 2], [1.5, 2.5, 3.5, 4.5]]);
    assert_eq!(call(&host, &data), expected);
    // A batch of one has an axis more, which no declared shape has.
    assert_eq!(call_batch(&host, &data, true), expected);
    data["rows"] = json!([1.5]);
    assert_refused(&call(&host, &data), &["input `rows`: expected FP64 [-1, 2], got FP64 [1]"]);
}
