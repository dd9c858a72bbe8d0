//! WebSockets and batches of applications in Go, C, C++ and Zig, by their SDKs.
//!
//! In: projects with the handler of `tests/languages/LANGUAGE-sockets`, which do the same in each language, and
//! one file of cases for all. Here is what cases as data cannot say: bytes, subprotocols, silence, many clients,
//! requests at once.

use std::thread;

use e2e::socket::{BINARY, FINAL, TEXT, WebSocket, masked};
use e2e::{Host, wait_until, wire};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{failed, normal, open};
use crate::languages::check;
use crate::request_batches::at_once;

/// The longest message that the endpoint takes.
const LONGEST: usize = 1 << 20;

fn talks_and_batches(language: &str) -> (Host, [TempDir; 2]) {
    let sources = format!("{language}-sockets");
    let (host, folders) = check(language, &sources, "compiled-sockets.json", "");
    talks(&host);
    serves_again(&host);
    takes_large(&host);
    batches(&host);
    (host, folders)
}

fn talks(host: &Host) {
    let mut socket = open(host, "/it/echo");
    assert_eq!(socket.opening.header("sec-websocket-protocol"), None);
    for bytes in [&[0, 255, 0][..], &[]] {
        socket.send(&masked(FINAL | BINARY, bytes)).unwrap();
        let frame = socket.receive().unwrap();
        assert_eq!((frame.kind, &*frame.payload), (BINARY, bytes));
    }
    // The word ends it as a text only.
    socket.send(&masked(FINAL | BINARY, b"bye")).unwrap();
    assert_eq!(socket.receive().unwrap().payload, b"bye");
    socket.say("bye");
    assert_eq!(socket.closed(), (3001, "bye".to_owned()));

    for (offered, chosen) in [("soft, chat", Some("chat")), ("soft", None)] {
        let headers = [("sec-websocket-protocol", offered)];
        let mut socket = WebSocket::open(&host.url, "/it/echo", &headers).ok().unwrap();
        assert_eq!(socket.opening.header("sec-websocket-protocol"), chosen);
        assert_eq!(socket.ask("a"), "a");
    }
    let refused = WebSocket::open(&host.url, "/it/refused", &[]).err().unwrap();
    assert_eq!((refused.status, refused.json()), (403, json!({ "no": "entry" })));
    let mut socket = open(host, "/it/slow");
    assert_eq!(socket.hear(), "late");
    assert_eq!(socket.closed(), normal());
    // The client closes, and is gone without a close: neither is the handler's failure.
    let mut socket = open(host, "/it/echo");
    socket.close(4002);
    assert_eq!(socket.closed().0, 4002);
    drop(open(host, "/it/echo"));
    wait_for_none_open(host);
    let failed = r#"modelhost_requests_total{endpoint="it",outcome="plugin_error"}"#;
    assert_eq!(host.metric(failed), 0.0, "{}", host.log());
}

fn wait_for_none_open(host: &Host) {
    wait_until("all sockets to be over", || {
        host.metric(r#"modelhost_websockets_open{endpoint="it"}"#) == 0.0
    });
}

/// An instance that has given back all that a socket was serves the next.
fn serves_again(host: &Host) {
    let made = || host.metric(r#"modelhost_plugin_instances_created_total{endpoint="it"}"#);
    let before = made();
    for path in ["/it/echo", "/it/refused", "/it/slow"].repeat(10) {
        if let Ok(mut socket) = WebSocket::open(&host.url, path, &[]) {
            if path == "/it/echo" {
                socket.say("bye");
            }
            socket.closed();
        }
        wait_for_none_open(host);
    }
    assert!(made() - before <= 3.0, "{} instances for 30 sockets", made() - before);
}

/// What messages leave behind would fill the memory; several clients at a time hear their own.
fn takes_large(host: &Host) {
    thread::scope(|scope| {
        for client in 0..3_u8 {
            scope.spawn(move || {
                let mut socket = open(host, "/it/echo");
                for (number, length) in [LONGEST, 7, LONGEST - 1, 300_000].repeat(40).into_iter().enumerate()
                {
                    let (kind, byte) = if number % 2 == 0 { (TEXT, b'a') } else { (BINARY, 200) };
                    let payload = vec![byte + client; length];
                    socket.send(&masked(FINAL | kind, &payload)).unwrap();
                    let frame = socket.receive().unwrap();
                    assert_eq!((frame.kind, frame.payload.len()), (kind, length), "{:?}", frame.closed());
                    assert!(frame.payload == payload, "client {client}, message {number}");
                }
                socket.say("bye");
                assert_eq!(socket.closed().0, 3001);
            });
        }
    });
}

/// Each batch is full, so that none waits.
fn batches(host: &Host) {
    let ask = |bodies: [&str; 3]| -> Vec<(u16, Value)> {
        let requests = bodies.map(|body| wire::post("/it/sums", &[], body));
        at_once(host, requests).into_iter().map(|(reply, _)| (reply.status, reply.json())).collect()
    };
    let sum = |sum: f64, of: u32| (200, json!({ "sum": sum, "of": of }));
    for _ in 0..20 {
        let mut answers = ask(["[1, 2.5]", "[]", "[-4]"]);
        for (_, answer) in &mut answers {
            answer["sum"] = json!(answer["sum"].as_f64());
        }
        assert_eq!(answers, [sum(3.5, 3), sum(0.0, 3), sum(-4.0, 3)]);
    }
    // A body that is no list is its own request's, be it JSON or not.
    for wrong in [r#"{"a": 1}"#, "[1", "", "7", r#"["2"]"#] {
        let answers = ask(["[1, 2]", wrong, "[3]"]);
        assert_eq!(
            answers.iter().map(|it| it.0).collect::<Vec<_>>(),
            [200, 400, 200],
            "{wrong}: {answers:?}"
        );
        assert_eq!(answers[1].1["code"], "invalid_input", "{wrong}");
        for (_, answer) in [&answers[0], &answers[2]] {
            assert_eq!(answer["sum"].as_f64(), Some(3.0), "{wrong}: {answers:?}");
        }
    }
    assert!(ask(["x", "{}", "null1"]).iter().all(|(status, _)| *status == 400));
}

/// Words of Go's rooms: the head of the handshake, what the host refuses to send, and how a function ends.
#[test]
fn go_talks_and_batches() {
    let (host, _folders) = talks_and_batches("go");
    let refused = WebSocket::open(&host.url, "/it/rooms/none", &[]).err().unwrap();
    assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("no such room")));
    let headers = [("x-user", "u7")];
    let mut socket = WebSocket::open(&host.url, "/it/rooms/a%20b?x=1", &headers).ok().unwrap();
    for (says, hears) in [
        ("where", r#"["a b","x=1","u7"]"#),
        ("long", "the message has 2097152 bytes, of at most 1048576: `limits.socket_message`"),
        ("bytes", "the text is not UTF-8"),
        ("code", "code 1005 is not one that is sent: 1000 to 1003, 1007 to 1011, 3000 to 4999"),
    ] {
        assert_eq!(socket.ask(says), hears);
    }
    // Few messages leave much, and most of them little: the memory has room for some of them.
    for _ in 0..100 {
        for says in ["where", "where", "waste"] {
            socket.ask(says);
        }
    }
    socket.say("late");
    assert_eq!(socket.closed(), (3002, "late".to_owned()));
    host.wait_for_log("after the close: the socket is closed, with 3002: late");
    host.wait_for_log("the client closed with 4002");
    for (says, log) in
        [("fail", "failed, as asked"), ("panic", "panic: runtime error: integer divide by zero")]
    {
        let mut socket = open(&host, "/it/rooms/a");
        socket.say(says);
        assert_eq!(socket.closed(), failed(), "{says}");
        host.wait_for_log(log);
    }
    wait_for_none_open(&host);
}

#[test]
fn c_talks_and_batches() {
    talks_and_batches("c");
}

#[test]
fn cpp_talks_and_batches() {
    talks_and_batches("cpp");
}

#[test]
fn zig_talks_and_batches() {
    talks_and_batches("zig");
}
