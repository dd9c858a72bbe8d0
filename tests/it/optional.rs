//! Inputs that a model has a value for: given by name on every protocol, or left out.
//!
//! The model is `defaults`: y = x · scale + offset, of which only `x` has to be given; the graph names
//! `scale` first.

use std::thread;

use e2e::oip::{binary, infer, infer_binary, input, outputs};
use e2e::{Host, Reply, model};
use serde_json::{Value, json};

fn serve(more: &[&str]) -> Host {
    Host::with(None, Some(&model("defaults")), &[&["--name", "m"], more].concat())
}

fn text(reply: &Reply) -> String {
    reply.json()["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn on_the_endpoints_own_path() {
    let host = serve(&[]);
    for (body, expected) in [
        (json!([[1, 2]]), json!([[2.0, 14.0]])),
        (json!({ "x": [[1, 2]] }), json!([[2.0, 14.0]])),
        (json!({ "x": [[1, 2]], "scale": null }), json!([[2.0, 14.0]])),
        (json!({ "scale": [3], "x": [[1, 2]] }), json!([[3.0, 16.0]])),
        (json!({ "offset": [1, 1], "x": [[1, 2]] }), json!([[3.0, 5.0]])),
        (json!({ "offset": [1, 1], "x": [[1, 2]], "scale": [3] }), json!([[4.0, 7.0]])),
    ] {
        assert_eq!(host.post("/m", body.to_string()).json(), json!([expected]), "{body}");
    }
    for (body, expected) in [
        (json!({ "scale": [3] }), "missing key \"x\""),
        (json!({ "x": [[1, 2]], "scale": [3, 4] }), "input `scale`: expected FP32 [1], got FP32 [2]"),
    ] {
        let reply = host.post("/m", body.to_string());
        assert_eq!((reply.status, text(&reply).as_str()), (400, expected), "{body}");
    }
    let described = host.get("/m").json();
    let scale = json!({ "shape": [1], "type": "float32", "optional": true });
    assert_eq!(described["model_signature"]["scale"], scale);
    assert_eq!(described["model_signature"]["x"], json!({ "shape": ["N", 2], "type": "float32" }));
}

#[test]
fn as_tensors() {
    let host = serve(&[]);
    let x = input("x", "FP32", &[1, 2], json!([1, 2]));
    let any_name = input("anything", "FP32", &[1, 2], json!([1, 2]));
    let scale = input("scale", "FP32", &[1], json!([3]));
    let offset = input("offset", "FP32", &[2], json!([1, 1]));
    let y = |inputs: &[&Value]| infer(&host, "m", &json!({ "inputs": inputs }));
    for (inputs, expected) in [
        (vec![&x], [2.0, 14.0]),
        (vec![&any_name], [2.0, 14.0]),
        (vec![&scale, &x], [3.0, 16.0]),
        (vec![&x, &offset], [3.0, 5.0]),
        (vec![&offset, &scale, &x], [4.0, 7.0]),
    ] {
        assert_eq!(outputs(&y(&inputs))[0]["data"], json!(expected), "{inputs:?}");
    }
    for (inputs, expected) in [
        (vec![&scale], "input `x`: missing, expected FP32 [N, 2]"),
        (vec![&x, &any_name], "input `x`: given twice"),
    ] {
        let reply = y(&inputs);
        assert_eq!((reply.status, text(&reply).as_str()), (400, expected), "{inputs:?}");
    }
    let request = json!({ "inputs": [binary("scale", "FP32", &[1], 4), x] });
    let reply = infer_binary(&host, "m", &request, &3f32.to_le_bytes());
    assert_eq!(outputs(&reply)[0]["data"], json!([3.0, 16.0]));
    // A body that is nothing but data is that of the input that has to be given.
    let body = [1f32, 2.0].map(f32::to_le_bytes).concat();
    let reply =
        host.request("POST", "/v2/models/m/infer", &[("inference-header-content-length", "0")], &body);
    assert_eq!(reply.status, 200, "{}", reply.text());

    let names = |tensors: &Value| -> Vec<Value> {
        tensors.as_array().unwrap().iter().map(|tensor| tensor["name"].clone()).collect()
    };
    assert_eq!(names(&host.get("/v2/models/m").json()["inputs"]), ["x", "scale", "offset"]);
    let config = host.get("/v2/models/m/config").json();
    let optional: Vec<Value> =
        config["input"].as_array().unwrap().iter().map(|input| input["optional"].clone()).collect();
    assert_eq!(optional, [json!(null), json!(true), json!(true)]);
}

#[test]
fn as_rows_and_columns() {
    let host = serve(&[]);
    let predict = |body: &Value| host.post("/v1/models/m:predict", body.to_string());
    for (body, expected) in [
        (json!({ "instances": [[1, 2], [0, 0]] }), json!({ "predictions": [[2.0, 14.0], [0.0, 10.0]] })),
        (json!({ "instances": [{ "x": [1, 2] }] }), json!({ "predictions": [[2.0, 14.0]] })),
        (json!({ "instances": [{ "x": [1, 2], "scale": 3 }] }), json!({ "predictions": [[3.0, 16.0]] })),
        (json!({ "inputs": [[1, 2]] }), json!({ "outputs": [[2.0, 14.0]] })),
        (json!({ "inputs": { "x": [[1, 2]], "offset": [1, 1] } }), json!({ "outputs": [[3.0, 5.0]] })),
    ] {
        assert_eq!(predict(&body).json(), expected, "{body}");
    }
    let reply = predict(&json!({ "instances": [{ "x": [1, 2], "scale": 3 }, { "x": [1, 2] }] }));
    assert_eq!((reply.status, text(&reply).as_str()), (400, "key \"scale\": given with 1 of 2 instances"));
}

/// An optional input concerns all rows of a run, so a request that gives one shares its run with no other.
#[test]
fn a_request_that_gives_one_shares_no_run() {
    let host = serve(&["--max-batch", "8", "--batch-wait", "always", "--max-delay", "5ms"]);
    thread::scope(|scope| {
        for client in 0..6 {
            let host = &host;
            scope.spawn(move || {
                for _ in 0..50 {
                    let (body, expected) = match client {
                        0..3 => {
                            (json!({ "x": [[1, client]] }), json!([[2.0, 2.0 * f64::from(client) + 10.0]]))
                        }
                        _ => {
                            let scale = f64::from(client);
                            (json!({ "x": [[1, 1]], "scale": [client] }), json!([[scale, scale + 10.0]]))
                        }
                    };
                    assert_eq!(host.post("/m", body.to_string()).json(), json!([expected]));
                }
            });
        }
    });
}
