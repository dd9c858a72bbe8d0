//! Hostile handlers: each costs its own request a typed error and nobody else anything.
//!
//! Every case runs on one host, beside an endpoint whose requests must all be answered, correctly and soon.

use std::thread;
use std::time::{Duration, Instant};

use e2e::load::{Pattern, alone, assert_echoed};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, component, wait_until};

/// Longest a neighbour's request may take. Alone it takes about a millisecond. A guest holds an async worker for two
/// ticks (4 ms) and then competes as one thread among others, so two cores that are full of guests cost a
/// neighbour some scheduler slices for each of its wake-ups. The rest is reserve for a machine that runs other tests
/// meanwhile; a host that lets a guest keep a worker until its deadline is far beyond it.
const SOON: Duration = Duration::from_millis(500);
/// The same beside 32 guests that spin at once, and builds of other tests. A host that lets each keep a worker until
/// its deadline takes 32 times 200 ms on two workers.
const SOON_BESIDE_SPINNERS: Duration = Duration::from_secs(2);

/// One hostile endpoint per guest, and `/neighbour`.
fn serve() -> Host {
    // Handlers that are hostile have little output, and those that would never end little time.
    let hostile = |guest: &str| endpoint(guest, guest).limits("output = '1MiB'");
    Setup::of(["spin_pre", "spin_post", "files"].map(|guest| hostile(guest).limits(&both("200ms"))))
        .endpoint(hostile("hog").limits(&both("10s")))
        .endpoint(hostile("trap").limits(&both("10s")))
        .endpoint(hostile("liar").limits(&both("10s")))
        .endpoint(
            endpoint("strict", "liar").model("iris_static").limits("output = '1MiB'").limits(&both("10s")),
        )
        .endpoint(endpoint("neighbour", "echo").limits(&both("10s")))
        .serve()
}

fn endpoint(name: &str, guest: &str) -> Endpoint {
    Endpoint::new(name).guest(guest).limits("concurrency = 32")
}

/// This much time for either function.
fn both(time: &str) -> String {
    format!("pre_timeout = '{time}', post_timeout = '{time}'")
}

const PRE: &str = "pre_inference";
const POST: &str = "post_inference";

/// Endpoint, what makes it misbehave, and the status, code and stage that follow.
const HOSTILE: [(&str, &str, u16, &str, &str); 37] = [
    ("spin_pre", "spin", 504, "plugin_timeout", PRE),
    ("spin_post", "spin", 504, "plugin_timeout", POST),
    ("files", "sleep:30000", 504, "plugin_timeout", PRE),
    ("hog", "hog", 500, "plugin_out_of_memory", PRE),
    ("trap", "unreachable", 500, "plugin_trap", PRE),
    ("trap", "panic", 500, "plugin_trap", PRE),
    ("trap", "recurse", 500, "plugin_trap", PRE),
    ("trap", "exit", 500, "plugin_trap", PRE),
    ("trap", "post:unreachable", 500, "plugin_trap", POST),
    ("trap", "post:panic", 500, "plugin_trap", POST),
    ("trap", "post:recurse", 500, "plugin_trap", POST),
    ("trap", "post:exit", 500, "plugin_trap", POST),
    // Tensors that are none, whatever the model.
    ("liar", "length", 500, "plugin_bad_output", PRE),
    ("liar", "overflow", 500, "plugin_bad_output", PRE),
    ("liar", "bool", 500, "plugin_bad_output", PRE),
    ("liar", "bytes", 500, "plugin_bad_output", PRE),
    ("liar", "many", 500, "plugin_bad_output", PRE),
    ("liar", "rank", 500, "plugin_bad_output", PRE),
    // Tensors that this model does not take.
    ("strict", "length", 500, "plugin_bad_output", PRE),
    ("strict", "dtype", 500, "plugin_bad_output", PRE),
    ("strict", "shape", 500, "plugin_bad_output", PRE),
    ("strict", "none", 500, "plugin_bad_output", PRE),
    ("strict", "twice", 500, "plugin_bad_output", PRE),
    ("strict", "stranger", 500, "plugin_bad_output", PRE),
    // Responses that HTTP does not have.
    ("liar", "status 99", 500, "plugin_bad_output", POST),
    ("liar", "status 600", 500, "plugin_bad_output", POST),
    ("liar", "header-name", 500, "plugin_bad_output", POST),
    ("liar", "header-value", 500, "plugin_bad_output", POST),
    ("liar", "hop", 500, "plugin_bad_output", POST),
    ("liar", "content-length", 500, "plugin_bad_output", POST),
    ("liar", "content-type", 500, "plugin_bad_output", POST),
    ("liar", "json", 500, "plugin_bad_output", POST),
    // More than `limits.output`, in one piece, in many headers, and far more.
    ("liar", "flood 1100000", 500, "plugin_bad_output", POST),
    ("liar", "headers 200000", 500, "plugin_bad_output", POST),
    ("liar", "flood 40000000", 500, "plugin_bad_output", POST),
    // More than `limits.memory` on the way there.
    ("liar", "flood 70000000", 500, "plugin_out_of_memory", POST),
    ("strict", "flood 1100000", 500, "plugin_bad_output", POST),
];

#[test]
fn a_hostile_handler_costs_one_request_and_nobody_else_anything() {
    let _alone = alone();
    let host = serve();
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for (number, (endpoint, body, status, code, stage)) in HOSTILE.into_iter().enumerate() {
        let id = format!("hostile-{number}");
        let headers = [("content-type", "text/plain"), ("x-request-id", &*id)];
        let path = format!("/{endpoint}");
        let started = Instant::now();
        let reply = host.request("POST", &path, &headers, body.as_bytes());
        let took = started.elapsed();
        eprintln!("{endpoint} `{body}`: {} in {took:?}", reply.text());
        let text = reply.error(status, code, stage);
        assert_eq!(reply.header("x-request-id"), Some(&*id), "{endpoint} `{body}`");
        assert!(!text.contains("/mnt") && !text.contains("0x"), "{endpoint} `{body}`: {text}");
        assert!(took < Duration::from_secs(2), "{endpoint} `{body}` took {took:?}");
        // The log says more than the caller is told, under the same id.
        wait_until("a line in the log", || {
            host.log().lines().any(|line| line.contains(&id) && line.contains(code))
        });

        let next = host.request("POST", &path, &headers, b"env:none");
        assert_eq!(next.status, 200, "{endpoint} after `{body}`: {}", next.text());
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON);
}

#[test]
fn a_panic_speaks_in_the_log_and_not_to_the_caller() {
    let host = serve();
    // A trap without a word of its own is explained by a backtrace of the guest.
    for (n, (body, words)) in
        [("panic", "the test asked for a panic"), ("recurse", "trap::recurse")].iter().enumerate()
    {
        let id = format!("death-{n}");
        let reply = host.request("POST", "/trap", &[("x-request-id", &id)], body.as_bytes());
        assert!(!reply.text().contains(*words), "{}", reply.text());
        wait_until("the words in the log", || {
            host.log().lines().any(|line| line.contains(&id) && line.contains(*words))
        });
    }
}

#[test]
fn thirty_two_spinners_at_once_do_not_stop_the_neighbour() {
    let _alone = alone();
    let host = serve();
    let neighbour = Pattern::new(&host.url, "/neighbour").start();
    for (endpoint, stage) in [("/spin_pre", PRE), ("/spin_post", POST)] {
        let spinners: Vec<_> = (0..32)
            .map(|_| {
                let mut wire = Wire::connect(&host.url).unwrap();
                thread::spawn(move || {
                    wire.send(&wire::post(endpoint, &[], "spin")).unwrap();
                    wire.read().unwrap()
                })
            })
            .collect();
        for spinner in spinners {
            spinner.join().unwrap().error(504, "plugin_timeout", stage);
        }
        assert_eq!(host.post(endpoint, "hello").json()["body"], "hello");
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON_BESIDE_SPINNERS);
}

/// The counterpart of `flood`: the limit is one call's, not the instance's whole life's.
#[test]
fn output_below_the_limit_is_never_used_up() {
    let host = serve();
    for _ in 0..20 {
        let reply = host.post("/liar", "flood 900000");
        assert_eq!((reply.status, reply.body.len()), (200, 900_000));
    }
}

/// A handler that takes no for an answer may go on; its instance stays in use.
#[test]
fn memory_is_granted_up_to_the_limit() {
    let host = Host::with(Some(&component("tests/hog")), None, &["--instance-memory", "16MiB"]);
    let granted = || host.post("/", "ask").json()["mebibytes"].as_u64().unwrap();
    let first = granted();
    assert!((8..16).contains(&first), "{first} MiB");
    assert_eq!(granted(), first, "what one request was granted is there for the next");
    host.post("/", "hog").error(500, "plugin_out_of_memory", PRE);
    assert_eq!(granted(), first, "a fresh instance has the same limit");
}
