//! What a handler can reach: the project's files as they were, what it was granted, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use e2e::{Host, assembled, component, version, wait_until};
use serde_json::json;
use tempfile::TempDir;

/// A folder with a project in it, and secrets in and around it.
fn project() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (path, text) in [
        ("secret.txt", "SECRET"),
        ("project/labels.json", "[\"setosa\"]"),
        ("project/data/means.csv", "5.2"),
        ("project/.env", "SECRET"),
        ("project/.git/config", "SECRET"),
        ("project/data/.hidden", "SECRET"),
        ("project/__pycache__/handler.pyc", "SECRET"),
        ("project/old.wasm", "SECRET"),
    ] {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    for (link, target) in [
        ("alias.json", "labels.json"),
        ("out-relative", "../secret.txt"),
        ("out-absolute", "/etc/passwd"),
        ("out-folder", ".."),
        ("to-env", ".env"),
    ] {
        symlink(target, root.join("project").join(link)).unwrap();
    }
    symlink(root.join("secret.txt"), root.join("project/out-by-full-path")).unwrap();
    folder
}

fn serve(plugin: &Path, project: &TempDir, more: &[&str]) -> Host {
    let project = project.path().join("project");
    let mut arguments = vec!["--name", "files", "--project", project.to_str().unwrap()];
    arguments.extend(more);
    Host::with(Some(plugin), None, &arguments)
}

/// Asserts that the guest `files` was denied, and that whatever it learned is not the secret.
fn assert_denied(host: &Host, what: &str) {
    let reply = host.post("/", what);
    assert_eq!(reply.status, 200, "{what}: {}", reply.text());
    assert!(reply.json()["error"].is_string(), "`{what}` succeeded: {}", reply.text());
    assert!(!reply.text().contains("SECRET"), "`{what}`: {}", reply.text());
}

#[test]
fn files_are_the_projects_and_no_others() {
    let project = project();
    let host = serve(&component("tests/files"), &project, &[]);
    for (what, expected) in [
        ("/mnt/project/labels.json", json!("[\"setosa\"]")),
        ("/mnt/project/data/../labels.json", json!("[\"setosa\"]")),
        ("/mnt/project/alias.json", json!("[\"setosa\"]")),
        ("stat:/mnt/project/data/means.csv", json!(3)),
        ("list:/mnt/project", json!(["alias.json", "data", "labels.json"])),
        ("list:/mnt/project/data", json!(["means.csv"])),
    ] {
        assert_eq!(host.post("/", what).json(), json!({ "ok": expected }), "{what}");
    }
    let outside = project.path().join("secret.txt");
    for what in [
        "../../etc/passwd",
        "/etc/passwd",
        "/mnt/project/../../etc/passwd",
        "/mnt/project/../../../../../../etc/passwd",
        "/mnt/project/data/../../../etc/passwd",
        "/mnt/project/../secret.txt",
        "/mnt/project//etc/passwd",
        "/proc/self/environ",
        "/dev/null",
        "/mnt/project/out-relative",
        "/mnt/project/out-absolute",
        "/mnt/project/out-by-full-path",
        "/mnt/project/out-folder/secret.txt",
        "/mnt/project/to-env",
        "/mnt/project/.env",
        "/mnt/project/./.env",
        "/mnt/project/.git/config",
        "/mnt/project/data/.hidden",
        "/mnt/project/__pycache__/handler.pyc",
        "/mnt/project/old.wasm",
        outside.to_str().unwrap(),
        "list:/",
        "list:/mnt/project/..",
        "list:/mnt/project/out-folder",
        "list:/mnt/project/.git",
        "stat:/mnt/project/.env",
        "stat:/etc/passwd",
    ] {
        assert_denied(&host, what);
    }
}

#[test]
fn nothing_can_be_written() {
    let project = project();
    let host = serve(&component("tests/files"), &project, &[]);
    for what in [
        "write:/mnt/project/labels.json",
        "write:/mnt/project/new.txt",
        "write:/mnt/project/data/new.txt",
        "write:/mnt/project/../new.txt",
        "write:/tmp/modelhost-test-written",
        "write:new.txt",
    ] {
        assert_denied(&host, what);
    }
    assert_eq!(host.post("/", "/mnt/project/labels.json").json(), json!({"ok": "[\"setosa\"]"}));
    assert_eq!(fs::read_to_string(project.path().join("project/labels.json")).unwrap(), "[\"setosa\"]");
    assert!(!project.path().join("project/new.txt").exists());
    assert!(!Path::new("/tmp/modelhost-test-written").exists());
}

#[test]
fn without_a_project_there_are_no_files() {
    let host = Host::with(Some(&component("tests/files")), None, &[]);
    for what in ["list:/mnt/project", "list:/", "list:.", "/etc/passwd", "/mnt/project/labels.json"] {
        assert_denied(&host, what);
    }
}

/// A version of a handler sees the project of the moment it was loaded, whatever happens to it meanwhile.
#[test]
fn project_files_change_with_the_handler_and_not_before() {
    let project = project();
    let handler = project.path().join("handler.wasm");
    fs::write(&handler, version("tests/files", 1)).unwrap();
    let host = serve(&handler, &project, &[]);
    let labels = project.path().join("project/labels.json");
    let seen = || host.post("/", "/mnt/project/labels.json").json()["ok"].clone();

    fs::write(&labels, "changed").unwrap();
    assert_eq!(seen(), "[\"setosa\"]");
    fs::remove_file(&labels).unwrap();
    fs::write(project.path().join("project/added.txt"), "").unwrap();
    assert_eq!(seen(), "[\"setosa\"]");
    assert_denied(&host, "/mnt/project/added.txt");

    fs::write(&labels, "changed again").unwrap();
    fs::write(&handler, version("tests/files", 2)).unwrap();
    wait_until("the new version", || host.endpoint("files")["generation"] == 2);
    assert_eq!(seen(), "changed again");
    assert_eq!(host.post("/", "stat:/mnt/project/added.txt").json(), json!({"ok": 0}));
}

#[test]
fn the_environment_is_what_was_granted() {
    let inherited = std::env::var("PATH").unwrap();
    let arguments = ["--env", "GRANTED=yes", "--env", "PATH"];
    let host = Host::with(Some(&component("tests/files")), None, &arguments);
    assert_eq!(host.post("/", "env:GRANTED").json(), json!({"ok": "yes"}));
    assert_eq!(host.post("/", "env:PATH").json(), json!({ "ok": inherited }));
    for name in ["HOME", "USER", "PWD", "granted"] {
        assert_denied(&host, &format!("env:{name}"));
    }
}

#[test]
fn what_a_handler_prints_is_logged_under_the_requests_id() {
    let host = Host::with(Some(&component("tests/files")), None, &[]);
    for (id, what) in [("first", "stdout:hello from one"), ("second", "stderr:hello from\ttwo \u{1b}[31mred")]
    {
        assert_eq!(host.request("POST", "/", &[("x-request-id", id)], what.as_bytes()).status, 200);
    }
    let line = |needle: &str| host.log().lines().find(|line| line.contains(needle)).map(str::to_owned);
    wait_until("both lines", || line("hello from one").is_some() && line("two").is_some());
    let (one, two) = (line("hello from one").unwrap(), line("two").unwrap());
    assert!(one.contains("first") && one.contains("stdout") && !one.contains("second"), "{one}");
    assert!(two.contains("second") && two.contains("stderr") && !two.contains("first"), "{two}");
    assert!(!host.log().contains('\u{1b}'), "an escape sequence reached the log");
}

/// Ten mebibytes of output are one request's 64 KiB in the log, and the next request may write again.
#[test]
fn a_flood_of_output_is_cut() {
    let host = Host::with(Some(&component("tests/files")), None, &["--instance-memory", "128MiB"]);
    let flood = format!("stdout:{}", "x".repeat(10 << 20));
    assert_eq!(host.post("/", flood).status, 200);
    assert_eq!(host.post("/", "stdout:after the flood").status, 200);
    host.wait_for_log("the rest is dropped");
    host.wait_for_log("after the flood");
    let log = host.log();
    let logged = log.bytes().filter(|byte| *byte == b'x').count();
    assert!((32 << 10..=65 << 10).contains(&logged), "{logged} bytes were logged");
}

#[test]
fn a_handler_that_imports_the_network_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sockets.wasm");
    fs::write(&file, assembled("sockets")).unwrap();
    let Err((status, log)) = Host::try_serve(&["--plugin", file.to_str().unwrap()]) else {
        panic!("a handler with sockets was served");
    };
    assert_eq!(status.code(), Some(1), "{log}");
    for text in
        ["wasi:sockets/network@0.2.0", "wasi:sockets/instance-network@0.2.0", "hint:", "--network stub"]
    {
        assert!(log.contains(text), "no `{text}` in {log}");
    }
}

/// `b` is WASI's `access-denied`, `u` its `permanent-resolver-failure`: see tests/guests/wat/connect.wat.
#[test]
fn a_stub_of_the_network_denies_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("connect.wasm");
    fs::write(&file, assembled("connect")).unwrap();
    let host = Host::with(Some(&file), None, &["--network", "stub"]);
    for _ in 0..2 {
        let text = host.post("/", "").error(400, "invalid_input", "pre_inference");
        assert!(["bbb", "bbu"].contains(&&*text), "tcp, udp, lookup: {text}");
    }
}
