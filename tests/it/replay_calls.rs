//! Recordings of handlers that call models and others by themselves, applications among them: replayed without
//! either.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use e2e::recorded::{assert_same, by_id, files, recording, replay};
use e2e::{Host, component, model, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::outbound::Server;

const REPLY: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello";
const COOKIE: &str = "HTTP/1.1 200 OK\r\nset-cookie: a=hush-0f-the-other\r\ncontent-length: 0\r\n\r\n";

/// The component as it behaves in `mode`.
pub(crate) fn calling(name: &str, mode: &str) -> Vec<u8> {
    const MARK: &[u8] = b"call-mode:";
    let mut bytes = fs::read(component(name)).unwrap();
    let at = bytes.windows(MARK.len()).position(|window| window == MARK).unwrap() + MARK.len();
    bytes[at..at + 10].copy_from_slice(format!("{mode:.<10}").as_bytes());
    bytes
}

/// A host that records an application or handler with two models, which may send requests to a server.
struct Recording {
    host: Host,
    server: Server,
    folder: TempDir,
}

impl Recording {
    fn of(plugin: &str, answer: &'static str, more: &str) -> Recording {
        let (folder, server) = (tempfile::tempdir().unwrap(), Server::start(answer, None));
        let host = Host::configured(&format!(
            "[record]\ndir = {:?}\n[[endpoint]]\nname = \"it\"\nplugin = {:?}\n{more}\n\
             allow_outbound = [\"http://127.0.0.1:{}\"]\n\
             [endpoint.models.add]\npath = {:?}\n[endpoint.models.slow]\npath = {:?}\n",
            folder.path(),
            component(plugin),
            server.port,
            model("add"),
            model("slow"),
        ));
        Recording { host, server, folder }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?a=1", self.server.port)
    }

    fn order(&self) -> Value {
        json!({"a": [1, 2], "b": [3, 4], "url": self.url(), "draws": true})
    }

    fn post(&self, id: &str, path: &str, body: &Value) -> e2e::Reply {
        let headers =
            [("x-request-id", id), ("content-type", "application/json"), ("x-kind", "of the caller")];
        self.host.request("POST", &format!("/it{path}"), &headers, body.to_string().as_bytes())
    }

    fn count(&self, outcome: &str) -> f64 {
        self.host.metric(&format!("modelhost_recordings_total{{endpoint=\"it\",outcome=\"{outcome}\"}}"))
    }

    fn wait(&self, outcome: &str, count: usize) {
        wait_until(&format!("{count} {outcome}"), || self.count(outcome) >= count as f64);
    }
}

#[test]
fn models_that_a_handler_calls_are_not_needed_again() {
    let it = Recording::of("tests/models", REPLY, "");
    let orders = [
        json!({"do": "names"}),
        json!({"do": "describe", "model": "slow"}),
        json!({"do": "describe", "model": "none"}),
        json!({"do": "infer"}),
        json!({"do": "infer", "model": "none"}),
        json!({"do": "wrong"}),
        json!({"do": "chain", "times": 50}),
        json!({"do": "rows"}),
        json!({"do": "together", "model": "slow", "times": 3}),
        json!({"do": "drop", "model": "slow", "times": 3}),
        json!({"do": "hold", "times": 20}),
    ];
    for (number, order) in orders.iter().enumerate() {
        let reply = it.post(&format!("order-{number}"), "", order);
        assert_eq!(reply.status, 200, "{order}: {}", reply.text());
    }
    it.wait("written", orders.len());
    let Recording { host, folder, .. } = it;
    drop(host);
    assert_same(folder.path(), &component("tests/models"), &[], orders.len());
    let infer = &by_id(folder.path())["order-3"];
    assert_eq!(infer["model_calls"][0]["outputs"][0]["values"], json!([11.0, 13.0]), "{infer:#}");
    assert_eq!(infer["models"][1]["name"], "slow");
}

#[test]
fn an_application_is_replayed_without_models_and_network() {
    for (plugin, path) in
        [("tests/caller", "/"), ("tests/call_responder", "/"), ("tests/call_responder", "/stream")]
    {
        let it = Recording::of(plugin, REPLY, "");
        let reply = it.post("one", path, &it.order());
        assert_eq!(reply.status, 200, "{plugin}: {}", reply.text());
        assert!(reply.text().contains("hello"), "{}", reply.text());
        it.wait("written", 1);
        // Without a word to others.
        assert_eq!(it.post("none", path, &json!({"a": [0, 1]})).status, 200);
        it.wait("written", 2);
        let Recording { host, server, folder } = it;
        let (asked, address) = (server.connections(), format!("http://127.0.0.1:{}/hook?a=1", server.port));
        drop(host);
        let written = &by_id(folder.path())["one"];
        assert_eq!(written["outcome"]["response"]["body"]["text"], json!(reply.text()), "{written:#}");
        assert_eq!(written["model_calls"].as_array().unwrap().len(), 3);
        let sent = &written["outbound"][0];
        assert_eq!((&sent["method"], &sent["url"]), (&json!("POST"), &json!(address)), "{sent:#}");
        assert_eq!(sent["body"]["text"], json!("{\"sum\":[4.0,6.0]}"));
        assert_eq!(sent["answer"]["response"]["body"]["text"], json!("hello"));

        assert_same(folder.path(), &component(plugin), &[], 2);
        let one = folder.path().join("it");
        let file = files(&one).into_iter().find(|file| recording(file)["request"]["id"] == "one").unwrap();
        for (mode, word, expected) in [
            ("good", "same", None),
            ("model", "diverged", Some("asks the model `` something else: /a/0: 1.0 became 2.0")),
            ("outbound", "diverged", Some("/more: true is new")),
            ("silent", "differs", None),
            (
                "twice",
                "diverged",
                Some("asks for an answer to a request that it sends where the recording has nothing more"),
            ),
            ("answer", "differs", None),
        ] {
            let other = folder.path().join(format!("{mode}.wasm"));
            fs::write(&other, calling(plugin, mode)).unwrap();
            let (code, lines, stderr) = replay(&file, &other, &[]);
            let verdict =
                lines.iter().find(|line| !line.starts_with("note ")).unwrap_or_else(|| panic!("{stderr}"));
            assert!(verdict.starts_with(word), "{plugin} {mode}: {lines:#?}");
            assert_eq!(code, i32::from(mode != "good"), "{plugin} {mode}: {lines:#?}");
            assert!(
                expected.is_none_or(|expected| verdict.contains(expected)),
                "{plugin} {mode}: {lines:#?}"
            );
        }
        // Nothing was sent again.
        assert_eq!(server.connections(), asked, "{plugin}");
    }
}

#[test]
fn what_an_application_does_after_its_response_is_in_the_recording() {
    let it = Recording::of("tests/caller", REPLY, "");
    assert_eq!(it.host.request("POST", "/it/after", &[], it.url().as_bytes()).text(), "begun");
    it.wait("written", 1);
    let written = recording(&files(it.folder.path())[0]);
    assert_eq!(written["outbound"][0]["body"]["text"], "done", "{written:#}");
    assert_same(it.folder.path(), &component("tests/caller"), &[], 1);
}

const SECRET: &str = "hush-0f-the-caller";

#[test]
fn no_secret_of_an_application_is_written() {
    let it = Recording::of("tests/caller", COOKIE, "");
    let order = |member: &str, value: Value| {
        let mut order = json!({"a": [1, 2], "b": [3, 4]});
        order[member] = value;
        order
    };
    let mut refused = 0;
    let mut refuses = |header: (&str, &str), body: &Value| {
        assert_eq!(it.host.request("POST", "/it", &[header], body.to_string().as_bytes()).status, 200);
        refused += 1;
        it.wait("refused", refused);
    };
    // `wasi:http` gives a handler all headers.
    refuses(("cookie", SECRET), &json!({}));
    refuses(("authorization", SECRET), &json!({}));
    // A header and a parameter of what it sends, and a header of the answer.
    let mut with_header = order("url", json!("http://127.0.0.1:1/"));
    with_header["header"] = json!("x-api-key");
    refuses(("x-a", "b"), &with_header);
    refuses(("x-a", "b"), &order("url", json!(format!("http://127.0.0.1:1/?token={SECRET}"))));
    refuses(("x-a", "b"), &order("url", json!(it.url())));
    assert_eq!(it.post("plain", "/", &order("none", json!(1))).status, 200);
    it.wait("written", 1);
    assert_eq!(files(it.folder.path()).len(), 1);
    assert_none_has(it.folder.path(), &[SECRET, "hush-0f-the-other"]);
    assert!(!it.host.log().contains(SECRET));
}

fn assert_none_has(folder: &Path, secrets: &[&str]) {
    for file in files(folder) {
        let content = fs::read_to_string(&file).unwrap();
        assert!(secrets.iter().all(|secret| !content.contains(secret)), "{}", file.display());
    }
}

#[test]
fn what_is_too_long_is_served_and_not_recorded_and_said_once() {
    let it = Recording::of("tests/application", REPLY, "limits.body = \"256MiB\"");
    let neighbour = || it.host.request("POST", "/it/echo", &[], b"short").status;
    assert_eq!(neighbour(), 200);
    let long = vec![b'x'; (64 << 20) + 1];
    for _ in 0..2 {
        let reply = it.host.request("POST", "/it/count", &[], &long);
        assert_eq!((reply.status, reply.text()), (200, long.len().to_string()));
    }
    it.wait("dropped", 2);
    let told = "not recorded, nor will others be like it: its bodies";
    it.host.wait_for_log(told);
    assert_eq!(it.host.log().matches(told).count(), 1);
    assert_eq!(neighbour(), 200);
    it.wait("written", 2);
    assert_same(it.folder.path(), &component("tests/application"), &[], 2);
}

#[test]
fn whatever_an_application_ends_in_ends_so_again() {
    let it = Recording::of("tests/application", REPLY, "limits.pre_timeout = \"400ms\"");
    let (_, asked) = (it.post("echo", "/echo?x=1", &json!("a")), it.server.connections());
    for (id, path, status) in [
        ("stream", "/stream?events=5", 200),
        ("flood", "/flood?pieces=40", 200),
        ("trap", "/trap", 500),
        ("none", "/no-response", 500),
        ("refused", "/refuse", 500),
        ("spins", "/spin", 504),
        ("waits", "/wait?ms=50", 200),
        ("headers", "/headers?status=404", 404),
        ("missing", "/nothing", 404),
    ] {
        assert_eq!(it.post(id, path, &json!(null)).status, status, "{id}");
    }
    for (id, url) in [("fetch", it.url()), ("denied", "http://127.0.0.1:1/".to_owned())] {
        assert_eq!(
            it.post(id, &format!("/fetch?{url}"), &json!(null)).status / 100,
            if id == "fetch" { 2 } else { 5 }
        );
    }
    it.wait("written", 12);
    let (folder, server) = (it.folder, it.server);
    drop(it.host);
    let after = server.connections();
    assert!(after > asked);
    assert_same(folder.path(), &component("tests/application"), &[], 12);
    assert_eq!(server.connections.load(Ordering::SeqCst), after);
}
