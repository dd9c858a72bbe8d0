//! A client that `openapi-python-client` generates from `/openapi.json`: nothing of the document is left out, and it calls.

use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::{component, root};

/// Predicts with the generated client.
const CALL: &str = r#"
import sys
from generated import Client
from generated.api.add import add_predict
from generated.models import AddPredictBody

answer = add_predict.sync(client=Client(base_url=sys.argv[1]), body=AddPredictBody(a=[1, 2], b=[3, 4]))
print(answer)
"#;

#[test]
fn a_client_is_generated_and_calls() {
    let endpoints = [
        Endpoint::new("iris").plugin(&component("iris-wasm")).model("iris_dyn"),
        Endpoint::new("add").model("add"),
        Endpoint::new("greet").guest("greet"),
        Endpoint::new("echo").guest("echo"),
    ];
    let host = Setup::of(endpoints).tables("[[split]]\npath = '/alike'\nendpoints = { add = 1 }").serve();
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, host.get("/openapi.json").body).unwrap();
    let tools = root().join("target/openapi/bin");
    assert!(tools.exists(), "`{}` is missing; hint: run `scripts/openapi.sh` first", tools.display());
    let generated = Command::new(tools.join("openapi-python-client"))
        .args([
            "generate",
            "--meta",
            "none",
            "--path",
            document.to_str().unwrap(),
            "--output-path",
            "generated",
        ])
        .env("PATH", format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()))
        .current_dir(folder.path())
        .output()
        .expect("openapi-python-client starts");
    let text = String::from_utf8_lossy(&[generated.stdout, generated.stderr].concat()).into_owned();
    assert!(generated.status.success() && !text.contains("ERROR"), "{text}");
    // A handler's body and answer may be anything, which no client can have a type for.
    let left_out: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.contains("Cannot parse") || line.contains("Unsupported") || line.contains("Skipping")
        })
        .filter(|line| !line.contains("*/*"))
        .collect();
    assert!(left_out.is_empty(), "{left_out:#?}\n{text}");

    let called = Command::new(tools.join("python"))
        .args(["-c", CALL, &host.url])
        .current_dir(folder.path())
        .output()
        .expect("python starts");
    let answer = String::from_utf8_lossy(&called.stdout).into_owned();
    assert_eq!(answer.trim(), "[[4.0, 6.0]]", "{}", String::from_utf8_lossy(&called.stderr));
}
