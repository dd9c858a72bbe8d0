//! TensorFlow Serving, KServe's first protocol and Truss: `/v1/models/…`.

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, assert_close, clients, component, model, root};
use serde_json::{Value, json};

const ONE: [f64; 3] = [0.9819308, 0.0180693, 1.737e-8];
const OTHER: [f64; 3] = [5.59e-5, 0.0800746, 0.9198695];
const FLOWERS: &str = "[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]";

/// A bare model.
fn bare(name: &str) -> Host {
    Host::with(None, Some(&model(name)), &["--name", "m"])
}

/// A model of Truss's: the handler alone.
fn truss() -> Host {
    Host::with(Some(&component("tests/truss")), None, &["--name", "m"])
}

/// Truss's code of an error; what has one has its source too.
fn truss_code(reply: &Reply) -> Option<&str> {
    let (source, code) = (reply.header("x-baseten-error-source"), reply.header("x-baseten-error-code"));
    assert_eq!(source.is_some(), code.is_some(), "{:?}", reply.headers);
    assert!(source.is_none_or(|source| source == "04"));
    code
}

fn order(host: &Host, order: &str) {
    let url = format!("{}/admin/v1/endpoints/m/models/default/{order}", host.admin);
    assert_eq!(e2e::request("POST", &url, &[], b"").status, 200);
}

#[test]
fn rows_and_columns() {
    let host = bare("iris_dyn");
    let predictions: Vec<Value> = [(0, ONE), (2, OTHER)]
        .iter()
        .map(|(label, p)| json!({ "label": label, "probabilities": p }))
        .collect();
    let rows = json!({ "predictions": predictions });
    let columns = json!({ "outputs": { "label": [0, 2], "probabilities": [ONE, OTHER] } });
    for (body, expected) in [
        (format!(r#"{{"instances": {FLOWERS}}}"#), &rows),
        (format!(r#"{{"signature_name": "serving_default", "instances": {FLOWERS}}}"#), &rows),
        (r#"{"instances":[{"input":[5.2,3.6,1.4,0.3]},{"input":[6.7,3.0,5.2,2.3]}]}"#.to_owned(), &rows),
        (format!(r#"{{"inputs": {FLOWERS}}}"#), &columns),
        (format!(r#"{{"inputs": {{"input": {FLOWERS}}}}}"#), &columns),
        (FLOWERS.to_owned(), &json!([[0, 2], [ONE, OTHER]])),
    ] {
        for path in ["m:predict", "m/versions/1:predict", "model:predict", "m:predict_binary"] {
            let reply = host.post(&format!("/v1/models/{path}"), &body);
            assert_eq!(
                (reply.status, reply.header("content-type")),
                (200, Some("application/json")),
                "{body}"
            );
            assert_eq!(truss_code(&reply), None);
            assert_close(&reply.json(), expected);
        }
    }
    // On the endpoint's own path the form is the endpoint's own.
    host.post("/m", format!(r#"{{"inputs": {FLOWERS}}}"#)).error(400, "invalid_input", "pre_inference");
    // What `curl --data` says of its JSON.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = format!(r#"{{"instances": {FLOWERS}}}"#);
    assert_eq!(host.request("POST", "/v1/models/m:predict", &form, body.as_bytes()).status, 200);
}

#[test]
fn one_output_is_bare_and_several_inputs_have_names() {
    for (name, body, expected) in [
        ("add", r#"{"instances":[{"a":[1,2],"b":[3,4]}]}"#, r#"{"predictions":[[4.0,6.0]]}"#),
        ("add", r#"{"inputs":{"a":[1,2],"b":[3,4]}}"#, r#"{"outputs":[4.0,6.0]}"#),
        (
            "identity_bytes",
            r#"{"instances":["hé",{"b64":"/w=="}]}"#,
            r#"{"predictions":["hé",{"b64":"/w=="}]}"#,
        ),
        ("identity_int64", r#"{"instances":[9007199254740993]}"#, r#"{"predictions":[9007199254740993]}"#),
        ("identity_fp32", r#"{"inputs":[0.1,-2]}"#, r#"{"outputs":[0.1,-2.0]}"#),
    ] {
        // ONNX strings are text: what is none is refused by the model, so only what is text comes back.
        let reply = bare(name).post("/v1/models/m:predict", body);
        if body.contains("b64") {
            assert_eq!(reply.status, 400, "{}", reply.text());
            continue;
        }
        assert_eq!((reply.status, reply.text().as_str()), (200, expected), "{name}: {body}");
    }
    let text = bare("identity_bytes").post("/v1/models/m:predict", r#"{"instances":["a",{"b64":"aMOp"}]}"#);
    assert_eq!(text.text(), r#"{"predictions":["a","hé"]}"#);
}

#[test]
fn what_is_wrong_is_named() {
    let host = bare("add");
    for (body, expected) in [
        (
            r#"{"instances":[{"a":[1,2],"b":[3,4]},{"a":[1,2],"b":[3,"x"]}]}"#,
            r#"instance 1: key "b": element 1: cannot convert "x" to FP32"#,
        ),
        (r#"{"instances":[{"a":[1,2]}]}"#, r#"instance 0: missing key "b""#),
        (r#"{"instances":[]}"#, "`instances` is empty"),
        (r#"{"instances":[],"inputs":[]}"#, "expected one of `instances` and `inputs`, got both"),
        (
            r#"{"instances":[{"a":[1,2],"b":[3,4]},{"a":[1,2],"b":[3,4]}]}"#,
            "input `a`: expected FP32 [2], got FP32 [2, 2]",
        ),
        (
            r#"{"inputs":{"a":[1,2],"b":[3,4]},"signature_name":"other"}"#,
            "there is no signature `other`; the model is served by `serving_default`",
        ),
    ] {
        let reply = host.post("/v1/models/m:predict", body);
        assert_eq!(reply.error(400, "invalid_input", "pre_inference"), expected, "{body}");
        assert_eq!(truss_code(&reply), Some("700"));
    }
    // An answer that is nobody's row.
    let host = bare("sum");
    let reply = host.post("/v1/models/m:predict", r#"{"instances":[1,2,3]}"#);
    let text = reply.error(400, "invalid_input", "post_inference");
    assert!(text.ends_with("has no row for each of 3 instances: send `inputs` instead"), "{text}");
}

#[test]
fn a_model_tells_what_it_is() {
    let host = bare("iris_dyn");
    let version = json!({
        "version": "1", "state": "AVAILABLE", "status": { "error_code": "OK", "error_message": "" },
    });
    let ready = json!({ "name": "m", "ready": true, "model_version_status": [version] });
    for path in ["m", "m/versions/1", "model"] {
        let reply = host.get(&format!("/v1/models/{path}"));
        assert_eq!((reply.status, reply.json()), (200, ready.clone()), "{path}");
    }
    assert_eq!(host.get("/v1/models").json(), json!({ "models": ["m"] }));
    assert_eq!(host.get("/v1/models/m/loaded").text(), "{}");
    let metadata = host.get("/v1/models/m/versions/1/metadata").json();
    let signature = &metadata["metadata"]["signature_def"]["signature_def"]["serving_default"];
    let dims =
        |dims: &[&str]| dims.iter().map(|size| json!({ "size": size, "name": "" })).collect::<Vec<_>>();
    let input = json!({
        "name": "input", "dtype": "DT_FLOAT", "tensor_shape": { "dim": dims(&["-1", "4"]), "unknown_rank": false },
    });
    assert_eq!(signature["inputs"], json!({ "input": input }));
    assert_eq!(signature["outputs"]["label"]["dtype"], "DT_INT64");
    assert_eq!(metadata["model_spec"], json!({ "name": "m", "signature_name": "", "version": "1" }));

    // T2: unloaded, it is neither ready nor loaded, and a call says so.
    order(&host, "unload");
    for path in ["m", "model", "m/loaded", "m/metadata"] {
        let reply = host.get(&format!("/v1/models/{path}"));
        assert_eq!(reply.error(503, "model_unloaded", "admit"), "model `m` is not loaded");
        assert_eq!((truss_code(&reply), reply.header("retry-after")), (Some("600"), Some("1")));
    }
    let reply = host.post("/v1/models/m:predict", r#"{"instances":[[1,2,3,4]]}"#);
    reply.error(503, "model_unloaded", "admit");
    assert_eq!(truss_code(&reply), Some("600"));
    order(&host, "load");
    assert_eq!(host.get("/v1/models/m/loaded").status, 200);
}

#[test]
fn names_versions_and_signatures_that_are_not_there() {
    let path = root().join("tests/models/savedmodels/multi_signature_tf2");
    let endpoint = |(name, settings)| Endpoint::new(name).model_at(&path, settings);
    let host = Setup::of([("one", ""), ("two", "signature_key = 'a'")].map(endpoint)).serve();
    for (method, path, expected) in [
        ("GET", "three", "there is no model `three`"),
        ("POST", "three:predict", "there is no model `three`"),
        // With several, the name that stands for any stands for none.
        ("GET", "model", "there is no model `model`"),
        ("POST", "model:predict", "there is no model `model`"),
        ("GET", "one/versions/9", "model `one` is served in version 1, not `9`"),
        ("POST", "one/versions/9:predict", "model `one` is served in version 1, not `9`"),
        ("POST", "one:explain", "no endpoint at `/v1/models/one:explain`"),
        ("POST", "three:classify", "there is no model `three`"),
        ("POST", "one/versions/9:regress", "model `one` is served in version 1, not `9`"),
        ("GET", "one/x", "no endpoint at `/v1/models/one/x`"),
        ("POST", "one/", "no endpoint at `/v1/models/one/`"),
    ] {
        let reply = host.request(method, &format!("/v1/models/{path}"), &[], b"{}");
        assert_eq!(reply.error(404, "not_found", "admit"), expected, "{method} {path}");
        assert_eq!(truss_code(&reply), Some("700"));
    }
    assert_eq!(host.get("/v1/models").json(), json!({ "models": ["one", "two"] }));
    let call = |name: &str, signature: &str| {
        let body = format!(r#"{{"instances":[1,2,3],"signature_name":"{signature}"}}"#);
        host.post(&format!("/v1/models/{name}:predict"), body)
    };
    assert_eq!(call("two", "a").text(), r#"{"predictions":[2.0,4.0,6.0]}"#);
    assert_eq!(call("two", "").status, 200);
    let text = call("two", "serving_default").error(400, "invalid_input", "pre_inference");
    assert_eq!(text, "there is no signature `serving_default`; the model is served by `a`");
}

#[test]
fn methods_that_are_not_there() {
    let host = bare("iris_dyn");
    // T30
    let reply = host.get("/v1/models/m:predict");
    let text = reply.error(405, "method_not_allowed", "admit");
    assert_eq!(text, "`/v1/models/m:predict` does not answer `GET`");
    assert_eq!((truss_code(&reply), reply.header("allow")), (Some("700"), Some("OPTIONS, POST")));
    for verb in ["classify", "regress"] {
        let path = format!("/v1/models/m:{verb}");
        let reply = host.get(&path);
        reply.error(405, "method_not_allowed", "admit");
        assert_eq!((truss_code(&reply), reply.header("allow")), (Some("700"), Some("OPTIONS, POST")));
        let preflight = host.request("OPTIONS", &path, &[], b"");
        assert_eq!((preflight.status, preflight.header("allow")), (204, Some("OPTIONS, POST")));
    }
    for path in ["m", "m/loaded", "m/schema", "m/metadata"] {
        let reply = host.post(&format!("/v1/models/{path}"), "{}");
        reply.error(405, "method_not_allowed", "admit");
        assert_eq!(reply.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    host.request("DELETE", "/v1/models/m:predict", &[], b"").error(405, "method_not_allowed", "admit");
    let preflight =
        host.request("OPTIONS", "/v1/models/m:predict", &[("access-control-request-headers", "x-a")], b"");
    assert_eq!((preflight.status, preflight.header("access-control-allow-headers")), (204, Some("x-a")));
}

#[test]
fn a_handler_takes_the_whole_body() {
    let host = truss();
    let call = |body: &str| host.post("/v1/models/model:predict", body);
    // T3, T5, and what would be another's form.
    for body in [r#"{"a":1}"#, "null", r#"{"inputs":2,"instances":[1]}"#, r#""text""#] {
        let reply = call(body);
        assert_eq!((reply.status, reply.text().as_str()), (200, body));
        assert!(reply.header("x-handler-digest").is_some());
    }
    // T4: checked before any handler sees it.
    for (body, expected) in [
        ("{bad", "Invalid JSON payload: key must be a string at line 1 column 2"),
        ("", "Invalid JSON payload: EOF while parsing a value at line 1 column 0"),
        ("{} x", "Invalid JSON payload: trailing characters at line 1 column 4"),
    ] {
        let reply = call(body);
        assert_eq!(reply.error(400, "invalid_input", "admit"), expected);
        assert_eq!(truss_code(&reply), Some("700"));
    }
    let series = r#"modelhost_requests_total{endpoint="m",outcome="invalid_input"}"#;
    assert_eq!(host.metric(series), 3.0);
    // A handler's own answers.
    for (status, code) in [(201, None), (204, None), (400, Some("700")), (418, Some("700"))] {
        let reply = call(&json!({ "status": status }).to_string());
        assert_eq!((reply.status, truss_code(&reply)), (status, code));
    }
    assert_eq!(host.get("/v1/models/m").status, 200);
    assert_eq!(host.get("/v1/models/m/loaded").text(), "{}");
    // T18, untyped.
    let reply = host.get("/v1/models/m/schema");
    assert_eq!(reply.error(404, "not_found", "admit"), "No schema found");
    assert_eq!(truss_code(&reply), Some("700"));
}

#[test]
fn a_schema_is_told_and_checked_in_trusss_words() {
    let host = Host::with(Some(&component("tests/greet")), None, &["--name", "m"]);
    // T18, typed.
    let schema = host.get("/v1/models/m/schema").json();
    assert_eq!(schema["input_schema"]["required"], json!(["prompt"]));
    assert_eq!(schema["input_schema"]["properties"]["prompt"]["type"], "string");
    assert_eq!(schema["input_schema"]["properties"]["times"]["type"], "integer");
    assert_eq!((&schema["output_schema"], &schema["supports_streaming"]), (&Value::Null, &json!(false)));
    // T17.
    let call = |body: &str| host.post("/v1/models/m:predict", body);
    assert_eq!(call(r#"{"prompt":"ab","times":2}"#).json(), json!({ "out": "ab!ab!" }));
    for (body, expected) in [
        ("{}", "Input Parsing Error:\n  `prompt`: Field required."),
        (
            r#"{"prompt":1,"times":"z"}"#,
            "Input Parsing Errors:\n  `prompt`: Input should be a valid string.\n  `times`: Input should be a \
             valid integer, unable to parse string as an integer.",
        ),
    ] {
        let reply = call(body);
        assert_eq!(reply.error(400, "invalid_input", "pre_inference"), expected);
        assert_eq!(truss_code(&reply), Some("700"));
    }
}

#[test]
fn every_kind_of_failure_has_trusss_code() {
    let flower = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
    // A handler in front of a model, and a way to be called as ever.
    let iris = Host::with(Some(&component("iris-wasm")), Some(&model("iris_dyn")), &["--name", "m"]);
    assert_eq!(iris.post("/v1/models/m:predict", flower).json()["class_label"], "iris-setosa");
    let reply = iris.post("/v1/models/m:predict", r#"{"instances":[1]}"#);
    reply.error(400, "invalid_input", "pre_inference");
    assert_eq!(truss_code(&reply), Some("700"));

    let trap =
        Host::with(Some(&component("tests/spin_pre")), None, &["--name", "m", "--pre-timeout", "50ms"]);
    let reply = trap.post("/v1/models/m:predict", r#""spin""#);
    reply.error(504, "plugin_timeout", "pre_inference");
    assert_eq!(truss_code(&reply), Some("600"));
    assert_eq!(trap.post("/v1/models/m:predict", r#""other""#).status, 200);

    let small = Host::with(Some(&component("tests/truss")), None, &["--name", "m", "--body", "1KiB"]);
    let reply = small.post("/v1/models/m:predict", format!("\"{}\"", "x".repeat(2000)));
    reply.error(413, "body_too_large", "admit");
    assert_eq!(truss_code(&reply), Some("700"));

    let gather = bare("gather");
    let reply = gather.post("/v1/models/m:predict", r#"{"instances":[0,5]}"#);
    reply.error(500, "model_error", "infer");
    assert_eq!(truss_code(&reply), Some("600"));
}

#[test]
fn messagepack_in_and_out() {
    let host = truss();
    let send = |content_type: &str, verb: &str, body: &[u8]| {
        let path = format!("/v1/models/model:{verb}");
        host.request("POST", &path, &[("content-type", content_type)], body)
    };
    // T29
    let body = b"\x82\xa6prompt\xa2ab\xa1n\x02";
    for content_type in ["application/octet-stream", "Application/Octet-Stream; x=1"] {
        for verb in ["predict", "predict_binary"] {
            let reply = send(content_type, verb, body);
            assert_eq!(reply.body, b"\x81\xaegenerated_text\xa4abab", "{}", reply.text());
            assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/octet-stream")));
        }
    }
    for (body, expected) in [
        (&b"\x82\xa6pro"[..], "the document breaks off"),
        (b"", "the document breaks off"),
        (b"\xdd\xff\xff\xff\xff", "the document breaks off"),
        (b"{\"a\": 1}", "7 bytes after the end of the document"),
        (b"\xd4\x01\x00", "an extension has no form in JSON"),
        (&[0x91; 1 << 20], "nested deeper than 100"),
    ] {
        let reply = send("application/octet-stream", "predict", body);
        let text = reply.error(400, "invalid_input", "admit");
        assert_eq!(text, format!("Invalid MessagePack payload: {expected}"));
        assert_eq!(truss_code(&reply), Some("700"));
    }
    // Errors and what is no success are JSON, and so is the answer to JSON.
    let reply = send("application/octet-stream", "predict", b"\x81\xa6status\xcd\x01\xa2");
    assert_eq!((reply.status, reply.json()), (418, json!({ "status": 418 })));
    assert_eq!(send("application/json", "predict_binary", b"[1]").text(), "[1]");

    // A small document whose JSON is long: 30 brackets around each of its bytes.
    let small = Host::with(Some(&component("tests/truss")), None, &["--name", "m", "--body", "2KiB"]);
    let mut bomb = b"\x85\xa2nd\xc3\xa4type\xa3|u1\xa4kind\xa0\xa5shape\xdc\x00\x1f\xcd\x03\xe8".to_vec();
    bomb.extend([1; 30]);
    bomb.extend(b"\xa4data\xc5\x03\xe8");
    bomb.extend([0; 1000]);
    let reply =
        small.request("POST", "/v1/models/m:predict", &[("content-type", "application/octet-stream")], &bomb);
    let text = reply.error(413, "body_too_large", "admit");
    assert_eq!(text, "Invalid MessagePack payload: the document is longer than 16384 bytes as JSON");
    assert_eq!(small.post("/v1/models/m:predict", "[1]").text(), "[1]");

    // For a bare model too.
    let iris = bare("iris_dyn");
    let mut body =
        b"\x81\xa6inputs\x85\xa2nd\xc3\xa4type\xa3<f4\xa4kind\xc4\x00\xa5shape\x92\x01\x04\xa4data\xc4\x10"
            .to_vec();
    body.extend([5.2f32, 3.6, 1.4, 0.3].iter().flat_map(|float| float.to_le_bytes()));
    let reply =
        iris.request("POST", "/v1/models/m:predict", &[("content-type", "application/octet-stream")], &body);
    assert!(
        reply.body.starts_with(b"\x81\xa7outputs\x82\xa5label\x91\x00\xadprobabilities\x91\x93\xcb"),
        "{}",
        reply.text()
    );
}

#[test]
fn a_client_with_numpy() {
    let host = truss();
    clients::run("truss", &[&host.url, "model"]);
}
