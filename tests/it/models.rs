//! The models of an endpoint: found by path and version, several of them, loaded and unloaded while serving.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::load::{Pattern, alone};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, component, model, request, root, wait_until};
use serde_json::{Value, json};

/// A folder of versions: each number with a model of `tests/models`.
fn versions(models: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    models.iter().for_each(|(number, name)| add_version(folder.path(), number, &model(name)));
    folder
}

fn add_version(folder: &Path, number: &str, model: &Path) {
    fs::create_dir(folder.join(number)).unwrap();
    fs::copy(model, folder.join(number).join("model.onnx")).unwrap();
}

/// `POST …/models/{model}/{order}` on the admin listener.
fn order(host: &Host, endpoint: &str, model: &str, order: &str) -> Reply {
    request("POST", &format!("{}/admin/v1/endpoints/{endpoint}/models/{model}/{order}", host.admin), &[], &[])
}

/// Whether an order changed something; panics if it was refused.
fn changed(reply: &Reply) -> bool {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["outcome"] != "unchanged"
}

fn version(host: &Host) -> Value {
    host.endpoint("m")["models"][0]["version"].clone()
}

#[test]
fn the_highest_version_is_served_unless_another_is_asked_for() {
    let folder = versions(&[("1", "identity_fp32"), ("2", "sum"), ("10", "batch_size")]);
    let path = folder.path().display().to_string();
    for (more, expected, answer) in [
        (&[][..], 10, json!([[2, 2]])),
        (&["--model-version", "2"], 2, json!([3.0])),
        (&["--model-version", "1"], 1, json!([[1.0, 2.0]])),
    ] {
        let host = Host::serve(&[&["--model", &path, "--name", "m"], more].concat());
        assert_eq!(version(&host), json!(expected));
        assert_eq!(host.post("/m", "[1, 2]").json(), answer);
    }
    let Err((status, log)) = Host::try_serve(&["--model", &path, "--model-version", "3"]) else {
        panic!("there is no version 3")
    };
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("there is no version 3; there are 1, 2, 10"), "{log}");
}

#[test]
fn a_new_version_is_loaded_on_order_and_an_old_one_again() {
    let folder = versions(&[("1", "identity_fp32")]);
    let host = Host::with(None, Some(folder.path()), &["--name", "m"]);
    assert!(!changed(&order(&host, "m", "default", "load")));
    assert!(!changed(&order(&host, "m", "default", "load?version=1")));
    add_version(folder.path(), "2", &model("sum"));
    assert_eq!(host.post("/m", "[1, 2]").json(), json!([[1.0, 2.0]]));
    assert!(changed(&order(&host, "m", "default", "load")));
    assert_eq!((version(&host), host.post("/m", "[1, 2]").json()), (json!(2), json!([3.0])));
    assert!(changed(&order(&host, "m", "default", "load?version=1")));
    assert_eq!((version(&host), host.post("/m", "[1, 2]").json()), (json!(1), json!([[1.0, 2.0]])));
    assert_eq!(host.endpoint("m")["generation"], 3);
    // The same number, other content.
    fs::copy(model("batch_size"), folder.path().join("1/model.onnx")).unwrap();
    assert!(changed(&order(&host, "m", "default", "load?version=1")));
    assert_eq!(host.post("/m", "[1, 2]").json(), json!([[2, 2]]));
    // What cannot be loaded changes nothing.
    add_version(folder.path(), "3", &root().join("README.md"));
    for (wrong, status, text) in [
        ("load", 409, "cannot load model"),
        ("load?version=9", 409, "there is no version 9; there are 1, 2, 3"),
        ("load?version=x", 400, "version"),
        ("load?version=1&force=yes", 400, "unknown parameter `force=yes`: there is only `version=NUMBER`"),
    ] {
        let reply = order(&host, "m", "default", wrong);
        assert_eq!(reply.status, status, "{wrong}: {}", reply.text());
        assert!(reply.json()["error"].as_str().unwrap().contains(text), "{wrong}: {}", reply.text());
    }
    let from_a_page = request(
        "POST",
        &format!("{}/admin/v1/endpoints/m/models/default/unload", host.admin),
        &[("origin", "http://example.com")],
        &[],
    );
    assert_eq!((from_a_page.status, from_a_page.json()["code"].as_str()), (403, Some("forbidden")));
    assert_eq!(order(&host, "m", "other", "load").status, 404);
    assert_eq!(order(&host, "other", "default", "unload").status, 404);
    assert_eq!(host.post("/m", "[1, 2]").json(), json!([[2, 2]]));
}

#[test]
fn loading_under_load_drops_nothing() {
    let _alone = alone();
    let folder = versions(&[("1", "identity_fp32"), ("2", "sum")]);
    let host = Host::with(None, Some(folder.path()), &["--name", "m"]);
    let body = |_: &str| "[1, 2]".to_owned();
    let load = Pattern { clients: 4, body, ..Pattern::new(&host.url, "/m") }.start();
    for turn in 0..40 {
        assert!(changed(&order(&host, "m", "default", &format!("load?version={}", 1 + turn % 2))));
        load.wait_for_more(20);
    }
    let answers = load.stop();
    let old = answers.iter().filter(|answer| answer.ok().text() == "[[1.0,2.0]]").count();
    let new = answers.iter().filter(|answer| answer.ok().text() == "[3.0]").count();
    assert_eq!(old + new, answers.len());
    assert!(old > 100 && new > 100, "{old} and {new}");
}

#[test]
fn a_model_that_does_not_fit_the_handler_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    add_version(folder.path(), "1", &root().join("examples/iris-wasm/iris.onnx"));
    let host = Host::with(Some(&component("iris-wasm")), Some(folder.path()), &["--name", "m"]);
    let sample = fs::read(root().join("examples/iris-wasm/sample.json")).unwrap();
    assert_eq!(host.post("/m", &sample).status, 200);
    add_version(folder.path(), "2", &model("add"));
    let reply = order(&host, "m", "default", "load");
    let text = reply.json()["error"].as_str().unwrap().to_owned();
    assert_eq!(reply.status, 409, "{text}");
    assert!(text.contains("does not fit the handler: input ") && text.contains(" is missing"), "{text}");
    // Out of service, the handler is still the one it was.
    assert!(changed(&order(&host, "m", "default", "unload")));
    assert_eq!(order(&host, "m", "default", "load").status, 409);
    assert!(changed(&order(&host, "m", "default", "load?version=1")));
    assert_eq!(host.post("/m", &sample).status, 200);
}

#[test]
fn a_request_names_its_model_where_there_are_several() {
    let two = Endpoint::new("m").named_model("second", "identity_fp32", "").named_model("first", "sum", "");
    let host = Setup::of([two]).serve();
    for (query, expected) in [
        ("", json!([[1.0, 2.0]])),
        ("?model=first", json!([3.0])),
        ("?a=b&model=second", json!([[1.0, 2.0]])),
    ] {
        assert_eq!(host.post(&format!("/m{query}"), "[1, 2]").json(), expected, "{query}");
    }
    let text = host.post("/m?model=third", "[1]").error(404, "not_found", "admit");
    assert_eq!(text, "there is no such model; this endpoint has `second`, `first`");
    let described = host.get("/m").json();
    assert_eq!(described["model_signature"], json!({ "x": { "shape": ["N"], "type": "float32" } }));
    assert_eq!(
        described["models"]["first"]["outputs"],
        json!({ "total": { "shape": [], "type": "float32" } })
    );
    // One is out of service, the other is not.
    assert!(changed(&order(&host, "m", "second", "unload")));
    assert!(!changed(&order(&host, "m", "second", "unload")));
    let reply = host.post("/m", "[1, 2]");
    assert_eq!(reply.error(503, "model_unloaded", "admit"), "model `second` is not loaded");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(host.post("/m?model=first", "[1, 2]").json(), json!([3.0]));
    assert!(changed(&order(&host, "m", "second", "load")));
    assert_eq!(host.post("/m", "[1, 2]").json(), json!([[1.0, 2.0]]));
}

#[test]
fn endpoints_that_name_the_same_model_share_it() {
    let endpoint =
        |name: &str, settings: &str| Endpoint::new(name).model_at(&model("identity_fp32"), settings);
    let batching = endpoint("b", "").set("batching.max_batch = 4");
    let host = Setup::of([endpoint("a", ""), batching, endpoint("c", "instances = 1")]).serve();
    // The third has settings of its own.
    host.wait_for_log("endpoint=c");
    assert_eq!(host.log().matches("model loaded").count(), 2, "{}", host.log());
    // What one unloads, the other keeps.
    assert!(changed(&order(&host, "a", "default", "unload")));
    assert_eq!(host.post("/a", "[1]").status, 503);
    assert_eq!(host.post("/b", "[1]").json(), json!([[1.0]]));
    assert!(changed(&order(&host, "a", "default", "load")));
    assert_eq!(
        host.log().matches(" INFO modelhost_models::model::loaded: model loaded").count(),
        2,
        "{}",
        host.log()
    );
    assert_eq!(host.post("/a", "[1]").json(), json!([[1.0]]));
}

#[test]
fn memory_goes_back_when_models_are_unloaded() {
    let _alone = alone();
    let onnx = Endpoint::new("onnx").model("iris_dyn").set("batching.max_batch = 8");
    let saved = Endpoint::new("saved").model_at(&root().join("tests/models/savedmodels/iris_tf2"), "");
    let host = Setup::of([onnx, saved]).serve();
    for endpoint in ["onnx", "saved"] {
        let cycle = || {
            assert!(changed(&order(&host, endpoint, "default", "unload")));
            assert!(changed(&order(&host, endpoint, "default", "load")));
            assert_eq!(host.post(&format!("/{endpoint}"), "[5.2,3.6,1.4,0.3]").status, 200);
        };
        (0..20).for_each(|_| cycle());
        let before = host.memory("VmRSS");
        (0..200).for_each(|_| cycle());
        let after = host.memory("VmRSS");
        assert!(after < before + 16 * 1024, "{endpoint}: {before} KiB, and {after} KiB after 200 cycles");
    }
    // Their threads are gone, too.
    let threads = || fs::read_dir(format!("/proc/{}/task", host.pid())).unwrap().count();
    wait_until("the runners to end", || threads() < 60);
}

#[test]
fn a_folder_with_one_onnx_file_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(model("sum"), folder.path().join("anything.onnx")).unwrap();
    let host = Host::with(None, Some(folder.path()), &["--name", "m"]);
    assert_eq!((version(&host), host.post("/m", "[1, 2]").json()), (Value::Null, json!([3.0])));
    // A second one makes the next load an error, and what is served stays.
    fs::copy(model("add"), folder.path().join("model.onnx")).unwrap();
    let reply = order(&host, "m", "default", "load");
    let text = reply.json()["error"].as_str().unwrap().to_owned();
    assert!(reply.status == 409 && text.contains("`anything.onnx`, `model.onnx`"), "{text}");
    assert_eq!(host.post("/m", "[1, 2]").json(), json!([3.0]));
}

/// `weights` has 16 MiB of them, in a file beside it.
#[test]
fn the_weights_of_a_model_are_in_memory_once() {
    let _alone = alone();
    const WEIGHTS_KIB: u64 = 16 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    fs::copy(model("weights"), &path).unwrap();
    fs::File::create(folder.path().join("weights.bin")).unwrap().set_len(WEIGHTS_KIB * 1024).unwrap();
    let body = json!([vec![1; 2048]]).to_string();
    let resident = |instances: &str| {
        let host =
            Host::with(None, Some(&path), &["--name", "m", "--instances", instances, "--threads", "1"]);
        (0..8).for_each(|_| assert_eq!(host.post("/m", &body).status, 200));
        host.memory("VmRSS")
    };
    let (one, eight) = (resident("1"), resident("8"));
    assert!(eight < one + WEIGHTS_KIB, "{one} KiB with one instance, {eight} KiB with eight");
}

/// Requests to a fast model go on while a neighbour keeps every core busy with runs of seconds.
#[test]
fn a_slow_model_does_not_starve_a_fast_one() {
    let _alone = alone();
    let endpoints = [("slow", "seconds"), ("fast", "rows")];
    let host = Setup::of(endpoints.map(|(name, model)| Endpoint::new(name).model(model))).serve();
    let body = |_: &str| "[1]".to_owned();
    let load = Pattern { clients: 6, body, ..Pattern::new(&host.url, "/slow") }.start();
    wait_until("the slow model to be busy", || {
        host.metric(r#"modelhost_requests_in_flight{endpoint="slow"}"#) == 6.0
    });
    let body = r#"{"x": [[1]], "index": [0], "text": ["a"]}"#;
    let started = Instant::now();
    let mut served = 0;
    while started.elapsed() < Duration::from_secs(3) {
        assert_eq!(host.post("/fast", body).status, 200);
        served += 1;
    }
    // Alone it serves a thousand a second; behind runs of seconds it would serve two or three.
    assert!(served > 300, "{served} in three seconds");
    drop(load);
}

#[test]
fn a_version_that_is_not_served_is_refused() {
    let host = Host::with(None, Some(&model("add")), &["--name", "add"]);
    for (query, status) in [
        ("", 200),
        ("?version=1", 200),
        ("?version=", 200),
        ("?other=2", 200),
        ("?version=2", 404),
        ("?version=x", 404),
    ] {
        let reply = host.post(&format!("/add{query}"), r#"{"a":[1,2],"b":[3,4]}"#);
        assert_eq!(reply.status, status, "{query}: {}", reply.text());
    }
    let text = host.post("/add?version=2", "{}").error(404, "not_found", "admit");
    assert_eq!(text, "model `add` is served in version 1, not `2`");
}

#[test]
fn an_engines_errors_name_no_place_in_its_source() {
    let host = Host::with(None, Some(&model("broadcast")), &["--name", "broadcast", "--debug"]);
    let reply = host.post("/broadcast", r#"{"a":[1,2,3],"b":[1,2]}"#);
    reply.error(500, "model_error", "infer");
    let detail = reply.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("broadcast") && detail.contains("2 by 3"), "{detail}");
    for text in [detail, host.log()] {
        for place in [".h:", ".cc:", "onnxruntime_src", "::"] {
            let lines = text.lines().filter(|line| line.contains("by 3"));
            assert_eq!(
                lines.filter(|line| line.split("detail=").last().unwrap().contains(place)).count(),
                0,
                "{text}"
            );
        }
    }
}
