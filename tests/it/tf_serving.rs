//! TensorFlow Serving over gRPC: its own client against a host, beside the Open Inference Protocol and REST; and examples
//! over REST.
//!
//! The client is `tests/clients/tf_serving.py`; the tests of gRPC run functions of it.

use std::fs;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, clients, model, root};
use serde_json::{Value, json};

/// A host that speaks gRPC.
fn serve(setup: Setup) -> Host {
    setup.arguments(&["--grpc-listen", "127.0.0.1:0"]).serve()
}

/// Runs a case of the client.
fn run(host: &Host, case: &str) {
    clients::run("tf_serving", &[host.grpc.as_ref().unwrap(), &host.url, case]);
}

/// An endpoint for one of the models that give back what they get, under the name of its datatype.
fn identity(name: &str) -> Endpoint {
    Endpoint::new(name).model(&format!("identity_{name}"))
}

const DATATYPES: [&str; 14] = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "fp16", "bf16", "fp32",
    "fp64", "bytes",
];

/// What the cases expect.
fn zoo() -> Setup {
    Setup::of(DATATYPES.map(identity)).endpoints([
        Endpoint::new("iris").model("iris_dyn"),
        Endpoint::new("add").model("add"),
        Endpoint::new("zipmap_text").model("zipmap_text"),
        Endpoint::new("tensors").guest("tensors"),
        Endpoint::new("orders").guest("orders"),
    ])
}

fn examples(name: &str, signature: &str) -> Endpoint {
    let path = root().join("tests/models/savedmodels/examples_tf1");
    Endpoint::new(name).model_at(&path, &format!("signature_key = '{signature}'"))
}

#[test]
fn its_own_client_gets_what_the_other_protocols_say() {
    let host = serve(zoo());
    for case in ["questions", "predict", "datatypes", "repeated", "examples"] {
        run(&host, case);
    }
    // A caller's mistakes are no failures of the server's.
    assert!(!host.log().contains("ERROR"), "{}", host.log());
}

#[test]
fn malformed_tensors_are_refused_and_harm_no_neighbour() {
    run(&serve(zoo()), "malformed");
}

#[test]
fn messages_have_bounds_whatever_they_stand_for() {
    let small = |name| identity(name).limits("body = '1MiB'");
    let host = serve(Setup::of([
        small("fp32"),
        small("bytes"),
        Endpoint::new("iris").model("iris_dyn"),
        Endpoint::new("add").model("add").limits("body = '4MiB'"),
        examples("parsed", "classify").limits("body = '1MiB'"),
    ]));
    let before = host.memory("VmHWM");
    run(&host, "limits");
    // The worst of them would have taken terabytes; what they are counted in takes some messages' lengths.
    assert!(host.memory("VmHWM") < before + (200 << 10), "{} kB", host.memory("VmHWM") - before);
}

#[test]
fn savedmodels_parse_examples_by_themselves() {
    run(&serve(Setup::of([examples("classes", "classify"), examples("numbers", "regress")])), "parsed");
}

/// A call of REST with examples.
fn rest(host: &Host, call: &str, body: &Value) -> Reply {
    host.post(&format!("/v1/models/{call}"), body.to_string())
}

/// The list of an answer, which is there under both names: that of TensorFlow Serving's documentation, and that of its answers.
fn result(reply: &Reply) -> Value {
    let mut answer = reply.json();
    assert_eq!((reply.status, &answer["result"]), (200, &answer["results"]), "{answer}");
    answer["result"].take()
}

/// `:classify` and `:regress` over REST say what `Classify` and `Regress` say over gRPC.
#[test]
fn examples_over_rest_are_classified_and_regressed() {
    let host = zoo().serve();
    let [first, second] = [json!([5.2, 3.6, 1.4, 0.3]), json!([6.7, 3.0, 5.2, 2.3])];
    let flowers = json!([{"input": first}, {"input": second}]);
    let predicted = rest(&host, "iris:predict", &json!({"inputs": [first, second]})).json();
    let row = |row: &Value| -> Value {
        row.as_array().unwrap().iter().enumerate().map(|(at, score)| json!([at.to_string(), score])).collect()
    };
    let expected: Value = predicted["outputs"]["probabilities"].as_array().unwrap().iter().map(row).collect();
    for (call, body) in [
        ("iris:classify", json!({"examples": flowers})),
        (
            "iris/versions/1:classify",
            json!({"examples": flowers, "signature_name": "serving_default", "x": 1}),
        ),
        // What an example does not have is the context's.
        ("iris:classify", json!({"context": {"input": first}, "examples": [{}, {"input": second}]})),
    ] {
        assert_eq!(result(&rest(&host, call, &body)), expected, "{call} {body}");
    }
    let named = result(&rest(&host, "zipmap_text:classify", &json!({"examples": [{"float_input": first}]})));
    let mut labels: Vec<&str> =
        named[0].as_array().unwrap().iter().map(|class| class[0].as_str().unwrap()).collect();
    labels.sort_unstable();
    assert_eq!(labels, ["setosa", "versicolor", "virginica"]);
    // A value alone is a list of one, and a whole number one of an FP type.
    let numbers = json!({"examples": [{"x": 0.5}, {"x": [-2]}]});
    assert_eq!(result(&rest(&host, "fp32:regress", &numbers)), json!([0.5, -2.0]));
    let special = host.post("/v1/models/fp32:regress", r#"{"examples": [{"x": NaN}]}"#);
    assert_eq!(result(&special), json!([null]));

    for (call, body, expected) in [
        ("iris:classify", json!({}), "the body has no `examples`"),
        ("iris:classify", json!({"examples": []}), "there are no examples in `examples`"),
        (
            "iris:classify",
            json!({"examples": [{"input": first}, {}]}),
            "example 1: feature `input`: it is missing",
        ),
        (
            "iris:classify",
            json!({"examples": flowers, "signature_name": "other"}),
            "there is no signature `other`; the model is served by `serving_default`",
        ),
        (
            "int8:classify",
            json!({"examples": [{"x": 300}]}),
            "example 0: feature `x`: 300 is out of range for INT8",
        ),
        (
            "orders:classify",
            json!({"examples": flowers}),
            "`orders` takes no examples: no signature names its inputs; hint: ask for a prediction",
        ),
        (
            "iris/labels/stable:classify",
            json!({"examples": flowers}),
            "versions have no labels here, so none is `stable`: send `version`, or neither for the one that is served",
        ),
    ] {
        let refused = rest(&host, call, &body);
        assert_eq!(refused.error(400, "invalid_input", "admit"), expected, "{call}");
        assert_eq!(refused.header("x-baseten-error-code"), Some("700"));
    }
    for (call, body, expected) in [
        (
            "iris:regress",
            json!({"examples": flowers}),
            "output `probabilities` of shape [2, 3] is no number for each of 2 examples",
        ),
        (
            "int8:classify",
            json!({"examples": [{"x": 3}]}),
            "the model makes no classification: it has no output `scores`, and not exactly one of floating-point numbers, \
             but `y`; hint: ask for a prediction",
        ),
    ] {
        assert_eq!(
            rest(&host, call, &body).error(400, "invalid_input", "post_inference"),
            expected,
            "{call}"
        );
    }
    // What is documented is what is answered.
    let document = host.get("/openapi.json").json();
    for call in ["iris:classify", "fp32:regress"] {
        let content = &document["paths"][format!("/v1/models/{call}")]["post"]["requestBody"]["content"];
        result(&rest(&host, call, &content["application/json"]["example"]));
    }
    assert_eq!(document["paths"]["/v1/models/orders:classify"], Value::Null);
}

/// Numbers without a decimal point are integers for a model that parses examples by itself, as TensorFlow Serving has them.
#[test]
fn examples_over_rest_are_parsed_by_savedmodels() {
    let host = Setup::of([examples("classes", "classify"), examples("numbers", "regress")]).serve();
    let expected =
        json!([[["low", 0.25], ["mid", 0.5], ["high", 0.75]], [["low", 0.5], ["mid", 1.0], ["high", 1.5]],]);
    let given = json!([{"x": [0.25, 0.5, 0.75]}, {"x": [1.0, 2.0, 3.0], "scale": 0.5}]);
    assert_eq!(result(&rest(&host, "classes:classify", &json!({"examples": given}))), expected);
    let context = json!({"x": [0.25, 0.5, 0.75], "scale": [0.1]});
    let body = json!({"context": context, "examples": [{"scale": 1.0}, given[1]]});
    assert_eq!(result(&rest(&host, "classes:classify", &body)), expected);
    let body = json!({"examples": given, "signature_name": "regress"});
    assert_eq!(result(&rest(&host, "numbers:regress", &body)), json!([1.5, 3.0]));
    let text = "the method of the model's signature is `tensorflow/serving/classify`, not `tensorflow/serving/regress`";
    let refused = rest(&host, "classes:regress", &json!({"examples": given}));
    assert_eq!(refused.error(400, "invalid_input", "admit"), text);
}

/// A context that is there for each of many examples is counted before it is copied.
#[test]
fn examples_over_rest_have_bounds_and_harm_no_neighbour() {
    let small = |name| identity(name).limits("body = '1MiB'");
    let host = Setup::of([
        small("fp32"),
        examples("parsed", "classify").limits("body = '1MiB'"),
        Endpoint::new("iris").model("iris_dyn"),
    ])
    .serve();
    let before = host.memory("VmHWM");
    let context = vec![0.5; 1 << 16];
    let body = json!({"context": {"x": context, "input": context}, "examples": vec![json!({}); 10_000]});
    for call in ["fp32:classify", "parsed:classify"] {
        let text = rest(&host, call, &body).error(413, "body_too_large", "admit");
        assert_eq!(text, "the inputs are longer than 1048576 bytes", "{call}");
        let neighbour = json!({"examples": [{"input": [5.2, 3.6, 1.4, 0.3]}]});
        assert_eq!(rest(&host, "iris:classify", &neighbour).status, 200);
    }
    assert!(host.memory("VmHWM") < before + (100 << 10), "{} kB", host.memory("VmHWM") - before);
}

#[test]
fn a_model_that_is_unloaded_says_so() {
    let host = serve(Setup::of([Endpoint::new("iris").model("iris_dyn")]));
    let url = format!("{}/admin/v1/endpoints/iris/models/default/unload", host.admin);
    assert_eq!(e2e::request("POST", &url, &[], b"").status, 200);
    run(&host, "unloaded");
}

#[test]
fn every_call_wants_the_endpoints_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    fs::write(&file, "a-key-of-the-tests\n").unwrap();
    let locked = Endpoint::new("iris").model("iris_dyn").set(format!("keys = ['@{}']", file.display()));
    run(&serve(Setup::of([locked])), "keys");
}

#[test]
fn an_endpoint_can_do_without_grpc() {
    let path = model("iris_dyn");
    let iris = Endpoint::new("iris").model_at(&path, "").set("protocols = ['http', 'v1']");
    run(&serve(Setup::of([iris])), "without_grpc");
}
