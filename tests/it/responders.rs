//! Handlers that are whole applications, built with an SDK: `respond`.

use e2e::setup::{Endpoint, Setup};
use e2e::wire::Wire;
use e2e::{Host, component, request, wait_until};
use serde_json::{Value, json};

use super::applications::SOON_REACHED;

/// The application at `/app` under limits that are soon reached, beside a neighbour.
fn beside_a_neighbour() -> Host {
    let application = Endpoint::new("app")
        .guest("responder")
        .model("add")
        .set("metadata = { of = 'the configuration' }")
        .limits("body = '100KiB'")
        .limits(SOON_REACHED);
    Setup::of([application, Endpoint::new("neighbour").guest("echo")]).serve()
}

/// All bytes of a response, until the host closes the connection.
fn raw(host: &Host, path: &str) -> String {
    let mut wire = Wire::connect(&host.url).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    wire.send(head.as_bytes()).unwrap();
    String::from_utf8_lossy(&wire.until_closed()).into_owned()
}

fn assert_unharmed(neighbour: &Host) {
    assert_eq!(neighbour.post("/neighbour", "still here").json()["body"], "still here");
}

#[test]
fn routes_lead_to_functions_of_what_the_request_has() {
    let host = beside_a_neighbour();
    for (method, path, body, status, expected) in [
        ("GET", "/prepared", "", 200, "with {\"of\":\"the configuration\"}"),
        ("GET", "/items/7?a=1&b=x%20y", "", 200, r#"{"id":7,"query":[["a","1"],["b","x y"]]}"#),
        ("HEAD", "/items/7", "", 200, ""),
        ("DELETE", "/items/7", "", 204, ""),
        ("POST", "/add", r#"{"a": [1, 2], "b": [10, 20]}"#, 200, "[11.0,22.0]"),
        ("POST", "/echo", "hello", 200, "hello"),
        ("GET", "/context", "", 418, ""),
        ("GET", "/count/2", "", 200, "id: 0\ndata: 0\n\nid: 1\ndata: 1\n\n"),
    ] {
        let reply = request(method, &format!("{}/app{path}", host.url), &[], body.as_bytes());
        assert_eq!((reply.status, reply.text().as_str()), (status, expected), "{method} {path}");
        assert!(reply.header("x-handler-digest").is_some(), "{method} {path}");
    }
    let reply = host.request("GET", "/app/context", &[("x-mine", "seen")], b"");
    assert_eq!((reply.text().as_str(), reply.header("x-kind")), ("seen", Some("teapot")));
    host.post("/app/echo", vec![b'x'; 110 << 10]).error(413, "body_too_large", "admit");
    for (method, path, body, status, code, allow) in [
        ("GET", "/none", "", 404, "not_found", None),
        ("GET", "/", "", 404, "not_found", None),
        ("PUT", "/items/7", "", 405, "method_not_allowed", Some("GET, DELETE, HEAD")),
        ("GET", "/items/seven", "", 400, "invalid_input", None),
        ("POST", "/add", r#"{"a": [1, 2]}"#, 400, "invalid_input", None),
        ("GET", "/wrong/invalid", "", 400, "invalid_input", None),
        ("GET", "/wrong/internal", "", 500, "plugin_error", None),
    ] {
        let reply = request(method, &format!("{}/app{path}", host.url), &[], body.as_bytes());
        assert_eq!((reply.status, reply.json()["code"].as_str()), (status, Some(code)), "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}

/// An instance serves one request after another, and none that kept hold of an earlier one.
#[test]
fn an_instance_is_kept_unless_it_keeps_a_response() {
    let host =
        Host::with(Some(&component("tests/responder")), None, &["--name", "app", "--concurrency", "1"]);
    let served = || host.get("/app/served").text();
    assert_eq!([served(), served(), served()], ["1", "2", "3"]);
    assert_eq!(host.get("/app/wrong/keep").text(), "kept");
    assert_eq!(served(), "1", "the instance that kept its response is gone");
    host.get("/app/wrong/kept").error(500, "plugin_error", "pre_inference");
}

#[test]
fn a_response_that_its_contract_does_not_allow_is_none() {
    let host = beside_a_neighbour();
    for (how, code) in
        [("header", "plugin_error"), ("status", "plugin_error"), ("nothing", "plugin_bad_output")]
    {
        let reply = host.get(&format!("/app/wrong/{how}"));
        if how == "nothing" {
            // `()` is 204.
            assert_eq!(reply.status, 204);
            continue;
        }
        assert_eq!((reply.status, reply.json()["code"].as_str()), (500, Some(code)), "{how}");
    }
    for how in ["unfinished", "twice", "trap"] {
        let response = raw(&host, &format!("/app/wrong/{how}"));
        assert!(response.starts_with("HTTP/1.1 200"), "{how}: {response}");
        assert!(!response.ends_with("0\r\n\r\n"), "`{how}` must break off: {response}");
        assert_unharmed(&host);
    }
    host.wait_for_log("in the middle");
    assert_eq!(host.get("/app/wrong/never-begun").text(), "first");
}

#[test]
fn a_client_that_does_not_read_holds_the_handler_in_its_write_and_is_left_after_a_while() {
    let host = beside_a_neighbour();
    let whole = host.get("/app/bytes/50");
    assert_eq!(whole.body.len(), 5_000_000);
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"GET /app/bytes/100000 HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    let counted = "modelhost_requests_total{endpoint=\"app\",outcome=\"plugin_timeout\"} 1";
    wait_until("the stream that nothing is read of to end", || host.metrics().contains(counted));
    assert_unharmed(&host);
}

#[test]
fn work_after_the_response_is_done_within_its_time() {
    let host = beside_a_neighbour();
    let reply = host.post("/app/later", "100");
    assert_eq!(reply.json(), json!({"started": true}));
    host.wait_for_log("worked for 100 ms");
    let reply = host.post("/app/later", "60000");
    assert_eq!((reply.status, reply.json()["started"].clone()), (200, Value::Bool(true)));
    let counted = "modelhost_requests_total{endpoint=\"app\",outcome=\"plugin_timeout\"} 1";
    wait_until("the work to be ended", || host.metrics().contains(counted));
    assert!(!host.log().contains("worked for 60000 ms"));
}

/// A body is received before the request takes one of the endpoint's places for handlers.
#[test]
fn a_body_that_never_comes_takes_no_instance() {
    let host =
        Host::with(Some(&component("tests/responder")), None, &["--name", "app", "--concurrency", "1"]);
    let slow: Vec<Wire> = (0..20)
        .map(|_| {
            let mut wire = Wire::connect(&host.url).unwrap();
            wire.send(b"POST /app/echo HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nx").unwrap();
            wire
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(host.post("/app/echo", "quick").text(), "quick");
    }
    drop(slow);
}

/// Of two functions for one route, one would never be called.
#[test]
fn a_route_that_is_there_twice_refuses_the_application() {
    let plugin = component("tests/twice");
    let Err((_, log)) = Host::try_serve(&["--plugin", plugin.to_str().unwrap()]) else {
        panic!("it is served");
    };
    assert!(log.contains("`GET /items/{name}` is there twice") && log.contains("hint:"), "{log}");
}
