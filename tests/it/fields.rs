//! Header fields: those of requests as handlers find them, over HTTP/1 and HTTP/2, and those of answers beside the server's own.

use e2e::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, head, is_ok, post};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::Wire;
use e2e::{Host, Reply, component, request};
use serde_json::{Value, json};

/// The endpoint `answer`, which answers what it is told to, with CORS for `https://a`.
fn answers(granted: &[&str]) -> Host {
    let grant = if granted.is_empty() { String::new() } else { format!("response_headers = {granted:?}") };
    let endpoints =
        [Endpoint::new("answer").guest("answer").set(grant), Endpoint::new("other").guest("answer")];
    Setup::of(endpoints).tables("[server]\ncors_allow_origin = 'https://a'").serve()
}

fn application(guest: &str, more: &[&str]) -> Host {
    let mut arguments = vec!["--name", "app"];
    arguments.extend(more);
    Host::with(Some(&component(guest)), None, &arguments)
}

/// What the endpoint finds by `name` in a head that is sent over HTTP/1.
fn found(host: &Host, name: &str, lines: &[u8]) -> Value {
    let body = json!({ "header": name }).to_string();
    let head = format!("POST /answer HTTP/1.1\r\nhost: here:8000\r\ncontent-length: {}\r\n", body.len());
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&[head.as_bytes(), lines, b"\r\n", body.as_bytes()].concat()).unwrap();
    wire.read().unwrap().json()["got"].clone()
}

/// The same over HTTP/2, `:authority` being `test`.
fn found_by_http2(host: &Host, name: &str, headers: &[(&str, &str)]) -> Value {
    let mut frames = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    frames.send(HEADERS, END_HEADERS, 1, &post("/answer", headers)).unwrap();
    frames.send(DATA, END_STREAM, 1, json!({ "header": name }).to_string().as_bytes()).unwrap();
    assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    let body = frames.receive_kind(DATA).unwrap().payload;
    serde_json::from_slice::<Value>(&body).unwrap()["got"].clone()
}

#[test]
fn lines_of_one_name_are_one_value() {
    let host = answers(&[]);
    let forwarded = b"x-forwarded-for: 6.6.6.6\r\nx-other: 1\r\nX-Forwarded-For: 10.0.0.1\r\n";
    assert_eq!(found(&host, "x-forwarded-for", forwarded), "6.6.6.6, 10.0.0.1");
    assert_eq!(found(&host, "X_Forwarded_For", forwarded), "6.6.6.6, 10.0.0.1");
    assert_eq!(found(&host, "cookie", b"cookie: a=1\r\ncookie: b=2\r\n"), "a=1; b=2");
    let cookies = [("cookie", "a=1"), ("x-a", "1"), ("cookie", "b=2"), ("x-a", "2"), ("cookie", "c=3")];
    assert_eq!(found_by_http2(&host, "cookie", &cookies), "a=1; b=2; c=3");
    assert_eq!(found_by_http2(&host, "x-a", &cookies), "1, 2");
}

#[test]
fn the_host_is_whom_the_request_is_for() {
    let host = answers(&[]);
    assert_eq!(found(&host, "host", b""), "here:8000");
    assert_eq!(found_by_http2(&host, "host", &[]), "test");
    assert_eq!(found_by_http2(&host, "host", &[("host", "other")]), "test");
    for name in [":scheme", ":SCHEME"] {
        let scheme = found(&host, name, b"x-forwarded-proto: https\r\n");
        assert_eq!(scheme, if name == ":scheme" { json!("http") } else { Value::Null });
    }
    assert_eq!(found_by_http2(&host, ":scheme", &[]), "http");
}

#[test]
fn bytes_that_are_no_ascii_are_characters_of_latin_1() {
    let host = answers(&[]);
    assert_eq!(found(&host, "x-name", b"x-name: Andr\xe9\r\n"), "Andr\u{e9}");
    assert_eq!(found(&host, "x-name", "x-name: é\r\n".as_bytes()), "\u{c3}\u{a9}");
    assert_eq!(found(&host, "x-name", b"x-name: a\r\nx-name: \xff\r\n"), "a, \u{ff}");
}

/// The same for applications on `wasi:http`, which get bytes as they are.
#[test]
fn applications_find_the_same_fields() {
    let host = application("tests/application", &[]);
    let mut frames = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
    let fields = [("cookie", "a=1"), ("x-a", "1"), ("cookie", "b=2"), ("x-a", "2")];
    frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &head("GET", "/app/echo", &fields)).unwrap();
    assert!(is_ok(&frames.receive_kind(HEADERS).unwrap()));
    let body = String::from_utf8(frames.receive_kind(DATA).unwrap().payload).unwrap();
    let seen: Value = serde_json::from_str(body.lines().next().unwrap()).unwrap();
    assert_eq!((&seen["authority"], &seen["scheme"]), (&json!("test"), &json!("http")));
    assert_eq!((&seen["headers"]["cookie"], &seen["headers"]["x-a"]), (&json!("a=1; b=2"), &json!("1, 2")));
}

#[test]
fn what_a_handler_says_of_origins_stands_beside_the_servers_word() {
    let granted = ["access-control-allow-origin", "access-control-expose-headers"];
    let host = answers(&granted);
    let say = |path: &str, headers: Value| -> Reply {
        host.post(path, json!({ "content_type": "text/plain", "headers": headers, "body": b"a" }).to_string())
    };
    let all = |reply: &Reply, name: &str| -> Vec<String> {
        let values = reply.headers.iter().filter(|(own, _)| own == name);
        values.map(|(_, value)| value.clone()).collect()
    };
    for (headers, vary, origin) in [
        (json!([]), &["origin"][..], "https://a"),
        (json!([["vary", "accept-language"]]), &["accept-language", "origin"], "https://a"),
        (json!([["vary", "Origin"], ["access-control-allow-origin", "https://b"]]), &["Origin"], "https://b"),
    ] {
        let reply = say("/answer", headers.clone());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(all(&reply, "vary"), vary, "{headers}");
        assert_eq!(all(&reply, "access-control-allow-origin"), [origin], "{headers}");
    }
    let forged = json!([["cache-status", "modelhost; hit"], ["age", "9"], ["x-own", "1"]]);
    let reply = say("/other", forged);
    assert_eq!(reply.header("x-own"), Some("1"));
    assert_eq!((reply.header("cache-status"), reply.header("age")), (None, None));
}

#[test]
fn an_answer_without_a_body_has_no_type() {
    let host = answers(&[]);
    for (status, expected) in [(204, None), (304, None), (200, Some("application/json"))] {
        let told = json!({ "status": status, "content_type": "application/json", "headers": [["x-a", "b"]], "body": [] });
        let told =
            if status == 200 { json!({ "content_type": "application/json", "body": b"1" }) } else { told };
        let reply = host.post("/answer", told.to_string());
        assert_eq!((reply.status, reply.header("content-type")), (status, expected));
    }
}

/// A body that cannot be read without a header is not sent without it; other headers that are left out are named.
#[test]
fn an_application_loses_no_header_in_silence() {
    for guest in ["tests/application", "tests/concurrent"] {
        let host = application(guest, &[]);
        let refused = host.get("/app/packed?gzip");
        let text = refused.error(500, "plugin_bad_output", "pre_inference");
        assert!(text.contains("`content-encoding`") && text.contains("`response_headers`"), "{text}");
        assert_eq!(host.get("/app/packed?identity").status, 200);
        let reply = host.get("/app/headers");
        assert_eq!((reply.status, reply.header("x-own"), reply.header("set-cookie")), (200, Some("1"), None));
        host.wait_for_log("header `set-cookie` is left out");

        let granted = ["--response-header", "content-encoding", "--response-header", "set-cookie"];
        let host = application(guest, &granted);
        assert_eq!(host.get("/app/packed?x-own").header("content-encoding"), Some("x-own"));
        assert_eq!(host.get("/app/headers").header("set-cookie"), Some("a=b"));
    }
}

#[test]
fn the_server_as_a_whole_says_what_it_takes() {
    for host in [answers(&[]), application("tests/application", &[])] {
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(b"OPTIONS * HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
        let reply = wire.read().unwrap();
        assert_eq!(reply.status, 204);
        assert!(reply.header("allow").is_some_and(|allow| allow.contains("POST")), "{:?}", reply.headers);
        assert!(reply.header("x-request-id").is_some());
        // The connection goes on.
        wire.send(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
        assert_eq!(wire.read().unwrap().status, 200);

        let mut frames = Http2::begin(Wire::connect(&host.url).unwrap()).unwrap();
        frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &head("OPTIONS", "*", &[])).unwrap();
        let answered = frames.receive_kind(HEADERS).unwrap();
        // 204 in the static table.
        assert_eq!((answered.stream, answered.payload.first()), (1, Some(&0x89)), "{answered:?}");
    }
}

#[test]
fn a_body_that_is_packed_in_another_way_is_told_what_is_taken() {
    let host = answers(&[]);
    let url = format!("{}/answer", host.url);
    let told = json!({ "content_type": "text/plain", "body": b"fine" }).to_string();
    let reply = request("POST", &url, &[("content-encoding", "compress")], told.as_bytes());
    reply.error(415, "unsupported_media_type", "admit");
    assert_eq!(reply.header("accept-encoding"), Some("gzip, deflate, br, zstd"));
    for (coding, body) in packed(&told) {
        let reply = request("POST", &url, &[("content-encoding", coding)], &body);
        assert_eq!((reply.status, reply.text().as_str()), (200, "fine"), "{coding}");
        let cut = request("POST", &url, &[("content-encoding", coding)], &body[..body.len() - 1]);
        cut.error(400, "invalid_input", "admit");
    }
}

/// A short text in the formats of RFC 8878 and RFC 7932, in which it is stored as it is.
fn packed(text: &str) -> [(&'static str, Vec<u8>); 2] {
    let length = u8::try_from(text.len()).unwrap();
    // One segment, its length, one last raw block.
    let block = (u32::from(length) << 3 | 1).to_le_bytes();
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, length][..], &block[..3], text.as_bytes()].concat();
    // A window of 16 bits; a block that is not the last, of four digits, stored; then a last one that is empty.
    let bits = u32::from(length - 1) << 4 | 1 << 20;
    let brotli = [&bits.to_le_bytes()[..3], text.as_bytes(), &[0x03]].concat();
    [("zstd", zstd), ("br", brotli)]
}
