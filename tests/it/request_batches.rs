//! Requests that an application serves together (`respond-all`): who is in a batch with whom, that every
//! answer is the asker's own, and what ends a batch.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::recorded::{assert_same, by_id, files};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, component, host, request, wait_until};
use serde_json::{Value, json};

/// The application with these settings of `batching`, beside a neighbour.
fn serve(max_requests: usize, request_delay: &str, limits: &str) -> Host {
    setup(max_requests, request_delay, limits).serve()
}

fn setup(max_requests: usize, request_delay: &str, limits: &str) -> Setup {
    let it = Endpoint::new("it").guest("batch").model("add").limits(&format!("concurrency = 16{limits}"));
    let batching = format!("max_requests = {max_requests}\nrequest_delay = '{request_delay}'");
    Setup::of([it.table("batching", &batching), Endpoint::new("neighbour").guest("echo")])
}

fn post(path: &str, order: &Value) -> Vec<u8> {
    let mark = format!("mark-{}", order["value"]);
    wire::post(
        path,
        &[("x-mark", &mark), ("x-request-id", &format!("id-{}", order["value"]))],
        &order.to_string(),
    )
}

/// Sends each order to `/it` at the same time; replies in that order, with the time of each.
fn timed(host: &Host, orders: &[Value]) -> Vec<(Reply, Instant)> {
    at_once(host, orders.iter().map(|order| post("/it", order)))
}

/// Sends requests at the same time, on connections that are there already; replies in their order, with the
/// time of each.
pub(crate) fn at_once(host: &Host, requests: impl IntoIterator<Item = Vec<u8>>) -> Vec<(Reply, Instant)> {
    let requests: Vec<Vec<u8>> = requests.into_iter().collect();
    let mut wires: Vec<Wire> = requests.iter().map(|_| Wire::connect(&host.url).unwrap()).collect();
    for (wire, request) in wires.iter_mut().zip(&requests) {
        wire.send(request).unwrap();
    }
    let read = |mut wire: Wire| thread::spawn(move || (wire.read().unwrap(), Instant::now()));
    let replies: Vec<JoinHandle<_>> = wires.into_iter().map(read).collect();
    replies.into_iter().map(|reply| reply.join().unwrap()).collect()
}

fn together(host: &Host, orders: &[Value]) -> Vec<Reply> {
    timed(host, orders).into_iter().map(|(reply, _)| reply).collect()
}

fn plain(count: i64) -> Vec<Value> {
    (1..=count).map(|value| json!({"value": value})).collect()
}

/// The size of the batch that each was in, smallest first; that each answer is its asker's.
fn sizes(replies: &[Reply]) -> Vec<usize> {
    let size = |(place, reply): (usize, &Reply)| {
        assert_eq!(reply.status, 200, "{}", reply.text());
        let (answer, value) = (reply.json(), place + 1);
        assert_eq!((&answer["value"], &answer["mark"]), (&json!(value), &json!(format!("mark-{value}"))));
        assert_eq!(answer["id"], json!(format!("id-{value}")));
        assert!(answer["batch"].as_array().unwrap().contains(&json!(value)), "{answer}");
        answer["batch"].as_array().unwrap().len()
    };
    let mut sizes: Vec<usize> = replies.iter().enumerate().map(size).collect();
    sizes.sort_unstable();
    sizes
}

fn in_flight(host: &Host) -> f64 {
    host.metric("modelhost_requests_in_flight{endpoint=\"it\"}")
}

fn assert_unharmed(host: &Host) {
    assert_eq!(host.post("/neighbour", "still here").json()["body"], "still here");
}

/// C28: two run at once, the third after the delay at the latest.
#[test]
fn a_full_batch_runs_at_once_and_the_rest_after_the_delay() {
    let host = serve(2, "1s", "");
    let begun = Instant::now();
    let replies = timed(&host, &plain(3));
    let of_size = |size: usize| {
        let is_so = move |it: &&(Reply, Instant)| it.0.json()["batch"].as_array().unwrap().len() == size;
        replies.iter().filter(is_so).map(|it| it.1).collect::<Vec<_>>()
    };
    let (pair, single) = (of_size(2), of_size(1));
    assert_eq!((pair.len(), single.len()), (2, 1));
    assert!(pair.iter().max() < single.iter().min(), "the pair waits for no third");
    assert!(single[0] - begun >= Duration::from_secs(1));
    let replies: Vec<Reply> = replies.into_iter().map(|it| it.0).collect();
    assert_eq!(sizes(&replies), [1, 2, 2]);
    assert_eq!(host.metric("modelhost_batch_calls_count{endpoint=\"it\"}"), 2.0);
    assert_eq!(host.metric("modelhost_batch_calls_sum{endpoint=\"it\"}"), 3.0);
}

/// I13.
#[test]
fn a_batch_closes_when_it_is_full_or_its_oldest_has_waited_long_enough() {
    let delay = Duration::from_millis(1500);
    let host = serve(4, "1500ms", "");
    for (count, expected, is_full) in [
        (3, vec![3, 3, 3], false),
        (4, vec![4; 4], true),
        (5, vec![1, 4, 4, 4, 4], false),
        (1, vec![1], false),
    ] {
        let begun = Instant::now();
        assert_eq!(sizes(&together(&host, &plain(count))), expected);
        let took = begun.elapsed();
        assert_eq!(took < delay, is_full, "{count}: {took:?}");
    }
    // Of four that are there the delay is no matter.
    let host = serve(4, "1h", "");
    assert_eq!(sizes(&together(&host, &plain(8))), [4; 8]);
}

#[test]
fn only_posts_to_one_path_of_those_that_the_handler_names_share_a_batch() {
    let host = serve(2, "1h", "");
    assert_eq!(host.post("/it/alone", "7").json(), json!({"alone": 7}));
    assert_eq!(host.get("/it").text(), "0");
    assert_eq!(host.request("PUT", "/it", &[], b"").header("allow"), Some("POST, GET, HEAD"));
    let mut wires = ["/it", "/it/other", "/it"].map(|path| (path, Wire::connect(&host.url).unwrap()));
    for ((path, wire), order) in wires.iter_mut().zip(plain(3)) {
        wire.send(&post(path, &order)).unwrap();
    }
    let [(_, mut first), (_, other), (_, mut third)] = wires;
    for wire in [&mut first, &mut third] {
        let mut batch = wire.read().unwrap().json()["batch"].as_array().unwrap().clone();
        batch.sort_by_key(Value::as_i64);
        assert_eq!(batch, [json!(1), json!(3)]);
    }
    drop(other);
    // Without the setting a batch is one request, which waits for nothing.
    let host = Host::with(Some(&component("tests/batch")), None, &["--name", "it"]);
    assert_eq!(sizes(&together(&host, &plain(3))), [1, 1, 1]);
    assert!(!host.metrics().contains("modelhost_batch_calls_count{"));
}

/// C28, I14: no request is left without an answer, and none gets another's.
#[test]
fn results_that_are_too_few_or_too_many_fail_the_batch() {
    let host = serve(3, "1h", "");
    for (how, found) in [("short", 2), ("long", 4)] {
        let mut orders = plain(3);
        orders[1]["do"] = json!(how);
        for reply in together(&host, &orders) {
            let expected = format!(
                "the handler returned {found} results for a batch of 3 requests, expected one for each"
            );
            assert_eq!(reply.error(500, "plugin_bad_output", "pre_inference"), expected);
        }
        assert_eq!(sizes(&together(&host, &plain(3))), [3, 3, 3]);
    }
}

#[test]
fn an_error_is_that_of_one_request_or_of_the_batch() {
    let host = serve(3, "1h", "");
    // One that is refused, and one that cannot be read, which the function does not see.
    let orders = [json!({"value": 1}), json!({"value": 2, "do": "refuse"}), json!("no order")];
    let [first, refused, unread] = <[Reply; 3]>::try_from(together(&host, &orders)).unwrap();
    assert_eq!((first.status, first.json()["batch"].as_array().unwrap().len()), (200, 2));
    assert_eq!(refused.error(400, "invalid_input", "pre_inference"), "not this one");
    unread.error(400, "invalid_input", "pre_inference");
    for (how, status, code) in
        [("trap", 500, Some("plugin_trap")), ("fail", 500, Some("plugin_error")), ("teapot", 418, None)]
    {
        let mut orders = plain(3);
        orders[0]["do"] = json!(how);
        for reply in together(&host, &orders) {
            let found = code.map(|_| reply.json()["code"].as_str().unwrap().to_owned());
            assert_eq!((reply.status, found.as_deref()), (status, code), "{how}: {}", reply.text());
        }
        assert_unharmed(&host);
        assert_eq!(sizes(&together(&host, &plain(3))), [3, 3, 3], "after {how}");
    }
}

/// A trap is one batch's: another that is under way is not touched.
#[test]
fn a_batch_is_not_another_ones() {
    let host = serve(2, "1h", "");
    let slow = thread::scope(|scope| {
        let slow = scope.spawn(|| together(&host, &[json!({"value": 1, "do": "wait"}), json!({"value": 2})]));
        host.wait_for_log("a batch of [");
        for reply in together(&host, &[json!({"value": 7, "do": "trap"}), json!({"value": 8})]) {
            reply.error(500, "plugin_trap", "pre_inference");
        }
        slow.join().unwrap()
    });
    assert_eq!(sizes(&slow), [2, 2]);
}

#[test]
fn a_client_that_leaves_is_in_no_batch_and_hurts_none() {
    let host = serve(2, "1h", "");
    let send = |order: Value| {
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&post("/it", &order)).unwrap();
        wire
    };
    // While it waits.
    let waiting = send(json!({"value": 9}));
    wait_until("it to be here", || in_flight(&host) == 1.0);
    drop(waiting);
    wait_until("it to be gone", || in_flight(&host) == 0.0);
    assert_eq!(sizes(&together(&host, &plain(2))), [2, 2]);
    // While the batch runs: the other is answered.
    let (leaves, mut stays) = (send(json!({"value": 11, "do": "wait"})), send(json!({"value": 12})));
    wait_until("the batch to run", || host.log().matches("a batch of [").count() == 2);
    drop(leaves);
    let mut batch = stays.read().unwrap().json()["batch"].as_array().unwrap().clone();
    batch.sort_by_key(Value::as_i64);
    assert_eq!(batch, [json!(11), json!(12)]);
    // All of them: the batch is dropped, with its instance.
    let all = [send(json!({"value": 21, "do": "for ever"})), send(json!({"value": 22}))];
    wait_until("the batch to run", || host.log().matches("a batch of [").count() == 3);
    drop(all);
    wait_until("their places to be free", || in_flight(&host) == 0.0);
    wait_until("the instance to be gone", || {
        host.metric("modelhost_plugin_instances{endpoint=\"it\"}") == 0.0
    });
    assert_eq!(sizes(&together(&host, &plain(2))), [2, 2]);
}

/// Whose time is up is told so, be it that the batch is not full or that it does not end.
#[test]
fn a_request_has_its_time_in_a_batch_too() {
    let host = serve(2, "1h", ", request_timeout = '700ms'");
    for orders in [plain(1), vec![json!({"value": 1, "do": "for ever"}), json!({"value": 2})]] {
        for reply in together(&host, &orders) {
            reply.error(504, "request_timeout", "pre_inference");
        }
    }
    assert_eq!(sizes(&together(&host, &plain(2))), [2, 2]);
}

/// Members of a batch hold a place each: there are never more in flight than may be.
#[test]
fn those_that_wait_hold_their_places() {
    let host = serve(16, "1h", "");
    let waiting: Vec<Wire> = plain(15)
        .iter()
        .map(|order| {
            let mut wire = Wire::connect(&host.url).unwrap();
            wire.send(&post("/it", order)).unwrap();
            wire
        })
        .collect();
    wait_until("all to be here", || in_flight(&host) == 15.0);
    let last = host.post("/it", json!({"value": 16}).to_string()).json();
    assert_eq!(last["batch"].as_array().unwrap().len(), 16);
    for mut wire in waiting {
        assert_eq!(wire.read().unwrap().json()["batch"], last["batch"]);
    }
}

#[test]
fn a_stop_waits_for_a_batch_as_long_as_it_waits() {
    for (delay, drain, expected) in [("500ms", "30s", 200), ("1h", "300ms", 503)] {
        let host = setup(2, delay, "").arguments(&["--drain-timeout", drain]).serve();
        let url = format!("{}/it", host.url);
        let call = thread::spawn(move || request("POST", &url, &[], br#"{"value": 1}"#));
        wait_until("it to be here", || in_flight(&host) == 1.0);
        host.signal("TERM");
        let (_, log) = host.wait();
        assert_eq!(call.join().unwrap().status, expected, "{delay}: {log}");
    }
}

/// A batch runs on one instance, which calls models as that of one request does.
#[test]
fn a_batch_calls_models_once() {
    let host = serve(3, "1h", "");
    let mut orders = plain(3);
    orders[2]["do"] = json!("model");
    for reply in together(&host, &orders) {
        assert_eq!((reply.status, &reply.json()["model"]), (200, &json!(12.0)));
    }
    assert_eq!(host.metric("modelhost_plugin_instances_created_total{endpoint=\"it\"}"), 1.0);
}

/// What is recorded is a batch of one: it is the same in a replay, where nothing comes with it.
#[test]
fn a_request_that_is_recorded_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let host = setup(2, "1h", "").tables(format!("[record]\ndir = {:?}", folder.path())).serve();
    assert_eq!(sizes(&together(&host, &plain(2))), [1, 1]);
    let recorded = folder.path().join("it");
    wait_until("the recordings", || files(&recorded).len() == 2);
    wait_until("their ends", || by_id(&recorded).len() == 2);
    assert_same(&recorded, &component("tests/batch"), &[], 2);
}

/// The application in a file of its own, with these settings, and what puts another version of it in place.
fn swappable(settings: &str, delay: &str) -> (Host, impl Fn(&Host) -> Reply) {
    let bytes = std::fs::read(component("tests/batch")).unwrap();
    let it = Endpoint::new("it").guest("batch").set(format!("watch = false\n{settings}"));
    let batching = format!("max_requests = 2\nrequest_delay = '{delay}'");
    let host = Setup::of([it.table("batching", &batching)]).serve();
    let swap = move |host: &Host| {
        let other = [&bytes[..], b"\0\x03\x01v2"].concat();
        request("PUT", &format!("{}/admin/v1/endpoints/it/plugin", host.admin), &[], &other)
    };
    (host, swap)
}

/// Requests that are kept as samples are alone, and so are a gate's.
#[test]
fn a_gate_compares_requests_that_were_alone() {
    let (host, swap) = swappable("gate.samples = 2", "1h");
    assert_eq!(sizes(&together(&host, &plain(2))), [1, 1]);
    wait_until("the samples", || host.endpoint("it")["gate_samples"] == 2);
    assert_eq!(swap(&host).status, 200);
    host.wait_for_log("gate: passed, 2 of 2 samples compared, 0 differ");
}

/// A swap leaves those that wait on the generation that they began on.
#[test]
fn a_request_that_waits_ends_on_its_own_handler() {
    let (host, swap) = swappable("", "1500ms");
    let mut waiting = Wire::connect(&host.url).unwrap();
    waiting.send(&post("/it", &json!({"value": 1}))).unwrap();
    wait_until("it to be here", || in_flight(&host) == 1.0);
    let old = host.endpoint("it")["digest"].clone();
    assert_eq!(swap(&host).status, 200);
    let reply = waiting.read().unwrap();
    assert_eq!((reply.status, reply.header("x-handler-digest")), (200, old.as_str()));
}

#[test]
fn settings_that_cannot_be_meant_are_refused_or_said() {
    let plugin = component("tests/batch");
    let serve = |settings: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("[[endpoint]]\nname = 'it'\nplugin = {plugin:?}\n{settings}\n");
        std::fs::write(file.path(), text).unwrap();
        host(&["check", "--config", file.path().to_str().unwrap()])
    };
    for (settings, expected) in [
        (
            "limits = { concurrency = 3 }\nbatching = { max_requests = 4 }",
            "no batch would ever be full: `limits.concurrency` is 3",
        ),
        ("batching = { request_delay = '1s' }", "batching of requests is off; hint: set `max_requests` too"),
    ] {
        let output = serve(settings);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    }
    let it = Endpoint::new("it").guest("responder").table("batching", "max_requests = 2");
    let host = Setup::of([it]).serve();
    host.wait_for_log("the handler does not export `respond-all`");
}
