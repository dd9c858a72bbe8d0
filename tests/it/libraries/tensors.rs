//! The library for tensors in each language that has it, against what NumPy has made of the same ones.
//!
//! In: `guest-sdk/library/tensor/cases.json`.

use std::fs;

use e2e::clients::finished;
use e2e::{Host, component, root};
use serde_json::{Value, json};

use super::{host, project, with_files};

const PYTHON: &str = r#"
import json

from modelhost_guest import Answer, Response, Tensor, post_inference, pre_inference, tensor


@pre_inference
def compute(sample):
    asked = json.loads(sample.body)
    operation, values = asked["operation"], asked["values"]
    given = [Tensor(values, datatype, shape) for datatype, shape, values in asked["tensors"]]
    if operation == "suppress":
        overlap, score, most = values
        made = tensor.suppress(*given, most_overlap=overlap, least_score=score, most=most)
    elif operation == "concat":
        made = tensor.concat(given, *values)
    else:
        made = getattr(tensor, operation)(*given, *values)
    made = made if isinstance(made, tuple) else (made,)
    raise Answer(Response([[it.datatype, it.shape, list(it.values)] for it in made]))


@post_inference
def answer(tensors):
    return None
"#;

const JAVASCRIPT: &str = r#"
import { Response, Tensor, handler } from "modelhost-guest";
import * as tensor from "modelhost-guest/tensor";

export const { preInference, postInference } = handler({
  preInference(sample) {
    const asked = JSON.parse(new TextDecoder().decode(sample.body));
    const given = asked.tensors.map(([datatype, shape, values]) => new Tensor(values, { datatype, shape }));
    const operation = asked.operation.replace(/_(.)/, (_, letter) => letter.toUpperCase());
    let made;
    if (operation === "suppress") {
      const [boxes, scores, classes] = given;
      const [mostOverlap, leastScore, most] = asked.values;
      made = tensor.suppress(boxes, scores, { classes, mostOverlap, leastScore, most });
    } else if (operation === "concat") {
      made = tensor.concat(given, ...asked.values);
    } else {
      made = tensor[operation](...given, ...asked.values);
    }
    const list = Array.isArray(made) ? made : [made];
    throw new Response(list.map((it) => [it.datatype, it.shape, Array.from(it.values, Number)]));
  },
  postInference: () => undefined,
});
"#;

#[test]
fn tensors_in_python() {
    computes_as_numpy_does("python", "app.py", PYTHON);
}

#[test]
fn tensors_in_javascript() {
    computes_as_numpy_does("js", "handler.js", JAVASCRIPT);
}

#[test]
fn tensors_in_go() {
    computes_as_numpy_does("go", "handler.go", include_str!("go/tensors.go"));
}

#[test]
fn tensors_in_c() {
    computes_as_numpy_does("c", "src/handler.c", include_str!("c/tensors.c"));
}

#[test]
fn tensors_in_zig() {
    computes_as_numpy_does("zig", "src/handler.zig", include_str!("zig/tensors.zig"));
}

fn computes_as_numpy_does(language: &str, source: &str, program: &str) {
    component("library/tensor");
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), language, source, program);
    with_files(&project, &["tensor"]);
    finished(&mut host(&project, &["build"]), "host build");
    let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
    let cases = fs::read_to_string(root().join("guest-sdk/library/tensor/cases.json")).unwrap();
    for case in serde_json::from_str::<Vec<Value>>(&cases).unwrap() {
        // Whole numbers of 64 bits are no numbers of JavaScript.
        if language == "js" && case.to_string().contains("9007199254740993") {
            continue;
        }
        let reply = host.post("/", case.to_string());
        assert_eq!(reply.status, 200, "{case}: {}", reply.text());
        let made: Vec<(String, Vec<u64>, Vec<Value>)> = serde_json::from_str(&reply.text()).unwrap();
        let expected: Vec<(String, Vec<u64>, Vec<Value>)> =
            serde_json::from_value(case["expected"].clone()).unwrap();
        for ((datatype, shape, made), (of_numpy, its_shape, expected)) in made.iter().zip(&expected) {
            assert_eq!((datatype, shape, made.len()), (of_numpy, its_shape, expected.len()), "{case}");
            let number =
                |value: &Value| value.as_f64().unwrap_or_else(|| f64::from(value.as_bool().unwrap()));
            let differences =
                made.iter().zip(expected).map(|(one, other)| (number(one) - number(other)).abs());
            assert!(differences.fold(0.0, f64::max) < 1e-6, "{case}: {made:?}");
        }
    }
    // Beside an extent of 0 others may be any; nothing is as many elements as these.
    let of = |shape: &[u64]| {
        json!({ "operation": "softmax", "tensors": [["FP32", shape, []]], "values": [0] }).to_string()
    };
    let (empty, most) = ([0, 4_294_967_295, 4_294_967_295], [4_294_967_295, 4_294_967_295]);
    for _ in 0..2 {
        let reply = host.post("/", of(&empty));
        assert_eq!((reply.status, reply.json()), (200, json!([["FP32", empty, []]])), "{}", reply.text());
        host.post("/", of(&most)).error(500, "plugin_error", "pre_inference");
    }
    let broken = r#"{"operation": "argmax", "tensors": [["FP32", [2], [1, 2]]], "values": [3]}"#;
    host.post("/", broken).error(500, "plugin_error", "pre_inference");
    host.wait_for_log("axis 3 of a tensor that has 1");
}
