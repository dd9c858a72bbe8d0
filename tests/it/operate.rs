//! `host status`, `history`, `logs`, `trial`, and the guide that shows them.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use e2e::{Host, component, host, host_binary, model, request, version, wait_until};
use serde_json::{Value, json};

const FLOWER: &str = r#"{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}"#;

fn iris(more: &[&str]) -> Host {
    Host::with(
        Some(&component("iris-wasm")),
        Some(&model("iris_static")),
        &[&["--name", "iris"], more].concat(),
    )
}

/// Runs a command against a host.
fn run(of: &Host, arguments: &[&str]) -> Output {
    host(&[arguments, &["--admin", &of.admin]].concat())
}

/// Runs it to success; what it printed.
fn shown(of: &Host, arguments: &[&str]) -> String {
    let output = run(of, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it to a failure; what it said.
fn fails(arguments: &[&str]) -> String {
    let output = host(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The words of the row of a table that begins with `first`, by the words of its head.
fn row(table: &str, first: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.starts_with(first));
    let line = line.unwrap_or_else(|| panic!("no row `{first}` in\n{table}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

/// Asserts that the guide shows a table with this head.
fn assert_shown(guide: &str, table: &str, head: &str) {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let head =
        table.lines().find(|line| line.contains(head)).unwrap_or_else(|| panic!("no `{head}` in\n{table}"));
    let text = std::fs::read_to_string(e2e::root().join(guide)).unwrap();
    assert!(text.lines().any(|line| words(line) == words(head)), "{guide} shows no table with\n{head}");
}

#[test]
fn status_and_history_tell_what_has_happened() {
    let host = iris(&[]);
    for body in [FLOWER, FLOWER, "{}"] {
        host.post("/iris", body);
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name).display().to_string()
    };
    let next = write("next.wasm", &version("iris-wasm", 1));
    shown(&host, &["swap", "iris", "--plugin", &next, "--note", "labels in French"]);
    let broken = write("broken.wasm", b"no component");
    assert_eq!(run(&host, &["swap", "iris", "--plugin", &broken]).status.code(), Some(1));

    let digest = host.endpoint("iris")["digest"].as_str().unwrap()[..12].to_owned();
    let status = shown(&host, &["status"]);
    let found = row(&status, "iris ");
    // Since when is the only figure that time changes.
    let expected = ["iris", "/iris", "2", &digest, &found[4], "default", "2", "-", "1", "0"];
    assert_eq!(found[..10], expected, "{status}");
    assert_eq!(found[11..], ["0", "0"], "{status}");
    assert!(status.contains("\niris: the last swap was refused 0 s ago: "), "{status}");
    assert_shown("docs/operate.md", &status, "queued");
    let json: Value = serde_json::from_str(&shown(&host, &["status", "iris", "--json"])).unwrap();
    let requests = &json[0]["requests"];
    let counts = ["answered", "refused", "failed"].map(|key| requests[key].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 0], "{requests}");

    let history = shown(&host, &["history"]);
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines[1].contains("refused    admin") && lines[2].starts_with("    load: "), "{history}");
    let published = history.lines().find(|line| line.ends_with("labels in French")).unwrap();
    assert!(published.contains(&format!("2  published  admin   {digest}")), "{history}");
    assert!(lines.last().unwrap().contains("1  published  start"), "{history}");
    assert_shown("docs/operate.md", &history, "outcome");
    let json: Value = serde_json::from_str(&shown(&host, &["history", "iris", "--json"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3);
}

#[test]
fn logs_are_found_by_endpoint_and_request_and_followed() {
    let config = ["quiet", "loud"].map(|name| {
        let plugin = component("tests/trap");
        format!("[[endpoint]]\nname = '{name}'\nplugin = {plugin:?}\n")
    });
    let host = Host::configured(&config.concat());
    let post = |path: &str, id: &str, body: &str| {
        host.request("POST", path, &[("x-request-id", id)], body.as_bytes());
    };
    post("/quiet", "first", "post:unreachable");
    post("/loud", "second", "post:unreachable");
    let lines = shown(&host, &["logs"]);
    assert!(!lines.contains("post:"), "{lines}");
    let found = shown(&host, &["logs", "quiet", "--level", "error"]);
    assert!(found.contains(" ERROR quiet first request failed: "), "{found}");
    assert!(!found.contains("second"), "{found}");
    let found = shown(&host, &["logs", "--request", "second", "--json"]);
    let line: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    assert_eq!((&line["endpoint"], &line["request_id"]), (&json!("loud"), &json!("second")));
    assert_eq!(line["fields"]["code"], "plugin_trap");

    // What has been is shown once, what comes as it comes.
    let mut follow = Command::new(host_binary());
    follow.args(["logs", "quiet", "--level", "error", "--follow", "--admin", &host.admin]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains(" first "));
    post("/loud", "third", "unreachable");
    post("/quiet", "fourth", "unreachable");
    assert!(lines.next().unwrap().contains(" fourth "));
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn status_of_one_endpoint_tells_where_its_time_goes_and_what_went_wrong() {
    let host = Host::with(Some(&component("tests/application")), None, &["--name", "e"]);
    assert!(!shown(&host, &["status", "e"]).contains("last "), "nothing was asked for yet");
    for (path, status) in
        [("headers", 200), ("headers?status=422", 422), ("headers?status=503", 503), ("trap", 500)]
    {
        assert_eq!(host.get(&format!("/e/{path}")).status, status, "{path}");
    }
    // A status of the handler's own counts as the server's do.
    let status = shown(&host, &["status", "e"]);
    assert_eq!(row(&status, "e  ")[5..9], ["none", "1", "-", "1"], "{status}");
    assert_eq!(row(&status, "e  ")[9], "2", "{status}");
    let (_, errors) = status.split_once("\n\nlast errors\n").unwrap_or_else(|| panic!("{status}"));
    assert!(errors.contains(" ERROR e ") && errors.contains("code=\"plugin_trap\""), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    // The next sample has them.
    wait_until("the last minute", || shown(&host, &["status", "e"]).contains("\n\nlast minute "));
    let status = shown(&host, &["status", "e"]);
    assert_shown("docs/operate.md", &status, "p99");
    let [request, pre] = ["request ", "pre_inference "].map(|name| row(&status, name));
    assert!(request[2].ends_with(" ms") && pre[2].ends_with(" ms"), "{status}");
    assert_eq!(host.endpoint("e")["recent"]["refused"], 1);
}

#[test]
fn a_canary_is_watched_to_its_end() {
    let host = iris(&[]);
    let folder = tempfile::tempdir().unwrap();
    let candidate = folder.path().join("candidate.wasm");
    let text = String::from_utf8(run(&host, &["trial"]).stderr).unwrap();
    assert!(text.starts_with("error: endpoint `iris` has no handler on trial\n  hint: "), "{text}");

    for (note, ends_well) in [(1, true), (2, false)] {
        std::fs::write(&candidate, version("iris-wasm", note)).unwrap();
        let path = candidate.to_str().unwrap();
        let steps = [
            "--canary",
            "0.5,1",
            "--term",
            "step_time=1s",
            "--term",
            "min_requests=1",
            "--term",
            "max_slowdown=100",
        ];
        shown(&host, &[&["swap", "iris", "--plugin", path], &steps[..]].concat());
        let now = shown(&host, &["trial", "iris"]);
        assert!(now.starts_with("iris: canary since "), "{now}");
        assert!(now.contains(" s, share 0.5, step 1 of 2, held "), "{now}");
        assert_shown("docs/operate.md", &now, "faults");
        assert_eq!(row(&now, "candidate ")[2..5], ["0", "0", "0"], "{now}");
        assert!(shown(&host, &["status"]).contains("\niris: handler "), "a trial stands in the status");

        let mut watch = Command::new(host_binary());
        watch.args(["trial", "--watch", "--admin", &host.admin]);
        let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(watch.stdout.take().unwrap());
        let mut shown_first = String::new();
        stdout.read_line(&mut shown_first).unwrap();
        assert!(shown_first.starts_with("iris: canary since "), "{shown_first}");
        if !ends_well {
            shown(&host, &["swap", "iris", "--drop-candidate"]);
        }
        wait_until("the end of the trial", || {
            host.post("/iris", FLOWER);
            host.endpoint("iris")["trial"].is_null()
        });
        let last = stdout.lines().map_while(Result::ok).last().unwrap();
        let output = watch.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), ends_well, "{last}\n{stderr}");
        match ends_well {
            true => assert_eq!(last, "iris: generation 2 serves it"),
            false => assert!(stderr.contains("an order"), "{stderr}"),
        }
    }
}

#[test]
fn a_wrong_address_and_a_missing_key_are_named_in_one_line_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "open-sesame\n").unwrap();
    let from = format!("@{}", key.display());
    let host = iris(&["--admin-key", &from]);
    for command in ["status", "history", "logs", "trial"] {
        let one = |address: &str| fails(&[command, "--admin", address]);
        let text = one("http://127.0.0.1:1");
        assert!(text.starts_with("error: cannot reach the admin address http://127.0.0.1:1: "), "{text}");
        assert!(text.contains("\n  hint: is the server running? "), "{text}");
        let text = one(&host.url);
        assert!(text.contains("`--admin` is the address that the host prints as `admin on`"), "{text}");
        let text = one(&host.admin);
        assert!(text.ends_with("hint: `--key @FILE` or `--key env:NAME`\n"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
    let table = shown(&host, &["status", "--admin-key", &from]);
    assert!(table.contains("\niris "), "{table}");
    let text = fails(&["status", "wine", "--admin", &host.admin, "--key", &from]);
    assert_eq!(text, "error: there is no endpoint `wine`\n  hint: there are `iris`\n");
    let text = fails(&["swap", "wine", "--reload", "--admin", &host.admin, "--key", &from]);
    assert!(text.starts_with("error: there is no endpoint `wine`\n  hint: `"), "{text}");
    assert!(text.ends_with(" status` lists the endpoints\n"), "{text}");
    let reply = request("GET", &format!("{}/admin/v1/logs", host.admin), &[], b"");
    assert_eq!(reply.status, 401, "{}", reply.text());
}
