//! The Open Inference Protocol over HTTP, in JSON: what goes to the model, to the handler, and comes back.

use e2e::oip::{infer, input, outputs, path};
use e2e::wire::Wire;
use e2e::{Host, assert_close, component, model, request, wait_until};
use serde_json::{Value, json};

/// What an endpoint with this bare model answers, under the model's name.
fn bare(name: &str) -> Host {
    Host::with(None, Some(&model(name)), &[])
}

/// A guest of the tests, with or without a model, called `m`.
fn guest(name: &str, model_name: Option<&str>) -> Host {
    let path = model_name.map(model);
    Host::with(Some(&component(&format!("tests/{name}"))), path.as_deref(), &["--name", "m"])
}

const ONE: [f64; 3] = [0.9819308, 0.0180693, 1.737e-8];

#[test]
fn a_model_is_asked_by_its_name_and_version() {
    let host = bare("iris_dyn");
    let flower = json!({
        "id": "flower 1",
        "inputs": [input("input", "FP32", &[1, 4], json!([5.2, 3.6, 1.4, 0.3]))],
    });
    for path in [
        "/v2/models/iris_dyn/infer",
        "/v2/models/iris_dyn/versions/1/infer",
        "/v2/models/iris%5Fdyn/infer",
        "/v2/models/iris%5Fdyn/versions/1/infer",
    ] {
        let reply = host.request("POST", path, &[("x-request-id", "r7")], flower.to_string().as_bytes());
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{path}");
        assert_eq!(reply.header("x-request-id"), Some("r7"));
        let expected = json!({
            "model_name": "iris_dyn", "model_version": "1", "id": "flower 1",
            "outputs": [
                { "name": "label", "datatype": "INT64", "shape": [1], "data": [0] },
                { "name": "probabilities", "datatype": "FP32", "shape": [1, 3], "data": ONE },
            ],
        });
        assert_close(&reply.json(), &expected);
    }
    assert!(infer(&host, "iris_dyn", &json!({ "inputs": flower["inputs"] })).json().get("id").is_none());

    let text = |path: &str| host.post(path, flower.to_string()).error(404, "not_found", "admit");
    assert_eq!(text("/v2/models/nobody/infer"), "there is no model `nobody`");
    assert_eq!(
        text("/v2/models/iris_dyn/versions/2/infer"),
        "model `iris_dyn` is served in version 1, not `2`"
    );
    let wrong = host.get("/v2/models/iris_dyn/infer");
    wrong.error(405, "method_not_allowed", "admit");
    assert_eq!(wrong.header("allow"), Some("POST,OPTIONS"));
    assert_eq!(request("OPTIONS", &format!("{}{}", host.url, path("iris_dyn")), &[], &[]).status, 204);
}

#[test]
fn outputs_come_as_they_are_asked_for() {
    let host = bare("iris_dyn");
    let ask = |outputs: Value| {
        let inputs = [input("input", "FP32", &[1, 4], json!([[5.2, 3.6, 1.4, 0.3]]))];
        infer(&host, "iris_dyn", &json!({ "inputs": inputs, "outputs": outputs }))
    };
    let names = |outputs: Value| -> Vec<Value> {
        let outputs = e2e::oip::outputs(&ask(outputs));
        outputs.as_array().unwrap().iter().map(|output| output["name"].clone()).collect()
    };
    assert_eq!(names(json!([])), ["label", "probabilities"]);
    assert_eq!(names(json!([{ "name": "probabilities" }])), ["probabilities"]);
    assert_eq!(names(json!([{ "name": "probabilities" }, { "name": "label" }])), ["probabilities", "label"]);
    let refused = |outputs: Value| ask(outputs).error(400, "invalid_input", "post_inference");
    let text = refused(json!([{ "name": "label" }, { "name": "x" }]));
    assert_eq!(text, "there is no output `x`; there are `label`, `probabilities`");
    assert_eq!(refused(json!([{ "name": "label" }, { "name": "label" }])), "output `label`: asked for twice");
}

#[test]
fn every_datatype_comes_back_as_it_went_in() {
    let cases: [(&str, Value); 14] = [
        ("BOOL", json!([true, false])),
        ("UINT8", json!([0, 255])),
        ("UINT16", json!([0, 65535])),
        ("UINT32", json!([0, 4_294_967_295_u32])),
        ("UINT64", json!([0, u64::MAX])),
        ("INT8", json!([-128, 127])),
        ("INT16", json!([-32768, 32767])),
        ("INT32", json!([i32::MIN, i32::MAX])),
        ("INT64", json!([i64::MIN, i64::MAX])),
        ("FP16", json!([0.5, -65504.0])),
        ("BF16", json!([0.5, -2.0])),
        ("FP32", json!([1.5, -0.25])),
        ("FP64", json!([0.1, 1.7976931348623157e308])),
        ("BYTES", json!(["hé", ""])),
    ];
    for (datatype, data) in cases {
        let host = bare(&format!("identity_{}", datatype.to_lowercase()));
        let name = format!("identity_{}", datatype.to_lowercase());
        let reply = infer(&host, &name, &json!({ "inputs": [input("x", datatype, &[2], data.clone())] }));
        assert_eq!(
            outputs(&reply),
            json!([{ "name": "y", "datatype": datatype, "shape": [2], "data": data }])
        );
    }
}

#[test]
fn halves_are_rounded_to_the_nearest() {
    for (datatype, expected) in [("FP16", 0.099975586), ("BF16", 0.100097656)] {
        let name = format!("identity_{}", datatype.to_lowercase());
        let reply =
            infer(&bare(&name), &name, &json!({ "inputs": [input("x", datatype, &[1], json!([0.1]))] }));
        assert_eq!(outputs(&reply)[0]["data"], json!([expected]));
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let host = bare("add");
    let refused = |inputs: Value, stage: &str| {
        infer(&host, "add", &json!({ "inputs": inputs })).error(400, "invalid_input", stage)
    };
    let a = || input("a", "FP32", &[2], json!([1, 2]));
    let b = |datatype: &str, shape: &[i64], data: Value| json!([a(), input("b", datatype, shape, data)]);
    let fits = json!({ "inputs": b("FP32", &[2], json!([3, 4])) });
    assert_eq!(outputs(&infer(&host, "add", &fits))[0]["data"], json!([4.0, 6.0]));
    for (inputs, stage, expected) in [
        // As long as its shape says, of another datatype, of another shape, beyond the datatype's range.
        (
            b("FP32", &[3], json!([1, 2])),
            "admit",
            "input `b`: shape [3] does not have the 2 elements of `data`",
        ),
        (b("INT64", &[2], json!([1, 2])), "pre_inference", "input `b`: expected FP32 [2], got INT64 [2]"),
        (b("FP32", &[3], json!([1, 2, 3])), "pre_inference", "input `b`: expected FP32 [2], got FP32 [3]"),
        (b("INT8", &[2], json!([1, 768])), "admit", "input `b`: element 1: 768 is out of range for INT8"),
        (json!([a()]), "pre_inference", "input `b`: missing, expected FP32 [2]"),
        (json!([a(), a()]), "admit", "input `a`: given twice"),
        (
            json!([a(), input("c", "FP32", &[2], json!([1, 2]))]),
            "pre_inference",
            "tensor `c` names no input; the model takes `a`, `b`",
        ),
    ] {
        assert_eq!(refused(inputs, stage), expected);
    }
    let free = bare("identity_fp32");
    let three = json!({ "inputs": [input("x", "FP32", &[3], json!([1, 2, 3]))] });
    assert_eq!(outputs(&infer(&free, "identity_fp32", &three))[0]["shape"], json!([3]));
}

#[test]
fn hostile_json_is_refused_and_nobody_else_notices() {
    let host = Host::with(None, Some(&model("identity_fp32")), &["--name", "m", "--body", "1MiB"]);
    let good = json!({ "inputs": [input("x", "FP32", &[1], json!([1]))] });
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let with = |data: &str, shape: &str| {
        format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":{shape},"data":{data}}}]}}"#)
    };
    let many: Vec<String> =
        (0..9000).map(|n| format!(r#"{{"name":"{n}","datatype":"INT8","shape":[],"data":1}}"#)).collect();
    for body in [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        deep(400_000),
        format!(r#"{{"inputs":{}}}"#, deep(400_000)),
        with(&deep(400_000), "[1]"),
        with(&deep(33), "[1]"),
        with("[1]", &deep(1000)),
        with("[1]", &format!("[{}]", ["1"; 100_000].join(","))),
        with("[]", "[9223372036854775807,9223372036854775807,4]"),
        with("[1]", "[-1]"),
        with("[1]", "[1.0]"),
        with(r#"["1"]"#, "[1]"),
        with("[1e39]", "[1]"),
        with("[nan]", "[1]"),
        format!("{} ", with("[1]", "[1]").replace("\"x\"", "NaN")),
        format!(r#"{{"inputs":[{}]}}"#, many.join(",")),
        r#"{"inputs":[],"inputs":[]}"#.to_owned(),
        r#"{"inputs":[],"parameters":[]}"#.to_owned(),
        r#"{"inputs":[],"id":7}"#.to_owned(),
    ] {
        let reply = host.post(&path("m"), &body);
        assert_eq!((reply.status, &reply.json()["code"]), (400, &json!("invalid_input")), "{}", reply.text());
        assert_eq!(infer(&host, "m", &good).status, 200);
    }
    let mut wire = Wire::connect(&host.url).unwrap();
    let head = format!("POST {} HTTP/1.1\r\nhost: test\r\ncontent-length: 1048577\r\n\r\n", path("m"));
    wire.send(head.as_bytes()).unwrap();
    wire.read().unwrap().error(413, "body_too_large", "admit");
    assert_eq!(infer(&host, "m", &good).status, 200);
}

/// The handler of the example reads bodies made for people. Where the operator says so, tensors pass it by.
#[test]
fn bare_tensors_pass_a_handler_by_that_reads_bodies() {
    let host = Host::with(
        Some(&component("iris-wasm")),
        Some(&model("iris_static")),
        &["--name", "iris", "--bare-tensors"],
    );
    let reply = infer(
        &host,
        "iris",
        &json!({ "inputs": [input("input", "FP32", &[1, 4], json!([5.2, 3.6, 1.4, 0.3]))] }),
    );
    let expected = json!([{ "name": "probabilities", "datatype": "FP32", "shape": [1, 3], "data": ONE }]);
    assert_close(&outputs(&reply), &expected);
    assert_eq!(reply.header("x-handler-digest"), host.endpoint("iris")["digest"].as_str());
    let body = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
    assert_eq!(host.post("/iris", body).json()["class_label"], "iris-setosa");
}

#[test]
fn tensors_go_to_a_handler_that_asks_for_them() {
    for model in [Some("identity_fp32"), None] {
        let host = guest("tensors", model);
        let ask = |more: Value| {
            let mut request = json!({ "inputs": [input("x", "FP32", &[2], json!([1, 2.5]))] });
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            infer(&host, "m", &request)
        };
        let name = if model.is_some() { "y" } else { "x" };
        let doubled = json!({ "name": name, "datatype": "FP32", "shape": [2], "data": [2.0, 5.0] });
        let parameters =
            |text: &str| json!({ "name": "parameters", "datatype": "BYTES", "shape": [1], "data": [text] });
        assert_eq!(outputs(&ask(json!({}))), json!([doubled, parameters("{}")]));
        let own = json!({ "parameters": { "own": [1, "a"], "priority": 3 } });
        assert_eq!(outputs(&ask(own)), json!([doubled, parameters(r#"{"own":[1,"a"],"priority":3}"#)]));
        // An output that only the handler knows can be asked for like any other.
        let only = json!({ "outputs": [{ "name": "parameters" }] });
        assert_eq!(outputs(&ask(only)), json!([parameters("{}")]));
        // What the handler says itself is said as it says it.
        for status in [418, 200] {
            let reply = ask(json!({ "parameters": { "refuse": status } }));
            assert_eq!((reply.status, reply.text().as_str()), (status, "teapot"));
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        }
    }
}

#[test]
fn a_handler_alone_that_reads_bodies_gets_an_object_and_its_object_becomes_tensors() {
    let host = guest("greet", None);
    let prompt = || input("prompt", "BYTES", &[1], json!(["hi"]));
    let out = |text: &str| json!({ "name": "out", "datatype": "BYTES", "shape": [1], "data": [text] });
    let once = json!({ "name": "once", "datatype": "BOOL", "shape": [1], "data": [true] });
    assert_eq!(outputs(&infer(&host, "m", &json!({ "inputs": [prompt()] }))), json!([once, out("hi!")]));
    let twice = json!({ "inputs": [prompt(), input("times", "INT32", &[1], json!([2]))] });
    assert_eq!(outputs(&infer(&host, "m", &twice)), json!([out("hi!hi!")]));
    // The handler's own errors are errors here too.
    infer(&host, "m", &json!({ "inputs": [] })).error(400, "invalid_input", "pre_inference");
    let text = infer(&guest("values", None), "m", &json!({ "inputs": [] })).error(
        400,
        "invalid_input",
        "post_inference",
    );
    assert_eq!(text, "no value is called `{}`");
}

#[test]
fn statistics_say_where_the_time_went() {
    let host = Host::with(None, Some(&model("slow")), &["--name", "m"]);
    let of = |path: &str| host.get(path).json()["model_stats"][0].clone();
    let before = of("/v2/models/m/stats");
    assert_eq!(
        (&before["name"], &before["version"], &before["last_inference"]),
        (&json!("m"), &json!("1"), &json!(0))
    );
    let good = json!({ "inputs": [input("x", "FP32", &[1], json!([0.5]))] });
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    for _ in 0..3 {
        assert_eq!(infer(&host, "m", &good).status, 200);
    }
    infer(&host, "m", &json!({ "inputs": [] })).error(400, "invalid_input", "pre_inference");
    // An answer is on its way before it is counted.
    wait_until("four requests to be counted", || {
        of("/v2/models/stats")["inference_stats"]["fail"]["count"] == 1
    });
    let after = of("/v2/models/m/versions/1/stats");
    assert_eq!((&after["inference_count"], &after["execution_count"]), (&json!(3), &json!(3)));
    assert!(u128::from(after["last_inference"].as_u64().unwrap()) >= started, "{after}");
    let stats = &after["inference_stats"];
    let timing = |name: &str| (stats[name]["count"].as_u64().unwrap(), stats[name]["ns"].as_u64().unwrap());
    for (name, count) in [
        ("success", 3),
        ("fail", 1),
        ("queue", 3),
        ("compute_input", 3),
        ("compute_infer", 3),
        ("compute_output", 3),
    ] {
        assert_eq!(timing(name).0, count, "{name}: {stats}");
        assert!(timing(name).1 > 0, "{name}: {stats}");
    }
    // The model takes some milliseconds, and nothing else takes long.
    assert!(timing("compute_infer").1 > timing("success").1 / 2, "{stats}");
    assert!(timing("success").1 >= timing("compute_infer").1, "{stats}");
}
