//! Handlers that are whole applications: `wasi:http/incoming-handler`.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use e2e::load::{Pattern, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::Wire;
use e2e::{Host, component, replace, request, wait_until};
use serde_json::Value;

fn serve(more: &[&str]) -> Host {
    Host::with(Some(&component("tests/application")), None, more)
}

/// The application at `/app` under limits that are soon reached, beside a neighbour.
fn beside_a_neighbour() -> Host {
    let application = Endpoint::new("app").guest("application").limits("body = '1MiB'").limits(SOON_REACHED);
    Setup::of([application, Endpoint::new("neighbour").guest("echo")]).serve()
}

/// Times of an application that a test can wait for.
pub(crate) const SOON_REACHED: &str = "pre_timeout = '200ms', stream_timeout = '500ms', \
                                       background_timeout = '500ms', request_timeout = '2s'";

/// All bytes of a response, until the host closes the connection.
fn raw(host: &Host, method: &str, path: &str) -> String {
    let mut wire = Wire::connect(&host.url).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    wire.send(head.as_bytes()).unwrap();
    String::from_utf8_lossy(&wire.until_closed()).into_owned()
}

/// Requests to the application that ended in this way.
fn count(host: &Host, outcome: &str) -> u64 {
    let series = format!("modelhost_requests_total{{endpoint=\"app\",outcome=\"{outcome}\"}} ");
    let metrics = host.metrics();
    metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or_default()
}

/// Whether a chunked response has come to its end.
fn is_whole(response: &str) -> bool {
    response.ends_with("0\r\n\r\n")
}

/// What a browser asks before a page's request is the server's to answer, also where a key is wanted, but for an application that is
/// granted the headers of the answer.
#[test]
fn a_browsers_preflight_is_answered_in_an_applications_place() {
    let application = |name: &str| Endpoint::new(name).guest("application");
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "a-key-of-the-tests").unwrap();
    let locked = application("locked").set(format!("keys = ['@{}']", key.path().display()));
    let own = application("own").set("response_headers = ['access-control-allow-headers']");
    let host = Setup::of([application("open"), locked, own]).serve();
    let asks = [
        ("origin", "https://page.example"),
        ("access-control-request-method", "DELETE"),
        ("access-control-request-headers", "content-type,authorization"),
    ];
    for path in ["/open/echo", "/locked", "/locked/none"] {
        let reply = host.request("OPTIONS", path, &asks, b"");
        let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
        assert_eq!((reply.status, header("access-control-allow-origin").as_str()), (204, "*"), "{path}");
        assert!(header("access-control-allow-methods").contains("DELETE"), "{path}");
        assert_eq!(header("access-control-allow-headers"), "content-type,authorization", "{path}");
        assert!(!header("x-request-id").is_empty(), "{path}");
    }
    // Any other `OPTIONS` is the application's, and so is this one's.
    assert_eq!(host.request("OPTIONS", "/open/echo", &asks[..1], b"").status, 200);
    assert_eq!(host.request("OPTIONS", "/own/echo", &asks, b"").status, 200);
}

#[test]
fn an_application_gets_every_method_and_path_below_its_own() {
    let host = serve(&["--path", "/deep/app"]);
    for (method, path, seen, prefix) in [
        ("GET", "/deep/app", "/", Some("/deep/app")),
        ("GET", "/deep/app/echo?a=b%20c", "/echo?a=b%20c", Some("/deep/app")),
        ("PUT", "/deep/app/echo", "/echo", Some("/deep/app")),
        ("DELETE", "/deep/app/echo", "/echo", Some("/deep/app")),
        ("PATCH", "/deep/app/echo", "/echo", Some("/deep/app")),
        // The only endpoint is at the root too.
        ("OPTIONS", "/echo", "/echo", None),
        ("POST", "/echo?x", "/echo?x", None),
    ] {
        let reply = request(method, &format!("{}{path}", host.url), &[("x-mine", "1")], b"");
        if seen == "/" {
            assert_eq!((reply.status, reply.text().as_str()), (404, "no such path"), "{method} {path}");
            continue;
        }
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
        let seen_head: Value = serde_json::from_str(reply.text().lines().next().unwrap()).unwrap();
        assert_eq!(seen_head["path"], seen, "{method} {path}");
        assert_eq!(seen_head["headers"]["x-mine"], "1", "{method} {path}");
        assert_eq!(seen_head["headers"]["x-request-id"], reply.header("x-request-id").unwrap());
        assert_eq!(seen_head["headers"]["x-forwarded-prefix"].as_str(), prefix, "{method} {path}");
        assert!(reply.header("x-handler-digest").is_some());
    }
    // What begins alike is not below it, and the server's own paths come first.
    assert_eq!(host.get("/deep/application").text(), "no such path");
    assert_eq!(host.get("/healthz").json()["ok"], true);
}

/// As the toolchains of other languages make them, for any host: unchanged, under the default limits.
#[test]
fn applications_of_other_languages_are_served() {
    for (name, memory) in [("application_py", "128MiB"), ("application_js", "64MiB")] {
        let plugin = component(&format!("tests/{name}"));
        let host = Host::with(Some(&plugin), None, &["--name", "app", "--instance-memory", memory]);
        // More than one: an instance that has served is not asked again.
        for n in 0..3 {
            let reply = host.get(&format!("/app/some/path?n={n}"));
            assert_eq!(reply.status, 200, "{name}: {}", reply.text());
            assert_eq!(reply.json()["path"], format!("/some/path?n={n}"), "{name}");
        }
        let reply = host.get("/app/fail");
        assert_eq!(reply.status, 500, "{name}: {}", reply.text());
        host.wait_for_log("as asked");
    }
    let host = Host::with(Some(&component("tests/application_js")), None, &[]);
    let reply = host.get("/stream");
    assert_eq!(reply.text(), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    assert_eq!(host.post("/echo", "hello").json()["body"], "hello");
}

/// Paths of the server are an application's where the operator says so; those of health never.
#[test]
fn an_application_is_given_paths_of_the_server() {
    let host = serve(&["--paths", "/v1/chat/completions", "--name", "app"]);
    for (path, seen) in [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/echo", "/v1/chat/completions/echo"),
        ("/app/v1", "/v1"),
    ] {
        let reply = request("POST", &format!("{}{path}", host.url), &[], b"");
        assert_eq!((reply.status, reply.text().as_str()), (404, "no such path"), "{path} as {seen}");
    }
    assert_ne!(host.get("/v1/models").text(), "no such path");
    for path in ["/healthz", "/v2/health/ready", "metrics"] {
        let plugin = component("tests/application");
        let output = e2e::host(&["serve", "--plugin", plugin.to_str().unwrap(), "--paths", path]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains("hint:"), "{path}: {text}");
    }
}

#[test]
fn bodies_stream_in_both_directions() {
    let host = serve(&["--body", "1GiB"]);
    // More than the handler's memory, without a length: only what streams passes through.
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"POST /count HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..200 {
        let mut chunk = Vec::with_capacity(piece.len() + 16);
        write!(chunk, "{:x}\r\n", piece.len()).unwrap();
        chunk.extend_from_slice(&piece);
        chunk.extend_from_slice(b"\r\n");
        wire.send(&chunk).unwrap();
    }
    wire.send(b"0\r\n\r\n").unwrap();
    let reply = wire.read().unwrap();
    assert_eq!((reply.status, reply.text()), (200, (200 << 20).to_string()));
    let reply = host.get("/flood?pieces=3200");
    assert_eq!((reply.status, reply.body.len()), (200, 3200 * (64 << 10)));
    assert!(host.memory("VmHWM") < 600 << 20, "the host holds no body whole: {}", host.memory("VmHWM"));
    // Both at the same time, and what follows the body.
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"POST /echo HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\nte: trailers\r\n\r\n")
        .unwrap();
    for text in ["one", "two"] {
        wire.send(format!("3\r\n{text}\r\n").as_bytes()).unwrap();
        while !String::from_utf8_lossy(wire.unread()).contains(text) {
            wire.receive().unwrap();
        }
    }
}

#[test]
fn events_leave_as_they_are_made() {
    let host = serve(&[]);
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"GET /stream?events=3&pause_ms=400 HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    let mut seen = Vec::new();
    for event in ["data: 0", "data: 1", "data: 2", "\r\n0\r\n\r\n"] {
        while !String::from_utf8_lossy(wire.unread()).contains(event) {
            wire.receive().unwrap();
        }
        seen.push(Instant::now());
    }
    let gaps: Vec<Duration> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap > Duration::from_millis(100)), "{gaps:?}");
}

/// A stream that is cut must not look whole, and the client gets what came before.
#[test]
fn a_stream_that_fails_breaks_off_and_is_counted() {
    let host = beside_a_neighbour();
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for (path, begin, code) in [
        ("/app/trap-in-body", "data: 1", "plugin_trap"),
        ("/app/drop-body", "half", "plugin_bad_output"),
        ("/app/leave-body", "half", "plugin_bad_output"),
        ("/app/spin-in-body", "half", "plugin_timeout"),
        ("/app/wait-in-body?ms=60000", "half", "plugin_timeout"),
    ] {
        let before = count(&host, code);
        let response = raw(&host, "GET", path);
        assert!(response.starts_with("HTTP/1.1 200 ") && response.contains(begin), "{path}: {response}");
        assert!(!is_whole(&response), "{path}: {response}");
        let is_events = response.contains("text/event-stream");
        assert_eq!(response.contains("event: error"), is_events, "{path}: {response}");
        if path != "/app/drop-body" {
            wait_until(&format!("{path} to be counted"), || count(&host, code) > before);
        }
    }
    // The neighbour of one that does not fail.
    assert!(is_whole(&raw(&host, "GET", "/app/stream")));
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}

#[test]
fn an_application_that_fails_before_its_response_is_an_error_of_its_own() {
    let host = beside_a_neighbour();
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for (path, status, code, says) in [
        ("/app/trap", 500, "plugin_trap", "unreachable"),
        ("/app/no-response", 500, "plugin_bad_output", "without a response"),
        ("/app/refuse", 500, "plugin_error", "the handler failed"),
        ("/app/spin", 504, "plugin_timeout", "200ms"),
        ("/app/wait?ms=60000", 504, "request_timeout", "longer than it may"),
        ("/app/fields?count=100000", 500, "plugin_trap", "more than 4096 files"),
    ] {
        let reply = host.get(path);
        let text = reply.error(status, code, "pre_inference");
        assert!(text.contains(says), "{path}: {text}");
    }
    let long = vec![b'a'; (1 << 20) + 1];
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"POST /app/count HTTP/1.1\r\nhost: here\r\ncontent-length: 1048577\r\n\r\n").unwrap();
    wire.read().unwrap().error(413, "body_too_large", "admit");
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"POST /app/count HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let sent = (0..17).all(|_| {
        let chunk = [b"10000\r\n".as_slice(), &long[..65536], b"\r\n"].concat();
        wire.send(&chunk).is_ok()
    });
    assert!(sent);
    wire.read().unwrap().error(413, "body_too_large", "admit");
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}

/// Nothing is granted, so nothing goes out; other protocols do not reach the model past the application.
#[test]
fn an_application_is_reached_and_reaches_by_http_alone() {
    let host = Host::with(
        Some(&component("tests/application")),
        Some(&e2e::model("iris_static")),
        &["--name", "app"],
    );
    let reply = host.get(&format!("/app/fetch?{}/healthz", host.url));
    assert_eq!((reply.status, reply.text().as_str()), (502, "ErrorCode::HttpRequestDenied"));
    let input = e2e::oip::input("input", "FP32", &[1, 4], serde_json::json!([5.1, 3.5, 1.4, 0.2]));
    let reply = e2e::oip::infer(&host, "app", &serde_json::json!({"inputs": [input]}));
    assert_eq!(reply.status, 404, "{}", reply.text());
    // Headers that are others' to set are left out.
    let reply = host.get("/app/headers?status=418");
    assert_eq!((reply.status, reply.header("x-own"), reply.header("set-cookie")), (418, Some("1"), None));
    assert_ne!(reply.header("x-handler-digest"), Some("forged"));
    let granted = serve(&["--response-header", "set-cookie"]);
    assert_eq!(granted.get("/headers").header("set-cookie"), Some("a=b"));
}

#[test]
fn work_after_the_response_is_done_within_its_time() {
    let host = beside_a_neighbour();
    assert_eq!(host.get("/app/after?ms=50").text(), "begun");
    host.wait_for_log("the work after the response is done");
    let before = count(&host, "plugin_timeout");
    assert_eq!(host.get("/app/after?ms=60000").text(), "begun");
    wait_until("the work to be cut", || count(&host, "plugin_timeout") > before);
}

#[test]
fn a_handler_sees_that_its_client_is_gone() {
    let host = beside_a_neighbour();
    let in_flight = || host.metric("modelhost_requests_in_flight{endpoint=\"app\"}");
    for path in ["/app/stream?events=1000000&pause_ms=1", "/app/flood?pieces=1000000"] {
        let said = host.log().matches("the client is gone").count();
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").as_bytes()).unwrap();
        wire.receive().unwrap();
        drop(wire);
        wait_until(&format!("{path} to see it"), || host.log().matches("the client is gone").count() > said);
        wait_until(&format!("the place of {path} to be free"), || in_flight() == 0.0);
    }
    // One that waits for something else has its grace, and no more.
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"GET /app/wait?ms=1900 HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    wait_until("the request to be in flight", || in_flight() == 1.0);
    let before = count(&host, "cancelled");
    drop(wire);
    wait_until("it to be cancelled", || count(&host, "cancelled") > before);
    assert_eq!(in_flight(), 0.0);
}

/// A thousand streams live through swaps, each to its end on the version that it began on.
#[test]
fn swaps_lose_no_stream() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.wasm");
    std::fs::copy(component("tests/application"), &file).unwrap();
    let host = Host::with(Some(&file), None, &["--concurrency", "200"]);
    let streams: Vec<_> = (0..100)
        .map(|_| {
            let url = format!("{}/app/stream?events=20&pause_ms=50", host.url);
            thread::spawn(move || request("GET", &url, &[], b""))
        })
        .collect();
    wait_until("all streams to be open", || {
        host.metric("modelhost_requests_in_flight{endpoint=\"app\"}") >= 100.0
    });
    let digest = || host.get("/app/nope").header("x-handler-digest").map(str::to_owned);
    let first = digest();
    let mut changed = std::fs::read(&file).unwrap();
    // A custom section at the end makes another component of it.
    changed.extend_from_slice(&[0, 5, 4, b'n', b'o', b't', b'e']);
    replace(&file, &changed);
    wait_until("the new version", || digest() != first);
    for stream in streams {
        let reply = stream.join().unwrap();
        assert_eq!(reply.header("x-handler-digest").map(str::to_owned), first);
        assert_eq!(reply.text().matches("data: ").count(), 20, "{}", reply.text());
    }
    // A handler of another kind would change the endpoint's paths.
    replace(&file, &std::fs::read(component("tests/echo")).unwrap());
    host.wait_for_log("is served by an application");
}

/// axum on wstd, as its authors write it, with the endpoint's models in its functions.
#[test]
fn axum_calls_the_endpoints_models() {
    let host = Host::with(Some(&component("tests/axum")), Some(&e2e::model("add")), &["--name", "app"]);
    let body = r#"{"a": [1, 2], "b": [10, 20]}"#;
    let json = [("content-type", "application/json")];
    for (method, path, status, expected) in [
        ("GET", "/app/names", 200, r#"["default"]"#),
        ("POST", "/app/add", 200, "[11.0,22.0]"),
        ("POST", "/app/together", 200, "[88.0,176.0]"),
        ("GET", "/app/add", 405, ""),
        ("GET", "/app/none", 404, ""),
    ] {
        let reply = host.request(method, path, &json, body.as_bytes());
        assert_eq!((reply.status, reply.text().as_str()), (status, expected), "{method} {path}");
    }
}
