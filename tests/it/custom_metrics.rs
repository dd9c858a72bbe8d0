//! Metrics that handlers make themselves: in `/metrics` beside the server's, of all instances together, within `limits.series`.

use std::thread;
use std::time::Duration;

use e2e::load::{Pattern, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, request, version, wait_until};
use serde_json::{Value, json};

/// An endpoint whose handler does what the body says, and answers what came of it.
fn maker(name: &str) -> Endpoint {
    Endpoint::new(name).guest("metrics").set("watch = false")
}

fn add(name: &str, by: f64, labels: Value) -> Value {
    json!({"op": "add", "name": name, "value": by, "labels": labels})
}

/// The errors of the operations that were not done.
fn done(host: &Host, path: &str, operations: Value) -> Vec<String> {
    let answer = host.post(path, operations.to_string()).json();
    answer.as_array().unwrap().iter().filter_map(|error| Some(error.as_str()?.to_owned())).collect()
}

#[test]
fn what_all_instances_count_is_one_series() {
    let host = Setup::of([maker("one").set("isolation = \"request\""), maker("two")]).serve();
    let describe = json!({"op": "describe", "name": "words", "kind": "histogram", "help": "Words of a text.", "bounds": [1, 10]});
    let observe = |value: f64| json!({"op": "observe", "name": "words", "value": value, "labels": {}});
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let operations = json!([
                        describe,
                        add("flowers", 0.5, json!({"species": "setosa", "by": "a \"b\"\\\n"})),
                        add("flowers_total", 1.0, json!({})),
                        {"op": "change", "name": "open", "value": 2, "labels": {}},
                        {"op": "change", "name": "open", "value": -1.5, "labels": {}},
                        observe(0.5), observe(1.0), observe(70.0),
                    ]);
                    assert_eq!(done(&host, "/one", operations), [""; 0]);
                }
            });
        }
    });
    done(&host, "/two", json!([{"op": "set", "name": "open", "value": -7, "labels": {}}]));
    let text = host.metrics();
    for line in [
        "# TYPE flowers_total counter",
        r#"flowers_total{endpoint="one",by="a \"b\"\\\n",species="setosa"} 50"#,
        r#"flowers_total{endpoint="one"} 100"#,
        "# TYPE open gauge",
        r#"open{endpoint="one"} 50"#,
        r#"open{endpoint="two"} -7"#,
        "# HELP words Words of a text.",
        "# TYPE words histogram",
        r#"words_bucket{endpoint="one",le="1"} 200"#,
        r#"words_bucket{endpoint="one",le="10"} 200"#,
        r#"words_bucket{endpoint="one",le="+Inf"} 300"#,
        r#"words_sum{endpoint="one"} 7150"#,
        r#"words_count{endpoint="one"} 300"#,
    ] {
        assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}\n{text}");
    }
    assert!(!text.contains("modelhost_handler_series_refused_total{"), "{text}");
}

#[test]
fn what_no_scrape_could_have_is_an_error_of_the_handler() {
    let host = Setup::of([maker("one")]).serve();
    let gauge = |name: &str| json!({"op": "set", "name": name, "value": 1, "labels": {}});
    for (operation, expected) in [
        (gauge("a b"), "metric `a b`: a name has 1 to 100 characters"),
        (gauge("a\n# TYPE b counter"), "a name has"),
        (gauge("modelhost_requests_total"), "are the server's"),
        (gauge("words_total"), "are those of counters"),
        (gauge("words_bucket"), "are those of a histogram's lines"),
        (add("a", -1.0, json!({})), "a counter only grows"),
        (add("a", 1.0, json!({"endpoint": "two"})), "label `endpoint` is the server's own"),
        (add("a", 1.0, json!({"le": "1"})), "label `le` is the server's own"),
        (add("a", 1.0, json!({"b": "v".repeat(201)})), "201 bytes"),
        (
            json!({"op": "describe", "name": "a", "kind": "histogram", "help": "", "bounds": [1, 1]}),
            "greater than the one before",
        ),
        (
            json!({"op": "describe", "name": "a", "kind": "gauge", "help": "two\nlines", "bounds": []}),
            "one line",
        ),
    ] {
        let errors = done(&host, "/one", json!([operation, gauge("good")]));
        assert!(errors.len() == 1 && errors[0].contains(expected), "{operation}: {errors:?}");
    }
    assert_eq!(host.metric(r#"good{endpoint="one"}"#), 1.0);
    assert!(!host.metrics().contains("words_"), "{}", host.metrics());
}

#[test]
fn series_are_bounded_and_a_neighbour_is_unharmed() {
    let echo = Endpoint::new("echo").plugin(&component("tests/echo"));
    let host = Setup::of([maker("flood").limits("series = 20"), maker("other"), echo]).serve();
    assert_eq!(
        done(&host, "/other", json!([{"op": "set", "name": "taken", "value": 1, "labels": {}}])),
        [""; 0]
    );
    let neighbour = Pattern::new(&host.url, "/echo").start();
    let value = "v".repeat(195);
    for batch in 0..40 {
        let operations: Vec<Value> = (0..100)
            .map(|number| add("flood", 1.0, json!({"a": format!("{value}{}", batch * 100 + number)})))
            .collect();
        assert_eq!(done(&host, "/flood", Value::Array(operations)), [""; 0], "nothing of it fails a request");
    }
    let wrong = json!({"op": "observe", "name": "taken", "value": 1, "labels": {}});
    assert_eq!(done(&host, "/flood", json!([wrong])), [""; 0]);
    neighbour.wait_for_more(50);
    assert_echoed(&neighbour.stop(), Duration::from_secs(1));
    assert_eq!(host.metrics().matches("\nflood_total{").count(), 20);
    assert_eq!(host.metric(r#"modelhost_handler_series_refused_total{endpoint="flood"}"#), 3981.0);
    let is_it = |line: &&str| line.contains("WARN") && line.contains("what the handler counts is dropped");
    wait_until("a warning", || host.log().lines().any(|line| is_it(&line)));
    assert_eq!(host.log().lines().filter(is_it).count(), 1, "{}", host.log());
    // The other endpoint has its metrics, and gets more.
    assert_eq!(done(&host, "/other", json!([add("mine", 2.0, json!({}))])), [""; 0]);
    assert_eq!(
        host.metric(r#"taken{endpoint="other"}"#) + host.metric(r#"mine_total{endpoint="other"}"#),
        3.0
    );
}

#[test]
fn a_swap_goes_on_counting_and_runs_that_no_client_sees_count_nothing() {
    let operations = json!([add("served", 1.0, json!({}))]).to_string();
    let host = Setup::of([maker("one").table("gate", "samples = 5")]).serve();
    for _ in 0..5 {
        host.post("/one", &operations);
    }
    let series = r#"served_total{endpoint="one"}"#;
    assert_eq!(host.metric(series), 5.0);
    wait_until("samples to be kept", || host.endpoint("one")["gate_samples"] == 5);
    // The gate asks the new version for what the old one answered.
    let url = format!("{}/admin/v1/endpoints/one/plugin", host.admin);
    let swapped = request("PUT", &url, &[("content-type", "application/wasm")], &version("tests/metrics", 1));
    assert_eq!(swapped.status, 200, "{}", swapped.text());
    host.wait_for_log("gate: passed");
    assert_eq!(host.metric(series), 5.0);
    host.post("/one", &operations);
    assert_eq!(host.metric(series), 6.0);
}
