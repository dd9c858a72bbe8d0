//! WebSockets: how they open and end. The handlers are tests/guests/examples/socket.rs and hostile_socket.rs; a client's
//! library is driven too.

mod compiled;
mod lifetimes;
mod limits;
mod sdks;

use e2e::setup::{Endpoint, Setup};
use e2e::socket::{BINARY, CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, WebSocket, handshake, masked};
use e2e::tls::Pair;
use e2e::wire::Wire;
use e2e::{Host, clients, component, host, wait_until};

const FAILED: &str = "Internal Server Error (in model/chainlet).";
const OPEN: &str = r#"modelhost_websockets_open{endpoint="talk"}"#;
const TRUSS: &str = "/v1/websocket";

/// The endpoint `talk` with these limits.
fn talk(limits: &str) -> Endpoint {
    Endpoint::new("talk").guest("socket").limits(limits)
}

/// The same beside a neighbour.
fn beside_a_neighbour(talk: Endpoint) -> Host {
    Setup::of([talk, Endpoint::new("neighbour").guest("echo")]).serve()
}

fn open(host: &Host, path: &str) -> WebSocket {
    WebSocket::open(&host.url, path, &[]).unwrap_or_else(|reply| panic!("{} {}", reply.status, reply.text()))
}

fn closes(host: &Host, code: &str) -> f64 {
    let series = format!("modelhost_websocket_closes_total{{code=\"{code}\",endpoint=\"talk\"}} ");
    host.metrics().lines().find_map(|line| line.strip_prefix(&*series)?.parse().ok()).unwrap_or_default()
}

fn wait_for_none_open(host: &Host) {
    wait_until("all sockets to be over", || host.metric(OPEN) == 0.0);
}

fn assert_unharmed(host: &Host) {
    assert_eq!(host.post("/neighbour", "still here").json()["body"], "still here");
}

fn normal() -> (u16, String) {
    (1000, String::new())
}

fn failed() -> (u16, String) {
    (1011, FAILED.to_owned())
}

/// T24, by a client's library: what Truss's own tests ask.
#[test]
fn the_websockets_library_talks_as_truss_has_it() {
    let with = Host::with(Some(&component("tests/socket")), None, &["--name", "talk"]);
    let without = Host::with(Some(&component("tests/echo")), None, &["--name", "talk"]);
    let ws = |host: &Host| host.url.replace("http://", "ws://");
    clients::run("sockets", &[&ws(&with), &ws(&without)]);
    wait_for_none_open(&with);
    wait_until("both to be counted", || closes(&without, "1003") == 2.0);
}

#[test]
fn a_socket_ends_as_its_handler_does() {
    let host = beside_a_neighbour(talk("memory = '16MiB', pre_timeout = '200ms'").model("sum"));
    for (says, hears, ends) in [
        (&["a", "b", "bye"][..], &["echo a", "echo b"][..], normal()),
        (&["a", "boom"], &["echo a"], failed()),
        (&["trap"], &[], failed()),
        (&["spin"], &[], failed()),
        (&["grow"], &[], failed()),
        (&["close 4001 enough"], &[], (4001, "enough".to_owned())),
        (&["close 1005", "bye"], &["the handler failed"], normal()),
        (&["patience 60000", "came", "bye"], &["came"], normal()),
        (&["model", "bye"], &["[4.0]"], normal()),
    ] {
        let mut socket = open(&host, "/talk");
        for text in says {
            socket.say(text);
        }
        for text in hears {
            let heard = socket.hear();
            assert!(
                heard == *text || *text == "the handler failed" && heard.contains("code 1005"),
                "{heard}"
            );
        }
        assert_eq!(socket.closed(), ends, "{says:?}");
    }
    let mut socket = open(&host, "/talk");
    assert_eq!(socket.ask("patience 20"), "nothing came");
    socket.say("bye");
    assert_eq!(socket.closed(), normal());
    wait_for_none_open(&host);
    host.wait_for_log("boom, as asked");
    let count = |series: &str| host.metric(&format!("modelhost_{series}"));
    let requests =
        |outcome: &str| count(&format!("requests_total{{endpoint=\"talk\",outcome=\"{outcome}\"}}"));
    assert_eq!(
        ["ok", "plugin_error", "plugin_trap", "plugin_timeout", "plugin_out_of_memory"].map(requests),
        [6.0, 1.0, 1.0, 1.0, 1.0]
    );
    assert_eq!(["1000", "1011", "4xxx"].map(|code| closes(&host, code)), [5.0, 4.0, 1.0]);
    let messages = |direction: &str| {
        count(&format!("websocket_messages_total{{direction=\"{direction}\",endpoint=\"talk\"}}"))
    };
    assert_eq!(["received", "sent"].map(messages), [18.0, 7.0]);
    assert_unharmed(&host);
}

#[test]
fn a_handler_says_whether_a_socket_opens() {
    let host = beside_a_neighbour(talk("request_timeout = '300ms'"));
    let refused = |path: &str| WebSocket::open(&host.url, path, &[]).err().unwrap();
    let reply = refused("/talk/refuse");
    assert_eq!(
        (reply.status, reply.text().as_str(), reply.header("x-why")),
        (403, "not you", Some("refused"))
    );
    refused("/talk/refuse-badly").error(500, "plugin_error", "pre_inference");
    refused("/talk/unanswered").error(500, "plugin_bad_output", "pre_inference");
    refused("/talk/fail").error(500, "plugin_error", "pre_inference");
    refused("/talk/invalid").error(400, "invalid_input", "pre_inference");
    assert_eq!(refused("/talk/elsewhere").status, 307);
    refused("/talk/wrong-protocol").error(500, "plugin_error", "pre_inference");
    refused("/talk/slow").error(504, "request_timeout", "pre_inference");
    for (offered, chosen) in [("soft, chat.v2 ,chat.v1", Some("chat.v2")), ("soft", None)] {
        let headers = [("sec-websocket-protocol", offered)];
        let mut socket = WebSocket::open(&host.url, "/talk/protocol", &headers).ok().unwrap();
        assert_eq!(socket.opening.header("sec-websocket-protocol"), chosen);
        assert_eq!(socket.hear(), format!("{chosen:?}"));
    }
    let headers = [("x-request-id", "mine"), ("authorization", "Bearer none")];
    let mut socket = WebSocket::open(&host.url, "/talk/head?a=1", &headers).ok().unwrap();
    assert_eq!(socket.hear(), r#"["GET","mine",["a=1","/talk","Bearer none"]]"#);
    let header = |name| socket.opening.header(name).map(str::to_owned);
    // RFC 6455, section 1.3.
    assert_eq!(header("sec-websocket-accept").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(header("x-request-id").as_deref(), Some("mine"));
    assert_eq!(header("x-handler-digest").map(|it| it.len()), Some(64));
    // The same endpoint answers requests.
    assert_eq!(host.get("/talk").text(), "hello");
}

#[test]
fn a_handshake_that_is_none_is_answered_by_http() {
    let host = beside_a_neighbour(talk(""));
    let with = |from: &str, to: &str| {
        let head = String::from_utf8(handshake("/talk", &[])).unwrap();
        assert!(head.contains(from));
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(head.replace(from, to).as_bytes()).unwrap();
        wire.read().unwrap()
    };
    let reply = with("version: 13", "version: 8");
    reply.error(426, "upgrade_required", "admit");
    assert_eq!(
        (reply.header("sec-websocket-version"), reply.header("upgrade")),
        (Some("13"), Some("websocket"))
    );
    with("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZQ==").error(400, "invalid_input", "admit");
    with("sec-websocket-key", "x-key").error(400, "invalid_input", "admit");
    for (from, to) in [
        ("upgrade: WebSocket", "upgrade: h2c"),
        ("keep-alive, Upgrade", "keep-alive"),
        ("GET /talk", "POST /talk"),
    ] {
        assert_eq!(with(from, to).text(), "hello", "{to}");
    }
    // Handlers without sockets: the answer is that of a request, but at Truss's path.
    let plain = WebSocket::open(&host.url, "/neighbour", &[]).err().unwrap();
    assert_eq!(plain.status, 200, "the endpoint's description");
    let elsewhere = WebSocket::open(&host.url, TRUSS, &[]).err().unwrap();
    elsewhere.error(404, "not_found", "admit");
}

#[test]
fn a_handler_of_sockets_alone_says_so_to_requests() {
    let host = Host::with(Some(&component("tests/hostile_socket")), None, &["--name", "talk"]);
    for path in ["/talk", "/", "/any/thing"] {
        host.get(path).error(426, "upgrade_required", "admit");
    }
    let mut socket = open(&host, "/talk/poll");
    socket.say("later");
    assert_eq!(socket.hear(), "later");
    assert_eq!(socket.closed(), normal());
}

#[test]
fn pages_of_other_origins_open_sockets_where_they_may_call() {
    for (allowed, origin, opens) in [
        ("*", "https://any.example", true),
        ("https://page.example", "https://page.example", true),
        ("https://page.example", "https://other.example", false),
        ("none", "https://any.example", false),
        ("none", "http://localhost", true),
    ] {
        let setup = Setup::of([talk("")]).tables(format!("[server]\ncors_allow_origin = '{allowed}'"));
        let opened = WebSocket::open(&setup.serve().url, "/talk", &[("origin", origin)]);
        match opened {
            Ok(_) => assert!(opens, "{allowed} {origin}"),
            Err(reply) => {
                reply.error(403, "forbidden", "admit");
                assert!(!opens, "{allowed} {origin}");
            }
        }
    }
}

#[test]
fn a_key_is_wanted_before_a_socket_opens() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "k3y-of-sockets").unwrap();
    let keys = format!("keys = ['@{}']", file.path().display());
    let locked = talk("").set(&keys);
    let host = beside_a_neighbour(locked);
    let with = |key: &str| WebSocket::open(&host.url, "/talk/head", &[("authorization", key)]);
    WebSocket::open(&host.url, "/talk", &[]).err().unwrap().error(401, "unauthorized", "admit");
    with("Bearer other").err().unwrap().error(401, "unauthorized", "admit");
    let mut socket = with("Bearer k3y-of-sockets").ok().unwrap();
    let heard = socket.hear();
    assert!(heard.ends_with(r#"["","/talk",null]]"#), "the key is not shown to the handler: {heard}");
    // Nor is it said whether there are sockets.
    let only = Setup::of([Endpoint::new("talk").guest("echo").set(&keys)]).serve();
    WebSocket::open(&only.url, TRUSS, &[]).err().unwrap().error(401, "unauthorized", "admit");
}

#[test]
fn sockets_are_open_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::in_folder(folder.path());
    let setup = Setup::of([talk("")]).arguments(&pair.flags());
    let host = setup.serve();
    let mut socket = WebSocket::over(pair.connect(&host.url).unwrap(), "/talk", &[]).ok().unwrap();
    let long = "x".repeat(200_000);
    assert_eq!(socket.ask(&long), format!("echo {long}"));
    socket.say("bye");
    assert_eq!(socket.closed(), normal());
}

/// Frames as the RFC has them, and as it does not.
#[test]
fn frames_that_are_none_are_told_by_the_close() {
    let host = beside_a_neighbour(talk("socket_message = '1KiB'"));
    // A message in pieces, a ping between them.
    let mut socket = open(&host, "/talk");
    for (first, payload) in [(TEXT, "ab"), (CONTINUATION, ""), (FINAL | PING, "there?"), (CONTINUATION, "c€")]
    {
        socket.send(&masked(first, payload.as_bytes())).unwrap();
    }
    let (half, rest) = "€".as_bytes().split_at(1);
    socket.send(&masked(CONTINUATION, half)).unwrap();
    socket.send(&masked(FINAL | CONTINUATION, rest)).unwrap();
    let pong = socket.receive().unwrap();
    assert_eq!((pong.kind, &*pong.payload), (PONG, &b"there?"[..]));
    assert_eq!(socket.hear(), "echo abc€€");
    socket.send(&masked(FINAL | BINARY, &[0, 255, 0])).unwrap();
    assert_eq!(socket.receive().unwrap().payload, [0, 255, 0]);
    socket.send(&masked(FINAL | PONG, b"unasked")).unwrap();
    assert_eq!(socket.ask("still"), "echo still");

    let kib = |length| vec![b'x'; length];
    let unmasked = [&[FINAL | TEXT, 1][..], b"x"].concat();
    let reserved = masked(FINAL | TEXT | 0x40, b"x");
    let announced = [&[FINAL | BINARY, 0x80 | 127][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    let pieces = [masked(TEXT, &kib(600)), masked(FINAL | CONTINUATION, &kib(600))].concat();
    let unfinished = [masked(TEXT, b"a"), masked(FINAL | TEXT, b"b")].concat();
    for (what, bytes, code) in [
        ("too long", masked(FINAL | TEXT, &kib(1025)), 1009),
        ("too long in pieces", pieces, 1009),
        ("longer than anything", announced, 1009),
        ("no UTF-8", masked(FINAL | TEXT, &[0xc3, 0x28]), 1007),
        ("a surrogate", masked(FINAL | TEXT, &[0xed, 0xa0, 0x80]), 1007),
        ("unmasked", unmasked, 1002),
        ("a reserved bit", reserved, 1002),
        ("a reserved kind", masked(FINAL | 3, b"x"), 1002),
        ("a reserved control", masked(FINAL | 11, b""), 1002),
        ("nothing to continue", masked(FINAL | CONTINUATION, b"x"), 1002),
        ("another message within one", unfinished, 1002),
        ("a ping in pieces", masked(PING, b"x"), 1002),
        ("a long ping", masked(FINAL | PING, &kib(126)), 1002),
        ("half a code", masked(FINAL | CLOSE, &[3]), 1002),
        ("a code that is none", masked(FINAL | CLOSE, &1005_u16.to_be_bytes()), 1002),
        ("a reason that is no UTF-8", masked(FINAL | CLOSE, &[3, 232, 0xff]), 1007),
    ] {
        let mut socket = open(&host, "/talk");
        socket.send(&bytes).unwrap();
        assert_eq!(socket.closed().0, code, "{what}");
    }
    // The longest that may be.
    let mut socket = open(&host, "/talk");
    socket.send(&masked(FINAL | BINARY, &kib(1024))).unwrap();
    assert_eq!(socket.receive().unwrap().payload.len(), 1024);
    // Closes of the client's own.
    for (payload, answer) in
        [(vec![], 1005), (1000_u16.to_be_bytes().to_vec(), 1000), (vec![0x0f, 0xa1, b'x'], 4001)]
    {
        let mut socket = open(&host, "/talk");
        socket.send(&masked(FINAL | CLOSE, &payload)).unwrap();
        assert_eq!(socket.closed().0, answer);
    }
    wait_for_none_open(&host);
    assert_unharmed(&host);
    let ok = r#"modelhost_requests_total{endpoint="talk",outcome="ok"}"#;
    assert_eq!(host.metric(ok), 21.0, "none of it is the handler's fault");
}

#[test]
fn inspect_says_that_a_handler_serves_sockets() {
    let said = |name: &str| {
        let output = host(&["inspect", component(name).to_str().unwrap()]);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(
        said("tests/socket").contains("websocket       yes: it serves WebSockets on its endpoint's path")
    );
    assert!(!said("tests/echo").contains("websocket "));
}
