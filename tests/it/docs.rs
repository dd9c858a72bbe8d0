//! The page at `/docs/`, as a person sees it in a browser.

use e2e::browser::Browser;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, model};
use serde_json::{Value, json};

/// An element within the operation `POST path`.
fn within(path: &str, selector: &str) -> String {
    format!(".opblock-post:has([data-path='{path}']) {selector}")
}

/// Sends what is in the form of `POST path` and gives status and body as the page shows them.
fn execute(browser: &Browser, path: &str) -> (String, Value) {
    browser.click(&within(path, "button.execute"));
    let live = |selector: &str| within(path, &format!(".live-responses-table {selector}"));
    let status = browser.text(&live("tbody .response-col_status"));
    let body = browser.text(&live(".highlight-code pre"));
    (status.trim().to_owned(), serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

const SAMPLE: [(&str, f64); 4] =
    [("sepal_length", 5.2), ("sepal_width", 3.6), ("petal_length", 1.4), ("petal_width", 0.3)];

/// `iris` declares what it takes, with examples; `any` is the same without a word of it.
fn host() -> Host {
    let endpoint = |name: &str| Endpoint::new(name).plugin(&component("iris-wasm")).model("iris_dyn");
    let declared = SAMPLE.iter().fold(endpoint("iris"), |endpoint, (name, example)| {
        let lines = format!("datatype = 'FP32'\nshape = [1]\nexample = {example}");
        endpoint.table(&format!("input.{name}"), &lines)
    });
    Setup::of([endpoint("any"), declared]).serve()
}

#[test]
fn a_body_that_is_a_file_has_an_upload_form() {
    let plugin = component("tests/echo");
    let body = "body = { media_types = ['image/jpeg', 'application/pdf'] }";
    let host =
        Host::configured(&format!("[[endpoint]]\nname = 'it'\nplugin = '{}'\n{body}\n", plugin.display()));
    let browser = Browser::open();
    browser.go(&format!("{}/docs/", host.url));
    browser.text(&within("/it", ".opblock-section-request-body input[type=file]"));
}

#[test]
fn an_endpoint_is_tried_in_a_browser() {
    let host = host();
    let browser = Browser::open();
    browser.go(&format!("{}/docs", host.url));
    assert_eq!(browser.title(), "modelhost: endpoints");

    // The first endpoint's call is open, the next one is a click away, and the protocols are closed.
    browser.text(&within("/any", "textarea.body-param__text"));
    let open =
        browser.run("return [...document.querySelectorAll('.opblock-tag')].map((it) => it.dataset.isOpen)");
    let open = open.as_array().unwrap();
    assert_eq!(open.iter().filter(|it| **it == "true").count(), 1, "{open:?}");
    browser.click("#operations-tag-iris");

    // The example is filled in: expand, execute.
    browser.click(&within("/iris", ".opblock-summary-path"));
    let field = |path| within(path, "textarea.body-param__text");
    let filled: Value = serde_json::from_str(&browser.text(&field("/iris"))).unwrap();
    let sample: Value = SAMPLE.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    assert_eq!(filled, sample);
    let (status, body) = execute(&browser, "/iris");
    assert_eq!((&*status, &body["class_label"]), ("200", &json!("iris-setosa")), "{body}");

    // Where nothing is declared there is a field to write into.
    browser.fill(&field("/any"), &sample.to_string());
    let (status, body) = execute(&browser, "/any");
    assert_eq!((&*status, &body["class_label"]), ("200", &json!("iris-setosa")), "{body}");

    // Nothing was asked of another server, and nothing of the page was refused.
    let requests = browser.requests();
    assert!(requests.contains(&format!("{}/iris", host.url)), "{requests:?}");
    let strangers: Vec<&String> = requests
        .iter()
        .filter(|url| !url.starts_with(&format!("{}/", host.url)) && !url.starts_with("data:"))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert_eq!(browser.console(), Vec::<Value>::new());

    // What would be asked of others is refused before it leaves, and the console says so.
    let attempt = format!("return fetch('{}/healthz').then(() => 'answered', () => 'refused')", host.admin);
    assert_eq!(browser.run(&attempt), "refused");
    let said = browser.console();
    assert!(
        said.iter().any(|entry| entry["message"].as_str().unwrap().contains("Content Security Policy")),
        "{said:?}"
    );
}

#[test]
fn the_page_may_load_nothing_from_elsewhere() {
    let host = Host::with(None, Some(&model("iris_dyn")), &[]);
    let reply = host.get("/docs/");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for (path, content_type) in [
        ("/docs/", "text/html; charset=utf-8"),
        ("/docs/swagger-ui-bundle.js", "text/javascript"),
        ("/docs/swagger-initializer.js", "text/javascript"),
        ("/docs/swagger-ui.css", "text/css"),
        ("/docs/favicon-32x32.png", "image/png"),
    ] {
        let reply = host.get(path);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some(content_type)), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("http"), "{policy}");
        assert!(!policy.contains("script-src"), "scripts come from the host's files only: {policy}");
    }
    for path in ["/docs/nope.js", "/docs/../Cargo.toml", "/docs/%2e%2e/Cargo.toml", "/docs/a/b"] {
        host.get(path).error(404, "not_found", "admit");
    }
    host.post("/docs/", "{}").error(405, "method_not_allowed", "admit");
}
