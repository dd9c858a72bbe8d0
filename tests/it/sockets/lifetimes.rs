//! How long a WebSocket and its instance live: beyond swaps, up to a stop, no longer than their client.

use std::time::{Duration, Instant};

use e2e::setup::{Endpoint, Setup};
use e2e::socket::{WebSocket, handshake};
use e2e::wire::Wire;
use e2e::{Host, replace, version, wait_until};

use super::{beside_a_neighbour, normal, open, talk, wait_for_none_open};

#[test]
fn a_client_that_goes_frees_all_that_it_had() {
    let host = beside_a_neighbour(talk("background_timeout = '300ms'"));
    let instances = || host.metric(r#"modelhost_plugin_instances{endpoint="talk"}"#);
    for order in ["a", "sleep 60000", "flood", "deaf", "linger 50", "linger 60000"] {
        let mut socket = open(&host, "/talk");
        assert_eq!(socket.ask("b"), "echo b");
        socket.say(order);
        drop(socket);
        wait_for_none_open(&host);
    }
    host.wait_for_log("lingered after Some(1006)");
    let mut socket = open(&host, "/talk");
    socket.say("linger 0");
    socket.close(4002);
    assert_eq!(socket.closed().0, 4002);
    host.wait_for_log("lingered after Some(4002)");
    wait_for_none_open(&host);
    wait_until("no more instances than may be idle", || instances() <= 2.0);
    assert_eq!(host.get("/talk").text(), "hello");
}

/// Before the socket has opened, too.
#[test]
fn a_client_that_goes_before_the_socket_opens_frees_it_as_well() {
    let host = beside_a_neighbour(talk(""));
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&handshake("/talk/slow", &[])).unwrap();
    let instances = || host.metric(r#"modelhost_plugin_instances{endpoint="talk"}"#);
    wait_until("the handler to run", || {
        host.metric(r#"modelhost_plugin_instances_created_total{endpoint="talk"}"#) >= 1.0
    });
    drop(wire);
    let cancelled = r#"modelhost_requests_total{endpoint="talk",outcome="cancelled"}"#;
    wait_until("it to be over", || host.metric(cancelled) == 1.0 && instances() <= 1.0);
}

#[test]
fn an_instance_serves_one_socket_after_another_unless_it_keeps_one() {
    let host = beside_a_neighbour(talk("sockets = 1, concurrency = 1"));
    let served = |orders: &[&str]| {
        let mut number = String::new();
        wait_until("a place", || {
            let Ok(mut socket) = WebSocket::open(&host.url, "/talk", &[]) else { return false };
            number = socket.ask("served");
            orders.iter().for_each(|order| socket.say(order));
            assert_eq!(socket.closed(), normal());
            true
        });
        number
    };
    assert_eq!([served(&["bye"]), served(&["bye"]), served(&["keep"])], ["1", "2", "3"]);
    assert_eq!(served(&["bye"]), "1");
}

/// A swap cuts no socket: it stays on its generation, which lives as long.
#[test]
fn a_socket_stays_on_its_generation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("handler.wasm");
    std::fs::write(&file, version("tests/socket", 1)).unwrap();
    let host = Setup::of([Endpoint::new("talk").plugin(&file)]).serve();
    let mut old: Vec<_> = (0..4).map(|_| open(&host, "/talk")).collect();
    let digest = |socket: &WebSocket| socket.opening.header("x-handler-digest").unwrap().to_owned();
    for number in 2..5 {
        replace(&file, &version("tests/socket", number));
        let generation = f64::from(number);
        wait_until("the swap", || {
            host.metric(r#"modelhost_plugin_generation{endpoint="talk"}"#) == generation
        });
        let mut new = open(&host, "/talk");
        assert_ne!(digest(&new), digest(&old[0]));
        assert_eq!(new.ask("a"), "echo a");
        for socket in &mut old {
            assert_eq!(socket.ask("b"), "echo b");
        }
    }
    let old = old.into_iter().map(|mut socket| {
        socket.say("bye");
        socket.closed()
    });
    assert!(old.collect::<Vec<_>>().iter().all(|close| *close == normal()));
    wait_for_none_open(&host);
    wait_until("the old instances to go", || {
        host.metric(r#"modelhost_plugin_instances{endpoint="talk"}"#) <= 1.0
    });
}

/// An endpoint that is served no more closes its sockets, with time for their handlers.
#[test]
fn an_endpoint_that_goes_closes_its_sockets() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = |endpoints: &[Endpoint]| {
        let text: String = endpoints.iter().map(ToString::to_string).collect();
        std::fs::write(file.path(), text).unwrap();
    };
    let neighbour = Endpoint::new("neighbour").guest("socket");
    config(&[talk(""), neighbour.clone()]);
    let host = Host::serve(&["--config", file.path().to_str().unwrap()]);
    let (socket, mut other) = (open(&host, "/talk"), open(&host, "/neighbour"));
    config(&[neighbour]);
    host.signal("HUP");
    assert_eq!(socket.closed(), (1001, "the endpoint is no longer served".to_owned()));
    assert_eq!(other.ask("a"), "echo a");
}

#[test]
fn a_stop_closes_sockets_and_waits_for_their_handlers() {
    let host = beside_a_neighbour(talk(""));
    let mut sockets: Vec<_> = (0..20).map(|_| open(&host, "/talk")).collect();
    let mut lingering = open(&host, "/talk");
    lingering.say("linger 300");
    for socket in &mut sockets {
        assert_eq!(socket.ask("a"), "echo a");
    }
    host.signal("TERM");
    for socket in sockets {
        assert_eq!(socket.closed(), (1001, "the server is shutting down".to_owned()));
    }
    assert_eq!(lingering.closed().0, 1001);
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("lingered after Some(1001)"), "{log}");

    // One that does not end is not waited for beyond the drain's time.
    let setup = Setup::of([talk("")]).arguments(&["--drain-timeout", "500ms"]);
    let host = setup.serve();
    let mut socket = open(&host, "/talk");
    socket.say("deaf");
    let begun = Instant::now();
    host.signal("TERM");
    assert_eq!(socket.closed().0, 1001);
    let (status, log) = host.wait();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(status.code(), Some(1), "{log}");
}

/// A socket is no request that could be sent again: it is not recorded.
#[test]
fn what_is_said_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().display().to_string();
    let setup = Setup::of([talk("")]).arguments(&["--record", &record, "--record-share", "1"]);
    let host = setup.serve();
    let mut socket = open(&host, "/talk");
    socket.say("bye");
    assert_eq!(socket.closed(), normal());
    wait_for_none_open(&host);
    assert_eq!(host.get("/talk").text(), "hello");
    let written = r#"modelhost_recordings_total{endpoint="talk",outcome="written"}"#;
    wait_until("the request to be written", || host.metric(written) == 1.0);
}
