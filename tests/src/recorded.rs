//! Support for recordings: a host that writes them, and `host replay`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Host, Reply, component, host, wait_until};

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file under `folder`, finished or not, in order.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Reads one.
pub fn recording(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The recordings of an endpoint by their request ids.
pub fn by_id(folder: &Path) -> BTreeMap<String, Value> {
    let is_finished = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let all = files(folder).into_iter().filter(is_finished).map(|path| recording(&path));
    all.map(|recording| (recording["request"]["id"].as_str().unwrap().to_owned(), recording)).collect()
}

/// A host that records into a folder of its own.
pub struct Recorded {
    /// The host; `it` is its endpoint.
    pub host: Host,
    /// Where it records.
    pub folder: TempDir,
}

impl Recorded {
    /// Serves a guest as `it`.
    pub fn serve(plugin: &str, more: &[&str]) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let plugin = component(plugin);
        let arguments = ["--name", "it", "--plugin", text(&plugin), "--record", text(folder.path())];
        Recorded { host: Host::serve(&[&arguments[..], more].concat()), folder }
    }

    /// Posts a body under this request id, as the user `ann`.
    pub fn post(&self, id: &str, body: &str) -> Reply {
        self.host.request("POST", "/it", &[("x-request-id", id), ("x-user", "ann")], body.as_bytes())
    }

    /// How many recordings had this outcome.
    pub fn count(&self, outcome: &str) -> f64 {
        self.host.metric(&format!("modelhost_recordings_total{{endpoint=\"it\",outcome=\"{outcome}\"}}"))
    }

    /// Waits until so many are written.
    pub fn wait(&self, written: usize) {
        wait_until(&format!("{written} recordings"), || self.count("written") >= written as f64);
    }
}

/// Runs `host replay` and gives its exit code and the lines of stdout and stderr.
pub fn replay(path: &Path, plugin: &Path, more: &[&str]) -> (i32, Vec<String>, String) {
    let output = host(&[&["replay", text(path), "--plugin", text(plugin)], more].concat());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), stdout.lines().map(str::to_owned).collect(), stderr)
}

/// That all of them come out the same.
pub fn assert_same(path: &Path, plugin: &Path, more: &[&str], count: usize) {
    let (code, lines, stderr) = replay(path, plugin, more);
    assert_eq!((code, lines.len()), (0, count), "{lines:#?}{stderr}");
    assert!(lines.iter().all(|line| line.starts_with("same      ")), "{lines:#?}");
}
