//! One path for several endpoints, by weight: `[[split]]`.

use std::collections::BTreeSet;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, Reply, agent, request, try_request};
use serde_json::json;

/// Endpoints `a` and `b` that sign with their letters, and what else the file says.
fn serve(more: &str) -> Host {
    let endpoint = |name: &str| Endpoint::new(name).guest(&format!("version_{name}"));
    Setup::of(["a", "b"].map(endpoint)).tables(more).serve()
}

fn signed(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["post"].as_str().unwrap().to_owned()
}

#[test]
fn requests_are_spread_by_weight() {
    let host = serve("[[split]]\npath = '/both'\nendpoints = { a = 90, b = 10 }\n");
    let (agent, url) = (agent(), format!("{}/both", host.url));
    let answers: Vec<String> =
        (0..1000).map(|_| signed(&try_request(&agent, "POST", &url, &[], b"{}").unwrap())).collect();
    let b = answers.iter().filter(|signed| *signed == "b").count();
    assert!((60..=140).contains(&b), "{b} of 1000");
    let served = |name: &str| {
        host.metric(&format!("modelhost_requests_total{{endpoint=\"{name}\",outcome=\"ok\"}}")) as usize
    };
    assert_eq!((served("a"), served("b")), (1000 - b, b), "each counts what it served");
    // Both have paths of their own still, and the path says what it is.
    assert_eq!((signed(&host.post("/a", "{}")), signed(&host.post("/b", "{}"))), ("a".into(), "b".into()));
    let described = host.get("/both").json();
    assert_eq!((&described["endpoints"]["a"], &described["endpoints"]["b"]), (&90.into(), &10.into()));
    let documented = &host.get("/openapi.json").json()["paths"]["/both"];
    assert_eq!(
        documented["post"]["description"],
        "One of these endpoints answers, by weight: `a` (90), `b` (10)."
    );
    assert_eq!(
        documented["post"]["responses"],
        host.get("/openapi.json").json()["paths"]["/a"]["post"]["responses"]
    );
    assert_eq!(documented["get"]["tags"], json!(["a", "b"]));
    assert_eq!(host.request("PUT", "/both", &[], b"").status, 405);
    assert_eq!(
        host.request("OPTIONS", "/both", &[], b"").status,
        host.request("OPTIONS", "/a", &[], b"").status
    );
}

#[test]
fn a_key_decides_if_it_is_there() {
    let host =
        serve("[[split]]\npath = '/both'\nsticky = 'header:x-user'\n[split.endpoints]\na = 1\nb = 1\n");
    let (agent, url) = (agent(), format!("{}/both", host.url));
    let send = |user: &str| signed(&try_request(&agent, "POST", &url, &[("x-user", user)], b"{}").unwrap());
    let mut sides = BTreeSet::new();
    for user in (0..50).map(|n| n.to_string()) {
        let side = send(&user);
        assert!((0..3).all(|_| send(&user) == side), "{user} is on both sides");
        sides.insert(side);
    }
    assert_eq!(sides.len(), 2);
}

/// An application gets what it would get at its own path.
#[test]
fn an_application_answers_its_share() {
    let endpoints = [Endpoint::new("a").guest("version_a"), Endpoint::new("app").guest("call_responder")];
    let split = "[[split]]\npath = '/both'\nendpoints = { a = 1, app = 1 }";
    let host = Setup::of(endpoints).tables(split).serve();
    // It wants more than that.
    let own = host.post("/app", "{}").error(400, "invalid_input", "pre_inference");
    let mut counts = [0, 0];
    for _ in 0..40 {
        let reply = host.post("/both", "{}");
        counts[usize::from(reply.status == 400)] += 1;
        assert!(reply.status == 200 || reply.json()["error"] == own, "{}", reply.text());
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn each_endpoint_keeps_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "secret\n").unwrap();
    let locked = Endpoint::new("a").guest("version_a").set(format!("keys = ['@{}']", key.display()));
    let host = Setup::of([locked]).tables("[[split]]\npath = '/s'\nendpoints = { a = 1 }").serve();
    assert_eq!((host.post("/s", "{}").status, host.get("/s").status), (401, 401));
    let with_key = |method| {
        request(method, &format!("{}/s", host.url), &[("authorization", "Bearer secret")], b"{}").status
    };
    assert_eq!((with_key("POST"), with_key("GET")), (200, 200));
    let documented = &host.get("/openapi.json").json()["paths"]["/s"]["post"];
    assert!(documented["responses"]["401"].is_object() && documented["security"].is_array(), "{documented}");
}
