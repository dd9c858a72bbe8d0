//! Traces of requests: contexts in, spans out to a collector, and a collector that fails.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use e2e::collector::{Behaviour, Collector, Span};
use e2e::setup::{Endpoint, Setup};
use e2e::wire::{self, Wire};
use e2e::{Host, clients, component, model, serve_command, wait_until};

use crate::webhooks::{OK, Receiver};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const FLOWER: &str = r#"{"sepal_length":5.2,"sepal_width":3.6,"petal_length":1.4,"petal_width":0.3}"#;

/// A host whose traces go to this collector within milliseconds, unless `variables` say otherwise.
fn traced(url: &str, setup: &[&str], variables: &[(&str, &str)]) -> Host {
    let mut command = serve_command(setup);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).env("OTEL_BSP_SCHEDULE_DELAY", "20");
    command.envs(variables.iter().copied());
    Host::try_start(command).unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
}

fn iris(url: &str, variables: &[(&str, &str)]) -> Host {
    let [plugin, model] = [component("iris-wasm"), model("iris_dyn")].map(|path| path.display().to_string());
    traced(url, &["--plugin", &plugin, "--model", &model, "--name", "iris"], variables)
}

/// The model alone, over HTTP and gRPC.
fn bare(url: &str) -> Host {
    let model = model("iris_dyn").display().to_string();
    traced(url, &["--model", &model, "--name", "iris", "--grpc-listen", "127.0.0.1:0"], &[])
}

fn guest(url: &str, guest: &str, variables: &[(&str, &str)]) -> Host {
    let plugin = component(&format!("tests/{guest}")).display().to_string();
    traced(url, &["--plugin", &plugin, "--name", "it"], variables)
}

fn parent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{PARENT}-{flags}")
}

/// An id that no other request of a test has.
fn numbered(number: usize) -> String {
    format!("{:032x}", number + 1)
}

fn post(host: &Host, path: &str, traceparent: &str, body: &str) -> u16 {
    let headers = [("content-type", "application/json"), ("traceparent", traceparent), ("tracestate", "a=1")];
    host.request("POST", path, &headers, body.as_bytes()).status
}

fn count(host: &Host, outcome: &str) -> f64 {
    host.metric(&format!("modelhost_trace_spans_total{{outcome=\"{outcome}\"}}"))
}

/// The request's span, and the others by name, each of which must lie within it and be its child.
fn family(spans: &[Span]) -> (&Span, Vec<&str>) {
    let own = spans.iter().find(|span| span.kind == 2).unwrap();
    let stages: Vec<&Span> = spans.iter().filter(|span| span.kind != 2).collect();
    let mut at = own.start;
    for stage in &stages {
        assert_eq!((&stage.parent, &stage.trace), (&own.id, &own.trace), "{stage:?}");
        assert!(at <= stage.start && stage.start <= stage.end && stage.end <= own.end, "{spans:?}");
        at = stage.end;
    }
    // A run that is not made in place waits for its runner.
    let names = stages.into_iter().map(|stage| &*stage.name);
    (own, names.filter(|name| *name != "queue").collect())
}

#[test]
fn a_request_becomes_a_span_and_its_stages_children() {
    let collector = Collector::start(Behaviour::Take);
    let variables = [
        ("OTEL_SERVICE_NAME", "flowers"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%3Db"),
    ];
    let host = iris(&collector.url, &variables);
    let digest = host.endpoint("iris")["digest"].as_str().unwrap().to_owned();
    let stages = ["admission", "pre-inference", "inference", "post-inference"];
    let v2 = r#"{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[5.2,3.6,1.4,0.3]}]}"#;
    let bare = bare(&collector.url);
    for (number, (host, path, body, route, digest)) in [
        (&bare, "/v2/models/iris/infer", v2, "/v2/models/{model}/infer", ""),
        (&host, "/iris", FLOWER, "/iris", &*digest),
        (&host, "/predict", FLOWER, "/predict", &digest),
    ]
    .into_iter()
    .enumerate()
    {
        let trace = numbered(number);
        assert_eq!(post(host, path, &parent(&trace, "01"), body), 200, "{path}");
        let spans = collector.trace(&trace);
        let (own, children) = family(&spans);
        let seen = (own.parent.as_str(), own.state.as_str(), own.name.clone());
        assert_eq!(seen, (PARENT, "a=1", format!("POST {route}")));
        assert_eq!(children, stages, "{path}");
        assert!(own.end > own.start && own.error.is_none(), "{own:?}");
        for (attribute, expected) in [
            ("http.request.method", "POST"),
            ("url.path", path),
            ("url.scheme", "http"),
            ("http.route", route),
            ("http.response.status_code", "200"),
            ("modelhost.endpoint", "iris"),
            ("modelhost.outcome", "ok"),
            ("modelhost.handler.digest", digest),
            ("modelhost.generation", "1"),
            ("error.type", ""),
        ] {
            assert_eq!(own.attribute(attribute), expected, "{path} {attribute}");
        }
        let inference = spans.iter().find(|span| span.name == "inference").unwrap();
        assert_eq!(inference.attribute("modelhost.batch.requests"), "1");
    }
    let resource = collector.resource();
    assert_eq!(resource["service.name"], "flowers");
    assert_eq!(resource["deployment.environment.name"], "test");
    let head = collector.heads().concat().to_lowercase();
    assert!(head.contains("post /v1/traces http/1.1\r\n") && head.contains("\r\nx-key: a=b\r\n"), "{head}");
    // Without a context there is a new trace.
    host.post("/iris", FLOWER);
    wait_until("a span without a parent", || collector.spans().iter().any(|span| span.parent.is_empty()));
    assert!(count(&host, "exported") > 0.0 && count(&host, "dropped") == 0.0);
}

#[test]
fn a_call_over_grpc_is_a_span_of_its_method() {
    let collector = Collector::start(Behaviour::Take);
    let host = bare(&collector.url);
    clients::run("grpc_raw", &[host.grpc.as_deref().unwrap(), "traced"]);
    let spans = collector.trace(TRACE);
    let (own, children) = family(&spans);
    assert_eq!(children, ["admission", "pre-inference", "inference", "post-inference"]);
    assert_eq!((own.parent.as_str(), own.state.as_str()), (PARENT, "a=1"));
    assert_eq!(own.name, "inference.GRPCInferenceService/ModelInfer");
    for (attribute, expected) in [
        ("rpc.system", "grpc"),
        ("rpc.service", "inference.GRPCInferenceService"),
        ("rpc.method", "ModelInfer"),
        ("rpc.grpc.status_code", "0"),
        ("modelhost.endpoint", "iris"),
    ] {
        assert_eq!(own.attribute(attribute), expected, "{attribute}");
    }
}

#[test]
fn an_application_has_the_span_of_its_route() {
    let collector = Collector::start(Behaviour::Take);
    let host = guest(&collector.url, "application", &[]);
    let parent = parent(TRACE, "01");
    let reply = host.request("GET", "/it/count?x=1", &[("traceparent", &parent)], b"");
    assert_eq!(reply.status, 200);
    let spans = collector.trace(TRACE);
    let (own, children) = family(&spans);
    assert_eq!((own.name.as_str(), children), ("GET /it", vec!["admission", "respond"]));
    let of = ["url.path", "http.response.status_code"].map(|attribute| own.attribute(attribute));
    assert_eq!(of, ["/it/count", "200"]);
}

#[test]
fn a_failure_says_where_and_whose_it_is() {
    let collector = Collector::start(Behaviour::Take);
    let (host, iris) = (guest(&collector.url, "hostile", &[]), iris(&collector.url, &[]));
    for (number, (host, path, body, status, outcome, is_failure, last)) in [
        (&host, "/it", "panic", 500, "plugin_trap", true, "pre-inference"),
        (&iris, "/iris", "{}", 400, "invalid_input", false, "pre-inference"),
        (&host, "/v2/models/none/infer", "{}", 404, "not_found", false, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let trace = numbered(number);
        let answered = post(host, path, &parent(&trace, "01"), body);
        let spans = collector.trace(&trace);
        let (own, children) = family(&spans);
        assert_eq!(answered, status, "{body} {own:?}");
        assert_eq!(own.attribute("modelhost.outcome"), outcome, "{body}");
        assert_eq!(own.attribute("error.type"), outcome, "{body}");
        assert_eq!(own.attribute("http.response.status_code"), status.to_string(), "{body}");
        assert_eq!(own.error.is_some(), is_failure, "{body}: a client's mistake is no failure of the server");
        assert_eq!(children.last().copied().unwrap_or_default(), last, "{body}");
        if let Some(stage) = spans.iter().find(|span| span.name == last) {
            assert_eq!(stage.attribute("error.type"), outcome, "{body}");
        }
    }
    host.wait_for_log(&format!("trace_id={}", numbered(0)));
}

#[test]
fn what_a_handler_asks_others_is_a_child_of_its_request() {
    let collector = Collector::start(Behaviour::Take);
    for (number, guest) in ["application", "concurrent"].into_iter().enumerate() {
        let receiver = Receiver::start(&[OK]);
        let plugin = component(&format!("tests/{guest}")).display().to_string();
        let setup = ["--plugin", &plugin, "--name", "it", "--allow-outbound", &receiver.url];
        let host = traced(&collector.url, &setup, &[]);
        let (trace, path) = (numbered(number), format!("/it/post?{}/hook", receiver.url));
        let headers = [("traceparent", &*parent(&trace, "01")), ("tracestate", "a=1")];
        assert_eq!(host.request("GET", &path, &headers, b"").status, 200, "{guest}");
        let [request] = &receiver.wait_for(1)[..] else { panic!("one request is sent once") };
        let spans = collector.trace(&trace);
        let (own, _) = family(&spans);
        assert_eq!(request.header("traceparent"), format!("00-{trace}-{}-01", own.id), "{guest}");
        assert_eq!(request.header("tracestate"), "a=1", "{guest}");
    }
}

#[test]
fn a_client_that_goes_away_is_told_so() {
    let collector = Collector::start(Behaviour::Take);
    let host = guest(&collector.url, "application", &[]);
    let mut wire = Wire::connect(&host.url).unwrap();
    let parent = parent(TRACE, "01");
    let request =
        format!("GET /it/wait?ms=60000 HTTP/1.1\r\nhost: localhost\r\ntraceparent: {parent}\r\n\r\n");
    wire.send(request.as_bytes()).unwrap();
    wait_until("the request", || host.metric(r#"modelhost_requests_in_flight{endpoint="it"}"#) == 1.0);
    drop(wire);
    let spans = collector.trace(TRACE);
    let (own, _) = family(&spans);
    assert_eq!((own.attribute("modelhost.outcome"), own.error.as_ref()), ("cancelled", None), "{own:?}");
}

#[test]
fn a_parent_decides_and_what_is_malformed_is_no_parent() {
    let collector = Collector::start(Behaviour::Take);
    let never = [("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")];
    let host = iris(&collector.url, &never);
    let unsampled = "c".repeat(32);
    assert_eq!(post(&host, "/iris", &parent(&unsampled, "00"), FLOWER), 200);
    for malformed in ["", "00", &parent(TRACE, "1"), &parent(&"0".repeat(32), "01"), &"0".repeat(9000)] {
        assert_eq!(post(&host, "/iris", malformed, FLOWER), 200, "{malformed:.60}");
    }
    let last = numbered(7);
    assert_eq!(post(&host, "/iris", &parent(&last, "01"), FLOWER), 200);
    // Spans leave in the order of their requests.
    let spans = collector.trace(&last);
    assert_eq!(collector.spans().len(), spans.len(), "{:?}", collector.spans());

    // Of one that samples all, each of the malformed is a trace of its own.
    let all = Collector::start(Behaviour::Take);
    let host = iris(&all.url, &[]);
    assert_eq!(post(&host, "/iris", &parent(TRACE, "1"), FLOWER), 200);
    assert_eq!(post(&host, "/iris", &parent(&last, "01"), FLOWER), 200);
    all.trace(&last);
    let roots: Vec<Span> = all.spans().into_iter().filter(|span| span.kind == 2).collect();
    let first = roots.iter().find(|span| span.trace != last).unwrap();
    assert!(first.parent.is_empty() && first.state.is_empty() && first.trace != TRACE, "{first:?}");
}

#[test]
fn what_strangers_send_is_bounded() {
    let collector = Collector::start(Behaviour::Take);
    let host = iris(&collector.url, &[]);
    let members = |count: usize, value: usize| {
        let value = "v".repeat(value);
        (0..count).map(|number| format!("k{number}={value}")).collect::<Vec<_>>().join(",")
    };
    let huge = "x".repeat(100_000);
    for (number, (state, kept)) in
        [(huge.as_str(), 0..1), (&members(500, 20), 0..1), (&members(30, 250), 1..513)]
            .into_iter()
            .enumerate()
    {
        let (trace, mut wire) = (numbered(number), Wire::connect(&host.url).unwrap());
        let headers = [("traceparent", &*parent(&trace, "01")), ("tracestate", state)];
        // A head may be refused for its length, before it is anything's.
        let _ = wire.send(&wire::post("/iris", &headers, FLOWER));
        match wire.read().map(|reply| reply.status) {
            Ok(200) => {
                let spans = collector.trace(&trace);
                assert!(kept.contains(&family(&spans).0.state.len()), "{:?}", family(&spans).0.state);
            }
            refused => assert!(state == huge && !matches!(refused, Ok(500..)), "{refused:?}"),
        }
    }
}

/// What a collector may do but take spans; requests wait for none of it.
#[test]
fn a_collector_that_fails_costs_spans_and_no_request() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    // An export may take so long that a request which waited for one would be found out.
    let patient = [("OTEL_EXPORTER_OTLP_TIMEOUT", "60000"), ("OTEL_BSP_EXPORT_TIMEOUT", "60000")];
    let small = [("OTEL_BSP_MAX_QUEUE_SIZE", "40"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "20")];
    for behaviour in [
        None,
        Some(Behaviour::Hang),
        Some(Behaviour::Slow(Duration::from_secs(60))),
        Some(Behaviour::Refuse("503 Service Unavailable")),
        Some(Behaviour::Refuse("400 Bad Request")),
    ] {
        let collector = behaviour.map(Collector::start);
        let url = collector.as_ref().map_or(&refusing, |collector| &collector.url);
        let host = iris(url, &[patient, small].concat());
        let mut slowest = Duration::ZERO;
        let mut sent = 0;
        // Past the queue's and the batch's room.
        while sent < 100 {
            let started = Instant::now();
            assert_eq!(host.post("/iris", FLOWER).status, 200);
            slowest = slowest.max(started.elapsed());
            sent += 1;
        }
        assert!(slowest < Duration::from_secs(20), "{behaviour:?}: a request took {slowest:?}");
        wait_until("spans to be dropped", || count(&host, "dropped") > 0.0);
        let (dropped, exported) = (count(&host, "dropped"), count(&host, "exported"));
        assert!(dropped <= 6.0 * f64::from(sent) && exported == 0.0, "{behaviour:?}: {dropped} {exported}");
        if matches!(behaviour, None | Some(Behaviour::Refuse(_))) {
            host.wait_for_log("traces are not exported to http://127.0.0.1");
        }
        let lines = host.log().matches("traces are not exported").count();
        assert!(lines <= 1, "one line, however often it fails:\n{}", host.log());
    }
}

#[test]
fn a_collector_that_comes_back_gets_spans_again() {
    let collector = Collector::start(Behaviour::Refuse("503 Service Unavailable"));
    let host = iris(&collector.url, &[("OTEL_BSP_EXPORT_TIMEOUT", "300")]);
    assert_eq!(post(&host, "/iris", &parent(&numbered(0), "01"), FLOWER), 200);
    host.wait_for_log("traces are not exported to ");
    wait_until("the spans to be given up", || count(&host, "dropped") >= 5.0);
    collector.behave(Behaviour::Take);
    assert_eq!(post(&host, "/iris", &parent(TRACE, "01"), FLOWER), 200);
    family(&collector.trace(TRACE));
    host.wait_for_log("traces are exported again");
    assert_eq!(host.log().matches("traces are not exported").count(), 1);
}

#[test]
fn what_waits_is_exported_when_the_server_stops() {
    let collector = Collector::start(Behaviour::Take);
    let host = iris(&collector.url, &[("OTEL_BSP_SCHEDULE_DELAY", "3600000")]);
    assert_eq!(post(&host, "/iris", &parent(TRACE, "01"), FLOWER), 200);
    assert_eq!(collector.spans().len(), 0);
    host.signal("TERM");
    let (status, log) = host.wait();
    assert!(status.success(), "{log}");
    family(&collector.trace(TRACE));
}

#[test]
fn without_a_collector_there_are_no_spans_and_no_series() {
    for variables in [&[("OTEL_SDK_DISABLED", "true")][..], &[("OTEL_TRACES_EXPORTER", "none")]] {
        let collector = Collector::start(Behaviour::Take);
        let host = iris(&collector.url, variables);
        assert_eq!(post(&host, "/iris", &parent(TRACE, "01"), FLOWER), 200);
        assert!(!host.metrics().contains("modelhost_trace_spans_total{"), "{variables:?}");
    }
    let host = Setup::of([Endpoint::new("iris").model("iris_dyn")]).serve();
    assert!(!host.metrics().contains("modelhost_trace_spans_total{"));
    // A value that cannot be used is told of, and the server serves.
    let collector = Collector::start(Behaviour::Take);
    let host = iris(&collector.url, &[("OTEL_TRACES_SAMPLER", "xray")]);
    host.wait_for_log("`OTEL_TRACES_SAMPLER` is `xray`, which is not used");
}
