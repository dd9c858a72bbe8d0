//! Metrics as Prometheus takes them: the text, the rules of packaging/prometheus with docs/alerts.md, and the dashboard of
//! packaging/grafana, every expression of which runs over a host.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use e2e::prometheus::Prometheus;
use e2e::setup::{Endpoint, Setup};
use e2e::socket::WebSocket;
use e2e::{Host, component, model, request, root, serve_command, wait_until};
use serde_json::Value;

const FLOWER: &str = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn rules() -> PathBuf {
    root().join("packaging/prometheus/modelhost.rules.yml")
}

fn promtool(arguments: &[&str], input: &str) -> Output {
    let program = root().join("target/tools/promtool");
    let mut command = Command::new(&program);
    command.args(arguments).current_dir(root()).stdin(Stdio::piped());
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| {
        panic!("{}: {error}; hint: run `scripts/prometheus.sh` first", program.display())
    });
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn checked(arguments: &[&str], input: &str) {
    let output = promtool(arguments, input);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
}

/// Iris, an endpoint that fails, and ones with sockets, a store and jobs; with a collector that is away, and an access log on a
/// disk that is full.
fn host(metrics: &str) -> Host {
    let folder = tempfile::tempdir().unwrap();
    let stores = ["kv", "jobs"].map(|name| format!("[{name}]\nstore = {:?}\n", folder.path().join(name)));
    let endpoints = [
        Endpoint::new("iris").plugin(&component("iris-wasm")).model("iris_dyn"),
        Endpoint::new("broken").guest("hostile"),
        Endpoint::new("talk").guest("socket"),
        Endpoint::new("keeper").guest("kv").set("kv = ['a']").limits("kv_value = 8"),
        Endpoint::new("worker").guest("echo").set("jobs = 'on'"),
    ];
    let setup = Setup::of(endpoints)
        .tables(stores.concat())
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        .variable("OTEL_BSP_EXPORT_TIMEOUT", "300")
        .arguments(&["--access-log", "json", "--access-log-file", "/dev/full", "--metrics", metrics]);
    let host = setup.serve();
    // The stores are open.
    drop(folder);
    host
}

/// Requests that leave something in every panel.
fn call(host: &Host) {
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let headers = [("content-type", "application/json"), ("traceparent", &*parent)];
    assert_eq!(host.request("POST", "/iris", &headers, FLOWER.as_bytes()).status, 200);
    assert_eq!(host.post("/broken", "panic").status, 500);
    assert_eq!(host.post("/keeper", r#"[["open", "a"], ["set", "k", "too long for it"]]"#).status, 200);
}

#[test]
fn promtool_finds_nothing_in_the_metrics() {
    for metrics in ["lean", "all"] {
        let host = host(metrics);
        call(&host);
        let text = host.metrics();
        checked(&["check", "metrics"], &text);
        let of_iris = text.lines().filter(|line| line.contains("{endpoint=\"iris\"")).count();
        assert_eq!(of_iris <= 40, metrics == "lean", "{of_iris} series of a used endpoint:\n{text}");
        let accept = [("accept", "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5")];
        for url in [&host.url, &host.admin] {
            let reply = request("GET", &format!("{url}/metrics"), &accept, b"");
            let kind = reply.header("content-type").unwrap();
            assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
            assert!(reply.text().ends_with("\n# EOF\n"));
        }
    }
    let wrong = promtool(&["check", "metrics"], "# TYPE a_total gauge\na_total 1\n");
    assert!(!wrong.status.success(), "a text that is not clean is found out");
}

#[test]
fn each_rule_fires_of_what_it_is_for() {
    checked(&["check", "rules", &rules().display().to_string()], "");
    checked(&["test", "rules", "tests/prometheus-rules.yml"], "");
}

#[test]
fn rules_and_dashboard_run_over_a_host() {
    let host = host("lean");
    let _socket = WebSocket::open(&host.url, "/talk", &[]).ok().unwrap();
    let prometheus = Prometheus::start(&host, &rules());
    let rules = || prometheus.ask("rules", &[])["groups"][0]["rules"].take();
    wait_until("every rule to be evaluated", || {
        call(&host);
        let rules = rules();
        rules.as_array().is_some_and(|rules| rules.iter().all(|rule| rule["health"] == "ok"))
    });
    let rules = rules();
    let rules = rules.as_array().unwrap();
    rules_are_those_of_the_page(rules);

    let file = fs::read_to_string(root().join("packaging/grafana/modelhost.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&file).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let mut expressions: Vec<(String, String)> = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().unwrap();
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{title}");
        for target in panel["targets"].as_array().unwrap() {
            expressions.push((title.to_owned(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    let variables = [("$__rate_interval", "10s"), ("$instance", ".*"), ("$endpoint", ".*")];
    let filled =
        |text: &str| variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    for (title, expression) in &expressions {
        let expression = filled(expression);
        assert!(!expression.contains('$'), "{title}: {expression}");
        // No objects are kept here.
        let has_data = !expression.contains("blob");
        let mut seen = 0;
        wait_until(&format!("data of `{title}`, {expression}"), || {
            call(&host);
            seen = prometheus.count(&expression);
            seen > 0 || !has_data
        });
    }
    let annotation = dashboard["annotations"]["list"][0]["expr"].as_str().unwrap();
    prometheus.count(&filled(annotation));
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["definition"].as_str() {
            let (series, label) = query
                .strip_prefix("label_values(")
                .unwrap()
                .strip_suffix(')')
                .unwrap()
                .rsplit_once(", ")
                .unwrap();
            assert!(prometheus.count(&filled(&format!("count by ({label}) ({series})"))) > 0, "{query}");
        }
    }
    // What is named is there.
    let reference = fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let of_rules = rules.iter().map(|rule| rule["query"].as_str().unwrap());
    for expression in of_rules.chain(expressions.iter().map(|(_, expression)| expression.as_str())) {
        for word in expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
            if word.starts_with("modelhost_") || word.starts_with("process_") {
                let is_listed = |end: &str| {
                    word.strip_suffix(end).is_some_and(|name| reference.contains(&format!("| `{name}` |")))
                };
                let ends = ["_bucket", "_sum", "_count", ""];
                assert!(ends.into_iter().any(is_listed), "no metric `{word}`: {expression}");
            }
        }
    }
    // A traced request is found beside the buckets.
    let exemplars = || {
        prometheus.ask(
            "query_exemplars",
            &[("query", "modelhost_request_duration_seconds_bucket"), ("start", "0"), ("end", "9999999999")],
        )
    };
    wait_until("an exemplar", || exemplars().to_string().contains(TRACE));
}

/// docs/alerts.md has a row for each rule, made of its annotations.
fn rules_are_those_of_the_page(rules: &[Value]) {
    let row = |rule: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let [summary, description] = ["summary", "description"].map(|name| text(&rule["annotations"][name]));
        let after = match rule["duration"].as_f64().unwrap() {
            0.0 => "at once".to_owned(),
            seconds => format!("{} min", seconds / 60.0),
        };
        format!(
            "| `{}` | {} | {after} | {summary} | {description} |",
            text(&rule["name"]),
            text(&rule["labels"]["severity"])
        )
    };
    let expected: Vec<String> = rules.iter().map(row).collect();
    let page = fs::read_to_string(root().join("docs/alerts.md")).unwrap();
    let written: Vec<&str> = page.lines().filter(|line| line.starts_with("| `Modelhost")).collect();
    assert_eq!(written, expected, "the rows of docs/alerts.md should be:\n{}\n", expected.join("\n"));
}

#[test]
fn a_scrape_is_lean_unless_all_is_asked_for() {
    let mut command = serve_command(&["--model", &model("iris_dyn").display().to_string(), "--name", "iris"]);
    command.env_remove("MODELHOST_METRICS");
    let host = Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}: {log}"));
    let text = host.metrics();
    assert!(!text.contains("outcome=\"internal\"") && text.contains("process_cpu_seconds_total"), "{text}");
}
