//! Components that run models by `wasi:nn`, the interface of other hosts.

use std::time::Duration;

use e2e::load::{Pattern, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, model, wait_until};
use serde_json::{Value, json};

fn serve(limits: &str) -> Host {
    let (plugin, echo) = (component("tests/nn"), component("tests/echo"));
    Host::configured(&format!(
        "[[endpoint]]\nname = \"nn\"\nplugin = {plugin:?}\n[endpoint.limits]\n{limits}\n\
         [endpoint.models.add]\npath = {:?}\n[endpoint.models.text]\npath = {:?}\n\
         [[endpoint]]\nname = \"neighbour\"\nplugin = {echo:?}\n",
        model("add"),
        model("strid"),
    ))
}

fn ask(host: &Host, order: &Value) -> Value {
    host.ask("/nn", order)
}

#[test]
fn nn_runs_the_models_of_the_endpoint_by_name() {
    let host = serve("");
    let (a, b) = (json!({"name": "a", "values": [1, 2]}), json!({"name": "b", "values": [10, 20]}));
    for (order, expected) in [
        (
            json!({"do": "run", "model": "add", "inputs": [b, a]}),
            json!({"ok": [["sum", [2], "TensorType::Fp32", [11.0, 22.0]]]}),
        ),
        (
            json!({"do": "run", "model": "none"}),
            json!({"error": ["ErrorCode::NotFound", "the endpoint has no model `none`"]}),
        ),
        (
            json!({"do": "run", "model": "add", "inputs": [a]}),
            json!({"error": ["ErrorCode::InvalidArgument", "input `b`: missing, expected FP32 [2]"]}),
        ),
        (
            json!({"do": "load"}),
            json!({"error": ["ErrorCode::UnsupportedOperation",
                "handlers bring no models: name one of the endpoint's with `load-by-name`"]}),
        ),
    ] {
        assert_eq!(ask(&host, &order), expected, "{order}");
    }
    // The size of its data is looked at when it is used.
    let order = json!({"do": "run", "model": "add", "inputs": [{"name": "a", "values": [1], "extent": 2}]});
    let answer = ask(&host, &order);
    assert_eq!(answer["error"][0], "ErrorCode::InvalidArgument", "{answer}");
    assert!(answer["error"][1].as_str().unwrap().starts_with("input `a`: "), "{answer}");
}

#[test]
fn nn_tensors_are_limited_and_a_neighbour_is_unharmed() {
    let host = serve("tensors = 10\nmodel_runs = 1");
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for _ in 0..2 {
        assert_eq!(ask(&host, &json!({"do": "hold", "times": 10})), json!(10));
        let reply = host.post("/nn", json!({"do": "hold", "times": 11}).to_string());
        let text = reply.error(500, "plugin_trap", "pre_inference");
        assert_eq!(text, "the handler holds more than 10 tensors, `limits.tensors`");
    }
    // Names of models are handles like others.
    let reply = host.post("/nn", json!({"do": "leak", "model": "add"}).to_string());
    let text = reply.error(500, "plugin_trap", "pre_inference");
    assert!(text.contains("files, streams, clocks and resources"), "{text}");
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}

/// The data of its tensors are the server's memory too: half of the budget is for the neighbour.
#[test]
fn nn_tensors_take_no_more_than_the_budget_and_a_neighbour_is_unharmed() {
    let nn = Endpoint::new("nn").guest("nn").named_model("identity", "identity_uint8", "");
    let endpoints = [nn.limits("tensor_memory = '256MiB'"), Endpoint::new("neighbour").guest("echo")];
    let host = Setup::of(endpoints).arguments(&["--memory", "64MiB"]).serve();
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    let held = || host.metric(r#"modelhost_memory_bytes{endpoint="nn"}"#);
    let fill = |times: u64| {
        ask(&host, &json!({"do": "fill", "model": "identity", "times": times, "bytes": 1 << 20}))
    };
    assert_eq!(fill(30), json!({"ok": [29, 1]}));
    wait_until("the memory to come back", || held() == 0.0);
    let full = json!({"error": ["ErrorCode::RuntimeError", "the model is overloaded"]});
    assert_eq!(fill(40), full);
    wait_until("the memory to come back", || held() == 0.0);
    assert_eq!(fill(30), json!({"ok": [29, 1]}));
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}
