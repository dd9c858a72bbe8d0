//! The iris handler in every language, under both isolations: the same requests, the same answers. In Rust, Python and
//! JavaScript it is a guest of the tests, which has labels of its own; in the others the template of `host new`.
//!
//! The probabilities were computed from the weights in numpy's float64; 1e-5 is what FP32 leaves of them.

use std::path::Path;
use std::process::Command;

use e2e::clients::finished;
use e2e::project::lend_packages;
use e2e::{Host, Reply, assert_close, component, host_binary, model, path_with_tools};
use serde_json::{Value, json};

/// Measurements, class, probabilities.
const FLOWERS: [([f64; 4], usize, [f64; 3]); 4] = [
    ([5.2, 3.6, 1.4, 0.3], 0, [0.9819308, 0.0180693, 1.737e-8]),
    ([5.9, 3.0, 4.2, 1.5], 1, [0.0151824, 0.8988223, 0.0859953]),
    ([6.0, 2.7, 5.1, 1.6], 2, [0.0004498, 0.3497224, 0.6498278]),
    ([6.7, 3.0, 5.2, 2.3], 2, [5.59e-5, 0.0800746, 0.9198695]),
];

const LABELS: [&str; 3] = ["iris-setosa", "iris-versicolor", "iris-virginica"];

/// Content type, body, what the text of the 400 says.
const REFUSED: [(&str, &str, &str); 9] = [
    (
        "application/json",
        r#"{"sepal_length":5.2,"petal_length":1.4,"petal_width":0.3}"#,
        "missing field `sepal_width`",
    ),
    (
        "application/json",
        r#"{"sepal_length":"abc","sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#,
        "invalid type: string \"abc\", expected f32",
    ),
    ("application/json", r#"{"sepal_length":"abc"}"#, "sepal_length"),
    ("application/json", r#"{"sepal_length":true}"#, "invalid type: boolean"),
    ("application/json", "{bad", "malformed json: "),
    ("application/json", "", "malformed json: "),
    ("application/json", "null", "invalid type: null"),
    // A handler reads the body whatever it is called; this one wants JSON.
    ("text/plain", "hello", "malformed json: "),
    ("application/octet-stream", "\u{0}\u{1}", "malformed json: "),
];

fn flower([sepal_length, sepal_width, petal_length, petal_width]: [f64; 4]) -> String {
    json!({
        "sepal_length": sepal_length, "sepal_width": sepal_width,
        "petal_length": petal_length, "petal_width": petal_width,
    })
    .to_string()
}

fn answer(class: usize, labels: [&str; 3], probabilities: [f64; 3]) -> Value {
    json!({ "class_index": class, "class_label": labels[class], "probabilities": probabilities })
}

fn check_answer(reply: &Reply, class: usize, labels: [&str; 3], probabilities: [f64; 3]) {
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json")),
        "{}",
        reply.text()
    );
    assert_close(&reply.json(), &answer(class, labels, probabilities));
}

/// C1 to C7 on one handler: as a worker with the built-in labels, then fresh for every request with the endpoint's.
fn check_handler(name: &str, network: &str) {
    check(name, &component(name), network, &[], &[]);
}

/// The same; `own` are arguments of the first host, whose labels are [`LABELS`], `refused` further bodies.
fn check(name: &str, handler: &Path, network: &str, own: &[&str], refused: &[(&str, &str)]) {
    let host = |model_name: &str, more: &[&str]| {
        // Interpreters on a machine that is busy with other tests.
        let patient =
            ["--name", "iris", "--network", network, "--pre-timeout", "30s", "--post-timeout", "30s"];
        let arguments = [&patient, more].concat();
        Host::with(Some(handler), Some(&model(model_name)), &arguments)
    };

    let worker = host("iris_static", own);
    // Twice: an instance that has served answers as a fresh one does.
    for (measurements, class, probabilities) in [FLOWERS, FLOWERS].concat() {
        let reply = worker.post("/iris", flower(measurements));
        check_answer(&reply, class, LABELS, probabilities);
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    }
    let refused = refused.iter().map(|(body, expected)| ("application/json", *body, *expected));
    for (content_type, body, expected) in REFUSED.into_iter().chain(refused) {
        let reply = worker.request("POST", "/", &[("content-type", content_type)], body.as_bytes());
        let text = reply.error(400, "invalid_input", "pre_inference");
        assert!(text.contains(expected), "{name}: `{body}`: expected `{expected}` in `{text}`");
    }
    // A request that was refused leaves nothing behind.
    let (measurements, class, probabilities) = FLOWERS[1];
    check_answer(&worker.post("/predict", flower(measurements)), class, LABELS, probabilities);

    // The other model has a label output before the probabilities; the handler reads the last.
    let labels = r#"{"labels": ["a", "b", "c"]}"#;
    let fresh = host("iris_dyn", &["--isolation", "request", "--metadata", labels]);
    for (measurements, class, probabilities) in FLOWERS {
        check_answer(&fresh.post("/iris", flower(measurements)), class, ["a", "b", "c"], probabilities);
    }
}

#[test]
fn in_rust() {
    check_handler("iris-wasm", "none");
}

/// The same of a template: what is no object of numbers that FP32 has.
const TEMPLATE_REFUSED: [(&str, &str); 4] = [
    ("[]", "invalid type: sequence"),
    (r#"{"sepal_length":[1],"sepal_width":1,"petal_length":1,"petal_width":1}"#, "invalid type: sequence"),
    (r#"{"sepal_length":1e39,"sepal_width":1,"petal_length":1,"petal_width":1}"#, "number out of range"),
    (r#"{"sepal_length":1e999,"sepal_width":1,"petal_length":1,"petal_width":1}"#, "number out of range"),
];

/// The template of a language.
fn check_template(language: &str) {
    let folder = tempfile::tempdir().unwrap();
    let host = |arguments: &[&str]| {
        let mut command = Command::new(host_binary());
        command.args(arguments).current_dir(folder.path()).env("PATH", path_with_tools());
        finished(&mut command, &format!("host {arguments:?}"));
    };
    host(&["new", "iris", "--lang", language]);
    lend_packages(&folder.path().join("iris"));
    host(&["build", "iris"]);
    let metadata = json!({ "labels": LABELS }).to_string();
    check(
        language,
        &folder.path().join("iris/handler.wasm"),
        "none",
        &["--metadata", &metadata],
        &TEMPLATE_REFUSED,
    );
}

#[test]
fn in_go() {
    check_template("go");
}

#[test]
fn in_c() {
    check_template("c");
}

#[test]
fn in_cpp() {
    check_template("cpp");
}

#[test]
fn in_zig() {
    check_template("zig");
}

#[test]
fn in_typescript() {
    check_template("ts");
}

#[test]
fn in_python() {
    // Python's runtime imports sockets whether they are used or not.
    check_handler("tests/iris_py", "stub");
}

#[test]
fn in_javascript() {
    check_handler("tests/iris_js", "none");
}

#[test]
fn the_example_answers_what_its_readme_shows() {
    let example =
        |file: &str| std::fs::read_to_string(e2e::root().join("examples/iris-wasm").join(file)).unwrap();
    let config = e2e::root().join("examples/iris-wasm/modelhost.toml");
    // The config file names the handler that was built.
    component("iris-wasm");
    let host = Host::serve(&["--config", config.to_str().unwrap()]);
    let expected: Value = serde_json::from_str(&example("expected.json")).unwrap();
    assert_close(&host.post("/iris", example("sample.json")).json(), &expected);
}
