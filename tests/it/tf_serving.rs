//! TensorFlow Serving over gRPC: its own client against a host, beside the Open Inference Protocol and REST.
//!
//! The client is `tests/clients/tf_serving.py`; each test runs functions of it.

use std::fs;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients, model, root};

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
