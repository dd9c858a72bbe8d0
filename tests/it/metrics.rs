//! What is counted, and that it is counted right.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::TcpStream;
use std::thread;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, request, wait_until};

use crate::reference;

/// An endpoint that has the name of its guest.
fn guest(name: &str) -> Endpoint {
    Endpoint::new(name).guest(name)
}

fn outcome(host: &Host, endpoint: &str, outcome: &str) -> f64 {
    host.metric(&format!("modelhost_requests_total{{endpoint=\"{endpoint}\",outcome=\"{outcome}\"}}"))
}

fn of(host: &Host, metric: &str, endpoint: &str) -> f64 {
    host.metric(&format!("{metric}{{endpoint=\"{endpoint}\"}}"))
}

/// Endpoint, body, code: each makes one failure.
const FAILURES: [(&str, &str, &str); 11] = [
    ("bare", "{}", "invalid_input"),
    ("gather", "[9]", "model_error"),
    ("values", "error", "plugin_error"),
    ("values", "invalid", "invalid_input"),
    ("trap", "unreachable", "plugin_trap"),
    ("trap", "post:panic", "plugin_trap"),
    ("hog", "hog", "plugin_out_of_memory"),
    ("liar", "length", "plugin_bad_output"),
    ("spin", "spin", "plugin_timeout"),
    ("slow", "5000", "request_timeout"),
    ("small", "                                ", "body_too_large"),
];

#[test]
fn every_outcome_is_counted_once_under_its_name() {
    let one = "pre_timeout = '100s', request_timeout = '100s', concurrency = 1, queue = 0";
    let host = Setup::of([
        Endpoint::new("bare").model("iris_dyn"),
        Endpoint::new("gather").model("gather"),
        guest("values"),
        guest("trap"),
        guest("hog").limits("memory = '16MiB', pre_timeout = '30s'"),
        guest("liar"),
        Endpoint::new("spin").guest("spin_pre").limits("pre_timeout = '50ms'"),
        guest("slow").limits("pre_timeout = '10s', request_timeout = '100ms'"),
        Endpoint::new("small").guest("echo").limits("body = '1KiB'"),
        Endpoint::new("one").guest("files").limits(one),
    ])
    .serve();
    let statuses = reference::statuses();
    let mut expected: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    let mut provoked: BTreeSet<&str> = BTreeSet::new();
    for (name, body, code) in FAILURES {
        let before = expected.entry((name, code)).or_default();
        assert_eq!(outcome(&host, name, code), *before);
        let body = if code == "body_too_large" { body.repeat(100) } else { body.to_owned() };
        let reply = host.post(&format!("/{name}"), body);
        assert_eq!(reply.json()["code"], code, "{name}: {}", reply.text());
        assert_eq!(Some(&reply.status), statuses.get(code), "the status in docs/reference.md of `{code}`");
        *before += 1.0;
        assert_eq!(outcome(&host, name, code), *before, "{name}: {code}");
        assert_eq!(outcome(&host, name, "ok"), 0.0);
        provoked.insert(code);
    }
    let reply = host.request("POST", "/bare", &[("content-type", "text/plain")], b"x");
    assert_eq!((reply.status, outcome(&host, "bare", "unsupported_media_type")), (415, 1.0));

    let unload = format!("{}/admin/v1/endpoints/bare/models/default/unload", host.admin);
    assert_eq!(e2e::request("POST", &unload, &[], b"").status, 200);
    assert_eq!((host.post("/bare", "[1]").status, outcome(&host, "bare", "model_unloaded")), (503, 1.0));

    // One request holds the only place until its client goes away. It sleeps; computing would go on to its end.
    let mut busy = TcpStream::connect(host.url.strip_prefix("http://").unwrap()).unwrap();
    write!(busy, "POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\nsleep:100000").unwrap();
    wait_until("the request in flight", || of(&host, "modelhost_requests_in_flight", "one") == 1.0);
    let reply = host.post("/one", "sleep:0");
    reply.error(503, "overloaded", "admit");
    assert!(reply.header("retry-after").is_some());
    assert_eq!(outcome(&host, "one", "overloaded"), 1.0);
    drop(busy);
    wait_until("the client's leaving", || outcome(&host, "one", "cancelled") == 1.0);
    wait_until("its place", || of(&host, "modelhost_requests_in_flight", "one") == 0.0);
    assert_eq!((host.post("/one", "sleep:0").status, outcome(&host, "one", "ok")), (200, 1.0));

    provoked.extend(["unsupported_media_type", "overloaded", "model_unloaded"]);
    // The first is that of endpoints with keys (see `keys`), the second that of a breaker (see `faults`), the next are of
    // WebSockets (see `sockets`) and jobs (see `jobs`). The others are counted nowhere: they belong to no endpoint, or to
    // nothing that can be provoked.
    let others = [
        "unauthorized",
        "plugin_unavailable",
        "forbidden",
        "upgrade_required",
        "idempotency_conflict",
        "jobs_full",
        "jobs_unavailable",
        "not_found",
        "method_not_allowed",
        "head_too_large",
        "not_ready",
        "shutting_down",
        "internal",
        "body_timeout",
        "not_implemented",
        "expectation_failed",
    ];
    assert_eq!(statuses.keys().map(String::as_str).collect::<BTreeSet<_>>(), &provoked | &others.into());
}

#[test]
fn durations_are_those_of_the_stages_a_request_came_through() {
    let host = Setup::of([guest("values")]).serve();
    for body in ["int", "int", "int", "invalid", "error"] {
        host.post("/values", body);
    }
    assert_eq!(of(&host, "modelhost_request_duration_seconds_count", "values"), 5.0);
    assert!(of(&host, "modelhost_request_duration_seconds_sum", "values") > 0.0);
    for (stage, count) in [("admit", 5.0), ("pre_inference", 4.0), ("infer", 4.0), ("post_inference", 4.0)] {
        let series = |of: &str| {
            format!("modelhost_stage_duration_seconds_{of}{{endpoint=\"values\",stage=\"{stage}\"}}")
        };
        assert_eq!(host.metric(&series("count")), count, "{stage}");
        assert!(host.metric(&series("sum")) >= 0.0, "{stage}");
    }
    // A request that took 100 ms is in the buckets from there on, and only there.
    let host = Setup::of([guest("slow")]).serve();
    assert_eq!(host.post("/slow", "100").status, 200);
    let bucket = |le: &str| {
        host.metric(&format!("modelhost_request_duration_seconds_bucket{{endpoint=\"slow\",le=\"{le}\"}}"))
    };
    assert_eq!([bucket("0.00001"), bucket("0.05"), bucket("30"), bucket("+Inf")], [0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn instances_are_counted_from_first_to_last() {
    let trap = |name: &str, isolation: &str| {
        Endpoint::new(name).guest("trap").set(format!("isolation = '{isolation}'"))
    };
    let host = Setup::of([trap("worker", "worker"), trap("fresh", "request")]).serve();
    let instances = |name| {
        let created = of(&host, "modelhost_plugin_instances_created_total", name);
        (of(&host, "modelhost_plugin_instances", name), created)
    };
    // Each was tried once before anything was served.
    assert_eq!((instances("worker"), instances("fresh")), ((1.0, 1.0), (0.0, 1.0)));
    for _ in 0..3 {
        host.post("/worker", "x");
        host.post("/fresh", "x");
    }
    assert_eq!((instances("worker"), instances("fresh")), ((1.0, 1.0), (0.0, 4.0)));
    host.post("/worker", "unreachable");
    assert_eq!(instances("worker"), (0.0, 1.0), "retired, not replaced in advance");
    host.post("/worker", "x");
    assert_eq!(instances("worker"), (1.0, 2.0));
}

#[test]
fn counts_of_parallel_requests_add_up() {
    let host = Setup::of([guest("echo")]).serve();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let agent = e2e::agent();
                for _ in 0..50 {
                    let reply =
                        e2e::try_request(&agent, "POST", &format!("{}/echo", host.url), &[], b"x").unwrap();
                    assert_eq!(reply.status, 200);
                }
            });
        }
    });
    assert_eq!(outcome(&host, "echo", "ok"), 400.0);
    assert_eq!(of(&host, "modelhost_request_duration_seconds_count", "echo"), 400.0);
    assert_eq!(of(&host, "modelhost_requests_in_flight", "echo"), 0.0);
    assert_eq!(of(&host, "modelhost_requests_queued", "echo"), 0.0);
}

#[test]
fn the_text_can_be_parsed_line_by_line() {
    let host = Setup::of([Endpoint::new("a").guest("echo"), Endpoint::new("b").model("add")]).serve();
    host.post("/a", "x");
    host.post("/b", "{}");
    let reply = request("GET", &format!("{}/metrics", host.admin), &[], b"");
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = reply.text();
    assert!(text.ends_with('\n'));
    let (mut helped, mut kinds) = (BTreeSet::new(), BTreeMap::new());
    let mut series: BTreeMap<&str, f64> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(helped.insert(name) && !help.is_empty(), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(helped.contains(name) && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!((kind == "counter"), name.ends_with("_total"), "{line}");
            assert_eq!(kinds.insert(name, kind), None, "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect(line);
            let is_labelled = name.starts_with("modelhost_") && name.contains('{') && name.ends_with('}');
            let is_of_process = name.starts_with("process_") || name.starts_with("modelhost_config_");
            assert!(is_labelled || is_of_process, "{line}");
            assert_eq!(series.insert(name, value.parse().expect(line)), None, "twice: {line}");
        }
    }
    // A histogram's buckets never fall, and the last is the count.
    let histograms: Vec<_> =
        kinds.iter().filter(|(_, kind)| **kind == "histogram").map(|(name, _)| *name).collect();
    assert_eq!(
        histograms,
        [
            "modelhost_batch_requests",
            "modelhost_request_duration_seconds",
            "modelhost_stage_duration_seconds"
        ]
    );
    let mut last: Option<(String, f64)> = None;
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (labels, rest) = line.split_once("le=\"").expect(line);
        let value: f64 = rest.rsplit_once(' ').expect(line).1.parse().unwrap();
        if let Some((_, before)) = last.filter(|(same, _)| same == labels) {
            assert!(before <= value, "{line}");
        }
        if rest.starts_with("+Inf") {
            let count = format!("{}}}", labels.replacen("_bucket{", "_count{", 1).trim_end_matches(','));
            assert_eq!(series.get(count.as_str()), Some(&value), "{count}");
        }
        last = Some((labels.to_owned(), value));
    }
    for name in ["a", "b"] {
        assert!(text.contains(&format!("endpoint=\"{name}\"")), "{name}");
    }
}
