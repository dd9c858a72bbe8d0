//! Requests that share a run of the model: who runs with whom, and that every answer is the asker's own.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::load::alone;
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, model};
use serde_json::{Value, json};

/// A bare model that batches.
fn serve(name: &str, more: &[&str]) -> Host {
    Host::with(None, Some(&model(name)), &[&["--name", "m"], more].concat())
}

/// Sends each body at the same time, on connections that are there already, and gives the replies in order.
fn together(host: &Host, bodies: &[Value]) -> Vec<Reply> {
    let mut wires: Vec<Wire> = bodies.iter().map(|_| Wire::connect(&host.url).unwrap()).collect();
    for (wire, body) in wires.iter_mut().zip(bodies) {
        wire.send(&wire::post("/m", &[], &body.to_string())).unwrap();
    }
    let replies: Vec<JoinHandle<Reply>> =
        wires.into_iter().map(|mut wire| thread::spawn(move || wire.read().unwrap())).collect();
    replies.into_iter().map(|reply| reply.join().unwrap()).collect()
}

/// A request to the model `rows`: `x`, an index that exists up to 2, and a text, for each of its rows.
fn rows(x: &[Vec<f64>], index: usize, text: &str) -> Value {
    json!({ "x": x, "index": vec![index; x.len()], "text": vec![text; x.len()] })
}

/// What `rows` answers to that.
fn doubled(x: &[Vec<f64>], index: usize, text: &str) -> Value {
    let twice: Vec<Vec<f64>> = x.iter().map(|row| row.iter().map(|value| value * 2.0).collect()).collect();
    json!([twice, vec![[1.0, 2.0, 3.0][index]; x.len()], vec![text; x.len()]])
}

#[test]
fn a_batch_closes_when_it_is_full_or_its_oldest_has_waited_long_enough() {
    let _alone = alone();
    let delay = Duration::from_millis(1500);
    let host = serve(
        "batch_size",
        &["--max-batch", "4", "--max-delay", "1500ms", "--batch-wait", "always", "--trust-rows"],
    );
    let shared = |requests: usize| {
        let started = Instant::now();
        let replies = together(&host, &vec![json!([0.0]); requests]);
        let mut sizes: Vec<u64> = replies.iter().map(|reply| reply.json()[0][0].as_u64().unwrap()).collect();
        sizes.sort_unstable();
        (sizes, started.elapsed())
    };
    let (sizes, took) = shared(3);
    assert_eq!(sizes, [3, 3, 3]);
    assert!(took >= delay, "{took:?}");
    let (sizes, took) = shared(4);
    assert_eq!(sizes, [4, 4, 4, 4]);
    assert!(took < delay, "{took:?}");
    let (sizes, took) = shared(5);
    assert_eq!(sizes, [1, 4, 4, 4, 4]);
    assert!(took >= delay, "{took:?}");
    // Runs, and the requests in them.
    assert_eq!(host.metric(r#"modelhost_batch_requests_count{endpoint="m"}"#), 4.0);
    assert_eq!(host.metric(r#"modelhost_batch_requests_sum{endpoint="m"}"#), 12.0);
}

#[test]
fn an_idle_server_adds_no_delay() {
    for name in ["batch_size", "rows"] {
        let host = serve(name, &["--max-batch", "4", "--max-delay", "1h", "--trust-rows"]);
        let body = if name == "rows" { rows(&[vec![1.0]], 0, "") } else { json!([0.0]) };
        for _ in 0..3 {
            assert_eq!(host.post("/m", body.to_string()).status, 200, "{name}");
        }
    }
}

#[test]
fn one_bad_request_fails_alone() {
    let host = serve("rows", &["--max-batch", "4", "--max-delay", "1h", "--batch-wait", "always"]);
    let x = |value: f64| vec![vec![value, -value]];
    let bodies: Vec<Value> =
        [0, 1, 7, 2].iter().map(|&index| rows(&x(index as f64), index, &index.to_string())).collect();
    let replies = together(&host, &bodies);
    for (index, reply) in [0, 1, 7, 2].into_iter().zip(replies) {
        if index == 7 {
            assert_eq!(reply.error(500, "model_error", "infer"), "the model failed");
        } else {
            assert_eq!(
                (reply.status, reply.json()),
                (200, doubled(&x(index as f64), index, &index.to_string()))
            );
        }
    }
}

#[test]
fn a_model_that_loses_rows_fails_the_batch_and_nobody_waits() {
    let host = serve(
        "drops_a_row",
        &["--max-batch", "4", "--max-delay", "300ms", "--batch-wait", "always", "--trust-rows"],
    );
    for reply in together(&host, &vec![json!([0.0]); 3]) {
        assert_eq!(reply.error(500, "model_error", "infer"), "the model failed");
    }
    host.wait_for_log("so its rows belong to no request");
    for reply in together(&host, &vec![json!([0.0]); 4]) {
        assert_eq!(reply.json(), json!([[4]]));
    }
}

#[test]
fn other_shapes_neither_spoil_a_batch_nor_wait_for_ever() {
    let host = serve("rows", &["--max-batch", "4", "--max-delay", "200ms", "--batch-wait", "always"]);
    let x = |request: usize| vec![vec![request as f64; 1 + request % 3]; 1 + request % 2];
    let bodies: Vec<Value> = (0..13).map(|n| rows(&x(n), n % 3, &n.to_string())).collect();
    for (n, reply) in together(&host, &bodies).into_iter().enumerate() {
        assert_eq!((reply.status, reply.json()), (200, doubled(&x(n), n % 3, &n.to_string())), "{n}");
    }
    // More rows than a batch may have run alone; none at all, too.
    let many = vec![vec![1.0]; 9];
    assert_eq!(host.post("/m", rows(&many, 1, "").to_string()).json(), doubled(&many, 1, ""));
    // Inputs that disagree on the number of rows are the model's business, as without batching.
    let odd = json!({ "x": [[1.0], [2.0]], "index": [2], "text": ["a", "b", "c"] });
    assert_eq!(host.post("/m", odd.to_string()).json(), json!([[[2.0], [4.0]], [3.0], ["a", "b", "c"]]));
}

#[test]
fn a_model_that_cannot_batch_is_refused_at_start_with_the_reason() {
    for (name, reason) in [
        ("iris_static", "the first extent of input `input` is fixed at 1"),
        ("scalar", "input `x` has no first extent"),
        ("sum", "output `total` has shape [] in a batch of 2"),
        ("first_row", "output `y` has shape [1] in a batch of 2"),
        ("running_sum", "output `y` of row 2 depends on the other rows of its batch"),
    ] {
        let path = model(name).display().to_string();
        let Err((status, log)) = Host::try_serve(&["--model", &path, "--max-batch", "8"]) else {
            panic!("{name} was taken");
        };
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains("cannot batch for model") && log.contains(reason), "{log}");
        assert!(log.contains("hint: remove `batching`"), "{log}");
    }
}

#[test]
fn who_hangs_up_leaves_the_line_before_it_costs_model_time() {
    let _alone = alone();
    let host = serve("seconds", &["--instances", "1", "--request-timeout", "10m"]);
    let body = "[1.0]";
    let started = Instant::now();
    host.post("/m", body);
    let run = started.elapsed();
    let mut first = Wire::connect(&host.url).unwrap();
    first.send(&wire::post("/m", &[], body)).unwrap();
    let gone: Vec<Wire> = (0..8)
        .map(|_| {
            let mut wire = Wire::connect(&host.url).unwrap();
            wire.send(&wire::post("/m", &[], body)).unwrap();
            wire
        })
        .collect();
    let series = r#"modelhost_requests_in_flight{endpoint="m"}"#;
    e2e::wait_until("all to be there", || host.metric(series) == 9.0);
    drop(gone);
    let started = Instant::now();
    assert_eq!(host.post("/m", body).status, 200);
    // Two runs; ten, had nobody left. The machine may be busier now than for the first.
    assert!(started.elapsed() < 8 * run, "{:?}, and a run takes {run:?}", started.elapsed());
    assert_eq!(first.read().unwrap().status, 200);
    assert_eq!(host.metric(r#"modelhost_requests_total{endpoint="m",outcome="cancelled"}"#), 8.0);
}

#[test]
fn a_request_whose_time_is_up_never_runs() {
    let _alone = alone();
    let host = serve("seconds", &["--instances", "1", "--request-timeout", "400ms"]);
    // The host has run the model once, to warm it up, and little else.
    let at_start = cpu_seconds(&host);
    let one_run = at_start;
    let started = Instant::now();
    let replies = together(&host, &vec![json!([1.0]); 8]);
    for reply in replies {
        reply.error(504, "request_timeout", "infer");
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    // One of them was running. When that run is over the process rests: none of the others ran.
    let (mut before, mut since) = (cpu_seconds(&host), Instant::now());
    e2e::wait_until("the run to end", || {
        let now = cpu_seconds(&host);
        if now > before + 0.02 {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(300)
    });
    let spent = cpu_seconds(&host) - at_start;
    assert!(spent < 3.0 * one_run, "{spent} s of CPU, and a run takes {one_run}");
}

/// User and system time of the process so far.
pub(crate) fn cpu_seconds(host: &Host) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", host.pid())).unwrap();
    // The name in parentheses may hold anything; what follows it are numbers.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// Ten thousand requests of all kinds at once: every answer is that request's own.
#[test]
fn ten_thousand_mixed_requests() {
    const CLIENTS: usize = 24;
    const REQUESTS: usize = 10_000;
    let _alone = alone();
    let host = serve("rows", &["--max-batch", "16", "--max-delay", "1ms", "--concurrency", "64"]);
    let clients: Vec<JoinHandle<[usize; 4]>> = (0..CLIENTS)
        .map(|client| {
            let url = host.url.clone();
            thread::spawn(move || {
                let mut wire = Wire::connect(&url).unwrap();
                let mut seen = [0; 4];
                for number in (client..REQUESTS).step_by(CLIENTS) {
                    // Some order that differs from client to client.
                    let chance = number.wrapping_mul(2_654_435_761) >> 7;
                    let (count, width) = (1 + chance % 5, 1 + chance % 3);
                    let x: Vec<Vec<f64>> =
                        (0..count).map(|row| vec![(number * 8 + row) as f64; width]).collect();
                    let (index, text) = (number % 3, format!("{client}/{number}"));
                    let kind = if chance % 10 < 7 { 0 } else { chance % 4 };
                    let body = match kind {
                        // The model fails on it.
                        1 => rows(&x, 9, &text),
                        // It fits no input.
                        2 => json!({ "x": [[1.0], [1.0, 2.0]], "index": [0], "text": [text] }),
                        _ => rows(&x, index, &text),
                    };
                    wire.send(&wire::post("/m", &[("x-request-id", &text)], &body.to_string())).unwrap();
                    seen[kind] += 1;
                    if kind == 3 {
                        // Gone, while it waits or runs.
                        wire = Wire::connect(&url).unwrap();
                        continue;
                    }
                    let reply = wire.read().unwrap();
                    assert_eq!(reply.header("x-request-id"), Some(text.as_str()));
                    match kind {
                        0 => assert_eq!(
                            (reply.status, reply.json()),
                            (200, doubled(&x, index, &text)),
                            "{body}"
                        ),
                        1 => drop(reply.error(500, "model_error", "infer")),
                        _ => drop(reply.error(400, "invalid_input", "pre_inference")),
                    }
                }
                seen
            })
        })
        .collect();
    let mut seen = [0; 4];
    for client in clients {
        let counts = client.join().unwrap();
        seen.iter_mut().zip(counts).for_each(|(all, one)| *all += one);
    }
    assert_eq!(seen.iter().sum::<usize>(), REQUESTS);
    assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    // They did share runs.
    let runs = host.metric(r#"modelhost_batch_requests_count{endpoint="m"}"#);
    let requests = host.metric(r#"modelhost_batch_requests_sum{endpoint="m"}"#);
    assert!(requests > 1.5 * runs, "{requests} requests in {runs} runs");
    e2e::wait_until("nobody to be in flight", || {
        host.metric(r#"modelhost_requests_in_flight{endpoint="m"}"#) == 0.0
    });
}
