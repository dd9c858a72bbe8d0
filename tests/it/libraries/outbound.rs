//! The library for requests to other servers in each language that has it, against servers of this machine;
//! and webhooks of a program of Potassium's that was brought over.
//!
//! In: `tests/languages/LANGUAGE-outbound`, an application that sends what the body of a `POST` says, and
//! answers with what came of it, the same in every language:
//!
//! ```text
//! {"do": "get", "url": "http://…", "headers": {"x-a": "b"}, "json": [1], "secret": "…", "attempts": 2,
//!  "pause_ms": 1, "timeout_ms": 500}
//!
//! get, post, webhook   {"status": 200, "headers": {"content-type": "…"}, "text": "…"}
//! pieces               {"status": 200, "pieces": 3, "bytes": 70000}: a get that is read piece by piece
//! whole                {"status": 200, "bytes": 70000}: a get that is read as a whole
//! left                 {"status": 200}: a get of which one piece is read; the rest is left
//! without a response   {"error": "denied"}, or {"error": "status", "status": 404}
//! ```
//!
//! All but `do` and `url` may be left out; `json` is the body of a post and of a webhook.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use e2e::clients::finished;
use e2e::project::lend_packages;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, root};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host;
use crate::from::{brought, old};
use crate::languages::copy;
use crate::outbound::Server;
use crate::webhooks::{BUSY, GONE, Receiver, SECRET, assert_signed};

const MADE: &str = "HTTP/1.1 201 Made\r\nX-Kind: b\r\ncontent-length: 6\r\nconnection: close\r\n\r\ngrüß";
const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
/// A body that goes on after its first piece, for as long as the connection does.
const BEGUN: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
/// Most bytes of a body that is read whole.
const LONGEST: usize = 16 << 20;
/// More than the requests that a handler may have under way.
const MANY: usize = 80;

/// The component of a language's handler; `more` is what `[build]` of its file has besides.
fn built(folder: &Path, language: &str, more: &str) -> PathBuf {
    component("library/outbound");
    finished(&mut host(folder, &["new", "it", "--lang", language]), "host new");
    let (project, sources) = (folder.join("it"), root().join("tests/languages"));
    lend_packages(&project);
    copy(&sources.join(format!("{language}-outbound")), &project);
    let config = format!(
        "[[endpoint]]\nname = \"it\"\nplugin = \"handler.wasm\"\n\n[build]\nwith = [\"outbound\"]\n{more}"
    );
    fs::write(project.join("modelhost.toml"), config).unwrap();
    finished(&mut host(&project, &["build"]), "host build");
    project.join("handler.wasm")
}

/// A handler that may send to these places.
fn served(plugin: &Path, places: &[&str]) -> Host {
    let lines = format!("network = 'stub'\nallow_outbound = {places:?}");
    let endpoint = Endpoint::new("it").plugin(plugin).set(lines).limits("memory = '256MiB', concurrency = 1");
    Setup::of([endpoint]).serve()
}

/// A server whose bodies have this length, as far as their reader takes them; its address.
fn long(length: usize) -> String {
    fn answer(mut stream: TcpStream, length: usize) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
        let piece = [b'x'; 64 << 10];
        let whole = length / piece.len();
        (0..whole).try_for_each(|_| stream.write_all(&piece))?;
        stream.write_all(&piece[..length % piece.len()])
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A reader that has enough goes.
            let _ = answer(stream.unwrap(), length);
        }
    });
    url
}

/// The address of a server that has ended: connections are refused.
fn ended_server() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// Headers and bodies, there and back.
fn sends_and_receives(plugin: &Path) {
    let receiver = Receiver::start(&[MADE]);
    let host = served(plugin, &[&receiver.url]);
    let url = format!("{}/here?a=b", receiver.url);
    let expected = |answer: &Value| {
        let found = (&answer["status"], &answer["headers"]["x-kind"], &answer["text"]);
        assert_eq!(found, (&json!(201), &json!("b"), &json!("grüß")), "{answer}");
    };
    expected(&host.ask("/", &json!({"do": "get", "url": url, "headers": {"X-Mine": "1"}})));
    let value = json!({"a": [1, "grüß"], "b": null});
    expected(&host.ask("/", &json!({"do": "post", "url": url, "json": value})));
    let seen = receiver.wait_for(2);
    assert_eq!((seen[0].line.as_str(), seen[0].header("x-mine")), ("GET /here?a=b HTTP/1.1", "1"));
    assert_eq!(seen[1].line, "POST /here?a=b HTTP/1.1");
    assert_eq!(seen[1].header("content-type"), "application/json");
    assert_eq!(serde_json::from_slice::<Value>(&seen[1].body).unwrap(), value);
}

/// What `fetch` of the web platform sends by, in JavaScript.
fn fetches(plugin: &Path) {
    let (receiver, empty) = (Receiver::start(&[MADE]), Receiver::start(&[NO_CONTENT]));
    let host = served(plugin, &[&receiver.url, &empty.url]);
    let headers = json!({"X-Mine": "1", "content-type": "text/csv"});
    let order = |url: &str| json!({"do": "fetch", "url": url, "headers": headers, "json": [1, "grüß"]});
    let answer = host.ask("/", &order(&format!("{}/here?a=b", receiver.url)));
    let found = (&answer["status"], &answer["headers"]["x-kind"], &answer["text"]);
    assert_eq!(found, (&json!(201), &json!("b"), &json!("grüß")), "{answer}");
    let [request] = &receiver.wait_for(1)[..] else { panic!("one request is sent once") };
    assert_eq!((request.line.as_str(), request.header("x-mine")), ("POST /here?a=b HTTP/1.1", "1"));
    assert_eq!((request.header("content-type"), &*request.body), ("text/csv", "[1,\"grüß\"]".as_bytes()));
    assert_eq!(host.ask("/", &order(&empty.url))["status"], 204);
    assert_eq!(host.ask("/", &order("http://127.0.0.1:1"))["error"], "denied");
}

/// A signature of the standard's, and another attempt, which has the message's id.
fn sends_webhooks(plugin: &Path) {
    let (receiver, gone) = (Receiver::start(&[BUSY, NO_CONTENT]), Receiver::start(&[GONE]));
    let host = served(plugin, &[&receiver.url, &gone.url]);
    let (value, secret) = (json!({"output": [1, 2]}), SECRET);
    let order = json!({
        "do": "webhook", "url": receiver.url, "json": value, "secret": secret, "attempts": 3, "pause_ms": 1
    });
    assert_eq!(host.ask("/", &order)["status"], 204);
    let seen = receiver.seen();
    assert_eq!(seen.len(), 2);
    for request in &seen {
        assert_signed(request);
        assert_eq!(request.header("webhook-id"), seen[0].header("webhook-id"));
        assert_eq!(request.header("content-type"), "application/json");
        assert_eq!(serde_json::from_slice::<Value>(&request.body).unwrap(), value);
    }
    let order = json!({"do": "webhook", "url": gone.url, "json": 1, "attempts": 3});
    assert_eq!(host.ask("/", &order), json!({"error": "status", "status": 410}));
    let [request] = &gone.seen()[..] else { panic!("what no attempt can mend is tried once") };
    assert!(request.headers.iter().all(|(name, _)| !name.starts_with("webhook-")), "{:?}", request.headers);
    assert!(!host.log().contains(secret));
}

/// Each error by its name, and a request that is served after it.
fn says_what_goes_wrong(plugin: &Path) {
    let receiver = Receiver::start(&[MADE]);
    let port = receiver.url.rsplit(':').next().unwrap();
    // A name of this machine that is not its address, and a server that says nothing.
    let named = format!("http://2130706433:{port}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = (format!("http://{}", silent.local_addr().unwrap()), silent);
    let ended = ended_server();
    // One that says a piece of its body, and nothing more.
    let stalled = format!("http://127.0.0.1:{}", Server::start(BEGUN, None).port);
    let host = served(plugin, &[&receiver.url, &named, &silent.0, &ended, &stalled]);
    for (url, headers, expected) in [
        ("http://127.0.0.1:1", json!({}), "denied"),
        (&*named, json!({}), "prohibited"),
        ("ftp://127.0.0.1", json!({}), "invalid"),
        (&*receiver.url, json!({"x y": "1"}), "invalid"),
        (&*receiver.url, json!({"x-a": "1\r\nx-b: 2"}), "invalid"),
        (&*receiver.url, json!({"content-length": "many"}), "invalid"),
        (&*ended, json!({}), "failed"),
        (&*silent.0, json!({}), "timed-out"),
        (&*stalled, json!({}), "timed-out"),
    ] {
        let order = json!({"do": "get", "url": url, "headers": headers, "timeout_ms": 300});
        assert_eq!(host.ask("/", &order), json!({"error": expected}), "{url} {headers}");
    }
    let order = json!({"do": "whole", "url": stalled, "timeout_ms": 300});
    assert_eq!(host.ask("/", &order), json!({"error": "timed-out"}));
    // An empty secret is one that everybody has.
    let order = json!({"do": "webhook", "url": receiver.url, "json": 1, "secret": ""});
    assert_eq!(host.ask("/", &order), json!({"error": "invalid"}));
    assert!(receiver.seen().is_empty());
    assert_eq!(host.ask("/", &json!({"do": "get", "url": receiver.url}))["status"], 201);
}

/// Pieces are there while others are still to come; a body is whole up to a limit; what is left open goes
/// with its request.
fn reads_bodies(plugin: &Path) {
    let (pieces, whole, beyond) = (long(200_000), long(LONGEST), long(LONGEST + 1));
    let begun = Server::start(BEGUN, None);
    let open = format!("http://127.0.0.1:{}", begun.port);
    let host = served(plugin, &[&pieces, &whole, &beyond, &open]);
    let answer = host.ask("/", &json!({"do": "pieces", "url": pieces}));
    assert_eq!((&answer["status"], &answer["bytes"]), (&json!(200), &json!(200_000)));
    // One read gives 64 KiB at most.
    assert!(answer["pieces"].as_u64() >= Some(4), "{answer}");
    assert_eq!(
        host.ask("/", &json!({"do": "whole", "url": whole})),
        json!({"status": 200, "bytes": LONGEST})
    );
    assert_eq!(host.ask("/", &json!({"do": "whole", "url": beyond})), json!({"error": "too-long"}));
    for number in 0..MANY {
        let answer = host.ask("/", &json!({"do": "left", "url": open}));
        assert_eq!(answer, json!({"status": 200}), "response {number}");
    }
    assert_eq!(begun.connections(), MANY);
}

/// A test for each language.
macro_rules! in_each {
    ($($name:ident: $language:literal $(, $more:ident)?;)+) => {
        $(#[test]
        fn $name() {
            let folder = TempDir::new().unwrap();
            let plugin = built(folder.path(), $language, [$($more,)? ""][0]);
            sends_and_receives(&plugin);
            sends_webhooks(&plugin);
            says_what_goes_wrong(&plugin);
            reads_bodies(&plugin);
            if $language == "js" {
                fetches(&plugin);
            }
        })+
    };
}

const QUICKJS: &str = "engine = \"quickjs\"\n";

// A language more is a row here, and its handler in `tests/languages/LANGUAGE-outbound`.
in_each! {
    requests_in_python: "python";
    requests_in_javascript: "js";
    requests_in_javascript_on_quickjs: "js", QUICKJS;
    requests_in_go: "go";
    requests_in_c: "c";
    requests_in_cpp: "cpp";
    requests_in_zig: "zig";
}

/// P20: the receiver sees JSON by `POST`; where there is none, the handler goes on, and the log says so.
#[test]
fn webhooks_of_potassium_are_sent() {
    component("library/outbound");
    let folder = old(&[(
        "app.py",
        "from potassium import Potassium, Request, Response, send_webhook\n\napp = Potassium(\"mine\")\n\n\n\
         @app.handler(\"/\")\ndef handler(context: dict, request: Request) -> Response:\n\
         \x20   send_webhook(url=request.json[\"url\"], json={\"output\": 1})\n\
         \x20   return Response(json={\"done\": True}, status=200)\n",
    )]);
    let project = brought(folder.path());
    let report = fs::read_to_string(project.join("MIGRATION.md")).unwrap();
    assert!(report.contains("| `app.py:8` | `send_webhook` | list its receiver at the endpoint"), "{report}");
    let (receiver, ended) = (Receiver::start(&[NO_CONTENT]), ended_server());
    let config = project.join("modelhost.toml");
    let text = fs::read_to_string(&config).unwrap();
    let places = format!("\nallow_outbound = {:?}\nplugin = ", [&receiver.url, &ended]);
    fs::write(&config, text.replacen("\nplugin = ", &places, 1)).unwrap();
    let host = Host::serve(&["--config", config.to_str().unwrap()]);
    for url in [&format!("{}/hook", receiver.url), &ended] {
        assert_eq!(host.ask("/", &json!({"url": url})), json!({"done": true}), "{url}");
    }
    let [request] = &receiver.seen()[..] else { panic!("one request is sent once") };
    assert_eq!(request.line, "POST /hook HTTP/1.1");
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(serde_json::from_slice::<Value>(&request.body).unwrap(), json!({"output": 1}));
    host.wait_for_log(&format!("Webhook to {ended} failed with connection error"));
}
