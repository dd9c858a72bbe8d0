//! docs/reference.md against a running host: metrics, error codes, the admin API, the Open Inference Protocol. (The tables of flags
//! and config keys are held by the host's own unit tests.)

use std::collections::{BTreeMap, BTreeSet};

use e2e::redis::Redis;
use e2e::s3::{KEY, S3};
use e2e::setup::{Endpoint, Setup};
use e2e::socket::WebSocket;
use e2e::{Host, Reply, component, model, request, version, wait_until};

/// The rows of the table in `section` whose first column is headed `first`: each row's cells, code marks removed.
fn table(section: &str, first: &str) -> Vec<Vec<String>> {
    let path = e2e::root().join("docs/reference.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let section = text.split("\n## ").find(|text| text.starts_with(section)).expect("the section is there");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = section.lines().skip_while(|line| !line.starts_with(&format!("| {first} |")));
    lines.next().unwrap_or_else(|| panic!("no table of `{first}` in `{section}`"));
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

fn plain(cell: &str) -> String {
    cell.replace('`', "")
}

/// The status that the reference gives each error code.
pub(crate) fn statuses() -> BTreeMap<String, u16> {
    table("Error codes", "code").iter().map(|row| (plain(&row[0]), row[1].parse().unwrap())).collect()
}

fn iris() -> Host {
    Host::with(Some(&component("iris-wasm")), Some(&model("iris_static")), &["--name", "iris"])
}

fn get(host: &Host, path: &str) -> Reply {
    request("GET", &format!("{}{path}", host.admin), &[], b"")
}

#[test]
fn the_metrics_are_those_of_the_reference() {
    // Series of predictions begin with the first of them, those of values that are kept likewise, and those of
    // durations with the first request.
    let tracked = |name: &str, kind: &str| {
        let tracker = format!("tracker = {{ model_type = {kind:?} }}");
        Endpoint::new(name).model("identity_int64").set(tracker)
    };
    let (redis, s3) = (Redis::start(&[]), S3::start());
    let objects = Endpoint::new("objects").guest("blobs").set("blobs = ['a']");
    let keeper = Endpoint::new("keeper").guest("kv").set("kv = ['a']");
    let cached = Endpoint::new("cached").model("iris_dyn").set("response_cache = { size = '1MiB' }");
    let submits = Endpoint::new("submits").guest("jobs").set("jobs = 'on'");
    let talk = Endpoint::new("talk").guest("socket");
    let together = Endpoint::new("together").guest("batch").set("record_share = 0");
    let together = together.table("batching", "max_requests = 2");
    let sums = Endpoint::new("sums")
        .model_at(&model("accumulator"), "state = { state_out = 'state_in', count_out = 'count_in' }");
    let counts = Endpoint::new("counts").guest("metrics").limits("series = 0");
    let jobs = Endpoint::new("jobs")
        .guest("echo")
        .set("jobs = 'on'\nallow_outbound = ['http://127.0.0.1:1']")
        .limits("webhook_attempts = 1");
    let setup = Setup::of([tracked("class", "classification"), tracked("value", "regression")])
        .endpoints([keeper, objects, cached, talk, jobs, submits, together, sums, counts])
        .tables(format!("[jobs]\nstore = {:?}", redis.url()));
    let recordings = tempfile::tempdir().unwrap();
    let record = format!("[record]\ndir = {:?}", recordings.path());
    let setup = setup.variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let setup = setup.arguments(&["--access-log", "json"]);
    let host = setup.tables(redis.store()).tables(s3.store("", KEY)).tables(record).serve();
    // Those of trials begin with the first.
    let candidate = "/admin/v1/endpoints/talk/plugin/candidate?mode=shadow&share=1";
    let another = [&std::fs::read(component("tests/socket")).unwrap()[..], &[0, 2, 1, b'y']].concat();
    let reply = request("PUT", &format!("{}{candidate}", host.admin), &[], &another);
    assert_eq!(reply.status, 200, "{}", reply.text());
    for (path, body) in [
        ("/class", "{\"x\":[1,2]}"),
        ("/class", "{\"x\":[1]}"),
        ("/value", "{\"x\":[1]}"),
        ("/keeper", r#"[["open", "a"], ["get", "k"]]"#),
        ("/submits", r#"[["get", "none"]]"#),
        ("/together", r#"{"value": 1}"#),
        ("/objects", r#"[["open", "a"], ["get", "k"]]"#),
        ("/counts", r#"[{"op": "add", "name": "a", "value": 1, "labels": {}}]"#),
    ] {
        assert_eq!(host.post(path, body).status, 200);
    }
    let webhook = [("x-modelhost-job-webhook", "http://127.0.0.1:1")];
    assert_eq!(host.request("POST", "/jobs/jobs", &webhook, b"x").status, 202);
    wait_until("the job's webhook", || host.metrics().contains("modelhost_job_webhooks_total{"));
    let mut socket = WebSocket::open(&host.url, "/talk", &[]).ok().unwrap();
    socket.say("bye");
    assert_eq!(socket.closed().0, 1000);
    wait_until("the socket to be counted", || host.metrics().contains("modelhost_websocket_closes_total{"));
    let text = get(&host, "/metrics").text();
    let mut found: BTreeMap<&str, [String; 3]> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            found.entry(name).or_default()[2] = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            found.entry(name).or_default()[0] = kind.to_owned();
        } else {
            let (series, labels) = line.split_once(['{', ' ']).unwrap();
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|suffix| series.strip_suffix(suffix))
                .find(|name| found.contains_key(name))
                .unwrap_or(series);
            let names = labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
            let names: Vec<_> = names.filter(|name| *name != "le").map(|name| format!("`{name}`")).collect();
            let entry = found.get_mut(name).unwrap_or_else(|| panic!("`{line}` has no `# HELP` before it"));
            entry[1] = names.join(", ");
        }
    }
    let row = |(name, [kind, labels, help]): (&&str, &[String; 3])| {
        format!("| `{name}` | {kind} | {labels} | {help} |")
    };
    let found: BTreeSet<String> = found.iter().map(row).collect();
    let written: BTreeSet<String> =
        table("Metrics", "metric").iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    let listed = found.iter().cloned().collect::<Vec<_>>().join("\n");
    assert_eq!(written, found, "the rows of docs/reference.md should be:\n{listed}\n");
}

#[test]
fn the_commands_are_those_of_the_reference() {
    let help = String::from_utf8(e2e::host(&["--help"]).stdout).unwrap();
    let commands = help.split_once("\nCommands:\n").expect(&help).1.split("\n\n").next().unwrap();
    // What goes on in the next line is further to the right.
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(' '));
    let names: Vec<&str> = names.map(|(name, _)| name).filter(|name| !["", "help"].contains(name)).collect();
    let written: Vec<String> = table("Commands", "command").iter().map(|row| plain(&row[0])).collect();
    assert_eq!(written, names);
}

#[test]
fn the_error_codes_are_those_of_the_reference() {
    let host = iris();
    // The durations of its stages begin with the first request.
    let sample = std::fs::read(e2e::root().join("examples/iris-wasm/sample.json")).unwrap();
    assert_eq!(host.post("/iris", sample).status, 200);
    let text = get(&host, "/metrics").text();
    let value = |line: &str, label: &str| {
        let (_, rest) = line.split_once(&format!("{label}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    // The host counts by every code it has, from the start.
    let requests = text.lines().filter(|line| line.starts_with("modelhost_requests_total{"));
    let mut codes: BTreeSet<String> = requests.filter_map(|line| value(line, "outcome")).collect();
    assert!(codes.remove("ok") && codes.remove("cancelled"), "{codes:?}");
    assert_eq!(statuses().into_keys().collect::<BTreeSet<_>>(), codes);

    let stages: BTreeSet<String> = text.lines().filter_map(|line| value(line, "stage")).collect();
    let written: BTreeSet<String> = table("Error codes", "stage").iter().map(|row| plain(&row[0])).collect();
    assert_eq!(written, stages);
}

#[test]
fn the_open_inference_protocol_is_that_of_the_reference() {
    let host = Host::with(None, Some(&model("iris_static")), &["--name", "iris", "--model-control"]);
    let calls = table("Open Inference Protocol", "call");
    assert!(!calls.is_empty());
    for call in calls {
        let call = plain(&call[0]).replace("{model}", "iris").replace("{region}", "r");
        let (method, path) = call.split_once(' ').expect("a method and a path");
        // What is asked for is not there, the call is.
        let wants = ["/infer", "/generate", "/generate_stream", "/register"];
        let expected = if wants.iter().any(|verb| path.ends_with(verb)) { 400 } else { 200 };
        let reply = host.request(method, path, &[], b"");
        assert_eq!(reply.status, expected, "{call}: {}", reply.text());
    }
}

#[test]
fn the_admin_api_is_that_of_the_reference() {
    let host = iris();
    let calls = table("Admin API", "call");
    assert!(!calls.is_empty());
    for (note, call) in (1..).zip(calls) {
        let call = plain(&call[0]).replace("{endpoint}", "iris").replace("{model}", "default");
        let (method, paths) = call.split_once(' ').expect("a method and paths");
        // Each call that puts a component puts another version: the serving one is no candidate.
        let body = if method == "PUT" { version("iris-wasm", note) } else { Vec::new() };
        for path in paths.split(", ") {
            let reply = request(method, &format!("{}{path}", host.admin), &[], &body);
            // A configuration is taken with a key only.
            let expected = if (method, path) == ("PUT", "/admin/v1/config") { 403 } else { 200 };
            assert_eq!(reply.status, expected, "{method} {path}: {}", reply.text());
        }
    }
    let endpoint = host.endpoints()[0].take();
    let found: BTreeSet<String> = endpoint.as_object().unwrap().keys().cloned().collect();
    let written: BTreeSet<String> = table("Admin API", "key").iter().map(|row| plain(&row[0])).collect();
    assert_eq!(written, found);

    let headers: BTreeSet<String> = table("Error codes", "header").iter().map(|row| plain(&row[0])).collect();
    let reply = host.post("/", "{}");
    for header in headers {
        assert!(reply.header(&header).is_some(), "no `{header}` in {:?}", reply.headers);
    }
}

#[test]
fn the_other_protocols_are_those_of_the_reference() {
    let host = Host::with(None, Some(&model("iris_static")), &["--name", "iris"]);
    let (flower, example) = ("[5.2,3.6,1.4,0.3]", r#"{"examples":[{"input":[5.2,3.6,1.4,0.3]}]}"#);
    for row in table("Other protocols", "call") {
        let call = plain(&row[0]).replace("{m}", "iris");
        for call in call.split(", ") {
            // With and without what is optional.
            let short =
                call.split_once('[').map(|(head, rest)| [head, rest.split_once(']').unwrap().1].concat());
            let long = call.replace(['[', ']'], "").replace("{v}", "1");
            for call in short.iter().chain([&long]) {
                let (method, path) = call.split_once(' ').expect("a method and a path");
                let body = match (method, path.rsplit_once(':')) {
                    ("POST", Some((_, "classify" | "regress"))) => example,
                    ("POST", _) => flower,
                    _ => "",
                };
                let reply = host.request(method, path, &[], body.as_bytes());
                // Iris has probabilities, and no number for each example.
                let expected = match path {
                    _ if path.ends_with("/schema") => 404,
                    _ if path.ends_with(":regress") => 400,
                    _ => 200,
                };
                assert_eq!(reply.status, expected, "{call}: {}", reply.text());
                assert!(!reply.text().contains("no endpoint"), "{call}");
            }
        }
    }
    let status = host.get("/_k/status").json();
    let found: BTreeSet<String> = status.as_object().unwrap().keys().cloned().collect();
    let written: BTreeSet<String> =
        table("Other protocols", "key").iter().map(|row| plain(&row[0])).collect();
    assert_eq!(written, found);
}
