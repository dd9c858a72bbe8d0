//! SavedModels: served beside ONNX models from one process, below the same handlers, and what is said when they cannot be.
//!
//! The numbers of iris are those of `iris.rs`; both models have the same weights.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, assert_close, component, model, root, serve_command, wait_until};
use serde_json::{Value, json};

/// A folder of versions in `tests/models/savedmodels`.
fn saved_model(name: &str) -> PathBuf {
    let folder = root().join("tests/models/savedmodels").join(name);
    assert!(folder.is_dir(), "`{}` is missing; hint: run `git checkout tests/models`", folder.display());
    folder
}

/// `host serve` of one SavedModel, with further arguments.
fn serve(name: &str, more: &[&str]) -> Host {
    Host::with(None, Some(&saved_model(name)), more)
}

const ONE: [f64; 3] = [0.9819308, 0.0180693, 1.737e-8];
const OTHER: [f64; 3] = [5.59e-5, 0.0800746, 0.9198695];

#[test]
fn savedmodels_and_onnx_models_share_a_process() {
    let endpoint = |name: &str, path: PathBuf, settings: &str| Endpoint::new(name).model_at(&path, settings);
    let host = Setup::of([
        endpoint("onnx", model("iris_dyn"), ""),
        endpoint("iris", saved_model("iris_tf2"), ""),
        endpoint("version", saved_model("iris_tf2").join("1"), ""),
        endpoint("chosen", saved_model("multi_signature_tf2"), ""),
        endpoint("double", saved_model("multi_signature_tf2"), "signature_key = 'a'"),
        endpoint("text", saved_model("string_tf1"), ""),
        endpoint("words", saved_model("vocabulary_tf2"), ""),
    ])
    .serve();

    let flowers = "[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]";
    for iris in ["/onnx", "/iris", "/version"] {
        assert_close(&host.post(iris, flowers).json(), &json!([[0, 2], [ONE, OTHER]]));
        assert_close(&host.post(iris, "[5.2,3.6,1.4,0.3]").json(), &json!([[0], [ONE]]));
    }
    let cases = [
        ("/chosen", "[1,2,3]", "[[3.0,4.0,5.0]]"),
        ("/double", "[1,2,3]", "[[2.0,4.0,6.0]]"),
        ("/text", r#"["hello","","a\u0000b"]"#, r#"[[5,0,3],["HELLO","","A\u0000B"]]"#),
        ("/words", r#"{"word":["virginica","setosa","rose"]}"#, "[[2,0,-1]]"),
    ];
    for (path, body, expected) in cases {
        let reply = host.post(path, body);
        assert_eq!((reply.status, reply.text().as_str()), (200, expected), "{path}");
    }

    let text = host.post("/iris", "[1,2,3]").error(400, "invalid_input", "pre_inference");
    assert_eq!(text, "input `x`: expected FP32 [-1, 4], got FP32 [3]");
    let signature = host.get("/iris").json()["model_signature"].take();
    assert_eq!(signature, json!({ "x": { "shape": [-1, 4], "type": "float32" } }));
}

#[test]
fn a_handler_does_not_know_which_engine_runs() {
    let host = Host::with(Some(&component("iris-wasm")), Some(&saved_model("iris_tf2")), &[]);
    let flower = json!({ "sepal_length": 6.7, "sepal_width": 3.0, "petal_length": 5.2, "petal_width": 2.3 });
    for _ in 0..20 {
        let reply = host.post("/", flower.to_string());
        let expected = json!({ "class_index": 2, "class_label": "iris-virginica", "probabilities": OTHER });
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_close(&reply.json(), &expected);
    }
}

#[test]
fn a_savedmodel_that_fails_says_so_without_its_inner_life() {
    let host = serve("shapes_tf1", &["--signature-key", "gather"]);
    assert_eq!(host.post("/", "[0,2]").text(), "[[1.0,3.0]]");
    let reply = host.post("/", "[0,5]");
    assert_eq!(reply.error(500, "model_error", "infer"), "the model failed");
    wait_until("the engine's words in the log", || {
        let id = reply.header("x-request-id").unwrap();
        host.log().lines().any(|line| line.contains(id) && line.contains("is not in [0, 3)"))
    });
    assert_eq!(host.post("/", "[1]").text(), "[[2.0]]");
}

#[test]
fn shapes_that_only_the_engine_knows() {
    let scalar = serve("shapes_tf1", &["--signature-key", "scalar"]);
    assert_eq!(scalar.post("/", "2.5").text(), "[5.0]");
    assert_eq!(scalar.post("/", "[2.5]").text(), "[5.0]");
    assert_eq!(
        scalar.post("/", "[1,2]").error(400, "invalid_input", "infer"),
        "input `x`: expected FP32 [], got FP32 [2]"
    );
    let any = serve("shapes_tf1", &["--signature-key", "any"]);
    assert_eq!(any.post("/", "[[1,2],[3,4]]").text(), "[[[1.0,2.0],[3.0,4.0]]]");
}

#[test]
fn what_cannot_be_served_ends_the_start_with_the_reason() {
    let cases: [(&str, &[&str], &str); 3] = [
        ("shapes_tf1", &[], "set `signature_key` to one of `any`, `gather`, `scalar`"),
        (
            "multi_signature_tf2",
            &["--signature-key", "b"],
            "it has no signature `b`; there are `a`, `predict`",
        ),
        ("iris_tf2", &["--device", "cuda:1"], "device `cuda:1`: this build runs SavedModels on the CPU only"),
    ];
    for (name, more, expected) in cases {
        let path = saved_model(name).display().to_string();
        let arguments = [&["--model", path.as_str()], more].concat();
        let Err((status, log)) = Host::try_serve(&arguments) else { panic!("`{name}` is served") };
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(expected), "{expected} in {log}");
    }
}

#[test]
fn without_tensorflow_one_error_says_what_brings_it() {
    let home = tempfile::tempdir().unwrap();
    let nothing = home.path().to_str().unwrap();
    let start = |variables: &[(&str, &str)]| {
        let mut command = serve_command(&["--model", saved_model("iris_tf2").to_str().unwrap()]);
        command
            .env_clear()
            .envs(["HOME", "PATH", "VIRTUAL_ENV", "XDG_DATA_HOME"].map(|name| (name, nothing)));
        command.envs(variables.iter().copied());
        Host::try_start(command)
    };
    let place = format!("{nothing}/modelhost/lib/tensorflow");
    match start(&[]) {
        Err((status, log)) => {
            assert_eq!(status.code(), Some(1), "{log}");
            for part in ["was not found", &place, "hint: run `make tensorflow`", "pip install tensorflow-cpu"]
            {
                assert!(log.contains(part), "{part} in {log}");
            }
            assert_eq!(log.matches("error: ").count(), 1, "{log}");
        }
        // This machine has one in its system's paths: then it is from there.
        Ok(host) => {
            host.wait_for_log("TensorFlow loaded");
            assert!(!host.log().contains(&place), "{}", host.log());
        }
    }
    // What was asked for is never replaced.
    let Err((status, log)) = start(&[("MODELHOST_TENSORFLOW_LIB", nothing)]) else { panic!("it is served") };
    assert_eq!(status.code(), Some(1), "{log}");
    for part in [format!("cannot use `{nothing}/libtensorflow_cc."), "hint: run `make tensorflow`".to_owned()]
    {
        assert!(log.contains(&part), "{part} in {log}");
    }
}

#[test]
fn what_the_library_logs_comes_as_lines_of_the_log() {
    let path = saved_model("shapes_tf1").display().to_string();
    let arguments = ["--model", &path, "--signature-key", "gather", "--log-format", "json"];
    let mut command = serve_command(&arguments);
    // Whatever it has to say.
    command.env("TF_CPP_MIN_LOG_LEVEL", "0");
    let Ok(host) = Host::try_start(command) else { panic!("it does not start") };
    host.post("/", "[0,5]").error(500, "model_error", "infer");
    // As TensorFlow does when it finds itself broken: a last word, then an abort.
    let stderr = format!("/proc/{}/fd/2", host.pid());
    std::fs::write(stderr, "F0000 00:00:1.0 1 tensor.cc:7] Check failed: a == b\n").unwrap();
    host.signal("ABRT");
    let (status, log) = host.wait();
    assert_eq!(status.signal(), Some(6), "{log}");
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let said = |level: &str, text: &str| {
        lines.iter().any(|line| {
            line["target"] == "tensorflow"
                && line["level"] == level
                && line["message"].as_str().unwrap().starts_with(text)
        })
    };
    for (level, text) in [
        ("INFO", "Reading SavedModel from: "),
        ("INFO", "To enable the following instructions: "),
        ("ERROR", "Check failed: a == b"),
    ] {
        assert!(said(level, text), "{level} `{text}` in {log}");
    }
    assert!(!log.contains(".cc:"), "{log}");
}
