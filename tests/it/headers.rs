//! Headers of a handler's response: which are its own, which need a grant, and how many a client gets. Headers of a request as a
//! handler finds them. What says it is JSON.

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, component};
use serde_json::{Value, json};

/// The guest that answers what it is told to, with these headers granted.
fn host(granted: &[&str]) -> Host {
    let answer = |name: &str| Endpoint::new(name).guest("answer");
    let grant = if granted.is_empty() { String::new() } else { format!("response_headers = {granted:?}") };
    Setup::of([answer("answer").set(grant), answer("other")]).serve()
}

fn with_headers(headers: &Value) -> Value {
    json!({ "content_type": "text/plain", "headers": headers, "body": b"fine" })
}

fn send(host: &Host, path: &str, answer: &Value) -> Reply {
    host.post(path, answer.to_string())
}

#[test]
fn headers_for_the_whole_server_need_a_grant() {
    let host = host(&["Strict-Transport-Security", "set-cookie", "x-accel-expires"]);
    for name in [
        "strict-transport-security",
        "Clear-Site-Data",
        "alt-svc",
        "content-encoding",
        "set-cookie",
        "service-worker-allowed",
        "public-key-pins",
        "Access-Control-Allow-Credentials",
        "server",
        "date",
        "www-authenticate",
        "x-accel-redirect",
        "x-accel-expires",
    ] {
        let answer = with_headers(&json!([["x-before", "1"], [name, "value"]]));
        let refused = send(&host, "/other", &answer);
        let text = refused.error(500, "plugin_bad_output", "pre_inference");
        assert!(text.contains(&format!("`{name}`")) && text.contains("`response_headers`"), "{text}");
        assert_eq!(
            (refused.header(&name.to_lowercase()) == Some("value"), refused.header("x-before")),
            (false, None)
        );

        let reply = send(&host, "/answer", &answer);
        match ["strict-transport-security", "set-cookie", "x-accel-expires"].contains(&name) {
            true => assert_eq!((reply.status, reply.header(name)), (200, Some("value")), "{name}"),
            false => assert_eq!(reply.status, 500, "{name}"),
        }
        // Neither the process nor the endpoint is any worse for it.
        assert_eq!(send(&host, "/other", &with_headers(&json!([["x-a", "b"]]))).header("x-a"), Some("b"));
    }
}

#[test]
fn what_cannot_be_granted_is_named_at_the_start() {
    let plugin = component("tests/answer");
    let plugin = plugin.to_str().unwrap();
    for (name, words) in [
        ("content-length", "`content-length` is the server's, and cannot be granted"),
        ("x-request-id", "cannot be granted"),
        ("strict-transport-securty", "did you mean `strict-transport-security`?"),
        ("x-mine", "`x-mine` is no header that needs a grant"),
    ] {
        let ended = Host::try_serve(&["--plugin", plugin, "--response-header", name]);
        let (status, log) = ended.err().expect("a start that fails");
        assert_eq!(status.code(), Some(2), "{log}");
        assert!(log.contains(words), "{log}");
    }
    let host = Host::serve(&["--plugin", plugin, "--response-header", "server", "--response-header", "date"]);
    let reply = send(&host, "/", &with_headers(&json!([["server", "mine"], ["date", "today"]])));
    assert_eq!((reply.header("server"), reply.header("date")), (Some("mine"), Some("today")));
}

#[test]
fn a_handler_cannot_speak_as_the_server() {
    let host = host(&[]);
    let forged = json!([
        ["x-request-id", "forged"],
        ["X-Banana-Request-Id", "forged"],
        ["x-handler-digest", "forged"],
        ["x-handler-bypassed", "forged"],
        ["x-mine", "kept"],
    ]);
    let answer = with_headers(&forged).to_string();
    for id in [None, Some(("x-banana-request-id", "r-1")), Some(("x-request-id", "r-1"))] {
        let headers: Vec<_> = [("content-type", "application/json")].into_iter().chain(id).collect();
        let reply = host.request("POST", "/answer", &headers, answer.as_bytes());
        assert_eq!((reply.status, reply.header("x-mine")), (200, Some("kept")));
        assert!(reply.headers.iter().all(|(_, value)| value != "forged"), "{:?}", reply.headers);
        let banana = id.filter(|(name, _)| name.contains("banana")).map(|(_, value)| value);
        assert_eq!(reply.header("x-banana-request-id"), banana);
    }
}

/// Python's own client takes 100 headers, and many do as it does.
#[test]
fn all_headers_together_are_as_many_as_clients_take() {
    let plugin = component("tests/answer");
    let host = Host::with(
        Some(&plugin),
        None,
        &[
            "--name",
            "answer",
            "--cors-allow-origin",
            "https://example.com",
            "--response-header",
            "content-encoding",
        ],
    );
    let spelled = |count: usize| {
        let headers = json!([["x-many", "1"]]);
        json!({ "content_type": "application/json", "headers": headers, "repeat": count, "body": br#"{"a":[1]}"# })
    };
    let inner = spelled(80).to_string();
    let predict = json!({ "answer": inner }).to_string();
    let infer =
        json!({ "inputs": [{ "name": "answer", "shape": [1], "datatype": "BYTES", "data": [inner] }] });
    let headers = [
        ("content-type", "application/json"),
        ("x-banana-request-id", "r-1"),
        ("accept-encoding", "gzip"),
        ("connection", "close"),
    ];
    for (path, body) in [
        ("/answer", spelled(80).to_string()),
        ("/v1/models/answer:predict", predict),
        ("/v2/models/answer/infer", infer.to_string()),
    ] {
        let reply = host.request("POST", path, &headers, body.as_bytes());
        let of_handler = reply.headers.iter().filter(|(name, _)| name == "x-many").count();
        assert_eq!((reply.status, of_handler), (200, 80), "{path}: {}", reply.text());
        assert!(reply.headers.len() <= 95, "{path}: {} headers", reply.headers.len());
    }
    let text = send(&host, "/", &spelled(81)).error(500, "plugin_bad_output", "pre_inference");
    assert!(text.contains("81 response headers"), "{text}");
}

// P19
#[test]
fn a_header_is_found_by_dash_or_underscore() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "the-key").unwrap();
    let plugin = component("tests/answer");
    let host = Host::with(Some(&plugin), None, &["--key", &format!("@{}", file.path().display())]);
    let got = |asked: &str, more: &[(&str, &str)]| {
        let headers =
            [&[("content-type", "application/json"), ("x-banana-api-key", "the-key")], more].concat();
        let body = json!({ "header": asked }).to_string();
        host.request("POST", "/", &headers, body.as_bytes()).json()["got"].take()
    };
    let custom = [("x_custom-id", "1")];
    assert_eq!(got("X-Custom-Id", &custom), "1");
    assert_eq!(got("x_custom_id", &custom), "1");
    assert_eq!(got("x-custom-i", &custom), Value::Null);
    assert_eq!(got("x.custom.id", &custom), Value::Null);
    // The exact name wins, wherever it stands.
    assert_eq!(got("x-custom-id", &[("x_custom_id", "1"), ("x-custom-id", "2")]), "2");
    // No spelling shows a handler the key.
    for name in ["x-banana-api-key", "x_banana_api_key", "X-Banana_Api-Key"] {
        assert_eq!(got(name, &[]), Value::Null, "{name}");
    }
}

#[test]
fn what_says_it_is_json_is_json() {
    let host = host(&["content-encoding"]);
    let answer = |content_type: &str, body: &[u8]| {
        send(&host, "/answer", &json!({ "content_type": content_type, "body": body }))
    };
    for content_type in
        ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", "TEXT/json;x=y"]
    {
        for broken in
            [&b"{\"a\":\"\xff\"}"[..], b"{\"a\xc3\":1}", b"{\"a\":", b"{\"a\":\"\xed\xa0\x80\"}", b""]
        {
            let reply = answer(content_type, broken);
            let text = reply.error(500, "plugin_bad_output", "pre_inference");
            assert!(text.contains("not JSON"), "{content_type}: {text}");
        }
        let mended = answer(content_type, b"{\"a\":[NaN,-Infinity,\"NaN\"]}");
        assert_eq!(
            (mended.status, mended.text().as_str()),
            (200, r#"{"a":[null,null,"NaN"]}"#),
            "{content_type}"
        );
        assert_eq!(answer(content_type, "{\"é\":\"\\ud800\"}".as_bytes()).status, 200, "{content_type}");
    }
    for content_type in ["text/plain", "application/x-ndjson", "application/octet-stream"] {
        assert_eq!(answer(content_type, b"\"\xff").body, b"\"\xff", "{content_type}");
    }
    // The same on the way to tensors: what is JSON becomes tensors, however its type is written.
    let spelled =
        json!({ "content_type": "Application/JSON;charset=utf-8", "body": b"{\"a\":[1,2]}" }).to_string();
    let infer =
        json!({ "inputs": [{ "name": "answer", "shape": [1], "datatype": "BYTES", "data": [spelled] }] });
    let reply = host.post("/v2/models/answer/infer", infer.to_string()).json();
    assert_eq!(reply["outputs"][0]["data"], json!([1, 2]), "{reply}");
}
