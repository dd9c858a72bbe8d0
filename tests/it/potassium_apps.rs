//! Potassium's programs as applications: `@app.init`, `@app.handler`, `@app.background`, generators as streams. The
//! component is tests/guests-py/apps; what its public tests ask of a server is asked here, of any number of workers.

use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, wait_until};
use serde_json::{Value, json};

/// Serves Python, one start after another: the first one compiles an interpreter, which the others find.
pub fn in_turn(setup: &Setup) -> Host {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    setup.serve()
}

/// The app with so many workers.
fn app(workers: usize, more: &str) -> Host {
    let limits = format!("memory = '128MiB', concurrency = {workers}");
    let app = Endpoint::new("app").guest("apps_py").set("metadata = { style = 'potassium' }").set(more);
    in_turn(&Setup::of([app.limits(&limits)]))
}

fn call(host: &Host, path: &str, body: &Value) -> Reply {
    host.request("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
}

fn status(host: &Host) -> Value {
    host.get("/__status__").json()
}

/// Whether there is no call, and a place for one.
fn is_idle(host: &Host) -> bool {
    let status = status(host);
    status["gpu_available"] == true && status["inference_time"] == 0
}

#[test]
fn each_route_has_its_handler() {
    let host = app(1, "");
    let octets = "application/octet-stream";
    for (path, status, content_type, expected) in [
        // P1, P5: the context, the request's JSON, a status and a header of the handler's.
        ("/", 201, "application/json", r#"{"echo": [1, 2], "hello": "world", "id": "r1"}"#),
        ("/parent", 200, "application/json", r#"{"at": "parent"}"#),
        ("/parent/child", 200, "application/json", r#"{"at": "child"}"#),
        // P3: the context lives on.
        ("/count", 200, "application/json", r#"{"n": 1}"#),
        ("/count", 200, "application/json", r#"{"n": 2}"#),
        // P26
        ("/bytes", 200, octets, "hello"),
        ("/pieces", 200, octets, "helloworld"),
        // P18
        ("/collide", 200, "application/json", r#"["", "/", "count", "/count"]"#),
        // P7, P8, P9; ours: errors in JSON, and tracebacks in the log alone.
        (
            "/nope",
            404,
            "application/json",
            r#"{"error": "there is nothing at this path", "code": "not_found"}"#,
        ),
        (
            "/count/",
            404,
            "application/json",
            r#"{"error": "there is nothing at this path", "code": "not_found"}"#,
        ),
        ("/count", 200, "application/json", r#"{"n": 3}"#),
    ] {
        let reply = host.request("POST", path, &[("x-banana-request-id", "r1")], b"[1, 2]");
        let found = (reply.status, reply.header("content-type").unwrap_or_default(), reply.text());
        assert_eq!(found, (status, content_type, expected.to_owned()), "{path}");
        assert_eq!(reply.header("x-banana-request-id"), Some("r1"), "{path}");
    }
    // P25, P19
    let headers = [("A", "a"), ("B", "b"), ("X-Banana-Request-ID", "123"), ("x_custom-id", "1")];
    let reply = host.request("POST", "/headers", &headers, b"{}");
    assert_eq!(reply.json(), json!({"A": "a", "B": "b", "X-Custom-Id": "1", "none": null, "id": "123"}));
    assert_eq!((reply.header("a"), reply.header("x-banana-request-id")), (Some("a"), Some("123")));
    // P4
    for body in ["{bad", ""] {
        host.post("/", body).error(400, "invalid_input", "pre_inference");
    }
    // P6
    let reply = host.get("/count");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("OPTIONS, POST")));
    // P8, P9
    for (path, cause) in [("/boom", "kaput"), ("/notresp", "Potassium Response object not returned")] {
        let text = call(&host, path, &json!({})).error(500, "plugin_error", "pre_inference");
        assert!(!text.contains(cause), "{text}");
        host.wait_for_log(cause);
    }
    // P15
    for method in ["GET", "POST"] {
        assert_eq!(host.request(method, "/_k/warmup", &[], b"{}").json(), json!({"warm": true}));
    }
    let document = host.get("/openapi.json").json();
    let summary = &document["paths"]["/app/parent/child"]["post"]["operationId"];
    assert_eq!(summary, "app.post.parent.child");
}

/// P10, P11: a generator is sent as it yields, and one that fails breaks off.
#[test]
fn generators_are_streams() {
    let host = app(1, "");
    let begun = Instant::now();
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&wire::post("/stream", &[], "{}")).unwrap();
    let mut seen = Vec::new();
    for piece in ["0\n", "1\n", "2\n"] {
        while !String::from_utf8_lossy(wire.unread()).contains(&format!("\r\n{piece}")) {
            wire.receive().unwrap();
        }
        seen.push(begun.elapsed());
    }
    let gaps: Vec<Duration> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_millis(100)), "{seen:?}");
    let mut wire = Wire::connect(&host.url).unwrap();
    let begun = Instant::now();
    wire.send(b"POST /streamboom HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
        .unwrap();
    let response = String::from_utf8_lossy(&wire.until_closed()).into_owned();
    assert!(response.starts_with("HTTP/1.1 200") && !response.ends_with("0\r\n\r\n"), "{response}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    host.wait_for_log("kaput in the middle");
    wait_until("its place to be free", || is_idle(&host));
    assert_eq!(call(&host, "/count", &json!({})).json(), json!({"n": 1}));
}

/// P13, P14, P16, P17, and Potassium's own tests of its status: real counts, background work among them.
#[test]
fn work_in_the_background_is_a_call_that_lasts() {
    let host = app(1, "");
    let idle = status(&host);
    assert_eq!((&idle["sequence_number"], &idle["inference_time"]), (&json!(0), &json!(0)));
    let begun = Instant::now();
    let reply = call(&host, "/bg", &json!({"seconds": 1}));
    assert_eq!((reply.status, reply.json()), (200, json!({"started": true})));
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    let busy = status(&host);
    assert_eq!(
        (&busy["gpu_available"], &busy["sequence_number"], &busy["idle_time"]),
        (&json!(false), &json!(1), &json!(0))
    );
    wait_until("the work to grow older", || status(&host)["inference_time"].as_u64() > Some(50));
    // The next call waits for the only worker, and sees what was done.
    assert_eq!(call(&host, "/count", &json!({})).json(), json!({"n": 101}));
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    wait_until("nothing to do", || is_idle(&host));
    assert_eq!(call(&host, "/bgboom", &json!({})).json(), json!({"started": true}));
    host.wait_for_log("kaput in the background");
    wait_until("nothing to do again", || is_idle(&host));
    assert_eq!(call(&host, "/nope", &json!({})).status, 404);
    let idle = status(&host);
    assert_eq!((&idle["gpu_available"], &idle["sequence_number"]), (&json!(true), &json!(4)));
}

/// P12: as many calls at once as there are workers.
#[test]
fn calls_share_the_workers() {
    for workers in [1, 3] {
        let host = app(workers, "");
        let slow = json!({"seconds": 0.8});
        // Every worker has its instance.
        thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(|| call(&host, "/slow", &slow)))));
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(call(&host, "/slow", &slow).status, 200));
            }
        });
        let (least, most) = if workers == 1 { (2400, 20_000) } else { (800, 2350) };
        let took = begun.elapsed();
        let expected = Duration::from_millis(least)..Duration::from_millis(most);
        assert!(expected.contains(&took), "{workers} workers: {took:?}");
    }
}

/// P20: with nobody at the other end the handler goes on.
#[test]
fn a_webhook_that_is_refused_is_a_line_of_the_log() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", listener.local_addr().unwrap());
    let host = app(1, &format!("allow_outbound = ['{place}']"));
    let hook = || call(&host, "/hook", &json!({"url": format!("{place}/here")})).json();
    let answering = thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        let mut piece = [0; 4096];
        while !seen.ends_with(b"0\r\n\r\n") && !seen.ends_with(b"{\"output\": 1}") {
            let length = stream.read(&mut piece).unwrap();
            seen.extend_from_slice(&piece[..length]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
        String::from_utf8(seen).unwrap()
    });
    assert_eq!(hook(), json!({"is_sent": true}));
    let seen = answering.join().unwrap();
    assert!(seen.starts_with("POST /here HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("application/json") && seen.contains("{\"output\": 1}"), "{seen}");
    assert_eq!(hook(), json!({"is_sent": false}));
    host.wait_for_log("failed");
}
