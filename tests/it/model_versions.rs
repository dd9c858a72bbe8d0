//! Several versions of a model at once: requests that name one, in every protocol; versions that come and go
//! in their folder while they are served.

use std::fs;
use std::path::Path;

use e2e::load::Pattern;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients, component, model, root, wait_until};
use serde_json::json;
use tempfile::TempDir;

/// A folder of versions: each number with a model of `tests/models`.
fn folder(models: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    models.iter().for_each(|(number, name)| add(folder.path(), number, &model(name)));
    folder
}

/// As the guide says: complete elsewhere, then renamed.
fn add(folder: &Path, number: &str, model: &Path) {
    let aside = folder.join("new");
    fs::create_dir(&aside).unwrap();
    fs::copy(model, aside.join("model.onnx")).unwrap();
    fs::rename(aside, folder.join(number)).unwrap();
}

const THREE: [(&str, &str); 3] = [("1", "identity_fp32"), ("2", "sum"), ("10", "batch_size")];

/// The numbers of the versions that are served, that of requests which name none first.
fn served(host: &Host) -> Vec<u64> {
    let model = &host.endpoint("m")["models"][0];
    let others = model["other_versions"].as_array().unwrap().iter();
    std::iter::once(&model["version"]).chain(others).map(|it| it.as_u64().unwrap()).collect()
}

#[test]
fn a_request_names_a_version_in_every_protocol() {
    let folder = folder(&THREE);
    let endpoint = Endpoint::new("m").model_at(folder.path(), "versions = 2");
    let host = Setup::of([endpoint]).arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    assert_eq!(served(&host), [10, 2]);
    let missing = "model `m` is served in versions 10, 2, not `1`";

    for (query, answer) in
        [("", json!([[2, 2]])), ("?version=10", json!([[2, 2]])), ("?version=2", json!([3.0]))]
    {
        assert_eq!(host.post(&format!("/m{query}"), "[1, 2]").json(), answer, "{query}");
    }
    assert_eq!(host.post("/m?model=default&version=1", "[1, 2]").error(404, "not_found", "admit"), missing);

    let input = json!({ "inputs": [{ "name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2] }] });
    let infer = |at: &str| host.post(&format!("/v2/models/m{at}/infer"), input.to_string());
    for (at, version, output) in
        [("", "10", "rows"), ("/versions/10", "10", "rows"), ("/versions/2", "2", "total")]
    {
        let answer = infer(at).json();
        assert_eq!(
            (&answer["model_version"], &answer["outputs"][0]["name"]),
            (&json!(version), &json!(output))
        );
    }
    assert_eq!(infer("/versions/1").error(404, "not_found", "admit"), missing);
    assert_eq!(host.get("/v2/models/m").json()["versions"], json!(["2", "10"]));
    let second = host.get("/v2/models/m/versions/2").json();
    assert_eq!((&second["versions"], &second["outputs"][0]["name"]), (&json!(["2"]), &json!("total")));
    let policy = host.get("/v2/models/m/config").json()["version_policy"].clone();
    assert_eq!(policy, json!({ "latest": { "num_versions": 2 } }));
    let index = host.post("/v2/repository/index", "").json();
    let entry = |version: &str| json!({ "name": "m", "version": version, "state": "READY", "reason": "" });
    assert_eq!(index, json!([entry("2"), entry("10")]));

    let predict = |at: &str| host.post(&format!("/v1/models/m{at}:predict"), r#"{"inputs": [1, 2]}"#);
    assert_eq!(predict("/versions/2").json(), json!({ "outputs": 3.0 }));
    assert_eq!(predict("").json(), json!({ "outputs": [2, 2] }));
    assert_eq!(predict("/versions/1").error(404, "not_found", "admit"), missing);
    let status = host.get("/v1/models/m").json()["model_version_status"].clone();
    assert_eq!((&status[0]["version"], &status[1]["version"]), (&json!("10"), &json!("2")));

    clients::run("tf_versions", &[host.grpc.as_ref().unwrap(), &host.url]);
    assert!(!host.log().contains("ERROR"), "{}", host.log());
}

#[test]
fn versions_come_change_and_go_without_an_order() {
    let folder = folder(&[("1", "identity_fp32"), ("2", "sum")]);
    let endpoint = Endpoint::new("m").model_at(folder.path(), "versions = 2, watch = true");
    let host = Setup::of([endpoint]).serve();
    let becomes = |versions: &[u64]| wait_until("other versions to be served", || served(&host) == versions);
    let sum = |_: &str| "[1, 2]".to_owned();
    let load = Pattern { clients: 2, body: sum, ..Pattern::new(&host.url, "/m?version=2") }.start();

    add(folder.path(), "3", &model("batch_size"));
    becomes(&[3, 2]);
    assert_eq!(host.post("/m", "[1, 2]").json(), json!([[2, 2]]));
    // A folder without a model is no version yet, and the next one down takes the place of what is gone.
    fs::create_dir(folder.path().join("4")).unwrap();
    add(folder.path(), "0", &model("identity_fp32"));
    fs::remove_dir_all(folder.path().join("3")).unwrap();
    fs::remove_dir(folder.path().join("4")).unwrap();
    becomes(&[2, 1]);
    let text = host.post("/m?version=3", "[1, 2]").error(404, "not_found", "admit");
    assert_eq!(text, "model `m` is served in versions 2, 1, not `3`");
    load.wait_for_more(20);
    let answers = load.stop();
    assert!(answers.iter().all(|answer| answer.ok().text() == "[3.0]"), "{} answers", answers.len());

    // What is no model is refused, once; what is put in its place is served.
    add(folder.path(), "5", &root().join("README.md"));
    host.wait_for_log("versions of the model refused");
    assert_eq!(served(&host), [2, 1]);
    fs::copy(model("batch_size"), folder.path().join("5/model.onnx")).unwrap();
    becomes(&[5, 2]);
    assert_eq!(host.log().matches("versions of the model refused").count(), 1, "{}", host.log());
    assert_eq!(host.post("/m?version=2", "[1, 2]").json(), json!([3.0]));
}

#[test]
fn versions_share_one_handler_and_have_to_be_alike() {
    let iris = root().join("examples/iris-wasm/iris.onnx");
    let (folder, handler) = (tempfile::tempdir().unwrap(), component("iris-wasm"));
    add(folder.path(), "1", &iris);
    add(folder.path(), "2", &iris);
    let (path, handler) = (folder.path().to_str().unwrap(), handler.to_str().unwrap());
    let arguments = ["--model", path, "--name", "m", "--model-versions", "2", "--plugin", handler];
    let host = Host::serve(&arguments);
    let sample = fs::read(root().join("examples/iris-wasm/sample.json")).unwrap();
    for query in ["", "?version=1", "?version=2"] {
        assert_eq!(host.post(&format!("/m{query}"), &sample).status, 200, "{query}");
    }
    drop(host);
    fs::copy(model("add"), folder.path().join("1/model.onnx")).unwrap();
    let (_, log) = Host::try_serve(&arguments).err().expect("a handler for two models");
    assert!(log.contains("version 1 is not like version 2, and the handler is for both: input "), "{log}");
}

#[test]
fn a_model_that_is_no_folder_of_versions_has_none() {
    let path = model("sum").display().to_string();
    for (setting, name) in [(&["--model-versions", "2"][..], "versions"), (&["--watch-model"], "watch")] {
        let (status, log) = Host::try_serve(&[&["--model", &path], setting].concat()).err().unwrap();
        let text = format!("`{name}` is set, but it is one model, not a folder of versions");
        assert!(status.code() == Some(1) && log.contains(&text), "{log}");
    }
}
