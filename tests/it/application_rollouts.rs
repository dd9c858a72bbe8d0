//! What replaces an application: a gate, golden files, a shadow, a canary, none of which sends anything twice; its breaker.

use std::fs;
use std::time::Duration;

use e2e::load::{Pattern, assert_echoed};
use e2e::{Host, Reply, component, host, model, request, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::outbound::Server;
use crate::replay_calls::calling;

const REPLY: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello";
/// Both kinds of applications, and a path of each that streams.
const KINDS: [(&str, &str); 2] = [("tests/caller", "/"), ("tests/call_responder", "/stream")];

/// An application with a model, which may send requests to a server.
struct Served {
    host: Host,
    server: Server,
}

impl Served {
    fn of(plugin: &str, more: &str) -> Served {
        let server = Server::start(REPLY, None);
        let host = Host::configured(&format!(
            "[[endpoint]]\nname = \"it\"\nplugin = {:?}\nallow_outbound = [\"http://127.0.0.1:{}\"]\n{more}\n\
             [endpoint.models.add]\npath = {:?}\n[[endpoint]]\nname = \"neighbour\"\nplugin = {:?}\n",
            component(plugin),
            server.port,
            model("add"),
            component("tests/echo"),
        ));
        Served { host, server }
    }

    /// Posts an order whose answer has that of the server in it.
    fn post(&self, path: &str) -> Reply {
        let url = format!("http://127.0.0.1:{}/hook", self.server.port);
        let order = json!({"a": [1, 2], "b": [3, 4], "url": url}).to_string();
        let reply = self.host.post(&format!("/it{path}"), order);
        assert!(reply.status == 200 && reply.text().contains("hello"), "{}", reply.text());
        reply
    }

    fn admin(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        request(method, &format!("{}/admin/v1/endpoints/it{path}", self.host.admin), &[], body)
    }

    fn trial(&self) -> Value {
        self.admin("GET", "/plugin/candidate", b"").json()
    }
}

#[test]
fn a_gate_runs_an_application_without_sending_anything_twice() {
    for (plugin, path) in KINDS {
        let it = Served::of(plugin, "gate.samples = 5");
        let neighbour = Pattern::new(&it.host.url, "/neighbour").start();
        let kept = || it.host.endpoint("it")["gate_samples"].as_u64().unwrap();
        for number in 1..=3 {
            it.post(path);
            wait_until("a sample", || kept() == number);
        }
        let sent = it.server.connections();
        for (mode, reason) in [
            ("answer", "extra"),
            ("model", "\"outbound 1 /sum/0\""),
            ("outbound", "\"outbound 1 /more\""),
            ("twice", "\"outbound 2\""),
            ("silent", "is not sent any more"),
        ] {
            let reply = it.admin("PUT", "/plugin", &calling(plugin, mode));
            assert_eq!(reply.status, 409, "{plugin} {mode}: {}", reply.text());
            let report = it.host.endpoint("it")["last_swap"]["gate"].clone();
            assert_eq!((&report["compared"], &report["differing"]), (&json!(3), &json!(3)), "{report}");
            assert!(report["results"].to_string().contains(reason), "{plugin} {mode}: {report}");
        }
        let same = [&calling(plugin, "good")[..], b"\0\x03\x01v2"].concat();
        assert_eq!(it.admin("PUT", "/plugin", &same).status, 200);
        assert_eq!(it.server.connections(), sent, "{plugin}");
        it.post(path);
        assert_echoed(&neighbour.stop(), Duration::from_secs(5));
    }
}

#[test]
fn a_shadow_of_an_application_is_compared_and_sends_nothing() {
    for (plugin, path) in KINDS {
        let it = Served::of(plugin, "");
        let compared = |what: &str| it.trial()["compared"][what].as_u64().unwrap();
        for (mode, what, reason) in [
            ("good", "same", ""),
            ("answer", "differs", "extra"),
            ("outbound", "differs", "\"outbound 1 /more\""),
            ("silent", "differs", "is not sent any more"),
        ] {
            let begun = it.admin(
                "PUT",
                "/plugin/candidate?mode=shadow&share=1",
                &[&calling(plugin, mode)[..], b"\0\x03\x01v2"].concat(),
            );
            assert_eq!(begun.status, 200, "{}", begun.text());
            let sent = it.server.connections();
            for number in 1..=2 {
                let reply = it.post(path);
                assert!(!reply.text().contains("extra"), "{}", reply.text());
                wait_until("the comparison", || compared(what) == number);
            }
            assert!(it.server.connections() <= sent + 2, "{plugin} {mode}");
            let trial = it.trial();
            assert!(trial["differences"].to_string().contains(reason), "{plugin} {mode}: {trial}");
        }
    }
}

#[test]
fn a_canary_of_an_application_answers_and_is_compared() {
    let (plugin, path) = KINDS[0];
    let it = Served::of(plugin, "");
    let terms = "/plugin/candidate?mode=canary&share=1&compare=true&max_slowdown=1000&max_mismatches=100";
    let begun = it.admin("PUT", terms, &calling(plugin, "answer"));
    assert_eq!(begun.status, 200, "{}", begun.text());
    let sent = it.server.connections();
    for number in 1..=2 {
        let reply = it.post(path);
        assert!(reply.text().contains("extra"), "{}", reply.text());
        wait_until("the comparison", || it.trial()["compared"]["differs"] == number);
    }
    assert!(it.server.connections() <= sent + 2);
    let trial = it.trial();
    assert!(trial["differences"].to_string().contains("/extra"), "{trial}");
    assert_eq!(it.admin("POST", "/plugin/candidate/promote", b"").status, 200);
    assert!(it.post(path).text().contains("extra"));
}

const CASE: &str = r#"{
  "path": "/?x=1",
  "headers": {"x-kind": "a case"},
  "body": {"a": [1, 2], "b": [3, 4], "url": "http://hooks.example/hook"},
  "outbound": [{"method": "POST", "url": "http://hooks.example/hook", "status": 202, "body": "hello"}]
}"#;
const ANSWER: &str = r#"{"status": 200, "headers": {"x-kind": "a case"},
    "body": {"again": [2, 4, 6, 8], "reply": [202, "hello"], "sum": [4, 6]}}"#;

/// A handler project with these cases.
fn project(plugin: &str, files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "[[endpoint]]\nname = \"it\"\nplugin = {:?}\n[endpoint.models.add]\npath = {:?}\n",
        component(plugin),
        model("add")
    );
    fs::write(folder.path().join("modelhost.toml"), config).unwrap();
    fs::create_dir(folder.path().join("cases")).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join("cases").join(name), content).unwrap();
    }
    folder
}

/// Runs `host test`: its exit code and output.
fn tested(folder: &TempDir, more: &[&str]) -> (i32, String) {
    let output = host(&[&["test", folder.path().to_str().unwrap()], more].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn golden_cases_of_an_application_have_method_path_and_headers() {
    for (plugin, _) in KINDS {
        let kind =
            if plugin == "tests/caller" { ANSWER } else { &ANSWER.replace("\"x-kind\": \"a case\"", "") };
        let files = [("call.request.json", CASE), ("call.expected.json", kind)];
        let (code, text) = tested(&project(plugin, &files), &[]);
        assert_eq!(code, 0, "{plugin}: {text}");
    }
    let silent = CASE.replace(r#""http://hooks.example/hook"},"#, "null},");
    let other = CASE.replace(r#"hook", "status""#, r#"other", "status""#);
    let files = [
        ("a.request.json", CASE),
        ("a.expected.json", r#"{"status": 201}"#),
        ("b.request.json", CASE),
        ("b.expected.json", r#"{"headers": {"x-kind": "another"}}"#),
        ("c.request.json", &silent),
        ("c.expected.json", "{}"),
        ("d.request.json", &other),
        ("d.expected.json", "{}"),
        ("e.request.json", r#"{"method": "post", "body": "no order"}"#),
    ];
    let folder = project("tests/caller", &files);
    let (code, text) = tested(&folder, &[]);
    assert_eq!(code, 1, "{text}");
    for expected in [
        "status: 201 became 200 ",
        "header x-kind: `another` became `a case`",
        "outbound 1: `POST http://hooks.example/hook` is not sent",
        "outbound 1: the case does not answer `POST http://hooks.example/hook`",
        "no file says what to answer",
        "5 of 5 cases failed",
    ] {
        assert!(text.contains(expected), "`{expected}` in {text}");
    }
    // An error of the application is an answer like any other.
    let (_, text) = tested(&folder, &["--update"]);
    assert!(text.contains("updated"), "{text}");
    let written = fs::read_to_string(folder.path().join("cases/e.expected.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(
        (&written["status"], &written["headers"]["content-type"]),
        (&json!(400), &json!("application/json"))
    );
    for (case, says) in [
        (r#"{"metod": "GET"}"#, "unknown field `metod`"),
        (r#"["POST", "/count", {}, "hello", null, []]"#, "invalid type: sequence, expected an object"),
        (r#"{"method": "PO ST"}"#, "`method` is \"PO ST\""),
        (r#"{"path": "/echo?a=é b"}"#, "`path` is \"/echo?a=é b\""),
        (r#"{"headers": {"y z": "1"}}"#, "`headers`: \"y z\" is no name of a header"),
        (r#"{"headers": {"x": "a\nb"}}"#, "`headers`: the value of `x` is"),
        (r#"{"headers": {"X-A": "1", "x-a": "2"}}"#, "`headers`: `x-a` is given twice"),
        (r#"{"body": 1, "base64": "AA=="}"#, "has both `body` and `base64`"),
        (
            r#"{"outbound": [{"method": "GET", "url": "http://a", "status": 99}]}"#,
            "`outbound`: `status` is 99",
        ),
    ] {
        let folder = project("tests/caller", &[("x.request.json", case)]);
        let (code, text) = tested(&folder, &[]);
        assert!(
            code == 2 && text.contains(&format!("x.request.json` is no request: {says}")),
            "{case}: {text}"
        );
    }
}

#[test]
fn a_breaker_opens_over_an_application_and_nothing_bypasses_it() {
    for bypass in ["", "on_fault = \"bypass\""] {
        let plugin = component("tests/application");
        let host = Host::configured(&format!(
            "[[endpoint]]\nname = \"it\"\nplugin = {plugin:?}\n{bypass}\n\
             breaker = {{ faults = 0.5, min = 4, window = '1m', pause = '300ms' }}\n"
        ));
        for path in ["/trap", "/trap-in-body", "/trap", "/no-response"] {
            // A body that breaks off is no answer that can be read.
            if path == "/trap-in-body" {
                let url = format!("{}/it{path}", host.url);
                let _ = e2e::try_request(&e2e::agent(), "GET", &url, &[], b"");
            } else {
                assert_eq!(host.get(&format!("/it{path}")).status, 500, "{path}");
            }
        }
        wait_until("the breaker to open", || host.endpoint("it")["breaker"] == "open");
        host.get("/it/wait?ms=1").error(503, "plugin_unavailable", "admit");
        wait_until("the application to work again", || host.get("/it/wait?ms=1").status == 200);
        assert_eq!(host.endpoint("it")["breaker"], "closed");
    }
}

#[test]
fn isolation_and_what_init_leaves_hold_for_applications() {
    let plugin = component("tests/responder");
    for (isolation, expected) in [("worker", ["1", "2", "3"]), ("request", ["1", "1", "1"])] {
        let host = Host::configured(&format!(
            "[[endpoint]]\nname = \"it\"\nplugin = {plugin:?}\nisolation = \"{isolation}\"\nmetadata = {{ a = 1 }}\n"
        ));
        let served = [(); 3].map(|()| host.get("/it/served").text());
        assert_eq!(served, expected, "{isolation}");
        assert_eq!(host.get("/it/prepared").text(), "with {\"a\":1}");
    }
}
