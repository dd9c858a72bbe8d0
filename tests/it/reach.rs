//! No way to a model past its handler; and protocols by which an endpoint can be reached at all.

use e2e::oip::{infer, input, outputs};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, clients, component, model};
use serde_json::{Value, json};

fn flower(values: [f32; 4]) -> Value {
    let names = ["sepal_length", "sepal_width", "petal_length", "petal_width"];
    let inputs = names.iter().zip(values);
    let inputs: Vec<_> = inputs.map(|(name, value)| input(name, "FP32", &[], json!(value))).collect();
    json!({ "inputs": inputs })
}

/// A handler that takes bodies stands in the way of tensors too: it gets them as the object that its bodies are.
#[test]
fn tensors_reach_a_handler_that_takes_bodies_as_its_body() {
    for guest in ["tests/pre_only", "iris-wasm"] {
        let plugin = component(guest);
        let metadata = ["--metadata", r#"{"labels":["a","b","c"]}"#];
        let host = Host::with(
            Some(&plugin),
            Some(&model("iris_static")),
            &[&["--name", "iris"], &metadata[..]].concat(),
        );
        let reply = infer(&host, "iris", &flower([5.2, 3.6, 1.4, 0.3]));
        assert_eq!(reply.status, 200, "{guest}: {}", reply.text());
        // The model's own input is none of the handler's.
        let own = json!({ "inputs": [input("input", "FP32", &[1, 4], json!([5.2, 3.6, 1.4, 0.3]))] });
        let refused = infer(&host, "iris", &own).error(400, "invalid_input", "pre_inference");
        assert!(refused.contains("sepal_length"), "{refused}");
        // What the handler answers becomes tensors.
        match guest {
            "iris-wasm" => {
                let found = outputs(&reply);
                let label = found.as_array().unwrap().iter().find(|output| output["name"] == "class_label");
                assert_eq!(label.unwrap()["data"], json!(["a"]), "{found}");
            }
            _ => assert_eq!(outputs(&reply)[0]["name"], "probabilities"),
        }
    }
}

#[test]
fn an_endpoint_is_reached_by_the_protocols_that_it_speaks_only() {
    let endpoint = |name: &str| Endpoint::new(name).model("add").set(format!("path = '/by/{name}'"));
    let one = |name: &str| endpoint(name).set(format!("protocols = ['{name}']"));
    let host = Setup::of(["http", "v1", "v2", "grpc"].map(one))
        .endpoint(endpoint("all"))
        .arguments(&["--grpc-listen", "127.0.0.1:0"])
        .serve();
    let tensor = |name: &str| input(name, "FP32", &[2], json!([1, 2]));
    let v2 = json!({ "inputs": [tensor("a"), tensor("b")] }).to_string();
    let body = r#"{"a":[1,2],"b":[3,4]}"#;
    let v1 = r#"{"inputs":{"a":[1,2],"b":[3,4]}}"#;
    for name in ["http", "v1", "v2", "grpc", "all"] {
        let speaks = |protocol: &str| if name == protocol || name == "all" { 200 } else { 404 };
        let found = [
            ("http", host.post(&format!("/by/{name}"), body)),
            ("v1", host.post(&format!("/v1/models/{name}:predict"), v1)),
            ("v1", host.get(&format!("/v1/models/{name}"))),
            ("v2", host.post(&format!("/v2/models/{name}/infer"), &v2)),
            ("v2", host.get(&format!("/v2/models/{name}"))),
            ("v2", host.get(&format!("/v2/models/{name}/ready"))),
        ];
        for (protocol, reply) in found {
            assert_eq!(reply.status, speaks(protocol), "{name} by {protocol}: {}", reply.text());
        }
    }
    clients::run("grpc_raw", &[host.grpc.as_ref().unwrap(), "reachable"]);
    // What a list of models shows can be asked.
    assert_eq!(host.get("/v1/models").json(), json!({ "models": ["v1", "all"] }));
}
