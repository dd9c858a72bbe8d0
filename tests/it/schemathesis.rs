//! What `/openapi.json` says against what the host does: schemathesis makes requests from the document, good and bad ones, and
//! holds every answer against it: statuses, media types, headers, schemas, methods that are not there.

use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, model, root};

/// Tests every operation of `host` and asserts that nothing is found.
fn finds_nothing(host: &Host) {
    let tester = root().join("target/openapi/bin/schemathesis");
    assert!(tester.exists(), "`{}` is missing; hint: run `scripts/openapi.sh` first", tester.display());
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(tester)
        .arg("--config-file")
        .arg(root().join("tests/clients/schemathesis.toml"))
        .args(["run", &format!("{}/openapi.json", host.url), "--no-color"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "40", "--seed", "1"])
        .arg("--continue-on-failure")
        .current_dir(folder.path())
        .output()
        .expect("schemathesis starts");
    let text = String::from_utf8_lossy(&output.stdout);
    // What it says last, and that it did not skip what there is to do.
    let tested = |line: &str| line.trim().strip_prefix("Tested:").and_then(|n| n.trim().parse().ok());
    let operations: usize = text.lines().find_map(tested).unwrap_or_default();
    let paths = host.get("/openapi.json").json()["paths"].as_object().unwrap().clone();
    let documented: usize = paths.values().map(|item| item.as_object().unwrap().len()).sum();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(operations, documented, "{text}");
}

#[test]
fn schemathesis_finds_nothing_in_models_without_handlers() {
    let names = [
        "iris_dyn",
        "iris_static",
        "identity_bytes",
        "identity_bool",
        "identity_int8",
        "identity_uint64",
        "add",
        "scalar",
        "strid",
    ];
    let models = Setup::of(names.map(|name| Endpoint::new(name).model(name)));
    finds_nothing(&models.tables("[[split]]\npath = '/alike'\nendpoints = { add = 1 }").serve());
}

#[test]
fn schemathesis_finds_nothing_in_handlers() {
    let declared = |endpoint: Endpoint, name: &str, datatype: &str, example: &str| {
        let lines = format!("datatype = '{datatype}'\nshape = [1]\nexample = {example}");
        endpoint.table(&format!("input.{name}"), &lines)
    };
    let iris = |name: &str| Endpoint::new(name).plugin(&component("iris-wasm")).model("iris_dyn");
    let sizes = ["sepal_length", "sepal_width", "petal_length", "petal_width"];
    let endpoints = [
        sizes.iter().fold(iris("iris"), |endpoint, name| declared(endpoint, name, "FP32", "1.5")),
        // Not all that the handler declares itself: it repeats the prompt as often as a second input says, regardless of
        // the memory.
        declared(Endpoint::new("greet").guest("greet"), "prompt", "BYTES", "'hi'"),
        iris("undeclared-iris"),
        Endpoint::new("undeclared-pre").guest("pre_only").model("iris_dyn"),
        // These two take what the document says: one reads the model's JSON, the other anything.
        Endpoint::new("post").guest("post_only").model("iris_dyn"),
        Endpoint::new("echo").guest("echo"),
    ];
    let split =
        "[[split]]\npath = '/unlike'\nendpoints = { undeclared-iris = 1, undeclared-pre = 1, echo = 1 }";
    finds_nothing(&Setup::of(endpoints).tables(split).serve());
}

#[test]
fn schemathesis_finds_nothing_in_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let endpoints = [Endpoint::new("undeclared-echo").guest("echo").set("jobs = 'on'")];
    let store = format!("[jobs]\nstore = {:?}", folder.path().join("jobs.redb"));
    finds_nothing(&Setup::of(endpoints).tables(store).serve());
}

#[test]
fn schemathesis_finds_nothing_where_there_is_only_one_endpoint() {
    // Which also answers at `/` and `/predict`, with `--debug` and without metrics.
    let more = ["--name", "undeclared-iris", "--debug", "--no-metrics-on-main"];
    finds_nothing(&Host::with(Some(&component("iris-wasm")), Some(&model("iris_dyn")), &more));
}
