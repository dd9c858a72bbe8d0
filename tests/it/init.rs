//! `init`: run once for a generation, its memory copied into every instance, and what happens where it cannot be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use e2e::load::alone;
use e2e::{Host, assembled_with, component, replace, version, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The guest `prepared` with these steps in `init`, in a project with `a.txt` in it.
struct Prepared {
    host: Host,
    _project: TempDir,
}

fn arguments(steps: &[&str], project: &TempDir, more: &[&str]) -> Vec<String> {
    fs::write(project.path().join("a.txt"), "alpha").unwrap();
    let (plugin, metadata) = (component("tests/prepared"), json!(steps).to_string());
    let project = project.path().to_str().unwrap();
    let given = ["--plugin", plugin.to_str().unwrap(), "--metadata", &metadata, "--project", project];
    given.iter().chain(more).map(|argument| (*argument).to_owned()).collect()
}

/// Waits until everything of the start has been logged.
fn logged(host: Host) -> Host {
    host.wait_for_log("endpoint is ready");
    host
}

impl Prepared {
    fn serve(steps: &[&str], more: &[&str]) -> Prepared {
        let project = tempfile::tempdir().unwrap();
        let host = Host::serve(&arguments(steps, &project, more));
        Prepared { host: logged(host), _project: project }
    }

    fn call(&self, step: &str) -> Value {
        let reply =
            self.host.request("POST", "/prepared", &[("content-type", "text/plain")], step.as_bytes());
        assert_eq!(reply.status, 200, "{step}: {}", reply.text());
        reply.json()
    }

    /// How often `init` has printed this.
    fn printed(&self, text: &str) -> usize {
        let log = self.host.log();
        log.lines().filter(|line| line.contains(text) && line.contains("request.id=-")).count()
    }

    fn has_snapshot(&self) -> bool {
        let log = self.host.log();
        let (taken, refused) =
            (log.contains("instances begin with"), log.contains("every instance runs `init`"));
        assert!(taken != refused, "{log}");
        taken
    }
}

const ISOLATIONS: [&str; 2] = ["worker", "request"];

#[test]
fn init_runs_once_and_every_instance_has_what_it_left() {
    const BYTES: usize = 8 << 20;
    let sum: u64 = (0..BYTES).map(|n| (n / 4096 % 251) as u64 + 1).sum();
    for isolation in ISOLATIONS {
        let table = format!("table:{BYTES}");
        let steps = ["print:begins", &table, "read:/mnt/project/a.txt", "env:A", "random", "begin:ends"];
        let it = Prepared::serve(&steps, &["--isolation", isolation, "--env", "A=1", "--cache-dir", "none"]);
        assert!(it.has_snapshot());
        let mut random = None;
        for n in 1..=4 {
            let answer = it.call("sum");
            let requests = if isolation == "worker" { n } else { 1 };
            assert_eq!((&answer["inits"], &answer["requests"]), (&json!(1), &json!(requests)), "{isolation}");
            assert_eq!(answer["table"][0], BYTES);
            assert_eq!(answer["now"], json!([sum.to_string()]), "{isolation}: all of the table");
            assert_eq!(answer["found"].as_array().unwrap()[..2], [json!("alpha"), json!("1")]);
            // What was drawn in `init` is part of its memory.
            assert_eq!(random.get_or_insert(answer["found"][2].clone()), &answer["found"][2]);
        }
        it.call("print:the last line");
        it.host.wait_for_log("the last line");
        assert_eq!((it.printed("begins"), it.printed("ends")), (1, 1), "{isolation}: {}", it.host.log());
    }
}

/// Handles do not survive the copy, so the C library must have forgotten those it had.
#[test]
fn files_and_streams_work_before_and_after() {
    for isolation in ISOLATIONS {
        for steps in [&[][..], &["read:/mnt/project/a.txt", "print:in init"]] {
            let it = Prepared::serve(steps, &["--isolation", isolation]);
            assert!(it.has_snapshot(), "{steps:?}: {}", it.host.log());
            for n in 0..3 {
                assert_eq!(
                    it.call("read:/mnt/project/a.txt")["now"],
                    json!(["alpha"]),
                    "{isolation} {steps:?}"
                );
                assert!(it.call("read:/mnt/project/absent")["now"]["error"].is_string());
                let text = format!("request {n} prints");
                it.call(&format!("print:{text}"));
                it.host.wait_for_log(&text);
                assert_eq!(it.printed(&text), 0, "it has the request's id");
            }
        }
    }
}

/// A file that `init` keeps open is no memory: each instance opens it for itself.
#[test]
fn what_cannot_be_copied_is_prepared_in_every_instance() {
    for isolation in ISOLATIONS {
        let steps = ["print:begins", "open:/mnt/project/a.txt", "table:1000"];
        let it = Prepared::serve(&steps, &["--isolation", isolation, "--concurrency", "1"]);
        assert!(!it.has_snapshot());
        let log = it.host.log();
        let line = log.lines().find(|line| line.contains("every instance runs `init`")).unwrap();
        assert!(line.contains("a file or a folder") && line.contains("; hint: "), "{line}");
        for n in 0..3 {
            let answer = it.call("read:/mnt/project/a.txt");
            assert_eq!((&answer["inits"], &answer["table"][0]), (&json!(1), &json!(1000)), "{isolation}");
            assert_eq!(answer["now"], json!(["alpha"]));
            // Read to its end by the first request of each instance.
            let rest = if isolation == "worker" && n > 0 { "" } else { "alpha" };
            assert_eq!(answer["open"], json!([rest]), "{isolation}");
        }
        // Once for the copy that could not be taken, and once for each instance.
        let instances = if isolation == "worker" { 1 } else { 4 };
        wait_until("a line for each", || it.printed("begins") > instances);
        assert_eq!(it.printed("begins"), 1 + instances, "{isolation}: {}", it.host.log());
    }
}

/// Millions of bytes between zeros.
#[test]
fn memory_in_many_pieces_is_copied() {
    let it = Prepared::serve(&["scattered:16777216"], &["--isolation", "request"]);
    assert!(it.has_snapshot());
    assert_eq!(it.call("sum")["now"], json!([(16_777_216 / 2).to_string()]));
}

/// A failing `init` ends the start, whatever it does; what it prints is in the log.
#[test]
fn a_failing_init_refuses_the_handler() {
    let _alone = alone();
    for (step, why, hint) in [
        ("fail:no such label", "its `init` says: no such label", "in the log"),
        ("panic", "its `init` failed: the handler trapped", "in the log"),
        ("exit", "its `init` failed: the handler exited", "in the log"),
        ("hog", "its `init` failed: the handler needs more than its 67108864 bytes", "in the log"),
        ("spin", "its `init` ran longer than 200ms", "limits.init_timeout"),
    ] {
        let project = tempfile::tempdir().unwrap();
        let steps = ["print:before the end", step];
        // Memory takes its time to fill on a busy machine.
        let time = if step == "spin" { "200ms" } else { "1m" };
        let Err((status, log)) = Host::try_serve(&arguments(&steps, &project, &["--init-timeout", time]))
        else {
            panic!("`{step}` was served")
        };
        assert_eq!(status.code(), Some(1), "{step}: {log}");
        let (_, error) = log.rsplit_once("error: ").unwrap();
        assert!(error.contains(why), "{step}: {error}");
        assert!(error.contains("hint: ") && error.contains(hint), "{step}: {error}");
        assert!(log.contains("before the end"), "{step}: {log}");
        assert!(!error.contains("/mnt") && !error.contains("0x"), "{step}: {error}");
    }
}

/// What `init` read of the environment is part of the copy: on the disk it can be read only with the variables.
#[test]
fn granted_variables_are_not_readable_on_the_disk() {
    for granted in [&[][..], &["--env", "TOKEN=granted-to-it"]] {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("cache");
        let steps: &[&str] = if granted.is_empty() { &["table:9"] } else { &["table:9", "env:TOKEN"] };
        let it = Prepared::serve(steps, &[granted, &["--cache-dir", folder.to_str().unwrap()]].concat());
        assert!(it.has_snapshot());
        assert_eq!(it.call("")["table"][0], 9);
        // The form that can be read, and the copy.
        let entries = entries(&folder);
        assert_eq!(entries.len(), 2, "{granted:?}");
        let mapped = entries.iter().filter(|entry| fs::read(entry).unwrap().starts_with(b"\x7fELF")).count();
        assert_eq!(mapped, if granted.is_empty() { 2 } else { 1 }, "{granted:?}");
        for entry in entries {
            let code = fs::read(entry).unwrap();
            assert!(!code.windows(13).any(|window| window == b"granted-to-it"));
        }
    }
}

fn entries(cache: &Path) -> BTreeSet<PathBuf> {
    let files = fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|it| it == "code")).collect()
}

/// What `init` left serves every later start that gives it the same. One that gives it something else runs it again, and compiles
/// only what it left.
#[test]
fn a_second_start_compiles_nothing_and_runs_no_init() {
    const KEPT: &str = "compiled code kept";
    for granted in [&[][..], &["--env", "TOKEN=granted-to-it"]] {
        let (cache, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = cache.path().join("cache");
        let start = |steps: &[&str], more: &[&str]| {
            let cache = ["--cache-dir", folder.to_str().unwrap(), "--log-level", "info,host::plugin=debug"];
            let host = Host::serve(&arguments(steps, &project, &[&cache, granted, more].concat()));
            logged(host)
        };
        let steps = ["print:begins", "random", "read:/mnt/project/a.txt"];
        let answer = |host: &Host| host.request("POST", "/prepared", &[], b"").json()["found"].clone();
        let kept = |host: &Host| host.log().matches(KEPT).count();
        let first = start(&steps, &[]);
        assert_eq!(kept(&first), 2, "{granted:?}: {}", first.log());
        let (made, found) = (entries(&folder), answer(&first));
        for _ in 0..2 {
            let again = start(&steps, &[]);
            let log = again.log();
            assert_eq!(answer(&again), found, "{granted:?}: what was drawn then");
            assert!(kept(&again) == 0 && !log.contains("begins") && !log.contains("WARN"), "{log}");
            assert_eq!(
                log.matches("taken from the cache").count(),
                1,
                "{granted:?}: the copy, nothing else: {log}"
            );
            assert_eq!(entries(&folder), made, "{granted:?}");
        }
        fs::write(project.path().join("b.txt"), "beta").unwrap();
        for (steps, more) in [(&steps, &[][..]), (&["random"; 3], &[]), (&steps, &["--env", "B=1"])] {
            let other = start(steps, more);
            assert_eq!(kept(&other), 1, "{granted:?} {steps:?} {more:?}: {}", other.log());
            assert_ne!(answer(&other)[0], found[0]);
        }
    }
}

/// An entry that was changed is not used, whether it can be read or not.
#[test]
fn a_changed_copy_is_made_anew() {
    for granted in [&[][..], &["--env", "TOKEN=granted-to-it"]] {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("cache");
        let more = [granted, &["--cache-dir", folder.to_str().unwrap()]].concat();
        drop(Prepared::serve(&["print:begins"], &more));
        for entry in entries(&folder) {
            let mut code = fs::read(&entry).unwrap();
            let middle = code.len() / 2;
            code[middle] ^= 0x80;
            replace(&entry, &code);
        }
        let it = Prepared::serve(&["print:begins"], &more);
        assert_eq!(it.printed("begins"), 1, "{granted:?}: {}", it.host.log());
        assert_eq!(it.host.log().matches("cannot use an entry").count(), 2, "{granted:?}");
        drop(it);
        assert_eq!(Prepared::serve(&["print:begins"], &more).printed("begins"), 0, "{granted:?}");
    }
}

/// The memory limit counts what `init` leaves, in every instance.
#[test]
fn what_init_leaves_counts_into_the_memory_limit() {
    let it = Prepared::serve(&["table:8000000"], &["--instance-memory", "16MiB", "--isolation", "request"]);
    assert!(it.has_snapshot());
    assert_eq!(it.call("")["table"][0], 8_000_000);
    it.host.post("/prepared", "hog").error(500, "plugin_out_of_memory", "pre_inference");
    assert_eq!(it.call("")["table"][0], 8_000_000, "the next instance begins where all begin");
}

/// A generation's copy is its own: what it read then, and no other generation's.
#[test]
fn a_swap_prepares_anew_and_a_failing_init_refuses_it() {
    let project = tempfile::tempdir().unwrap();
    let handler = project.path().join("handler.wasm");
    fs::write(&handler, version("tests/prepared", 1)).unwrap();
    let steps = ["read:/mnt/project/a.txt"];
    let mut arguments = arguments(&steps, &project, &["--isolation", "request", "--name", "prepared"]);
    arguments[1] = handler.to_str().unwrap().to_owned();
    let it = Prepared { host: Host::serve(&arguments), _project: project };
    let file = it._project.path().join("a.txt");
    assert_eq!(it.call("")["found"], json!(["alpha"]));
    fs::write(&file, "beta").unwrap();
    assert_eq!(it.call("")["found"], json!(["alpha"]));
    fs::write(&handler, version("tests/prepared", 2)).unwrap();
    wait_until("the new version", || it.host.endpoint("prepared")["generation"] == 2);
    assert_eq!(it.call("read:/mnt/project/a.txt"), {
        let mut answer = it.call("");
        answer["now"] = json!(["beta"]);
        assert_eq!(answer["found"], json!(["beta"]));
        answer
    });
    fs::remove_file(&file).unwrap();
    fs::write(&handler, version("tests/prepared", 3)).unwrap();
    it.host.wait_for_log("its `init` says");
    assert_eq!(it.call("")["found"], json!(["beta"]));
    assert_eq!(it.host.endpoint("prepared")["generation"], 2);
}

/// Components that cannot be split, or that pretend to have been: they work, each instance for itself.
#[test]
fn components_of_unusual_forms_are_prepared_in_every_instance() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("handler.wasm");
    let (core, outer) = ("    ;; CORE", "  ;; OUTER");
    for (name, mark, more, snapshot) in [
        ("as it is", core, "", true),
        (
            "a second memory",
            outer,
            "(core module $m (memory (export \"m\") 1)) (core instance (instantiate $m))",
            false,
        ),
        (
            "a module used twice",
            outer,
            "(core module $m) (core instance (instantiate $m)) (core instance (instantiate $m))",
            true,
        ),
        (
            "a variable used twice",
            outer,
            "(core module $m (global (mut i32) (i32.const 0))) (core instance (instantiate $m)) \
             (core instance (instantiate $m))",
            false,
        ),
        ("a module in a component", outer, "(component (core module))", false),
        ("a name of the host's own", outer, "(export \"modelhost-state-x0\" (instance $init))", false),
        ("a vector in a global", core, "(global (mut v128) (v128.const i64x2 1 2))", false),
        (
            "a table that changes",
            core,
            "(table 1 funcref) (func (table.set (i32.const 0) (ref.null func)))",
            false,
        ),
        ("data that goes", core, "(data $d \"x\") (func (data.drop $d))", false),
    ] {
        fs::write(&file, assembled_with("init", mark, more)).unwrap();
        for isolation in ISOLATIONS {
            let host = logged(Host::with(Some(&file), None, &["--name", "it", "--isolation", isolation]));
            assert_eq!(host.log().contains("instances begin with"), snapshot, "{name}: {}", host.log());
            for _ in 0..3 {
                let text = host.post("/it", "{}").error(400, "invalid_input", "pre_inference");
                assert_eq!(text, "prepared", "{name}, {isolation}");
            }
        }
    }
}

#[test]
fn inspect_tells_whether_there_is_an_init() {
    for (name, has) in [("tests/prepared", true), ("tests/echo", false)] {
        let file = component(name);
        let output = |more: &[&str]| {
            let output = e2e::host(&[&["inspect", file.to_str().unwrap()], more].concat());
            String::from_utf8(output.stdout).unwrap()
        };
        let row = |line: &str| line.split_whitespace().collect::<Vec<_>>() == ["init", "yes"];
        assert_eq!(output(&[]).lines().any(row), has, "{name}");
        let json: Value = serde_json::from_str(&output(&["--json"])).unwrap();
        assert_eq!((&json["init"], &json["refused"]), (&json!(has), &Value::Null), "{name}");
    }
}
