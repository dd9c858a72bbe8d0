//! What every SDK has to do, the same in every language: `init`, a file of the project, an error of each kind, every datatype of
//! tensors there and back; memory that is given back; streams in TypeScript, Go, C, C++ and Zig.
//!
//! In: projects of the template `iris`, with the handler of `tests/languages/LANGUAGE` in place of theirs, and one file of cases for
//! all. The cases of irises are in `iris.rs`; applications with streams in Rust, Python and JavaScript in `templates.rs`.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::cases::{ask, read, setup};
use e2e::clients::finished;
use e2e::project::{lend_crates, lend_packages};
use e2e::wire::{self, Wire};
use e2e::{Host, host_binary, path_with_tools, root, wait_until};
use serde_json::json;
use tempfile::TempDir;

/// Copies a folder's files over another's.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            fs::copy(&entry, &target).unwrap();
        }
    }
}

/// Added to a project's file, it has QuickJS in place of SpiderMonkey.
pub(crate) const QUICKJS: &str = "\n[build]\nengine = \"quickjs\"\n";

/// A project of a language with the sources of this folder, and what it answers. `more` is added to its file.
pub(crate) fn check(language: &str, sources: &str, cases: &str, more: &str) -> (Host, [TempDir; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let (ours, project) = (root().join("tests/languages"), folder.path().join("it"));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(host_binary());
        lend_crates(&mut command).args(arguments).current_dir(folder.path()).env("PATH", path_with_tools());
        finished(&mut command, &format!("host {arguments:?}"));
    };
    run(&["new", "it", "--lang", language]);
    lend_packages(&project);
    copy(&ours.join(sources), &project);
    let file = ours.join("greeting.json");
    fs::copy(&file, project.join("greeting.json")).unwrap();
    // Those of the template are of its handler.
    let _ = fs::remove_file(project.join("handler.test.ts"));
    let config = project.join("modelhost.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + more).unwrap();
    run(&["build", "it"]);

    let files = tempfile::tempdir().unwrap();
    fs::copy(&file, files.path().join("greeting.json")).unwrap();
    let cases = read(&ours.join(cases));
    let host = setup(&project.join("handler.wasm"), &cases, files.path()).serve();
    // Twice: an instance that has served answers as a fresh one does.
    ask(language, &host, &cases);
    ask(language, &host, &cases);
    (host, [folder, files])
}

/// Bodies that make garbage: a collector that begins while the host hands one over must not end the instance, and what is not
/// given back would fill the memory. Go's collector comes at odd moments where sizes vary; SpiderMonkey has no room for much larger
/// ones.
fn takes_many(language: &str, host: &Host) {
    let sizes = if language == "go" { [10, 1_000, 200_000, 400_000, 800_000] } else { [200_000; 5] };
    for number in 0..400 {
        let text = "x".repeat(sizes[number % 5]);
        let (body, answer) = (json!({ "do": text }), json!({ "answer": text, "label": "prepared" }));
        let reply = host.post("/it", body.to_string());
        assert_eq!(reply.status, 200, "{language}: request {number}: {}", reply.text());
        assert!(reply.json() == answer, "{language}: request {number}");
    }
}

/// JSON that is nested deeper than a stack reaches is the caller's mistake, and no fault of the handler's.
fn refuses_deep(language: &str, host: &Host) {
    for (open, close) in [("[", "]"), (r#"{"do":"#, "}")] {
        for body in [open.repeat(50_000), open.repeat(50_000) + "1" + &close.repeat(50_000)] {
            let reply = host.post("/it", body);
            assert_eq!(reply.status, 400, "{language}: {}", reply.text());
        }
    }
    assert_eq!(host.post("/it", r#"{"do": "echo"}"#).status, 200, "{language}");
}

/// A test for each language.
macro_rules! in_each {
    ($($name:ident: $language:literal $(, $more:ident)?;)+) => {
        $(#[test]
        fn $name() {
            let (host, _folder) = check($language, $language, "cases.json", [$($more,)? ""][0]);
            takes_many($language, &host);
            refuses_deep($language, &host);
        })+
    };
}

in_each! {
    in_rust: "rust";
    in_python: "python";
    in_javascript: "js";
    in_javascript_on_quickjs: "js", QUICKJS;
    in_typescript: "ts";
    in_go: "go";
    in_c: "c";
    in_cpp: "cpp";
    in_zig: "zig";
}

#[test]
fn a_stream_in_typescript() {
    check("ts", "ts-app", "app.json", "");
}

#[test]
fn a_stream_in_typescript_on_quickjs() {
    check("ts", "ts-app", "app.json", QUICKJS);
}

/// An application in a compiled language: besides its cases a stream that breaks off, work after the
/// response, and more events than would fit into its memory together.
fn check_application(language: &str) {
    let sources = format!("{language}-app");
    let (host, _folder) = check(language, &sources, "compiled-app.json", "");
    host.wait_for_log("worked");
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(&wire::post("/it/breaks", &[("connection", "close")], r#"{"to": 1}"#)).unwrap();
    let response = String::from_utf8(wire.until_closed()).unwrap();
    assert!(response.contains("data: {\"number\":0}\n\n"), "{response}");
    assert!(response.contains("event: error\n") && !response.ends_with("0\r\n\r\n"), "{response}");
    let events = host.post("/it/stream", r#"{"to": 300000}"#).text();
    assert_eq!(events.matches("data: {\"number\":").count(), 300_000);
    assert!(events.ends_with("data: {\"number\":299999}\n\n"));
}

#[test]
fn a_stream_in_go() {
    check_application("go");
}

#[test]
fn a_stream_in_c() {
    check_application("c");
}

#[test]
fn a_stream_in_cpp() {
    check_application("cpp");
}

#[test]
fn a_stream_in_zig() {
    check_application("zig");
}

/// Routes, values, objects, and jobs that the handler submits.
fn check_stores(language: &str) {
    let sources = format!("{language}-stores");
    let cases = format!("{sources}/cases.json");
    let (host, _folders) = check(language, &sources, &cases, "");
    let refused = host.post("/it/items/7", "");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, PUT, DELETE, HEAD")));
    let job = host.post("/it/sweep", r#"{"rate":0.5}"#).json();
    let path = format!("/it/fitted/{}", job["id"].as_str().unwrap());
    wait_until("the job is done", || host.get(&path).json()["state"] == "completed");
    assert_eq!(host.get(&path).json()["answer"], json!({ "loss": 0.25, "kind": "application/json" }));
    let document = host.get("/openapi.json").json();
    assert_eq!(document["paths"]["/it/items/{id}"]["get"]["summary"], "it: An item");
}

#[test]
fn stores_and_routes_in_go() {
    check("go", "go-stores", "go-stores/cases.json", "");
}

#[test]
fn a_mux_of_net_http_in_go() {
    check("go", "go-nethttp", "go-nethttp/cases.json", "");
}

#[test]
fn stores_and_routes_in_c() {
    check_stores("c");
}

#[test]
fn stores_and_routes_in_cpp() {
    check_stores("cpp");
}

#[test]
fn stores_and_routes_in_zig() {
    check_stores("zig");
}

/// What the runtime does itself: handles of the host, and the web's platform.
#[test]
fn handles_and_urls_on_quickjs() {
    check("js", "js-app", "js-app.json", QUICKJS);
}
