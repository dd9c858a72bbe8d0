//! The gate: a handler that answers otherwise, or takes more, is refused before it serves, and the refusal says why.

mod overrides;

use std::fs;
use std::path::Path;

use e2e::load::{Load, Pattern};
use e2e::{Host, Reply, assembled, component, host, model, request, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::batching::cpu_seconds;

/// The guest `gated` as it behaves in `mode`.
pub(crate) fn gated(mode: &str) -> Vec<u8> {
    const MARK: &[u8] = b"gate-mode:";
    let mut bytes = fs::read(component("tests/gated")).unwrap();
    let at = bytes.windows(MARK.len()).position(|window| window == MARK).unwrap() + MARK.len();
    bytes[at..at + 10].copy_from_slice(format!("{mode:.<10}").as_bytes());
    bytes
}

/// A host that serves `gated` behind a gate.
struct Gate {
    host: Host,
    _folder: TempDir,
}

impl Gate {
    fn start(more: &[&str]) -> Gate {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("handler.wasm");
        fs::write(&file, gated("good")).unwrap();
        let arguments = [&["--name", "gated", "--no-watch"], more].concat();
        Gate { host: Host::with(Some(&file), None, &arguments), _folder: folder }
    }

    fn state(&self) -> Value {
        self.host.endpoint("gated")
    }

    /// Waits until so many samples are kept.
    fn wait_for_samples(&self, count: u64) {
        wait_until("samples to be kept", || self.state()["gate_samples"].as_u64().unwrap() >= count);
    }

    /// Sends these bodies and waits until they are kept.
    fn send(&self, bodies: &[&str]) {
        let before = self.state()["gate_samples"].as_u64().unwrap();
        for body in bodies {
            self.host.post("/gated", body);
        }
        self.wait_for_samples(before + bodies.len() as u64);
    }

    fn swap(&self, handler: &[u8]) -> Reply {
        let url = format!("{}/admin/v1/endpoints/gated/plugin", self.host.admin);
        request("PUT", &url, &[("content-type", "application/wasm")], handler)
    }

    /// Tries to swap in a handler that must be refused by this step; gives the reason.
    fn refused(&self, handler: &[u8], step: &str) -> String {
        let before = self.state();
        let reply = self.swap(handler);
        assert_eq!(reply.status, 409, "{}", reply.text());
        let after = self.state();
        assert_eq!(after["generation"], before["generation"]);
        let last = &after["last_swap"];
        assert_eq!((&last["outcome"], &last["step"]), (&json!("refused"), &json!(step)), "{last}");
        let error = reply.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(last["error"], error);
        assert!(error.contains("\n  hint: ") && error.lines().count() == 2, "{error}");
        error
    }

    /// The gate refuses the handler as it behaves in `mode`, for these reasons, compares so many samples, and tells of `told`.
    fn refuses(&self, mode: &str, reasons: &[&str], samples: u64, told: usize) {
        let error = self.refused(&gated(mode), "gate");
        let found = reasons.iter().all(|reason| error.contains(reason));
        assert!(
            found && error.starts_with("endpoint `gated`: the gate refuses the handler: "),
            "{mode}: {error}"
        );
        let report = &self.state()["last_swap"]["gate"];
        let counted = (&report["samples"], &report["compared"]);
        assert_eq!(counted, (&json!(samples), &json!(samples)), "{mode}: {report}");
        assert_eq!(report["results"].as_array().unwrap().len(), told, "{mode}: {report}");
    }

    /// Requests whose bodies name them.
    fn load(&self) -> Load {
        let mut pattern = Pattern::new(&self.host.url, "/gated");
        pattern.body = |id| format!("{{\"id\":\"{id}\"}}");
        pattern.start()
    }

    fn published(&self, handler: &[u8]) {
        let reply = self.swap(handler);
        assert_eq!((reply.status, &reply.json()["outcome"]), (200, &json!("published")), "{}", reply.text());
    }
}

/// Ends the load: the good handler has answered all of it.
fn assert_good(load: Load) {
    for answer in load.stop() {
        let reply = answer.ok().json();
        assert_eq!((&reply["label"], &reply["echo"]["id"]), (&json!("setosa"), &json!(answer.id)));
    }
}

#[test]
fn a_wrong_handler_is_refused_and_no_request_notices() {
    let gate = Gate::start(&[
        "--gate-samples",
        "20",
        "--gate-slowdown",
        "3",
        "--gate-memory",
        "4",
        "--gate-timeout",
        "60s",
    ]);
    let load = gate.load();
    gate.wait_for_samples(20);
    for (mode, reasons) in [
        (
            "label",
            &["20 of 20 samples differ, request ", r#": /label: "setosa" became "virginica", request "#][..],
        ),
        ("far", &["/score: 0.25 became 0.251"]),
        ("took", &["/took: 3 is new"]),
        ("status", &["status: 200 became 202 {"]),
        ("trap", &["answer: status 200 {", "became plugin_trap in pre_inference: the handler trapped"]),
        ("slow", &["it takes ", " for a request, more than 3 times as long (median of 20)"]),
        ("memory", &["it takes ", " of memory, more than 4 times as much"]),
    ] {
        let told = if ["slow", "memory"].contains(&mode) { 0 } else { 16 };
        gate.refuses(mode, reasons, 20, told);
    }
    let error = gate.refused(&assembled("sockets"), "verify");
    assert!(error.contains("imports what it is not granted"), "{error}");

    // What is as good as the one before is not kept out.
    gate.published(&gated("near"));
    load.wait_for_more(20);
    assert_good(load);
    wait_until("instances of refused handlers to be freed", || {
        gate.host.metric("modelhost_plugin_instances{endpoint=\"gated\"}") <= 6.0
    });
}

/// By itself: it is the only one for which the good handler has to make do with little time.
#[test]
fn a_handler_that_hangs_is_refused_and_no_request_notices() {
    let gate = Gate::start(&["--gate-samples", "3", "--pre-timeout", "1s"]);
    let load = gate.load();
    gate.wait_for_samples(3);
    let reason = "became plugin_timeout in pre_inference: the handler ran longer than 1s";
    gate.refuses("hang", &["3 of 3 samples differ, request ", reason], 3, 3);
    assert_good(load);
}

#[test]
fn the_operator_says_what_may_differ() {
    for (arguments, mode, reason) in [
        (&["--gate-ignore", "/took"][..], "took", None),
        (&["--gate-ignore", "/other", "--gate-ignore", "/*"], "label", None),
        (&["--gate-ignore", "/score"], "label", Some("/label: ")),
        (&["--gate-tolerance", "0.01"], "far", None),
        (&["--gate-tolerance", "0.0001"], "far", Some("/score: ")),
        (&["--gate-tolerance", "0"], "near", Some("/score: 0.25 became 0.25000001")),
        (&["--gate-mismatches", "1"], "status", None),
        (
            &["--gate-mismatches", "0.9"],
            "status",
            Some("3 of 3 samples differ (a share of 0.9 may), request 3: status"),
        ),
        (&[], "good", None),
    ] {
        let gate = Gate::start(&[&["--gate-samples", "10"], arguments].concat());
        gate.send(&["1", "{}", "[2]"]);
        // Another file, even if it behaves the same.
        let handler = [&gated(mode)[..], b"\0\x03\x01v2"].concat();
        match reason {
            None => gate.published(&handler),
            Some(reason) => {
                let error = gate.refused(&handler, "gate");
                assert!(error.contains(reason), "{arguments:?} {mode}: {error}");
            }
        }
    }
}

#[test]
fn errors_of_callers_are_samples_too() {
    let gate = Gate::start(&["--gate-samples", "10"]);
    gate.send(&["no json"]);
    let error = gate.refused(&gated("lenient"), "gate");
    assert!(
        error.contains("answer: invalid_input in pre_inference: the body is not JSON became status 200"),
        "{error}"
    );
}

/// Nobody keeps a gate waiting for what it has not got.
#[test]
fn without_samples_there_is_nothing_to_compare() {
    let gate = Gate::start(&["--gate-samples", "10"]);
    gate.published(&gated("label"));
    gate.host.wait_for_log("gate: there is nothing to compare");
    let plain = Gate::start(&[]);
    assert_eq!(plain.state()["gate_samples"], Value::Null);
    plain.host.post("/gated", "1");
    plain.published(&gated("label"));
}

#[test]
fn what_is_redacted_is_nowhere() {
    const SECRET: &str = "s3cret";
    let gate = Gate::start(&[
        "--gate-samples",
        "10",
        "--gate-redact",
        "/card",
        "--gate-redact",
        "/rows/*/pin",
        "--gate-redact",
        "X-User",
    ]);
    let headers = [
        ("content-type", "application/json"),
        ("authorization", "Bearer s3cret"),
        ("cookie", "s3cret"),
        ("x-api-key", "s3cret"),
        ("x-user", "s3cret"),
    ];
    let body = br#"{"card":"s3cret","a":1,"rows":[{"pin":"s3cret"}]}"#;
    let reply = gate.host.request("POST", "/gated?token=s3cret&b=1", &headers, body);
    assert!(reply.text().contains(SECRET), "the caller gets what is the caller's: {}", reply.text());
    gate.wait_for_samples(1);
    // A body in which nobody can tell what is secret is not kept at all.
    gate.host.request("POST", "/gated", &[("content-type", "text/plain")], b"card: s3cret");

    let error = gate.refused(&gated("noecho"), "gate");
    assert!(error.contains(r#"/echo: {"a":1,"card":null,"rows":[{"pin":null}]} became "none""#), "{error}");
    let error = gate.refused(&gated("head"), "gate");
    assert!(error.contains(r#"became ["token=redacted&b=1","redacted",null]"#), "{error}");
    assert_eq!(gate.state()["gate_samples"], 1);
    let shown = request("GET", &format!("{}/admin/v1/endpoints/gated", gate.host.admin), &[], &[]).text();
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(!gate.host.log().contains(SECRET));
}

/// A folder of samples and answers.
fn samples(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const ANSWER: &str = r#"{"echo":[1],"score":0.2500001,"label":"setosa"}"#;

#[test]
fn files_say_what_a_handler_has_to_answer() {
    let folder = samples(&[("one.json", "[1]"), ("one.expected.json", ANSWER), ("two.json", "[2]")]);
    let golden = ["--gate-golden", folder.path().to_str().unwrap()];
    let gate = Gate::start(&golden);
    let error = gate.refused(&gated("label"), "gate");
    let told = r#"2 of 2 samples differ, one.json is not answered as expected: /label: "setosa" became "virginica", two.json: /label"#;
    assert!(error.contains(told), "{error}");
    gate.published(&gated("near"));
    // The files are read anew: this one wants what no handler says.
    fs::write(folder.path().join("one.expected.json"), "{}").unwrap();
    let error = gate.refused(&gated("good"), "gate");
    assert!(error.contains("1 of 2 samples differs, one.json is not answered as expected: /"), "{error}");

    // Nor does the process start with a handler that answers otherwise.
    let handler = component("tests/gated");
    let arguments = ["--plugin", handler.to_str().unwrap(), golden[0], golden[1]];
    let (status, log) = Host::try_serve(&arguments).err().expect("it must not start");
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(
        log.contains("the gate refuses the handler: 1 of 1 samples differs, one.json is not answered"),
        "{log}"
    );
    let check = host(&[&["check"], &arguments[..]].concat());
    assert_eq!(check.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&check.stdout).contains("one.json is not answered as expected"));
}

#[test]
fn a_folder_that_cannot_be_used_is_a_problem_of_the_configuration() {
    let handler = component("tests/gated");
    for (files, reason) in [
        (&[][..], "holds no sample; hint: put samples there"),
        (&[("a.expected.json", "1")], "a.expected.json` answers nothing"),
    ] {
        let folder = samples(files);
        let golden = folder.path().to_str().unwrap();
        let (status, log) =
            Host::try_serve(&["--plugin", handler.to_str().unwrap(), "--gate-golden", golden]).err().unwrap();
        assert_eq!(status.code(), Some(2), "{log}");
        assert!(log.contains("--gate-golden: ") && log.contains(reason), "{log}");
    }
}

/// However many requests come, so many are kept and no more, and among them is the last one.
#[test]
fn the_samples_are_bounded_under_load() {
    let gate = Gate::start(&["--gate-samples", "8", "--gate-samples-size", "22KiB"]);
    let mut pattern = Pattern::new(&gate.host.url, "/gated");
    pattern.clients = 6;
    pattern.pause = std::time::Duration::ZERO;
    pattern.body = |id| format!("{{\"id\":\"{id}\",\"fill\":\"{}\"}}", "x".repeat(4000));
    let load = pattern.start();
    gate.wait_for_samples(4);
    for _ in 0..20 {
        load.wait_for_more(20);
        // Four of these bodies have room, and eight of them have not.
        assert_eq!(gate.state()["gate_samples"], 4);
    }
    assert!(load.stop().iter().all(|answer| answer.ok().status == 200));
    // What is longer than all that may be kept is not, and drives nothing out.
    gate.host.post("/gated", format!("\"{}\"", "y".repeat(30_000)));
    wait_until("the last one to be among them", || {
        gate.host.post("/gated", r#""last""#);
        let error = gate.refused(&gated("noecho"), "gate");
        error.contains(r#"/echo: "last" became "none""#) && !error.contains("yyy")
    });
}

/// Both handlers are timed on the sample several times, and yet the gate takes little more work than the request did.
#[test]
fn the_model_runs_once_for_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("handler.wasm");
    fs::copy(component("tests/post_only"), &file).unwrap();
    let more = ["--name", "gated", "--no-watch", "--gate-samples", "1", "--gate-slowdown", "50"];
    let slow = ["--instances", "1", "--gate-timeout", "60s", "--request-timeout", "60s"];
    let host = Host::with(Some(&file), Some(&model("seconds")), &[&more[..], &slow].concat());
    let gate = Gate { host, _folder: folder };
    let before = cpu_seconds(&gate.host);
    let reply = gate.host.post("/gated", "[1.0]");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let one_run = cpu_seconds(&gate.host) - before;
    gate.wait_for_samples(1);
    let before = cpu_seconds(&gate.host);
    gate.published(&e2e::version("tests/post_only", 1));
    let spent = cpu_seconds(&gate.host) - before;
    // One run of the model and the compilation of a handler, in place of eight.
    assert!(spent < 5.0 * one_run, "{spent} s, where a request takes {one_run} s");
    let said = "gate: passed, 1 of 1 samples compared, 0 differ";
    gate.host.wait_for_log(said);
}

/// Runs `host diff` and gives its exit code, stdout and stderr.
fn diff(old: &Path, new: &Path, more: &[&str]) -> (i32, String, String) {
    let output = host(&[&["diff", old.to_str().unwrap(), new.to_str().unwrap()], more].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn diff_compares_without_a_server() {
    let handlers = tempfile::tempdir().unwrap();
    let handler = |mode: &str| {
        let file = handlers.path().join(format!("{mode}.wasm"));
        fs::write(&file, gated(mode)).unwrap();
        file
    };
    let folder =
        samples(&[("one.json", "[1]"), ("one.expected.json", ANSWER), ("two.json", "2"), ("bad.json", "{")]);
    let all = folder.path().to_str().unwrap();
    let [two, bad] = ["two.json", "bad.json"].map(|name| folder.path().join(name));
    let good = handler("good");
    for (mode, more, code, lines) in [
        (
            "good",
            &["--samples", all][..],
            0,
            &["bad.json", "3 of 3 samples compared, 0 differ, 1 fails with both"][..],
        ),
        ("near", &["--samples", all], 0, &["one.json", "same"]),
        (
            "near",
            &["--samples", all, "--tolerance", "0"],
            1,
            &["differs", "    /score: 0.25 became 0.25000001"],
        ),
        ("label", &["--samples", all], 1, &["    /label: \"setosa\" became \"virginica\"", "2 differ"]),
        ("label", &["--samples", all, "--ignore", "/label"], 0, &["0 differ"]),
        (
            "trap",
            &["--samples", two.to_str().unwrap()],
            1,
            &["two.json", "became plugin_trap in pre_inference"],
        ),
        ("good", &["--samples", "nowhere"], 2, &[]),
        // Samples of something else are no success.
        (
            "good",
            &["--samples", bad.to_str().unwrap()],
            1,
            &[
                "bad.json  fails",
                "    both fail: invalid_input in pre_inference: ",
                "0 differ, 1 fails with both",
            ],
        ),
    ] {
        let (found, stdout, stderr) = diff(&good, &handler(mode), more);
        assert_eq!(found, code, "{mode} {more:?}\n{stdout}{stderr}");
        for line in lines {
            assert!(stdout.contains(line), "{mode}: `{line}` in\n{stdout}");
        }
    }
    let (code, stdout, stderr) =
        diff(&good, &handler("memory"), &["--samples", two.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let row = &report["results"][0];
    assert_eq!(
        (&row["sample"], &row["differences"], &report["compared"]),
        (&json!("two.json"), &json!([]), &json!(1))
    );
    let memory = |side: &str| row[side]["memory"].as_u64().unwrap();
    assert!(memory("new") >= memory("old") + (16 << 20), "{row}");

    let (code, _, stderr) = diff(&good, &handlers.path().join("none.wasm"), &["--samples", all]);
    assert!(code == 1 && stderr.contains("cannot read handler"), "{stderr}");
}

/// With a model, and handlers of two languages.
#[test]
fn diff_runs_the_model() {
    let folder = samples(&[(
        "flower.json",
        r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#,
    )]);
    let (iris, model) = (component("iris-wasm"), model("iris_static"));
    let more = ["--samples", folder.path().to_str().unwrap(), "--model", model.to_str().unwrap()];
    let (code, stdout, stderr) = diff(&iris, &component("tests/post_only"), &more);
    assert!(code == 1 && stderr.contains("1 of 1 samples are answered otherwise"), "{stdout}{stderr}");
    let (code, stdout, stderr) = diff(&iris, &iris, &more);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("flower.json  same"), "{stdout}");
}
