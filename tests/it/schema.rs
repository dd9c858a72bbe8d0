//! An endpoint with an input schema: requests are held against it before handler or model see them.

use e2e::oip::{infer, input};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, assert_close, component};
use serde_json::{Value, json};

/// The host of an endpoint with these tables of inputs.
fn declared(endpoint: Endpoint, inputs: &str) -> Host {
    Setup::of([endpoint]).tables(inputs).serve()
}

fn guest(name: &str) -> Endpoint {
    Endpoint::new("it").guest(name)
}

/// Sends each body; `Ok` is the exact JSON of a response, `Err` the exact text of a 400.
fn check(host: &Host, cases: &[(&str, Result<Value, &str>)]) {
    for (body, expected) in cases {
        let reply = host.post("/it", body);
        match expected {
            Ok(expected) => assert_eq!((reply.status, reply.json()), (200, expected.clone()), "`{body}`"),
            Err(expected) => {
                assert_eq!(reply.error(400, "invalid_input", "pre_inference"), *expected, "`{body}`");
            }
        }
    }
}

#[test]
fn a_handler_that_says_what_it_takes_sees_nothing_else() {
    let host = Host::with(Some(&component("tests/greet")), None, &["--name", "it"]);
    check(
        &host,
        &[
            (r#"{"prompt":"hi","times":2}"#, Ok(json!({ "out": "hi!hi!" }))),
            (r#"{"prompt":"hi"}"#, Ok(json!({ "out": "hi!", "once": true }))),
            (r#"{"prompt":"hi","times":null,"more":[1]}"#, Ok(json!({ "out": "hi!", "once": true }))),
            ("{}", Err("input `prompt`: missing, expected BYTES [1]")),
            (r#"{"times":1}"#, Err("input `prompt`: missing, expected BYTES [1]")),
            (
                r#"{"prompt":1,"times":"z"}"#,
                Err(
                    "input `prompt`: cannot convert 1 to BYTES; input `times`: cannot convert \"z\" to INT32",
                ),
            ),
            (
                r#"{"prompt":["a","b"],"times":2147483648}"#,
                Err("input `prompt`: expected BYTES [1], got BYTES [2]; \
                     input `times`: 2147483648 is out of range for INT32"),
            ),
            ("{", Err("malformed json: EOF while parsing an object at line 1 column 1")),
            ("", Err("malformed json: EOF while parsing a value at line 1 column 0")),
            (r#""hi""#, Err("expected sample to be a dictionary with keys \"prompt\", \"times\"")),
        ],
    );
    let csv = host.request("POST", "/it", &[("content-type", "text/csv")], br#"{"prompt":"hi"}"#);
    csv.error(415, "unsupported_media_type", "pre_inference");
    let merge = host.request(
        "POST",
        "/it",
        &[("content-type", "application/merge-patch+json")],
        br#"{"prompt":"x"}"#,
    );
    assert_eq!(merge.status, 200);
    // A body that is large is judged like any other, beside the workers.
    let long = "x".repeat(1 << 20);
    let reply = host.post("/it", format!(r#"{{"prompt":"{long}","times":"{long}"}}"#));
    let text = reply.error(400, "invalid_input", "pre_inference");
    assert!(text.starts_with("input `times`: cannot convert \"xxx") && text.len() < 200, "{text}");
}

#[test]
fn a_refused_request_takes_no_sandbox() {
    let host = Host::with(Some(&component("tests/greet")), None, &["--name", "it", "--isolation", "request"]);
    let made = || host.metric("modelhost_plugin_instances_created_total{endpoint=\"it\"}");
    let before = made();
    for _ in 0..10 {
        host.post("/it", "{}").error(400, "invalid_input", "pre_inference");
    }
    assert_eq!(made(), before);
    assert_eq!(host.post("/it", r#"{"prompt":"hi"}"#).status, 200);
    assert_eq!(made(), before + 1.0);
    assert_eq!(host.metric("modelhost_requests_total{endpoint=\"it\",outcome=\"invalid_input\"}"), 10.0);
}

#[test]
fn what_the_configuration_declares_wins() {
    let inputs = "[endpoint.input.prompt]\ndatatype = 'STRING'\nshape = [1]\nexample = 'x'\n\
                  [endpoint.input.times]\ndatatype = 'INT8'\nrequired = false";
    let host = declared(guest("greet"), inputs);
    check(
        &host,
        &[
            (r#"{"prompt":"hi","times":2}"#, Ok(json!({ "out": "hi!hi!" }))),
            (r#"{"prompt":"hi","times":768}"#, Err("input `times`: 768 is out of range for INT8")),
        ],
    );
    // Also over what could not be used by itself.
    let host = declared(
        guest("schemas").set("env = ['SCHEMA=twice']"),
        "[endpoint.input.word]\ndatatype = 'STRING'\nshape = [1]\nexample = 'x'",
    );
    check(&host, &[(r#"{"word":"a"}"#, Ok(json!({ "word": "a" })))]);
    // A handler that declares nothing takes anything.
    let host = declared(guest("schemas").set("env = ['SCHEMA=none']"), "");
    check(&host, &[(r#"{"word":3}"#, Ok(json!({ "word": 3 }))), ("[]", Ok(json!({ "word": null })))]);
}

#[test]
fn json_becomes_the_declared_tensors_for_a_handler_of_tensors() {
    let datatypes = [
        ("bool", "true", "true"),
        ("uint8", "255", "255"),
        ("uint16", "65535", "65535"),
        ("uint32", "4294967295", "4294967295"),
        ("uint64", "18446744073709551615", "18446744073709551615"),
        ("int8", "-128", "-128"),
        ("int16", "-32768", "-32768"),
        ("int32", "-2147483648", "-2147483648"),
        ("int64", "-9223372036854775808", "-9223372036854775808"),
        // Rounded to the nearest of the datatype, and doubled by the handler where it says so.
        ("fp16", "0.1", "0.099975586"),
        ("bf16", "0.1", "0.100097656"),
        ("fp32", "0.1", "0.2"),
        ("fp64", "0.1", "0.1"),
        ("bytes", "\"hi\"", "\"HI\""),
    ];
    let mut inputs = String::new();
    for (datatype, ..) in datatypes {
        inputs += &format!("[endpoint.input.{datatype}]\ndatatype = '{datatype}'\nrequired = false\n");
    }
    inputs += "[endpoint.input.list]\ndatatype = 'INT32'\nshape = [-1]\nrequired = false\n\
               [endpoint.input.rows]\ndatatype = 'FP32'\nshape = [-1, 2]\nrequired = false\n";
    let host = declared(guest("tensors"), &inputs);
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (datatype, given, expected) in datatypes {
        for given in [given.to_owned(), format!("[{given}]")] {
            let reply = host.post("/it", format!(r#"{{"{datatype}":{given}}}"#));
            assert_eq!(reply.status, 200, "{datatype}: {}", reply.text());
            assert_eq!(reply.json()[datatype], parsed(expected), "{datatype}");
            assert_eq!(reply.json().as_object().unwrap().len(), 2, "nothing else came: {}", reply.text());
        }
    }
    check(
        &host,
        &[
            (r#"{"list":[1,2,3]}"#, Ok(json!({ "list": [1, 2, 3], "parameters": "{}" }))),
            (
                r#"{"rows":[[1,2],[3,4]]}"#,
                Ok(json!({ "rows": [[2.0, 4.0], [6.0, 8.0]], "parameters": "{}" })),
            ),
            ("{}", Ok(json!({ "parameters": "{}" }))),
            (r#"{"int8":768}"#, Err("input `int8`: 768 is out of range for INT8")),
            (
                r#"{"rows":[[1,2],[3]]}"#,
                Err("input `rows`: element 1: a list of 1 where the ones before have 2"),
            ),
            (r#"{"rows":[1,2]}"#, Err("input `rows`: expected FP32 [-1, 2], got FP32 [2]")),
        ],
    );
}

#[test]
fn a_bare_model_is_held_to_what_is_declared() {
    let inputs = "[endpoint.input.input]\ndatatype = 'FP32'\nshape = [2, 4]\n\
                  example = [[5.2, 3.6, 1.4, 0.3], [6.7, 3.0, 5.2, 2.3]]";
    let host = declared(Endpoint::new("it").model("iris_dyn"), inputs);
    for body in
        [r#"{"input":[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]}"#, "[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]"]
    {
        assert_close(&host.post("/it", body).json()[0], &json!([0, 2]));
    }
    // The model would take this.
    check(&host, &[("[[5.2,3.6,1.4,0.3]]", Err("input `input`: expected FP32 [2, 4], got FP32 [1, 4]"))]);
}

/// What `host` answers to these tensors by the Open Inference Protocol: a 400's text.
fn refusal(host: &Host, inputs: &[Value]) -> String {
    infer(host, "it", &json!({ "inputs": inputs })).error(400, "invalid_input", "pre_inference")
}

#[test]
fn tensors_are_held_to_the_same_declaration() {
    let greet = Host::with(Some(&component("tests/greet")), None, &["--name", "it"]);
    let prompt = |shape: &[i64], data: Value| input("prompt", "BYTES", shape, data);
    let reply = infer(&greet, "it", &json!({ "inputs": [prompt(&[1], json!(["hi"]))] }));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(refusal(&greet, &[]), "input `prompt`: missing, expected BYTES [1]");
    assert_eq!(
        refusal(
            &greet,
            &[
                prompt(&[2], json!(["a", "b"])),
                input("times", "INT64", &[1], json!([2])),
                input("promt", "BYTES", &[1], json!(["x"])),
            ]
        ),
        "input `prompt`: expected BYTES [1], got BYTES [2]; input `times`: expected INT32 [1], got INT64 [1]; \
         input `promt`: unknown"
    );
    let twice = [prompt(&[1], json!(["a"])), prompt(&[1], json!(["b"]))];
    assert_eq!(infer(&greet, "it", &json!({ "inputs": twice })).status, 400);
    let declared_inputs = json!([
        { "name": "prompt", "datatype": "BYTES", "shape": [1] },
        { "name": "times", "datatype": "INT32", "shape": [1] },
    ]);
    assert_eq!(greet.get("/v2/models/it").json()["inputs"], declared_inputs);
}

#[test]
fn tensors_that_go_past_the_handler_are_the_models_business() {
    // The handler reads `{"word": …}`, the model takes `a` and `b`.
    let host = declared(guest("schemas").model("add").set("smoke = false\nbare_tensors = true"), "");
    let tensor = |name| input(name, "FP32", &[2], json!([1, 2]));
    let reply = infer(&host, "it", &json!({ "inputs": [tensor("a"), tensor("b")] }));
    assert_eq!(reply.json()["outputs"][0]["data"], json!([2.0, 4.0]), "{}", reply.text());
    assert_eq!(refusal(&host, &[tensor("a")]), "input `b`: missing, expected FP32 [2]");
    assert_eq!(host.get("/v2/models/it").json()["inputs"][0]["name"], "a");
    let text = host.post("/it", "{}").error(400, "invalid_input", "pre_inference");
    assert_eq!(text, "input `word`: missing, expected BYTES [1]");
}

/// A body that is a file: JPEG, with the example that is in a template.
fn takes_jpeg(handler: &std::path::Path) -> Endpoint {
    let example =
        e2e::root().canonicalize().unwrap().join("host/crates/project/templates/image/common/sample.jpg");
    let body = format!("body = {{ media_types = ['image/jpeg'], example = '{}' }}", example.display());
    Endpoint::new("it").plugin(handler).set(body)
}

#[test]
fn a_body_that_is_a_file_is_of_the_declared_type_or_refused() {
    // The neighbour takes what it gets.
    let host =
        Setup::of([takes_jpeg(&component("tests/echo")), Endpoint::new("other").guest("echo")]).serve();
    let send = |path: &str, media_type: &str, body: &[u8]| {
        host.request("POST", path, &[("content-type", media_type)], body)
    };
    assert_eq!(send("/it", "Image/JPEG; q=1", b"pixels").status, 200);
    assert_eq!(send("/other", "image/png", b"pixels").status, 200);
    for media_type in ["image/png", "application/json", ""] {
        let text = send("/it", media_type, b"pixels").error(415, "unsupported_media_type", "pre_inference");
        let expected =
            format!("expected `image/jpeg`, got `{media_type}`; say it in the header `content-type`");
        assert_eq!(text, expected);
    }
    let text = send("/it", "image/jpeg", b"").error(400, "invalid_input", "pre_inference");
    assert_eq!(text, "the body is empty; expected `image/jpeg`");

    let document = host.get("/openapi.json").json();
    let body = &document["paths"]["/it"]["post"]["requestBody"];
    let file = json!({ "image/jpeg": { "schema": { "type": "string", "format": "binary" } } });
    assert_eq!((&body["required"], &body["content"]), (&json!(true), &file));
}

#[test]
fn the_example_of_a_file_is_tried_before_a_handler_serves() {
    let log = Setup::of([takes_jpeg(&component("tests/echo"))]).serve().log();
    assert!(log.contains("smoke test: the example is answered"), "{log}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    std::fs::write(&file, takes_jpeg(&component("iris-wasm")).to_string()).unwrap();
    let mut check = std::process::Command::new(e2e::host_binary());
    let output = check.args(["check", "--config", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("sent as body (the example's file): invalid_input in pre_inference: "), "{said}");
}
