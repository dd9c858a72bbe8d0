//! Applications on `wasi:http` 0.3, `wasi:http/handler`: what those on 0.2 have, and what is theirs alone.

use std::time::{Duration, Instant};

use e2e::load::{Pattern, assert_echoed};
use e2e::recorded::{Recorded, replay};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::Wire;
use e2e::{Host, component, replace, request, wait_until};
use serde_json::Value;

use crate::applications::SOON_REACHED;
use crate::outbound::Server;

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

fn serve(more: &[&str]) -> Host {
    Host::with(Some(&component("tests/concurrent")), None, &[&["--name", "app"], more].concat())
}

fn beside_a_neighbour() -> Host {
    let application = Endpoint::new("app").guest("concurrent").limits("body = '1MiB'").limits(SOON_REACHED);
    Setup::of([application, Endpoint::new("neighbour").guest("echo")]).serve()
}

/// Requests to the application that ended in this way.
fn count(host: &Host, outcome: &str) -> f64 {
    let series = format!("modelhost_requests_total{{endpoint=\"app\",outcome=\"{outcome}\"}}");
    let is_there = host.metrics().lines().any(|line| line.starts_with(&series));
    if is_there { host.metric(&series) } else { 0.0 }
}

/// A connection on which this much was sent.
fn sent(host: &Host, text: &str) -> Wire {
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(text.as_bytes()).unwrap();
    wire
}

/// Reads until this has come.
fn receive(wire: &mut Wire, text: &str) {
    while !String::from_utf8_lossy(wire.unread()).contains(text) {
        wire.receive().unwrap();
    }
}

#[test]
fn an_application_sees_its_request_and_answers_it() {
    let host = serve(&[]);
    let reply = request("PUT", &format!("{}/app/echo?a=b%20c", host.url), &[("x-mine", "1")], b"the body");
    let text = reply.text();
    let (head, body) = text.split_once('\n').unwrap();
    let head: Value = serde_json::from_str(head).unwrap();
    assert_eq!((reply.status, body), (200, "the body"), "{text}");
    assert_eq!((&head["method"], &head["path"]), (&"Method::Put".into(), &"/echo?a=b%20c".into()), "{head}");
    assert_eq!((&head["scheme"], &head["headers"]["x-mine"]), (&"http".into(), &"1".into()), "{head}");
    assert_eq!(head["headers"]["x-forwarded-prefix"], "/app");
    assert_eq!(head["headers"]["x-request-id"], reply.header("x-request-id").unwrap());
    for (path, expected) in [
        ("/app/stream", "data: 0\n\ndata: 1\n\ndata: 2\n\n"),
        ("/app/together?waits=50&ms=20", "waited"),
        ("/app/refused", "no such path"),
    ] {
        assert_eq!(host.get(path).text(), expected, "{path}");
    }
    assert!(host.get("/app/now").text().starts_with("true ["));
    let reply = host.post("/app/pass-on", vec![7; 300_000]);
    assert_eq!((reply.status, reply.body), (200, vec![7; 300_000]), "a body that is passed on as it comes");
    for _ in 0..2 {
        assert_eq!(host.get("/app/served").text(), "1", "an instance serves one request");
    }
    let reused = serve(&["--reuse-instances"]);
    reused.wait_for_log("instances are reused");
    let served = [(); 2].map(|()| reused.get("/app/served").text().parse::<u32>().unwrap());
    assert_eq!(served[1], served[0] + 1);
}

/// What a client says of the place it asks is no fault of the handler.
#[test]
fn any_host_header_is_taken() {
    let host = serve(&[]);
    for (named, authority) in [
        ("here:80", Some("here:80")),
        ("", None),
        ("a b", None),
        ("[", None),
        ("\u{e4}", None),
        ("x:y:z", None),
    ] {
        let head = format!("GET /app/echo HTTP/1.1\r\nhost: {named}\r\nconnection: close\r\n\r\n");
        let all = String::from_utf8_lossy(&sent(&host, &head).until_closed()).into_owned();
        let seen = all.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{named}: {all}"));
        let seen: Value = serde_json::from_str(seen).unwrap();
        assert_eq!(seen["authority"].as_str(), authority, "{named}: {seen}");
    }
    assert_eq!(count(&host, "plugin_bad_output"), 0.0);
}

#[test]
fn bodies_stream_in_both_directions() {
    let host = serve(&["--body", "1GiB"]);
    let mut wire =
        sent(&host, "POST /app/count HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n");
    let piece = [b"100000\r\n".as_slice(), &vec![b'a'; 1 << 20], b"\r\n"].concat();
    (0..100).for_each(|_| wire.send(&piece).unwrap());
    wire.send(b"0\r\n\r\n").unwrap();
    assert_eq!(wire.read().unwrap().text(), (100 << 20).to_string());
    let reply = host.get("/app/flood?pieces=1600");
    assert_eq!((reply.status, reply.body.len()), (200, 1600 * (64 << 10)));
    assert!(host.memory("VmHWM") < 600 << 20, "the host holds no body whole: {}", host.memory("VmHWM"));
    // Both at the same time, and what follows the body.
    let mut wire = sent(
        &host,
        "POST /app/echo HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\nte: trailers\r\n\r\n",
    );
    receive(&mut wire, "x-request-id");
    for text in ["one", "two"] {
        wire.send(format!("3\r\n{text}\r\n").as_bytes()).unwrap();
        receive(&mut wire, text);
    }
    wire.send(b"0\r\n\r\n").unwrap();
    receive(&mut wire, "0\r\n");
    // A client that reads nothing holds its handler in its write, until its time is over.
    let host = beside_a_neighbour();
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    let slow = sent(&host, "GET /app/in-body/write HTTP/1.1\r\nhost: here\r\n\r\n");
    wait_until("the client to be given up", || count(&host, "plugin_timeout") > 0.0);
    assert!(host.memory("VmHWM") < 600 << 20, "{}", host.memory("VmHWM"));
    drop(slow);
    assert_echoed(&neighbour.stop(), Duration::from_secs(2));
}

/// A stream that was cut looks to its reader like one that has ended: what was made of it is not passed for whole.
#[test]
fn a_request_that_breaks_off_has_no_whole_answer() {
    let host = beside_a_neighbour();
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: here\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n")
    };
    let piece = [b"10000\r\n".as_slice(), &vec![b'a'; 1 << 16], b"\r\n"].concat();
    let mut wire = sent(&host, &head("/app/count"));
    assert!((0..17).all(|_| wire.send(&piece).is_ok()));
    wire.read().unwrap().error(413, "body_too_large", "admit");
    for path in ["/app/echo", "/app/count-after", "/app/pass-on"] {
        let mut wire = sent(&host, &head(path));
        let before = count(&host, "body_too_large");
        receive(&mut wire, "x-request-id");
        assert!((0..17).all(|_| wire.send(&piece).is_ok()));
        let all = wire.until_closed();
        assert!(!all.ends_with(b"\r\n\r\n"), "{path}: {}", String::from_utf8_lossy(&all[all.len() - 200..]));
        wait_until(path, || count(&host, "body_too_large") > before);
    }
    // One whose client has sent less than it said, and reads on.
    for (path, code) in [("/app/count", "invalid_input"), ("/app/count-after", "invalid_input")] {
        let before = count(&host, code) + count(&host, "cancelled");
        let wire =
            sent(&host, &format!("POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhalf"));
        wire.finish().unwrap();
        let all = String::from_utf8_lossy(&wire.until_closed()).into_owned();
        assert!(!(all.starts_with("HTTP/1.1 200") && all.ends_with("0\r\n\r\n")), "{path}: {all}");
        wait_until(path, || count(&host, code) + count(&host, "cancelled") > before);
    }
}

#[test]
fn work_after_the_response_and_a_client_that_leaves() {
    let host = beside_a_neighbour();
    assert_eq!(host.get("/app/after?ms=5").text(), "begun");
    host.wait_for_log("the work after the response is done");
    let in_flight = || host.metric("modelhost_requests_in_flight{endpoint=\"app\"}");
    for path in ["/app/stream?events=1000000&pause_ms=1", "/app/flood?pieces=1000000"] {
        let said = host.log().matches("the client is gone").count();
        let mut wire = sent(&host, &format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n"));
        wire.receive().unwrap();
        drop(wire);
        wait_until(&format!("{path} to see it"), || host.log().matches("the client is gone").count() > said);
        wait_until(&format!("the place of {path} to be free"), || in_flight() == 0.0);
    }
    let before = count(&host, "cancelled");
    let wire = sent(&host, "GET /app/wait?ms=1900 HTTP/1.1\r\nhost: here\r\n\r\n");
    wait_until("the request to be in flight", || in_flight() == 1.0);
    drop(wire);
    wait_until("it to be cancelled", || count(&host, "cancelled") > before);
}

/// Waits that are begun together end together.
#[test]
fn an_application_waits_for_several_things_at_once() {
    let host = serve(&[]);
    let started = Instant::now();
    assert_eq!(host.get("/app/together?waits=40&ms=250").text(), "waited");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[test]
fn requests_go_to_listed_places_alone_and_models_are_called() {
    let server = Server::start(HELLO, None);
    let place = format!("http://127.0.0.1:{}", server.port);
    let plugin = component("tests/concurrent");
    let host = Host::with(Some(&plugin), Some(&e2e::model("add")), &["--name", "app"]);
    let reply = host.get(&format!("/app/fetch?{place}/x"));
    assert_eq!((reply.status, reply.text().as_str()), (502, "ErrorCode::HttpRequestDenied"));
    assert_eq!(server.connections(), 0);
    assert_eq!(host.get("/app/infer").text(), "[2.0, 4.0]");
    let reply = host.get("/app/headers?status=418");
    assert_eq!((reply.status, reply.header("x-own"), reply.header("set-cookie")), (418, Some("1"), None));
    assert_ne!(reply.header("x-handler-digest"), Some("forged"));
    let host = serve(&["--allow-outbound", &place]);
    assert_eq!(host.get(&format!("/app/fetch?{place}/x")).text(), "200 hello true");
    assert_eq!(host.get(&format!("/app/proxy?{place}/x")).text(), "hello");
}

/// Streams live through swaps, also to the other version of `wasi:http`, and through the drain.
#[test]
fn swaps_and_the_drain_lose_no_stream() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.wasm");
    std::fs::copy(component("tests/concurrent"), &file).unwrap();
    let host = Host::with(Some(&file), None, &["--watch"]);
    let open = |host: &Host| {
        let mut wire = sent(
            host,
            "GET /stream?events=40&pause_ms=20 HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n",
        );
        receive(&mut wire, "data: 0");
        wire
    };
    let digest = || host.get("/nope").header("x-handler-digest").map(str::to_owned);
    let (first, old) = (open(&host), digest());
    replace(&file, &std::fs::read(component("tests/application")).unwrap());
    wait_until("the application on 0.2", || digest() != old);
    let new = digest();
    replace(&file, &std::fs::read(component("tests/concurrent")).unwrap());
    wait_until("that on 0.3 again", || digest() != new);
    let second = open(&host);
    host.signal("TERM");
    for wire in [first, second] {
        let all = String::from_utf8_lossy(&wire.until_closed()).into_owned();
        assert!(all.contains("data: 39") && all.ends_with("0\r\n\r\n"), "{all}");
    }
    assert!(host.wait().0.success());
}

/// As Spin's template and componentize-py make them, unchanged.
#[test]
fn applications_of_other_toolchains_are_served() {
    let host = Host::with(Some(&component("tests/spin")), None, &[]);
    for path in ["/", "/some/path?n=1"] {
        let reply = host.get(path);
        let path = path.split('?').next().unwrap();
        assert_eq!((reply.status, reply.text()), (200, format!("hello from {path}")));
    }
    host.wait_for_log("handling a request to");
    let host = Host::with(Some(&component("tests/concurrent_py")), None, &["--instance-memory", "128MiB"]);
    for n in 0..3 {
        let reply = host.get(&format!("/some/path?n={n}"));
        assert_eq!((reply.status, &reply.json()["path"]), (200, &format!("/some/path?n={n}").into()));
    }
    assert_eq!(host.post("/echo", "hello").text(), "hello");
    assert_eq!(host.get("/stream").text(), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
    assert_eq!(host.get("/fail").status, 500);
    host.wait_for_log("as asked");
}

#[test]
fn inspect_says_which_wasi_http_it_is() {
    for (name, says) in [("concurrent", true), ("spin", true), ("application", false)] {
        let path = component(&format!("tests/{name}"));
        let output = e2e::host(&["inspect", path.to_str().unwrap()]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("this host serves it"), "{text}");
        assert_eq!(text.contains("0.3: its bodies and tasks"), says, "{text}");
    }
}

/// The order in which tasks go on is in no recording, so there is none.
#[test]
fn requests_are_not_recorded_and_it_is_said_why() {
    let it = Recorded::serve("tests/concurrent", &[]);
    assert_eq!(it.host.get("/it/now").status, 200);
    it.host.wait_for_log("no recording holds the order in which the tasks of `wasi:http` 0.3 went on");
    wait_until("it to be counted", || it.count("refused") == 1.0);
    let other = Recorded::serve("tests/application", &[]);
    assert_eq!(other.host.get("/it/served").status, 200);
    other.wait(1);
    let (status, lines, _) = replay(other.folder.path(), &component("tests/concurrent"), &[]);
    assert!(status != 0 && lines.concat().contains("no recording holds the order"), "{status} {lines:?}");
}
