//! Handlers on trial beside the one that serves: shadows, which nobody hears, and canaries, which answer some.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::load::Pattern;
use e2e::{Host, Reply, agent, component, host, model, request, root, try_request, version, wait_until};
use serde_json::{Value, json};

fn serve(handler: &Path, model: Option<&Path>, more: &[&str]) -> Host {
    Host::with(Some(handler), model, &[&["--name", "e"], more].concat())
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

/// An order about the candidate of the endpoint `e`.
fn order(host: &Host, method: &str, call: &str, body: &[u8]) -> Reply {
    request(method, &format!("{}/admin/v1/endpoints/e/plugin/candidate{call}", host.admin), &[], body)
}

/// Puts a handler on trial, and says what that has come to.
fn try_out(host: &Host, terms: &str, handler: &[u8]) -> Value {
    let reply = order(host, "PUT", &format!("?{terms}"), handler);
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The state of the trial.
fn state(host: &Host) -> Value {
    let reply = order(host, "GET", "", b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

fn history(host: &Host) -> Vec<Value> {
    let endpoint = request("GET", &format!("{}/admin/v1/endpoints/e", host.admin), &[], b"").json();
    endpoint["history"].as_array().unwrap().clone()
}

fn digest(host: &Host) -> String {
    host.endpoint("e")["digest"].as_str().unwrap().to_owned()
}

/// How many requests came out like that when the two sides were compared.
fn compared(host: &Host, what: &str) -> u64 {
    state(host)["compared"][what].as_u64().unwrap()
}

/// Sends one request after the other on kept connections.
fn send<'a>(
    host: &Host,
    bodies: impl IntoIterator<Item = &'a str>,
    header: Option<(&str, &str)>,
) -> Vec<Reply> {
    let (agent, url) = (agent(), format!("{}/e", host.url));
    let headers: Vec<_> = header.into_iter().chain([("content-type", "application/json")]).collect();
    let send = |body: &str| try_request(&agent, "POST", &url, &headers, body.as_bytes()).unwrap();
    bodies.into_iter().map(send).collect()
}

/// Which of `version_a` and `version_b` answered, with both its functions and by the digest in the header.
fn signature(reply: &Reply, a: &str, b: &str) -> char {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = reply.json();
    assert_eq!(answer["pre"], answer["post"], "half of each");
    let signed = answer["post"].as_str().unwrap().chars().next().unwrap();
    let digest = reply.header("x-handler-digest").unwrap();
    assert_eq!(digest, if signed == 'a' { a } else { b }, "signed by {signed}");
    signed
}

#[test]
fn a_shadow_is_compared_and_never_heard() {
    let host = serve(&component("tests/version_a"), Some(&model("add")), &[]);
    let (a, generation) = (digest(&host), host.endpoint("e")["generation"].clone());
    let begun = try_out(&host, "mode=shadow&share=1&note=look", &bytes("tests/version_b"));
    assert_eq!(
        (&begun["mode"], &begun["share"], &begun["note"]),
        (&"shadow".into(), &1.0.into(), &"look".into())
    );
    let mut answers = Vec::new();
    // At a pace that leaves room for every one of them.
    for n in 1..=10 {
        answers.extend(send(&host, ["{}"], None));
        wait_until("the comparison", || compared(&host, "differs") == n);
    }
    assert!(answers.iter().all(|reply| signature(reply, &a, "") == 'a'));
    // It is counted first, and listed then.
    let last = answers[9].header("x-request-id").unwrap();
    wait_until("the last one to be listed", || state(&host)["differences"][0]["request_id"] == last);
    let now = state(&host);
    assert_eq!(now["model_runs"], 10, "each has inputs of its own: {now}");
    assert_eq!((&now["current"]["requests"], &now["candidate"]["requests"]), (&10.into(), &10.into()));
    let latest = &now["differences"][0];
    let places =
        latest["differences"].as_array().unwrap().iter().map(|found| found["place"].as_str().unwrap());
    assert_eq!(places.collect::<BTreeSet<_>>(), ["/post", "/pre"].into());
    let series = "modelhost_trial_requests_total{endpoint=\"e\",mode=\"shadow\",outcome=\"differs\"}";
    assert_eq!(host.metric(series), 10.0);
    assert_eq!(host.metric("modelhost_trial_share{endpoint=\"e\"}"), 1.0);
    let info = format!(
        "modelhost_plugin_info{{digest=\"{}\",endpoint=\"e\",role=\"candidate\"}}",
        now["digest"].as_str().unwrap()
    );
    assert_eq!(host.metric(&info), 1.0);

    // What is known to differ may be ignored.
    try_out(&host, "share=1&ignore=/pre&ignore=/post", &bytes("tests/version_b"));
    send(&host, ["{}"], None);
    wait_until("the comparison", || compared(&host, "same") == 1);
    let ended = order(&host, "DELETE", "", b"").json();
    assert_eq!((&ended["outcome"], &ended["generation"]), (&"dropped".into(), &generation));
    assert_eq!((order(&host, "GET", "", b"").status, digest(&host)), (404, a));
    assert_eq!(host.metric("modelhost_trial_share{endpoint=\"e\"}"), 0.0);
    assert!(!host.metrics().contains(&info));
    let reasons: Vec<String> = history(&host).iter().map(|attempt| attempt["error"].to_string()).collect();
    assert!(reasons[0].contains("an order") && reasons[1].contains("another candidate"), "{reasons:?}");
    // What the metric has counted stays.
    assert_eq!(host.metric(series), 10.0);
}

#[test]
fn the_model_runs_once_for_both_if_they_ask_it_the_same() {
    let host = serve(&component("iris-wasm"), Some(&root().join("examples/iris-wasm/iris.onnx")), &[]);
    try_out(&host, "share=1", &version("iris-wasm", 1));
    let sample = fs::read_to_string(root().join("examples/iris-wasm/sample.json")).unwrap();
    for n in 1..=10 {
        assert_eq!(send(&host, [sample.as_str()], None)[0].status, 200);
        wait_until("the comparison", || compared(&host, "same") == n);
    }
    let now = state(&host);
    assert_eq!((&now["model_runs"], &now["differences"]), (&0.into(), &Value::Array(Vec::new())), "{now}");
    assert_eq!(host.metric("modelhost_batch_requests_count{endpoint=\"e\"}"), 10.0);
}

#[test]
fn hostile_shadows_harm_nobody() {
    let host = serve(&component("tests/echo"), None, &["--instance-memory", "16MiB", "--pre-timeout", "2s"]);
    for (handler, body, code) in [
        ("tests/trap", "panic", "plugin_trap"),
        ("tests/hog", "hog", "plugin_out_of_memory"),
        ("tests/slow", "100000", "plugin_timeout"),
    ] {
        try_out(&host, "share=1", &bytes(handler));
        for n in 1..=3 {
            let reply = &send(&host, [body], None)[0];
            assert_eq!((reply.status, &reply.json()["body"]), (200, &body.into()), "{}", reply.text());
            // One that a busy machine left no time to is no finding.
            wait_until("the comparison", || compared(&host, "failed") + compared(&host, "dropped") == n);
        }
        let now = state(&host);
        let failed = now["compared"]["failed"].as_u64().unwrap();
        let expected = if failed > 0 { json!({ code: failed }) } else { json!({}) };
        assert_eq!(
            (&now["failures"], now["candidate"]["faults"].as_u64()),
            (&expected, Some(failed)),
            "{now}"
        );
        assert!(failed == 3 || code == "plugin_timeout", "{now}");
        for noted in now["differences"].as_array().unwrap() {
            assert!(noted["differences"][0]["change"].as_str().unwrap().contains(code), "{noted}");
        }
    }
    assert_eq!(host.metric("modelhost_requests_total{endpoint=\"e\",outcome=\"ok\"}"), 9.0);
}

#[test]
fn what_a_shadow_has_no_place_for_is_dropped_and_waits_for_nobody() {
    let host =
        serve(&component("tests/echo"), None, &["--concurrency", "1", "--queue", "0", "--pre-timeout", "5s"]);
    try_out(&host, "share=1&concurrency=2", &bytes("tests/slow"));
    let began = Instant::now();
    let replies = send(&host, ["1500"; 30], None);
    assert!(replies.iter().all(|reply| reply.status == 200), "a shadow takes nobody's place");
    // One after the other they would take 45 seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    wait_until("what has a place", || {
        let now = state(&host);
        now["compared"]["dropped"].as_u64().unwrap() + now["compared"]["same"].as_u64().unwrap() == 30
    });
    assert!(compared(&host, "dropped") >= 10, "{}", state(&host));
    assert!(compared(&host, "same") >= 1, "{}", state(&host));
}

#[test]
fn a_canary_answers_its_share_and_every_answer_is_whole() {
    let host = serve(&component("tests/version_a"), None, &[]);
    let a = digest(&host);
    let begun = try_out(&host, "mode=canary&share=0.3&max_slowdown=1000", &bytes("tests/version_b"));
    let b = begun["digest"].as_str().unwrap().to_owned();
    let count = |replies: &[Reply]| replies.iter().filter(|reply| signature(reply, &a, &b) == 'b').count();
    let answered = count(&send(&host, ["{}"; 400], None));
    // Five deviations to each side.
    assert!((74..=166).contains(&answered), "{answered} of 400");
    let now = state(&host);
    assert_eq!(now["candidate"]["requests"].as_u64(), Some(answered as u64), "{now}");
    assert_eq!(now["current"]["requests"].as_u64(), Some(400 - answered as u64), "{now}");
    let series = "modelhost_trial_requests_total{endpoint=\"e\",mode=\"canary\",outcome=\"ok\"}";
    assert_eq!(host.metric(series), answered as f64);
    assert_eq!(host.metric("modelhost_requests_total{endpoint=\"e\",outcome=\"ok\"}"), 400.0);

    let more = order(&host, "PUT", "?share=1", b"").json();
    assert_eq!((&more["share"], &more["step_time_seconds"]), (&1.0.into(), &Value::Null));
    assert_eq!(count(&send(&host, ["{}"; 20], None)), 20);
    let promoted = order(&host, "POST", "/promote?note=good", b"").json();
    assert_eq!((&promoted["outcome"], promoted["generation"].as_u64()), (&"published".into(), Some(2)));
    assert_eq!(count(&send(&host, ["{}"], None)), 1);
    assert_eq!(
        (order(&host, "GET", "", b"").status, order(&host, "POST", "/promote", b"").status),
        (404, 404)
    );
    // There is a way back, as from every swap.
    let back = request("POST", &format!("{}/admin/v1/endpoints/e/rollback", host.admin), &[], b"");
    assert_eq!((back.status, count(&send(&host, ["{}"], None))), (200, 0));
}

#[test]
fn a_key_stays_where_it_is_and_a_larger_share_keeps_all_callers() {
    let host = serve(&component("tests/version_a"), None, &[]);
    let a = digest(&host);
    let terms = "mode=canary&share=0.2&sticky=header:X-User&max_slowdown=1000";
    let b = try_out(&host, terms, &bytes("tests/version_b"))["digest"].as_str().unwrap().to_owned();
    let users: Vec<String> = (0..200).map(|n| format!("user-{n}")).collect();
    let on_b = || -> BTreeSet<&str> {
        let is_on_b = |user: &&String| {
            let replies = send(&host, ["{}"; 2], Some(("x-user", user.as_str())));
            let signed: BTreeSet<char> = replies.iter().map(|reply| signature(reply, &a, &b)).collect();
            assert_eq!(signed.len(), 1, "{user} is on both sides");
            signed.contains(&'b')
        };
        users.iter().filter(is_on_b).map(String::as_str).collect()
    };
    let mut before = on_b();
    assert!((10..=70).contains(&before.len()), "{}", before.len());
    for share in ["0.5", "0.9"] {
        assert_eq!(order(&host, "PUT", &format!("?share={share}"), b"").status, 200);
        let now = on_b();
        assert!(
            now.is_superset(&before) && now.len() > before.len(),
            "{share}: {} after {}",
            now.len(),
            before.len()
        );
        before = now;
    }
}

#[test]
fn a_canary_that_does_well_grows_step_by_step_until_it_serves() {
    let host = serve(&component("tests/version_a"), None, &[]);
    let a = digest(&host);
    let load = Pattern { clients: 4, body: |_| "{}".to_owned(), ..Pattern::new(&host.url, "/e") }.start();
    load.wait_for_more(100);
    let terms = "mode=canary&steps=0.1,0.5,1&step_time=300ms&min_requests=10&max_slowdown=1000&note=slowly";
    let b = try_out(&host, terms, &bytes("tests/version_b"))["digest"].as_str().unwrap().to_owned();
    let mut shares = BTreeSet::new();
    wait_until("the canary to serve", || {
        let reply = order(&host, "GET", "", b"");
        if reply.status == 200 {
            shares.insert(reply.json()["share"].to_string());
        }
        digest(&host) == b
    });
    load.wait_for_more(20);
    let answers = load.stop();
    let signed: String = answers.iter().map(|answer| signature(answer.ok(), &a, &b)).collect();
    assert!(signed.contains('a') && signed.contains('b'));
    assert_eq!(shares.len(), 3, "{shares:?}");
    let latest = &history(&host)[0];
    assert_eq!((&latest["origin"], &latest["outcome"]), (&"canary".into(), &"published".into()));
    assert_eq!(latest["note"], "slowly");
    assert!(latest["duration_ms"].as_u64().unwrap() >= 900);
}

#[test]
fn a_canary_that_does_not_is_dropped_with_the_reason() {
    let arguments = ["--pre-timeout", "5s"];
    let lenient = "max_faults=1000000&min_requests=20";
    for (old, new, body, terms, reason) in [
        ("tests/echo", "tests/trap", "panic", "", "1 faults, allowed are 0"),
        ("tests/echo", "tests/trap", "panic", lenient, " requests failed"),
        ("tests/echo", "tests/slow", "40", "min_requests=20&max_errors=1", "the median of its times is "),
        (
            "tests/version_a",
            "tests/version_b",
            "{}",
            "compare=true",
            "answers differ from the current handler's",
        ),
    ] {
        let host = serve(&component(old), None, &arguments);
        let before = digest(&host);
        let begun = try_out(&host, &format!("mode=canary&share=0.5&{terms}"), &bytes(new));
        wait_until("the canary to be dropped", || {
            send(&host, [body; 5], None);
            // Its end is in the history a moment after it is gone.
            order(&host, "GET", "", b"").status == 404 && history(&host)[0]["origin"] != "start"
        });
        let latest = &history(&host)[0];
        let found = (&latest["origin"], &latest["outcome"], &latest["step"], &latest["digest"]);
        assert_eq!(found, (&"canary".into(), &"refused".into(), &"canary".into(), &begun["digest"]));
        assert!(latest["error"].as_str().unwrap().contains(reason), "{latest}");
        let after = send(&host, [body; 20], None);
        let by_old = |reply: &Reply| reply.status == 200 && reply.header("x-handler-digest") == Some(&before);
        assert!(after.iter().all(by_old) && digest(&host) == before);
    }
}

#[test]
fn the_first_trap_is_the_last() {
    let host = serve(&component("tests/echo"), None, &[]);
    try_out(&host, "mode=canary&share=0.5", &bytes("tests/trap"));
    let replies = send(&host, ["panic"; 100], None);
    // One after the other: whoever comes after it is not sent there any more.
    assert_eq!(replies.iter().filter(|reply| reply.status == 500).count(), 1);
}

/// It does not need all the requests of its step for that: what is beyond doubt ends it.
#[test]
fn a_canary_that_fails_at_each_request_ends_before_its_step_does() {
    let host = serve(&component("tests/echo"), None, &[]);
    for terms in ["share=1", "share=0.5", "steps=0.5,1&step_time=1h", "share=1&min_requests=1000"] {
        try_out(&host, &format!("mode=canary&max_faults=1000000&{terms}"), &bytes("tests/trap"));
        let replies = send(&host, ["panic"; 100], None);
        let failed = replies.iter().filter(|reply| reply.status == 500).count();
        assert!((1..=20).contains(&failed), "{terms}: {failed} failing answers");
        assert!(replies.iter().rev().take(30).all(|reply| reply.status == 200), "{terms}");
        wait_until("the canary to be dropped", || order(&host, "GET", "", b"").status == 404);
        let error = history(&host)[0]["error"].to_string();
        assert!(error.contains("10 of 10 requests failed"), "{terms}: {error}");
    }
}

#[test]
fn another_generation_ends_a_trial() {
    let host = serve(&component("tests/version_a"), None, &[]);
    let endpoint = format!("{}/admin/v1/endpoints/e", host.admin);
    for (mode, call, method) in [("shadow", "plugin", "PUT"), ("canary", "rollback", "POST")] {
        try_out(&host, &format!("mode={mode}&share=0.5"), &version("tests/version_b", 1));
        let body = if method == "PUT" { bytes("tests/version_b") } else { Vec::new() };
        assert_eq!(request(method, &format!("{endpoint}/{call}"), &[], &body).status, 200);
        assert_eq!(order(&host, "GET", "", b"").status, 404);
        let history = history(&host);
        assert_eq!(
            (&history[0]["outcome"], &history[1]["outcome"]),
            (&"published".into(), &"refused".into())
        );
        assert_eq!(history[1]["step"], mode);
        assert!(history[1]["error"].as_str().unwrap().contains("another generation"), "{}", history[1]);
    }
    assert_eq!(send(&host, ["{}"], None)[0].json()["post"], "a");
}

#[test]
fn a_shadow_meets_the_gate_when_it_is_to_serve_and_a_canary_before() {
    let golden = tempfile::tempdir().unwrap();
    fs::write(golden.path().join("one.json"), "{}").unwrap();
    let gate = ["--gate-golden", golden.path().to_str().unwrap()];
    let host = serve(&component("tests/version_a"), None, &gate);
    let b = bytes("tests/version_b");
    let refused = |reply: Reply| {
        assert_eq!((reply.status, reply.json()["step"].as_str()), (409, Some("gate")), "{}", reply.text());
        assert_eq!(history(&host)[0]["step"], "gate");
    };
    refused(order(&host, "PUT", "?mode=canary&share=1", &b));
    assert_eq!(order(&host, "GET", "", b"").status, 404);

    try_out(&host, "mode=shadow&share=1", &b);
    assert_eq!(send(&host, ["{}"], None)[0].json()["post"], "a");
    wait_until("they are compared", || compared(&host, "differs") == 1);
    refused(order(&host, "POST", "/promote", b""));
    // It goes on: what differs may be what was wanted.
    assert_eq!(send(&host, ["{}"], None)[0].json()["post"], "a");
    wait_until("they are compared", || compared(&host, "differs") == 2);
}

#[test]
fn a_candidate_that_cannot_serve_is_refused_and_so_are_terms_that_make_no_sense() {
    let host = serve(&component("tests/version_a"), None, &[]);
    let (a, b) = (bytes("tests/version_a"), bytes("tests/version_b"));
    let same = format!("the candidate is the handler that serves, `{}`", digest(&host));
    for (call, body, status, text) in [
        ("?share=1", b"no wasm".as_slice(), 409, "is not a WebAssembly file"),
        ("?share=1", &e2e::assembled("sockets"), 409, "imports what it is not granted"),
        ("?share=1", &a, 409, &same),
        ("?mode=canary&share=1", &a, 409, &same),
        ("?share=2", &b, 400, "`share=2`: expected more than 0 and at most 1"),
        ("?steps=0.1", &b, 400, "is said of a canary"),
        ("?nonsense=1", &b, 400, "unknown parameter `nonsense=1`"),
        ("?share=0.5", b"", 404, "there is no candidate"),
        ("?mode=canary", b"", 400, "without a component the order is `share=SHARE`"),
    ] {
        let reply = order(&host, "PUT", call, body);
        assert_eq!(reply.status, status, "{call}: {}", reply.text());
        assert!(reply.json()["error"].as_str().unwrap().contains(text), "{call}: {}", reply.text());
        assert_eq!(order(&host, "GET", "", b"").status, 404);
    }
    let origin = [("origin", "http://evil.example")];
    let url = format!("{}/admin/v1/endpoints/e/plugin/candidate", host.admin);
    for (method, call) in [("PUT", ""), ("DELETE", ""), ("POST", "/promote")] {
        // A longer body might not be taken before the refusal comes.
        assert_eq!(request(method, &format!("{url}{call}"), &origin, b"short").status, 403, "{method}");
    }
    let condition = [("if-match", "\"0\"")];
    assert_eq!(request("PUT", &format!("{url}?share=1"), &condition, &b).status, 412);
    assert_eq!(request("DELETE", &url, &condition, b"").status, 412);
    try_out(&host, "share=0.5", &b);
    assert_eq!(request("PUT", &format!("{url}?share=1"), &condition, b"").status, 412);
    assert_eq!(request("POST", &format!("{url}/promote"), &condition, b"").status, 412);
    assert_eq!(request("DELETE", &url, &condition, b"").status, 412);
    // What is on trial goes on, and a swap to what serves already is none.
    let refused = order(&host, "PUT", "?share=1", &a);
    assert_eq!((refused.status, refused.json()["step"].as_str()), (409, Some("order")), "{}", refused.text());
    assert!(!refused.json()["error"].as_str().unwrap().contains('\n'), "{}", refused.text());
    let url = format!("{}/admin/v1/endpoints/e/plugin", host.admin);
    assert_eq!(request("PUT", &url, &[], &a).json()["outcome"], "unchanged");
    assert_eq!(state(&host)["share"], 0.5);
    assert_eq!(order(&host, "DELETE", "", b"").json()["outcome"], "dropped");
    assert_eq!(order(&host, "POST", "/promote?persist=true", b"").status, 400);
    assert_eq!(order(&host, "DELETE", "", b"").json()["outcome"], "unchanged");
    assert_eq!((&history(&host)[0]["step"], &history(&host)[1]["step"]), (&"shadow".into(), &"order".into()));
}

#[test]
fn the_command_puts_on_trial_serves_and_ends() {
    let running = serve(&component("tests/version_a"), None, &[]);
    let b = component("tests/version_b").display().to_string();
    let swap = |arguments: &[&str]| {
        let output = host(&[&["swap", "e", "--admin", running.admin.as_str()], arguments].concat());
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    for (arguments, code, expected) in [
        (vec!["--plugin", &b, "--shadow", "0.5"], 0, "e: on trial as shadow with a share of 0.5, handler "),
        (vec!["--drop-candidate"], 0, "e: candidate dropped; generation 1 serves, handler "),
        (vec!["--drop-candidate"], 0, "e: generation 1 unchanged, handler "),
        (vec!["--promote"], 1, "error: endpoint `e`: there is no candidate"),
        (
            vec!["--plugin", &b, "--canary", "0.1,1", "--term", "step_time=1h", "--note", "n"],
            0,
            "e: on trial as canary with a share of 0.1, handler ",
        ),
        (vec!["--promote"], 0, "e: generation 2 published, handler "),
        (vec!["--plugin", &b, "--canary", "0"], 1, "error: `share=0`: expected more than 0 and at most 1"),
        (
            vec!["--plugin", &b, "--canary", "0.1,2"],
            2,
            "error: invalid value '0.1,2' for '--canary <SHARE,...>': write a number from 0 to 1, such as `0.05`",
        ),
    ] {
        let (found, text) = swap(&arguments);
        assert!(found == Some(code) && text.starts_with(expected), "{arguments:?}: {found:?} {text}");
    }
    assert_eq!(send(&running, ["{}"], None)[0].json()["post"], "b");
}
