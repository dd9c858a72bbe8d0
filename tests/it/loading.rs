//! A host that is still loading: it answers whoever asks, and then serves them on the same connections.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use e2e::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, is_ok, post};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Reply, component, request, serve_command, wait_until};
use serde_json::json;

/// A host whose start takes as long as the test likes: it has a model, and opening the model's engine waits for the other end
/// of a pipe.
struct Slow {
    child: Child,
    log: Arc<Mutex<String>>,
    urls: [String; 2],
    grpc: String,
    pipe: PathBuf,
    _folder: tempfile::TempDir,
}

impl Slow {
    /// The second endpoint's handler is of these bytes.
    fn start(handler: &[u8]) -> Slow {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let (plugin, config, pipe) = (file("handler.wasm"), file("modelhost.toml"), file("pipe"));
        fs::write(&plugin, handler).unwrap();
        let slow = Endpoint::new("slow").model("add");
        fs::write(&config, Setup::of([slow, Endpoint::new("model").plugin(&plugin)]).text()).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut command = serve_command(&[
            "--config",
            config.to_str().unwrap(),
            "--log-format",
            "json",
            "--grpc-listen",
            "127.0.0.1:0",
        ]);
        command.env("LD_PRELOAD", waiting_loader(folder.path())).env("ENGINE_GATE", &pipe);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (sink, stderr) = (log.clone(), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let mut urls = None;
        wait_until("the addresses in the log", || {
            let log = log.lock().unwrap();
            let line = log.lines().find(|line| line.contains("loading; "));
            let line: Option<serde_json::Value> = line.and_then(|line| serde_json::from_str(line).ok());
            let addresses = |line: serde_json::Value| {
                ["main", "admin", "grpc"].map(|name| line[name].as_str().unwrap().to_owned())
            };
            urls = line.map(addresses);
            urls.is_some()
        });
        let log_now = log.lock().unwrap().clone();
        // The other may be ready: they are loaded side by side.
        let is_loaded = |line: &str| line.contains("endpoint is ready") && line.contains(r#""slow""#);
        assert!(!log_now.lines().any(is_loaded), "the model was loaded too soon:\n{log_now}");
        let [main, admin, grpc] = urls.unwrap();
        let urls = [main, admin].map(|address| format!("http://{address}"));
        Slow { child, log, urls, grpc, pipe, _folder: folder }
    }

    /// Lets the engine be opened.
    fn finish(&self) {
        fs::write(&self.pipe, "").unwrap();
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A library that, loaded before all others, has ONNX Runtime wait for a writer of the pipe `ENGINE_GATE`.
fn waiting_loader(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("loader.c"), folder.join("loader.so"));
    let text = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        void *dlopen(const char *name, int flags) {
            void *(*next)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");
            if (name && strstr(name, "onnxruntime"))
                open(getenv("ENGINE_GATE"), O_RDONLY);
            return next(name, flags);
        }"#;
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().unwrap().success());
    library
}

#[test]
fn the_listeners_answer_while_everything_is_loading() {
    let mut slow = Slow::start(&fs::read(component("tests/echo")).unwrap());
    let [main, admin] = slow.urls.clone();
    let ask = |method: &str, url: &str, path: &str| request(method, &format!("{url}{path}"), &[], b"");
    let not_ready = |reply: &Reply, text: &str| {
        assert_eq!(reply.error(503, "not_ready", "admit"), text);
        assert_eq!(reply.header("retry-after"), Some("1"));
    };
    for url in [&main, &admin] {
        for path in ["/healthz", "/v2/health/live"] {
            let reply = ask("GET", url, path);
            assert_eq!((reply.status, reply.json()), (200, json!({ "ok": true })), "{url}{path}");
        }
        let reply = ask("GET", url, "/v2/health/ready");
        assert_eq!((reply.status, reply.json()), (503, json!({ "ready": false })), "{url}");
        assert!(ask("GET", url, "/metrics").text().contains("modelhost_build_info"), "{url}");
    }
    // In the words that the clients of Truss know.
    let reply = ask("GET", &main, "/");
    assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"status":"alive"}"#));
    for (method, path) in [
        ("GET", "/v1/models/model"),
        ("GET", "/v1/models/model/loaded"),
        ("POST", "/v1/models/model:predict"),
        ("POST", "/v1/models/model:predict_binary"),
    ] {
        not_ready(&ask(method, &main, path), "Model with name model is not ready.");
    }
    not_ready(&ask("GET", &main, "/v1/models/model/schema"), "Schema not available, please try again later.");
    for (method, url, path) in [
        ("POST", &main, "/model"),
        ("POST", &main, "/"),
        ("GET", &main, "/model"),
        ("OPTIONS", &main, "/model"),
        ("POST", &main, "/v2/models/model/infer"),
        ("GET", &main, "/nothing"),
        ("GET", &admin, "/admin/v1/endpoints"),
        ("GET", &admin, "/nothing"),
    ] {
        let reply = ask(method, url, path);
        not_ready(&reply, "the server is still loading models and handlers");
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, (url == &main).then_some("*"), "a page in a browser may read the answer");
    }
    // The operator's page is there, and says so itself.
    assert_eq!(ask("GET", &admin, "/").status, 200);
    // Connections from now on are served by the site that takes over.
    let mut early: Vec<Wire> = (0..3).map(|_| Wire::connect(&main).unwrap()).collect();
    let hello = wire::post("/model", &[], "hello");
    for wire in &mut early {
        wire.send(&hello).unwrap();
        assert_eq!(wire.read().unwrap().status, 503);
    }
    let mut early_admin = Wire::connect(&admin).unwrap();
    let mut early_grpc = Http2::begin(Wire::connect(&slow.grpc).unwrap()).unwrap();
    let live = |grpc: &mut Http2, stream: u32| {
        let headers = [("content-type", "application/grpc"), ("te", "trailers")];
        let block = post("/inference.GRPCInferenceService/ServerLive", &headers);
        grpc.send(HEADERS, END_HEADERS, stream, &block).unwrap();
        grpc.send(DATA, END_STREAM, stream, &[0; 5]).unwrap();
        is_ok(&grpc.receive_kind(HEADERS).unwrap())
    };
    assert!(!live(&mut early_grpc, 1));
    // Nothing is printed before everything is ready.
    slow.finish();
    let mut lines = BufReader::new(slow.child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), format!("listening on {main}"));
    assert_eq!(lines.next().unwrap().unwrap(), format!("admin on {admin}"));
    for wire in &mut early {
        wire.send(&hello).unwrap();
        let reply = wire.read().unwrap();
        assert_eq!((reply.status, reply.json()["body"].as_str()), (200, Some("hello")));
        wire.send(&wire::get("/v2/health/ready")).unwrap();
        assert_eq!(wire.read().unwrap().status, 200);
    }
    assert_eq!(lines.next().unwrap().unwrap(), format!("grpc on {}", slow.grpc));
    assert!(live(&mut early_grpc, 3));
    early_admin.send(&wire::get("/admin/v1/endpoints")).unwrap();
    assert_eq!(early_admin.read().unwrap().json()["endpoints"].as_array().unwrap().len(), 2);
    request("POST", &format!("{main}/"), &[], b"").error(405, "method_not_allowed", "admit");
}

#[test]
fn a_load_that_fails_ends_the_process_though_clients_are_connected() {
    let mut slow = Slow::start(b"nonsense");
    let mut early = Wire::connect(&slow.urls[0]).unwrap();
    early.send(&wire::get("/healthz")).unwrap();
    assert_eq!(early.read().unwrap().status, 200);
    slow.finish();
    let mut text = String::new();
    slow.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "", "it never said that it listens");
    assert_eq!(slow.child.wait().unwrap().code(), Some(1));
    wait_until("the reason", || slow.log().contains("error: endpoint `model`"));
    assert_eq!(early.until_closed(), b"");
}

#[test]
fn a_host_that_is_loading_can_be_stopped() {
    let mut slow = Slow::start(b"");
    let pid = slow.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(slow.child.wait().unwrap().code(), Some(0), "{}", slow.log());
}
