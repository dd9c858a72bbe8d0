//! A handler's life, in each language, in a folder far from the repository: `host new`, `host build`, `host test`,
//! `host serve`, a request; and
//! what the author is told when something is missing.
//!
//! cargo, pip and npm bring what the templates pin, Go is on the machine and Zig in target/tools; without them these tests fail with what is missing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::clients::finished;
use e2e::project::lend_crates;
use e2e::setup::Endpoint;
use e2e::{Host, assert_close, component, host_binary, path_with_tools, root};
use serde_json::{Value, json};

/// Runs the host in `folder`.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(host_binary());
    lend_crates(&mut command).args(arguments).current_dir(folder).env("PATH", path_with_tools());
    command.output().expect("the host starts")
}

/// Runs the host to success; what it said on stdout.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "host {arguments:?}\n{stdout}{stderr}");
    stdout.into_owned()
}

/// Runs the host to a failure with this exit code; what it said on stderr.
fn fails(folder: &Path, code: i32, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "host {arguments:?}\n{stderr}");
    stderr
}

/// What the author changes in a project.
struct Language {
    name: &'static str,
    source: &'static str,
    /// A change of the source that breaks it, and what the author is told then, first of all.
    broken: (&'static str, &'static str),
    told: &'static str,
}

/// From nothing to an answer; then a change that does not build, which leaves the component alone.
fn journey(language: &Language) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let made = done(folder.path(), &["new", "flowers", "--lang", language.name]);
    assert!(made.starts_with("made flowers\n"), "{made}");
    let project = folder.path().join("flowers");
    let built = done(&project, &["build"]);
    assert!(built.starts_with("handler.wasm: ") && built.contains(" MB, built in "), "{built}");
    let tested = done(&project, &["test"]);
    assert!(tested.ends_with("1 case passed\n"), "{tested}");

    let config = project.join("modelhost.toml");
    let host = Host::serve(&["--config", config.to_str().unwrap()]);
    let read = |file: &str| fs::read_to_string(project.join(file)).unwrap();
    let expected: Value = serde_json::from_str(&read("cases/setosa.expected.json")).unwrap();
    assert_close(&host.post("/", read("sample.json")).json(), &expected);
    assert_close(&host.post("/flowers", read("cases/setosa.json")).json(), &expected);
    let text = host.post("/", r#"{"sepal_length": 1}"#).error(400, "invalid_input", "pre_inference");
    assert!(text.contains("missing field `sepal_width`"), "{text}");
    drop(host);
    breaks(&project, language);
    (folder, project)
}

/// Replaces text in a file of the project.
fn edit(file: &Path, before: &str, after: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(before), "no `{before}` in {}", file.display());
    fs::write(file, text.replacen(before, after, 1)).unwrap();
}

/// A change of the source that does not build is told, and leaves the component alone.
fn breaks(project: &Path, language: &Language) {
    let component = fs::read(project.join("handler.wasm")).unwrap();
    let (before, after) = language.broken;
    edit(&project.join(language.source), before, after);
    // From the folder above, by its name.
    let stderr = fails(project.parent().unwrap(), 1, &["build", "flowers"]);
    let error = stderr.split_once("error: ").expect("an error").1;
    assert!(error.starts_with(language.told), "expected `{}` in\n{stderr}", language.told);
    assert!(!stderr.contains("{\"reason\":"), "messages for programs in\n{stderr}");
    assert_eq!(
        fs::read(project.join("handler.wasm")).unwrap(),
        component,
        "a failed build leaves the old one"
    );
}

#[test]
fn rust_from_new_to_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &["new", "flowers", "--lang", "rust"]);
    let mut tests = Command::new("cargo");
    lend_crates(&mut tests).args(["test", "--quiet"]).current_dir(folder.path().join("flowers"));
    let printed = finished(&mut tests, "cargo test");
    assert!(printed.contains("test result: ok. 2 passed"), "{printed}");

    journey(&Language {
        name: "rust",
        source: "src/lib.rs",
        broken: ("sample.json()?", "sample.jsn()?"),
        told: "error[E0599]: no method named `jsn` found",
    });
}

/// The first code that a newcomer sees, put into a new project; then a change that does not build. (The template in Python is in
/// `docs/languages.md`, which `guides.rs` follows.)
#[test]
fn the_handler_on_the_first_page_answers() {
    let page = fs::read_to_string(e2e::root().join("README.md")).unwrap();
    let code = page.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &["new", "flowers", "--lang", "python"]);
    let project = folder.path().join("flowers");
    fs::write(project.join("app.py"), code).unwrap();
    done(&project, &["build"]);
    let host = Host::serve(&["--config", project.join("modelhost.toml").to_str().unwrap()]);
    let answer = host.post("/", r#"{"features": [5.2, 3.6, 1.4, 0.3]}"#).json();
    assert_close(&answer, &json!({"best": 0, "scores": [0.9819308, 0.01806926, 0.0]}));
    drop(host);

    breaks(
        &project,
        &Language {
            name: "python",
            source: "app.py",
            broken: ("post_inference, pre_inference\n", "post_infrence, pre_inference\n"),
            told: "app.py:1: `modelhost_guest` has no `post_infrence`\n  hint: did you mean `post_inference`?\n",
        },
    );
}

#[test]
fn javascript_from_new_to_an_answer() {
    journey(&Language {
        name: "js",
        source: "handler.js",
        broken: ("export const { init, preInference, postInference }", "export const { init }"),
        told: "handler.js has no function that the host calls for a request\n  hint: `export const { preInference,",
    });
}

#[test]
fn typescript_from_new_to_an_answer() {
    let (folder, project) = journey(&Language {
        name: "ts",
        source: "handler.ts",
        broken: ("sample.numbers(", "sample.numbrs("),
        told: "handler.ts(19,29): error TS2551: Property 'numbrs' does not exist on type 'Sample'.",
    });
    edit(&project.join("handler.ts"), "sample.numbrs(", "sample.numbers(");
    let printed = finished(Command::new("npm").arg("test").current_dir(&project), "npm test");
    assert!(printed.contains("# pass 4\n"), "{printed}");
    drop(folder);
}

#[test]
fn go_from_new_to_an_answer() {
    let (folder, project) = journey(&Language {
        name: "go",
        source: "handler.go",
        broken: ("sample.Numbers(", "sample.Numbrs("),
        told: "./handler.go:34:24: sample.Numbrs undefined",
    });
    edit(&project.join("handler.go"), "sample.Numbrs(", "sample.Numbers(");
    finished(Command::new("go").args(["test", "./..."]).current_dir(&project), "go test");
    // A function that is not registered is not exported.
    edit(&project.join("handler.go"), "\tguest.PostInference(answer)\n", "\t_ = answer\n");
    done(&project, &["build"]);
    let exports = done(&project, &["inspect", "handler.wasm"]);
    assert!(
        exports.contains("handler/pre-inference@") && !exports.contains("handler/post-inference@"),
        "{exports}"
    );
    for registered in ["\tguest.Init(load)\n", "\tguest.PreInference(prepare)\n"] {
        edit(&project.join("handler.go"), registered, "");
    }
    edit(&project.join("handler.go"), "\t_ = answer\n", "\t_, _, _ = load, prepare, answer\n");
    let stderr = fails(&project, 1, &["build"]);
    assert!(
        stderr.contains("error: the handler registers no function\n  hint: call `guest.PreInference"),
        "{stderr}"
    );
    drop(folder);
}

#[test]
fn c_from_new_to_an_answer() {
    journey(&Language {
        name: "c",
        source: "src/handler.c",
        broken: ("mh_one(", "mh_on("),
        told: "src/handler.c:40:15: error: call to undeclared function 'mh_on'",
    });
}

#[test]
fn cpp_from_new_to_an_answer() {
    journey(&Language {
        name: "cpp",
        source: "src/handler.cpp",
        broken: ("sample.numbers(", "sample.numbrs("),
        told: "src/handler.cpp:27:26: error: no member named 'numbrs' in 'mh::sample'",
    });
}

#[test]
fn zig_from_new_to_an_answer() {
    let (folder, project) = journey(&Language {
        name: "zig",
        source: "src/handler.zig",
        broken: ("sample.numbers(", "sample.numbrs("),
        told: "src/handler.zig:28:30: error: no field or member function named 'numbrs' in 'guest.Sample'",
    });
    edit(&project.join("src/handler.zig"), "sample.numbrs(", "sample.numbers(");
    let mut tests = Command::new("zig");
    tests.args(["build", "test"]).current_dir(&project).env("PATH", path_with_tools());
    finished(&mut tests, "zig build test");
    drop(folder);
}

/// The SDKs' own unit tests, of those that no other test runs.
#[test]
fn the_sdks_in_go_c_and_zig_pass_their_tests() {
    for (sdk, command) in [
        ("go", "go vet ./... && go test ./..."),
        ("zig", "zig build test --cache-dir \"$SCRATCH\""),
        ("c", "bash tests/run.sh \"$SCRATCH\""),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let mut tests = Command::new("bash");
        tests.args(["-c", command]).current_dir(root().join("guest-sdk").join(sdk));
        tests.env("PATH", path_with_tools()).env("SCRATCH", scratch.path());
        finished(&mut tests, command);
    }
}

#[test]
fn what_is_there_already_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("flowers")).unwrap();
    let stderr = fails(folder.path(), 2, &["new", "flowers", "--lang", "rust"]);
    assert_eq!(stderr, "error: `flowers` is there already\n  hint: choose another name, or remove it\n");
    assert_eq!(fs::read_dir(folder.path().join("flowers")).unwrap().count(), 0);
    let stderr = fails(folder.path(), 2, &["new", "../Flowers", "--lang", "js"]);
    assert!(stderr.starts_with("error: `../Flowers` is no name for a handler\n  hint: "), "{stderr}");
}

#[test]
fn a_folder_that_is_no_project_and_a_missing_tool_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let stderr = fails(folder.path(), 2, &["build"]);
    assert!(
        stderr.starts_with("error: `.` is no handler project: it has none of `Cargo.toml`, "),
        "{stderr}"
    );
    let empty = tempfile::tempdir().unwrap();
    for (language, tool) in [
        ("rust", "cargo"),
        ("python", "python3"),
        ("js", "node"),
        ("ts", "node"),
        ("go", "go"),
        ("c", "zig"),
        ("zig", "zig"),
    ] {
        done(folder.path(), &["new", language, "--lang", language]);
        let mut command = Command::new(host_binary());
        command.args(["build", language]).current_dir(folder.path()).env("PATH", empty.path());
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let expected = format!("error: `{tool}` is not installed\n  hint: https://");
        assert!(stderr.contains(&expected), "expected `{expected}` in\n{stderr}");
    }
    fs::write(folder.path().join("js/Cargo.toml"), "").unwrap();
    let stderr = fails(folder.path(), 2, &["build", "js"]);
    assert!(stderr.starts_with("error: `js` has more than one of `Cargo.toml`, "), "{stderr}");
}

/// A project that is built: the iris example with these cases, each with the answer that is expected, if any.
fn with_cases(cases: &[(&str, &str, Option<&str>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new("iris").plugin(&component("iris-wasm")).model("iris_static");
    fs::write(folder.path().join("modelhost.toml"), endpoint.to_string()).unwrap();
    fs::create_dir(folder.path().join("cases")).unwrap();
    let write = |file: String, text: &str| fs::write(folder.path().join("cases").join(file), text).unwrap();
    for (name, body, expected) in cases {
        write(format!("{name}.json"), body);
        expected.iter().for_each(|expected| write(format!("{name}.expected.json"), expected));
    }
    folder
}

const FLOWER: &str = r#"{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}"#;
const SETOSA: &str =
    r#"{"probabilities": [0.9819308, 0.01806926, 0.0], "class_index": 0, "class_label": "iris-setosa"}"#;

/// The result of each case in the table of `host test`, differences left out.
fn results(stdout: &str) -> Vec<(&str, &str)> {
    let rows = stdout.lines().filter(|line| line.ends_with(" ms"));
    rows.map(|row| row.split_whitespace().collect::<Vec<_>>()).map(|row| (row[0], row[1])).collect()
}

#[test]
fn a_case_that_is_answered_otherwise_fails_the_test_and_its_neighbour_passes() {
    let other = SETOSA.replace("setosa", "other");
    let folder = with_cases(&[
        ("differs", FLOWER, Some(&other)),
        ("passes", FLOWER, Some(SETOSA)),
        ("refused", "{}", Some(SETOSA)),
        ("without", FLOWER, None),
        ("wrong", "{}", None),
    ]);
    let output = run(folder.path(), &["test", "--junit", "report.xml"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stderr.ends_with("error: 4 of 5 cases failed\n"), "{stderr}");
    let expected = [
        ("differs.json", "failed"),
        ("passes.json", "passed"),
        ("refused.json", "failed"),
        ("without.json", "failed"),
        ("wrong.json", "failed"),
    ];
    assert_eq!(results(&stdout), expected, "{stdout}");
    for line in [
        "    /class_label: \"iris-other\" became \"iris-setosa\"\n",
        "invalid_input in pre_inference: missing field `sepal_length`",
        "    no file says what to answer; `--update` writes the answer that it got\n",
        "    no file says what to answer; `--update` writes this refusal\n",
    ] {
        assert!(stdout.contains(line), "`{line}` in\n{stdout}");
    }
    assert!(!stdout.contains("\n    inference: "), "{stdout}");
    let report = fs::read_to_string(folder.path().join("report.xml")).unwrap();
    assert!(report.contains("<testsuite name=\"golden\" tests=\"5\" failures=\"4\""), "{report}");
    assert!(report.contains("&quot;iris-other&quot; became &quot;iris-setosa&quot;"), "{report}");

    // What the stages made, of the cases that fail.
    let stdout = String::from_utf8(run(folder.path(), &["test", "--debug"]).stdout).unwrap();
    let (_, differs) = stdout.split_once("\ndiffers.json ").unwrap();
    let (differs, rest) = differs.split_once("\npasses.json ").unwrap();
    for line in
        ["    sample: {\"sepal", "    pre_inference: ", "    inference: ", "    post_inference: 200 {"]
    {
        assert!(differs.contains(line), "`{line}` in\n{differs}");
    }
    let passes = rest.split_once("\nrefused.json ").unwrap().0;
    assert!(!passes.contains("\n    "), "{passes}");
}

#[test]
fn update_writes_what_differs_and_nothing_else() {
    let other = SETOSA.replace("setosa", "other");
    let folder = with_cases(&[
        ("differs", FLOWER, Some(&other)),
        ("passes", FLOWER, Some(SETOSA)),
        ("refused", "{}", None),
        ("without", FLOWER, None),
    ]);
    let read = |file: &str| fs::read_to_string(folder.path().join("cases").join(file)).unwrap();
    let output = run(folder.path(), &["test", "--update"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    let expected = [
        ("differs.json", "updated"),
        ("passes.json", "passed"),
        ("refused.json", "updated"),
        ("without.json", "updated"),
    ];
    assert_eq!(results(&stdout), expected, "{stdout}");
    for file in ["differs.expected.json", "without.expected.json"] {
        let written: Value = serde_json::from_str(&read(file)).unwrap();
        assert_eq!(written["class_label"], json!("iris-setosa"), "{file}");
    }
    assert_eq!(read("passes.expected.json"), SETOSA, "within the tolerance, so it stays");
    let refusal: Value = serde_json::from_str(&read("refused.answer.json")).unwrap();
    assert_eq!((&refusal["status"], &refusal["body"]["code"]), (&json!(400), &json!("invalid_input")));
    assert!(done(folder.path(), &["test"]).ends_with("4 cases passed\n"));

    // Another refusal than the one that is expected, and an answer in its place.
    let write = |file: &str, text: &str| fs::write(folder.path().join("cases").join(file), text).unwrap();
    write("refused.json", r#"{"sepal_length": 5.2}"#);
    let output = run(folder.path(), &["test"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("    /error: \"missing field `sepal_length`"), "{stdout}");
    write("refused.json", FLOWER);
    done(folder.path(), &["test", "--update"]);
    assert_eq!(serde_json::from_str::<Value>(&read("refused.expected.json")).unwrap()["class_index"], 0);
    assert!(!folder.path().join("cases/refused.answer.json").exists());
}

#[test]
fn a_project_without_cases_is_told_where_to_put_them() {
    let folder = with_cases(&[]);
    let stderr = fails(folder.path(), 2, &["test"]);
    assert!(
        stderr.starts_with("error: `./cases` holds no sample\n  hint: put the body of a request into "),
        "{stderr}"
    );
    let empty = tempfile::tempdir().unwrap();
    let stderr = fails(empty.path(), 2, &["test"]);
    assert!(stderr.starts_with("error: there is no `./modelhost.toml`\n  hint: `"), "{stderr}");
}

#[test]
fn no_case_is_left_out_silently() {
    type Spoil = fn(&Path) -> std::io::Result<()>;
    let spoils: [(Spoil, &str, &str); 3] = [
        (
            |cases| symlink("/none", cases.join("b.json")),
            "cannot read `./cases/b.json`: ",
            "correct the file",
        ),
        (|cases| fs::create_dir(cases.join("b.json")), "cannot read `./cases/b.json`: ", "correct the file"),
        (
            |cases| fs::write(cases.join("b.expected.json"), SETOSA),
            "`./cases/b.expected.json` answers nothing: ",
            "rename it after its sample, or remove it\n",
        ),
    ];
    for (spoil, error, hint) in spoils {
        let folder = with_cases(&[("a", FLOWER, Some(SETOSA))]);
        spoil(&folder.path().join("cases")).unwrap();
        let stderr = fails(folder.path(), 2, &["test"]);
        assert!(stderr.starts_with(&format!("error: {error}")), "{stderr}");
        assert!(stderr.contains(&format!("\n  hint: {hint}")), "{stderr}");
    }
}
