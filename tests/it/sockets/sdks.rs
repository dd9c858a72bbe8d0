//! WebSockets of applications in Python and JavaScript, by their SDKs.
//!
//! In: projects of a template, built by the host: the programs that docs/sockets.md shows, with more paths.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::project::application;
use e2e::setup::{Endpoint, Setup};
use e2e::socket::{BINARY, FINAL, WebSocket, masked};
use e2e::{Host, root, wait_until};

use super::{closes, failed, normal, open, wait_for_none_open};

/// The block of this language in the guide that has `mark` in it.
fn shown(language: &str, mark: &str) -> String {
    let guide = fs::read_to_string(root().join("docs/sockets.md")).unwrap();
    let start = format!("```{language}\n");
    let mut blocks = guide.split(&start).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.find(|block| block.contains(mark)).unwrap().to_owned()
}

/// A project with the guide's program and these paths more.
fn built(folder: &Path, language: &str, source: &str, mark: &str, more: &str, config: &str) -> PathBuf {
    let program = shown(language, mark) + more;
    let files = [(source, &*program), ("modelhost.toml", config)];
    application(folder, language, &files)
}

/// Everything that can be done with a socket, by one application.
fn talks(plugin: &Path) {
    let endpoint = |limits: &str| Setup::of([Endpoint::new("talk").plugin(plugin).limits(limits)]).serve();
    let host = endpoint("socket_message = '1KiB', pre_timeout = '10s', memory = '128MiB'");
    assert_eq!(host.get("/talk").text(), "hello");
    for (path, says, hears, ends) in [
        ("/echo", &["a", "grüß", "bye"][..], &["echo a", "echo grüß"][..], normal()),
        ("/untouched", &[], &[], normal()),
        ("/rooms/7?a=b", &[r#"{"n":[1]}"#], &[r#"["7","b",{"n":[1]}]"#], normal()),
        ("/close", &["now"], &[], (4001, "enough".to_owned())),
        ("/fail", &["a"], &["a"], failed()),
        ("/patience", &[], &["nothing came"], normal()),
    ] {
        let mut socket = open(&host, &format!("/talk{path}"));
        for text in says {
            socket.say(text);
        }
        for text in hears {
            assert_eq!(socket.hear(), *text, "{path}");
        }
        assert_eq!(socket.closed(), ends, "{path}");
    }
    for text in ["closed: late False, code 4001", "failed, as asked", "untouched"] {
        host.wait_for_log(text);
    }
    let mut socket = open(&host, "/talk/echo");
    socket.send(&masked(FINAL | BINARY, &[0, 255, 0])).unwrap();
    let frame = socket.receive().unwrap();
    assert_eq!((frame.kind, frame.payload), (BINARY, vec![0, 255, 0]));
    drop(socket);
    // What the host refuses is an error, and the socket goes on.
    let mut socket = open(&host, "/talk/refused");
    assert!(socket.ask("big").contains("1025 bytes, of at most 1024: `limits.socket_message`"));
    assert!(socket.ask("code").contains("code 1005 is not one that is sent"));
    socket.close(4002);
    host.wait_for_log("the client went with 4002");

    let headers = [("sec-websocket-protocol", "soft, chat.v2")];
    let mut socket = WebSocket::open(&host.url, "/talk/protocol", &headers).ok().unwrap();
    assert_eq!(socket.opening.header("sec-websocket-protocol"), Some("chat.v2"));
    assert_eq!(socket.hear(), "chat.v2");
    let refused = |path: &str| WebSocket::open(&host.url, path, &[]).err().unwrap();
    let reply = refused("/talk/forbidden");
    assert_eq!(
        (reply.status, reply.text().as_str(), reply.header("x-why")),
        (403, "not you", Some("refused"))
    );
    let reply = refused("/talk/invalid");
    assert_eq!((reply.status, &reply.json()["error"]), (400, &"no such room".into()));
    assert_eq!(refused("/talk/elsewhere").status, 404);
    refused("/talk/boom").error(500, "plugin_error", "pre_inference");
    refused("/talk/protocol").error(500, "plugin_error", "pre_inference");
    host.wait_for_log("the client offers no subprotocol `chat.v2`");
    wait_for_none_open(&host);
    assert_eq!(["1000", "1011"].map(|code| closes(&host, code)), [5.0, 1.0]);
    drop(host);
    again(&endpoint("sockets = 1, concurrency = 1, pre_timeout = '10s', memory = '128MiB'"));
}

/// An instance serves one socket after another, as none of them is kept.
fn again(host: &Host) {
    let served = || {
        let mut number = String::new();
        wait_until("a place", || {
            let Ok(mut socket) = WebSocket::open(&host.url, "/talk/served", &[]) else { return false };
            number = socket.hear();
            assert_eq!(socket.closed(), normal());
            true
        });
        number
    };
    assert_eq!([served(), served(), served()], ["1", "2", "3"]);
}

const PYTHON: &str = r#"
from modelhost_guest import Answer, InvalidInput, Response

served = 0


@app.websocket("/untouched")
def untouched(socket):
    print("untouched")


@app.websocket("/rooms/{room}")
def room(socket, request):
    said = socket.receive_json()
    socket.send_json([request.params["room"], request.query["a"], said])


@app.websocket("/close")
def close(socket):
    socket.receive()
    socket.close(4001, "enough")
    print(f"closed: late {socket.send('late')}, code {socket.closed.code}")


@app.websocket("/fail")
def fail(socket):
    socket.send(socket.receive())
    raise KeyError("failed, as asked")


@app.websocket("/patience")
def patience(socket):
    try:
        socket.receive(timeout=0.02)
    except TimeoutError:
        socket.send("nothing came")


@app.websocket("/refused")
def refused(socket):
    for message in socket:
        try:
            if message == "big":
                socket.send("x" * 1025)
            else:
                socket.close(1005)
        except ValueError as error:
            socket.send(str(error))
    print(f"the client went with {socket.closed.code}")


@app.websocket("/protocol")
def protocol(socket):
    socket.accept(next((it for it in socket.protocols if it.startswith("chat.")), "chat.v2"))
    socket.send("chat.v2")


@app.websocket("/forbidden")
def forbidden(socket):
    raise Answer(Response("not you", status=403, headers={"x-why": "refused"}))


@app.websocket("/invalid")
def invalid(socket):
    raise InvalidInput("no such room")


@app.websocket("/boom")
def boom(socket):
    raise KeyError("before it is open")


@app.websocket("/served")
def count(socket):
    global served
    served += 1
    socket.send(str(served))
"#;

const JAVASCRIPT: &str = r#"
import { InvalidInput, Response } from "modelhost-guest";

let served = 0;

app
  .websocket("/untouched", () => console.log("untouched"))
  .websocket("/rooms/{room}", async (socket, request) => {
    const said = await socket.receiveJson();
    socket.sendJson([request.params.room, request.query.get("a"), said]);
  })
  .websocket("/close", (socket) => {
    socket.receive();
    socket.close(4001, "enough");
    const late = socket.send("late") ? "True" : "False";
    console.log(`closed: late ${late}, code ${socket.closed.code}`);
  })
  .websocket("/fail", (socket) => {
    socket.send(socket.receive());
    throw new Error("failed, as asked");
  })
  .websocket("/patience", (socket) => {
    try {
      socket.receive({ timeout: 0.02 });
    } catch (error) {
      socket.send(error.name === "TimeoutError" ? "nothing came" : error.message);
    }
  })
  .websocket("/refused", (socket) => {
    for (const message of socket) {
      try {
        if (message === "big") socket.send("x".repeat(1025));
        else socket.close(1005);
      } catch (error) {
        socket.send(error.message);
      }
    }
    console.log(`the client went with ${socket.closed.code}`);
  })
  .websocket("/protocol", (socket) => {
    const chosen = socket.protocols.find((it) => it.startsWith("chat.")) ?? "chat.v2";
    socket.accept(chosen);
    socket.send(chosen);
  })
  .websocket("/forbidden", () => {
    throw new Response("not you", { status: 403, headers: { "x-why": "refused" } });
  })
  .websocket("/invalid", () => {
    throw new InvalidInput("no such room");
  })
  .websocket("/boom", () => {
    throw new Error("before it is open");
  })
  .websocket("/served", (socket) => {
    served += 1;
    socket.send(String(served));
  });
"#;

#[test]
fn python_talks() {
    let folder = tempfile::tempdir().unwrap();
    talks(&built(folder.path(), "python", "app.py", "@app.websocket", PYTHON, ""));
}

#[test]
fn javascript_talks() {
    let folder = tempfile::tempdir().unwrap();
    talks(&built(folder.path(), "js", "handler.js", ".websocket(", JAVASCRIPT, ""));
}

#[test]
fn javascript_talks_on_quickjs() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[build]\nengine = \"quickjs\"\n";
    talks(&built(folder.path(), "js", "handler.js", ".websocket(", JAVASCRIPT, config));
}
