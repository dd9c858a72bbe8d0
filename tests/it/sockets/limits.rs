//! The limits of WebSockets, each exceeded beside a neighbour; back-pressure both ways; hostile handlers.

use std::thread;
use std::time::{Duration, Instant};

use e2e::setup::Endpoint;
use e2e::socket::{BINARY, FINAL, PING, TEXT, WebSocket, masked};
use e2e::wait_until;

use super::{OPEN, assert_unharmed, beside_a_neighbour, closes, failed, open, talk, wait_for_none_open};

#[test]
fn a_message_of_the_handler_has_a_limit_too() {
    let host = beside_a_neighbour(talk("socket_message = '1KiB'"));
    let mut socket = open(&host, "/talk");
    socket.say("big 1024");
    assert_eq!(socket.hear().len(), 1024);
    let refusal = socket.ask("big 1025");
    assert!(refusal.contains("`limits.socket_message`"), "{refusal}");
    assert_unharmed(&host);
}

#[test]
fn as_many_sockets_are_open_as_may_be_and_requests_are_answered_beside_them() {
    let host = beside_a_neighbour(talk("sockets = 3, concurrency = 1, queue = 0"));
    let mut open_ones: Vec<_> = (0..3).map(|_| open(&host, "/talk")).collect();
    let refused = WebSocket::open(&host.url, "/talk", &[]).err().unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.error(503, "overloaded", "admit");
    assert_eq!(host.get("/talk").text(), "hello", "a socket takes no permit of a request");
    assert_eq!(host.metric(OPEN), 3.0);
    assert_unharmed(&host);
    for socket in &mut open_ones {
        assert_eq!(socket.ask("a"), "echo a");
    }
    // One that goes makes room, with a word or without.
    for leave in [|mut socket: WebSocket| socket.close(1000), drop] {
        leave(open_ones.pop().unwrap());
        wait_until("a place", || match WebSocket::open(&host.url, "/talk", &[]) {
            Ok(socket) => {
                open_ones.push(socket);
                true
            }
            Err(_) => false,
        });
    }
}

#[test]
fn a_client_is_read_no_faster_than_it_may_speak() {
    let host = beside_a_neighbour(talk("socket_rate = 50"));
    let mut socket = open(&host, "/talk");
    let begun = Instant::now();
    let texts: Vec<u8> = (0..150).flat_map(|_| masked(FINAL | TEXT, b"a")).collect();
    socket.send(&texts).unwrap();
    for number in 0..150 {
        assert_eq!(socket.hear(), "echo a");
        if number == 100 {
            assert_unharmed(&host);
        }
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1900), "fifty at once, then fifty a second: {took:?}");
}

#[test]
fn a_socket_over_which_nothing_is_said_is_closed() {
    let host = beside_a_neighbour(talk("socket_idle = '400ms', background_timeout = '300ms'"));
    let mut quiet = open(&host, "/talk");
    let mut chatty = open(&host, "/talk");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(800) {
        assert_eq!(chatty.ask("a"), "echo a");
        // A ping is no message.
        let _ = quiet.send(&masked(FINAL | PING, b""));
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(quiet.closed(), (1001, "nothing was said for 400ms".to_owned()));
    // Nor is one that the handler never takes: the handler is ended too.
    let mut deaf = open(&host, "/talk");
    for _ in 0..5 {
        deaf.say("deaf");
    }
    assert_eq!(deaf.closed().0, 1001);
    wait_until("the handler to be ended", || {
        host.metric(r#"modelhost_requests_total{endpoint="talk",outcome="plugin_timeout"}"#) == 1.0
    });
    drop(chatty);
    wait_for_none_open(&host);
    assert_unharmed(&host);
}

/// Waiting counts as no computing, and each message has its own time: together they compute for longer than one may.
#[test]
fn only_computing_counts_and_for_each_message_anew() {
    let host = beside_a_neighbour(talk("pre_timeout = '300ms', request_timeout = '1s'"));
    let mut socket = open(&host, "/talk");
    // All are here before the first is taken: the handler never waits for one.
    for _ in 0..8 {
        socket.say("compute 150");
    }
    for _ in 0..8 {
        assert_eq!(socket.hear(), "computed");
    }
    assert_eq!(socket.ask("sleep 1200"), "slept");
    assert_eq!(socket.ask("a"), "echo a");
    socket.say("compute 5000");
    assert_eq!(socket.closed(), failed());
    let outcome = |code: &str| {
        host.metric(&format!("modelhost_requests_total{{endpoint=\"talk\",outcome=\"{code}\"}}"))
    };
    wait_until("it to be counted", || outcome("plugin_timeout") == 1.0);
    assert_unharmed(&host);
}

/// A client that does not read holds its handler up, and nothing else; for ever it may not.
#[test]
fn a_handler_waits_for_its_client_to_read() {
    let host = beside_a_neighbour(talk("stream_timeout = '700ms'"));
    let before = host.memory("VmRSS");
    let mut socket = open(&host, "/talk");
    socket.say("flood");
    let begun = Instant::now();
    wait_for_none_open(&host);
    assert!(begun.elapsed() >= Duration::from_millis(700));
    let more = host.memory("VmHWM").saturating_sub(before);
    assert!(more < 100 << 10, "{more} KiB");
    assert_eq!(closes(&host, "1006"), 1.0);
    // One that reads gets all, whatever it takes.
    let mut socket = open(&host, "/talk");
    socket.say("flood");
    let mut bytes = 0;
    while bytes < 50 << 20 {
        bytes += socket.receive().unwrap().payload.len();
    }
    assert_unharmed(&host);
    drop(socket);
    wait_for_none_open(&host);
}

/// The other way round: what a handler does not take is not read.
#[test]
fn a_client_waits_for_its_handler_to_take() {
    let host = beside_a_neighbour(talk("socket_rate = 1000000"));
    let mut socket = open(&host, "/talk");
    socket.say("sleep 1500");
    let before = host.memory("VmRSS");
    let sender = thread::spawn(move || {
        let message = masked(FINAL | BINARY, &vec![0; 1 << 20]);
        for _ in 0..60 {
            socket.send(&message[..message.len() / 2]).unwrap();
            socket.send(&message[message.len() / 2..]).unwrap();
            if socket.receive().unwrap().kind == TEXT {
                assert_eq!(socket.receive().unwrap().payload.len(), 1 << 20);
            }
        }
    });
    assert_unharmed(&host);
    sender.join().unwrap();
    let more = host.memory("VmHWM").saturating_sub(before);
    assert!(more < 64 << 10, "{more} KiB");
}

#[test]
fn hostile_handlers_harm_nobody_else() {
    let limits = "pre_timeout = '100ms', request_timeout = '500ms', stream_timeout = '500ms', \
                  background_timeout = '300ms', socket_idle = '600ms', output = '8MiB'";
    let host = beside_a_neighbour(Endpoint::new("talk").guest("hostile_socket").limits(limits));
    let mut expected: Vec<(&str, u16, &str)> = vec![
        ("trap-first", 500, "plugin_trap"),
        ("spin-first", 504, "plugin_timeout"),
        ("wait-first", 504, "request_timeout"),
        ("drop-upgrade", 500, "plugin_bad_output"),
        ("long-error", 500, "plugin_error"),
        ("refuse-wide", 500, "plugin_error"),
    ];
    for (path, status, code) in &expected {
        let reply = WebSocket::open(&host.url, &format!("/talk/{path}"), &[]).err().unwrap();
        reply.error(*status, code, "pre_inference");
        assert_unharmed(&host);
    }
    // They open, and end by the close or by the end of the connection.
    for (path, close, code) in [
        ("twice", 1011, "plugin_bad_output"),
        ("forge", 1011, "plugin_bad_output"),
        ("spin", 1011, "plugin_timeout"),
        ("leak", 1011, "plugin_trap"),
        ("huge", 1011, "plugin_bad_output"),
        ("grow", 1011, "plugin_out_of_memory"),
        ("deaf", 1001, "plugin_timeout"),
        ("stubborn", 1001, "plugin_timeout"),
        ("storm", 1001, "plugin_timeout"),
    ] {
        let socket = open(&host, &format!("/talk/{path}"));
        assert_unharmed(&host);
        assert_eq!(socket.closed().0, close, "{path}");
        expected.push((path, 0, code));
    }
    let flood = open(&host, "/talk/flood");
    wait_for_none_open(&host);
    drop(flood);
    assert_unharmed(&host);
    let codes = ["plugin_trap", "plugin_timeout", "request_timeout", "plugin_bad_output", "plugin_error"];
    for code in codes {
        let count = expected.iter().filter(|(_, _, it)| *it == code).count();
        let series = format!("modelhost_requests_total{{endpoint=\"talk\",outcome=\"{code}\"}}");
        wait_until(code, || host.metric(&series) == count as f64);
    }
    wait_until("no instance to be left", || {
        host.metric(r#"modelhost_plugin_instances{endpoint="talk"}"#) <= 1.0
    });
}
