//! HTTP around the endpoints: paths, methods, headers, ids, limits, what is told of an endpoint.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, PATIENCE, component, model, request, wait_until};
use serde_json::{Value, json};

/// The iris model alone, as endpoint `iris`.
fn iris(more: &[&str]) -> Host {
    Host::with(None, Some(&model("iris_dyn")), &[&["--name", "iris"], more].concat())
}

const GOOD: &str = "[5.2,3.6,1.4,0.3]";

/// Sends `head` (lines without the last empty one) and `body` as they are, and gives the whole answer as text. `body`
/// may stay incomplete: the answer is not waited for in vain if the host needs no more.
fn raw(host: &Host, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = head.replace('\n', "\r\n");
    write!(stream, "{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    // A host that answers before it has read everything may reset the connection behind its answer.
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        answer.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_endpoint_describes_itself() {
    let host = iris(&[]);
    let iris_inputs = json!({ "input": { "shape": ["N", 4], "type": "float32" } });
    for path in ["/iris", "/", "/predict"] {
        let reply = host.get(path);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
        assert!(reply.header("x-request-id").is_some());
        let body = reply.json();
        assert_eq!(body["model_signature"], iris_inputs);
        let probabilities = json!({ "shape": ["N", 3], "type": "float32" });
        let label = json!({ "shape": ["N"], "type": "int64" });
        assert_eq!(body["model_outputs"], json!({ "label": label, "probabilities": probabilities }));
        assert!(body["message"].as_str().unwrap().contains("post request"), "{body}");
    }
    let signature = json!({ "signature": iris_inputs });
    assert_eq!(host.get("/iris/signature").json(), signature);
    let other = |name: &str| Host::with(None, Some(&model(name)), &[]);
    let fixed = json!({ "signature": { "input": { "shape": [1, 4], "type": "float32" } } });
    assert_eq!(other("iris_static").get("/iris_static/signature").json(), fixed);
    let text = json!({ "signature": { "s": { "shape": [1], "type": "string" } } });
    assert_eq!(other("strid").get("/strid/signature").json(), text);
    // Without a model there is nothing to tell, and that is no error.
    let echo = Host::with(Some(&component("tests/echo")), None, &[]);
    assert_eq!(echo.get("/echo").json()["model_signature"], json!({}));
}

#[test]
fn paths_and_methods_that_are_not_there() {
    let host = iris(&[]);
    for path in ["/nope", "/iris/", "/iris/x", "/predict/x", "//", "/IRIS", "/admin/v1/endpoints"] {
        for method in ["GET", "POST"] {
            let reply = host.request(method, path, &[], b"");
            let text = reply.error(404, "not_found", "admit");
            assert_eq!(text, format!("no endpoint at `{path}`"));
        }
    }
    for (method, path) in [
        ("DELETE", "/iris"),
        ("PUT", "/"),
        ("PATCH", "/predict"),
        ("POST", "/healthz"),
        ("POST", "/iris/signature"),
    ] {
        let reply = host.request(method, path, &[], b"");
        let text = reply.error(405, "method_not_allowed", "admit");
        assert_eq!(text, format!("`{path}` does not answer `{method}`"));
        let allow = reply.header("allow").unwrap_or_else(|| panic!("{method} {path}: no `allow`"));
        assert!(allow.contains("GET") && !allow.contains(method), "{method} {path}: allow: {allow}");
        assert_eq!(
            allow.contains("POST"),
            !path.contains("health") && !path.contains("signature"),
            "{allow}"
        );
    }
    // Query strings are the handler's, not part of the path.
    assert_eq!(host.post("/iris?a=b&c", GOOD).status, 200);
}

#[test]
fn several_endpoints_have_no_short_paths() {
    let endpoint = |name| Endpoint::new(name).model("add").set(format!("path = '/models/{name}'"));
    let host = Setup::of(["a", "b"].map(endpoint)).arguments(&["--log-level", "debug"]).serve();
    for path in ["/models/a", "/models/b"] {
        assert_eq!(host.post(path, r#"{"a":[1,2],"b":[3,4]}"#).text(), "[[4.0,6.0]]");
    }
    for path in ["/predict", "/a", "/models"] {
        host.post(path, "{}").error(404, "not_found", "admit");
    }
    // There is something: it says that the server is alive.
    host.post("/", "{}").error(405, "method_not_allowed", "admit");
    // Both name one file: it is loaded once.
    wait_until("the log of the start", || host.log().matches("endpoint is ready").count() == 2);
    assert_eq!(host.log().matches("model loaded").count(), 1, "{}", host.log());
}

#[test]
fn head_and_options() {
    let host = iris(&["--cors-allow-origin", "none"]);
    let reply = host.request("HEAD", "/iris", &[], b"");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    let reply = host.request("OPTIONS", "/iris", &[], b"");
    assert_eq!((reply.status, reply.header("allow")), (204, Some("GET, HEAD, OPTIONS, POST")));
    host.request("OPTIONS", "/healthz", &[], b"").error(405, "method_not_allowed", "admit");
    host.request("OPTIONS", "/nope", &[], b"").error(404, "not_found", "admit");
}

#[test]
fn browsers_are_let_in_as_configured() {
    let preflight = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "x-mine,content-type"),
    ];
    let allow_origin = |host: &Host, method: &str, path: &str, headers: &[(&str, &str)]| {
        let reply = host.request(method, path, headers, if method == "POST" { GOOD.as_bytes() } else { b"" });
        reply.header("access-control-allow-origin").map(str::to_owned)
    };
    let star = iris(&[]);
    for (method, path) in [("POST", "/iris"), ("POST", "/nope"), ("GET", "/iris"), ("DELETE", "/iris")] {
        assert_eq!(
            allow_origin(&star, method, path, &preflight[..1]).as_deref(),
            Some("*"),
            "{method} {path}"
        );
    }
    let reply = star.request("OPTIONS", "/iris", &preflight, b"");
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, Some("*")));
    assert!(reply.header("access-control-allow-methods").is_some_and(|methods| methods.contains("POST")));
    assert_eq!(reply.header("access-control-allow-headers"), Some("x-mine,content-type"));
    let exposed =
        star.post("/iris", GOOD).header("access-control-expose-headers").unwrap_or_default().to_owned();
    assert!(exposed.contains("x-request-id") && exposed.contains("x-handler-digest"), "{exposed}");

    let one = iris(&["--cors-allow-origin", "https://a.example"]);
    assert_eq!(allow_origin(&one, "POST", "/iris", &preflight[..1]).as_deref(), Some("https://a.example"));
    let none = iris(&["--cors-allow-origin", "none"]);
    for (method, path) in [("POST", "/iris"), ("OPTIONS", "/iris"), ("GET", "/nope")] {
        let reply =
            none.request(method, path, &preflight, if method == "POST" { GOOD.as_bytes() } else { b"" });
        let told = reply.headers.iter().find(|(name, _)| name.starts_with("access-control-"));
        assert_eq!(told, None, "{method} {path}");
    }
}

#[test]
fn a_body_over_the_limit_is_not_read() {
    let host = iris(&["--body", "1KiB"]);
    let padded = |length: usize| format!("{GOOD:<length$}");
    assert_eq!(host.post("/iris", padded(1024)).status, 200);
    let expected = "the body is longer than 1024 bytes";
    assert_eq!(host.post("/iris", padded(1025)).error(413, "body_too_large", "admit"), expected);
    // Refused by its announcement; nothing of it was ever sent.
    let answer = raw(&host, "POST /iris HTTP/1.1\ncontent-length: 1000000000000", "");
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains(expected), "{answer}");
    // Announced as nothing, refused as soon as it is too long; its end never comes.
    let chunk = format!("400\r\n{}\r\n", padded(1024));
    let answer = raw(&host, "POST /iris HTTP/1.1\ntransfer-encoding: chunked", &chunk.repeat(2));
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains(expected), "{answer}");
    let answer = raw(&host, "POST /iris HTTP/1.1\ntransfer-encoding: chunked", &format!("{chunk}0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(host.metric(r#"modelhost_requests_total{endpoint="iris",outcome="body_too_large"}"#), 3.0);
    assert_eq!(host.metric(r#"modelhost_requests_in_flight{endpoint="iris"}"#), 0.0);
}

/// A client that sends all of its body before it reads gets its answer nevertheless, not a reset.
#[test]
fn the_answer_reaches_a_client_that_still_sends_its_body() {
    let host = iris(&["--body", "1KiB"]);
    let body = vec![b' '; 8 << 20];
    for _ in 0..10 {
        for (method, path, status) in [
            ("POST", "/iris", 413),
            ("POST", "/nope", 404),
            ("PUT", "/iris", 405),
            ("POST", "/v2/models/no/infer", 404),
        ] {
            assert_eq!(host.request(method, path, &[], &body).status, status, "{method} {path}");
        }
    }
    assert_eq!(host.post("/iris", GOOD).status, 200);
}

#[test]
fn a_request_is_known_by_its_id() {
    let host = Host::with(Some(&component("tests/values")), None, &["--log-level", "debug"]);
    let id_of = |headers: &[(&str, &str)], body: &str| {
        let reply = host.request("POST", "/", headers, body.as_bytes());
        reply.header("x-request-id").expect("every answer has an id").to_owned()
    };
    let longest = "x".repeat(128);
    for (headers, expected) in [
        (vec![("x-request-id", "r-1")], "r-1"),
        (vec![("x-banana-request-id", "b/1:2")], "b/1:2"),
        (vec![("x-banana-request-id", "b-2"), ("X-Request-ID", "r-2")], "r-2"),
        (vec![("x-request-id", longest.as_str())], longest.as_str()),
    ] {
        assert_eq!(id_of(&headers, "int"), expected);
        assert_eq!(id_of(&headers, "error"), expected);
    }
    let is_uuid = |id: &str| id.len() == 36 && id.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let too_long = "x".repeat(129);
    for given in [None, Some(""), Some(too_long.as_str())] {
        let headers: Vec<_> = given.map(|id| ("x-request-id", id)).into_iter().collect();
        let (one, other) = (id_of(&headers, "int"), id_of(&headers, "error"));
        assert!(is_uuid(&one) && is_uuid(&other) && one != other, "{given:?}: {one}, {other}");
    }
    // What could spoil a line of the log.
    for bad in ["a\tb", "\u{e9}"] {
        let answer = raw(&host, &format!("POST / HTTP/1.1\ncontent-length: 3\nx-request-id: {bad}"), "int");
        let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: ")).expect(&answer);
        assert!(is_uuid(id), "{bad:?} became `{id}`");
    }
    // In the body of every error, and in the log: of the host's own lines and of the handler's failures.
    for (method, path, body) in
        [("POST", "/nope", ""), ("DELETE", "/", ""), ("POST", "/", "invalid"), ("POST", "/", "error")]
    {
        let id = format!("log-{}", body.len() + path.len() + method.len());
        let reply = host.request(method, path, &[("x-request-id", &id)], body.as_bytes());
        assert_eq!(reply.json()["request_id"], json!(id));
        host.wait_for_log(&id);
    }
}

#[test]
fn every_answer_carries_the_requests_id() {
    let host = iris(&[]);
    let id = [("x-request-id", "r-3")];
    for (method, url) in [
        ("GET", format!("{}/healthz", host.url)),
        ("GET", format!("{}/metrics", host.url)),
        ("GET", format!("{}/iris", host.url)),
        ("OPTIONS", format!("{}/iris", host.url)),
        ("GET", format!("{}/nope", host.url)),
        ("GET", format!("{}/admin/v1/endpoints", host.admin)),
    ] {
        let answered = |headers: &[(&str, &str)]| {
            let reply = request(method, &url, headers, b"");
            reply.header("x-request-id").map(str::to_owned)
        };
        assert_eq!(answered(&id).as_deref(), Some("r-3"), "{method} {url}");
        assert!(answered(&[]).is_some_and(|id| id.len() == 36), "{method} {url}");
    }
}

#[test]
fn a_body_may_come_in_any_pieces() {
    let host = Host::with(Some(&component("tests/echo")), None, &["--path", "/:a/b@c"]);
    let body: String = (0..20_000).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
    let chunks: String = body.chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
    let head = "POST /:a/b@c HTTP/1.1\ntransfer-encoding: chunked";
    let answer = raw(&host, head, &format!("{chunks}0\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(&body), "{answer:.500}");
    // Nonsense is the client's mistake, told and counted as such.
    let answer = raw(&host, head, "nonsense\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("invalid_input"), "{answer}");
}

#[test]
fn an_answer_names_the_handler_that_gave_it() {
    let plugin = component("tests/values");
    let host = Host::with(Some(&plugin), None, &[]);
    let digest = host.endpoints()[0]["digest"].as_str().unwrap().to_owned();
    let sum = std::process::Command::new("sha256sum").arg(&plugin).output().unwrap().stdout;
    assert!(String::from_utf8(sum).unwrap().starts_with(&digest), "{digest}");
    for body in ["int", "error", "invalid"] {
        assert_eq!(host.post("/", body).header("x-handler-digest"), Some(digest.as_str()), "{body}");
    }
    assert_eq!(iris(&[]).post("/", GOOD).header("x-handler-digest"), None);
}

#[test]
fn health_is_told_on_both_listeners_metrics_where_wanted() {
    let host = iris(&["--no-metrics-on-main"]);
    for base in [&host.url, &host.admin] {
        for path in ["/healthz", "/v2/health/live"] {
            let reply = request("GET", &format!("{base}{path}"), &[], b"");
            assert_eq!((reply.status, reply.json()), (200, json!({ "ok": true })), "{path}");
        }
        let reply = request("GET", &format!("{base}/v2/health/ready"), &[], b"");
        assert_eq!((reply.status, reply.json()), (200, json!({ "ready": true })));
    }
    host.get("/metrics").error(404, "not_found", "admit");
    assert_eq!(request("GET", &format!("{}/metrics", host.admin), &[], b"").status, 200);
    assert_eq!(iris(&[]).get("/metrics").status, 200);
    // The admin listener speaks the same language, and no endpoint answers there.
    request("POST", &format!("{}/iris", host.admin), &[], b"").error(404, "not_found", "admit");
    let reply = request("POST", &format!("{}/admin/v1/endpoints", host.admin), &[], b"");
    reply.error(405, "method_not_allowed", "admit");
    assert!(reply.header("allow").is_some_and(|allow| allow.contains("GET")));
}

#[test]
fn debug_true_logs_what_every_stage_made() {
    let plugin = component("iris-wasm");
    let host =
        Host::with(Some(&plugin), Some(&model("iris_static")), &["--log-format", "json", "--name", "iris"]);
    let sample = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
    let plain = host.post("/iris", sample);
    let reply = host.request("POST", "/iris?a=1&debug=true", &[("x-request-id", "c21")], sample.as_bytes());
    assert_eq!((reply.status, &reply.body), (200, &plain.body), "the same response");
    let lines = |id: &str| -> Vec<Value> {
        let log = host.log();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        lines.filter(|line| line["request.id"] == id).collect()
    };
    wait_until("four lines of the log", || lines("c21").len() >= 4);
    let expected = [
        ("sample: ", "\"sepal_length\":5.2"),
        ("pre_inference: ", "input FP32 [1, 4] = [[5.2,3.6,1.4,0.3]]"),
        ("inference: ", "probabilities FP32 [1, 3] = [[0.98"),
        ("post_inference: ", "\"class_label\":\"iris-setosa\""),
    ];
    for (line, (stage, text)) in lines("c21").iter().zip(expected) {
        assert_eq!((&line["level"], &line["endpoint"]), (&json!("INFO"), &json!("iris")));
        let message = line["message"].as_str().unwrap();
        assert!(message.starts_with(stage) && message.contains(text), "{stage}`{text}` in `{message}`");
    }
    // Nothing of it for a client that did not ask.
    assert_eq!(lines(plain.header("x-request-id").unwrap()), [] as [Value; 0]);

    // Long lists and texts are cut.
    let echo = Host::with(Some(&component("tests/echo")), None, &[]);
    let long = "y".repeat(600);
    echo.post("/?debug=true", &long);
    echo.wait_for_log("post_inference: ");
    let log = echo.log();
    assert!(log.contains("UINT8 [600] = [121,121,121,121,121,121,121,121,121,121, … 590 more]"), "{log}");
    let (text, list) = (&long[..400], "121,".repeat(11));
    assert!(log.contains(text) && !log.contains(&long) && !log.contains(&list), "{log}");
}

#[test]
fn errors_name_no_path_of_the_host() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "x").unwrap();
    let project = folder.path().to_str().unwrap();
    let host = Host::with(Some(&component("tests/trap")), Some(&model("add")), &["--project", project]);
    let root = e2e::root().canonicalize().unwrap();
    let secrets = [project, root.to_str().unwrap(), "/src/", ".rs:", ".onnx", ".wasm", "0x"];
    for body in ["unreachable", "panic", "recurse", "exit", "fits no model"] {
        let text = host.post("/", body).text();
        for secret in secrets {
            assert!(!text.contains(secret), "`{secret}` in {text}");
        }
    }
}
