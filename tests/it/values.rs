//! What a handler may return, what becomes of what it may not, and what it can learn of a request.

use e2e::{Host, assert_close, component, model, wait_until};
use serde_json::{Value, json};

/// A guest of the tests, alone.
fn guest(name: &str, more: &[&str]) -> Host {
    Host::with(Some(&component(&format!("tests/{name}"))), None, more)
}

#[test]
fn every_kind_of_response_arrives_as_returned() {
    let host = guest("values", &[]);
    let json = Some("application/json");
    let text = Some("text/plain; charset=utf-8");
    let cases: [(&str, u16, Option<&str>, &[u8]); 11] = [
        ("null", 200, json, b"null"),
        ("string", 200, json, b"\"iris-setosa\""),
        ("int", 200, json, b"3"),
        ("f32", 200, json, b"0.1"),
        ("f64", 200, json, b"0.10000000149011612"),
        ("list", 200, json, b"[1,2]"),
        // What JSON does not have.
        ("nan", 200, json, b"[null,null,1.0]"),
        ("empty", 204, None, b""),
        ("text", 200, text, b"plain, unquoted"),
        ("bytes", 200, Some("application/octet-stream"), &[0, 159, 146, 150]),
        // From `pre_inference`, which skips the rest.
        ("respond", 418, text, b"teapot"),
    ];
    for (body, status, content_type, expected) in cases {
        let reply = host.post("/", body);
        let found = (reply.status, reply.header("content-type"), reply.body.as_slice());
        assert_eq!(found, (status, content_type, expected), "{body}: {}", reply.text());
        assert!(reply.header("x-request-id").is_some(), "{body}");
    }
    let reply = host.post("/", "accepted");
    assert_eq!((reply.status, reply.header("location")), (202, Some("/jobs/7")));
    let twice: Vec<_> = reply.headers.iter().filter(|(name, _)| name == "x-twice").map(|(_, v)| v).collect();
    assert_eq!(twice, ["1", "2"]);
}

#[test]
fn errors_of_a_handler_reach_whom_they_are_meant_for() {
    let host = guest("values", &[]);
    assert_eq!(host.post("/", "invalid").error(400, "invalid_input", "pre_inference"), "bad pre");
    let text = host.post("/", "nonsense").error(400, "invalid_input", "post_inference");
    assert_eq!(text, "no value is called `nonsense`");

    // `internal` is for the log, under the request's id.
    let reply = host.request("POST", "/", &[("x-request-id", "c19")], b"error");
    assert_eq!(reply.error(500, "plugin_error", "post_inference"), "the handler failed");
    assert!(!reply.text().contains("bad post"), "{}", reply.text());
    wait_until("the handler's words in the log", || {
        host.log()
            .lines()
            .any(|line| line.contains("bad post") && line.contains("c19") && line.contains("plugin_error"))
    });
    assert_eq!(host.post("/", "int").text(), "3");

    let debug = guest("values", &["--debug"]);
    let reply = debug.post("/", "error");
    reply.error(500, "plugin_error", "post_inference");
    assert_eq!(reply.json()["detail"], "bad post");
}

/// Body for the liar, stage, what the text says.
const LIES: [(&str, &str, &str); 18] = [
    ("length", "pre_inference", "tensor `input`"),
    ("overflow", "pre_inference", "tensor `input`"),
    ("bool", "pre_inference", "tensor `input`"),
    ("bytes", "pre_inference", "tensor `input`"),
    ("status 99", "post_inference", "response status 99 is not within 200 to 599"),
    ("status 0", "post_inference", "response status 0 "),
    ("status 101", "post_inference", "response status 101 "),
    ("status 600", "post_inference", "response status 600 "),
    ("header-name", "post_inference", "response header name `bad name`"),
    ("header-value", "post_inference", "value of response header `x-bad`"),
    ("hop", "post_inference", "response header `transfer-encoding` is the server's to set"),
    ("content-length", "post_inference", "response header `content-length` is the server's to set"),
    ("content-type", "post_inference", "response content type"),
    ("json", "post_inference", "not JSON"),
    ("flood 70000000", "post_inference", ""),
    ("headers 3000000", "post_inference", ""),
    ("headers 81", "post_inference", "81 response headers of 162 bytes, expected at most 80 of 32768"),
    ("rank", "pre_inference", "tensor `input`"),
];

/// The same with the iris model: tensors that are sound and do not fit it.
const MISFITS: [(&str, &str); 6] = [
    ("dtype", "input `input`: expected FP32 [1, 4], got INT64 [1, 4]"),
    ("shape", "input `input`: expected FP32 [1, 4], got FP32 [1, 3]"),
    ("none", "input `input`: missing, expected FP32 [1, 4]"),
    ("twice", "input `input`: given twice"),
    ("stranger", "input `input`: given twice"),
    ("many", "the handler returned invalid output: 100000 tensors, expected at most 1000"),
];

#[test]
fn rubbish_from_a_handler_is_its_error_and_nobody_elses() {
    for isolation in ["worker", "request"] {
        let iris = model("iris_static");
        let plugin = component("tests/liar");
        let host = Host::with(
            Some(&plugin),
            Some(&iris),
            &["--isolation", isolation, "--instance-memory", "256MiB", "--post-timeout", "30s"],
        );
        for (body, stage, expected) in LIES {
            let text = host.post("/", body).error(500, "plugin_bad_output", stage);
            assert!(text.contains(expected), "{body}: expected `{expected}` in `{text:.500}`");
            assert!(text.len() < 500, "{body}: an error of {} bytes: {text:.500}…", text.len());
        }
        for (body, expected) in MISFITS {
            assert_eq!(
                host.post("/", body).error(500, "plugin_bad_output", "pre_inference"),
                expected,
                "{body}"
            );
        }
        // NaN is the one thing that is mended.
        let reply = host.post("/", "nan");
        assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"p": null}"#));
        assert_eq!(host.post("/", "headers 80").status, 200);
        assert_eq!(host.post("/", "good").text(), "fine");
    }
}

#[test]
fn output_is_limited_as_configured() {
    let host = guest("liar", &["--output", "1MiB"]);
    assert_eq!(host.post("/", "flood 900000").body.len(), 900_000);
    host.post("/", "flood 1100000").error(500, "plugin_bad_output", "post_inference");
    assert_eq!(host.post("/", "good").text(), "fine");
}

#[test]
fn either_half_of_a_handler_may_be_missing() {
    let flower = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
    let iris = [0.9819308, 0.0180693, 1.737e-8];
    let pre_only = Host::with(Some(&component("tests/pre_only")), Some(&model("iris_dyn")), &[]);
    assert_close(&pre_only.post("/", flower).json(), &json!([[0], [iris]]));
    let text = pre_only.post("/", "{}").error(400, "invalid_input", "pre_inference");
    assert!(text.contains("sepal_length"), "{text}");

    let post_only = Host::with(Some(&component("tests/post_only")), Some(&model("iris_dyn")), &[]);
    assert_eq!(post_only.post("/", "[6.7,3.0,5.2,2.3]").json(), json!({ "class_index": 2 }));
    let text = post_only.post("/", r#"{"x":1}"#).error(400, "invalid_input", "pre_inference");
    assert_eq!(text, r#"missing key "input""#);
    let reply = post_only.request("POST", "/", &[("content-type", "text/plain")], b"hello");
    reply.error(415, "unsupported_media_type", "pre_inference");
}

#[test]
fn globals_live_as_long_as_the_isolation_says() {
    let counts = |isolation: &str| -> Vec<Value> {
        let host = guest("count", &["--isolation", isolation]);
        (0..4).map(|_| host.post("/", "{}").json()["n"].take()).collect()
    };
    // One request after the other meets the same instance.
    assert_eq!(counts("worker"), [1, 2, 3, 4]);
    assert_eq!(counts("request"), [1, 1, 1, 1]);
}

#[test]
fn a_handler_can_learn_everything_of_its_request() {
    let host = guest("echo", &["--path", "/a/b"]);
    let headers = [("x-request-id", "r-1"), ("X-Test", "42"), ("content-type", "text/csv; charset=latin-1")];
    let reply = host.request("POST", "/a/b?x=1&y=%20", &headers, "1,2,é".as_bytes());
    let expected = json!({
        "request_id": "r-1", "method": "POST", "path": "/a/b", "query": "x=1&y=%20", "header": "42",
        "content_type": "text/csv; charset=latin-1", "body": "1,2,é", "credentials": [null, null],
    });
    assert_eq!(reply.json(), expected);
    let reply = host.request("POST", "/", &[], b"").json();
    assert_eq!(
        (&reply["header"], &reply["content_type"], &reply["body"]),
        (&Value::Null, &json!(""), &json!(""))
    );
    // Whatever bytes there are.
    let body: Vec<u8> = (0..1 << 20).map(|i| b'a' + (i % 26) as u8).collect();
    let reply = host.request("POST", "/", &[], &body).json();
    assert_eq!(reply["body"].as_str().map(str::as_bytes), Some(body.as_slice()));
}

#[test]
fn a_handler_can_learn_everything_of_its_endpoint() {
    let plugin = component("tests/metadata");
    let with = |model_name: &str, metadata: &str| {
        Host::with(Some(&plugin), Some(&model(model_name)), &["--metadata", metadata]).post("/", "{}").json()
    };
    let spec = |name: &str, datatype: &str, shape: &[i64]| json!({ "name": name, "datatype": datatype, "shape": shape });
    assert_eq!(
        with("iris_dyn", r#"{"labels": ["a"], "deep": {"x": [1.5, null]}}"#),
        json!({
            "metadata": { "labels": ["a"], "deep": { "x": [1.5, null] } },
            "signature": {
                "inputs": [spec("input", "FP32", &[-1, 4])],
                "outputs": [spec("label", "INT64", &[-1]), spec("probabilities", "FP32", &[-1, 3])],
            },
        })
    );
    let add = with("add", "7");
    assert_eq!(add["signature"]["inputs"], json!([spec("a", "FP32", &[2]), spec("b", "FP32", &[2])]));
    assert_eq!(add["metadata"], 7);
    // Neither is there.
    assert_eq!(
        Host::with(Some(&plugin), None, &[]).post("/", "{}").json(),
        json!({ "metadata": null, "signature": { "inputs": [], "outputs": [] } })
    );
}
