//! Bodies and answers of every kind: what a handler reads by its content type, and what it may answer with.

use e2e::{Host, Reply, component};
use serde_json::json;

fn host() -> Host {
    Host::with(Some(&component("tests/content_types")), None, &["--name", "echo"])
}

fn send(host: &Host, content_type: &str, body: &[u8]) -> Reply {
    let headers: Vec<_> =
        Some(("content-type", content_type)).filter(|(_, value)| !value.is_empty()).into_iter().collect();
    host.request("POST", "/echo", &headers, body)
}

// C26
#[test]
fn a_body_is_read_by_its_type() {
    let host = host();
    assert_eq!(send(&host, "application/json", b"[1]").json(), json!({ "json": [1] }));
    let reply = send(&host, "application/x-www-form-urlencoded", b"a=1&b=h%C3%A9+%26&a=");
    assert_eq!(reply.json(), json!({ "form": [["a", "1"], ["b", "hé &"], ["a", ""]] }));
    let body = b"--XX\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nhello\r\n--XX\r\nContent-Disposition: \
        form-data; name=\"file\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\xff\r\n\r\n--XX--\r\n";
    let reply = send(&host, "multipart/form-data; boundary=XX", body);
    let title = json!({
        "name": "title", "filename": null, "content_type": "text/plain", "bytes": b"hello",
    });
    let file = json!({
        "name": "file", "filename": "a.bin", "content_type": "application/octet-stream", "bytes": [0, 255, 13, 10],
    });
    assert_eq!(reply.json(), json!({ "parts": [title, file] }));
    for (content_type, body, expected) in [
        ("text/plain", &b"h\xc3\xa9"[..], "hé"),
        ("text/plain; charset=latin-1", b"\xe9", "é"),
        ("text/plain; charset=us-ascii", b"hello", "hello"),
    ] {
        assert_eq!(send(&host, content_type, body).text(), expected, "{content_type}");
    }
    for content_type in ["application/octet-stream", "image/png", ""] {
        let reply = send(&host, content_type, b"\x00\xff\xfe");
        let found = (reply.header("content-type"), reply.body.as_slice());
        assert_eq!(found, (Some("application/octet-stream"), &b"\x00\xff\xfe"[..]), "{content_type}");
    }
}

#[test]
fn a_body_that_is_not_what_it_says_is_refused() {
    let host = host();
    for (content_type, body, expected) in [
        ("application/json", &b"{bad"[..], "malformed json: key must be a string at line 1 column 2"),
        ("text/plain", b"\xe9", "incomplete utf-8 byte sequence from index 0"),
        ("text/plain; charset=ascii", b"\xe9", "invalid us-ascii: byte 0 is not within 0 to 127"),
        (
            "text/plain; charset=klingon",
            b"x",
            "unknown charset `klingon`, expected utf-8, us-ascii or iso-8859-1",
        ),
        ("multipart/form-data", b"", "malformed multipart: the content type has no boundary"),
        (
            "multipart/form-data; boundary=XX",
            b"--XX\r\n",
            "malformed multipart: the last boundary is missing",
        ),
    ] {
        let text = send(&host, content_type, body).error(400, "invalid_input", "pre_inference");
        assert_eq!(text, expected, "{content_type}");
    }
    // As many parts as no form has cost their sender a 400, and nobody else anything.
    let part = b"--XX\r\ncontent-disposition: form-data; name=a\r\n\r\n\r\n";
    let flood = [part.repeat(20_000), b"--XX--".to_vec()].concat();
    let text =
        send(&host, "multipart/form-data; boundary=XX", &flood).error(400, "invalid_input", "pre_inference");
    assert_eq!(text, "more than 1000 parts");
    let fields = send(&host, "application/x-www-form-urlencoded", "a&".repeat(1_000_000).as_bytes());
    assert_eq!(fields.error(400, "invalid_input", "pre_inference"), "more than 1000 fields");
    assert_eq!(send(&host, "text/plain", b"next").text(), "next");
}

// C27
#[test]
fn an_answer_is_what_the_handler_says() {
    let host = Host::with(Some(&component("tests/values")), None, &[]);
    for (body, status, content_type, expected) in [
        ("text", 200, Some("text/plain; charset=utf-8"), &b"plain, unquoted"[..]),
        ("bytes", 200, Some("application/octet-stream"), &[0, 159, 146, 150]),
        ("respond", 418, Some("text/plain; charset=utf-8"), b"teapot"),
    ] {
        let reply = host.post("/", body);
        assert_eq!(
            (reply.status, reply.header("content-type"), reply.body.as_slice()),
            (status, content_type, expected)
        );
    }
    let reply = host.post("/", "accepted");
    assert_eq!((reply.status, reply.header("location")), (202, Some("/jobs/7")));
    assert_eq!(host.post("/", "error").error(500, "plugin_error", "post_inference"), "the handler failed");
}
