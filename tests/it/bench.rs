//! `host bench`, held against what the server has counted.

use std::path::Path;
use std::process::Output;

use e2e::load::alone;
use e2e::{Host, component, host, model};
use serde_json::Value;

const FLOWER: &str = r#"{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}"#;

/// The figures of a run that succeeds.
fn figures(arguments: &[&str]) -> Value {
    let output = host(&[&["bench", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn requests(host: &Host, endpoint: &str, outcome: &str) -> u64 {
    host.metric(&format!("modelhost_requests_total{{endpoint=\"{endpoint}\",outcome=\"{outcome}\"}}")) as u64
}

/// A file with the body of requests.
fn body(folder: &Path, text: &str) -> String {
    let file = folder.join("body");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn every_request_is_counted_as_the_server_counts_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let body = body(folder.path(), FLOWER);
    let host = Host::with(Some(&component("iris-wasm")), Some(&model("iris_static")), &["--name", "iris"]);
    let url = format!("{}/iris", host.url);
    let run = ["--body", &body, "--connections", "4", "--duration", "600ms", "--warm-up", "100ms"];
    let figures = figures(&[&[url.as_str()], &run[..]].concat());
    let target = &figures["targets"][0];
    let sent = count(&target["requests"]);
    assert_eq!(sent + count(&target["requests_before"]), requests(&host, "iris", "ok"));
    assert_eq!((sent, sent), (count(&target["succeeded"]), count(&target["statuses"]["200"])));
    assert!(sent > 50 && count(&target["requests_before"]) > 1, "{target}");
    let latency = |name: &str| target["latency_ms"][name].as_f64().unwrap();
    let rising = ["min", "p50", "p90", "p99", "p999", "max"].map(latency);
    assert!(rising.is_sorted() && rising[0] > 0.0, "{rising:?}");
    // Little's law: four at a time, so as many seconds of latency as four times those that it took.
    let rate = target["requests_per_second"].as_f64().unwrap();
    assert!(rate * latency("p50") / 1e3 < 4.4, "{target}");
}

#[test]
fn refusals_are_counted_by_their_status() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let body = body(folder.path(), "sleep:20");
    let limits = ["--name", "one", "--concurrency", "1", "--queue", "0"];
    let host = Host::with(Some(&component("tests/files")), None, &limits);
    let url = format!("{}/one", host.url);
    let run = ["--body", &body, "--connections", "3", "--duration", "500ms", "--warm-up", "1ms"];
    let figures = figures(&[&[url.as_str()], &run[..]].concat());
    let target = &figures["targets"][0];
    let refused = count(&target["statuses"]["503"]);
    assert!(refused > 0 && refused <= requests(&host, "one", "overloaded"), "{target}");
    assert_eq!(count(&target["requests"]), count(&target["succeeded"]) + refused);
    // Refusals are quick, and no part of the percentiles.
    assert!(target["latency_ms"]["min"].as_f64().unwrap() >= 20.0, "{target}");

    let output = e2e::host(&[&["bench", &url], &run[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" × status 503\n") && text.contains("latency  share of requests\n"), "{text}");
}

#[test]
fn an_open_loop_does_not_wait_for_a_slow_server() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let body = body(folder.path(), "sleep:20");
    let host = Host::with(Some(&component("tests/files")), None, &["--name", "slow"]);
    let url = format!("{}/slow", host.url);
    let run = |rate: &str, connections: &str| {
        let arguments = ["--rate", rate, "--connections", connections, "--duration", "1s", "--body", &body];
        let figures = figures(&[&[url.as_str(), "--warm-up", "1ms"], &arguments[..]].concat());
        assert_eq!(figures["loop"], "open");
        figures["targets"][0].clone()
    };
    let met = run("40", "8");
    assert_eq!((count(&met["requests"]), count(&met["unsent"])), (40, 0), "{met}");
    // One connection answers at most fifty a second: half of what is due waits, longer and longer.
    let missed = run("100", "1");
    assert_eq!(count(&missed["requests"]) + count(&missed["unsent"]), 100, "{missed}");
    assert!(count(&missed["unsent"]) >= 50, "{missed}");
    assert!(missed["latency_ms"]["p99"].as_f64().unwrap() > 300.0, "{missed}");
}

/// A project that is built: a handler, and a sample for it.
fn project(folder: &Path, name: &str, sample: &str) -> String {
    let project = folder.join(name);
    std::fs::create_dir(&project).unwrap();
    let (plugin, model) = (component("iris-wasm"), model("iris_static"));
    let config =
        format!("[[endpoint]]\nname = {name:?}\nplugin = {plugin:?}\nmodel = {{ path = {model:?} }}\n");
    std::fs::write(project.join("modelhost.toml"), config).unwrap();
    std::fs::write(project.join("sample.json"), sample).unwrap();
    project.display().to_string()
}

#[test]
fn two_projects_are_compared() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| project(folder.path(), name, FLOWER));
    let output = host(&["bench", &old, &new, "--duration", "500ms", "--warm-up", "50ms"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", stderr(&output));
    assert!(
        text.starts_with("16 connections, 500ms after 50ms of warm-up, in turns\nclosed loop: "),
        "{text}"
    );
    assert!(text.contains(&format!("{new} against {old}: req/s ")), "{text}");
}

#[test]
fn what_cannot_be_measured_is_said_before_it_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let sample = project(folder.path(), "bad-sample", "{}");
    let empty = folder.path().join("bad-sample/none").display().to_string();
    for (code, arguments, expected) in [
        (1, vec![sample.as_str()], "answers 400: {\"error\":\"missing field `sepal_length`"),
        (1, vec!["http://127.0.0.1:1/"], "cannot reach http://127.0.0.1:1/: "),
        (2, vec![&empty], "is neither a URL nor a folder with a modelhost.toml\n  hint: "),
        (2, vec!["http://127.0.0.1:99999/"], "has no port from 0 to 65535\n  hint: "),
        (2, vec!["user:password@127.0.0.1:1/"], "error: `127.0.0.1:1/` is neither a URL nor a folder "),
        (2, vec!["http://user:password@127.0.0.1:1/"], "error: `http://…` has a user\n  hint: `--header "),
        (2, vec!["https://127.0.0.1/"], "is not http: `bench` speaks no TLS\n  hint: "),
        (2, vec![&sample, "--endpoint", "other"], "which endpoint?\n  hint: `--endpoint`, one of bad-sample"),
        (1, vec![&sample, "--body", "/none"], "cannot read `/none`"),
    ] {
        let output = host(&[&["bench", "--duration", "10ms", "--warm-up", "1ms"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "`{expected}` in\n{}", stderr(&output));
    }
}
