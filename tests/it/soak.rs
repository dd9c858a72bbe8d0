//! What takes minutes and wants a machine of its own: run by `make soak`, one after the other, never by `make test`.
//!
//! Each prints what it measured and fails beyond its bound.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e2e::wire::{self, Wire};
use e2e::{Host, component, model, request, version};

const CLIENTS: usize = 8;

/// What the clients saw in some time.
struct Seen {
    /// Microseconds from sending to the last byte of the answer, in order of size.
    latencies: Vec<u32>,
    took: Duration,
}

impl Seen {
    fn percentile(&self, share: f64) -> u32 {
        let place = (self.latencies.len() as f64 * share) as usize;
        self.latencies[place.min(self.latencies.len() - 1)]
    }

    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    fn line(&self) -> String {
        format!(
            "{} requests, {:.0} a second, p50 {} µs, p99 {} µs",
            self.latencies.len(),
            self.rate(),
            self.percentile(0.5),
            self.percentile(0.99)
        )
    }
}

/// Sends without a pause from [`CLIENTS`] kept connections while `during` runs, and has `check` look at every answer.
fn under_load(url: &str, path: &str, check: impl Fn(&e2e::Reply) + Sync, during: impl FnOnce()) -> Seen {
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let mut latencies = thread::scope(|scope| {
        let client = || {
            let mut wire = Wire::connect(url).unwrap();
            let mut latencies = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let sent = Instant::now();
                wire.send(&wire::post(path, &[], "{}")).unwrap();
                let reply = wire.read().unwrap();
                latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap());
                check(&reply);
            }
            latencies
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        during();
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<u32>>()
    });
    latencies.sort_unstable();
    Seen { latencies, took: started.elapsed() }
}

/// A thousand swaps in a minute under full load: none fails, no answer is of two generations, memory stays, and the slowest of a
/// hundred requests is at most half as slow again.
#[test]
#[ignore = "takes minutes: make soak"]
fn a_thousand_swaps_in_a_minute() {
    const SWAPS: u32 = 1000;
    let versions = ["tests/version_a", "tests/version_b"].map(|name| fs::read(component(name)).unwrap());
    let host = Host::with(Some(&component("tests/version_a")), Some(&model("add")), &["--name", "e"]);
    let put = |component: &[u8]| {
        let url = format!("{}/admin/v1/endpoints/e/plugin", host.admin);
        let reply = request("PUT", &url, &[], component);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["digest"].as_str().unwrap().to_owned()
    };
    // Both are compiled once.
    let [b, a] = [&versions[1], &versions[0]].map(|version| put(version));
    let check = |reply: &e2e::Reply| {
        let (answer, digest) = (reply.json(), reply.header("x-handler-digest").unwrap().to_owned());
        let expected = if digest == a { "a" } else { "b" };
        assert!(digest == a || digest == b, "unknown handler {digest}");
        assert_eq!(
            (reply.status, &answer["pre"], &answer["post"]),
            (200, &expected.into(), &expected.into())
        );
    };
    let before = under_load(&host.url, "/e", check, || thread::sleep(Duration::from_secs(15)));
    let mut memory = Vec::new();
    let mut slowest = Duration::ZERO;
    let during = under_load(&host.url, "/e", check, || {
        let started = Instant::now();
        for n in 0..SWAPS {
            let swap = Instant::now();
            put(&versions[1 - n as usize % 2]);
            slowest = slowest.max(swap.elapsed());
            if n % 200 == 199 {
                memory.push(host.memory("VmRSS") as f64 / 1024.0);
            }
            // A thousand, spread over the minute.
            thread::sleep((Duration::from_secs(60) * (n + 1) / SWAPS).saturating_sub(started.elapsed()));
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(66), "{SWAPS} swaps took {took:?}");
    });
    println!("before: {}", before.line());
    println!("during {SWAPS} swaps: {}; the slowest swap took {slowest:?}", during.line());
    println!("resident after every 200: {memory:.1?} MiB");
    let generation = "modelhost_plugin_generation{endpoint=\"e\"}";
    assert_eq!(host.metric(generation), f64::from(SWAPS + 3));
    assert!(memory[4] < memory[0] + 16.0, "memory grows: {memory:?}");
    let (before, during) = (before.percentile(0.99), during.percentile(0.99));
    assert!(during <= before * 3 / 2, "p99 {during} µs during swaps, {before} µs before");
}

/// A shadow sees every request, after it was answered, and takes what nobody else wants: the requests themselves lose at most
/// three of a hundred. Window by window, with it and without, so that a machine that changes its mind does not decide.
#[test]
#[ignore = "takes minutes: make soak"]
fn a_shadow_costs_next_to_nothing() {
    const PAIRS: usize = 30;
    let host = Host::with(Some(&component("tests/version_a")), Some(&model("add")), &["--name", "e"]);
    let candidate = version("tests/version_a", 1);
    let url = format!("{}/admin/v1/endpoints/e/plugin/candidate", host.admin);
    let check = |reply: &e2e::Reply| assert_eq!(reply.status, 200);
    let window = || under_load(&host.url, "/e", check, || thread::sleep(Duration::from_millis(1000)));
    window();
    let mut shares = Vec::new();
    for _ in 0..PAIRS {
        let without = window();
        let reply = request("PUT", &format!("{url}?mode=shadow&share=1"), &[], &candidate);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let with = window();
        let state = request("GET", &url, &[], b"").json();
        assert!(state["compared"]["same"].as_u64().unwrap() > 0, "nothing was compared: {state}");
        assert_eq!(request("DELETE", &url, &[], b"").status, 200);
        println!(
            "without: {}; with a shadow: {}; compared: {}",
            without.line(),
            with.line(),
            state["compared"]
        );
        shares.push(with.rate() / without.rate());
    }
    shares.sort_by(f64::total_cmp);
    let median = (shares[PAIRS / 2 - 1] + shares[PAIRS / 2]) / 2.0;
    println!(
        "requests a second with a shadow, as a share of those without: {shares:.3?}, median {median:.3}"
    );
    assert!(median >= 0.97, "a shadow takes more than three of a hundred requests");
}
