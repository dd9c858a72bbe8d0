//! The commands that end by themselves: `host inspect`, `host run`, `--help`, `--version`, completions and manual, and their exit codes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::setup::Endpoint;
use e2e::{assembled, assert_close, component, host, host_binary, model, root};
use serde_json::{Value, json};

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is text")
}

/// Runs the host and asserts its exit code.
fn ends_with(code: i32, arguments: &[&str]) -> Output {
    let output = host(arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "host {arguments:?}\n{}{}",
        stdout(&output),
        stderr(&output)
    );
    output
}

/// What `host inspect --json` says of `bytes`.
fn inspection(folder: &Path, bytes: &[u8]) -> Value {
    let file = folder.join("handler.wasm");
    std::fs::write(&file, bytes).unwrap();
    let output = ends_with(0, &["inspect", "--json", file.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn inspect_tells_what_a_component_is() {
    let iris = component("iris-wasm");
    let text = stdout(&ends_with(0, &["inspect", iris.to_str().unwrap()]));
    for expected in [
        "iris-wasm.wasm\n",
        "digest          sha256:",
        "contract        0.1.0 (this host has 0.1.0)\n",
        "pre-inference   yes\n",
        "post-inference  yes\n",
        "modelhost:handler/types@0.1.0\n",
        "verdict         this host serves it\n",
    ] {
        assert!(text.contains(expected), "`{expected}` in\n{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(&iris).unwrap();
    let it = inspection(folder.path(), &bytes);
    assert_eq!(
        (&it["bytes"], &it["contract"], &it["refused"]),
        (&json!(bytes.len()), &json!(["0.1.0"]), &Value::Null)
    );
    assert_eq!((&it["pre_inference"], &it["post_inference"]), (&json!(true), &json!(true)));
    assert_eq!(it["shared_bytes"], 0);
    let exports = ["modelhost:handler/post-inference@0.1.0", "modelhost:handler/pre-inference@0.1.0"];
    // In the order of the file, which is the linker's.
    let mut found: Vec<&str> = it["exports"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, exports);

    let it = inspection(folder.path(), &std::fs::read(component("tests/pre_only")).unwrap());
    assert_eq!((&it["pre_inference"], &it["post_inference"]), (&json!(true), &json!(false)));
}

/// Python's and JavaScript's engines are compiled once, not once for each handler.
#[test]
fn most_of_a_handler_in_an_interpreted_language_is_its_languages() {
    let folder = tempfile::tempdir().unwrap();
    for (name, most) in [("tests/application_py", 20), ("tests/application_js", 12)] {
        let it = inspection(folder.path(), &std::fs::read(component(name)).unwrap());
        let [compiled, shared] = ["compiled_bytes", "shared_bytes"].map(|of| it[of].as_u64().unwrap());
        assert!(
            shared > 15_000_000 && compiled - shared < most * 1_000_000,
            "{name}: {shared} of {compiled}"
        );
    }
}

#[test]
fn inspect_says_why_a_component_would_be_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, expected) in [
        ("unknown_version", &["`modelhost:handler/pre-inference@0.9.0`; this host has 0.1.0"][..]),
        ("no_exports", &["exports neither", "modelhost:handler/pre-inference@0.1.0"]),
        (
            "sockets",
            &["`wasi:sockets/network@0.2.0`", "`wasi:sockets/instance-network@0.2.0`", "--network stub"],
        ),
    ] {
        let it = inspection(folder.path(), &assembled(name));
        let refused = it["refused"].as_str().unwrap_or_else(|| panic!("{name} is not refused: {it}"));
        for part in expected {
            assert!(refused.contains(part), "{name}: `{part}` in `{refused}`");
        }
    }
}

#[test]
fn inspect_of_what_is_no_component_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let iris = std::fs::read(component("iris-wasm")).unwrap();
    for (path, expected) in [
        (file("text.wasm", b"#!/bin/sh"), "is not a WebAssembly file"),
        (file("empty.wasm", b""), "is not a WebAssembly file"),
        (file("core.wasm", b"\0asm\x01\0\0\0"), "core module"),
        (file("cut.wasm", &iris[..iris.len() / 2]), "cut short"),
        (folder.path().join("absent.wasm").to_str().unwrap().to_owned(), "cannot read"),
    ] {
        let output = ends_with(1, &["inspect", &path]);
        let text = stderr(&output);
        assert!(
            text.starts_with("error: ") && text.contains(expected) && text.contains(&path),
            "{path}: {text}"
        );
        assert!(text.lines().count() <= 3, "{path}: {text}");
        assert_eq!(stdout(&output), "", "{path}");
    }
}

/// The arguments that `host run` needs for the iris example.
fn run_iris(more: &[&str]) -> Vec<String> {
    let (plugin, model) = (component("iris-wasm"), model("iris_static"));
    let arguments = ["run", "--plugin", plugin.to_str().unwrap(), "--model", model.to_str().unwrap()];
    [&arguments, more].concat().iter().map(|argument| (*argument).to_owned()).collect()
}

/// Runs `host run` with `sample` on stdin.
fn run(arguments: &[String], sample: &str) -> Output {
    let mut command = Command::new(host_binary());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(sample.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn run_shows_every_stage_the_timings_and_the_response() {
    let sample = root().join("examples/iris-wasm/sample.json");
    let from_file = run(&run_iris(&[sample.to_str().unwrap()]), "");
    let from_stdin = run(&run_iris(&["-"]), &std::fs::read_to_string(&sample).unwrap());
    for output in [from_file, from_stdin] {
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
        let after = |prefix: &str| {
            let mut lines = text.lines().skip_while(|line| !line.starts_with(prefix));
            let line = lines.next().unwrap_or_else(|| panic!("no line `{prefix}…` in\n{text}"));
            (line.to_owned(), lines.next().unwrap_or_default().to_owned())
        };
        assert!(after("sample: ").0.contains("sepal_length"));
        assert_eq!(after("pre_inference: ").0, "pre_inference: input FP32 [1, 4] = [[5.2,3.6,1.4,0.3]]");
        assert!(after("inference: ").0.starts_with("inference: probabilities FP32 [1, 3] = [[0.98"));
        let (timings, _) = after("timings: ");
        for stage in ["admit ", "pre_inference ", "infer ", "post_inference ", "total ", " µs"] {
            assert!(timings.contains(stage), "{timings}");
        }
        let (head, body) = after("response: ");
        assert_eq!(head, "response: 200 application/json");
        let expected = json!({ "class_label": "iris-setosa", "class_index": 0 });
        assert_close(&serde_json::from_str(&body).unwrap(), &expected);
    }
}

#[test]
fn run_of_a_failing_request_says_why_and_exits_with_1() {
    let output = run(&run_iris(&["-"]), "{}");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let expected = "error: invalid_input in pre_inference: missing field `sepal_length`";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert!(stdout(&output).contains("timings: "), "how far it came: {}", stdout(&output));

    // Alone with its author, a handler's own words are shown.
    let values = component("tests/values");
    let arguments = ["run", "--plugin", values.to_str().unwrap(), "-"].map(str::to_owned);
    let output = run(&arguments, "error");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("plugin_error in post_inference") && stderr(&output).contains("bad post")
    );
    // A handler's own status is its business, not a failure.
    let output = run(&arguments, "respond");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("response: 418 text/plain; charset=utf-8\nteapot\n"),
        "{}",
        stdout(&output)
    );
    // Headers are shown, and a request can be described.
    let echo = component("tests/echo");
    let more = ["--query", "a=1", "--header", "x-test: 7", "--content-type", "text/csv", "-"];
    let arguments = [&["run", "--plugin", echo.to_str().unwrap()], &more[..]].concat();
    let output = run(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>(), "body");
    let body: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    let expected = json!({ "query": "a=1", "header": "7", "content_type": "text/csv", "body": "body", "method": "POST" });
    assert_close(&body, &expected);
}

/// As `serve` and `test` read it: without a flag in the project's folder, or by its name.
#[test]
fn run_takes_its_endpoint_from_a_config_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modelhost.toml");
    let echo = |name: &str| {
        let endpoint = Endpoint::new(name).guest("metadata").model("iris_static");
        endpoint.set(format!("metadata = {{ here = {name:?} }}"))
    };
    let run = |more: &[&str]| {
        let mut command = Command::new(host_binary());
        let command = command.args(["run", "-"]).args(more).current_dir(folder.path());
        command.stdin(Stdio::null()).output().unwrap()
    };
    std::fs::write(&file, echo("one").to_string()).unwrap();
    assert!(stdout(&run(&[])).contains("one"), "{}", stdout(&run(&[])));
    std::fs::write(&file, format!("{}{}", echo("one"), echo("two"))).unwrap();
    let output = run(&["--config", file.to_str().unwrap(), "--endpoint", "two"]);
    assert!(stdout(&output).contains("two"), "{}{}", stdout(&output), stderr(&output));
    for (arguments, expected) in [
        (&[][..], "error: the config file has 2 endpoints\n  hint: `--endpoint` takes one of `one`, `two`\n"),
        (&["--endpoint", "three"], "error: there is no endpoint `three`\n  hint: `--endpoint` takes one of"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn run_repeats_on_one_instance() {
    let count = component("tests/count");
    let arguments = ["run", "--plugin", count.to_str().unwrap(), "--repeat", "3", "-"].map(str::to_owned);
    let text = stdout(&run(&arguments, "{}"));
    let bodies: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"n\":")).collect();
    assert_eq!(bodies, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#], "{text}");
}

#[test]
fn bad_usage_exits_with_2_and_help_with_0() {
    for (arguments, expected) in [
        (&["serve"][..], "nothing to serve"),
        (&["serve", "--modle", "m.onnx"], "--model"),
        (&["serve", "--model", "absent.onnx"], "there is no `absent.onnx`"),
        (&["run", "--plugin", "absent.wasm", "sample.json"], "there is no `absent.wasm`"),
        (&["run"], "SAMPLE"),
        (&["inspect"], "FILE"),
        (&["nonsense"], "nonsense"),
        (&[], "Usage: host"),
    ] {
        let output = ends_with(2, arguments);
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
    for arguments in [&["--help"][..], &["help"], &["serve", "--help"], &["run", "-h"], &["--version"]] {
        let output = ends_with(0, arguments);
        assert!(stderr(&output).is_empty() && !stdout(&output).is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_tells_where_onnx_runtime_is_looked_for_in_this_order() {
    for command in ["serve", "run"] {
        let help = stdout(&ends_with(0, &[command, "--help"]));
        let mut rest = help.split_once("ONNX Runtime's shared library is taken from").expect(&help).1;
        for place in [
            "--onnxruntime-lib",
            "ORT_DYLIB_PATH",
            "installed in",
            "modelhost/lib",
            "active Python",
            "system's library",
        ] {
            rest = rest
                .split_once(place)
                .unwrap_or_else(|| panic!("{command}: `{place}` is out of order: {help}"))
                .1;
        }
    }
}

/// The value of `name` among the rows of `--version`.
fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no row `{name}` in\n{text}")).trim()
}

#[test]
fn version_tells_the_commit_and_what_it_would_run_on() {
    assert_eq!(stdout(&ends_with(0, &["-V"])), concat!("host ", env!("CARGO_PKG_VERSION"), "\n"));

    let output = ends_with(0, &["--version"]);
    let text = stdout(&output);
    assert_eq!(text.lines().next(), Some(concat!("host ", env!("CARGO_PKG_VERSION"))));
    assert_eq!(stderr(&output), "", "what the engines have to say is not for this");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root()).args(arguments).output().ok()?;
        output.status.success().then(|| stdout(&output).trim().to_owned())
    };
    match row(&text, "commit") {
        "unknown" => assert_eq!(git(&["rev-parse", "HEAD"]), None, "there is a repository to ask"),
        commit => {
            assert_eq!(commit.len(), 12, "{commit}");
            if git(&["rev-parse", "HEAD"]).is_some() {
                assert_eq!(git(&["cat-file", "-t", commit]).as_deref(), Some("commit"), "{commit}");
            }
        }
    }
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let wasmtime = row(&text, "wasmtime");
    assert!(lock.contains(&format!("name = \"wasmtime\"\nversion = \"{wasmtime}\"\n")), "{wasmtime}");
    for engine in ["ONNX Runtime", "TensorFlow"] {
        let (version, path) = row(&text, engine).split_once(" (").expect(&text);
        assert!(version.split('.').all(|part| part.parse::<u64>().is_ok()), "{version}");
        assert!(Path::new(path.trim_end_matches(')')).is_file(), "{path}");
    }
}

#[test]
fn version_says_which_engine_is_missing() {
    let mut command = Command::new(host_binary());
    command.arg("--version").env("MODELHOST_ONNXRUNTIME_LIB", "no/such.so");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    let onnx = row(&text, "ONNX Runtime");
    assert!(
        onnx.starts_with("cannot use `") && onnx.contains("no/such.so` (from the configuration)"),
        "{onnx}"
    );
}

#[test]
fn the_program_answers_to_the_name_it_was_called_by() {
    let folder = tempfile::tempdir().unwrap();
    let modelhost = folder.path().join("modelhost");
    std::os::unix::fs::symlink(host_binary(), &modelhost).unwrap();
    let said = |arguments: &[&str]| stdout(&Command::new(&modelhost).args(arguments).output().unwrap());
    assert_eq!(said(&["-V"]), concat!("modelhost ", env!("CARGO_PKG_VERSION"), "\n"));
    for (arguments, expected) in [
        (&["--help"][..], "\n  modelhost serve --plugin handler.wasm --model model.onnx\n"),
        (&["swap", "--help"], "\n  modelhost swap iris --rollback\n"),
        (&["swap", "--help"], "\nUsage: modelhost swap "),
    ] {
        let text = said(arguments);
        assert!(text.contains(expected) && !text.contains("{host}"), "{expected} in\n{text}");
    }
}

#[test]
fn bash_completes_commands_and_flags() {
    let script = stdout(&ends_with(0, &["completions", "bash"]));
    // What bash does when somebody has typed these words and presses the tabulator.
    let completed = |words: &str| {
        let index = words.split(' ').count() - 1;
        let ask = format!(
            "{script}\nCOMP_WORDS=({words})\nCOMP_CWORD={index}\n_host host \"${{COMP_WORDS[{index}]}}\" \
             \"${{COMP_WORDS[{index}-1]}}\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).output().expect("bash is there");
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("host sw"), ["swap"]);
    assert_eq!(completed("host serve --onnx"), ["--onnxruntime-lib"]);
    for (shell, expected) in [("zsh", "#compdef host"), ("fish", "complete -c host ")] {
        let script = stdout(&ends_with(0, &["completions", shell]));
        assert!(script.starts_with("#compdef host\n") || script.contains(expected), "{shell}:\n{script}");
        assert!(script.contains("onnxruntime-lib"), "{shell}");
    }
    ends_with(2, &["completions", "cobol"]);
}

#[test]
fn the_manual_has_every_flag_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let manual = folder.path().join("man");
    ends_with(0, &["man", manual.to_str().unwrap()]);
    let page = |name: &str| {
        let text =
            std::fs::read_to_string(manual.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        text.replace("\\-", "-")
    };
    let reference = std::fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `--"));
    let flags: Vec<&str> = rows.map(|row| row.split([' ', '`']).next().unwrap()).collect();
    assert!(flags.len() > 80, "{flags:?}");
    let serve = page("modelhost-serve.1");
    for flag in flags {
        assert!(serve.contains(&format!("--{flag}")), "--{flag}");
    }
    let synopsis = |name: &str| {
        let page = page(name);
        let (_, rest) = page.split_once(".SH SYNOPSIS\n").unwrap();
        rest.split_once(".SH").unwrap().0.replace("\\fB", "").replace("\\fR", "").replace(".br\n", "")
    };
    let expected = "modelhost serve [OPTIONS] --model <FILE> [--plugin <FILE>]\n\
                    modelhost serve [OPTIONS] --plugin <FILE>\n\
                    modelhost serve [OPTIONS] --config <FILE>\n";
    assert_eq!(synopsis("modelhost-serve.1"), expected);
    assert_eq!(synopsis("modelhost-test.1"), "modelhost test [OPTIONS] [DIR]\n");
    let help = stdout(&ends_with(0, &["serve", "--help"]));
    let usage = help.split_once("Usage: ").unwrap().1.split_once("\n\n").unwrap().0;
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    assert_eq!(lines.join("\n") + "\n", expected.replace("modelhost", "host"));
    assert!(page("modelhost.1").contains("modelhost-swap(1)"));
    for name in ["check", "inspect", "replay", "run", "diff", "swap", "demo", "completions"] {
        assert!(page(&format!("modelhost-{name}.1")).contains(".SH OPTIONS"), "{name}");
    }
    assert!(!manual.join("modelhost-man.1").exists(), "a page about a command that is not shown");
}
