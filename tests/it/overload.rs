//! More requests than places: who is served, who waits and in which order, who is turned away.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::wire::{self, Wire};
use e2e::{Host, Reply, component, wait_until};

/// A host with one place and `queue` more in the queue, whose handler sleeps, or prints, as the body says.
fn serve(queue: &str, more: &[&str]) -> Host {
    let mut arguments =
        vec!["--name", "door", "--concurrency", "1", "--queue", queue, "--pre-timeout", "30s"];
    arguments.extend(more);
    Host::with(Some(&component("tests/files")), None, &arguments)
}

fn in_flight(host: &Host) -> f64 {
    host.metric(r#"modelhost_requests_in_flight{endpoint="door"}"#)
}

fn queued(host: &Host) -> f64 {
    host.metric(r#"modelhost_requests_queued{endpoint="door"}"#)
}

/// Sends a request on a connection of its own and waits for the answer on another thread.
fn send(host: &Host, body: &str) -> JoinHandle<Reply> {
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&wire::post("/door", &[("x-request-id", body)], body)).unwrap();
    thread::spawn(move || wire.read().unwrap())
}

#[test]
fn one_is_served_one_waits_and_the_third_is_turned_away_at_once() {
    let host = serve("1", &[]);
    let first = send(&host, "sleep:1500");
    wait_until("the first to be served", || in_flight(&host) == 1.0);
    let second = send(&host, "sleep:1");
    wait_until("the second to wait", || queued(&host) == 1.0);
    for _ in 0..5 {
        let started = Instant::now();
        let third = host.post("/door", "sleep:1");
        let text = third.error(503, "overloaded", "admit");
        assert_eq!(third.header("retry-after"), Some("1"), "{text}");
        assert!(started.elapsed() < Duration::from_millis(500), "took {:?}", started.elapsed());
    }
    assert!(!first.is_finished(), "the first was over too soon: the machine is too slow");
    assert_eq!(first.join().unwrap().status, 200);
    assert_eq!(second.join().unwrap().status, 200);
    let refused = host.metric(r#"modelhost_requests_total{endpoint="door",outcome="overloaded"}"#);
    assert_eq!((refused, in_flight(&host), queued(&host)), (5.0, 0.0, 0.0));
}

#[test]
fn without_a_queue_nobody_waits() {
    let host = serve("0", &[]);
    let first = send(&host, "sleep:1000");
    wait_until("the first to be served", || in_flight(&host) == 1.0);
    host.post("/door", "sleep:1").error(503, "overloaded", "admit");
    assert_eq!(first.join().unwrap().status, 200);
    assert_eq!(host.post("/door", "sleep:1").status, 200);
}

#[test]
fn the_queue_is_served_in_order() {
    let host = serve("50", &[]);
    let mut requests = vec![send(&host, "sleep:800")];
    wait_until("the first to be served", || in_flight(&host) == 1.0);
    for n in 0..30 {
        // What the handler prints shows the order in which it ran.
        requests.push(send(&host, &format!("stdout:turn-{n}.")));
        wait_until("it to wait", || queued(&host) == f64::from(n + 1));
    }
    assert!(!requests[0].is_finished(), "the first was over too soon: the machine is too slow");
    for request in requests {
        assert_eq!(request.join().unwrap().status, 200);
    }
    let turns = || -> Vec<u32> {
        let log = host.log();
        log.split("handler: turn-")
            .skip(1)
            .map(|text| text.split('.').next().unwrap().parse().unwrap())
            .collect()
    };
    wait_until("every line in the log", || turns().len() == 30);
    assert_eq!(turns(), (0..30).collect::<Vec<u32>>());
}

/// The clock runs from a request's first byte. This one is slow to send its body, so that its time is over while it
/// waits behind another that came later and still has time.
#[test]
fn a_request_may_run_out_of_time_in_the_queue() {
    let host = serve("4", &["--request-timeout", "1s"]);
    let request = wire::post("/door", &[], "sleep:1");
    let mut early = Wire::connect(&host.url).unwrap();
    let (head, rest) = request.split_at(request.len() - 1);
    early.send(head).unwrap();
    // The load pattern: the gap between the two deadlines.
    thread::sleep(Duration::from_millis(400));
    let late = send(&host, "sleep:5000");
    wait_until("the late one to be served", || in_flight(&host) == 1.0);
    early.send(rest).unwrap();
    early.read().unwrap().error(504, "request_timeout", "admit");
    assert!(!late.is_finished(), "the late one still has time");
    late.join().unwrap().error(504, "request_timeout", "pre_inference");
    wait_until("both places to be free", || (in_flight(&host), queued(&host)) == (0.0, 0.0));
    assert_eq!(host.post("/door", "sleep:1").status, 200);
}

/// Whoever sends a body has a place already; nobody else's body is waited for.
#[test]
fn a_request_has_its_place_from_its_head_on() {
    let host = serve("1", &[]);
    let request = wire::post("/door", &[("expect", "100-continue")], "sleep:1");
    let (head, rest) = request.split_at(request.len() - 1);
    let mut slow = [(); 2].map(|()| Wire::connect(&host.url).unwrap());
    let mut late = Wire::connect(&host.url).unwrap();
    for client in &mut slow {
        client.send(head).unwrap();
        // Sent when the host asks for the body: the place is taken.
        assert_eq!(client.read().unwrap().status, 100);
    }
    assert_eq!((in_flight(&host), queued(&host)), (0.0, 0.0));
    // A third takes the place of the one that has waited longest for its body; its own is there.
    late.send(&request).unwrap();
    assert_eq!(late.read().unwrap().status, 100);
    assert_eq!(late.read().unwrap().status, 200);
    slow[0].read().unwrap().error(503, "overloaded", "admit");
    slow[1].send(rest).unwrap();
    assert_eq!(slow[1].read().unwrap().status, 200);
    // Those whose bodies are there lose their places to none.
    let mut busy = [(); 2].map(|()| Wire::connect(&host.url).unwrap());
    for (number, client) in (1_u8..).zip(&mut busy) {
        client.send(&wire::post("/door", &[], "sleep:500")).unwrap();
        wait_until("its place", || in_flight(&host) + queued(&host) == f64::from(number));
    }
    host.post("/door", "sleep:1").error(503, "overloaded", "admit");
    for client in &mut busy {
        assert_eq!(client.read().unwrap().status, 200);
    }
    assert_eq!(host.post("/door", "sleep:1").status, 200);
}

/// Many more clients than places, all the time: each gets an answer or a refusal, the books balance, and nobody who was
/// let in fails.
#[test]
fn a_crowd_is_served_as_far_as_there_is_room() {
    let host = serve("3", &[]);
    let crowd: Vec<_> = (0..24)
        .map(|client| {
            let mut wire = Wire::connect(&host.url).unwrap();
            thread::spawn(move || {
                let mut statuses = [0, 0];
                for n in 0..10 {
                    let id = format!("crowd-{client}-{n}");
                    wire.send(&wire::post("/door", &[("x-request-id", &id)], "sleep:2")).unwrap();
                    let reply = wire.read().unwrap();
                    match reply.status {
                        200 => statuses[0] += 1,
                        _ => {
                            reply.error(503, "overloaded", "admit");
                            statuses[1] += 1;
                        }
                    }
                }
                statuses
            })
        })
        .collect();
    let (mut served, mut refused) = (0, 0);
    for client in crowd {
        let [ok, overloaded] = client.join().unwrap();
        served += ok;
        refused += overloaded;
    }
    let total = |outcome| {
        host.metric(&format!("modelhost_requests_total{{endpoint=\"door\",outcome=\"{outcome}\"}}")) as usize
    };
    assert_eq!((total("ok"), total("overloaded")), (served, refused));
    assert!(served >= 4, "only {served} of 240 were served");
    assert_eq!((in_flight(&host), queued(&host)), (0.0, 0.0));
}
