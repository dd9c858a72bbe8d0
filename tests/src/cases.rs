//! Cases as data: what a component is asked and what it answers, in a file of JSON.
//!
//! In: `endpoint`, lines of TOML of the endpoint `it`, in which `MODELS` and `FOLDER` stand for folders; `host`, further tables;
//! `requests`, each with method, path, headers, body, status, answer and texts that it `holds`, as far as they are not `POST`, `/it`,
//! none, none, 200 and anything, and the `cookies` that it sets; a `raw` body is a list of texts, of texts with the number of their
//! repetitions, and of `bytes`; `sockets`, each with what is said and heard in turn and the end. An answer may have more members than are expected.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::setup::{Endpoint, Setup};
use crate::socket::WebSocket;
use crate::{Host, Reply, assert_close, root};

/// The cases beside the component in this file.
pub fn beside(component: &Path) -> Value {
    read(&component.with_extension("json"))
}

/// The cases in this file.
pub fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The host that serves a component as its cases want it, at `/it`; `folder` is for what it stores and reads.
pub fn setup(component: &Path, cases: &Value, folder: &Path) -> Setup {
    let models = root().join("tests/models").canonicalize().unwrap();
    let text = |name: &str| {
        let text = cases[name].as_str().unwrap_or_default();
        text.replace("MODELS", models.to_str().unwrap()).replace("FOLDER", folder.to_str().unwrap())
    };
    Setup::of([Endpoint::new("it").plugin(component).set(text("endpoint"))]).tables(text("host"))
}

/// Holds an answer against what is expected of it.
fn check(what: &str, case: &Value, reply: &Reply) {
    let said = reply.text();
    eprintln!("{what}: {said}");
    assert_eq!(u64::from(reply.status), case["status"].as_u64().unwrap_or(200), "{what}: {said}");
    if !case["cookies"].is_null() {
        let set = reply.headers.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value);
        assert_eq!(json!(set.collect::<Vec<_>>()), case["cookies"], "{what}");
    }
    for part in list(&case["holds"]) {
        assert!(said.contains(part.as_str().unwrap()), "{what}: {part} in {said}");
    }
    match &case["answer"] {
        Value::Null => {}
        Value::String(text) => assert_eq!(&said, text, "{what}"),
        expected => assert_close(&reply.json(), expected),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The body of a case.
fn body(case: &Value) -> Vec<u8> {
    if case["raw"].is_null() {
        return if case["body"].is_null() { Vec::new() } else { case["body"].to_string().into_bytes() };
    }
    let piece = |piece: &Value| match (piece.as_str(), piece["bytes"].as_array()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(bytes)) => {
            bytes.iter().map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap()).collect()
        }
        (None, None) => {
            let count = usize::try_from(piece[1].as_u64().unwrap()).unwrap();
            piece[0].as_str().unwrap().repeat(count).into_bytes()
        }
    };
    list(&case["raw"]).iter().flat_map(piece).collect()
}

/// Asks the component that a host serves everything; `what` is for messages.
pub fn ask(what: &str, host: &Host, cases: &Value) {
    assert!(!list(&cases["requests"]).is_empty(), "{what} is asked nothing");
    for case in list(&cases["requests"]) {
        let text = |name: &str, default: &str| case[name].as_str().unwrap_or(default).to_owned();
        let mut headers: Vec<(&str, &str)> = Vec::new();
        let own = case["headers"].as_object().into_iter().flatten();
        headers.extend(own.map(|(name, value)| (name.as_str(), value.as_str().unwrap())));
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            headers.push(("content-type", "application/json"));
        }
        let (method, path) = (text("method", "POST"), text("path", "/it"));
        let reply = host.request(&method, &path, &headers, &body(case));
        let asked = case["what"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
        check(&format!("{what} {method} {path} {asked}"), case, &reply);
    }
    for case in list(&cases["sockets"]) {
        let path = case["path"].as_str().unwrap();
        match (WebSocket::open(&host.url, path, &[]), case["refused"].as_u64()) {
            (Err(reply), Some(status)) => assert_eq!(u64::from(reply.status), status, "{what} {path}"),
            (Ok(mut socket), None) => {
                for turn in list(&case["talk"]) {
                    assert_eq!(
                        socket.ask(turn[0].as_str().unwrap()),
                        turn[1].as_str().unwrap(),
                        "{what} {path}"
                    );
                }
                socket.say(case["end"][0].as_str().unwrap());
                assert_eq!(Some(u64::from(socket.closed().0)), case["end"][1].as_u64(), "{what} {path}");
            }
            (opened, _) => panic!("{what} {path}: opened is {}", opened.is_ok()),
        }
    }
}
