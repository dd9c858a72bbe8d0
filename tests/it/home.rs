//! `GET /` of the serving address: a page for a browser, JSON for every other client.

use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, model};

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

/// The page as a browser gets it.
fn page(host: &Host, more: &[(&str, &str)]) -> String {
    let reply = host.request("GET", "/", &[&[BROWSER], more].concat(), b"");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(reply.header("vary"), Some("accept"));
    let policy = reply.header("content-security-policy").unwrap().to_owned();
    let text = reply.text();
    assert!(policy.starts_with("default-src 'none'") && !text.contains("<script"), "{policy}\n{text}");
    text
}

/// The commands on the page.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("<pre><code>").skip(1).map(|rest| rest.split_once("</code>").unwrap().0);
    let text = |block: &str| {
        let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        entities.iter().fold(block.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
    };
    blocks.map(text).collect()
}

/// What a command of the page prints, and its status.
fn run(command: &str) -> String {
    let command = command.replacen("curl ", "curl -sS -w '\n%{http_code}' ", 1);
    let output = Command::new("bash").args(["--norc", "-c", &command]).output().expect("bash is there");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_browser_gets_commands_that_work_and_other_clients_json() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "s3cret\n").unwrap();
    let locked = format!("keys = ['@{}']", keys.display());
    let host = Setup::of([
        Endpoint::new("greet").guest("greet"),
        Endpoint::new("add").model("add"),
        Endpoint::new("locked").guest("greet").set(locked),
        Endpoint::new("photo").guest("echo").set("body = { media_types = ['image/jpeg'] }"),
        Endpoint::new("app").guest("responder").model("add"),
    ])
    .serve();
    let page = page(&host, &[]);
    assert!(page.contains("5 endpoints are served"), "{page}");
    assert!(page.contains("<a href=\"docs/#/greet/greet.predict\">greet</a>"), "{page}");
    let commands = commands(&page);
    assert!(commands.iter().all(|command| command.contains(&host.url)), "{commands:#?}");
    let of = |name: &str| {
        let path = format!("{}/{name}", host.url);
        commands.iter().find(|command| command.contains(&path)).unwrap_or_else(|| panic!("{commands:#?}"))
    };
    assert_eq!(run(of("greet")), "{\"out\":\"hi!hi!\"}\n200");
    assert!(run(of("add")).ends_with("]\n200"), "{}", of("add"));
    assert!(run(&of("locked").replace("KEY", "s3cret")).ends_with("\n200"), "{}", of("locked"));
    assert!(run(of("locked")).ends_with("\n401"), "{}", of("locked"));
    assert!(of("photo").ends_with(" --data-binary @FILE -H 'content-type: image/jpeg'"), "{}", of("photo"));
    assert!(of("app/items/").contains("/app/items/{id}"), "{}", of("app/items/"));

    let reply = host.get("/");
    assert_eq!((reply.text().as_str(), reply.header("vary")), (r#"{"status":"alive"}"#, Some("accept")));
    let reply = host.request("HEAD", "/", &[BROWSER], b"");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert_eq!(reply.header("content-type"), Some("text/html; charset=utf-8"));
    host.request("POST", "/", &[BROWSER], b"{}").error(405, "method_not_allowed", "admit");
}

#[test]
fn the_page_of_the_only_endpoint_says_nothing_of_the_clients_own() {
    let host = Host::with(Some(&component("iris-wasm")), Some(&model("iris_dyn")), &["--name", "iris"]);
    let page = page(&host, &[("host", "example.com:8000\"><script>")]);
    assert!(page.contains("One endpoint is served") && page.contains("http://127.0.0.1:8000/iris"), "{page}");
    let page = self::page(&host, &[("host", "models.example.com")]);
    assert_eq!(commands(&page), ["curl http://models.example.com/iris --json @sample.json"]);
    assert!(host.get("/").json()["model_signature"].is_object());
}

#[test]
fn it_is_off_with_the_documents() {
    let host = Host::with(None, Some(&model("iris_dyn")), &["--no-docs"]);
    let reply = host.request("GET", "/", &[BROWSER], b"");
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[test]
fn an_application_at_the_root_answers_itself() {
    let host = Host::with(Some(&component("tests/application")), None, &["--name", "app"]);
    let reply = host.request("GET", "/", &[BROWSER], b"");
    assert_eq!((reply.status, reply.text().as_str()), (404, "no such path"));
}
