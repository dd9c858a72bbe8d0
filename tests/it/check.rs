//! Examples as a smoke test: at the start, before a swap, in `host check`; and schemas that cannot be used.

use std::net::TcpListener;
use std::path::Path;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, host, model, request, version, wait_until};
use serde_json::json;

/// A config file with this text.
fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `host check` and gives its exit code, the lines of stdout, and stderr.
fn check(arguments: &[&str]) -> (i32, Vec<String>, String) {
    let output = host(&[&["check"], arguments].concat());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), stdout.lines().map(str::to_owned).collect(), stderr)
}

/// Starts the host in vain, and gives what it says of the reason.
fn refused(code: i32, arguments: &[&str]) -> String {
    let Err((status, log)) = Host::try_serve(arguments) else { panic!("the host started: {arguments:?}") };
    assert_eq!(status.code(), Some(code), "{log}");
    log.rsplit_once("error: ").unwrap_or_else(|| panic!("no `error: ` in {log}")).1.to_owned()
}

/// Waits for the log to say that so many examples were answered, and no more by the time that the host was ready.
fn tried(host: &Host, times: usize) {
    host.wait_for_log("endpoint is ready");
    wait_until(&format!("{times} smoke tests in the log"), || {
        host.log().matches("smoke test: the example is answered").count() == times
    });
}

#[test]
fn examples_are_answered_before_anything_is_served_and_counted_by_nobody() {
    let host = Host::with(Some(&component("tests/greet")), None, &["--name", "it"]);
    tried(&host, 1);
    host.wait_for_log("smoke-test");
    for outcome in ["ok", "cancelled"] {
        assert_eq!(
            host.metric(&format!("modelhost_requests_total{{endpoint=\"it\",outcome=\"{outcome}\"}}")),
            0.0
        );
    }
    assert!(!host.metrics().contains("modelhost_request_duration_seconds_count"), "{}", host.metrics());
    drop(host);
    let host = Host::with(Some(&component("tests/greet")), None, &["--no-smoke"]);
    tried(&host, 0);
    // There is a schema, and nothing to try.
    let host = Host::with(Some(&component("tests/schemas")), None, &["--env", "SCHEMA=optional"]);
    tried(&host, 0);
    // Takes tensors: the example goes both ways.
    let tensors = Endpoint::new("tensors").guest("tensors");
    let declared = tensors.table("input.x", "datatype = 'FP32'\nshape = [-1]\nexample = [1.5]");
    let host = Setup::of([declared]).serve();
    tried(&host, 2);
}

/// What a handler declares, and what is said of it.
const UNUSABLE: [(&str, &[&str]); 14] = [
    ("twice", &["input `word`: declared twice"]),
    ("shape", &["input `word`: a shape is at most 32 extents"]),
    ("rank", &["input `word`: a shape is at most 32 extents"]),
    ("range", &["the example does not fit: input `width`: 768 is out of range for INT8"]),
    ("json", &["input `word`: the example is not JSON: EOF"]),
    ("deep", &["input `word`: the example is not JSON: recursion limit"]),
    ("missing", &["example not specified for input --> word"]),
    ("name", &["`a\\u{1b}[2Jb\\n` cannot be an input's name"]),
    ("many", &["10000 inputs, more than 100"]),
    ("large", &["bytes, more than 1048576"]),
    ("flood", &["more than its 4194304 bytes at once"]),
    ("trap", &["the handler trapped"]),
    ("spin", &["the handler ran longer than 100ms"]),
    ("hog", &["the handler needs more than its 67108864 bytes of memory"]),
];

#[test]
fn a_handler_that_lies_about_what_it_takes_is_refused() {
    let plugin = component("tests/schemas");
    for (schema, expected) in UNUSABLE {
        let env = format!("SCHEMA={schema}");
        // All but one have as long as they need, on a machine however busy.
        let time = if schema == "spin" { "100ms" } else { "1m" };
        let text = refused(
            1,
            &["--plugin", path(&plugin), "--env", &env, "--pre-timeout", time, "--output", "4MiB"],
        );
        assert!(text.contains("says what it takes in a way that cannot be used: "), "{schema}: {text}");
        for part in expected {
            assert!(text.contains(part), "{schema}: `{part}` in `{text}`");
        }
        assert!(
            text.contains("hint: fix its `input-schema`") && text.lines().count() == 2,
            "{schema}: {text}"
        );
    }
}

#[test]
fn a_schema_that_lacks_something_is_refused() {
    let (add, inputs) =
        (model("add"), "[endpoint.input.a]\nshape = 2\n[endpoint.input.b]\ndatatype = 'FP32'");
    let file = file(&format!("[[endpoint]]\nmodel = '{}'\n{inputs}", add.display()));
    let text = refused(2, &["--config", path(file.path())]);
    for part in [
        ":3: `endpoint.input.a`: Data type not specified for input --> a; hint: ",
        ":4: `endpoint.input.a.shape`: shape not specified as a list for input --> a; hint: ",
        ":3: `endpoint.input.a`: example not specified for input --> a; hint: ",
        ":5: `endpoint.input.b`: shape not specified for input --> b; hint: ",
        ":5: `endpoint.input.b`: example not specified for input --> b; hint: ",
    ] {
        assert!(text.contains(part), "`{part}` in `{text}`");
    }
}

/// An example that the handler of `tests/schemas` does not answer, and what is said of it.
const FAILING: [(&str, &str); 3] = [
    ("boom", "plugin_error in pre_inference: the handler failed (the word is boom)"),
    ("panic", "plugin_trap in pre_inference: the handler trapped: "),
    ("teapot", "status 418 teapot"),
];

#[test]
fn an_example_that_fails_refuses_the_start() {
    let plugin = component("tests/schemas");
    for (word, expected) in FAILING {
        let env = format!("SCHEMA={word}");
        let arguments = ["--plugin", path(&plugin), "--env", &env, "--name", "it"];
        let text = refused(1, &arguments);
        let lead = format!(
            "endpoint `it`: the example of its input schema fails, sent as body ({{\"word\":\"{word}\"}}): {expected}"
        );
        assert!(text.starts_with(&lead), "`{lead}` in `{text}`");
        assert!(text.contains("hint: ") && text.lines().count() == 2, "{text}");
        let host = Host::serve(&[&arguments[..], &["--no-smoke"]].concat());
        assert_eq!(host.post("/it", r#"{"word":"a"}"#).json(), json!({ "word": "a" }));
    }
    // The example fits what is declared, and not the model.
    let iris = Endpoint::new("it").model("iris_dyn");
    let declared = iris.table("input.input", "datatype = 'FP32'\nshape = [-1]\nexample = [1, 2, 3]");
    let file = file(&declared.to_string());
    let text = refused(1, &["--config", path(file.path())]);
    assert!(text.contains("invalid_input in pre_inference: input `input`: expected FP32 ["), "{text}");
}

#[test]
fn a_swap_brings_its_schema_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("handler.wasm");
    let write = |bytes: &[u8]| {
        let beside = plugin.with_extension("new");
        std::fs::write(&beside, bytes).unwrap();
        std::fs::rename(&beside, &plugin).unwrap();
    };
    let bytes = |name: &str| std::fs::read(component(name)).unwrap();
    let last = |host: &Host, outcome: &str| host.endpoint("it")["last_swap"]["outcome"] == outcome;
    for (word, expected) in FAILING {
        write(&bytes("tests/greet"));
        let env = format!("SCHEMA={word}");
        let host = Host::serve(&["--name", "it", "--plugin", path(&plugin), "--env", &env]);
        let digest = host.endpoint("it")["digest"].clone();
        write(&bytes("tests/schemas"));
        wait_until("the swap to be refused", || last(&host, "refused"));
        let state = host.endpoint("it");
        assert!(state["last_swap"]["error"].as_str().unwrap().contains(expected), "{state}");
        assert_eq!((&state["digest"], &state["generation"]), (&digest, &json!(1)));
        assert_eq!(host.post("/it", r#"{"prompt":"hi"}"#).json(), json!({ "out": "hi!", "once": true }));
        host.post("/it", r#"{"word":"a"}"#).error(400, "invalid_input", "pre_inference");
        assert_eq!(host.metric("modelhost_plugin_swaps_total{endpoint=\"it\",outcome=\"refused\"}"), 1.0);
    }
    // What is declared comes and goes with the handler.
    write(&bytes("tests/greet"));
    let host = Host::serve(&["--name", "it", "--plugin", path(&plugin)]);
    let missing = |name: &str| format!("input `{name}`: missing, expected BYTES [1]");
    let refusal = || host.post("/it", "{}").error(400, "invalid_input", "pre_inference");
    assert_eq!(refusal(), missing("prompt"));
    write(&version("tests/schemas", 1));
    wait_until("the second handler", || host.endpoint("it")["generation"] == 2);
    assert_eq!(refusal(), missing("word"));
    tried(&host, 2);
    write(&bytes("tests/echo"));
    wait_until("the third handler", || host.endpoint("it")["generation"] == 3);
    assert_eq!(host.post("/it", "{}").status, 200);
}

#[test]
fn a_model_that_is_loaded_again_answers_the_example_first() {
    let lines = "datatype = 'FP32'\nshape = [-1, 4]\nexample = [[1, 2, 3, 4]]";
    let host = Setup::of([Endpoint::new("it").model("iris_dyn").table("input.input", lines)]).serve();
    let order = |what: &str| {
        let url = format!("{}/admin/v1/endpoints/it/models/default/{what}", host.admin);
        assert_eq!(request("POST", &url, &[], b"").status, 200);
    };
    order("unload");
    let text = host.post("/it", "[1]").error(503, "model_unloaded", "admit");
    assert_eq!(text, "model `it` is not loaded");
    order("load");
    tried(&host, 2);
    host.post("/it", "[1]").error(400, "invalid_input", "pre_inference");
    assert_eq!(host.post("/it", "[[1,2,3,4]]").status, 200);
}

#[test]
fn check_says_of_every_endpoint_whether_it_would_serve() {
    let endpoint = |name: &str, more: &str| Endpoint::new(name).guest("schemas").set(more);
    let good = [
        endpoint("one", ""),
        endpoint("none", "env = ['SCHEMA=none']"),
        endpoint("off", "smoke = false\nenv = ['SCHEMA=boom']"),
        Endpoint::new("model").model("add"),
    ];
    // A port that somebody else has does not matter: nothing listens.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let configuration = file(Setup::of(good.clone()).text());
    let (code, lines, stderr) = check(&["--config", path(configuration.path()), "--listen", &address]);
    assert_eq!(code, 0, "{lines:?}\n{stderr}");
    let expected = [
        ("ok      one: loaded in ", "; example as body answered in "),
        ("ok      none: loaded in ", "; no example to try"),
        ("ok      off: loaded in ", "; examples are not tried"),
        ("ok      model: loaded in ", "; no example to try"),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, (start, part)) in lines.iter().zip(expected) {
        assert!(line.starts_with(start) && line.contains(part) && line.contains(" ms"), "{line}");
    }
    assert!(lines[0].contains("(admit ") && lines[0].contains("pre_inference "), "{lines:?}");

    // One that is bad does not keep the others from being checked.
    let bad = [endpoint("boom", "env = ['SCHEMA=boom']"), endpoint("twice", "env = ['SCHEMA=twice']")];
    let configuration = file(Setup::of(bad.into_iter().chain(good)).text());
    let (code, lines, stderr) = check(&["--config", path(configuration.path())]);
    assert_eq!((code, lines.len()), (1, 6), "{lines:?}\n{stderr}");
    assert!(
        lines[0].starts_with("failed  boom: endpoint `boom`: the example of its input schema fails, ")
            && lines[0].contains("plugin_error in pre_inference")
            && lines[0].contains("; hint: "),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("failed  twice: ") && lines[1].contains("declared twice"), "{lines:?}");
    assert!(lines[2..].iter().all(|line| line.starts_with("ok  ")), "{lines:?}");
    assert!(stderr.ends_with("error: 2 of 6 endpoints would not serve\n"), "{stderr}");

    let (code, lines, stderr) = check(&["--model", "absent.onnx"]);
    assert_eq!((code, lines.len()), (2, 0), "{stderr}");
    assert!(stderr.contains("there is no `absent.onnx`"), "{stderr}");
}
