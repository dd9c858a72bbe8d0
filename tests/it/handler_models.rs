//! Handlers that call their endpoint's models by themselves.

use std::time::Duration;

use e2e::Host;
use e2e::load::{Pattern, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use serde_json::{Value, json};

fn serve(limits: &str) -> Host {
    let calls = Endpoint::new("calls").guest("models").limits(limits);
    let calls = calls.named_model("add", "add", "").named_model("slow", "slow", "instances = 2");
    Setup::of([calls, Endpoint::new("neighbour").guest("echo")]).serve()
}

fn ask(host: &Host, order: &Value) -> Value {
    host.ask("/calls", order)
}

#[test]
fn a_handler_calls_models_by_value_and_with_tensors_that_stay() {
    let host = serve("");
    let missing = json!({"error": "NoSuchModel(\"none\")"});
    for (order, expected) in [
        (json!({"do": "names"}), json!(["add", "slow"])),
        (json!({"do": "describe"}), json!({"ok": 2})),
        (json!({"do": "describe", "model": "slow"}), json!({"ok": 1})),
        (json!({"do": "describe", "model": "none"}), missing.clone()),
        (json!({"do": "infer"}), json!({"ok": [11.0, 13.0]})),
        (json!({"do": "infer", "model": "add"}), json!({"ok": [11.0, 13.0]})),
        (json!({"do": "infer", "model": "none"}), missing),
        (json!({"do": "wrong"}), json!({"error": "InvalidInput(\"input `b`: missing, expected FP32 [2]\")"})),
        (json!({"do": "chain", "times": 1000}), json!({"ok": [1000.0, 2001.0]})),
        (
            json!({"do": "rows"}),
            json!({"ok": {
                "last": [2.0, 3.0, 4.0, 5.0], "part": [0, 0, 0, 64, 0, 0, 64, 64], "shape": [4],
                "beyond": {"error": "InvalidInput(\"rows 2+2 of a tensor of [3, 2]\")"},
                "other": {"error": "InvalidInput(\"[3, 2] has other than the 6 elements of [5]\")"},
            }}),
        ),
        (json!({"do": "together", "model": "slow", "times": 8}), json!({"ok": 8})),
    ] {
        assert_eq!(ask(&host, &order), expected, "{order}");
    }
}

/// Files and streams have a limit of their own, which is smaller where there are many instances.
#[test]
fn tensors_are_no_files() {
    let host = serve("");
    let at_limit = json!([1024, {"error": "Limit(\"more than 1024 tensors, `limits.tensors`\")"}]);
    assert_eq!(ask(&host, &json!({"do": "hold", "times": 2000})), at_limit);
}

#[test]
fn what_a_request_has_of_models_is_limited_and_goes_with_it() {
    let host = serve("tensors = 10, tensor_memory = '1KiB', model_runs = 5");
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    // Each request begins with nothing: the second answer is the first's.
    for _ in 0..2 {
        for (order, expected) in [
            (
                json!({"do": "hold", "times": 100}),
                json!([10, {"error": "Limit(\"more than 10 tensors, `limits.tensors`\")"}]),
            ),
            (
                json!({"do": "large", "times": 1017}),
                json!({"error": "Limit(\"tensors of more than 1024 bytes, `limits.tensor_memory`\")"}),
            ),
            // With its shape, of one extent.
            (json!({"do": "large", "times": 1016}), json!({"ok": 1016})),
            (json!({"do": "runs", "times": 100}), json!(5)),
            (json!({"do": "drop", "model": "slow", "times": 100}), json!("dropped")),
        ] {
            assert_eq!(ask(&host, &order), expected, "{order}");
        }
    }
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}
