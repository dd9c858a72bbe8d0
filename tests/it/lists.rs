//! Outputs that are no tensors: scikit-learn's maps from label to probability, and lists of tensors.

use e2e::oip::{infer, input, outputs};
use e2e::{Host, assert_close, model};
use serde_json::{Value, json};

const FLOWERS: &str = "[[5.2,3.6,1.4,0.3],[6.7,3.0,5.2,2.3]]";
const ONE: [f64; 3] = [0.9819308, 0.0180693, 1.737e-8];
const OTHER: [f64; 3] = [5.59e-5, 0.0800746, 0.9198695];

fn serve(name: &str, more: &[&str]) -> Host {
    Host::with(None, Some(&model(name)), &[&["--name", "m"], more].concat())
}

/// The map of each flower.
fn maps(labels: [&str; 3]) -> [Value; 2] {
    [ONE, OTHER]
        .map(|row| labels.into_iter().zip(row).map(|(label, p)| (label.to_owned(), json!(p))).collect())
}

#[test]
fn maps_are_objects_in_json() {
    for (name, labels) in
        [("zipmap", ["0", "1", "2"]), ("zipmap_text", ["setosa", "versicolor", "virginica"])]
    {
        for more in [&[][..], &["--max-batch", "8", "--batch-wait", "always"]] {
            let host = serve(name, more);
            let [one, other] = maps(labels);
            assert_close(&host.post("/m", FLOWERS).json(), &json!([[0, 2], [one, other]]));
            let predict = |body: String| host.post("/v1/models/m:predict", body).json();
            let row = |label, map| json!({ "output_label": label, "output_probability": map });
            assert_close(
                &predict(format!(r#"{{"instances": {FLOWERS}}}"#)),
                &json!({ "predictions": [row(0, &one), row(2, &other)] }),
            );
            assert_close(
                &predict(format!(r#"{{"inputs": {FLOWERS}}}"#)),
                &json!({ "outputs": { "output_label": [0, 2], "output_probability": [one, other] } }),
            );
        }
    }
}

#[test]
fn maps_are_values_and_labels_as_tensors() {
    let flowers =
        json!({ "inputs": [input("float_input", "FP32", &[2, 4], serde_json::from_str(FLOWERS).unwrap())] });
    let classes = json!(["setosa", "versicolor", "virginica", "setosa", "versicolor", "virginica"]);
    for (name, datatype, labels) in
        [("zipmap", "INT64", json!([0, 1, 2, 0, 1, 2])), ("zipmap_text", "BYTES", classes)]
    {
        let host = serve(name, &[]);
        let described = host.get("/v2/models/m").json()["outputs"].take();
        assert_eq!(
            described,
            json!([
                { "name": "output_label", "datatype": "INT64", "shape": [-1] },
                { "name": "output_probability", "datatype": "FP32", "shape": [-1, -1] },
                { "name": "output_probability.labels", "datatype": datatype, "shape": [-1, -1] },
            ])
        );
        let found = outputs(&infer(&host, "m", &flowers));
        assert_eq!(found[0]["data"], json!([0, 2]));
        assert_eq!(found[1]["shape"], json!([2, 3]));
        assert_close(&found[1]["data"], &json!([ONE, OTHER].concat()));
        assert_eq!((&found[2]["shape"], &found[2]["data"]), (&json!([2, 3]), &labels));
        // One of them, by name.
        let mut request = flowers.clone();
        request["outputs"] = json!([{ "name": "output_probability.labels" }]);
        let found = outputs(&infer(&host, "m", &request));
        assert_eq!((found.as_array().unwrap().len(), &found[0]["data"]), (1, &labels));
    }
}

#[test]
fn tensors_of_a_list_are_lists() {
    let host = serve("sequence", &[]);
    assert_eq!(host.post("/m", "[1, 2, 3]").json(), json!([[[1.0, 2.0, 3.0], [1.0]]]));
    let reply = host.post("/v1/models/m:predict", r#"{"inputs": [1, 2]}"#);
    assert_eq!(reply.json(), json!({ "outputs": [[1.0, 2.0], [1.0]] }));
    let found =
        outputs(&infer(&host, "m", &json!({ "inputs": [input("x", "FP32", &[3], json!([1, 2, 3]))] })));
    assert_eq!(
        found,
        json!([
            { "name": "list", "datatype": "FP32", "shape": [4], "data": [1.0, 2.0, 3.0, 1.0] },
            { "name": "list.shapes", "datatype": "INT64", "shape": [2, 1], "data": [3, 1] },
        ])
    );
    // A list has no rows.
    let refused = Host::try_serve(&["--model", model("sequence").to_str().unwrap(), "--max-batch", "8"]);
    let Err((_, log)) = refused else { panic!("a list cannot be batched") };
    assert!(log.contains("`list.shapes` belongs to a list, which has no rows"), "{log}");
}
