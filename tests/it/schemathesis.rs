//! What `/openapi.json` says against what the host does: schemathesis makes requests from the document, good and bad ones, and
//! holds every answer against it: statuses, media types, headers, schemas, methods that are not there.

use std::process::Command;

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

fn endpoint(name: &str, handler: Option<&str>, onnx: Option<&str>) -> String {
    let mut text = format!("[[endpoint]]\nname = '{name}'\n");
    if let Some(handler) = handler {
        text.push_str(&format!("plugin = '{}'\n", component(handler).display()));
    }
    if let Some(onnx) = onnx {
        text.push_str(&format!("model = '{}'\n", model(onnx).display()));
    }
    text
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
    let config: String = names.iter().map(|name| endpoint(name, None, Some(name))).collect();
    let alike = "[[split]]\npath = '/alike'\nendpoints = { add = 1 }\n";
    finds_nothing(&Host::configured(&format!("{config}{alike}")));
}

#[test]
fn schemathesis_finds_nothing_in_handlers() {
    let declared = |name: &str, datatype: &str, more: &str| {
        format!("[endpoint.input.{name}]\ndatatype = '{datatype}'\nshape = [1]\n{more}\n")
    };
    let sizes = ["sepal_length", "sepal_width", "petal_length", "petal_width"];
    let sizes: String = sizes.iter().map(|name| declared(name, "FP32", "example = 1.5")).collect();
    // Not all that the handler declares itself: it repeats the prompt as often as a second input says, whatever the memory.
    let prompt = declared("prompt", "BYTES", "example = 'hi'");
    let endpoints = [
        endpoint("iris", Some("iris-wasm"), Some("iris_dyn")) + &sizes,
        endpoint("greet", Some("tests/greet"), None) + &prompt,
        endpoint("undeclared-iris", Some("iris-wasm"), Some("iris_dyn")),
        endpoint("undeclared-pre", Some("tests/pre_only"), Some("iris_dyn")),
        // These two take what the document says: one reads the model's JSON, the other anything.
        endpoint("post", Some("tests/post_only"), Some("iris_dyn")),
        endpoint("echo", Some("tests/echo"), None),
        "[[split]]\npath = '/unlike'\nendpoints = { undeclared-iris = 1, undeclared-pre = 1, echo = 1 }\n"
            .to_owned(),
    ];
    finds_nothing(&Host::configured(&endpoints.concat()));
}

#[test]
fn schemathesis_finds_nothing_where_there_is_only_one_endpoint() {
    // Which also answers at `/` and `/predict`, with `--debug` and without metrics.
    let more = ["--name", "undeclared-iris", "--debug", "--no-metrics-on-main"];
    finds_nothing(&Host::with(Some(&component("iris-wasm")), Some(&model("iris_dyn")), &more));
}
