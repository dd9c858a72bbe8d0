//! The process's places for instances: many endpoints share them, idle ones make way, no endpoint gets all of them, and there is a clear
//! answer when there is none. And that a process at rest costs nothing.

use std::thread;
use std::time::{Duration, Instant};

use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, component, wait_until};

/// Endpoints `e0`, `e1`, … with the guest that sleeps as the body says.
fn serve(endpoints: usize, places: &str) -> Host {
    let endpoint = |number| Endpoint::new(format!("e{number}")).guest("files").limits("pre_timeout = '30s'");
    Setup::of((0..endpoints).map(endpoint)).tables(format!("[plugin]\ninstances = {places}")).serve()
}

fn alive(host: &Host) -> f64 {
    let metrics = host.metrics();
    let of = |line: &str| -> Option<f64> {
        line.strip_prefix("modelhost_plugin_instances{")?.rsplit(' ').next()?.parse().ok()
    };
    metrics.lines().filter_map(of).sum()
}

/// Sends requests that stay for long.
fn occupy(host: &Host, path: &str, count: usize) -> Vec<Wire> {
    let begin = |_| {
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&wire::post(path, &[], "sleep:60000")).unwrap();
        wire
    };
    (0..count).map(begin).collect()
}

#[test]
fn hundreds_of_endpoints_start_at_default_limits_and_all_answer() {
    let host = serve(300, "'auto'");
    for number in 0..300 {
        assert_eq!(host.post(&format!("/e{number}"), "sleep:0").status, 200, "{number}");
    }
}

#[test]
fn idle_instances_make_way() {
    let host = serve(12, "4");
    for number in (0..12).cycle().take(60) {
        let reply = host.post(&format!("/e{number}"), "sleep:0");
        assert_eq!(reply.status, 200, "{number}: {}", reply.text());
        assert!(alive(&host) <= 4.0);
    }
}

#[test]
fn without_a_place_the_answer_is_clear_and_the_others_go_on() {
    let host = serve(3, "4");
    let busy = occupy(&host, "/e0", 4);
    wait_until("all places to be taken", || alive(&host) == 4.0 && host.post("/e1", "sleep:0").status == 503);
    let reply = host.post("/e2", "sleep:0");
    let text = reply.error(503, "overloaded", "admit");
    assert_eq!(text, "all places for instances of handlers are taken");
    assert!(reply.header("retry-after").is_some());
    host.wait_for_log("hint: `plugin.instances`");
    drop(busy);
    for path in ["/e0", "/e1", "/e2"] {
        wait_until("a place", || host.post(path, "sleep:0").status == 200);
    }
}

#[test]
fn one_endpoint_does_not_get_what_is_left_for_the_others() {
    let host = serve(4, "16");
    for path in ["/e1", "/e2"] {
        assert_eq!(host.post(path, "sleep:0").status, 200);
    }
    let busy = occupy(&host, "/e0", 40);
    // All but the last two, which are for endpoints that hold less; and those two were idle.
    wait_until("the others to be refused", || {
        host.metric(r#"modelhost_requests_total{endpoint="e0",outcome="overloaded"}"#) > 0.0
    });
    for _ in 0..20 {
        for path in ["/e1", "/e2", "/e3"] {
            let reply = host.post(path, "sleep:0");
            assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        }
    }
    drop(busy);
}

/// Switches of the thread that counts ticks: how often it has run.
fn switches(host: &Host) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", host.pid())).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        status.contains("epoch-ticker").then(|| line.split_whitespace().nth(1).unwrap().parse().unwrap())
    };
    tasks.into_iter().find_map(of).expect("a thread that counts")
}

/// Nothing is counted while no guest runs; one that begins then is cut off as ever.
#[test]
fn time_is_counted_again_after_a_rest() {
    let spin = component("tests/spin_pre");
    let host = Host::with(Some(&spin), None, &["--name", "spin", "--pre-timeout", "100ms"]);
    for _ in 0..3 {
        wait_until("the rest", || {
            let before = switches(&host);
            thread::sleep(Duration::from_millis(300));
            switches(&host) - before < 20
        });
        let started = Instant::now();
        host.post("/spin", "spin").error(504, "plugin_timeout", "pre_inference");
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
