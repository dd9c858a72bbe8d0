//! The settings of an endpoint.
//!
//! Place in the flow: see [`settings`](super). What a row says is said nowhere else: its type, default,
//! reader and range, names and text. The field it fills is in the part of the configuration that needs it;
//! the line that fills it, in `config/`.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use super::Kind::{List, Switch, Value};
use super::{DAY, GIB, Group, KIB, MIB, MILLISECOND, Row, Setting, settings};
use crate::config::read::sequences::states;
use crate::config::read::stores::kv_buckets;
use crate::config::read::*;
use crate::endpoint::config::{OnFault, PredictionKind};
use crate::jobs::Mode;
use crate::json::path::Pattern;
use crate::model::{Device, Wait};
use crate::outbound::Rules;
use crate::plugin::{Isolation, Network};
use crate::request::Protocol;
use crate::request::dependencies::Dependency;
use crate::server::compat::job_dialects::JOB_MODES;
use crate::values::*;

const BREAKER_SHARE: &str = "a number above 0 and up to 1, such as 0.5, or `off`";

settings! {
    [Endpoint]
    CONFIG: Option<PathBuf> = (none, ""), some(path), "config", "", Value("FILE"),
        "Config file, for more than one endpoint. Flags and environment win over it.";
    NAME: Option<String> = ("stem of the handler's or the model's file", None, "iris"), some(name),
        "name", "endpoint.name", Value("NAME"), "Name of the endpoint, as in metrics, logs and admin paths.";
    PATH: Option<String> = ("/NAME", None, "/iris"), some(url_path),
        "path", "endpoint.path", Value("PATH"),
        "Where the endpoint is called. The only endpoint also answers `/` and `/predict`.";
    PATHS: Vec<String> = (none, "/v1/chat/completions"), server_paths,
        "paths", "endpoint.paths", List("PATH"),
        "Paths of the server that the endpoint answers in its place; an application with everything below. The `model` of \
         the body says which of several endpoints with the same path is meant, by its name.";
    READINESS: Option<String> = (none, "/health"), some(own_path),
        "readiness", "endpoint.readiness", Value("PATH"),
        "Path of an application that says whether it is ready: its `GET` ends in a 2xx. It may do what it may for a \
         client. Readiness of the server and of its models waits for it; requests do not.";
    WATCH: bool = "true", switch, "watch", "endpoint.watch", Switch("no-watch"),
        "Swap in the handler's file when it changes.";
    SMOKE: bool = "true", switch, "smoke", "endpoint.smoke", Switch("no-smoke"),
        "Try the input schema's examples at the start, and before a new handler or model is published.";
    KEEP_MODEL: bool = "false", switch, "keep-model", "endpoint.keep_model", Switch("no-keep-model"),
        "After a swap to another model, keep the one before loaded, so that a rollback to it is at once.";
    PROTOCOLS: Vec<Protocol> =
        ("all of them", Protocol::ALL.map(|(_, protocol)| protocol).to_vec(), "http,v1,v2,grpc"), protocols,
        "protocol", "endpoint.protocols", List("http|v1|v2|grpc"),
        "Protocols by which the endpoint can be reached.";
    BARE_TENSORS: bool = "false", switch, "bare-tensors", "endpoint.bare_tensors", Switch("no-bare-tensors"),
        "Tensors that a client brings go straight to the model if the handler takes bodies only, and the \
         outputs straight back.";
    ON_FAULT: OnFault = "error", choice(&[("error", OnFault::Error), ("bypass", OnFault::Bypass)]),
        "on-fault", "endpoint.on_fault", Value("error|bypass"),
        "What a request gets whose handler traps, exceeds a limit or returns invalid output: the error, or the \
         model's answer without a handler.";
    BREAKER_FAULTS: Option<Ratio> = "off", or("off", share_above_zero(BREAKER_SHARE)),
        "breaker-faults", "endpoint.breaker.faults", Value("SHARE|off"),
        "Share of requests, such as 0.5, that end in a fault of the handler before it is called no more for a while.";
    BREAKER_WINDOW: Duration = "10s", duration(MILLISECOND..=DAY),
        "breaker-window", "endpoint.breaker.window", Value("DURATION"), "Over how long the share is counted.";
    BREAKER_MIN: u64 = "20", count(1..=1_000_000),
        "breaker-min", "endpoint.breaker.min", Value("N"), "Fewest requests in `breaker.window` for the share of faults to count.";
    BREAKER_PAUSE: Duration = "30s", duration(MILLISECOND..=DAY),
        "breaker-pause", "endpoint.breaker.pause", Value("DURATION"),
        "How long an open breaker refuses requests; then one at a time tries whether the handler works again.";

    TRACKER_MODEL_TYPE: Option<PredictionKind> = "none",
        or("none", choice(&[
            ("classification", PredictionKind::Classification),
            ("regression", PredictionKind::Regression),
        ])),
        "tracker-model-type", "endpoint.tracker.model_type", Value("classification|regression|none"),
        "Count what is predicted, as metrics: how often each class (text or an integer), or how the numbers are spread.";
    TRACKER_KEY: Vec<String> = ("the response is the prediction", Vec::new(), "class_label"), key_path,
        "tracker-key", "endpoint.tracker.key", Value("KEY"),
        "Where the prediction is in a response: a key of its JSON, a path such as `/predictions/0/label`, or an output's.";

    RESPONSE_CACHE: Option<usize> = "off", or("off", size(KIB..=1024 * GIB)),
        "response-cache", "endpoint.response_cache.size", Value("SIZE|off"),
        "Keep answers, so many bytes of them, and give them to equal requests; those that depended on more than \
         the request are not kept.";
    RESPONSE_CACHE_TTL: Option<Duration> = "none", or("none", duration(MILLISECOND..=365 * DAY)),
        "response-cache-ttl", "endpoint.response_cache.ttl", Value("DURATION|none"),
        "How long an answer is kept at most. `none`: until it makes way, or another generation is published.";
    RESPONSE_CACHE_HEADERS: Vec<String> = (none, "accept-language"), request_headers,
        "response-cache-headers", "endpoint.response_cache.headers", List("NAME"),
        "Headers that the handler's answers depend on: requests are equal only if these are too.";
    RESPONSE_CACHE_ALLOW: Vec<Dependency> = (none, "random"), dependencies,
        "response-cache-allow", "endpoint.response_cache.allow", List("clock|random|request_id|kv|outbound"),
        "What an answer that is kept may depend on although an equal request might get another.";

    [Gate]
    GATE_SAMPLES: usize = "0", count(0..=10_000),
        "gate-samples", "endpoint.gate.samples", Value("N"),
        "How many of the last requests are kept, to be run through a new handler and the old one before a swap. 0: none.";
    GATE_SAMPLES_SIZE: usize = "16MiB", size(KIB..=16 * GIB),
        "gate-samples-size", "endpoint.gate.samples_size", Value("SIZE"), "Most bytes of the kept requests together.";
    GATE_REDACT: Vec<Pattern> = (none, "/user/email,x-user"), patterns,
        "gate-redact", "endpoint.gate.redact", List("PATH|NAME"),
        "What is taken out of a request before it is kept: a path in its JSON, `/user/email`, or the name \
         of a header or of a parameter of its query.";
    GATE_GOLDEN: Option<PathBuf> = (none, "golden"), some(path),
        "gate-golden", "endpoint.gate.golden", Value("DIR"),
        "Folder with further samples: `NAME.json` is a request's body, `NAME.expected.json` beside it the \
         answer that a new handler must give.";
    GATE_TOLERANCE: f64 = "1e-6", number(0.0..=1e6),
        "gate-tolerance", "endpoint.gate.tolerance", Value("NUMBER"),
        "How far a decimal number of an answer may be from the old one, absolutely or relatively.";
    GATE_IGNORE: Vec<Pattern> = (none, "/predictions/*/took"), patterns,
        "gate-ignore", "endpoint.gate.ignore", List("PATH|NAME"),
        "What may differ: a path in a JSON answer, `/predictions/*/took`, or the name of a header.";
    GATE_MISMATCHES: Ratio = "0", ratio(),
        "gate-mismatches", "endpoint.gate.mismatches", Value("SHARE"),
        "The part of the samples that may be answered otherwise, from 0 to 1.";
    GATE_SLOWDOWN: Option<f64> = "none", or("none", number(1.0..=1000.0)),
        "gate-slowdown", "endpoint.gate.slowdown", Value("FACTOR|none"),
        "How many times the old handler's time the new one may take. `none` does not judge time.";
    GATE_MEMORY: Option<f64> = "none", or("none", number(1.0..=1000.0)),
        "gate-memory", "endpoint.gate.memory", Value("FACTOR|none"),
        "How many times the old handler's memory the new one may take. `none` does not judge memory.";
    GATE_TIMEOUT: Duration = "10s", duration(MILLISECOND..=DAY),
        "gate-timeout", "endpoint.gate.timeout", Value("DURATION"),
        "How long all samples may take together; those left are not compared.";

    [Handler]
    PLUGIN: Option<PathBuf> = (none, "handler.wasm"), some(path),
        "plugin", "endpoint.plugin", Value("FILE"),
        "The handler, a WebAssembly component. Without one, JSON goes to the model and back as it is.";
    PROJECT: Option<PathBuf> = (none, "."), some(path),
        "project", "endpoint.project", Value("DIR"),
        "Folder that the handler sees, read-only, at `/mnt/project`; without the config file and any endpoint's model.";
    BODY_MEDIA_TYPES: Vec<String> = ("of the example", Vec::new(), "image/jpeg,image/png"), media_types,
        "body-media-types", "endpoint.body.media_types", List("TYPE"),
        "Media types of a body that is a file, such as `image/jpeg` or `image/*`; all others are refused before \
         the handler runs.";
    BODY_EXAMPLE: Option<PathBuf> = (none, "sample.jpg"), some(path),
        "body-example", "endpoint.body.example", Value("FILE"),
        "A file as a body: it is tried before a handler serves, and its extension says its media type.";
    METADATA: Metadata =
        ("null", Metadata::Json("null".to_owned()), "{ labels = ['setosa', 'versicolor'] }"), metadata,
        "metadata", "endpoint.metadata", Value("JSON|@FILE"),
        "Free-form JSON for the handler, or `@` and a file that holds it.";
    ENV: Vec<(String, Granted)> = (none, "HOME,MODE=fast"), variables,
        "env", "endpoint.env", List("NAME[=VALUE]"),
        "Environment variable that the handler sees: the host's own value, or this one. In the file also \
         `env = { KEY = { file = \"PATH\" } }`: the contents of a file.";
    RESPONSE_HEADER: Vec<String> = (none, "set-cookie"), response_headers,
        "response-header", "endpoint.response_headers", List("NAME"),
        "Header that the handler may set although it speaks for the whole server, such as `set-cookie` or \
         `content-encoding`.";
    ALLOW_OUTBOUND: Rules = (none, "https://hooks.example.com"), outbound,
        "allow-outbound", "endpoint.allow_outbound", List("ORIGIN|NETWORK"),
        "Place that the handler may send requests to: scheme, host, port. `*.` stands for every name below. A \
         network, `10.0.0.0/8`, allows private addresses for names that are listed.";
    KV: Vec<String> = (none, "default,shared/sessions"), kv_buckets,
        "kv", "endpoint.kv", List("BUCKET"),
        "Bucket of the store that the handler may open: one of the endpoint's own, `shared/NAME` for one that \
         other endpoints may be granted too, or `*` for all of its own.";
    JOBS: Mode = "off", choice(&JOB_MODES),
        "jobs", "endpoint.jobs", Value("off|on|async|truss|batch"),
        "Whether clients may submit jobs, requests that are stored and run later: `on` below the endpoint's path, at \
         `/jobs`; `async` at the path itself too, in the form of Cortex's AsyncAPI; `truss` at `/async_predict` \
         too; `batch` takes lists of inputs at the path itself too, in the form of Cortex's BatchAPI.";
    WEBHOOK_SECRET: Vec<KeySource> = (none, "@hooks.txt,env:WEBHOOK_SECRET"), key_sources,
        "webhook-secret", "endpoint.webhook_secrets", List("@FILE|env:NAME"),
        "Where secrets are that sign the webhooks of jobs: a file with one a line, or a variable. Each of them signs, so \
         that receivers can go over to another one.";
    ISOLATION: Isolation = "worker",
        choice(&[("worker", Isolation::Worker), ("request", Isolation::Request)]),
        "isolation", "endpoint.isolation", Value("worker|request"),
        "Whether an instance of the handler is reused for later requests, or made fresh for every one.";
    REUSE_INSTANCES: bool = "false", switch,
        "reuse-instances", "endpoint.reuse_instances", Switch("no-reuse-instances"),
        "Reuse instances of an application on `wasi:http` too, if one of them answers two requests, `GET /`, at load.";
    NETWORK: Network = "none", choice(&[("none", Network::None), ("stub", Network::Stub)]),
        "network", "endpoint.network", Value("none|stub"),
        "`none` refuses a handler that imports sockets; `stub` loads it and denies every call.";

    [Model]
    MODEL: Option<PathBuf> = (none, "iris"), some(path),
        "model", "endpoint.model.path", Value("PATH"),
        "The model: an ONNX file, a folder with one ONNX file or a SavedModel, or a folder of versions. \
         Without one, the handler runs alone.";
    MODEL_VERSION: Option<u64> = ("the highest", None, "2"), some(count(0..=u64::MAX)),
        "model-version", "endpoint.model.version", Value("N"),
        "Which version of a folder of versions (`1/model.onnx`, `2/saved_model.pb`).";
    MODEL_VERSIONS: usize = "1", count(1..=100), "model-versions", "endpoint.model.versions", Value("N"),
        "How many versions of a folder of versions are served: that one, and the highest of the others, for requests that name one.";
    WATCH_MODEL: bool = "false", switch, "watch-model", "endpoint.model.watch", Switch("no-watch-model"),
        "Follow a folder of versions: what comes, changes or goes there is served, or no longer, without an order.";
    SIGNATURE_KEY: Option<String> = ("the only one, `serving_default` or `predict`", None, "predict"), some(text),
        "signature-key", "endpoint.model.signature_key", Value("KEY"), "Which signature of a SavedModel.";
    LABELS: Option<PathBuf> = (none, "labels.txt"), some(path),
        "labels", "endpoint.model.labels", Value("FILE"),
        "Names of the classes of the model's outputs, one on each line, for clients that ask for classes.";
    STATE: Vec<(String, String)> = (none, "state_out=state_in"), states,
        "state", "endpoint.model.state", List("OUTPUT=INPUT"),
        "Output that is kept, and given to that input at the next request of the same sequence; the first one gets zeros.";
    DEVICE: Device = "auto", device,
        "device", "endpoint.model.device", Value("auto|cpu|cuda[:N]"),
        "Where the model runs. `auto` takes a GPU if there is one and says why in the log; `cuda` is had \
         or fails at start.";
    DEVICE_MEMORY: Option<u64> = "none", or("none", size(MIB..=1024 * GIB)),
        "device-memory", "endpoint.model.device_memory", Value("SIZE|none"), "Most memory of a GPU that one model may take.";
    INSTANCES: Option<usize> = "auto", or("auto", count(1..=256)),
        "instances", "endpoint.model.instances", Value("N"),
        "How many runs of the model there may be at the same time. An ONNX model of more than 1 MiB is in \
         memory once, on a GPU once for each.";
    THREADS: Option<usize> = "auto", or("auto", count(1..=1024)),
        "threads", "endpoint.model.threads", Value("N"),
        "Threads of one run of an ONNX model. A run also uses those of others that rest.";
    MAX_BATCH: usize = "1", count(1..=10_000), "max-batch", "endpoint.batching.max_batch", Value("N"),
        "Most rows that requests may share one run with. 1 switches batching off.";
    MAX_DELAY: Duration = "2ms", duration(Duration::ZERO..=DAY),
        "max-delay", "endpoint.batching.max_delay", Value("DURATION"),
        "Longest that a request waits for others to share a run with, under `always`.";
    BATCH_WAIT: Wait = "busy", choice(&[("busy", Wait::Busy), ("always", Wait::Always)]),
        "batch-wait", "endpoint.batching.wait", Value("busy|always"),
        "When it waits: `busy` until a session of the model is free, `always` for `max_delay` or a full batch.";
    TRUST_ROWS: bool = "false", switch, "trust-rows", "endpoint.batching.trust_rows", Switch("no-trust-rows"),
        "Batch although a trial at the start shows that a row's answer depends on the rows beside it.";
    MAX_REQUESTS: usize = "1", count(1..=10_000),
        "max-requests", "endpoint.batching.max_requests", Value("N"), "Most requests that a handler with `respond-all` serves by one call. 1 switches that off.";
    REQUEST_DELAY: Duration = "10ms", duration(Duration::ZERO..=DAY),
        "request-delay", "endpoint.batching.request_delay", Value("DURATION"), "Longest that a request waits for others to be served with.";
    ONNXRUNTIME_LIB: Option<PathBuf> =
        ("searched for, see below", None, "/opt/onnxruntime/libonnxruntime.so"), some(path),
        "onnxruntime-lib", "onnxruntime.lib", Value("FILE"),
        "ONNX Runtime's shared library.";
    TENSORFLOW_LIB: Option<PathBuf> = ("searched for, see below", None, "/opt/tensorflow"), some(path),
        "tensorflow-lib", "tensorflow.lib", Value("DIR"),
        "Folder with TensorFlow's shared libraries, needed for SavedModels only.";

    [HandlerLimits]
    // A 32-bit guest cannot address more, and cannot do without one page.
    MEMORY: usize = "64MiB", size(64 * KIB..=4 * GIB),
        "instance-memory", "endpoint.limits.memory", Value("SIZE"),
        "Memory of one instance of the handler.";
    PRE_TIMEOUT: Duration = "1s", duration(MILLISECOND..=DAY),
        "pre-timeout", "endpoint.limits.pre_timeout", Value("DURATION"),
        "CPU time of one call of `pre-inference`.";
    POST_TIMEOUT: Duration = "1s", duration(MILLISECOND..=DAY),
        "post-timeout", "endpoint.limits.post_timeout", Value("DURATION"),
        "CPU time of one call of `post-inference`.";
    INIT_TIMEOUT: Duration = "10s", duration(MILLISECOND..=DAY),
        "init-timeout", "endpoint.limits.init_timeout", Value("DURATION"),
        "CPU time of `init`.";
    STREAM_TIMEOUT: Duration = "60s", duration(MILLISECOND..=DAY),
        "stream-timeout", "endpoint.limits.stream_timeout", Value("DURATION"),
        "How long an application's response may make no progress between two pieces.";
    TENSORS: usize = "1024", count(0..=1_000_000),
        "tensors", "endpoint.limits.tensors", Value("N"),
        "Tensors that the host holds for one request of a handler that calls models.";
    TENSOR_MEMORY: usize = "256MiB", size(0..=1024 * GIB),
        "tensor-memory", "endpoint.limits.tensor_memory", Value("SIZE"),
        "Bytes of them together.";
    MODEL_RUNS: u32 = "10000", count(0..=u64::from(u32::MAX)),
        "model-runs", "endpoint.limits.model_runs", Value("N"),
        "How often a handler may run models for one request.";
    WEIGHT: u32 = "1", count(1..=1000),
        "weight", "endpoint.limits.weight", Value("N"),
        "The handler's part of the processors while calls of others wait too: one of weight 2 gets twice as much.";
    KV_BYTES: u64 = "64MiB", size(0..=1024 * GIB),
        "kv-bytes", "endpoint.limits.kv_bytes", Value("SIZE"),
        "Most bytes of keys and values in the endpoint's buckets together; of a shared bucket, that it may fill \
         it to.";
    KV_ENTRIES: u64 = "100000", count(0..=1_000_000_000),
        "kv-entries", "endpoint.limits.kv_entries", Value("N"),
        "Most keys in the endpoint's buckets together, likewise.";
    KV_VALUE: usize = "1MiB", size(0..=64 * MIB),
        "kv-value", "endpoint.limits.kv_value", Value("SIZE"),
        "Longest value that it may keep.";
    SERIES: usize = "100", count(0..=10_000),
        "series", "endpoint.limits.series", Value("N"),
        "Most series of the metrics that its handlers make themselves.";
    BACKGROUND_TIMEOUT: Duration = "30s", duration(MILLISECOND..=DAY),
        "background-timeout", "endpoint.limits.background_timeout", Value("DURATION"),
        "How long an application may work on after its response.";
    WALL_TIMEOUT: Option<Duration> = "auto", or("auto", duration(MILLISECOND..=DAY)),
        "wall-timeout", "endpoint.limits.wall_timeout", Value("DURATION|auto"),
        "How long each of these may take, waits included; `auto` is five times its CPU time.";
    OUTPUT: usize = "64MiB", size(KIB..=GIB),
        "output", "endpoint.limits.output", Value("SIZE"),
        "Most bytes that one call of the handler may return.";
    PROJECT_SIZE: u64 = "256MiB", size(KIB..=64 * GIB),
        "project-size", "endpoint.limits.project", Value("SIZE"),
        "Most bytes of project files that the handler may see.";

    [RequestLimits]
    REQUEST_TIMEOUT: Duration = "30s", duration(MILLISECOND..=DAY),
        "request-timeout", "endpoint.limits.request_timeout", Value("DURATION"),
        "From the arrival of a request's head to its answer.";
    BODY: usize = "32MiB", size(KIB..=GIB),
        "body", "endpoint.limits.body", Value("SIZE"),
        "Longest request body; beyond it the answer is 413.";
    BODY_TIMEOUT: Duration = "5s", duration(MILLISECOND..=DAY),
        "body-timeout", "endpoint.limits.body_timeout", Value("DURATION"),
        "How long a body may take to arrive, and a second more for each `body_rate` bytes of it.";
    BODY_RATE: u64 = "1KiB", size(1..=GIB),
        "body-rate", "endpoint.limits.body_rate", Value("SIZE"),
        "Bytes a second that a body has to come with when `body_timeout` is over.";
    CONCURRENCY: usize = "64", count(1..=10_000),
        "concurrency", "endpoint.limits.concurrency", Value("N"),
        "Requests in flight; beyond it they queue.";
    QUEUE: usize = "256", count(0..=1_000_000),
        "queue", "endpoint.limits.queue", Value("N"),
        "Requests that may queue; beyond it the answer is 503.";
    SOCKETS: usize = "100", count(0..=100_000),
        "sockets", "endpoint.limits.sockets", Value("N"),
        "WebSockets that are open at a time, each with an instance of its own; beyond it the answer is 503. They take no \
         place of `concurrency`.";
    SOCKET_MESSAGE: usize = "1MiB", size(125..=GIB),
        "socket-message", "endpoint.limits.socket_message", Value("SIZE"),
        "Longest message of a WebSocket, in either direction; the client that sends a longer one is closed with 1009.";
    SOCKET_RATE: u32 = "1000", count(1..=1_000_000),
        "socket-rate", "endpoint.limits.socket_rate", Value("N"),
        "Messages a second that are read of one client of a WebSocket, after as many at once; it is read no faster.";
    SOCKET_IDLE: Duration = "5m", duration(MILLISECOND..=DAY),
        "socket-idle", "endpoint.limits.socket_idle", Value("DURATION"),
        "How long a WebSocket may be open without a message in either direction; then it is closed with 1001.";
    SEQUENCES: usize = "1000", count(1..=1_000_000),
        "sequences", "endpoint.limits.sequences", Value("N"), "Sequences whose state is kept; beyond it a new one is 503.";
    SEQUENCE_MEMORY: usize = "256MiB", size(0..=1024 * GIB),
        "sequence-memory", "endpoint.limits.sequence_memory", Value("SIZE"),
        "Bytes of their state together; beyond it a sequence ends with 503.";
    SEQUENCE_IDLE: Duration = "1m", duration(MILLISECOND..=DAY),
        "sequence-idle", "endpoint.limits.sequence_idle", Value("DURATION"), "How long one may be without a request.";

    JOB_CONCURRENCY: usize = "4", count(1..=10_000),
        "job-concurrency", "endpoint.limits.job_concurrency", Value("N"),
        "Jobs that run at a time. Each takes a place of `concurrency` too, when no request waits for it.";
    JOB_QUEUE: u64 = "100000", count(0..=100_000_000),
        "job-queue", "endpoint.limits.job_queue", Value("N"),
        "Jobs that may be unfinished, queued or running; beyond it the answer is 503.";
    JOB_BYTES: u64 = "1GiB", size(0..=1024 * GIB),
        "job-bytes", "endpoint.limits.job_bytes", Value("SIZE"),
        "Bytes of jobs and results together beyond which no job is taken: the answer is 503.";
    JOB_KEEP: Duration = "7d", duration(MILLISECOND..=365 * DAY),
        "job-keep", "endpoint.limits.job_keep", Value("DURATION"),
        "How long a finished job and its result are kept.";
    JOB_ATTEMPTS: u32 = "3", count(1..=1000),
        "job-attempts", "endpoint.limits.job_attempts", Value("N"),
        "How often a job is tried that fails by the server's or the handler's fault, and the most that a client may ask for.";
    JOB_TIMEOUT: Duration = "1h", duration(MILLISECOND..=DAY),
        "job-timeout", "endpoint.limits.job_timeout", Value("DURATION"),
        "How long one attempt at a job may take, in place of `request_timeout`.";
    JOB_SUBMISSIONS: u32 = "100", count(0..=1_000_000),
        "job-submissions", "endpoint.limits.job_submissions", Value("N"),
        "How many jobs one request of a handler may submit by itself.";
    JOB_DEPTH: u32 = "16", count(0..=1_000_000_000),
        "job-depth", "endpoint.limits.job_depth", Value("N"),
        "How many jobs may follow each other, each submitted by the handler that runs the one before.";
    WEBHOOK_ATTEMPTS: u32 = "15", count(1..=1000),
        "webhook-attempts", "endpoint.limits.webhook_attempts", Value("N"),
        "How often the webhook of a job is sent until its receiver takes it, with pauses from a second to an hour.";
    WEBHOOK_TIMEOUT: Duration = "10s", duration(MILLISECOND..=DAY),
        "webhook-timeout", "endpoint.limits.webhook_timeout", Value("DURATION"),
        "How long the receiver of a webhook may take to answer.";
}
