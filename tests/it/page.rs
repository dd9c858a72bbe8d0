//! The operator's page at the admin address, as a person uses it in a browser.

use std::fs;

use e2e::browser::Browser;
use e2e::load::Pattern;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, model, request, wait_until};
use serde_json::{Value, json};

/// Opens the page, in a browser of its own.
fn open(host: &Host) -> Browser {
    let browser = Browser::open();
    browser.go(&format!("{}/", host.admin));
    browser
}

/// Nothing was asked of another address, and nothing of the page was refused.
fn assert_sound(browser: &Browser, host: &Host) {
    let home = format!("{}/", host.admin);
    let strangers: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with(&home)).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

/// The text of a part of the page that may be drawn anew at any time; empty while it is not there.
fn shown(browser: &Browser, selector: &str) -> String {
    let text = browser.run(&format!("return document.querySelector({selector:?})?.innerText ?? ''"));
    text.as_str().unwrap().to_owned()
}

fn wait_for(browser: &Browser, selector: &str, text: &str) {
    wait_until(&format!("`{text}` in `{selector}`"), || shown(browser, selector).contains(text));
}

#[test]
fn the_slow_endpoint_is_found_and_its_stage_is_shown() {
    let endpoint = |name: &str| Endpoint::new(name).guest("slow");
    let host = Setup::of(["brisk", "late", "quick", "unused"].map(endpoint)).serve();
    let browser = open(&host);
    for _ in 0..4 {
        for (name, milliseconds) in [("brisk", "1"), ("late", "400"), ("quick", "1")] {
            assert_eq!(host.post(&format!("/{name}"), milliseconds).status, 200);
        }
    }
    // It is the first row, because that is the order, and it is marked.
    wait_for(&browser, "tr.slow", "late");
    assert!(shown(&browser, "tbody tr").contains("late"));
    let slow = browser.run("return document.querySelectorAll('tr.slow').length");
    assert_eq!(slow, 1);

    browser.click("tr.slow a");
    let pictures = "return [...document.querySelectorAll('svg')].map((it) => it.ariaLabel).join()";
    let mut said = String::new();
    wait_until("the pictures", || {
        said = browser.run(pictures).as_str().unwrap().to_owned();
        said.contains("Time by stage")
    });
    assert!(said.contains("Latency") && said.contains("p99"), "{said}");
    let longest = browser.run(
        "return fetch('admin/v1/endpoints/late/timeline').then((it) => it.json()).then(({ samples }) => {
             const most = (name) => Math.max(...samples[name]);
             return ['admit_ms', 'pre_inference_ms', 'queue_ms', 'infer_ms', 'post_inference_ms']
                 .sort((a, b) => most(b) - most(a))[0];
         })",
    );
    assert_eq!(longest, "pre_inference_ms");
    assert_sound(&browser, &host);
}

#[test]
fn a_canary_is_watched_to_its_end_and_rolled_back_by_a_button() {
    let host = Setup::of([Endpoint::new("e").guest("version_a")]).serve();
    let first = host.endpoint("e")["digest"].clone();
    let load = Pattern { clients: 2, body: |_| "{}".to_owned(), ..Pattern::new(&host.url, "/e") }.start();
    load.wait_for_more(10);
    let browser = open(&host);
    browser.click("tbody a");
    browser.text("#reload");

    let terms = "mode=canary&steps=0.5,1&step_time=4s&min_requests=10&max_slowdown=1000";
    let url = format!("{}/admin/v1/endpoints/e/plugin/candidate?{terms}", host.admin);
    let handler = fs::read(component("tests/version_b")).unwrap();
    assert_eq!(request("PUT", &url, &[], &handler).status, 200);
    for share in ["50 %", "100 %"] {
        wait_for(&browser, "#share", share);
    }
    wait_for(&browser, ".history .serves", "canary");
    wait_until("the trial to go", || shown(&browser, "#share").is_empty());
    assert_eq!(shown(&browser, "#generation"), "2");

    // The dialog says what is going to happen, and nothing does if it is closed.
    browser.click("#rollback");
    assert!(browser.text("dialog p").contains("generation 1"));
    browser.click("dialog button[type=button]");
    wait_until("the dialog to close", || shown(&browser, "dialog").is_empty());
    assert_eq!(host.endpoint("e")["generation"], 2);
    browser.click("#rollback");
    browser.fill("dialog input", "too <b>bold</b>");
    browser.click("dialog button[type=submit]");
    wait_for(&browser, "#result", "published; generation 3");
    wait_for(&browser, ".history .serves", "too <b>bold</b>");
    assert_eq!((&host.endpoint("e")["digest"], &host.endpoint("e")["generation"]), (&first, &json!(3)));
    assert!(load.stop().iter().all(|answer| answer.ok().status == 200));
    assert_sound(&browser, &host);
}

#[test]
fn a_thousand_endpoints_are_listed_and_searched() {
    let endpoint = |number: usize| Endpoint::new(format!("e{number:03}")).model("add");
    let host = Setup::of((0..1000).map(endpoint)).serve();
    let browser = open(&host);
    wait_until("the rows", || shown(&browser, "tbody").contains("e000"));
    let count = |of: &str| browser.run(&format!("return document.querySelectorAll('{of}').length"));
    // A screen reader is told of all, the document holds those in sight.
    assert_eq!(browser.run("return document.querySelector('table').ariaRowCount"), "1001");
    assert!(count("tbody tr").as_u64().unwrap() < 100);
    browser.run("const rows = document.querySelector('.rows'); rows.scrollTop = rows.scrollHeight");
    wait_for(&browser, "tbody", "e999");
    browser.fill("input[type=search]", "e777");
    wait_until("one row", || count("tbody tr") == 1);
    assert!(shown(&browser, "tbody tr").contains("e777"));
    assert_sound(&browser, &host);
}

#[test]
fn a_model_is_unloaded_and_loaded_by_buttons() {
    let host = Setup::of([Endpoint::new("add").model("add")]).serve();
    let browser = open(&host);
    browser.click("tbody a");
    for (title, loaded, said) in [("Unload", false, "unloaded"), ("Load", true, "loaded")] {
        browser.click(&format!("td button[aria-label='{title} model default']"));
        browser.click("dialog button[type=submit]");
        wait_for(&browser, "#result", &format!(": {said}"));
        assert_eq!(host.endpoint("add")["models"][0]["loaded"], loaded, "{title}");
    }
    assert_sound(&browser, &host);
}

#[test]
fn a_key_is_asked_for_and_kept_in_memory_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, "the-operators-key-0123456789abcdef").unwrap();
    let host = Host::with(None, Some(&model("add")), &["--admin-key", &format!("@{}", file.display())]);
    let browser = open(&host);
    browser.fill("#key", "another-key-0123456789abcdef0123");
    browser.click("button[type=submit]");
    wait_for(&browser, "[role=alert]", "does not know this key");
    browser.fill("#key", "the-operators-key-0123456789abcdef");
    browser.click("button[type=submit]");
    wait_for(&browser, "tbody", "add");
    let kept = browser.run(
        "return [document.cookie, localStorage.length, sessionStorage.length, location.href.includes('key')]",
    );
    assert_eq!(kept, json!(["", 0, 0, false]));
    browser.go(&format!("{}/?again", host.admin));
    browser.text("#key");
}

#[test]
fn orders_come_from_tools_and_from_the_page_alone() {
    let host = Setup::of([Endpoint::new("add").model("add")]).serve();
    let reload = format!("{}/admin/v1/endpoints/add/reload", host.admin);
    let port = host.admin.rsplit_once(':').unwrap().1;
    let local = format!("http://localhost:{port}");
    for (origin, status) in [
        (host.admin.as_str(), 200),
        (host.url.as_str(), 403),
        (local.as_str(), 403),
        ("http://evil.example", 403),
        ("null", 403),
    ] {
        let reply = request("POST", &reload, &[("origin", origin)], b"");
        assert_eq!(reply.status, status, "{origin}: {}", reply.text());
    }
    let own = [("origin", host.admin.as_str()), ("sec-fetch-site", "cross-site")];
    assert_eq!(request("POST", &reload, &own, b"").status, 403);

    for path in ["/", "/page/app.js"] {
        let reply = request("GET", &format!("{}{path}", host.admin), &[], b"");
        assert_eq!(reply.status, 200);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
        let renamed = request("GET", &format!("{}{path}", host.admin), &[("host", "evil.example")], b"");
        assert_eq!(renamed.status, 403, "{path}");
    }
    // A link to the page may stand anywhere; its files are for the page.
    for (path, status) in [("/", 200), ("/page/app.js", 403)] {
        let headers = [("sec-fetch-site", "cross-site")];
        assert_eq!(request("GET", &format!("{}{path}", host.admin), &headers, b"").status, status, "{path}");
    }
}
