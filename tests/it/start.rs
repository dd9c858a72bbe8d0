//! How `host serve` starts, and how it says that it cannot.

use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::{
    Host, PATIENCE, assembled, assembled_with, component, costly, host, host_binary, model, request,
    serve_command, wait_until,
};
use serde_json::Value;

/// Starts the host in vain, and gives what it says of the reason.
fn refused(code: i32, arguments: &[&str]) -> String {
    let Err((status, log)) = Host::try_serve(arguments) else {
        panic!("the host started with {arguments:?}")
    };
    assert_eq!(status.code(), Some(code), "{arguments:?}: {log}");
    let (_, error) = log.rsplit_once("error: ").unwrap_or_else(|| panic!("no `error: ` in {log}"));
    error.to_owned()
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected `{part}` in `{text}`");
    }
}

#[test]
fn a_start_prints_two_lines_and_sigterm_ends_it_with_0() {
    let mut command = serve_command(&["--model", model("add").to_str().unwrap()]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut text = String::new();
    let mut byte = [0];
    while text.lines().count() < 2 || !text.ends_with('\n') {
        stdout.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
    // Ready from the first moment on.
    let url =
        text.lines().next().and_then(|line| line.strip_prefix("listening on ")).expect(&text).to_owned();
    assert_eq!(e2e::request("POST", &format!("{url}/add"), &[], br#"{"a":[1,2],"b":[3,4]}"#).status, 200);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        matches!(lines[..], [main, admin]
        if main.starts_with("listening on http://127.0.0.1:") && admin.starts_with("admin on http://127.0.0.1:")),
        "{text}"
    );
}

/// Exports what a typing mistake makes of the contract.
const MISSPELT: &str =
    r#"(component (instance $none) (export "modelhost:handler/pro-inference@0.1.0" (instance $none)))"#;

#[test]
fn a_handler_that_cannot_serve_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let iris = std::fs::read(component("iris-wasm")).unwrap();
    let costly = costly();
    let misspelt = assembled_with("no_exports", "(component)", MISSPELT);
    let cases: [(&str, &[u8], &[&str]); 10] = [
        (
            "wrong_signature",
            &assembled("wrong_signature"),
            &["`modelhost:handler/pre-inference@0.1.0` does not have"],
        ),
        ("no_exports", &assembled("no_exports"), &["exports neither", "hint: export at least one"]),
        (
            "unknown_version",
            &assembled("unknown_version"),
            &["needs version 0.9.0 of the handler contract", "this host has 0.1.0", "hint: serve it with"],
        ),
        ("sockets", &assembled("sockets"), &["`wasi:sockets/network@0.2.0`", "hint: ", "--network stub"]),
        ("costly", &costly, &["of memory, more than 3072", "1001 locals and 100000 branches", "hint: "]),
        (
            "misspelt",
            &misspelt,
            &[
                "`modelhost:handler/pro-inference@0.1.0` is no interface",
                "did you mean `modelhost:handler/pre-inference@0.1.0`?",
            ],
        ),
        ("text", b"#!/bin/sh", &["hint: "]),
        ("empty", b"", &["hint: "]),
        ("core", b"\0asm\x01\0\0\0", &["core module", "hint: "]),
        ("cut", &iris[..iris.len() / 2], &["cut short"]),
    ];
    for (name, bytes, expected) in cases {
        let file = folder.path().join(format!("{name}.wasm"));
        std::fs::write(&file, bytes).unwrap();
        let file = file.to_str().unwrap();
        let text = refused(1, &["--plugin", file]);
        assert_contains(&text, &[&format!("endpoint `{name}`: "), &format!("`{file}`")]);
        assert_contains(&text, expected);
        assert!(
            text.matches("hint: ").count() <= 1 && text.lines().count() <= 3,
            "said once, in short: {text}"
        );
    }
    // `--network stub` is no network: such a component loads, and only then.
    let sockets = folder.path().join("sockets.wasm");
    // Before its model is loaded.
    let broken = folder.path().join("broken.onnx");
    std::fs::write(&broken, "not a model").unwrap();
    let text = refused(1, &["--plugin", sockets.to_str().unwrap(), "--model", broken.to_str().unwrap()]);
    assert_contains(&text, &["--network stub"]);
    drop(Host::serve(&["--plugin", sockets.to_str().unwrap(), "--network", "stub"]));
}

#[test]
fn a_model_that_cannot_be_served_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.onnx");
    std::fs::write(&text, "not a model").unwrap();
    for (path, expected) in
        [(text, &["cannot load model"][..]), (model("takes_a_list"), &["input `list`", "expected a tensor"])]
    {
        let path = path.to_str().unwrap();
        let error = refused(1, &["--model", path]);
        assert_contains(&error, &[&format!("`{path}`")]);
        assert_contains(&error, expected);
    }
    // What was asked for by name is had or is an error.
    let error = refused(1, &["--model", model("add").to_str().unwrap(), "--device", "cuda:7"]);
    assert_contains(&error, &["cuda:7"]);
    let empty = tempfile::tempdir().unwrap();
    let error = refused(1, &["--model", empty.path().to_str().unwrap()]);
    assert_contains(&error, &["without a model", "and without versions"]);
}

/// `host serve` of the model `add` with nothing of this process's surroundings but these variables.
fn in_empty_surroundings(home: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = serve_command(&["--model", model("add").to_str().unwrap()]);
    let home = home.to_str().unwrap();
    command.env_clear().envs([
        ("HOME", home),
        ("PATH", home),
        ("VIRTUAL_ENV", home),
        ("XDG_DATA_HOME", home),
    ]);
    command.envs(variables.iter().copied());
    command
}

#[test]
fn without_onnx_runtime_one_error_says_what_brings_it() {
    let home = tempfile::tempdir().unwrap();
    let place = format!("{}/modelhost/lib", home.path().display());
    match Host::try_start(in_empty_surroundings(home.path(), &[])) {
        Err((status, log)) => {
            assert_eq!(status.code(), Some(1), "{log}");
            assert_contains(
                &log,
                &[
                    "was not found",
                    &place,
                    "ORT_DYLIB_PATH",
                    "hint: `pip install onnxruntime`",
                    "`make setup`",
                ],
            );
            assert_eq!(log.matches("error: ").count(), 1, "{log}");
        }
        // This machine has one in its system's paths: then it is from there.
        Ok(host) => {
            host.wait_for_log("ONNX Runtime loaded");
            assert!(!host.log().contains(&place), "{}", host.log());
        }
    }
    // An endpoint without a model needs none.
    let echo = component("tests/echo");
    let mut command = serve_command(&["--plugin", echo.to_str().unwrap()]);
    command.env_clear().env("HOME", home.path());
    let host = Host::try_start(command).unwrap_or_else(|(_, log)| panic!("{log}"));
    assert_eq!(host.post("/", "x").status, 200);
}

#[test]
#[cfg(target_os = "linux")]
fn onnx_runtime_is_found_in_the_environment_that_the_host_is_installed_in() {
    let host = Host::serve(&["--model", model("add").to_str().unwrap()]);
    host.wait_for_log("ONNX Runtime loaded");
    let log = host.log();
    let library = log.lines().find_map(|line| line.split_once("library.path=")).unwrap().1;
    let library = std::fs::canonicalize(library.trim()).unwrap();
    let environment = tempfile::tempdir().unwrap();
    let package = environment.path().join("lib/python3.11/site-packages/onnxruntime/capi");
    let installed = environment.path().join("bin/host");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::create_dir(environment.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(&library, package.join("libonnxruntime.so.1.31.1")).unwrap();
    std::fs::hard_link(host_binary(), &installed)
        .or_else(|_| std::fs::copy(host_binary(), &installed).map(drop))
        .unwrap();
    let home = tempfile::tempdir().unwrap();
    let usual = in_empty_surroundings(home.path(), &[]);
    let mut command = Command::new(&installed);
    command.args(usual.get_args()).env_clear().env("HOME", home.path());
    let host = Host::try_start(command).unwrap_or_else(|(_, log)| panic!("{log}"));
    host.wait_for_log("ONNX Runtime loaded");
    assert_contains(&host.log(), &[&format!("library.path={}", package.display())]);
}

#[test]
fn a_wrong_library_is_an_error_and_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("text.so");
    std::fs::write(&file, "not a library").unwrap();
    let file = file.to_str().unwrap();
    let absent = home.path().join("absent.so");
    let absent = absent.to_str().unwrap();
    for (variables, expected) in [
        (&[("ORT_DYLIB_PATH", file)][..], &[file, "from ORT_DYLIB_PATH", "hint: "][..]),
        (&[("ORT_DYLIB_PATH", absent)], &[absent, "from ORT_DYLIB_PATH", "hint: "]),
        (&[("MODELHOST_ONNXRUNTIME_LIB", file)], &[file, "from the configuration", "hint: "]),
        (
            &[("MODELHOST_ONNXRUNTIME_LIB", file), ("ORT_DYLIB_PATH", absent)],
            &[file, "from the configuration"],
        ),
    ] {
        let Err((status, log)) = Host::try_start(in_empty_surroundings(home.path(), variables)) else {
            panic!("the host started with {variables:?}")
        };
        assert_eq!(status.code(), Some(1), "{log}");
        assert_contains(&log, expected);
    }
    let model = model("add");
    let error = refused(2, &["--model", model.to_str().unwrap(), "--onnxruntime-lib", absent]);
    assert_contains(&error, &["--onnxruntime-lib: there is no `"]);
}

#[test]
fn a_taken_port_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let model = model("add");
    for (flag, other) in [("--listen", "--admin-listen"), ("--admin-listen", "--listen")] {
        let output =
            host(&["serve", "--model", model.to_str().unwrap(), flag, &address, other, "127.0.0.1:0"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(output.stdout.is_empty());
        assert_contains(
            &text,
            &[&format!("error: cannot listen on {address}"), &format!("with `{flag}`"), "in use"],
        );
        // Found out before anything is loaded.
        assert!(!text.contains("ONNX Runtime loaded"), "{text}");
    }
}

#[test]
fn all_problems_of_a_config_file_come_in_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    std::fs::write(
        &file,
        r#"
        [server]
        listen = "nowhere"
        colour = "red"

        [[endpoint]]
        name = "a"
        modle = "m.onnx"

        [[endpoint]]
        model = "absent.onnx"
        path = "/healthz"
        [endpoint.limits]
        memory = "lots"
        "#,
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let output = host(&["serve", "--config", file, "--queue", "many"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    let problems: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    for (place, what) in [
        ("--queue", "describes one endpoint"),
        (":3: `server.listen`", "nowhere"),
        (":4: `server.colour`", "unknown key"),
        (":8: `endpoint.modle`", "did you mean `model`?"),
        (":11: `endpoint.model`", "absent.onnx"),
        (":12: `endpoint.path`", "the server's own"),
        (":14: `endpoint.limits.memory`", "`lots` is not a size"),
    ] {
        let found = problems
            .iter()
            .any(|line| line.contains(place) && line.contains(what) && line.contains("hint: "));
        assert!(found, "{place}: {what} in\n{text}");
    }
    assert_eq!(
        text.lines().next(),
        Some(format!("error: {} problems in the configuration", problems.len()).as_str())
    );
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    let add = model("add");
    let text = format!(
        "[log]\nformat = 'json'\n[[endpoint]]\nname = 'file'\npath = '/file'\nmodel = '{}'\nlimits.body = '2KiB'",
        add.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = serve_command(&["--name", "flag"]);
    command.envs([
        ("MODELHOST_CONFIG", config.to_str().unwrap()),
        ("MODELHOST_NAME", "variable"),
        ("MODELHOST_PATH", "/variable"),
        ("MODELHOST_BODY", ""),
    ]);
    let host = Host::try_start(command).unwrap_or_else(|(_, log)| panic!("{log}"));
    let endpoint = host.endpoints()[0].take();
    assert_eq!((endpoint["name"].as_str(), endpoint["path"].as_str()), (Some("flag"), Some("/variable")));
    let text = host.post("/variable", " ".repeat(2049)).error(413, "body_too_large", "admit");
    assert_contains(&text, &["2048"]);
    wait_until("a log", || !host.log().is_empty());
    for line in host.log().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        assert!(
            line["timestamp"].is_string() && line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    // The whole endpoint from the environment.
    let mut command = Command::new(host_binary());
    command.arg("serve").envs([
        ("MODELHOST_MODEL", add.to_str().unwrap()),
        ("MODELHOST_LISTEN", "127.0.0.1:0"),
        ("MODELHOST_ADMIN_LISTEN", "127.0.0.1:0"),
        ("MODELHOST_LOG_LEVEL", "off"),
    ]);
    let host = Host::try_start(command).unwrap_or_else(|(_, log)| panic!("{log}"));
    assert_eq!(host.post("/add", r#"{"a":[1,2],"b":[3,4]}"#).text(), "[[4.0,6.0]]");
    assert_eq!(host.log(), "");
}

#[test]
fn common_mistakes_are_told_with_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let plugin = component("tests/echo").to_str().unwrap().to_owned();
    let iris = model("iris_static").to_str().unwrap().to_owned();
    std::fs::write(path("bare.toml"), "[[endpoint]]\nname = iris\n").unwrap();
    let key = format!("[[endpoint]]\nplugin = '{plugin}'\ntimeout = '1s'\n");
    std::fs::write(path("timeout.toml"), key).unwrap();
    std::fs::write(path("short.onnx"), &std::fs::read(&iris).unwrap()[..100]).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (code, arguments, expected) in [
        (2, vec!["--config", &path("bare.toml")], &["bare.toml:2", "hint: write a text in quotes"][..]),
        (2, vec!["--config", &path("timeout.toml")], &["did you mean `endpoint.limits.request_timeout`?"]),
        (2, vec!["--plugin", &iris], &["is a model", "hint: give it with `--model`"]),
        (
            1,
            vec!["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--model", &path("short.onnx")],
            &["the file is no ONNX model, or is cut short\n  hint: export"],
        ),
        (2, vec!["--model", &plugin], &["is a handler", "hint: give it with `--plugin`"]),
        (
            2,
            vec!["--plugin", folder.path().to_str().unwrap()],
            &["is a folder", "hint: give the `.wasm` file"],
        ),
        (2, vec![&iris], &["unexpected argument", &format!("'--model {iris}'")]),
        (2, vec![&plugin], &["unexpected argument", &format!("'--plugin {plugin}'")]),
    ] {
        // Not `refused`, which says where to listen itself.
        let output = host(&[&["serve"], &arguments[..]].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_contains(&text, expected);
    }
    let output = host(&["serve", "--plugin", &plugin, "--listen", &address]);
    let text = String::from_utf8(output.stderr).unwrap();
    let line = text.lines().find(|line| line.contains("cannot listen on")).unwrap();
    assert!(line.contains("Address already in use"), "the cause comes before the hint: {text}");
}

#[test]
fn the_service_manager_hears_of_ready_when_everything_is() {
    let folder = tempfile::tempdir().unwrap();
    let abstract_name = format!("modelhost-test-{}", std::process::id());
    let by_name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
    let path = folder.path().join("notify");
    for (variable, manager) in [
        (path.display().to_string(), UnixDatagram::bind(&path)),
        (format!("@{abstract_name}"), UnixDatagram::bind_addr(&by_name)),
    ] {
        let manager = manager.unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let output = folder.path().join("stdout");
        let model = model("iris_dyn");
        let mut command = serve_command(&["--name", "iris", "--model", model.to_str().unwrap()]);
        command.env("NOTIFY_SOCKET", &variable).stdout(File::create(&output).unwrap()).stderr(Stdio::null());
        let mut host = command.spawn().unwrap();
        let mut buffer = [0; 100];
        let length = manager.recv(&mut buffer).expect("the manager is told");
        assert_eq!(&buffer[..length], b"READY=1");
        // By then the addresses are printed, and what is served is.
        let said = std::fs::read_to_string(&output).unwrap();
        let url = said.lines().find_map(|line| line.strip_prefix("listening on ")).expect(&said);
        let ready = request("GET", &format!("{url}/v2/models/iris/ready"), &[], b"");
        host.kill().unwrap();
        host.wait().unwrap();
        assert_eq!(ready.status, 200, "{}", ready.text());
    }
}

#[test]
fn a_service_manager_that_is_gone_stops_nobody() {
    let model = model("iris_dyn");
    let mut command = serve_command(&["--model", model.to_str().unwrap()]);
    command.env("NOTIFY_SOCKET", "/no/such/socket");
    let host = Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}:\n{log}"));
    host.wait_for_log("cannot tell the service manager `READY=1`: ");
    host.signal("TERM");
    assert_eq!(host.wait().0.code(), Some(0));
}

#[test]
fn no_engine_keeps_a_diary_in_the_users_folder() {
    let home = tempfile::tempdir().unwrap();
    let model = model("iris_dyn");
    let mut command = Command::new(host_binary());
    command.args(["check", "--model", model.to_str().unwrap()]);
    // ONNX Runtime stays where it is, everything else that a process writes for its user goes here.
    let version = String::from_utf8(host(&["--version"]).stdout).unwrap();
    let library =
        version.lines().find_map(|line| line.split_once("ONNX Runtime")?.1.split_once('(')).expect(&version);
    command.env("MODELHOST_ONNXRUNTIME_LIB", library.1.trim_end_matches(')'));
    for name in ["HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env(name, home.path());
    }
    let output = command.env_remove("ORT_DISABLE_TELEMETRY").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let entries = std::fs::read_dir(home.path()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["modelhost"]);
}
