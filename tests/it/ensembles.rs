//! Ensembles: models of an endpoint joined by the names of tensors, without code.

use std::time::{Duration, Instant};

use e2e::oip::{infer, input, outputs};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, assert_close, clients, component, model, request};
use serde_json::{Value, json};

/// `(x + y) + x` and `(x + y) + y`, by steps that are in no order.
const DIAMOND: &str = r#"
inputs = ["x", "y"]
outputs = ["left", "right"]
steps = [
  { model = "third", input_map = { a = "both", b = "y" }, output_map = { sum = "right" } },
  { model = "second", input_map = { a = "both", b = "x" }, output_map = { sum = "left" } },
  { model = "first", input_map = { a = "x", b = "y" }, output_map = { sum = "both" } },
]"#;

fn diamond(name: &str) -> Endpoint {
    let models = ["first", "second", "third"];
    let endpoint = Endpoint::new(name).table("ensemble", DIAMOND);
    models.into_iter().fold(endpoint, |endpoint, model| endpoint.named_model(model, "add", ""))
}

fn ask(host: &Host, path: &str, x: [f32; 2], y: [f32; 2]) -> Value {
    let reply = host.post(path, json!({"x": x, "y": y}).to_string());
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[test]
fn an_ensemble_is_a_model_to_every_protocol() {
    let setup = Setup::of([diamond("sums"), Endpoint::new("neighbour").model("add")]);
    let host = setup.arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    let (left, right) = (json!([12.0, 24.0]), json!([21.0, 42.0]));
    assert_eq!(ask(&host, "/sums", [1.0, 2.0], [10.0, 20.0]), json!([left, right]));
    let body = json!({"inputs": {"x": [1.0, 2.0], "y": [10.0, 20.0]}}).to_string();
    let reply = host.post("/v1/models/sums:predict", body).json();
    assert_eq!(reply, json!({"outputs": {"left": left, "right": right}}));
    let tensors =
        [input("x", "FP32", &[2], json!([1.0, 2.0])), input("y", "FP32", &[2], json!([10.0, 20.0]))];
    let reply = infer(&host, "sums", &json!({"inputs": tensors, "outputs": [{"name": "right"}]}));
    let output = json!({"name": "right", "datatype": "FP32", "shape": [2], "data": right});
    assert_eq!(outputs(&reply), json!([output]));
    clients::run("triton_grpc", &[host.grpc.as_deref().unwrap(), "ensemble"]);

    let described = host.get("/v2/models/sums").json();
    assert_eq!(described["platform"], "ensemble");
    let tensor = |name: &str| json!({"name": name, "datatype": "FP32", "shape": [2]});
    assert_eq!(described["inputs"], json!([tensor("x"), tensor("y")]));
    assert_eq!(described["outputs"], json!([tensor("left"), tensor("right")]));
    let described = host.get("/sums").json();
    assert_eq!(described["model_signature"]["x"], json!({"shape": [2], "type": "float32"}));
    let tag = "Model `ensemble`. Model `first`. Model `second`. Model `third`.";
    assert!(host.get("/openapi.json").text().contains(tag));
    // Its models can be asked one by one, and what does not fit is said as of any model.
    let tensors = [input("a", "FP32", &[2], json!([1, 2])), input("b", "FP32", &[2], json!([3, 4]))];
    let reply = infer(&host, "sums.second", &json!({"inputs": tensors}));
    assert_eq!(outputs(&reply)[0]["data"], json!([4.0, 6.0]));
    let text = host.post("/sums", r#"{"x": [1, 2]}"#).error(400, "invalid_input", "pre_inference");
    assert!(text.contains("missing key \"y\""), "{text}");
    // One ensemble is one run.
    assert_eq!(host.metric("modelhost_batch_requests_count{endpoint=\"sums\"}"), 5.0);
}

/// One after the other, each would wait by itself for a second row that never comes.
#[test]
fn steps_that_do_not_need_each_other_run_together_in_one_batch() {
    let both = r#"
inputs = ["one", "other"]
outputs = ["first", "second"]
steps = [
  { model = "iris", input_map = { input = "one" }, output_map = { label = "first" } },
  { model = "iris", input_map = { input = "other" }, output_map = { label = "second" } },
]"#;
    let endpoint = Endpoint::new("both").table("ensemble", both).named_model("iris", "iris_dyn", "");
    let batching = "batching = { max_batch = 2, wait = 'always', max_delay = '20s' }";
    let host = Setup::of([endpoint.set(batching)]).serve();
    let begun = Instant::now();
    let reply = host.post("/both", r#"{"one": [[5.2, 3.6, 1.4, 0.3]], "other": [[6.7, 3.0, 5.2, 2.3]]}"#);
    assert_eq!((reply.status, reply.json()), (200, json!([[0], [2]])));
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn an_ensemble_stands_in_place_of_a_model_around_which_a_handler_is() {
    let steps = r#"
inputs = ["input"]
outputs = ["label", "probabilities"]
steps = [
  { model = "copy", input_map = { x = "input" }, output_map = { y = "copied" } },
  { model = "iris", input_map = { input = "copied" } },
]"#;
    let copy = Endpoint::new("copied").plugin(&component("iris-wasm")).table("ensemble", steps);
    let host = Setup::of([
        copy.named_model("copy", "unknown_rank", "").named_model("iris", "iris_dyn", ""),
        Endpoint::new("plain").plugin(&component("iris-wasm")).model("iris_dyn"),
    ])
    .serve();
    for width in [0.3, 1.4, 2.1] {
        let flower =
            json!({"sepal_length": 5.9, "sepal_width": 3.0, "petal_length": 4.2, "petal_width": width});
        let answers = ["/copied", "/plain"].map(|path| host.post(path, flower.to_string()));
        assert_eq!(answers[0].status, 200, "{}", answers[0].text());
        assert_eq!(answers[0].body, answers[1].body);
    }
}

#[test]
fn what_is_wrong_is_said_at_the_start_a_line_each() {
    let start = |table: &str, models: &[(&str, &str)]| {
        let endpoint = Endpoint::new("e").table("ensemble", table);
        let endpoint =
            models.iter().fold(endpoint, |endpoint, (name, model)| endpoint.named_model(name, model, ""));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), Setup::of([endpoint]).text()).unwrap();
        Host::try_serve(&["--config", file.path().to_str().unwrap()]).err().expect("it does not start").1
    };
    let models = [("add", "add"), ("ints", "identity_int64")];
    let log = start(
        r#"
inputs = ["x", "more"]
outputs = ["y"]
steps = [
  { model = "add", input_map = { a = "x", b = "x" }, output_map = { sum = "s", other = "t" } },
  { model = "ints", input_map = { x = "z" } },
  { model = "nothing" },
]"#,
        &models,
    );
    for line in [
        "endpoint `e`: ensemble: there is no model `nothing`; hint: there are `add`, `ints`",
        "endpoint `e`: ensemble: model `add` has no output `other`; hint: there are `sum`",
        "endpoint `e`: ensemble: input `x` of `ints` takes tensor `z`, which no step makes and which is none of `inputs`",
    ] {
        assert!(log.contains(line), "{line} in {log}");
    }
    let log = start(
        r#"
inputs = ["x"]
outputs = ["y"]
steps = [
  { model = "add", input_map = { a = "x", b = "x" }, output_map = { sum = "s" } },
  { model = "ints", input_map = { x = "s" } },
]"#,
        &models,
    );
    assert!(log.contains("tensor `s` is FP32 [2] from `add`, and input `x` of `ints` takes INT64"), "{log}");
    for (table, expected) in [
        ("inputs = ['x']\noutputs = ['y']", "has no `steps`; hint: write `{ model = \"NAME\""),
        ("inputs = ['x']\noutputs = []\nsteps = [{ model = 'add' }]", "is empty; hint: name one at least"),
        ("inputs = 'x'\noutputs = ['y']\nsteps = [{ model = 'add' }]", "is no list of names"),
        (
            "inputs = ['x']\noutputs = ['y']\nsteps = [{ modle = 'add' }]",
            "a step has no `modle`; hint: did you mean `model`?",
        ),
        ("input = ['x']", "unknown key; hint: did you mean `inputs`?"),
    ] {
        let log = start(table, &models);
        assert!(log.contains(expected), "{expected} in {log}");
    }
    let log = start("inputs = ['x']\noutputs = ['y']\nsteps = [{ model = 'add' }]", &[("ensemble", "add")]);
    assert!(log.contains("a model is called `ensemble` too"), "{log}");
}

#[test]
fn a_model_of_an_ensemble_comes_and_goes() {
    let host = Setup::of([diamond("sums"), diamond("neighbour")]).serve();
    let order = |model: &str, verb: &str| {
        let url = format!("{}/admin/v1/endpoints/sums/models/{model}/{verb}", host.admin);
        request("POST", &url, &[], b"")
    };
    assert_eq!(order("second", "unload").status, 200);
    let body = json!({"x": [1.0, 2.0], "y": [10.0, 20.0]}).to_string();
    host.post("/sums", &body).error(503, "model_unloaded", "admit");
    assert_eq!(ask(&host, "/neighbour", [1.0, 2.0], [1.0, 2.0]), json!([[3.0, 6.0], [3.0, 6.0]]));
    assert_eq!(host.get("/v2/models/sums/ready").status, 503);
    assert_eq!(order("second", "load").status, 200);
    assert_close(&ask(&host, "/sums", [1.0, 2.0], [10.0, 20.0]), &json!([[12.0, 24.0], [21.0, 42.0]]));
    assert_eq!(order("ensemble", "load").status, 404);
}

#[test]
fn a_model_that_does_not_fit_the_other_steps_is_not_published() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("second.onnx");
    std::fs::copy(model("identity_fp32"), &file).unwrap();
    let steps = r#"
inputs = ["a", "b"]
outputs = ["y"]
steps = [{ model = "add" }, { model = "second", input_map = { x = "sum" } }]"#;
    let endpoint = Endpoint::new("e").table("ensemble", steps).named_model("add", "add", "");
    let host = Setup::of([endpoint.set(format!("models.second = {file:?}"))]).serve();
    let ask = || host.post("/e", r#"{"a": [1, 2], "b": [3, 4]}"#).json();
    assert_eq!(ask(), json!([[4.0, 6.0]]));
    std::fs::copy(model("identity_int64"), &file).unwrap();
    let url = format!("{}/admin/v1/endpoints/e/models/second/load", host.admin);
    let reply = request("POST", &url, &[], b"");
    assert_ne!(reply.status, 200);
    assert!(reply.text().contains("tensor `sum` is FP32 [2] from `add`"), "{}", reply.text());
    assert_eq!(ask(), json!([[4.0, 6.0]]));
}
