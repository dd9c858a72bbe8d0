//! Answers that are kept for equal requests: what is given to whom, within which bounds, and what never is.

use std::thread;
use std::time::{Duration, Instant};

use e2e::oip::{binary, infer_binary};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, Reply, clients, component, model, request, version, wait_until};
use serde_json::json;

const CACHE: &str = "response_cache = { size = '1MiB' }";

/// The guest that draws on what a body names; it counts its runs under `kept`.
fn draws(name: &str, cache: &str) -> Endpoint {
    Endpoint::new(name).guest("draws").set(cache).limits("concurrency = 8")
}

fn status(reply: &Reply) -> &str {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("cache-status").unwrap_or_default()
}

fn lookups(host: &Host, endpoint: &str, outcome: &str) -> f64 {
    let labels = format!("endpoint=\"{endpoint}\",outcome=\"{outcome}\"");
    host.metric(&format!("modelhost_response_cache_requests_total{{{labels}}}"))
}

fn runs(host: &Host, endpoint: &str) -> f64 {
    host.metric(&format!("modelhost_batch_requests_count{{endpoint=\"{endpoint}\"}}"))
}

const HIT: &str = "modelhost; hit";
const MISS: &str = "modelhost; fwd=miss";
const BYPASS: &str = "modelhost; fwd=bypass";

#[test]
fn an_equal_request_gets_the_same_answer_and_a_neighbour_notices_nothing() {
    let host = Setup::of([draws("kept", CACHE), draws("neighbour", "")]).serve();
    let first = host.post("/kept", "kept|kept");
    assert_eq!((status(&first), first.json()), (MISS, json!({"pre": [1], "post": [2]})));
    for _ in 0..3 {
        let again = host.post("/kept", "kept|kept");
        assert_eq!((status(&again), again.header("age")), (HIT, Some("0")));
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("content-type"), first.header("content-type"));
        assert_eq!(again.header("x-handler-digest"), first.header("x-handler-digest"));
        assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    }
    // Everything that a handler may ask for makes another request of it.
    for (path, content_type, body) in [
        ("/kept", "application/json", "kept|kept "),
        ("/kept?a=1", "application/json", "kept|kept"),
        ("/kept", "text/plain", "kept|kept"),
    ] {
        for expected in [MISS, HIT] {
            let reply = host.request("POST", path, &[("content-type", content_type)], body.as_bytes());
            assert_eq!(status(&reply), expected, "{path} {content_type} {body}");
        }
    }
    // Its client wants one that is made for it; the one that is kept stays.
    let fresh = [("content-type", "application/json"), ("cache-control", "no-cache")];
    let fresh = host.request("POST", "/kept", &fresh, b"kept|kept");
    assert_eq!(status(&fresh), BYPASS);
    assert_ne!(fresh.body, first.body);
    let two_lines =
        [("content-type", "application/json"), ("cache-control", "max-age=5"), ("cache-control", "no-cache")];
    assert_eq!(status(&host.request("POST", "/kept", &two_lines, b"kept|kept")), BYPASS);
    assert_eq!(host.post("/kept", "kept|kept").body, first.body);
    assert_eq!(status(&host.post("/kept?debug=true", "kept|kept")), BYPASS);

    assert_eq!((lookups(&host, "kept", "hit"), lookups(&host, "kept", "miss")), (7.0, 4.0));
    assert_eq!(lookups(&host, "kept", "bypass"), 3.0);
    let stats = host.get("/v2/models/kept/stats").json()["model_stats"][0]["inference_stats"].clone();
    let counts = ["success", "compute_input", "compute_infer", "cache_hit"].map(|name| &stats[name]["count"]);
    assert_eq!(counts, [14, 7, 7, 7].each_ref(), "{stats}");
    assert_eq!(host.get("/v2/models/kept/stats").json()["model_stats"][0]["execution_count"], 7);
    assert!(host.metric("modelhost_response_cache_bytes{endpoint=\"kept\"}") > 4.0 * 256.0);
    for count in 0..3 {
        let reply = host.post("/neighbour", "kept|");
        assert_eq!((status(&reply), reply.json()["pre"][0].as_i64()), ("", Some(count + 1)));
    }
    assert!(!host.metrics().contains("response_cache_bytes{endpoint=\"neighbour\"}"));
}

#[test]
fn an_answer_that_depended_on_more_than_the_request_is_not_kept() {
    let host = Setup::of([
        draws("strict", CACHE),
        draws("headers", "response_cache = { size = '1MiB', headers = ['X-A'] }"),
        draws("random", "response_cache = { size = '1MiB', allow = ['random'] }"),
        draws("alone", CACHE).set("isolation = 'request'"),
    ])
    .serve();
    for words in ["wall|", "|clock", "random kept|", "|id", "header:x-a|", "sleep:1|"] {
        let replies = [(); 3].map(|()| host.post("/strict", words));
        let found = replies.each_ref().map(status);
        assert_eq!(found, [MISS, BYPASS, BYPASS], "{words}");
    }
    // What the handler was told of one caller, no other gets.
    let told = |caller: &str| {
        let headers = [("content-type", "application/json"), ("x-a", caller)];
        let reply = host.request("POST", "/headers", &headers, b"header:x-a|");
        (status(&reply).to_owned(), reply.json()["pre"][0].as_str().map(str::to_owned))
    };
    for expected in [MISS, HIT] {
        for caller in ["one", "other"] {
            assert_eq!(told(caller), (expected.to_owned(), Some(caller.to_owned())));
        }
    }
    assert_eq!(status(&host.post("/headers", "header:x-b|")), MISS);
    assert_eq!(status(&host.post("/headers", "header:x-b|")), BYPASS);
    let random = [(); 2].map(|()| host.post("/random", "random|"));
    assert_eq!((status(&random[0]), status(&random[1])), (MISS, HIT));
    assert_eq!(random[0].body, random[1].body);
    assert_eq!(status(&host.post("/random", "random wall|")), MISS);
    assert_eq!(status(&host.post("/random", "random wall|")), BYPASS);
    assert_eq!(["kept|"; 2].map(|words| status(&host.post("/alone", words)).to_owned()), [MISS, HIT]);
    // Headers say what they are by their own words.
    assert_eq!(status(&host.post("/strict", "set:cache-control|")), MISS);
    assert_eq!(status(&host.post("/strict", "set:cache-control|")), HIT, "a value that forbids nothing");
}

#[test]
fn failures_are_not_kept() {
    let host = Setup::of([draws("draws", CACHE)]).serve();
    for (words, code) in
        [("invalid|", "invalid_input"), ("|fail:x", "plugin_error"), ("abort|", "plugin_trap")]
    {
        for _ in 0..2 {
            let reply = host.post("/draws", words);
            assert_eq!(reply.json()["code"], code, "{words}");
            assert_eq!(reply.header("cache-status"), Some(MISS), "{words}");
        }
    }
    let told = [(); 2].map(|()| host.post("/draws", "respond|"));
    assert_eq!(told.each_ref().map(|reply| reply.status), [418, 418]);
    assert_eq!(told[1].header("cache-status"), Some(BYPASS));
    assert_eq!(lookups(&host, "draws", "hit"), 0.0);
}

#[test]
fn every_protocol_has_its_answers_from_the_same_place() {
    let host = Setup::of([Endpoint::new("add").model("add").set(CACHE)]).serve();
    let tensor = |name: &str| json!({"name": name, "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]});
    let v2 = json!({"inputs": [tensor("a"), tensor("b")]});
    for (path, body) in [
        ("/add", json!({"a": [1.0, 2.0], "b": [1.0, 2.0]})),
        ("/v1/models/add:predict", json!({"inputs": {"a": [1.0, 2.0], "b": [1.0, 2.0]}})),
        ("/v2/models/add/infer", v2.clone()),
    ] {
        let replies = [(); 2].map(|()| host.post(path, body.to_string()));
        assert_eq!(replies.each_ref().map(status), [MISS, HIT], "{path}");
        assert_eq!(replies[0].body, replies[1].body, "{path}");
    }
    // The outputs are chosen when the answer is written.
    let binary = json!({"inputs": v2["inputs"], "parameters": {"binary_data_output": true}});
    assert_eq!(status(&host.post("/v2/models/add/infer", binary.to_string())), MISS, "other parameters");
    let stats = host.get("/v2/models/add/stats").json();
    let stats = &stats["model_stats"][0];
    assert_eq!((stats["inference_count"].as_u64(), stats["execution_count"].as_u64()), (Some(7), Some(4)));
    let cache = ["cache_hit", "cache_miss"].map(|which| stats["inference_stats"][which].clone());
    assert_eq!((cache[0]["count"].as_u64(), cache[1]["count"].as_u64()), (Some(3), Some(4)));
    assert!(cache[0]["ns"].as_u64() > Some(0));
    assert_eq!(runs(&host, "add"), 4.0, "a hit is no run");
}

#[test]
fn tritonclient_sees_what_was_kept() {
    let setup = Setup::of([Endpoint::new("add").model("add").set(CACHE)]);
    let host = setup.arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    clients::run("triton_grpc", &[host.grpc.as_deref().unwrap(), "cached"]);
    assert_eq!((lookups(&host, "add", "hit"), lookups(&host, "add", "miss")), (1.0, 1.0));
}

#[test]
fn of_a_hundred_equal_requests_at_once_one_runs() {
    let slow = |name: &str, cache: &str| {
        let endpoint = Endpoint::new(name).model_at(&model("seconds"), "instances = 1");
        endpoint.set(cache).limits("concurrency = 2, queue = 200, request_timeout = '5m'")
    };
    let host = Setup::of([slow("slow", CACHE), Endpoint::new("neighbour").guest("echo")]).serve();
    let body = json!({"x": [0.5]}).to_string();
    let begun = Instant::now();
    let replies: Vec<Reply> = thread::scope(|scope| {
        let clients: Vec<_> = (0..100).map(|_| scope.spawn(|| host.post("/slow", &body))).collect();
        wait_until("the model to run", || {
            host.metric("modelhost_requests_in_flight{endpoint=\"slow\"}") == 1.0
        });
        // Those that wait hold none of the endpoint's permits, and nothing of a neighbour's.
        assert_eq!(host.post("/neighbour", "x").status, 200);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.body == replies[0].body));
    assert_eq!(runs(&host, "slow"), 1.0, "took {:?}", begun.elapsed());
    assert_eq!(lookups(&host, "slow", "miss"), 1.0);
    assert_eq!(lookups(&host, "slow", "collapsed") + lookups(&host, "slow", "hit"), 99.0);
}

#[test]
fn a_client_that_goes_away_takes_no_other_with_it() {
    let host =
        Setup::of([Endpoint::new("slow").model("seconds").set(CACHE).limits("request_timeout = '5m'")])
            .serve();
    let body = json!({"x": [0.25]}).to_string();
    let in_flight = || host.metric("modelhost_requests_in_flight{endpoint=\"slow\"}");
    let waits = || lookups(&host, "slow", "miss");
    let mut leader = Wire::connect(&host.url).unwrap();
    leader.send(&wire::post("/slow", &[], &body)).unwrap();
    wait_until("the leader to run", || in_flight() == 1.0 && waits() == 1.0);
    let replies = thread::scope(|scope| {
        let others = [(); 3].map(|()| scope.spawn(|| host.post("/slow", &body)));
        drop(leader);
        others.map(|other| other.join().unwrap())
    });
    for reply in &replies {
        assert_eq!((reply.status, &reply.body), (200, &replies[0].body), "{}", reply.text());
    }
    assert_eq!(host.metric("modelhost_requests_total{endpoint=\"slow\",outcome=\"cancelled\"}"), 1.0);
    assert_eq!(status(&host.post("/slow", &body)), HIT);
}

#[test]
fn a_swap_serves_no_answer_of_the_handler_before() {
    let host = Setup::of([Endpoint::new("versions").guest("version_a").set(CACHE)]).serve();
    let ask = || host.post("/versions", "x");
    let put = |bytes: &[u8]| {
        let url = format!("{}/admin/v1/endpoints/versions/plugin", host.admin);
        assert_eq!(request("PUT", &url, &[], bytes).status, 200);
    };
    let b = std::fs::read(component("tests/version_b")).unwrap();
    for (bytes, expected) in [(None, "a"), (Some(&b), "b"), (Some(&version("tests/version_a", 1)), "a")] {
        if let Some(bytes) = bytes {
            // Also while equal requests come all the time.
            thread::scope(|scope| {
                let load = scope.spawn(|| (0..300).for_each(|_| assert_eq!(ask().status, 200)));
                put(bytes);
                load.join().unwrap();
            });
        } else {
            assert_eq!(status(&ask()), MISS);
        }
        // On a busy machine the load may have ended before the swap.
        assert_eq!(ask().json()["post"].as_str(), Some(expected));
        for _ in 0..3 {
            let reply = ask();
            assert_eq!((reply.json()["post"].as_str(), status(&reply)), (Some(expected), HIT));
        }
    }
    let rollback = format!("{}/admin/v1/endpoints/versions/rollback", host.admin);
    assert_eq!(request("POST", &rollback, &[], b"").status, 200);
    let reply = ask();
    assert_eq!((reply.json()["post"].as_str(), status(&reply)), (Some("b"), MISS));
}

/// An answer that was kept says nothing of the handler that would have made it: a canary is judged by its
/// runs, and an open breaker is closed by one.
#[test]
fn a_hit_is_no_measure_of_a_handler() {
    let breaker = "breaker = { faults = 0.5, min = 4, window = '1m', pause = '300ms' }";
    let trying = Endpoint::new("trying").guest("mortal").set(CACHE).set(breaker);
    let host = Setup::of([Endpoint::new("versions").guest("version_a").set(CACHE), trying]).serve();
    let candidate = format!("{}/admin/v1/endpoints/versions/plugin/candidate", host.admin);
    let b = std::fs::read(component("tests/version_b")).unwrap();
    let begun = request("PUT", &format!("{candidate}?mode=canary&share=1&min_requests=1000"), &[], &b);
    assert_eq!(begun.status, 200, "{}", begun.text());
    for expected in [MISS, HIT, HIT, HIT] {
        let reply = host.post("/versions", "x");
        assert_eq!((reply.json()["post"].as_str(), status(&reply)), (Some("b"), expected));
    }
    assert_eq!(request("GET", &candidate, &[], b"").json()["candidate"]["requests"], 1);

    let state = || host.endpoint("trying")["breaker"].clone();
    assert_eq!(status(&host.post("/trying", "one")), MISS);
    wait_until("the breaker to open", || {
        host.post("/trying", "die");
        state() == "open"
    });
    wait_until("the pause to be over", || host.post("/trying", "one").status == 200);
    assert_eq!((status(&host.post("/trying", "one")), state()), (HIT, json!("open")));
    assert_eq!((status(&host.post("/trying", "another")), state()), (MISS, json!("closed")));
}

#[test]
fn answers_take_no_more_bytes_than_they_may_and_a_neighbours_stay() {
    let identity = |name: &str| Endpoint::new(name).model("identity_uint8").set(CACHE);
    let host = Setup::of([identity("flooded"), identity("neighbour")]).serve();
    let ask = |endpoint: &str, first: u8, length: usize| {
        let mut bytes = vec![7; length];
        bytes[0] = first;
        let request = json!({"inputs": [binary("x", "UINT8", &[i64::try_from(length).unwrap()], length)]});
        let reply = infer_binary(&host, endpoint, &request, &bytes);
        status(&reply).to_owned()
    };
    assert_eq!(ask("neighbour", 0, 100), MISS);
    let bytes = || host.metric("modelhost_response_cache_bytes{endpoint=\"flooded\"}");
    for first in 0..50 {
        assert_eq!(ask("flooded", first, 100 << 10), MISS);
        assert!(bytes() <= f64::from(1 << 20), "{}", bytes());
    }
    assert!(bytes() > f64::from(900 << 10), "{}", bytes());
    assert!(host.metric("modelhost_response_cache_evictions_total{endpoint=\"flooded\"}") >= 39.0);
    assert_eq!(ask("flooded", 49, 100 << 10), HIT);
    assert_eq!(ask("flooded", 0, 100 << 10), MISS, "it made way");
    // One that would push out all others is not kept.
    assert_eq!([ask("flooded", 1, 2 << 20), ask("flooded", 1, 2 << 20)], [MISS, BYPASS]);
    assert_eq!(ask("flooded", 49, 100 << 10), HIT);
    assert_eq!(ask("neighbour", 0, 100), HIT);
}

#[test]
fn an_answer_is_kept_for_as_long_as_it_may() {
    let cache = "response_cache = { size = '1MiB', ttl = '400ms' }";
    let host = Setup::of([draws("short", cache), draws("long", CACHE)]).serve();
    let first = host.post("/long", "kept|");
    assert_eq!(status(&host.post("/short", "kept|")), MISS);
    let begun = Instant::now();
    wait_until("an answer to be too old", || host.post("/short", "kept|").json()["pre"] == json!([2]));
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    let again = host.post("/long", "kept|");
    assert_eq!((status(&again), &again.body), (HIT, &first.body));
}

#[test]
fn an_application_has_no_response_cache() {
    let setup = Setup::of([Endpoint::new("app").guest("responder").set(CACHE)]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), setup.text()).unwrap();
    let (code, log) = Host::try_serve(&["--config", file.path().to_str().unwrap()]).err().unwrap();
    assert_eq!(code.code(), Some(1));
    assert!(log.contains("has a response cache, and its handler is an application"), "{log}");
    assert!(log.contains("hint: leave out `response_cache`"), "{log}");
}
