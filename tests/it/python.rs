//! A handler in Python by its SDK, built and served: what the build warns of, and what a component has of Python at a
//! request.

use std::process::Command;

use e2e::project::lend_packages;
use e2e::setup::{Endpoint, Setup};
use e2e::{host_binary, request, root};
use serde_json::{Value, json};

#[test]
fn a_component_has_what_the_build_did_not_warn_of() {
    let folder = tempfile::tempdir().unwrap();
    let host = |folder: &std::path::Path, arguments: &[&str]| {
        let output = Command::new(host_binary()).args(arguments).current_dir(folder).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        told
    };
    host(folder.path(), &["new", "it", "--lang", "python", "--template", "app"]);
    let project = folder.path().join("it");
    std::fs::copy(root().join("tests/languages/python-runtime/app.py"), project.join("app.py")).unwrap();
    lend_packages(&project);
    let told = host(&project, &["build"]);
    let warned: Vec<_> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    let line = |text: &str| {
        let source = std::fs::read_to_string(project.join("app.py")).unwrap();
        1 + source.lines().position(|line| line.contains(text)).unwrap()
    };
    assert_eq!(
        warned,
        [
            format!(
                "warning: app.py:{}: the environment variable `WORD` is read while the component is built, where it is \
                 not set",
                line("TOP = ")
            ),
            format!(
                "warning: app.py:{}: `colorsys` is imported in a function, which fails at a request: there are no files \
                 to import from",
                line("import colorsys")
            ),
        ]
    );
    assert!(told.contains("\n  hint: import it at the top of the module\n"), "{told}");

    let endpoint = Endpoint::new("a")
        .plugin(&project.join("handler.wasm"))
        .set("env = { WORD = 'hello' }\nresponse_headers = ['set-cookie']")
        .limits("memory = '128MiB'");
    let host = Setup::of([endpoint]).serve();
    let get = |path: &str| host.get(&format!("/a{path}"));
    for (path, expected) in [
        ("/variables", json!(["not set", "hello", "hello"])),
        ("/library", json!([2024, "€", "あ", "x", "xn--bcher-kva.de"])),
        ("/pool", json!([1, 2, 3])),
    ] {
        assert_eq!(get(path).json(), expected, "{path}");
    }
    assert_eq!([get("/run").text(), get("/stream").text()], ["slept", "012"]);
    for (path, text, at) in [
        ("/late", "hint: import it at the top of the module", "import colorsys"),
        ("/thread", "hint: there are no threads", "threading.Thread("),
        ("/cookies/wrong", "header 'x-a' is a text or a list of texts, and not int", "headers=given"),
    ] {
        // An error of the handler's, which goes on; no trap.
        get(path).error(500, "plugin_error", "pre_inference");
        host.wait_for_log(text);
        host.wait_for_log(&format!("(app.py:{})", line(at)));
    }
    for how in ["pairs", "list"] {
        let answer = ureq::get(format!("{}/a/cookies/{how}", host.url)).call().unwrap();
        let set: Vec<_> = answer.headers().get_all("set-cookie").iter().collect();
        assert_eq!(set, ["a=1", "b=2"], "{how}");
    }

    let send = |content_type: &str, body: &[u8]| {
        request("POST", &format!("{}/a/form", host.url), &[("content-type", content_type)], body)
    };
    let multipart = "multipart/form-data; boundary=b";
    let body = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; \
                name=\"f\"; filename=\"grüß.txt\"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--b--\r\n";
    let answer = send(multipart, body.as_bytes());
    assert_eq!(answer.json(), json!([["a", "1"], ["f", ["grüß.txt", "text/plain", 3]]]));
    assert_eq!(send("application/x-www-form-urlencoded", b"a=1").json(), json!([["a", "1"]]));
    for (content_type, status, code) in
        [(multipart, 400, "invalid_input"), ("application/json", 415, "unsupported_media_type")]
    {
        let answer: Value = send(content_type, b"{}").json();
        assert_eq!((send(content_type, b"{}").status, &answer["code"]), (status, &json!(code)));
    }
}
