//! What takes minutes and wants a machine of its own: run by `make soak`, one after the other, never by `make test`.
//!
//! Each prints what it measured and fails beyond its bound.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e2e::setup::{Endpoint, Setup};
use e2e::socket::WebSocket;
use e2e::wire::{self, Wire};
use e2e::{Host, component, model, request, version, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

const STREAMS: usize = 1000;
const EVENTS: usize = 200;

/// A thousand streams of server-sent events at once, ten events a second each, through three swaps: every one comes to its end.
/// What a stream takes of memory and an event of the host's CPU is printed.
#[test]
#[ignore = "takes minutes: make soak"]
fn a_thousand_streams() {
    for (guest, path) in [
        ("tests/responder", format!("/e/ticks/{EVENTS}?ms=100")),
        ("tests/application", format!("/e/stream?events={EVENTS}&pause_ms=100")),
    ] {
        let places = (STREAMS + 50).to_string();
        let host = Host::with(Some(&component(guest)), None, &["--name", "e", "--concurrency", &places]);
        assert_eq!(host.get(&path.replace("200", "1").replace("100", "1")).status, 200);
        let before = host.memory("VmRSS");
        let seen = Arc::<AtomicUsize>::default();
        let address = host.url.strip_prefix("http://").unwrap().to_owned();
        let client = thread::spawn({
            let (path, seen) = (path.clone(), seen.clone());
            move || take_streams(&address, &path, &seen)
        });
        let in_flight = "modelhost_requests_in_flight{endpoint=\"e\"}";
        wait_until("all streams to be open", || host.metric(in_flight) >= STREAMS as f64);
        let memory = (host.memory("VmRSS") - before) as f64 / STREAMS as f64;
        let (cpu, events) = (host.cpu(), seen.load(Ordering::Relaxed));
        thread::sleep(Duration::from_secs(8));
        let (cpu, events) = (host.cpu() - cpu, seen.load(Ordering::Relaxed) - events);
        let each = cpu.as_secs_f64() * 1e6 / events as f64;
        println!("{guest}: {memory:.0} KiB a stream; {events} events, {each:.1} µs of CPU each");
        for note in 1..=3 {
            let url = format!("{}/admin/v1/endpoints/e/plugin", host.admin);
            let reply = request("PUT", &url, &[], &version(guest, note));
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        for (number, text) in client.join().unwrap().iter().enumerate() {
            assert!(text.ends_with("\r\n0\r\n\r\n"), "stream {number}: {text}");
            assert_eq!(text.matches("data: ").count(), EVENTS, "stream {number}: {text}");
        }
        wait_until("all places to be free", || host.metric(in_flight) == 0.0);
        assert!(memory < 600.0, "{memory} KiB a stream");
    }
}

/// A thousand open WebSockets: each answers before a swap and after it, none is cut. What one takes of memory, what all take of the
/// CPU while nothing is said, and a message's CPU time are printed.
#[test]
#[ignore = "takes minutes: make soak"]
fn a_thousand_sockets() {
    const ROUNDS: usize = 5;
    const IDLE: Duration = Duration::from_secs(8);
    let limits = format!("sockets = {}", STREAMS + 50);
    let host = Setup::of([Endpoint::new("talk").guest("socket").limits(&limits)]).serve();
    let open = || WebSocket::open(&host.url, "/talk", &[]).unwrap_or_else(|reply| panic!("{}", reply.text()));
    assert_eq!(open().ask("a"), "echo a");
    let before = host.memory("VmRSS");
    let mut sockets: Vec<_> = (0..STREAMS).map(|_| open()).collect();
    let ask_all = |sockets: &mut [WebSocket], text: &str| {
        for socket in sockets {
            assert_eq!(socket.ask(text), format!("echo {text}"));
        }
    };
    ask_all(&mut sockets, "before");
    let memory = (host.memory("VmRSS") - before) as f64 / STREAMS as f64;
    let cpu = host.cpu();
    thread::sleep(IDLE);
    let idle = (host.cpu() - cpu).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let url = format!("{}/admin/v1/endpoints/talk/plugin", host.admin);
    let reply = request("PUT", &url, &[], &version("tests/socket", 1));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let cpu = host.cpu();
    (0..ROUNDS).for_each(|_| ask_all(&mut sockets, "after"));
    let each = (host.cpu() - cpu).as_secs_f64() * 1e6 / (ROUNDS * STREAMS) as f64;
    println!(
        "{memory:.0} KiB a socket; {idle:.1} % of a core while idle; {each:.1} µs of CPU a message and its answer"
    );
    for mut socket in sockets {
        socket.say("bye");
        assert_eq!(socket.closed().0, 1000);
    }
    wait_until("all sockets to be over", || {
        host.metric("modelhost_websockets_open{endpoint=\"talk\"}") == 0.0
    });
    assert!(memory < 400.0, "{memory} KiB a socket");
}

/// All that comes of so many requests for a path; counts events as they come.
fn take_streams(address: &str, path: &str, seen: &Arc<AtomicUsize>) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    runtime.block_on(async {
        let stream = |_| {
            let (address, head, seen) = (address.to_owned(), head.clone(), seen.clone());
            tokio::spawn(async move {
                let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
                socket.write_all(head.as_bytes()).await.unwrap();
                let (mut all, mut bytes) = (String::new(), [0; 4096]);
                loop {
                    let length = socket.read(&mut bytes).await.unwrap();
                    let text = String::from_utf8_lossy(&bytes[..length]);
                    seen.fetch_add(text.matches("data: ").count(), Ordering::Relaxed);
                    all += &text;
                    if length == 0 {
                        return all;
                    }
                }
            })
        };
        let streams: Vec<_> = (0..STREAMS).map(stream).collect();
        let mut texts = Vec::new();
        for stream in streams {
            texts.push(stream.await.unwrap());
        }
        texts
    })
}
