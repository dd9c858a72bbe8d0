//! What is refused when it is copied over a handler's file does not serve after a restart either.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{Host, component, request, version, wait_until};
use serde_json::json;
use tempfile::TempDir;

use crate::gate::gated;

const REFUSED: &str = "the handler in the file was refused and does not serve, the last good version does";

/// A handler's file, and the cache that hosts share who serve it.
struct Site {
    folder: TempDir,
    more: Vec<String>,
}

impl Site {
    fn new(handler: &[u8], more: &[&str]) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let more = more.iter().map(|argument| (*argument).to_owned()).collect();
        let site = Site { folder, more };
        fs::write(site.file(), handler).unwrap();
        site
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("handler.wasm")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn try_start(&self) -> Result<Host, String> {
        let (file, cache) = (self.file(), self.cache());
        let mut arguments = vec!["--name", "it", "--plugin", file.to_str().unwrap()];
        arguments.extend(["--cache-dir", cache.to_str().unwrap()]);
        arguments.extend(self.more.iter().map(String::as_str));
        let host = Host::try_serve(&arguments).map_err(|(_, log)| log)?;
        host.wait_for_log("endpoint is ready");
        Ok(host)
    }

    fn start(&self) -> Host {
        self.try_start().unwrap_or_else(|log| panic!("{log}"))
    }

    /// Copies a handler over the file, as `cp` does, and waits until it is refused.
    fn refused(&self, host: &Host, handler: &[u8]) {
        fs::write(self.file(), handler).unwrap();
        host.wait_for_log("new handler refused");
    }

    /// Files of the cache whose names end so.
    fn kept(&self, ending: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.to_str().unwrap().ends_with(ending)).collect()
    }
}

fn digest(host: &Host) -> String {
    host.endpoint("it")["digest"].as_str().unwrap().to_owned()
}

fn swap(host: &Host, handler: &[u8]) {
    let url = format!("{}/admin/v1/endpoints/it/plugin", host.admin);
    let reply = request("PUT", &url, &[("content-type", "application/wasm")], handler);
    assert_eq!((reply.status, &reply.json()["outcome"]), (200, &json!("published")), "{}", reply.text());
}

/// The one line of the log with these words.
fn line(host: &Host, words: &str) -> String {
    let log = host.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(words)).collect();
    assert_eq!(lines.len(), 1, "`{words}` in {log}");
    lines[0].to_owned()
}

fn label(host: &Host) -> String {
    host.post("/it", r#"{"id": "1"}"#).json()["label"].as_str().unwrap().to_owned()
}

#[test]
fn what_the_gate_refused_serves_only_by_an_order() {
    let site = Site::new(&gated("good"), &["--gate-samples", "5"]);
    let first = site.start();
    let (good, wrong) = (digest(&first), gated("label"));
    assert_eq!(label(&first), "setosa");
    wait_until("a sample", || first.endpoint("it")["gate_samples"] == 1);
    site.refused(&first, &wrong);
    drop(first);

    // It has no samples, so it could not refuse by itself; and so has the one after.
    for _ in 0..2 {
        let restarted = site.start();
        let line = line(&restarted, REFUSED);
        let reason = "the gate refuses the handler: 1 of 1 samples differ";
        assert!(line.contains("WARN") && line.contains(reason) && line.contains(&good), "{line}");
        assert_eq!((label(&restarted), digest(&restarted)), ("setosa".to_owned(), good.clone()));
    }
    let restarted = site.start();
    swap(&restarted, &wrong);
    drop(restarted);
    let after = site.start();
    assert_ne!(digest(&after), good, "an order has published it");
    assert!(!after.log().contains("refused"), "{}", after.log());
    assert_eq!(site.kept(".refused"), [""; 0].map(PathBuf::from), "nothing is left to remember");
}

#[test]
fn without_the_last_good_version_what_the_gate_refused_serves_and_the_log_says_so() {
    let site = Site::new(&gated("good"), &["--gate-samples", "5"]);
    let first = site.start();
    let good = digest(&first);
    label(&first);
    wait_until("a sample", || first.endpoint("it")["gate_samples"] == 1);
    site.refused(&first, &gated("label"));
    drop(first);
    let kept = site.kept(".wasm");
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    let changed = |path: &Path| fs::write(path, "another").unwrap();
    let gone = |path: &Path| fs::remove_file(path).unwrap();
    for (spoil, what) in [(&changed as &dyn Fn(&Path), "not what it was"), (&gone, "gone")] {
        spoil(kept);
        let restarted = site.start();
        let line = line(&restarted, "no version before it is kept, so it serves");
        assert!(line.contains("WARN") && line.contains("1 of 1 samples differ"), "{what}: {line}");
        assert_ne!(digest(&restarted), good, "{what}");
    }
}

/// Steps that a start takes again: the old version serves only if they fail again.
#[test]
fn a_file_that_cannot_serve_does_not_end_the_next_start() {
    let site = Site::new(&fs::read(component("tests/version_a")).unwrap(), &[]);
    let first = site.start();
    let good = digest(&first);
    site.refused(&first, b"no component");
    drop(first);
    let restarted = site.start();
    let line = line(&restarted, REFUSED);
    assert!(line.contains("is not a WebAssembly file"), "{line}");
    assert_eq!(digest(&restarted), good);
    // What is put there next is judged as ever, and is then what the next refusal falls back to.
    fs::write(site.file(), version("tests/version_a", 1)).unwrap();
    wait_until("the new version", || digest(&restarted) != good);
    let better = digest(&restarted);
    site.refused(&restarted, b"no component");
    drop(restarted);
    assert_eq!(digest(&site.start()), better);
    for kept in site.kept(".wasm") {
        fs::remove_file(kept).unwrap();
    }
    let Err(log) = site.try_start() else { panic!("nothing there can serve") };
    assert!(log.contains("is not a WebAssembly file"), "{log}");
}

#[test]
fn what_was_refused_for_want_of_something_serves_once_it_is_there() {
    let project = tempfile::tempdir().unwrap();
    let needed = project.path().join("a.txt");
    let given =
        ["--metadata", r#"["read:/mnt/project/a.txt"]"#, "--project", project.path().to_str().unwrap()];
    let site = Site::new(&version("tests/prepared", 1), &given);
    fs::write(&needed, "alpha").unwrap();
    let first = site.start();
    let good = digest(&first);
    fs::remove_file(&needed).unwrap();
    site.refused(&first, &version("tests/prepared", 2));
    drop(first);
    fs::write(&needed, "beta").unwrap();
    let restarted = site.start();
    assert!(line(&restarted, "was refused before and passes now").contains("its `init` says"));
    assert_ne!(digest(&restarted), good);
    drop(restarted);
    assert!(!site.start().log().contains("refused"), "forgotten");
}

#[test]
fn a_page_that_cannot_be_read_costs_the_memory_and_nothing_else() {
    let site = Site::new(&fs::read(component("tests/version_a")).unwrap(), &[]);
    let first = site.start();
    site.refused(&first, b"no component");
    drop(first);
    let pages = site.kept(".refused");
    let [page] = &pages[..] else { panic!("{pages:?}") };
    fs::write(page, "{").unwrap();
    fs::write(site.file(), version("tests/version_a", 1)).unwrap();
    let host = site.start();
    assert!(line(&host, "cannot read which handlers were refused").contains("WARN"));
    site.refused(&host, b"no component");
    let page: serde_json::Value = serde_json::from_slice(&fs::read(page).unwrap()).unwrap();
    assert_eq!((&page["good"], &page["refused"][0]["step"]), (&json!(digest(&host)), &json!("load")));
}

/// Hosts without a cache remember nothing, and say nothing.
#[test]
fn without_a_cache_a_start_knows_nothing_of_refusals() {
    let site = Site::new(&fs::read(component("tests/version_a")).unwrap(), &["--no-smoke"]);
    let start = |file: &Path| {
        Host::try_serve(&["--name", "it", "--plugin", file.to_str().unwrap(), "--cache-dir", "none"])
    };
    let Ok(host) = start(&site.file()) else { panic!("it serves") };
    site.refused(&host, b"no component");
    drop(host);
    assert!(start(&site.file()).is_err());
}
