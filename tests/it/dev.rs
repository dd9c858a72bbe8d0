//! `host dev`: a project is edited while it is served.

mod interpreted;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use e2e::browser::Browser;
use e2e::project::{lend_crates, lend_packages};
use e2e::{Host, Reply, host_binary, wait_until};
use serde_json::{Value, json};

/// How long a build may take that compiles all crates of a project, on a machine that is busy.
const BUILD: Duration = Duration::from_secs(300);

/// Waits until `condition` holds, as long as a build may take.
fn built(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < BUILD, "waited {BUILD:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A new project.
fn project(folder: &Path, language: &str) -> PathBuf {
    let mut new = Command::new(host_binary());
    new.args(["new", "flowers", "--lang", language]).current_dir(folder);
    assert!(new.output().unwrap().status.success());
    let project = folder.join("flowers");
    lend_packages(&project);
    project
}

/// `host dev` in a project.
fn command(project: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(host_binary());
    command.args(["dev", "--admin-listen", "127.0.0.1:0"]).args(more);
    if more.is_empty() {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    lend_crates(&mut command).current_dir(project);
    command
}

/// Replaces text in a file of the project, as an editor does: whole.
fn edit(file: &Path, before: &str, after: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(before), "no `{before}` in {}", file.display());
    let new = file.with_extension("new~");
    fs::write(&new, text.replacen(before, after, 1)).unwrap();
    fs::rename(new, file).unwrap();
}

fn ask(host: &Host) -> Reply {
    host.post("/", r#"{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}"#)
}

/// Waits for an answer with this label.
fn labelled(host: &Host, label: &str) {
    built(&format!("the label `{label}`"), || {
        let reply = ask(host);
        reply.status == 200 && reply.json()["class_label"] == label && reply.header("x-build-error").is_none()
    });
}

#[test]
fn a_project_is_edited_broken_and_repaired_while_it_serves() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "rust");
    let source = project.join("src/lib.rs");
    let config = project.join("modelhost.toml");

    // Nothing has been built yet, and nothing can be.
    edit(&source, "sample.json()?", "sample.jsn()?");
    let host = Host::try_start(command(&project, &[])).unwrap();
    let mut reply = ask(&host);
    built("the error of the first build", || {
        reply = ask(&host);
        reply.text().contains("does not build")
    });
    let text = reply.error(503, "not_ready", "admit");
    let cause = "error[E0599]: no method named `jsn` found for struct `Sample` in the current scope";
    assert!(text.starts_with(&format!("the handler does not build: {cause}")), "{text}");
    assert!(reply.json()["detail"].as_str().unwrap().contains("src/lib.rs:"), "{}", reply.text());
    assert!(reply.header("x-build-error").unwrap().starts_with(cause), "{:?}", reply.headers);
    let browser = Browser::open();
    browser.go(&format!("{}/docs/", host.url));
    assert!(browser.text("#build-error").contains(cause));

    edit(&source, "sample.jsn()?", "sample.json()?");
    labelled(&host, "setosa");
    // The page has loaded itself again: it shows the endpoint, and no error.
    assert_eq!(browser.text(".opblock-post [data-path='/flowers']"), "/flowers");
    assert_eq!(browser.run("return document.querySelector('#build-error').hidden"), true);
    assert_eq!(host.endpoint("flowers")["generation"], 1);

    // What only the endpoint's configuration says needs no build.
    edit(&config, "\"setosa\"", "\"Borsten-Schwertlilie\"");
    labelled(&host, "Borsten-Schwertlilie");
    edit(&source, "Ok(())", "self.settings.labels[0] = \"edited\".to_owned();\n        Ok(())");
    labelled(&host, "edited");

    // A broken edit: the version before answers, and says so.
    edit(&source, "\"edited\"", "edited");
    let mut reply = ask(&host);
    built("the error of the build", || {
        reply = ask(&host);
        reply.header("x-build-error").is_some()
    });
    let error = reply.header("x-build-error").unwrap();
    assert_eq!(error, "error[E0425]: cannot find value `edited` in this scope");
    assert_eq!((reply.status, &reply.json()["class_label"]), (200, &json!("edited")));
    let state: Value = host.get("/docs/dev.json").json();
    assert!(state["error"].as_str().unwrap().contains("cannot find value `edited`"), "{state}");
    // In the terminal once: its first line, and the compiler's own text.
    assert_eq!(host.log().matches("error: error[E0425]").count(), 1, "{}", host.log());

    // A handler that builds and cannot start is shown as well, and does not take over.
    edit(&source, "= edited.to_owned();", "= \"mended\".to_owned(); panic!(\"no start\");");
    built("the error of the start", || {
        ask(&host).header("x-build-error").is_some_and(|error| error.contains("init"))
    });
    assert_eq!(ask(&host).json()["class_label"], "edited");
    edit(&source, " panic!(\"no start\");", "");
    labelled(&host, "mended");

    host.signal("INT");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
}

#[test]
fn the_end_of_the_command_ends_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "rust");
    // A build script that does not end says who it is.
    let mark = folder.path().join("build");
    let script = "fn main() { std::fs::write(MARK, std::process::id().to_string()).unwrap(); \
                  std::thread::sleep(std::time::Duration::from_secs(600)); }";
    fs::write(project.join("build.rs"), script.replace("MARK", &format!("{mark:?}"))).unwrap();
    let host = Host::try_start(command(&project, &[])).unwrap();
    let text = ask(&host).error(503, "not_ready", "admit");
    assert_eq!(text, "the handler is being built");
    let process = || fs::read_to_string(&mark).ok().filter(|text| !text.is_empty());
    built("the build script", || process().is_some());
    let process = PathBuf::from("/proc").join(process().unwrap());
    assert!(process.exists());
    host.signal("INT");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
    wait_until("the build script to end", || !process.exists());
}

fn refused(output: &Output, expected: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with(expected), "expected `{expected}` in\n{stderr}");
}

#[test]
fn errors_of_builds_do_not_leave_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let project = project(folder.path(), "rust");
    let output = command(&project, &["--listen", "0.0.0.0:0"]).output().unwrap();
    refused(&output, "error: `dev` does not listen on 0.0.0.0:0: ");
    let output = command(folder.path(), &[]).output().unwrap();
    refused(&output, "error: `.` is no handler project: ");
}
