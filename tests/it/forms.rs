//! Forms with files and several values of a header, the same in every language: `tests/languages/multipart.json` is asked of a
//! handler in each. In JavaScript also of a function of the web platform, whose bodies are those of a browser on both engines
//! (`js-fetch.json`), and what is no header, which is an error with a line. Python's forms are among its own tests.

use e2e::cases::{ask, read};
use e2e::root;
use serde_json::json;

use crate::languages::{QUICKJS, check};

const FORMS: &str = "multipart.json";

#[test]
fn forms_in_rust() {
    check("rust", "rust-forms", FORMS, "");
}

#[test]
fn forms_in_go() {
    check("go", "go-forms", FORMS, "");
}

#[test]
fn forms_in_c() {
    check("c", "c-forms", FORMS, "");
}

#[test]
fn forms_in_cpp() {
    check("cpp", "cpp-forms", FORMS, "");
}

#[test]
fn forms_in_zig() {
    check("zig", "zig-forms", FORMS, "");
}

/// By the SDK, and what an application gives as a header that is none.
fn in_javascript(engine: &str) {
    let (host, _folders) = check("js", "js-forms", FORMS, engine);
    assert_eq!(host.get("/it/wrong").status, 500);
    let said = "the header `x-a` is map, expected text or a list of texts (handler.js:13)";
    host.wait_for_log(said);
    // The instance is not lost by it.
    assert_eq!(host.get("/it/cookies").text(), "baked");
}

#[test]
fn forms_in_javascript() {
    in_javascript("");
}

#[test]
fn forms_in_javascript_on_quickjs() {
    in_javascript(QUICKJS);
}

/// By the platform's requests and responses.
fn by_fetch(engine: &str) {
    let (host, _folders) = check("js", "js-fetch", FORMS, engine);
    ask("js-fetch", &host, &read(&root().join("tests/languages/js-fetch.json")));
    let error = host.post("/it/form", "").json();
    assert_eq!(error["code"], json!("unsupported_media_type"));
}

#[test]
fn forms_of_the_platform_in_javascript() {
    by_fetch("");
}

#[test]
fn forms_of_the_platform_in_javascript_on_quickjs() {
    by_fetch(QUICKJS);
}
