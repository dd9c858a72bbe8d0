//! The access log: a line for each request, of every protocol; texts of strangers; a disk that takes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::setup::{Endpoint, Setup};
use e2e::socket::WebSocket;
use e2e::wire::{self, Wire};
use e2e::{Host, clients, component, model, wait_until};
use serde_json::Value;
use tempfile::TempDir;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const FLOWER: &str = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;
const V2: &str = r#"{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[5.2,3.6,1.4,0.3]}]}"#;
const STAGES: [&str; 4] = ["admit", "pre_inference", "infer", "post_inference"];

/// A folder, and the access log in it.
struct Log {
    folder: TempDir,
    file: PathBuf,
}

impl Log {
    fn new() -> Log {
        let folder = tempfile::tempdir().unwrap();
        Log { file: folder.path().join("access.log"), folder }
    }

    /// The setting of it.
    fn table(&self, format: &str) -> String {
        table(format, &self.file)
    }

    fn text(&self) -> String {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.rsplit_once('\n').map(|(whole, _)| whole.to_owned()).unwrap_or_default()
    }

    /// The lines, once there are so many.
    fn wait(&self, count: usize) -> Vec<String> {
        wait_until("the lines", || self.text().lines().count() >= count);
        self.text().lines().map(str::to_owned).collect()
    }

    /// The same as objects.
    fn objects(&self, count: usize) -> Vec<Value> {
        let object =
            |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.wait(count).iter().map(object).collect()
    }

    /// The line of one request, by its id.
    fn of(&self, id: &str) -> Value {
        let is_its = |line: &str| line.contains(&format!("\"request.id\":\"{id}\""));
        wait_until(id, || self.text().lines().any(is_its));
        let text = self.text();
        let lines: Vec<&str> = text.lines().filter(|line| is_its(line)).collect();
        assert_eq!(lines.len(), 1, "{text}");
        serde_json::from_str(lines[0]).unwrap()
    }
}

fn table(format: &str, file: &Path) -> String {
    format!("[log]\naccess = {format:?}\naccess_file = {file:?}")
}

fn iris() -> Endpoint {
    Endpoint::new("iris").plugin(&component("iris-wasm")).model("iris_dyn")
}

fn count(host: &Host, outcome: &str) -> f64 {
    host.metric(&format!("modelhost_access_log_lines_total{{outcome=\"{outcome}\"}}"))
}

#[test]
fn a_request_has_one_line_by_every_protocol() {
    let log = Log::new();
    let keys = log.folder.path().join("keys");
    fs::write(&keys, "# for tests\na-key\n").unwrap();
    let locked = Endpoint::new("locked").model("iris_dyn").set(format!("keys = ['@{}']", keys.display()));
    let (app, talk) = (Endpoint::new("app").guest("application"), Endpoint::new("talk").guest("socket"));
    let broken = Endpoint::new("broken").guest("hostile");
    let bare = Endpoint::new("bare").model("iris_dyn");
    let setup = Setup::of([iris(), bare, locked, app, talk, broken]).tables(log.table("json"));
    let host = setup.arguments(&["--grpc-listen", "127.0.0.1:0"]).serve();
    let digest = host.endpoint("iris")["digest"].as_str().unwrap().to_owned();
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let mut made = 0;
    for (method, path, body, status, outcome, endpoint) in [
        ("POST", "/iris", FLOWER, 200, "ok", "iris"),
        ("POST", "/v2/models/bare/infer", V2, 200, "ok", "bare"),
        ("POST", "/v1/models/bare:predict", r#"{"instances":[[5.2,3.6,1.4,0.3]]}"#, 200, "ok", "bare"),
        ("POST", "/locked", r#"{"input":[[5.2,3.6,1.4,0.3]]}"#, 200, "ok", "locked"),
        ("GET", "/app/count?access_token=secret", "", 200, "ok", "app"),
        ("POST", "/iris", "{}", 400, "invalid_input", "iris"),
        ("POST", "/broken", "panic", 500, "plugin_trap", "broken"),
        ("GET", "/none", "", 404, "not_found", ""),
        ("POST", "/v2/models/none/infer", V2, 404, "not_found", ""),
        ("GET", "/v2/models/bare", "", 200, "ok", ""),
        ("PUT", "/iris", "", 405, "method_not_allowed", ""),
    ] {
        made += 1;
        let id = format!("request-{made}");
        let headers = [
            ("content-type", "application/json"),
            ("x-request-id", &*id),
            ("traceparent", &*parent),
            ("authorization", "Bearer a-key"),
            ("user-agent", "tests/1"),
        ];
        let reply = host.request(method, path, &headers, body.as_bytes());
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        let line = log.of(&id);
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let of = ["method", "path", "outcome", "endpoint", "client", "protocol", "user_agent"].map(text);
        let path = path.split('?').next().unwrap();
        assert_eq!(of, [method, path, outcome, endpoint, "127.0.0.1", "HTTP/1.1", "tests/1"], "{line}");
        let numbers = ["status", "received_bytes", "sent_bytes"].map(|name| line[name].as_u64().unwrap());
        // Of a request that is refused by its head the body may not be read.
        let received = if endpoint.is_empty() { numbers[1] } else { body.len() as u64 };
        assert_eq!(numbers, [u64::from(status), received, reply.body.len() as u64], "{line}");
        assert!(line["duration_ms"].as_f64().unwrap() > 0.0 && line.get("broken_off").is_none(), "{line}");
        if !endpoint.is_empty() {
            assert_eq!((text("trace_id"), &line["generation"]), (TRACE, &Value::from(1)), "{line}");
        }
        assert_eq!(text("key"), if endpoint == "locked" { "keys:2" } else { "" }, "{line}");
        if (endpoint, outcome) == ("iris", "ok") {
            assert_eq!(text("digest"), digest, "{line}");
            let stages = line["stages_ms"].as_object().unwrap();
            let sum: f64 = stages.values().map(|took| took.as_f64().unwrap()).sum();
            assert!(STAGES.iter().all(|stage| stages.contains_key(*stage)), "{line}");
            assert!(sum > 0.0 && sum <= line["duration_ms"].as_f64().unwrap() + 0.01, "{line}");
        }
    }
    let reply = host.request("POST", "/locked", &[("x-request-id", "no-key")], b"{}");
    assert_eq!((reply.status, &log.of("no-key")["outcome"]), (401, &Value::from("unauthorized")));
    assert_eq!(log.of("no-key").get("key"), None);
    made += 1;

    let mut socket = WebSocket::open(&host.url, "/talk", &[("x-request-id", "socket")]).ok().unwrap();
    socket.say("bye");
    assert_eq!(socket.closed().0, 1000);
    let line = log.of("socket");
    assert_eq!((&line["status"], &line["outcome"]), (&Value::from(101), &Value::from("ok")), "{line}");
    // Frames of a client have six bytes before so short a message.
    assert!(
        line["received_bytes"].as_u64().unwrap() >= 9 && line["sent_bytes"].as_u64().unwrap() > 0,
        "{line}"
    );
    made += 1;

    clients::run("grpc_raw", &[host.grpc.as_deref().unwrap(), "logged"]);
    // A call, a stream with a line for each of its two requests, and two calls that reach no endpoint.
    let lines = log.objects(made + 6);
    let calls: Vec<&Value> = lines.iter().filter(|line| line["protocol"] == "HTTP/2.0").collect();
    let service = "/inference.GRPCInferenceService";
    let seen = |line: &&Value| {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let path = text("path").replace(service, "");
        format!("{path} {} {} {}", line["grpc_status"], text("outcome"), text("endpoint"))
    };
    let mut seen: Vec<String> = calls.iter().map(seen).collect();
    seen.sort_unstable();
    let expected = [
        "/ModelInfer 0 ok bare",
        "/ModelMetadata 5 refused ",
        "/ModelStreamInfer 0 ok ",
        "/ModelStreamInfer 0 ok bare",
        "/ModelStreamInfer 0 ok bare",
        "/ServerLive 0 ok ",
    ];
    assert_eq!(seen, expected);
    let call = calls.iter().find(|line| line["path"] == format!("{service}/ModelInfer")).unwrap();
    assert_eq!(call["trace_id"], TRACE);
    assert!(call["received_bytes"].as_u64().unwrap() > 16 && call["stages_ms"]["infer"].is_f64(), "{call}");
    assert_eq!(lines.len(), made + 6);
    assert_eq!((count(&host, "written"), count(&host, "dropped")), ((made + 6) as f64, 0.0));
    assert!(!log.text().contains("secret") && !log.text().contains("a-key"));
}

#[test]
fn the_common_format_is_that_of_web_servers() {
    let log = Log::new();
    let keys = log.folder.path().join("the keys");
    fs::write(&keys, "a-key\n").unwrap();
    let host = Setup::of([iris().set(format!("keys = ['@{}']", keys.display()))])
        .tables(log.table("common"))
        .serve();
    let sent = host.request("POST", "/iris", &[("authorization", "Bearer a-key")], FLOWER.as_bytes());
    assert_eq!(sent.status, 200);
    let refused = host.request("GET", "/a%20%22b%22", &[], b"");
    let lines = log.wait(2);
    for (line, (user, request, reply)) in lines
        .iter()
        .zip([("thekeys:1", "POST /iris HTTP/1.1", &sent), ("-", "GET /a%20%22b%22 HTTP/1.1", &refused)])
    {
        let (before, rest) = line.split_once(" [").expect(line);
        let (time, after) = rest.split_once("] ").expect(line);
        assert_eq!(before, format!("127.0.0.1 - {user}"));
        assert_eq!(after, format!("\"{request}\" {} {}", reply.status, reply.body.len()));
        let parts: Vec<&str> = time.split(['/', ':', ' ']).collect();
        let [day, month, year, .., zone] = parts[..] else { panic!("{time}") };
        let months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
        assert!(
            day.len() == 2 && months.contains(month) && year.starts_with("20") && zone == "+0000",
            "{time}"
        );
    }
}

#[test]
fn what_strangers_send_makes_one_bounded_line() {
    for format in ["json", "common"] {
        let log = Log::new();
        let host = Setup::of([iris()]).tables(log.table(format)).serve();
        let long = format!("/{}", "%41".repeat(10_000));
        let agents: [&[u8]; 4] = [
            b"\xff\xfe \xc2\x9b31m \"},{\"outcome\":\"forged",
            b"a\tb\\n\\\"",
            &[b'x'; 9_000],
            "\u{202e}Ж".as_bytes(),
        ];
        let paths = ["/\"},{\"a", "/\\x0a", &long, "/\u{d0}\u{96}"];
        for (agent, path) in agents.iter().zip(paths) {
            let mut wire = Wire::connect(&host.url).unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: ");
            let request = [head.as_bytes(), agent, b"\r\nreferer: ", agent, b"\r\n\r\n"].concat();
            wire.send(&request).unwrap();
            let status = wire.read().unwrap().status;
            assert!((400..500).contains(&status), "{path:.40}: {status}");
        }
        assert_eq!(host.post("/iris", FLOWER).status, 200);
        // A request line that HTTP forbids may have been no request.
        let lines = log.wait(4);
        assert!(lines.len() <= 5, "{lines:?}");
        for line in &lines {
            assert!(line.len() < 4_096 && !line.chars().any(char::is_control), "{line}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_ne!(line["outcome"], "forged");
            } else {
                assert!(
                    line.is_ascii() && line.matches('"').count() - line.matches("\\\"").count() == 2,
                    "{line}"
                );
            }
        }
    }
}

/// A disk that is full, and a reader that reads nothing.
#[test]
fn a_log_that_takes_nothing_costs_lines_and_no_request() {
    let log = Log::new();
    assert!(Command::new("mkfifo").arg(&log.file).status().unwrap().success());
    // Kept open, it is a reader that never reads.
    let pipe = fs::OpenOptions::new().read(true).write(true).open(&log.file).unwrap();
    // Past what the pipe and the queue hold.
    for (file, requests, dropped) in [(Path::new("/dev/full"), 20, 20), (&*log.file, 6_000, 1_000)] {
        let host = Setup::of([iris()]).tables(table("json", file)).serve();
        let mut wire = Wire::connect(&host.url).unwrap();
        let request = wire::post("/iris", &[("content-type", "application/json")], FLOWER);
        for _ in 0..requests {
            wire.send(&request).unwrap();
            assert_eq!(wire.read().unwrap().status, 200, "{}", file.display());
        }
        wait_until("lines to be dropped", || count(&host, "dropped") >= f64::from(dropped));
        let lost = host.log().matches("the access log cannot be written").count();
        assert_eq!(lost, usize::from(dropped == requests), "{}", host.log());
    }
    drop(pipe);
}

#[test]
fn a_log_that_is_moved_away_begins_anew() {
    let log = Log::new();
    let host = Setup::of([iris()]).tables(log.table("json")).serve();
    assert_eq!(host.post("/iris", FLOWER).status, 200);
    log.wait(1);
    let moved = log.folder.path().join("access.log.1");
    fs::rename(&log.file, &moved).unwrap();
    wait_until("a new file", || {
        assert_eq!(host.post("/iris", FLOWER).status, 200);
        log.file.exists()
    });
    // What is under way at the end has its line.
    assert_eq!(host.post("/iris", FLOWER).status, 200);
    let requests = host.metric(r#"modelhost_requests_total{endpoint="iris",outcome="ok"}"#);
    host.signal("TERM");
    assert!(host.wait().0.success());
    let lines = log.text().lines().count() + fs::read_to_string(moved).unwrap().lines().count();
    assert_eq!(lines as f64, requests);
}

#[test]
fn a_client_that_goes_away_has_a_line_that_says_so() {
    let log = Log::new();
    let host = Setup::of([Endpoint::new("app").guest("application")]).tables(log.table("json")).serve();
    let mut wire = Wire::connect(&host.url).unwrap();
    wire.send(b"GET /app/wait?ms=60000 HTTP/1.1\r\nhost: localhost\r\nx-request-id: gone\r\n\r\n").unwrap();
    wait_until("the request", || host.metric(r#"modelhost_requests_in_flight{endpoint="app"}"#) == 1.0);
    drop(wire);
    let line = log.of("gone");
    assert_eq!((line["outcome"].as_str(), line.get("status")), (Some("cancelled"), None), "{line}");
}

#[test]
fn without_a_log_there_is_no_thread_and_a_share_is_drawn() {
    let model = model("iris_dyn");
    let threads = |host: &Host| {
        let tasks = fs::read_dir(format!("/proc/{}/task", host.pid())).unwrap();
        let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.trim() == "access-log").count()
    };
    let host = Host::with(None, Some(&model), &["--name", "iris"]);
    assert_eq!(threads(&host), 0);
    assert!(!host.metrics().contains("modelhost_access_log_lines_total{"));

    let log = Log::new();
    let file = log.file.display().to_string();
    let some =
        ["--name", "iris", "--access-log", "json", "--access-log-file", &file, "--access-log-share", "0.5"];
    let host = Host::with(None, Some(&model), &some);
    assert_eq!(threads(&host), 1);
    let mut wire = Wire::connect(&host.url).unwrap();
    for _ in 0..200 {
        wire.send(&wire::get("/iris")).unwrap();
        assert_eq!(wire.read().unwrap().status, 200);
    }
    host.signal("TERM");
    assert!(host.wait().0.success());
    let lines = log.text().lines().count();
    // Seven times the standard deviation.
    assert!((50..150).contains(&lines), "{lines}");

    let folder = log.folder.path().display().to_string();
    let refused = Host::try_serve(&[
        "--model",
        &model.display().to_string(),
        "--access-log",
        "json",
        "--access-log-file",
        &folder,
    ]);
    let Err((status, text)) = refused else { panic!("a folder is no file") };
    assert!(!status.success() && text.contains("cannot write the access log"), "{text}");
}
