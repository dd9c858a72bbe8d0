//! What an error in a handler says of the handler's own files, in each language: the line that is nearest to it, then the
//! frames; what a handler that is stopped says.
//!
//! In: applications of `tests/languages/LANGUAGE-lines`, with an error of each kind by the request. A comment at the end of a
//! line is its name here.

use std::fs;
use std::path::Path;

use e2e::project::application;
use e2e::setup::{Endpoint, Setup};
use e2e::{Host, agent, root, try_request};
use serde_json::json;

use super::languages::QUICKJS;

/// A kind of error: how its first line begins, and the names of the lines that are told, the nearest first.
type Case<'a> = (&'static str, &'static str, &'a [&'static str]);

/// A language, the sources and how a frame is written.
struct Sources {
    language: &'static str,
    folder: &'static str,
    files: &'static [&'static str],
    frame: fn(&str, usize) -> String,
    /// Whether the nearest frame is the last.
    oldest_first: bool,
}

const PYTHON: Sources = Sources {
    language: "python",
    folder: "python-lines",
    files: &["app.py", "helpers.py"],
    frame: |file, line| format!("File \"{file}\", line {line}, in "),
    oldest_first: true,
};
const JAVASCRIPT: Sources = Sources {
    language: "js",
    folder: "js-lines",
    files: &["handler.js", "lib.js"],
    frame: |file, line| format!("{file}:{line}"),
    oldest_first: false,
};
const GO: Sources = Sources {
    language: "go",
    folder: "go-lines",
    files: &["handler.go", "names/names.go"],
    frame: |file, line| format!(" ({file}:{line})"),
    oldest_first: false,
};

impl Sources {
    fn read(&self) -> Vec<(&'static str, String)> {
        let folder = root().join("tests/languages").join(self.folder);
        let read = |name: &&'static str| (*name, fs::read_to_string(folder.join(name)).unwrap());
        self.files.iter().map(read).collect()
    }

    /// The file and the number of the line with this name.
    fn place(&self, name: &str) -> (&'static str, usize) {
        let is_it = |line: &str| ["# ", "// "].iter().any(|mark| line.ends_with(&format!(" {mark}{name}")));
        let mut found = self.read().into_iter().filter_map(|(file, text)| {
            let at = text.lines().position(is_it)?;
            Some((file, at + 1))
        });
        found.next().unwrap_or_else(|| panic!("no line is named `{name}`"))
    }

    /// The application, served; callers see what the log has.
    fn serve(&self, folder: &Path, more: &str) -> Host {
        let sources = self.read();
        let mut files: Vec<_> = sources.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let config = format!("[[endpoint]]\nname = \"it\"\nplugin = \"handler.wasm\"\n{more}");
        if !more.is_empty() {
            files.push(("modelhost.toml", &config));
        }
        let component = application(folder, self.language, &files);
        let endpoint = Endpoint::new("it").plugin(&component).limits("pre_timeout = '1s'");
        let endpoint = if self.language == "python" { endpoint.set("network = 'stub'") } else { endpoint };
        Setup::of([endpoint]).arguments(&["--debug"]).serve()
    }

    /// Asks for each kind: its first line has the nearest place, and all places follow in their order.
    fn tell(&self, host: &Host, path: &str, cases: &[Case<'_>]) {
        for (kind, first, names) in cases {
            let answer = host.post(path, json!({ "kind": kind }).to_string());
            let said = answer.text();
            answer.error(500, "plugin_error", "pre_inference");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            let (line, frames) = detail.split_once('\n').unwrap_or((&detail, ""));
            let (file, number) = self.place(names[0]);
            assert!(line.starts_with(first), "{kind}: {said}");
            assert!(line.ends_with(&format!(" ({file}:{number})")), "{kind}: {said}");
            let mut names = names.to_vec();
            if self.oldest_first {
                names.reverse();
            }
            let mut rest = frames;
            for name in names {
                let (file, number) = self.place(name);
                let frame = (self.frame)(file, number);
                let found = rest.split_once(&frame);
                rest = found.unwrap_or_else(|| panic!("{kind}: no `{frame}` in {said}")).1;
            }
            for other in ["modelhost_guest", "modelhost-guest", ".modelhost", "decoder.py", "/runtime/"] {
                assert!(!detail.contains(other), "{kind}: {said}");
            }
            // One record, and no line that the handler printed.
            let id = answer.json()["request_id"].as_str().unwrap().to_owned();
            host.wait_for_log(&id);
            assert_eq!(host.log().lines().filter(|line| line.contains(&id)).count(), 1, "{kind}");
        }
    }

    /// Work after the response, and a stream that has begun: only the log can say it.
    fn tell_the_log(&self, host: &Host, requests: &[(&str, &str)]) {
        for (method, name) in requests {
            // A stream that breaks off is an error of the client's too.
            drop(try_request(&agent(), method, &format!("{}/it/{name}", host.url), &[], b"{}"));
            let (file, number) = self.place(name);
            // The log has quotes as `\"`.
            host.wait_for_log(&(self.frame)(file, number).replace('"', "\\\""));
        }
    }
}

/// What a handler that is stopped says.
fn stopped(host: &Host, kind: &str, code: &str, has: &[&str], has_not: &[&str]) {
    let answer = host.post("/it/kinds", json!({ "kind": kind }).to_string());
    let said = answer.text();
    assert_eq!(answer.json()["code"], code, "{kind}: {said}");
    for part in has {
        assert!(said.contains(part), "{kind}: no `{part}` in {said}");
    }
    for part in has_not {
        assert!(!said.contains(part), "{kind}: `{part}` in {said}");
    }
}

/// A caller's mistake has no frames, and is no line of the log.
fn is_the_callers(host: &Host) {
    let answer = host.post("/it/kinds", json!({ "kind": "caller" }).to_string());
    assert_eq!(answer.error(400, "invalid_input", "pre_inference"), "not this");
    assert!(answer.json().get("detail").is_none(), "{}", answer.text());
    assert!(!host.log().contains("not this"), "{}", host.log());
}

#[test]
fn python_names_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let host = PYTHON.serve(folder.path(), "");
    is_the_callers(&host);
    PYTHON.tell(
        &host,
        "/it/kinds",
        &[
            ("own", "ValueError: of my own in two lines", &["own", "kinds"]),
            ("helper", "KeyError: 'missing'", &["get", "helper", "kinds"]),
            ("library", "JSONDecodeError: ", &["library", "kinds"]),
            ("recursion", "RecursionError: ", &["deep", "recursion", "kinds"]),
            // In their order: what led to it, then what it is.
            ("cause", "RuntimeError: while it was read", &["cause", "kinds", "get", "tried"]),
            ("memory", "MemoryError", &["memory", "kinds"]),
        ],
    );
    for (path, name) in [("/it/async", "async"), ("/it/batch", "batch")] {
        PYTHON.tell(&host, path, &[("helper", "KeyError: 'missing'", &["get", name])]);
    }
    PYTHON.tell_the_log(&host, &[("GET", "stream"), ("POST", "background")]);
    stopped(&host, "loop", "plugin_timeout", &["deadline exceeded", "frames of CPython"], &["_PyEval_"]);
}

/// On either engine; `caught`: what runs out of memory is an exception.
fn javascript(more: &str, recursion: &'static str, is_caught: bool) {
    let folder = tempfile::tempdir().unwrap();
    let host = JAVASCRIPT.serve(folder.path(), more);
    is_the_callers(&host);
    JAVASCRIPT.tell(
        &host,
        "/it/kinds",
        &[
            ("own", "RangeError: of my own in two lines", &["own", "kinds"]),
            ("helper", "TypeError: ", &["get", "helper", "kinds"]),
            ("library", "SyntaxError: ", &["library", "kinds"]),
            ("recursion", recursion, &["deep"]),
            ("cause", "Error: while it was read", &["cause", "kinds", "get", "tried", "kinds"]),
        ],
    );
    if is_caught {
        JAVASCRIPT.tell(&host, "/it/kinds", &[("memory", "InternalError: out of memory", &["memory"])]);
    }
    for (path, name) in [("/it/async", "async"), ("/it/batch", "batch")] {
        JAVASCRIPT.tell(&host, path, &[("helper", "TypeError: ", &["get", name])]);
    }
    JAVASCRIPT.tell_the_log(&host, &[("GET", "stream"), ("POST", "background")]);
    let frames = &["deadline exceeded", "frames without a name"];
    stopped(&host, "loop", "plugin_timeout", frames, &["<wasm function"]);
}

#[test]
fn javascript_names_its_lines() {
    javascript("", "InternalError: too much recursion", false);
}

#[test]
fn javascript_on_quickjs_names_its_lines() {
    javascript(QUICKJS, "RangeError: Maximum call stack size exceeded", true);
}

#[test]
fn typescript_names_its_lines() {
    let sources = Sources { folder: "ts-lines", files: &["handler.ts", "lib.ts"], ..JAVASCRIPT };
    let (host, _folders) = super::languages::check("ts", sources.folder, "ts-lines.json", QUICKJS);
    for (first, names) in
        [("RangeError: of my own in two lines", &["own"][..]), ("TypeError: ", &["get", "helper"])]
    {
        let places =
            names.iter().map(|name| sources.place(name)).map(|(file, line)| format!("{file}:{line})"));
        let places: Vec<_> = places.collect();
        host.wait_for_log(&format!("({}", places[0]));
        let log = host.log();
        let told = |line: &&str| line.contains(first) && places.iter().all(|place| line.contains(place));
        assert!(log.lines().any(|line| told(&line)), "{first} {places:?} in {log}");
    }
}

#[test]
fn go_names_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let host = GO.serve(folder.path(), "");
    is_the_callers(&host);
    let nil = "panic: runtime error: invalid memory address or nil pointer dereference";
    GO.tell(
        &host,
        "/it/kinds",
        &[
            ("own", "panic: of my own in two lines", &["own"]),
            ("helper", nil, &["get", "helper"]),
            ("library", "panic: assignment to entry in nil map", &["marshal", "library"]),
        ],
    );
    GO.tell_the_log(&host, &[("POST", "background")]);
    let deep = ["call stack exhausted", "names.Deep", "frames more of it"];
    stopped(&host, "recursion", "plugin_trap", &deep, &[]);
    stopped(&host, "loop", "plugin_timeout", &["deadline exceeded", "main.kinds"], &[]);
    stopped(&host, "memory", "plugin_out_of_memory", &["main.kinds"], &[]);
    let (file, line) = GO.place("memory");
    host.wait_for_log(&format!("/{file}:{line} "));
}
