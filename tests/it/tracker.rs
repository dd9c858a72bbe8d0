//! What an endpoint predicts, as metrics: classes and values, by every protocol (case C24).

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component};
use serde_json::json;

fn tracked(kind: &str, key: &str) -> String {
    let key = if key.is_empty() { String::new() } else { format!(", key = {key:?}") };
    format!("tracker = {{ model_type = {kind:?}{key} }}")
}

fn classes(host: &Host, endpoint: &str) -> Vec<(String, u64)> {
    let start = "modelhost_predictions_total{class=\"";
    let end = format!("\",endpoint=\"{endpoint}\"}} ");
    let text = host.metrics();
    let class = |line: &str| {
        let (class, count) = line.strip_prefix(start)?.split_once(&end)?;
        Some((class.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(class).collect()
}

fn counted(classes: &[(&str, u64)]) -> Vec<(String, u64)> {
    classes.iter().map(|&(class, count)| (class.to_owned(), count)).collect()
}

#[test]
fn classes_of_a_handler_are_counted_and_nothing_else_changes() {
    let host = Setup::default()
        .endpoint(
            Endpoint::new("iris")
                .plugin(&component("iris-wasm"))
                .model("iris_dyn")
                .set(tracked("classification", "class_label")),
        )
        .endpoint(
            Endpoint::new("floats")
                .plugin(&component("iris-wasm"))
                .model("iris_dyn")
                .set(tracked("classification", "/probabilities/0")),
        )
        .endpoint(Endpoint::new("neighbour").plugin(&component("iris-wasm")).model("iris_dyn"))
        .serve();
    let sample = json!({"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.5, "petal_width": 0.3});
    let other = json!({"sepal_length": 6.9, "sepal_width": 3.1, "petal_length": 5.8, "petal_width": 2.1});
    for body in [&sample, &sample, &other] {
        let answers = ["/iris", "/floats", "/neighbour"].map(|path| host.post(path, body.to_string()).json());
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
    }
    // What is refused is no prediction.
    assert_eq!(host.post("/iris", "{}").status, 400);
    assert_eq!(classes(&host, "iris"), counted(&[("iris-setosa", 2), ("iris-virginica", 1)]));
    assert_eq!(classes(&host, "floats"), []);
    assert_eq!(host.metric(r#"modelhost_prediction_untracked_total{endpoint="floats"}"#), 3.0);
    assert!(!host.metrics().contains(r#"untracked_total{endpoint="iris"}"#));
    assert!(!host.metrics().contains(r#"class="iris-setosa",endpoint="neighbour"#));
    // Said once.
    let told = "no prediction to track in the response: expected text or an integer, found `0.";
    host.wait_for_log(told);
    assert_eq!(host.log().matches(told).count(), 1, "{}", host.log());
}

#[test]
fn values_of_a_model_are_counted_by_every_protocol() {
    let host = Setup::default()
        .endpoint(Endpoint::new("value").model("identity_fp32").set(tracked("regression", "")))
        .endpoint(Endpoint::new("class").model("identity_int64").set(tracked("classification", "")))
        .serve();
    for (endpoint, values) in [("value", ["2.5", "-4"]), ("class", ["7", "7"])] {
        let [first, second] = values;
        let reply = host.post(&format!("/{endpoint}"), format!("{{\"x\":[{first}]}}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let datatype = if endpoint == "class" { "INT64" } else { "FP32" };
        let body =
            format!(r#"{{"inputs":[{{"name":"x","shape":[1],"datatype":"{datatype}","data":[{second}]}}]}}"#);
        let reply = host.post(&format!("/v2/models/{endpoint}/infer"), body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        // More than one row is no one prediction.
        assert_eq!(host.post(&format!("/{endpoint}"), "{\"x\":[1,2]}").status, 200);
        let untracked = format!("modelhost_prediction_untracked_total{{endpoint=\"{endpoint}\"}}");
        assert_eq!(host.metric(&untracked), 1.0);
    }
    assert_eq!(classes(&host, "class"), counted(&[("7", 2)]));
    for (series, value) in [("sum", -1.5), ("count", 2.0), ("min", -4.0), ("max", 2.5)] {
        let series = format!("modelhost_prediction_value_{series}{{endpoint=\"value\"}}");
        assert_eq!(host.metric(&series), value, "{series}");
    }
}

/// Callers have a part in what is predicted: it costs a bounded number of series.
#[test]
fn a_flood_of_classes_is_counted_together() {
    let host = Setup::default()
        .endpoint(Endpoint::new("text").model("identity_bytes").set(tracked("classification", "")))
        .endpoint(Endpoint::new("neighbour").model("identity_int64").set(tracked("classification", "")))
        .serve();
    for class in 0..1100 {
        assert_eq!(host.post("/text", format!("{{\"x\":[\"class {class}\"]}}")).status, 200);
    }
    assert_eq!(host.post("/neighbour", "{\"x\":[1]}").status, 200);
    let text = classes(&host, "text");
    assert_eq!(text.len(), 1001);
    assert!(text.contains(&("(other)".to_owned(), 100)));
    assert_eq!(classes(&host, "neighbour"), counted(&[("1", 1)]));
}
