//! Hostile applications, by any of their exports, beside a good neighbour: it loses nothing, each fault is told, counted and logged,
//! a response that fails never looks whole, and what was taken is given back.

use std::thread;
use std::time::Duration;

use e2e::load::{Pattern, alone, assert_echoed};
use e2e::wire::Wire;
use e2e::{Host, component, model, wait_until};

use super::open_files;

/// Longest a neighbour's request may take: streams and crowds want processors too.
const SOON: Duration = Duration::from_secs(2);

/// What comes of a request.
#[derive(Clone, Copy)]
enum End {
    /// An error of this status and code.
    Error(u16, &'static str),
    /// A response that breaks off, and is counted so.
    Cut(&'static str),
    /// A whole response, of this status and with this text in it.
    Whole(u16, &'static str),
    /// The same of a handler that fails after it, and is counted so.
    After(&'static str),
}

use End::{After, Cut, Error, Whole};

const TRAP: &str = "plugin_trap";
const TIME: &str = "plugin_timeout";
const OUTPUT: &str = "plugin_bad_output";
const MEMORY: &str = "plugin_out_of_memory";
const FAILED: &str = "plugin_error";

/// By `wasi:http`: the path below the endpoint's, and what comes of it.
const HTTP: [(&str, End); 73] = [
    // No answer.
    ("wait-a-day", Error(504, "request_timeout")),
    ("wait-for-ever", Error(504, "request_timeout")),
    ("wait-storm", Error(504, "request_timeout")),
    ("poll-storm", Error(504, "request_timeout")),
    ("no-response", Error(500, OUTPUT)),
    ("error-text=1000", Error(500, FAILED)),
    ("error-text=3000000", Error(500, FAILED)),
    ("error-text=18000000", Error(500, OUTPUT)),
    ("trap", Error(500, TRAP)),
    ("exit", Error(500, TRAP)),
    ("spin", Error(504, TIME)),
    ("recurse", Error(500, TRAP)),
    ("grow", Error(500, MEMORY)),
    ("print", Error(500, OUTPUT)),
    ("random", Error(500, OUTPUT)),
    // An answer that is none.
    ("status=100", Error(500, OUTPUT)),
    ("status=101", Error(500, OUTPUT)),
    ("status=199", Error(500, OUTPUT)),
    ("status=600", Error(500, OUTPUT)),
    ("status=999", Error(500, OUTPUT)),
    ("status=204", Whole(204, "")),
    ("status=304", Whole(304, "")),
    ("status=599", Whole(599, "body")),
    ("header=connection:close", Whole(200, "HeaderError::Forbidden")),
    ("header=transfer-encoding:chunked", Whole(200, "HeaderError::Forbidden")),
    ("header=upgrade:websocket", Whole(200, "HeaderError::Forbidden")),
    ("header=host:elsewhere", Whole(200, "HeaderError::Forbidden")),
    ("header=a(b:1", Whole(200, "HeaderError::InvalidSyntax")),
    ("wide-header=60000", Whole(200, "good")),
    ("wide-header=1000000", Error(500, OUTPUT)),
    ("many-headers=500", Whole(200, "good")),
    ("many-headers=20000", Error(500, OUTPUT)),
    ("server-headers", Whole(200, "good")),
    ("length=3", Cut(OUTPUT)),
    ("length=7", Cut(OUTPUT)),
    ("length=5", Whole(200, "12345")),
    ("length=5,5", Error(500, TRAP)),
    ("length=+5", Error(500, TRAP)),
    // Handles that are not the guest's, or not any more.
    ("answer-twice", After(OUTPUT)),
    ("forge-outparam", Error(500, OUTPUT)),
    ("forge-stream", Error(500, OUTPUT)),
    ("body-twice", Whole(200, "(true, true)")),
    ("finish-early", Cut(OUTPUT)),
    ("write-after-finish", After(OUTPUT)),
    ("leak=fields", Error(500, TRAP)),
    ("leak=timers", Error(500, TRAP)),
    ("leak=responses", Error(500, TRAP)),
    ("leak=bodies", Error(500, TRAP)),
    ("leak=requests", Error(504, TIME)),
    ("method=64", Whole(200, "taken")),
    ("method=2000000", Whole(200, "refused")),
    ("authority=1024", Whole(200, "taken")),
    ("authority=2000000", Whole(200, "refused")),
    // A body without an end.
    ("leave-body", Cut(OUTPUT)),
    ("drop-body", Cut(OUTPUT)),
    ("write-unasked", Cut(OUTPUT)),
    ("zeroes", Cut(OUTPUT)),
    ("in-body=trap", Cut(TRAP)),
    ("in-body=wait", Cut(TIME)),
    ("in-body=exit", Cut(TRAP)),
    ("in-body=spin", Cut(TIME)),
    ("in-body=recurse", Cut(TRAP)),
    ("in-body=grow", Cut(MEMORY)),
    ("in-body=print", Cut(OUTPUT)),
    ("drip", Whole(200, "..........")),
    ("trailers=1000", Whole(200, "half")),
    ("trailers=1000000", Cut(OUTPUT)),
    ("odd-trailers", Whole(200, "whole")),
    // After the answer, and others.
    ("after=wait", After(TIME)),
    ("after=storm", After(TIME)),
    ("after=trap", After(TRAP)),
    ("fetch-for-ever", Error(504, TIME)),
    ("fetch=1000", Whole(200, "1000")),
];

/// The same by `respond`.
const RESPOND: [(&str, End); 64] = [
    // No answer.
    ("wait-a-day", Error(504, "request_timeout")),
    ("wait-storm", Error(504, "request_timeout")),
    ("nothing", Error(500, OUTPUT)),
    ("finish-first", Error(500, OUTPUT)),
    ("internal=1000000", Error(500, FAILED)),
    ("invalid=1000000", Error(400, "invalid_input")),
    ("internal=6000000", Error(500, OUTPUT)),
    ("invalid=6000000", Error(500, OUTPUT)),
    ("large=6000000", Error(500, OUTPUT)),
    ("large-error=6000000", Error(500, OUTPUT)),
    ("trap", Error(500, TRAP)),
    ("exit", Error(500, TRAP)),
    ("spin", Error(504, TIME)),
    ("recurse", Error(500, TRAP)),
    ("grow", Error(500, MEMORY)),
    ("print", Error(500, OUTPUT)),
    // An answer that is none.
    ("status=99", Error(500, OUTPUT)),
    ("status=101", Error(500, OUTPUT)),
    ("status=600", Error(500, OUTPUT)),
    ("status=204", Whole(204, "")),
    ("header=connection:close", Error(500, OUTPUT)),
    ("header=transfer-encoding:chunked", Error(500, OUTPUT)),
    ("header=content-length:1", Error(500, OUTPUT)),
    ("header=set-cookie:a=b", Error(500, OUTPUT)),
    ("header=a(b:1", Error(500, OUTPUT)),
    ("header=x-request-id:forged", Whole(200, "body")),
    ("header=x-handler-digest:forged", Whole(200, "body")),
    ("wide-header=100000", Error(500, OUTPUT)),
    ("many-headers=81", Error(500, OUTPUT)),
    ("many-headers=80", Whole(200, "body")),
    ("begin-header=content-length:1", Whole(200, "is the server's to set")),
    ("begin-header=set-cookie:a=b", Whole(200, "speaks for the whole server")),
    // Twice, and handles that are not the guest's.
    ("begin-twice", Cut(FAILED)),
    ("begin-and-return", Cut(OUTPUT)),
    ("send-and-return", After(OUTPUT)),
    ("send-after-begin", Cut(OUTPUT)),
    ("write-first", Error(500, OUTPUT)),
    ("write-after-finish", After(OUTPUT)),
    ("forge-output", Error(500, OUTPUT)),
    ("keep", Whole(200, "kept")),
    ("leak", Error(500, TRAP)),
    // A body without an end.
    ("leave-body", Cut(OUTPUT)),
    ("drop-body", Cut(OUTPUT)),
    ("in-body=trap", Cut(TRAP)),
    ("in-body=exit", Cut(TRAP)),
    ("in-body=wait", Cut(TIME)),
    ("in-body=spin", Cut(TIME)),
    ("in-body=empty", Cut(TIME)),
    ("in-body=recurse", Cut(TRAP)),
    ("in-body=grow", Cut(MEMORY)),
    ("in-body=large", Cut(OUTPUT)),
    ("drip", Whole(200, "..........")),
    // After the answer, and models.
    ("after=wait", After(TIME)),
    ("after=storm", After(TIME)),
    ("after=trap", After(TRAP)),
    ("models=tensors", Whole(200, "limits.tensors")),
    ("models=bytes", Whole(200, "limits.tensor_memory")),
    ("models=runs", Whole(200, "limits.model_runs")),
    ("models=start", Whole(200, "limits.model_runs")),
    ("models=outputs", Whole(200, "limits.tensor_memory")),
    ("models=lie", Whole(200, "InvalidInput")),
    ("models=rows", Whole(200, "InvalidInput")),
    ("models=range", Whole(200, "InvalidInput")),
    ("models=wait-twice", Whole(200, "taken before")),
];

/// All three applications under limits that are soon reached, and their neighbour.
fn stage() -> Host {
    let [http, respond, concurrent, echo] =
        ["tests/hostile_http", "tests/hostile_respond", "tests/concurrent", "tests/echo"].map(component);
    let limits = "[endpoint.limits]\nmemory = \"48MiB\"\noutput = \"5MiB\"\nconcurrency = 8\nbody = \"1MiB\"\n\
         pre_timeout = \"300ms\"\nrequest_timeout = \"4s\"\nstream_timeout = \"500ms\"\n\
         background_timeout = \"500ms\"\ntensors = 100\ntensor_memory = \"8MiB\"\nmodel_runs = 1000\n";
    Host::configured(&format!(
        "[[endpoint]]\nname = \"http\"\nplugin = {http:?}\n{limits}\
         [[endpoint]]\nname = \"respond\"\nplugin = {respond:?}\n{limits}\
         [endpoint.models.identity]\npath = {:?}\n\
         [[endpoint]]\nname = \"concurrent\"\nplugin = {concurrent:?}\n{limits}\
         [[endpoint]]\nname = \"neighbour\"\nplugin = {echo:?}\n",
        model("identity_fp32")
    ))
}

/// By `wasi:http` 0.3.
const CONCURRENT: [(&str, End); 28] = [
    ("before/trap", Error(500, TRAP)),
    ("before/exit", Error(500, TRAP)),
    ("before/spin", Error(504, TIME)),
    ("before/never", Error(500, TRAP)),
    ("before/wait", Error(504, "request_timeout")),
    ("before/yield", Error(504, "request_timeout")),
    ("before/grow", Error(500, MEMORY)),
    ("before/waits", Error(500, TRAP)),
    ("before/streams", Error(500, TRAP)),
    ("before/fields", Error(500, TRAP)),
    ("before/print", Error(500, OUTPUT)),
    ("refuse", Error(500, FAILED)),
    ("headers?status=101", Error(500, OUTPUT)),
    ("method?length=64", Whole(200, "taken")),
    ("method?length=2000000", Whole(200, "refused")),
    ("authority?length=1024", Whole(200, "taken")),
    ("authority?length=2000000", Whole(200, "refused")),
    ("in-body/trap", Cut(TRAP)),
    ("in-body/exit", Cut(TRAP)),
    ("in-body/spin", Cut(TIME)),
    ("in-body/never", Cut(TRAP)),
    ("in-body/wait", Cut(TIME)),
    ("in-body/yield", Cut(TIME)),
    ("in-body/grow", Cut(MEMORY)),
    ("in-body/waits", Cut(TRAP)),
    ("in-body/streams", Cut(TRAP)),
    ("in-body/leave", Cut(TIME)),
    ("after?ms=60000", After(TIME)),
];

/// A response as far as it came.
struct Seen {
    head: String,
    body: String,
    is_whole: bool,
}

impl Seen {
    /// Sends a `GET`, and reads until the host closes the connection.
    fn get(host: &Host, path: &str, id: &str) -> Seen {
        let mut wire = Wire::connect(&host.url).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: here\r\nte: trailers\r\nx-request-id: {id}\r\nconnection: close\r\n\r\n"
        );
        wire.send(head.as_bytes()).unwrap();
        Seen::of(&wire.until_closed())
    }

    fn of(bytes: &[u8]) -> Seen {
        let text = String::from_utf8_lossy(bytes);
        let (head, mut rest) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let head = head.to_ascii_lowercase();
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        if header("transfer-encoding") != Some("chunked") {
            let length = header("content-length").map_or(0, |length| length.parse().unwrap());
            let is_whole = rest.len() == length;
            return Seen { body: rest.to_owned(), is_whole, head };
        }
        let (mut body, mut is_whole) = (String::new(), false);
        while let Some((size, after)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                // The trailers, if any, and an empty line.
                is_whole = after.ends_with("\r\n");
                body += after.trim_end();
                break;
            }
            body += after.get(..size).unwrap_or(after);
            rest = after.get(size + 2..).unwrap_or_default();
        }
        Seen { head, body, is_whole }
    }
}

fn run(name: &str, cases: &[(&str, End)]) {
    let _alone = alone();
    let host = stage();
    let count = |code: &str| {
        let series = format!("modelhost_requests_total{{endpoint=\"{name}\",outcome=\"{code}\"}} ");
        host.metrics().lines().find_map(|line| line.strip_prefix(&series)?.parse().ok()).unwrap_or(0)
    };
    let (files, neighbour) = (open_files(&host), Pattern::new(&host.url, "/neighbour").start());
    for (number, (kind, end)) in cases.iter().enumerate() {
        let id = format!("{name}-{number}");
        let (Error(_, code) | Cut(code) | After(code)) = *end else {
            let Whole(status, text) = *end else { unreachable!() };
            let seen = Seen::get(&host, &format!("/{name}/{kind}"), &id);
            let is_so = seen.head.starts_with(&format!("http/1.1 {status} "));
            assert!(
                is_so && seen.is_whole && seen.body.contains(text),
                "{kind}: {} {:?}",
                seen.head,
                seen.body
            );
            assert!(!seen.head.contains("forged") && !seen.body.contains("forged"), "{kind}: {}", seen.head);
            continue;
        };
        let before: u64 = count(code);
        let seen = Seen::get(&host, &format!("/{name}/{kind}"), &id);
        let shown: String = format!("{kind}: {} {}", seen.head, seen.body).chars().take(2000).collect();
        match *end {
            Error(status, code) => {
                let is_so = seen.head.starts_with(&format!("http/1.1 {status} ")) && seen.is_whole;
                assert!(is_so && seen.body.contains(&format!("\"code\":\"{code}\"")), "{shown}");
                assert!(seen.body.len() < 8 << 10 && !seen.body.contains("0x"), "{shown}");
            }
            Cut(_) => {
                assert!(seen.head.starts_with("http/1.1 200 ") && !seen.is_whole, "{shown}");
            }
            After(_) | Whole(..) => {
                assert!(seen.head.starts_with("http/1.1 200 ") && seen.is_whole, "{shown}");
            }
        }
        wait_until(&format!("`{kind}` to be counted as {code}"), || count(code) > before);
        if code != "invalid_input" {
            let is_it = |line: &str| {
                line.contains("ERROR") && line.contains(&format!("request.id={id} ")) && line.contains(code)
            };
            wait_until(&format!("`{kind}` to be logged as {code}"), || host.log().lines().any(is_it));
            let log = host.log();
            let longest = log.lines().map(str::len).max();
            assert!(longest < Some(32 << 10), "{kind}: a line of {longest:?} bytes");
        }
        // The next one finds the endpoint as it was.
        let good = Seen::get(&host, &format!("/{name}/good"), "good");
        assert!(good.head.starts_with("http/1.1 200 ") && good.body == "good", "after {kind}: {}", good.head);
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON);
    assert_clean(&host, name, files);
}

/// What was taken is given back: places, instances, files, memory.
fn assert_clean(host: &Host, name: &str, files: usize) {
    let metric = |series: &str| host.metric(&format!("{series}{{endpoint=\"{name}\"}}"));
    wait_until("places to be free", || metric("modelhost_requests_in_flight") == 0.0);
    wait_until("instances to end", || metric("modelhost_plugin_instances") <= 8.0);
    wait_until("files to be closed", || open_files(host) < files + 20);
    let memory = host.memory("VmRSS") >> 10;
    assert!(memory < 1024, "{memory} MiB are left");
}

#[test]
fn every_kind_by_wasi_http_costs_the_neighbour_nothing() {
    run("http", &HTTP);
}

#[test]
fn every_kind_by_respond_costs_the_neighbour_nothing() {
    run("respond", &RESPOND);
}

#[test]
fn every_kind_by_concurrent_wasi_http_costs_the_neighbour_nothing() {
    run("concurrent", &CONCURRENT);
}

/// The host's memory for a guest is not more for what it keeps beyond its requests, or never sends.
#[test]
fn the_host_keeps_little_for_a_guest() {
    let host = stage();
    for (path, times, text, most) in
        [("/respond/keep-tensor", 100, "kept", 100), ("/http/hoard=300", 4, "good", 200)]
    {
        let before = host.memory("VmHWM") >> 10;
        for _ in 0..times {
            let seen = Seen::get(&host, path, "hoard");
            assert!(seen.is_whole && seen.body == text, "{path}: {} {}", seen.head, seen.body);
        }
        let more = (host.memory("VmHWM") >> 10) - before;
        assert!(more < most, "{path}: {more} MiB");
    }
}

/// Headers and trailers that are others' to set are left out, whatever the application says.
#[test]
fn an_application_speaks_for_itself_alone() {
    let host = stage();
    let seen = Seen::get(&host, "/http/server-headers", "mine");
    assert!(seen.head.contains("x-request-id: mine"), "{}", seen.head);
    for header in ["set-cookie", "strict-transport", "elsewhere", "forged", "\nte:", "yesterday", "bypassed"]
    {
        assert!(!seen.head.contains(header), "`{header}` in {}", seen.head);
    }
    let seen = Seen::get(&host, "/http/odd-trailers", "mine");
    assert_eq!(seen.body, "wholex-last: kept", "{}", seen.head);
    let seen = Seen::get(&host, "/http/trailers=100", "mine");
    assert_eq!(seen.body, "half", "trailers that were not announced are not sent: {}", seen.head);
}

/// Paths that mean something to others are paths below the endpoint's, or none of its.
#[test]
fn a_path_leads_to_one_application_and_no_further() {
    let host = stage();
    for (path, status) in [
        ("/http/good", 200),
        ("/http/../respond/good", 500),
        ("/http/%2e%2e/respond/good", 500),
        ("/http//good", 500),
        ("//http/good", 404),
        ("/http%2fgood", 404),
        ("/httpgood", 404),
        ("/HTTP/good", 404),
        ("/http/good%00", 500),
        ("/respond/good", 200),
        ("/respond/..%2fhttp/good", 500),
        ("/respond//good", 500),
        ("/neighbour/good", 404),
        ("/./http/good", 404),
    ] {
        let seen = Seen::get(&host, path, "path");
        assert!(seen.head.starts_with(&format!("http/1.1 {status} ")), "{path}: {} {}", seen.head, seen.body);
    }
    // As many looks as there are slashes would each read all before it.
    let slashes = "/a".repeat(15_000);
    let started = std::time::Instant::now();
    for _ in 0..50 {
        assert!(Seen::get(&host, &slashes, "path").head.starts_with("http/1.1 404 "));
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// What is done with the request's body is the application's affair, and its connection goes on or ends.
#[test]
fn a_body_may_be_left_or_read_late() {
    let host = stage();
    let body = vec![b'x'; 900_000];
    for (path, text) in
        [("/http/drop-request", "good"), ("/http/read-after", "good"), ("/respond/good", "good")]
    {
        let reply = host.request("POST", path, &[], &body);
        assert_eq!((reply.status, reply.text().as_str()), (200, text), "{path}");
    }
    host.wait_for_log("read 900000 bytes after the response");
    let reply = host.request("POST", "/http/splice", &[], &body);
    assert_eq!((reply.status, reply.body.len()), (200, body.len()));
}

/// Streams without end, one byte at a time, on every place: the endpoint is busy, and the neighbour is not.
#[test]
fn crowds_of_streams_leave_the_neighbour_alone() {
    let _alone = alone();
    let host = stage();
    let (files, neighbour) = (open_files(&host), Pattern::new(&host.url, "/neighbour").start());
    for path in ["/http/in-body=drip", "/respond/in-body=drip"] {
        let name = &path[1..path[1..].find('/').unwrap() + 1];
        let streams: Vec<Wire> = (0..8)
            .map(|_| {
                let mut wire = Wire::connect(&host.url).unwrap();
                wire.send(format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").as_bytes()).unwrap();
                while !String::from_utf8_lossy(wire.unread()).contains("\r\n.") {
                    wire.receive().unwrap();
                }
                wire
            })
            .collect();
        neighbour.wait_for_more(50);
        drop(streams);
        assert_clean(&host, name, files);
    }
    for path in [
        "/http/spin",
        "/http/in-body=spin",
        "/http/poll-storm",
        "/concurrent/before/spin",
        "/concurrent/before/yield",
        "/respond/models=start",
        "/http/fetch-for-ever",
    ] {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| Seen::get(&host, path, "crowd"));
            }
        });
    }
    neighbour.wait_for_more(20);
    assert_echoed(&neighbour.stop(), SOON);
    assert_clean(&host, "http", files);
    assert_clean(&host, "respond", files);
}
