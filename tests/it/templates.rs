//! Every template of `host new` in every language that it is there for, in a folder far from the repository: made, built, its
//! unit tests, its golden cases, and the requests of its README with what they are answered.
//!
//! The template `iris` is in `project.rs`, which follows a project for longer; three others are in the guides that
//! `guides.rs` follows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use e2e::clients::finished;
use e2e::project::{lend_crates, lend_packages};
use e2e::{Host, host_binary};

fn host(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(host_binary());
    lend_crates(&mut command).args(arguments).current_dir(folder).output().expect("the host starts")
}

/// Runs the host to success; what it said on stdout.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = host(folder, arguments);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "host {arguments:?}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// A project of a template, built, and its unit tests run by `tests`.
fn built(template: &str, language: &str, tests: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &["new", "mine", "--lang", language, "--template", template]);
    let project = folder.path().join("mine");
    lend_packages(&project);
    done(&project, &["build"]);
    let mut command = Command::new("bash");
    lend_crates(&mut command).args(["-c", tests]).current_dir(&project);
    finished(&mut command, tests);
    (folder, project)
}

/// The commands of a document that begin with `program`, each with the lines below it.
fn commands(document: &str, program: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for block in document.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let mut is_ours = false;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                is_ours = command.starts_with(program);
                if is_ours {
                    found.push((command.to_owned(), String::new()));
                }
            } else if is_ours {
                found.last_mut().unwrap().1.push_str(&format!("{line}\n"));
            }
        }
    }
    found
}

/// A text with its numbers rounded, since the last digits differ from one machine to the next.
fn rounded(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || ".e-".contains(c);
    let mut rounded = String::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (part, after) = rest.split_at(end);
        match part.parse::<f64>() {
            Ok(number) => rounded.push_str(&format!("{number:.3}")),
            Err(_) => rounded.push_str(part),
        }
        rest = after;
    }
    rounded
}

/// A template's way from nothing to the answers that its README shows.
fn journey(template: &str, language: &str, tests: &str) {
    let (_folder, project) = built(template, language, tests);
    let tested = done(&project, &["test"]);
    assert!(tested.ends_with(" passed\n"), "{tested}");
    let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
    answers(&host, &project);
    if template == "app" {
        let document = host.get("/openapi.json").json();
        assert!(document["paths"]["/mine/classify"]["post"].is_object(), "{document}");
    }
}

/// The same by `dev`, which keeps most of a component and writes the sources into it.
fn developed(template: &str, language: &str) {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &["new", "mine", "--lang", language, "--template", template]);
    let project = folder.path().join("mine");
    lend_packages(&project);
    let mut dev = Command::new(host_binary());
    dev.args(["dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]).current_dir(&project);
    let host = Host::try_start(dev).unwrap();
    let started = Instant::now();
    while !host.log().contains("other endpoints are served") {
        assert!(started.elapsed() < Duration::from_secs(300), "{}", host.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!host.log().contains("building with"), "it is built whole\n{}", host.log());
    answers(&host, &project);
}

/// The answers that a project's README shows.
fn answers(host: &Host, project: &Path) {
    let readme = fs::read_to_string(project.join("README.md")).unwrap();
    let requests = commands(&readme, "curl ");
    assert!(!requests.is_empty(), "{readme}");
    for (command, expected) in requests {
        let request = command.replace("http://127.0.0.1:8000", &host.url).replacen(
            "curl ",
            "curl -sS --fail-with-body ",
            1,
        );
        let answer = finished(Command::new("bash").args(["-c", &request]).current_dir(project), &command);
        assert!(
            expected.is_empty() || rounded(&answer) == rounded(&expected),
            "{command}\nanswered\n{answer}\nREADME.md has\n{expected}"
        );
    }
}

const CARGO: &str = "cargo test --quiet";
const PYTHON: &str = ".modelhost/python/bin/python -m unittest";
const NPM: &str = "npm test";
const GO: &str = "go test";

#[test]
fn text_in_rust() {
    journey("text", "rust", CARGO);
}

#[test]
fn tensors_in_rust() {
    journey("tensors", "rust", CARGO);
}

#[test]
fn app_in_rust() {
    journey("app", "rust", CARGO);
}

#[test]
fn tensors_in_python() {
    journey("tensors", "python", PYTHON);
}

#[test]
fn app_in_python() {
    journey("app", "python", PYTHON);
}

#[test]
fn text_in_javascript() {
    journey("text", "js", NPM);
}

#[test]
fn app_in_javascript() {
    journey("app", "js", NPM);
}

#[test]
fn app_in_go() {
    journey("app", "go", GO);
}

#[test]
fn a_combination_that_is_not_there_is_refused_with_what_is() {
    let folder = tempfile::tempdir().unwrap();
    for (language, template, there, reason) in [
        ("python", "image", "Rust", "Python"),
        ("ts", "image", "Rust", "TypeScript"),
        ("go", "text", "Rust, Python, JavaScript", "Go"),
    ] {
        let output = host(folder.path(), &["new", "mine", "--lang", language, "--template", template]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let expected =
            format!("error: the template `{template}` is there in {there}, not in {reason}\n  hint: ");
        assert!(stderr.starts_with(&expected), "{stderr}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn python_in_dev() {
    for template in ["tensors", "app"] {
        developed(template, "python");
    }
}

#[test]
fn javascript_in_dev() {
    // The others differ in nothing that `dev` sees.
    for (template, language) in [("app", "js"), ("iris", "ts")] {
        developed(template, language);
    }
}
