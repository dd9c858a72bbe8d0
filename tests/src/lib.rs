//! What every end-to-end test needs: a running host, a client, and the files to serve.
//!
//! Everything here drives the released binary from outside, as a user would: arguments, sockets, files, signals. Ports
//! are always 0; waiting is always for a condition, with a generous limit that a healthy machine never reaches.
//! A file that is missing fails the test with the command that makes it; nothing is ever skipped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test support: a panic is how a test fails"
)]

pub mod browser;
pub mod cases;
pub mod clients;
pub mod collector;
pub mod frames;
pub mod load;
pub mod oip;
pub mod process;
pub mod prometheus;
pub mod project;
pub mod recorded;
pub mod redis;
pub mod s3;
pub mod setup;
pub mod socket;
pub mod tls;
pub mod wire;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take before a test calls it hung.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Root of the repository: where this was compiled, or `E2E_ROOT` for tests that were carried to another machine.
pub fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("E2E_ROOT")
            .unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/..").into())
            .into()
    });
    &ROOT
}

fn existing(path: PathBuf, make: &str) -> PathBuf {
    assert!(path.exists(), "`{}` is missing; hint: run `{make}` first", path.display());
    path
}

/// The released binary.
pub fn host_binary() -> PathBuf {
    existing(root().join("target/release/host"), "make build")
}

/// The value of `PATH` with the tools that are brought for the tests.
pub fn path_with_tools() -> std::ffi::OsString {
    let tools = existing(root().join("target/tools/zig"), "scripts/zig.sh").parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = tools.canonicalize().unwrap();
    std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

/// A built component: `tests/NAME` for the guests of the tests, `iris-wasm` for the example.
pub fn component(name: &str) -> PathBuf {
    existing(root().join(format!("target/components/{name}.wasm")), "make build")
}

/// A built component with a note that changes nothing but its digest: one more version of the same handler.
pub fn version(name: &str, note: u8) -> Vec<u8> {
    let mut bytes = fs::read(component(name)).unwrap();
    // A custom section: its id, its length, the length of its name, its name.
    bytes.extend([0, 3, 1, b'v', note]);
    bytes
}

/// A component of `tests/guests/wat`, assembled.
pub fn assembled(name: &str) -> Vec<u8> {
    assembled_with(name, "", "")
}

/// The same with something else in place of a `mark`.
pub fn assembled_with(name: &str, mark: &str, more: &str) -> Vec<u8> {
    let file = existing(root().join(format!("tests/guests/wat/{name}.wat")), "git checkout tests/guests");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(mark), "no `{mark}` in `{name}`");
    let text = if mark.is_empty() { text } else { text.replacen(mark, more, 1) };
    wat::parse_str(text).expect("the text is a component")
}

/// A component whose compiling would take gigabytes: as many values may be alive at as many branches.
pub fn costly() -> Vec<u8> {
    let (locals, branches) = ("(local i32)".repeat(1000), "block local.get 0 br_if 0 end ".repeat(50_000));
    let export = r#"(instance $none) (export "modelhost:handler/pre-inference@0.1.0" (instance $none))"#;
    let text = format!("(component (core module (func (param i32) {locals} {branches})) {export})");
    wat::parse_str(text).expect("the text is a component")
}

/// A model of `tests/models`.
pub fn model(name: &str) -> PathBuf {
    existing(root().join(format!("tests/models/{name}.onnx")), "git checkout tests/models")
}

/// Runs a command of the host to its end.
pub fn host(arguments: &[&str]) -> Output {
    Command::new(host_binary()).args(arguments).stdin(Stdio::null()).output().expect("the host starts")
}

/// The command `host serve` with these arguments, on free ports.
pub fn serve_command<S: AsRef<str>>(arguments: &[S]) -> Command {
    let mut command = Command::new(host_binary());
    command.arg("serve").args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    // A count that a test looks for is there before the first.
    command.env("MODELHOST_METRICS", "all");
    command.args(arguments.iter().map(AsRef::as_ref));
    command
}

/// A running `host serve`; killed when dropped.
pub struct Host {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// The same for the admin listener.
    pub admin: String,
    /// `127.0.0.1:PORT`, if it was started with `--grpc-listen`.
    pub grpc: Option<String>,
    /// What the host writes to stderr: a file, so that it is there as soon as it is written.
    log: File,
}

impl Host {
    /// Starts `host serve` with these arguments on free ports and waits until it is ready.
    pub fn serve<S: AsRef<str>>(arguments: &[S]) -> Host {
        Host::try_serve(arguments)
            .unwrap_or_else(|(status, log)| panic!("the host ended with {status}:\n{log}"))
    }

    /// As [`Host::serve`], for a start that may fail: gives exit status and stderr then.
    pub fn try_serve<S: AsRef<str>>(arguments: &[S]) -> Result<Host, (ExitStatus, String)> {
        Host::try_start(serve_command(arguments))
    }

    /// Starts what [`serve_command`] made, after a test has changed its surroundings.
    pub fn try_start(mut command: Command) -> Result<Host, (ExitStatus, String)> {
        let speaks_grpc = command.get_args().any(|argument| argument == "--grpc-listen");
        let log = tempfile::tempfile().unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone().unwrap())
            .spawn()
            .expect("the host starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |prefix: &str| {
            let line = lines.next()?.ok()?;
            Some(line.strip_prefix(prefix).unwrap_or_else(|| panic!("unexpected line `{line}`")).to_owned())
        };
        let addresses = address("listening on ").zip(address("admin on "));
        let grpc = if speaks_grpc && addresses.is_some() { address("grpc on ") } else { None };
        let Some((url, admin)) = addresses else {
            return Err((child.wait().unwrap(), whole_lines(&log)));
        };
        Ok(Host { child, url, admin, grpc, log })
    }

    /// A handler and a model, both by path, and further arguments.
    pub fn with(plugin: Option<&Path>, model: Option<&Path>, more: &[&str]) -> Host {
        let mut arguments: Vec<String> = Vec::new();
        for (flag, path) in [("--plugin", plugin), ("--model", model)] {
            if let Some(path) = path {
                arguments.extend([flag.to_owned(), path.display().to_string()]);
            }
        }
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        Host::serve(&arguments)
    }

    /// Serves what a config file says, of a test that is about its text; [`setup`] writes what others serve. Paths
    /// in it have to be absolute.
    pub fn configured(config: &str) -> Host {
        setup::Setup::default().tables(config).serve()
    }

    /// Every whole line logged so far. The host logs on a thread of its own: a request may be answered before its
    /// line is here, see [`Host::wait_for_log`].
    pub fn log(&self) -> String {
        whole_lines(&self.log)
    }

    /// Waits until the log has this text.
    pub fn wait_for_log(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for `{text}` in the log");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// `POST` with a JSON content type.
    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.request("POST", path, &[("content-type", "application/json")], body.as_ref())
    }

    /// The JSON that a JSON `POST` is answered with, which is no error.
    pub fn ask(&self, path: &str, order: &Value) -> Value {
        let reply = self.post(path, order.to_string());
        assert_eq!(reply.status, 200, "{order}: {}", reply.text());
        reply.json()
    }

    /// `GET`.
    pub fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], &[])
    }

    /// Any request to the main listener, on a connection of its own.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        request(method, &format!("{}{path}", self.url), headers, body)
    }

    /// Everything under `/metrics`.
    pub fn metrics(&self) -> String {
        request("GET", &format!("{}/metrics", self.admin), &[], &[]).text()
    }

    /// The value of one series of `/metrics`, such as `modelhost_requests_total{endpoint="iris",outcome="ok"}`.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.metrics();
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
            .unwrap_or_else(|| panic!("no series `{series}` in\n{text}"))
    }

    /// What the admin listener says of the endpoints.
    pub fn endpoints(&self) -> Value {
        request("GET", &format!("{}/admin/v1/endpoints", self.admin), &[], &[]).json()["endpoints"].take()
    }

    /// What the admin listener says of one of them.
    pub fn endpoint(&self, name: &str) -> Value {
        let endpoints = self.endpoints();
        let found = endpoints.as_array().unwrap().iter().find(|endpoint| endpoint["name"] == name);
        found.unwrap_or_else(|| panic!("no endpoint `{name}` in {endpoints}")).clone()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Memory of the process in KiB: `VmRSS` is what it has now, `VmHWM` the most it has had.
    pub fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").parse().unwrap()
    }

    /// CPU time of all its threads so far.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // After the name in parentheses, which may have blanks.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// Sends a signal by name: `TERM`, `INT`.
    pub fn signal(&self, name: &str) {
        process::signal(&self.child, name);
    }

    /// Waits for the process to end and gives its status and log.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut status = None;
        wait_until("the host to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        (status.unwrap(), self.log())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("---- log of the host\n{}----", self.log());
        }
    }
}

/// Puts another file of the same mode in the place of one that nobody writes to: whoever has the old one open keeps it.
pub fn replace(path: &Path, contents: &[u8]) {
    let permissions = fs::metadata(path).unwrap().permissions();
    fs::remove_file(path).unwrap();
    fs::write(path, contents).unwrap();
    fs::set_permissions(path, permissions).unwrap();
}

/// A log up to the end of its last line; its place of writing stays where it is.
fn whole_lines(log: &File) -> String {
    let mut bytes = vec![0; usize::try_from(log.metadata().unwrap().len()).unwrap()];
    log.read_exact_at(&mut bytes, 0).unwrap();
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Asserts status, `code` and `stage` of an error, and gives its text.
    pub fn error(&self, status: u16, code: &str, stage: &str) -> String {
        let body = self.json();
        let found = (self.status, body["code"].as_str(), body["stage"].as_str());
        assert_eq!(found, (status, Some(code), Some(stage)), "{body}");
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"));
        body["error"].as_str().unwrap().to_owned()
    }
}

/// A client that keeps its connections, for loops, and follows no redirect: an answer is what the host has said.
pub fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(PATIENCE))
        .build()
        .new_agent()
}

/// One request on a connection of its own.
pub fn request(method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    try_request(&agent(), method, url, headers, body)
        .unwrap_or_else(|error| panic!("{method} {url}: {error}"))
}

/// One request of an [`agent`]; an error is one of the connection, never a status.
pub fn try_request(
    agent: &ureq::Agent,
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Reply, ureq::Error> {
    let mut builder = ureq::http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let mut response = agent.run(builder.body(body).unwrap())?;
    let headers = response
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let mut body = Vec::new();
    response.body_mut().as_reader().read_to_end(&mut body)?;
    Ok(Reply { status: response.status().as_u16(), headers, body })
}

/// Asserts that two JSON values are equal, numbers within 1e-5, and objects of `expected` being parts of `actual`'s.
pub fn assert_close(actual: &Value, expected: &Value) {
    assert!(is_close(actual, expected), "expected {expected}\n     got {actual}");
}

fn is_close(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Number(a), Value::Number(b)) => (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= 1e-5,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            b.iter().all(|(key, b)| a.get(key).is_some_and(|a| is_close(a, b)))
        }
        (a, b) => a == b,
    }
}
