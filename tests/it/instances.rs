//! Whose an instance is, and how long it lives: E8 of the acceptance cases, and both isolations.

use std::thread;

use e2e::load::alone;
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, component, model};
use serde_json::json;

/// `--concurrency 1`: one instance is all a well-kept pool needs, so a count shows which one answered.
fn counts(guest: &str, isolation: &str, bodies: &[&str]) -> Vec<Option<u64>> {
    let arguments = ["--concurrency", "1", "--isolation", isolation];
    let host = Host::with(Some(&component(guest)), None, &arguments);
    bodies.iter().map(|body| host.post("/", body).json()["n"].as_u64()).collect()
}

#[test]
fn globals_live_as_long_as_the_isolation_says() {
    assert_eq!(counts("tests/count", "worker", &["{}"; 4]), [Some(1), Some(2), Some(3), Some(4)]);
    assert_eq!(counts("tests/count", "request", &["{}"; 4]), [Some(1); 4]);
}

#[test]
fn an_instance_that_died_is_never_lent_again() {
    let found = counts("tests/mortal", "worker", &["a", "b", "die", "c", "d", "die", "die", "e"]);
    assert_eq!(found, [Some(1), Some(2), None, Some(1), Some(2), None, None, Some(1)]);
}

/// The handler's own errors are no deaths: the instance goes on.
#[test]
fn an_instance_survives_the_errors_it_returns() {
    let host = Host::with(Some(&component("tests/values")), None, &["--concurrency", "1"]);
    for (body, status) in
        [("invalid", 400), ("error", 500), ("respond", 418), ("int", 200), ("nonsense", 400)]
    {
        assert_eq!(host.post("/", body).status, status, "{body}");
    }
    assert_eq!(host.metric(r#"modelhost_plugin_instances_created_total{endpoint="values"}"#), 1.0);
}

/// A hundred clients at once, each with bodies and ids of its own, through handlers that keep the body in the instance
/// while the request waits for the model's only session. No request ever gets a part of another's.
#[test]
fn a_hundred_clients_never_see_each_other() {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 12;
    let _alone = alone();
    let paths = ["/echo-worker", "/echo-request", "/probe-worker", "/probe-request"];
    let endpoint = |path: &str| {
        let (guest, isolation) = path[1..].split_once('-').unwrap();
        Endpoint::new(&path[1..])
            .guest(guest)
            .set(format!("isolation = '{isolation}'"))
            .model_at(&model("identity_uint8"), "instances = 1, threads = 1")
            .limits("concurrency = 16")
    };
    let host = Setup::of(paths.map(endpoint)).serve();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let url = host.url.clone();
            thread::spawn(move || {
                let mut wire = Wire::connect(&url).unwrap();
                for round in 0..ROUNDS {
                    let path = paths[(client + round) % paths.len()];
                    let id = format!("client-{client}-round-{round}");
                    // Of different lengths, so that a buffer of another request would show, too.
                    let body = format!("{id} {}", "x".repeat(client * 7 % 256));
                    wire.send(&wire::post(path, &[("x-request-id", &id), ("x-test", &id)], &body)).unwrap();
                    let reply = wire.read().unwrap();
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    assert_eq!(reply.header("x-request-id"), Some(&*id));
                    let (expected, found) = match path.starts_with("/probe") {
                        true => (json!({"kept": body, "sent": body}), reply.json()),
                        false => {
                            let echo = reply.json();
                            let found =
                                json!([echo["request_id"], echo["header"], echo["body"], echo["path"]]);
                            (json!([id, id, body, path]), found)
                        }
                    };
                    assert_eq!(found, expected, "{path}");
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    for path in paths {
        let name = &path[1..];
        let ok = host.metric(&format!("modelhost_requests_total{{endpoint=\"{name}\",outcome=\"ok\"}}"));
        assert_eq!(ok as usize, CLIENTS * ROUNDS / paths.len(), "{path}");
        let alive = host.metric(&format!("modelhost_plugin_instances{{endpoint=\"{name}\"}}"));
        let most = if name.ends_with("worker") { 16.0 } else { 0.0 };
        assert!(alive <= most, "{alive} instances are left on {path}");
    }
}
