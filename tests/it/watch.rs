//! When a changed file counts as a new version: complete, different, wanted.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use e2e::load::Pattern;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, component, request, version, wait_until};
use tempfile::TempDir;

/// Two endpoints, each with a handler's file of its own. What happens to `clock` shows that time enough has passed
/// for the same to happen to `subject`.
struct Pair {
    folder: TempDir,
    host: Host,
    notes: u8,
}

impl Pair {
    /// `subject` is served with `more` in its configuration.
    fn start(more: &str) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = |(name, more)| {
            let file = folder.path().join(name);
            fs::copy(component("tests/version_a"), &file).unwrap();
            Endpoint::new(name).plugin(&file).set(more)
        };
        let host = Setup::of([("subject", more), ("clock", "")].map(endpoint)).serve();
        Pair { host, folder, notes: 0 }
    }

    fn subject(&self) -> PathBuf {
        self.folder.path().join("subject")
    }

    fn generation(&self, name: &str) -> u64 {
        self.host.endpoint(name)["generation"].as_u64().unwrap()
    }

    /// Waits for two new versions of `clock`. The second began to settle after the first was published, so whatever
    /// happened to `subject` before this call has been seen and has settled.
    fn let_time_pass(&mut self) {
        for _ in 0..2 {
            self.notes += 1;
            let wanted = self.generation("clock") + 1;
            fs::write(self.folder.path().join("clock"), version("tests/version_a", self.notes)).unwrap();
            wait_until("the clock's next version", || self.generation("clock") == wanted);
        }
    }

    fn refused(&self) -> f64 {
        self.host.metric(r#"modelhost_plugin_swaps_total{endpoint="subject",outcome="refused"}"#)
    }
}

#[test]
fn what_is_no_file_of_a_component_is_refused_and_the_watch_goes_on() {
    let mut pair = Pair::start("");
    let subject = pair.subject();
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let sparse = |path: &Path| File::create(path).unwrap().set_len(3 << 30).unwrap();
    let device = |path: &Path| symlink("/dev/zero", path).unwrap();
    let folder = |path: &Path| fs::create_dir(path).unwrap();
    type Put<'a> = &'a dyn Fn(&Path);
    let cases: [(Put<'_>, &str); 4] = [
        (&pipe, "it is a pipe, not a regular file"),
        (&sparse, "it has 3221225472 bytes, more than 268435456"),
        (&device, "it is a device, not a regular file"),
        (&folder, "it is a folder, not a regular file"),
    ];
    for (number, (put, reason)) in (1_u8..).zip(cases) {
        fs::remove_file(&subject).unwrap();
        put(&subject);
        pair.host.wait_for_log(reason);
        // Orders are taken, and the neighbour is served and swapped.
        let reload = format!("{}/admin/v1/endpoints/subject/reload", pair.host.admin);
        let answer = request("POST", &reload, &[], b"").text();
        assert!(answer.contains(reason), "{answer}");
        pair.let_time_pass();
        if subject.is_dir() {
            fs::remove_dir(&subject).unwrap()
        } else {
            fs::remove_file(&subject).unwrap()
        }
        fs::write(&subject, version("tests/version_a", number)).unwrap();
        wait_until("the good file to be served", || pair.generation("subject") == u64::from(number) + 1);
    }
}

#[test]
fn the_same_bytes_are_no_new_version() {
    let mut pair = Pair::start("");
    let bytes = fs::read(pair.subject()).unwrap();
    fs::write(pair.subject(), &bytes).unwrap();
    pair.let_time_pass();
    fs::rename(pair.folder.path().join("clock"), pair.folder.path().join("gone")).unwrap();
    fs::write(pair.folder.path().join("copy"), &bytes).unwrap();
    fs::rename(pair.folder.path().join("copy"), pair.subject()).unwrap();
    pair.let_time_pass();
    assert_eq!(pair.generation("subject"), 1);
    assert!(pair.host.endpoint("subject")["last_swap"].is_null());
}

#[test]
fn without_watching_nothing_happens() {
    let mut pair = Pair::start("watch = false");
    fs::copy(component("tests/version_b"), pair.subject()).unwrap();
    pair.let_time_pass();
    fs::write(pair.subject(), "nonsense").unwrap();
    pair.let_time_pass();
    assert_eq!((pair.generation("subject"), pair.refused()), (1, 0.0));
    assert_eq!(pair.host.post("/subject", "{}").json()["pre"], "a");
}

#[test]
fn a_deleted_file_goes_on_serving() {
    let mut pair = Pair::start("");
    let load = Pattern::new(&pair.host.url, "/subject").start();
    fs::remove_file(pair.subject()).unwrap();
    pair.host.wait_for_log("handler file is gone");
    // The same version comes back, which is nothing new.
    fs::copy(component("tests/version_a"), pair.subject()).unwrap();
    pair.let_time_pass();
    assert_eq!((pair.generation("subject"), pair.refused()), (1, 0.0));
    // Gone once more, and another one comes.
    fs::remove_file(pair.subject()).unwrap();
    pair.let_time_pass();
    fs::copy(component("tests/version_b"), pair.subject()).unwrap();
    wait_until("the new version", || pair.generation("subject") == 2);
    load.wait_for_more(10);
    load.stop().iter().for_each(|answer| assert_eq!(answer.ok().status, 200));
    assert_eq!(pair.host.post("/subject", "{}").json()["pre"], "b");
}

/// Fills `file` with `bytes` in eight pieces, `pause` before each of them.
fn write_slowly(file: &Path, bytes: &[u8], pause: Duration) {
    let mut file = File::create(file).unwrap();
    for piece in bytes.chunks(bytes.len() / 8 + 1) {
        thread::sleep(pause);
        file.write_all(piece).unwrap();
    }
}

/// A file must hold still for 150 ms, and one that ends within a section for seconds. Each piece of a handler does: a half-written
/// version is not even refused, and never answers.
#[test]
fn a_slow_writer_is_waited_for() {
    for pause in [40, 400] {
        let pair = Pair::start("");
        let load = Pattern::new(&pair.host.url, "/subject").start();
        let bytes = fs::read(component("tests/version_b")).unwrap();
        write_slowly(&pair.subject(), &bytes, Duration::from_millis(pause));
        wait_until("the whole file to be published", || pair.generation("subject") == 2);
        load.wait_for_more(10);
        for answer in load.stop() {
            let body = answer.ok().json();
            assert_eq!(body["pre"], body["post"], "request {}", answer.id);
        }
        assert_eq!(pair.host.post("/subject", "{}").json()["pre"], "b");
        assert_eq!(pair.refused(), 0.0, "a writer's pause of {pause} ms was not waited for");
    }
}

/// Folders of versions whose link is switched as a whole, as container volumes and deployment tools do it.
#[test]
fn a_switched_link_is_a_new_version() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        let handler = folder.path().join(name).join("handler.wasm");
        fs::copy(component(&format!("tests/version_{name}")), handler).unwrap();
    }
    let link = |name: &str| {
        let beside = folder.path().join("next");
        std::os::unix::fs::symlink(name, &beside).unwrap();
        fs::rename(&beside, folder.path().join("current")).unwrap();
    };
    link("a");
    let host = Host::with(Some(&folder.path().join("current/handler.wasm")), None, &["--name", "swap"]);
    assert_eq!(host.post("/", "{}").json()["pre"], "a");
    link("b");
    wait_until("the other version", || host.endpoint("swap")["generation"] == 2);
    assert_eq!(host.post("/", "{}").json()["pre"], "b");
}
