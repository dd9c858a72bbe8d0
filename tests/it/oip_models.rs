//! What clients of the Open Inference Protocol learn of server and models, and how they load and unload them.

use e2e::oip::{infer, input};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::Wire;
use e2e::{Host, Reply, model, request, root};
use serde_json::{Value, json};

/// Every kind of model there is.
fn every_kind(tables: &str) -> Host {
    let endpoints = [
        Endpoint::new("iris").model("iris_dyn"),
        Endpoint::new("rows").model("rows").set("batching = { max_batch = 8, wait = 'always' }"),
        Endpoint::new("saved").model_at(&root().join("tests/models/savedmodels/iris_tf2"), ""),
        Endpoint::new("alone").guest("greet"),
        Endpoint::new("two").named_model("a", "add", "").named_model("b", "strid", ""),
    ];
    Setup::of(endpoints).tables(tables).serve()
}

fn order(url: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    request("POST", &format!("{url}/v2/repository/{path}"), headers, body.as_bytes())
}

fn index(host: &Host, body: &str) -> Value {
    let reply = order(&host.url, "index", &[], body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// Whether the repository says that `name` is served, and whether the protocol agrees.
fn is_ready(host: &Host, name: &str) -> bool {
    let index = index(host, "");
    let entry = index.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
    let reply = host.get(&format!("/v2/models/{name}/ready"));
    let ready = reply.status == 200;
    assert_eq!(entry["state"], if ready { "READY" } else { "UNAVAILABLE" });
    assert_eq!(reply.json(), json!({ "name": name, "ready": ready }));
    ready
}

#[test]
fn what_can_be_learned_of_every_kind_of_model() {
    let host = every_kind("");
    let server = host.get("/v2").json();
    assert_eq!(server["name"], "modelhost");
    let extensions = [
        "binary_tensor_data",
        "classification",
        "model_configuration",
        "model_repository",
        "parameters",
        "sequence",
        "statistics",
    ];
    assert_eq!(server["extensions"], json!(extensions));
    assert_eq!(host.get("/v2/health/live").status, 200);
    assert_eq!(host.get("/v2/health/ready").status, 200);

    let tensor = |name: &str, datatype: &str, shape: Value| json!({ "name": name, "datatype": datatype, "shape": shape });
    let iris = json!({
        "name": "iris", "versions": ["1"], "platform": "onnxruntime_onnx",
        "inputs": [tensor("input", "FP32", json!([-1, 4]))],
        "outputs": [tensor("label", "INT64", json!([-1])), tensor("probabilities", "FP32", json!([-1, 3]))],
    });
    assert_eq!(host.get("/v2/models/iris").json(), iris);
    assert_eq!(host.get("/v2/models/iris/versions/1").json(), iris);
    let saved = host.get("/v2/models/saved").json();
    assert_eq!((&saved["platform"], &saved["versions"]), (&json!("tensorflow_savedmodel"), &json!(["1"])));
    let alone = host.get("/v2/models/alone").json();
    assert_eq!(alone["platform"], "wasm_handler");
    // Several models of one endpoint have names of their own; by its own name it is the first.
    let inputs = |name: &str| host.get(&format!("/v2/models/{name}")).json()["inputs"][0]["name"].clone();
    assert_eq!([inputs("two"), inputs("two.a"), inputs("two.b")], ["a", "a", "s"]);

    let names: Vec<Value> =
        index(&host, "{}").as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    assert_eq!(names, ["iris", "rows", "saved", "alone", "two", "two.a", "two.b"]);
    assert!(["iris", "rows", "saved", "alone", "two.b"].into_iter().all(|name| is_ready(&host, name)));
    let reply = infer(&host, "two.b", &json!({ "inputs": [input("s", "BYTES", &[1], json!(["hi"]))] }));
    assert_eq!(
        (&reply.json()["model_name"], &reply.json()["outputs"][0]["data"]),
        (&json!("two.b"), &json!(["hi"]))
    );
    let stats = host.get("/v2/models/stats").json()["model_stats"].take();
    let stats: Vec<&str> =
        stats.as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(stats, ["iris", "rows", "saved", "alone", "two"]);

    for path in ["", "/ready", "/config", "/stats", "/versions/1", "/versions/1/stats"] {
        let reply = host.get(&format!("/v2/models/nobody{path}"));
        assert_eq!(reply.error(404, "not_found", "admit"), "there is no model `nobody`", "{path}");
    }
    host.get("/v2/models/iris/versions/7/config").error(404, "not_found", "admit");
    host.get("/v2/models/%FF").error(404, "not_found", "admit");
    host.get("/v2/models").error(404, "not_found", "admit");
    host.post("/v2/models/iris", "{}").error(405, "method_not_allowed", "admit");
}

#[test]
fn a_configuration_leaves_out_the_extent_of_batches() {
    let host = every_kind("");
    let config = |name: &str| host.get(&format!("/v2/models/{name}/config")).json();
    let iris = config("iris");
    assert_eq!((&iris["max_batch_size"], iris.get("dynamic_batching")), (&json!(0), None));
    assert_eq!((&iris["backend"], &iris["platform"]), (&json!("onnxruntime"), &json!("onnxruntime_onnx")));
    assert_eq!(iris["input"], json!([{ "name": "input", "data_type": "TYPE_FP32", "dims": [-1, 4] }]));
    assert_eq!(iris["instance_group"][0]["kind"], "KIND_CPU");
    let rows = config("rows");
    assert_eq!((&rows["max_batch_size"], rows.get("dynamic_batching")), (&json!(8), Some(&json!({}))));
    let dims: Vec<Value> =
        rows["input"].as_array().unwrap().iter().map(|input| input["dims"].clone()).collect();
    assert_eq!(dims, [json!([-1]), json!([]), json!([])]);
    assert_eq!(rows["input"][2]["data_type"], "TYPE_STRING");
    assert_eq!(config("alone")["backend"], "wasm");
}

#[test]
fn orders_are_for_the_operator_unless_clients_may_give_them() {
    let host = every_kind("");
    for verb in ["load", "unload"] {
        let reply = order(&host.url, &format!("models/iris/{verb}"), &[], "");
        let text = reply.error(400, "invalid_input", "admit");
        assert!(text.contains("`--model-control`") && text.contains("admin address"), "{text}");
    }
    assert!(is_ready(&host, "iris"));
    // The operator's listener takes them, but from no web page.
    let from_a_page = order(&host.admin, "models/iris/unload", &[("origin", "http://evil.example")], "");
    assert_eq!((from_a_page.status, is_ready(&host, "iris")), (403, true));
    assert_eq!(order(&host.admin, "models/iris/unload", &[], "").status, 200);
    assert!(!is_ready(&host, "iris"));
    let flower = json!({ "inputs": [input("input", "FP32", &[1, 4], json!([5.2, 3.6, 1.4, 0.3]))] });
    infer(&host, "iris", &flower).error(503, "model_unloaded", "admit");
    host.get("/v2/models/iris").error(503, "model_unloaded", "admit");
    host.get("/v2/models/iris/config").error(503, "model_unloaded", "admit");
    assert!(!index(&host, r#"{"ready":true}"#).to_string().contains("\"iris\""));
    assert!(is_ready(&host, "two.a"), "a neighbour");
    assert_eq!(order(&host.admin, "models/iris/load", &[], "").status, 200);
    assert!(is_ready(&host, "iris"));
    assert_eq!(infer(&host, "iris", &flower).status, 200);
    // The operator learns of the models too, but asks nothing of them.
    assert_eq!(request("GET", &format!("{}/v2/models/iris", host.admin), &[], &[]).status, 200);
    assert_eq!(request("POST", &format!("{}/v2/models/iris/infer", host.admin), &[], &[]).status, 404);
}

#[test]
fn orders_of_clients() {
    let host = every_kind("[server]\nmodel_control = true\n");
    let give = |path: &str, body: &str| order(&host.url, &format!("models/{path}"), &[], body);
    let from_a_page = order(&host.url, "models/iris/unload", &[("origin", "http://evil.example")], "");
    from_a_page.error(403, "forbidden", "admit");
    assert_eq!(give("two.b/unload", r#"{"parameters":{"unload_dependents":false}}"#).status, 200);
    assert_eq!(
        [is_ready(&host, "two.b"), is_ready(&host, "two.a"), is_ready(&host, "two")],
        [false, true, true]
    );
    // Twice is once.
    assert_eq!(give("two.b/unload", "").status, 200);
    assert_eq!(give("two.b/load", "{}").status, 200);
    assert!(is_ready(&host, "two.b"));

    give("nobody/load", "").error(404, "not_found", "admit");
    give("alone/unload", "").error(400, "invalid_input", "admit");
    assert_eq!(give("alone/load", "").status, 200);
    give("iris/load", "{").error(400, "invalid_input", "admit");
    for parameter in [r#""config":"{}""#, r#""file:1/model.onnx":"AAAA""#] {
        let text = give("iris/load", &format!(r#"{{"parameters":{{{parameter}}}}}"#)).error(
            400,
            "invalid_input",
            "admit",
        );
        assert!(text.contains("files of the server"), "{text}");
    }
    let mut long = Wire::connect(&host.url).unwrap();
    let head = "POST /v2/repository/models/iris/load HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n";
    long.send(head.as_bytes()).unwrap();
    assert_eq!(long.read().unwrap().status, 413);
    order(&host.url, "index", &[], "nonsense").error(400, "invalid_input", "admit");
    assert!(is_ready(&host, "iris"));
}

#[test]
fn a_model_that_cannot_be_loaded_leaves_the_old_one_in_service() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.onnx");
    std::fs::copy(model("add"), &file).unwrap();
    let host = Host::with(None, Some(&file), &["--model-control"]);
    std::fs::write(&file, "no model").unwrap();
    let text = order(&host.url, "models/m/load", &[], "").error(400, "invalid_input", "admit");
    assert_eq!(text, "the model cannot be loaded; the log says why");
    assert!(is_ready(&host, "m"));
    host.wait_for_log("order to load or unload a model refused");
}
