//! A thousand clients hang up, at every stage of a request: no instance, session, permit or connection is lost.

use std::time::Duration;

use e2e::load::{Pattern, alone, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, model, wait_until};

/// Rounds over all stages, and clients that hang up together: 7 × 5 × 30 in all.
const ROUNDS: usize = 5;
const CLIENTS: usize = 30;
/// Requests an endpoint lets in; the other clients queue.
const CONCURRENCY: usize = 8;

/// When a client hangs up.
enum Moment {
    /// After it has sent so many parts of a hundred.
    Sent(usize),
    /// When the host knows all of the requests: they are in flight, or wait, or some have been answered already.
    Known,
    /// When the first bytes of the response are there.
    Reading,
}

/// Stage, endpoint, body, and the moment.
const STAGES: [(&str, &str, &str, Moment); 7] = [
    ("head", "/flood", "flood 1", Moment::Sent(40)),
    (
        "body",
        "/flood",
        "flood 1 and more, so that the body is longer than the head and most of it is still missing when \
        the connection ends; and on it goes, and on, until nobody can doubt it any more.",
        Moment::Sent(60),
    ),
    ("queue and pre-inference, waiting", "/sleep", "sleep:100000", Moment::Known),
    ("pre-inference, computing", "/spin_pre", "spin", Moment::Known),
    ("infer", "/model", r#"{"x": [0.5]}"#, Moment::Known),
    ("post-inference, computing", "/spin_post", "spin", Moment::Known),
    ("response", "/flood", "flood 5000000", Moment::Reading),
];

/// Every endpoint of the test, and a body that it answers with 200.
const NEXT: [(&str, &str); 5] = [
    ("sleep", "sleep:1"),
    ("spin_pre", "hello"),
    ("model", r#"{"x": [0.5]}"#),
    ("spin_post", "hello"),
    ("flood", "flood 10"),
];

fn serve() -> Host {
    let endpoint = |name: &str, time: &str| {
        let limits = format!(
            "concurrency = {CONCURRENCY}, pre_timeout = '{time}', post_timeout = '{time}', request_timeout = '100s'"
        );
        Endpoint::new(name).limits(&limits)
    };
    Setup::of([
        endpoint("sleep", "100s").guest("files"),
        // Guests that compute are not stopped by a client that goes away, but by their time.
        endpoint("spin_pre", "100ms").guest("spin_pre"),
        endpoint("spin_post", "100ms").guest("spin_post"),
        // One session that all requests wait for.
        endpoint("model", "100s").model_at(&model("slow"), "instances = 1, threads = 1"),
        endpoint("flood", "100s").guest("liar"),
        endpoint("neighbour", "100s").guest("echo"),
    ])
    .serve()
}

fn gauge(host: &Host, series: &str, endpoint: &str) -> usize {
    host.metric(&format!("modelhost_{series}{{endpoint=\"{endpoint}\"}}")) as usize
}

fn total(host: &Host, endpoint: &str, outcome: &str) -> usize {
    host.metric(&format!("modelhost_requests_total{{endpoint=\"{endpoint}\",outcome=\"{outcome}\"}}"))
        as usize
}

/// Requests that have arrived at an endpoint's door, whatever has become of them.
fn known(host: &Host, endpoint: &str) -> usize {
    let metrics = host.metrics();
    let of = |series: &str| -> f64 {
        let prefix = format!("modelhost_{series}{{endpoint=\"{endpoint}\"");
        let lines = metrics.lines().filter(|line| line.starts_with(&prefix));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    (of("requests_in_flight") + of("requests_queued") + of("requests_total")) as usize
}

/// Files and sockets that the host has open; none where the system does not tell.
fn open_files(host: &Host) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", host.pid())).map_or(0, Iterator::count)
}

/// Sends `CLIENTS` requests, each on a connection of its own, and hangs all of them up at the moment.
fn hang_up(host: &Host, path: &str, body: &str, moment: &Moment) {
    let request = wire::post(path, &[], body);
    // One that ends while the metrics are read may be known twice.
    let before = (0..3).map(|_| known(host, &path[1..])).min().unwrap();
    let mut clients: Vec<Wire> = (0..CLIENTS).map(|_| Wire::connect(&host.url).unwrap()).collect();
    let length = match moment {
        Moment::Sent(percent) => request.len() * percent / 100,
        Moment::Known | Moment::Reading => request.len(),
    };
    for client in &mut clients {
        client.send(&request[..length]).unwrap();
    }
    match moment {
        Moment::Sent(_) => {}
        Moment::Known => wait_until(&format!("all requests to be known at {path}"), || {
            known(host, &path[1..]) >= before + CLIENTS
        }),
        Moment::Reading => clients.iter_mut().for_each(|client| client.receive().unwrap()),
    }
}

#[test]
fn a_thousand_clients_hang_up_and_nothing_is_lost() {
    let _alone = alone();
    let host = serve();
    let files = open_files(&host);
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for _ in 0..ROUNDS {
        // What one stage leaves to be tidied up, the next one meets.
        for (stage, path, body, moment) in &STAGES {
            eprintln!("hanging up: {stage}");
            hang_up(&host, path, body, moment);
        }
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), Duration::from_secs(1));

    for (endpoint, _) in NEXT {
        let load =
            || (gauge(&host, "requests_in_flight", endpoint), gauge(&host, "requests_queued", endpoint));
        wait_until(&format!("`{endpoint}` to be at rest"), || load() == (0, 0));
        let alive = gauge(&host, "plugin_instances", endpoint);
        assert!(alive <= CONCURRENCY, "`{endpoint}`: {alive} instances are left");
    }
    wait_until("every connection to be closed", || open_files(&host) <= files + 4);

    let all = ROUNDS * CLIENTS;
    assert_eq!(total(&host, "sleep", "cancelled"), all, "every one that waited");
    assert_eq!(total(&host, "flood", "cancelled"), all, "every one that had sent half a body");
    for (endpoint, otherwise) in
        [("spin_pre", "plugin_timeout"), ("spin_post", "plugin_timeout"), ("model", "ok")]
    {
        let cancelled = total(&host, endpoint, "cancelled");
        assert!(cancelled > 0, "`{endpoint}`: none of {all} was cancelled");
        // A request that ends while the metrics are read may be known twice, and another one not yet.
        let counted = cancelled + total(&host, endpoint, otherwise);
        assert!((all - ROUNDS..=all).contains(&counted), "`{endpoint}`: {counted} of {all} were counted");
    }
    assert_eq!(total(&host, "flood", "ok"), all, "the handler had answered");

    for (endpoint, body) in NEXT {
        for _ in 0..CONCURRENCY + 1 {
            let reply = host.post(&format!("/{endpoint}"), body);
            assert_eq!(reply.status, 200, "{endpoint}: {}", reply.text());
        }
    }
    // Every permit is still there: as many as ever are in flight at once.
    let request = wire::post("/sleep", &[], "sleep:700");
    let mut last: Vec<Wire> = (0..CONCURRENCY).map(|_| Wire::connect(&host.url).unwrap()).collect();
    last.iter_mut().for_each(|client| client.send(&request).unwrap());
    wait_until("all places to be taken", || gauge(&host, "requests_in_flight", "sleep") == CONCURRENCY);
    for client in &mut last {
        assert_eq!(client.read().unwrap().status, 200);
    }
}
