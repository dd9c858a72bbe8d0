//! Endpoints that come, go and change while others serve: the configuration read again by SIGHUP, as a whole or not at all.

use std::fs;
use std::path::Path;

use e2e::load::Pattern;
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, component, request, version, wait_until};

/// An endpoint that signs with `letter`.
fn endpoint(name: &str, letter: &str) -> Endpoint {
    Endpoint::new(name).guest(&format!("version_{letter}"))
}

fn read_again(host: &Host, file: &Path, setup: &Setup) {
    fs::write(file, setup.text()).unwrap();
    host.signal("HUP");
}

fn names(host: &Host) -> Vec<String> {
    let endpoints = host.endpoints();
    let names = endpoints.as_array().unwrap().iter();
    names.map(|endpoint| endpoint["name"].as_str().unwrap().to_owned()).collect()
}

fn signature(host: &Host, path: &str) -> Option<String> {
    let reply = host.post(path, "{}");
    (reply.status == 200).then(|| reply.json()["pre"].as_str().unwrap().to_owned())
}

#[test]
fn endpoints_come_go_and_change_while_others_serve() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    let stays = endpoint("stays", "a");
    fs::write(&file, Setup::of([stays.clone(), endpoint("goes", "a")]).text()).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap(), "--grpc-listen", "127.0.0.1:0"]);
    let load = Pattern::new(&host.url, "/stays").start();
    load.wait_for_more(20);
    assert_eq!(signature(&host, "/goes").as_deref(), Some("a"));

    read_again(&host, &file, &Setup::of([endpoint("comes", "b"), stays]));
    wait_until("another endpoint to serve", || signature(&host, "/comes").as_deref() == Some("b"));
    // The administration goes over to them after the endpoints' address has.
    wait_until("the administration to know it", || names(&host) == ["comes", "stays"]);
    assert_eq!(host.post("/goes", "{}").status, 404);
    assert_eq!(host.get("/v2/models/goes/ready").status, 404);
    assert_eq!(host.get("/v2/models/comes/ready").status, 200);
    assert!(!host.metrics().contains(r#"endpoint="goes""#), "{}", host.metrics());
    assert_eq!(host.metric(r#"modelhost_plugin_generation{endpoint="stays"}"#), 1.0);

    // One that is another is replaced: requests see one of the two.
    read_again(&host, &file, &Setup::of([endpoint("comes", "a"), endpoint("stays", "b")]));
    wait_until("the endpoint to be replaced", || signature(&host, "/stays").as_deref() == Some("b"));
    assert_eq!(signature(&host, "/comes").as_deref(), Some("a"));
    load.wait_for_more(20);
    let answers = load.stop();
    let letters = answers.iter().map(|answer| answer.ok().json()["pre"].as_str().unwrap().to_owned());
    let letters: Vec<String> = letters.collect();
    let replaced = letters.iter().position(|letter| letter == "b").unwrap();
    assert!(replaced >= 40 || letters.len() > 40, "{}", letters.len());
    assert!(letters.iter().all(|letter| letter == "a" || letter == "b"));
}

#[test]
fn what_cannot_be_served_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    let broken = folder.path().join("broken.wasm");
    fs::write(&broken, b"\0asm\r\0\x01\0broken").unwrap();
    let stays = endpoint("stays", "a");
    fs::write(&file, stays.to_string()).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap()]);
    let unknown = endpoint("comes", "b").set("pathh = '/x'");
    let unloadable = Endpoint::new("comes").plugin(&broken);
    for (more, reason) in [(unknown, "`endpoint.pathh`: unknown key"), (unloadable, "cannot be compiled")] {
        read_again(&host, &file, &Setup::of([endpoint("other", "b"), more, stays.clone()]));
        wait_until("the refusal", || {
            host.log().lines().any(|line| line.contains("not reloaded") && line.contains(reason))
        });
        assert_eq!(names(&host), ["stays"]);
        assert_eq!(signature(&host, "/stays").as_deref(), Some("a"));
        assert_eq!(host.post("/other", "{}").status, 404);
        // What was loaded for it is counted no more.
        assert!(!host.metrics().contains(r#"endpoint="other""#), "{}", host.metrics());
    }
    // What concerns the process takes a restart, and is said.
    read_again(
        &host,
        &file,
        &Setup::of([stays.clone()]).tables("[server]\ncors_allow_origin = 'https://example.org'"),
    );
    host.wait_for_log("the configuration of listeners has changed: that takes a restart");
    read_again(&host, &file, &Setup::of([stays, endpoint("comes", "b")]));
    wait_until("another endpoint to serve", || signature(&host, "/comes").as_deref() == Some("b"));
}

/// Another handler by order, then a reload that loads the endpoint anew and fails at its neighbour.
#[test]
fn a_reload_that_fails_changes_no_generation_in_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let (file, broken) = (folder.path().join("modelhost.toml"), folder.path().join("broken.wasm"));
    fs::write(&broken, b"no component").unwrap();
    fs::write(&file, endpoint("stays", "a").to_string()).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap()]);
    let url = format!("{}/admin/v1/endpoints/stays/plugin", host.admin);
    let another = fs::read(component("tests/version_b")).unwrap();
    assert_eq!(request("PUT", &url, &[], &another).status, 200);
    let generation = || host.metric(r#"modelhost_plugin_generation{endpoint="stays"}"#);
    assert_eq!(generation(), 2.0);
    let changed = endpoint("stays", "a").limits("concurrency = 3");
    read_again(&host, &file, &Setup::of([changed, Endpoint::new("comes").plugin(&broken)]));
    host.wait_for_log("not reloaded");
    assert_eq!((signature(&host, "/stays").as_deref(), generation()), (Some("b"), 2.0));
}

/// The order is on its way when the endpoint is replaced: it would be published where no request comes.
#[test]
fn an_order_to_an_endpoint_that_is_replaced_meanwhile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    fs::write(&file, endpoint("it", "a").to_string()).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap()]);
    let another = fs::read(component("tests/version_b")).unwrap();
    let head = format!(
        "PUT /admin/v1/endpoints/it/plugin HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        another.len()
    );
    let mut wire = Wire::connect(&host.admin).unwrap();
    wire.send(head.as_bytes()).unwrap();
    assert_eq!(wire.read().unwrap().status, 100, "its component is wanted");
    read_again(&host, &file, &Setup::of([endpoint("it", "a").limits("concurrency = 3")]));
    host.wait_for_log("other endpoints are served");
    wire.send(&another).unwrap();
    let reply = wire.read().unwrap();
    let answer = reply.json();
    let found = (reply.status, answer["code"].as_str(), answer["step"].as_str());
    assert_eq!(found, (409, Some("refused"), Some("order")), "{answer}");
    let text = answer["error"].as_str().unwrap();
    assert!(
        text.contains("replaced or removed") && text.contains("\n  hint: give the order once more"),
        "{text}"
    );
    assert_eq!(signature(&host, "/it").as_deref(), Some("a"));
    // The endpoint that serves now takes it.
    let url = format!("{}/admin/v1/endpoints/it/plugin", host.admin);
    assert_eq!(request("PUT", &url, &[], &another).status, 200);
    assert_eq!(signature(&host, "/it").as_deref(), Some("b"));
}

/// A request that is left on an endpoint keeps all of it but the trial.
#[test]
fn a_trial_ends_with_its_endpoint_though_a_request_is_left_on_that() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    let sleeper = |queue: usize| {
        let limits = format!("pre_timeout = '60s', queue = {queue}");
        Setup::of([Endpoint::new("it").guest("files").limits(&limits)])
    };
    fs::write(&file, sleeper(1).text()).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap()]);
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&wire::post("/it", &[], "sleep:20000")).unwrap();
    wait_until("the request to be in flight", || {
        host.metric(r#"modelhost_requests_in_flight{endpoint="it"}"#) == 1.0
    });
    let candidate = format!("{}/admin/v1/endpoints/it/plugin/candidate", host.admin);
    let terms = "mode=canary&share=0.5";
    let begun = request("PUT", &format!("{candidate}?{terms}"), &[], &version("tests/files", 1));
    assert_eq!(begun.status, 200, "{}", begun.text());
    read_again(&host, &file, &sleeper(2));
    host.wait_for_log("other endpoints are served");
    let dropped = "the candidate is dropped (canary): the endpoint is replaced or removed";
    assert_eq!(host.log().matches(dropped).count(), 1);
    assert_eq!(host.metric(r#"modelhost_plugin_swaps_total{endpoint="it",outcome="refused"}"#), 1.0);
    assert_eq!(request("GET", &candidate, &[], b"").status, 404);
}

/// The drain waits for requests on endpoints that were replaced, and refuses them as it does others.
#[test]
fn a_drain_knows_the_requests_on_endpoints_that_are_served_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    let sleeper = |name: &str, queue: usize| {
        let limits = format!("pre_timeout = '60s', queue = {queue}");
        Endpoint::new(name).guest("files").limits(&limits)
    };
    let drain = "[server]\ndrain_timeout = '500ms'";
    let before = Setup::of([sleeper("replaced", 1), sleeper("removed", 1)]).tables(drain);
    fs::write(&file, before.text()).unwrap();
    let host = Host::serve(&["--config", file.to_str().unwrap()]);
    let mut waiting = ["/replaced", "/removed"].map(|path| {
        let mut wire = Wire::connect(&host.url).unwrap();
        wire.send(&wire::post(path, &[], "sleep:20000")).unwrap();
        wire
    });
    wait_until("the requests to be in flight", || {
        let in_flight =
            |name: &str| host.metric(&format!("modelhost_requests_in_flight{{endpoint=\"{name}\"}}"));
        in_flight("replaced") + in_flight("removed") == 2.0
    });
    read_again(&host, &file, &Setup::of([sleeper("replaced", 2)]).tables(drain));
    wait_until("the other to be gone", || names(&host) == ["replaced"]);

    host.signal("TERM");
    for wire in &mut waiting {
        let reply = wire.read().unwrap();
        reply.error(503, "shutting_down", "pre_inference");
    }
    let (status, log) = host.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("with 2 requests unanswered"), "{log}");
}
