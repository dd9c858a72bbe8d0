//! The list of settings: each one's flag, environment twin, config key, default and meaning.
//!
//! Place in the flow: the one list that `cli.rs` makes flags from, `config/file.rs` knows keys by, and
//! docs/reference.md is compared with. What the values mean is in `config/endpoint.rs` and `config.rs`.
//! Invariants: flags are unique and lower case with `-`; the environment twin follows from the flag, so that
//! nobody has to look it up; a key that starts with `endpoint.` belongs to one endpoint, any other to the
//! process.

/// One thing that can be set.
#[derive(Debug)]
pub struct Setting {
    /// Its flag, without the leading `--`.
    pub flag: &'static str,
    /// Its key in the config file, from the root, with `.` between tables; empty if it has none.
    pub key: &'static str,
    /// What a value looks like.
    pub kind: Kind,
    /// The default as a user would write it; empty if there is none.
    pub default: &'static str,
    /// Where it stands in `--help` and in the reference.
    pub group: Group,
    /// What it does, in one or two sentences.
    pub help: &'static str,
}

/// What a value looks like on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One value, described by this placeholder.
    Value(&'static str),
    /// Any number of values, each described by this placeholder: the flag may be repeated, the environment
    /// twin separates them with `,`, the file has an array.
    List(&'static str),
    /// On or off: the flag and this one, its opposite; `true` and `false` elsewhere.
    Switch(&'static str),
}

/// A command that reads settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `host serve`: all of them.
    Serve,
    /// `host run`: what one call without a server depends on.
    Run,
}

/// Settings that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What is served, and where.
    Endpoint,
    /// What a new handler is held to.
    Gate,
    /// The handler and what it may see.
    Handler,
    /// The model and how it runs.
    Model,
    /// What one handler may use.
    HandlerLimits,
    /// What a request may use, and how many there may be.
    RequestLimits,
    /// Listeners and shutdown.
    Server,
    /// Who is let in, and how bytes travel.
    Security,
    /// What a connection may cost.
    ConnectionLimits,
    /// What is kept of requests.
    Recording,
    /// Logs and caches.
    Process,
}

impl Group {
    /// Every group, in the order of `--help` and of the reference.
    pub const ALL: [Group; 11] = [
        Group::Endpoint,
        Group::Gate,
        Group::Handler,
        Group::Model,
        Group::HandlerLimits,
        Group::RequestLimits,
        Group::Server,
        Group::Security,
        Group::ConnectionLimits,
        Group::Recording,
        Group::Process,
    ];

    /// The heading above the group.
    pub fn title(self) -> &'static str {
        match self {
            Group::Endpoint => "Endpoint",
            Group::Gate => "Gate",
            Group::Handler => "Handler",
            Group::Model => "Model",
            Group::HandlerLimits => "Limits of a handler",
            Group::RequestLimits => "Limits of requests",
            Group::Server => "Server",
            Group::Security => "TLS and keys",
            Group::ConnectionLimits => "Limits of connections",
            Group::Recording => "Recording",
            Group::Process => "Logs and cache",
        }
    }
}

impl Setting {
    /// The environment twin: `--pre-timeout` is `MODELHOST_PRE_TIMEOUT`.
    pub fn variable(&self) -> String {
        format!("MODELHOST_{}", self.flag.replace('-', "_").to_uppercase())
    }

    /// Whether it describes one endpoint rather than the process.
    pub fn of_endpoint(&self) -> bool {
        self.key.starts_with("endpoint.")
    }

    /// Whether `scope`'s command reads it.
    pub fn applies_to(&self, scope: Scope) -> bool {
        match scope {
            Scope::Serve => true,
            Scope::Run => {
                matches!(self.group, Group::Handler | Group::Model | Group::HandlerLimits | Group::Process)
            }
        }
    }
}

macro_rules! settings {
    ($($name:ident: $group:ident, $flag:literal, $key:literal, $kind:expr, $default:literal, $help:literal;)+) => {
        $(
            #[doc = $help]
            pub static $name: Setting = Setting {
                flag: $flag, key: $key, kind: $kind, default: $default, group: Group::$group, help: $help,
            };
        )+
        /// Every setting, group by group, in the order of `--help` and of the reference.
        pub static ALL: &[&Setting] = &[$(&$name),+];
    };
}

settings! {
    CONFIG: Endpoint, "config", "", Kind::Value("FILE"), "",
        "Config file, for more than one endpoint. Flags and environment win over it.";
    NAME: Endpoint, "name", "endpoint.name", Kind::Value("NAME"), "stem of the handler's or the model's file",
        "Name of the endpoint, as in metrics, logs and admin paths.";
    PATH: Endpoint, "path", "endpoint.path", Kind::Value("PATH"), "/NAME",
        "Where the endpoint is called. The only endpoint also answers `/` and `/predict`.";
    WATCH: Endpoint, "watch", "endpoint.watch", Kind::Switch("no-watch"), "true",
        "Swap in the handler's file when it changes.";
    SMOKE: Endpoint, "smoke", "endpoint.smoke", Kind::Switch("no-smoke"), "true",
        "Try the input schema's examples at the start, and before a new handler or model is published.";

    KEEP_MODEL: Endpoint, "keep-model", "endpoint.keep_model", Kind::Switch("no-keep-model"), "false",
        "After a swap to another model, keep the one before loaded, so that a rollback to it is at once.";

    PROTOCOLS: Endpoint, "protocol", "endpoint.protocols", Kind::List("http|v1|v2|grpc"), "all of them",
        "Protocols by which the endpoint can be reached.";
    BARE_TENSORS: Endpoint, "bare-tensors", "endpoint.bare_tensors", Kind::Switch("no-bare-tensors"), "false",
        "Tensors that a client brings go straight to the model if the handler takes bodies only, and the outputs straight back.";
    ON_FAULT: Endpoint, "on-fault", "endpoint.on_fault", Kind::Value("error|bypass"), "error",
        "What a request gets whose handler traps, exceeds a limit or returns nonsense: the error, or the model's answer without a handler.";
    BREAKER_FAULTS: Endpoint, "breaker-faults", "endpoint.breaker.faults", Kind::Value("SHARE|off"), "off",
        "Share of requests, such as 0.5, that end in a fault of the handler before it is called no more for a while.";
    BREAKER_WINDOW: Endpoint, "breaker-window", "endpoint.breaker.window", Kind::Value("DURATION"), "10s",
        "Over how long the share is counted.";
    BREAKER_MIN: Endpoint, "breaker-min", "endpoint.breaker.min", Kind::Value("N"), "20",
        "Fewest requests in that time that say anything.";
    BREAKER_PAUSE: Endpoint, "breaker-pause", "endpoint.breaker.pause", Kind::Value("DURATION"), "30s",
        "For how long; then one request at a time tries whether the handler works again.";
    GATE_SAMPLES: Gate, "gate-samples", "endpoint.gate.samples", Kind::Value("N"), "0",
        "How many of the last requests are kept, to be run through a new handler and the old one before a swap. 0 keeps none.";
    GATE_SAMPLES_SIZE: Gate, "gate-samples-size", "endpoint.gate.samples_size", Kind::Value("SIZE"), "16MiB",
        "Most bytes of them together.";
    GATE_REDACT: Gate, "gate-redact", "endpoint.gate.redact", Kind::List("PATH|NAME"), "",
        "What is taken out of a request before it is kept: a path in its JSON, `/user/email`, or the name of a header or of a parameter of its query.";
    GATE_GOLDEN: Gate, "gate-golden", "endpoint.gate.golden", Kind::Value("DIR"), "",
        "Folder with further samples: `NAME.json` is a request's body, `NAME.expected.json` beside it the answer that a new handler must give.";
    GATE_TOLERANCE: Gate, "gate-tolerance", "endpoint.gate.tolerance", Kind::Value("NUMBER"), "1e-6",
        "How far a decimal number of an answer may be from the old one, absolutely or relatively.";
    GATE_IGNORE: Gate, "gate-ignore", "endpoint.gate.ignore", Kind::List("PATH|NAME"), "",
        "What may differ: a path in a JSON answer, `/predictions/*/took`, or the name of a header.";
    GATE_MISMATCHES: Gate, "gate-mismatches", "endpoint.gate.mismatches", Kind::Value("SHARE"), "0",
        "The part of the samples that may be answered otherwise, from 0 to 1.";
    GATE_SLOWDOWN: Gate, "gate-slowdown", "endpoint.gate.slowdown", Kind::Value("FACTOR|none"), "none",
        "How many times the old handler's time the new one may take. `none` does not judge time.";
    GATE_MEMORY: Gate, "gate-memory", "endpoint.gate.memory", Kind::Value("FACTOR|none"), "none",
        "How many times the old handler's memory the new one may take. `none` does not judge memory.";
    GATE_TIMEOUT: Gate, "gate-timeout", "endpoint.gate.timeout", Kind::Value("DURATION"), "10s",
        "How long all samples may take together; those left are not compared.";

    PLUGIN: Handler, "plugin", "endpoint.plugin", Kind::Value("FILE"), "",
        "The handler, a WebAssembly component. Without one, JSON goes to the model and back as it is.";
    PROJECT: Handler, "project", "endpoint.project", Kind::Value("DIR"), "",
        "Folder that the handler sees, read-only, at `/mnt/project`; without the config file and any endpoint's model.";
    METADATA: Handler, "metadata", "endpoint.metadata", Kind::Value("JSON|@FILE"), "null",
        "Free-form JSON for the handler, or `@` and a file that holds it.";
    ENV: Handler, "env", "endpoint.env", Kind::List("NAME[=VALUE]"), "",
        "Environment variable that the handler sees: the host's own value, or this one.";
    RESPONSE_HEADER: Handler, "response-header", "endpoint.response_headers", Kind::List("NAME"), "",
        "Header that the handler may set although it speaks for the whole server, such as `set-cookie` or `content-encoding`.";
    ISOLATION: Handler, "isolation", "endpoint.isolation", Kind::Value("worker|request"), "worker",
        "Whether an instance of the handler is reused for later requests, or made fresh for every one.";
    NETWORK: Handler, "network", "endpoint.network", Kind::Value("none|stub"), "none",
        "`none` refuses a handler that imports sockets; `stub` loads it and denies every call.";

    MODEL: Model, "model", "endpoint.model.path", Kind::Value("PATH"), "",
        "The model: an ONNX file, a folder with one ONNX file or a SavedModel, or a folder of versions. Without one, the handler runs alone.";
    MODEL_VERSION: Model, "model-version", "endpoint.model.version", Kind::Value("N"), "the highest",
        "Which version of a folder of versions (`1/model.onnx`, `2/saved_model.pb`).";
    SIGNATURE_KEY: Model, "signature-key", "endpoint.model.signature_key", Kind::Value("KEY"), "the only one, `serving_default` or `predict`",
        "Which signature of a SavedModel.";
    DEVICE: Model, "device", "endpoint.model.device", Kind::Value("auto|cpu|cuda[:N]"), "auto",
        "Where the model runs. `auto` takes a GPU if there is one and says why in the log; `cuda` is had or fails at start.";
    DEVICE_MEMORY: Model, "device-memory", "endpoint.model.device_memory", Kind::Value("SIZE|none"), "none",
        "Most memory of a GPU that one model may take.";
    INSTANCES: Model, "instances", "endpoint.model.instances", Kind::Value("N"), "auto",
        "How many runs of the model there may be at the same time. An ONNX model of more than 1 MiB is in memory once, on a GPU once for each.";
    THREADS: Model, "threads", "endpoint.model.threads", Kind::Value("N"), "auto",
        "Threads of one run of an ONNX model. A run also uses those of others that rest.";
    MAX_BATCH: Model, "max-batch", "endpoint.batching.max_batch", Kind::Value("N"), "1",
        "Most rows that requests may share one run with. 1 switches batching off.";
    MAX_DELAY: Model, "max-delay", "endpoint.batching.max_delay", Kind::Value("DURATION"), "2ms",
        "Longest that a request waits for others to share a run with, under `always`.";
    BATCH_WAIT: Model, "batch-wait", "endpoint.batching.wait", Kind::Value("busy|always"), "busy",
        "When it waits: `busy` until a session of the model is free, `always` for `max_delay` or a full batch.";
    TRUST_ROWS: Model, "trust-rows", "endpoint.batching.trust_rows", Kind::Switch("no-trust-rows"), "false",
        "Batch although a trial at the start shows that a row's answer depends on the rows beside it.";
    ONNXRUNTIME_LIB: Model, "onnxruntime-lib", "onnxruntime.lib", Kind::Value("FILE"), "searched for, see below",
        "ONNX Runtime's shared library.";
    TENSORFLOW_LIB: Model, "tensorflow-lib", "tensorflow.lib", Kind::Value("DIR"), "searched for, see below",
        "Folder with TensorFlow's shared libraries, needed for SavedModels only.";

    MEMORY: HandlerLimits, "memory", "endpoint.limits.memory", Kind::Value("SIZE"), "64MiB",
        "Memory of one instance of the handler.";
    PRE_TIMEOUT: HandlerLimits, "pre-timeout", "endpoint.limits.pre_timeout", Kind::Value("DURATION"), "1s",
        "CPU time of one call of `pre-inference`.";
    POST_TIMEOUT: HandlerLimits, "post-timeout", "endpoint.limits.post_timeout", Kind::Value("DURATION"), "1s",
        "CPU time of one call of `post-inference`.";
    INIT_TIMEOUT: HandlerLimits, "init-timeout", "endpoint.limits.init_timeout", Kind::Value("DURATION"), "10s",
        "CPU time of `init`.";
    WALL_TIMEOUT: HandlerLimits, "wall-timeout", "endpoint.limits.wall_timeout", Kind::Value("DURATION|auto"), "auto",
        "How long each of these may take, waits included; `auto` is five times its CPU time.";
    OUTPUT: HandlerLimits, "output", "endpoint.limits.output", Kind::Value("SIZE"), "64MiB",
        "Most bytes that one call of the handler may return.";
    PROJECT_SIZE: HandlerLimits, "project-size", "endpoint.limits.project", Kind::Value("SIZE"), "256MiB",
        "Most bytes of project files that the handler may see.";

    REQUEST_TIMEOUT: RequestLimits, "request-timeout", "endpoint.limits.request_timeout", Kind::Value("DURATION"), "30s",
        "From the arrival of a request's head to its answer.";
    BODY: RequestLimits, "body", "endpoint.limits.body", Kind::Value("SIZE"), "32MiB",
        "Longest request body; beyond it the answer is 413.";
    BODY_TIMEOUT: RequestLimits, "body-timeout", "endpoint.limits.body_timeout", Kind::Value("DURATION"), "5s",
        "How long a body may take to arrive, and a second more for each `body_rate` bytes of it.";
    BODY_RATE: RequestLimits, "body-rate", "endpoint.limits.body_rate", Kind::Value("SIZE"), "1KiB",
        "Bytes a second that a body has to come with when `body_timeout` is over.";
    CONCURRENCY: RequestLimits, "concurrency", "endpoint.limits.concurrency", Kind::Value("N"), "64",
        "Requests in flight; beyond it they queue.";
    QUEUE: RequestLimits, "queue", "endpoint.limits.queue", Kind::Value("N"), "256",
        "Requests that may queue; beyond it the answer is 503.";

    LISTEN: Server, "listen", "server.listen", Kind::Value("IP:PORT"), "127.0.0.1:8000",
        "Address of the endpoints. Port 0 picks a free one.";
    ADMIN_LISTEN: Server, "admin-listen", "server.admin_listen", Kind::Value("IP:PORT"), "127.0.0.1:8001",
        "Address of metrics, health and administration. Keep it private.";
    GRPC_LISTEN: Server, "grpc-listen", "server.grpc_listen", Kind::Value("IP:PORT|none"), "none",
        "Address of the endpoints over gRPC, for clients of the Open Inference Protocol.";
    MODEL_CONTROL: Server, "model-control", "server.model_control", Kind::Switch("no-model-control"), "false",
        "Load and unload models at the order of clients of the endpoints too, by the Open Inference Protocol.";
    METRICS_ON_MAIN: Server, "metrics-on-main", "server.metrics_on_main", Kind::Switch("no-metrics-on-main"), "true",
        "Answer `GET /metrics` on the address of the endpoints too.";
    DOCS: Server, "docs", "server.docs", Kind::Switch("no-docs"), "true",
        "Answer `GET /openapi.json` and the page at `/docs`, which describe the endpoints to everybody who can reach them.";
    CORS_ALLOW_ORIGIN: Server, "cors-allow-origin", "server.cors_allow_origin", Kind::Value("ORIGIN|none"), "*",
        "Origin whose pages may call the endpoints from a browser. `none` sends no CORS header.";
    DEBUG: Server, "debug", "server.debug", Kind::Switch("no-debug"), "false",
        "Send callers the detail of server errors, such as a handler's own words. Not for production.";
    DRAIN_TIMEOUT: Server, "drain-timeout", "server.drain_timeout", Kind::Value("DURATION"), "30s",
        "How long requests in flight may take after SIGTERM.";

    TLS_CERT: Security, "tls-cert", "server.tls_cert", Kind::Value("FILE"), "",
        "Certificate chain in PEM, the server's own first: the endpoints are then served over TLS only.";
    TLS_KEY: Security, "tls-key", "server.tls_key", Kind::Value("FILE"), "",
        "The certificate's private key in PEM, not encrypted.";
    TLS_ADMIN: Security, "tls-admin", "server.tls_admin", Kind::Switch("no-tls-admin"), "false",
        "Serve the admin address over TLS too, with the same certificate.";
    KEY: Security, "key", "endpoint.keys", Kind::List("@FILE|env:NAME"), "",
        "Where keys are that open the endpoint: a file with one a line, or a variable. Without any, it is open to all.";
    ADMIN_HOST: Security, "admin-host", "server.admin_hosts", Kind::List("NAME"), "",
        "Name by which the admin address may be asked, such as `models.internal`; addresses and `localhost` always may.";
    ADMIN_KEY: Security, "admin-key", "server.admin_key", Kind::Value("@FILE|env:NAME"), "",
        "Where the keys are that open the admin address; health needs none.";

    HEADER_SIZE: ConnectionLimits, "header-size", "server.header_size", Kind::Value("SIZE"), "64KiB",
        "Longest head of a request: request line and headers; beyond it the answer is 431.";
    HEADERS: ConnectionLimits, "headers", "server.headers", Kind::Value("N"), "64",
        "Most headers of a request; beyond it the answer is 431.";
    HEADER_TIMEOUT: ConnectionLimits, "header-timeout", "server.header_timeout", Kind::Value("DURATION"), "10s",
        "How long a client may take to send a head, the first one from the moment it connects; then it is cut off.";
    IDLE_TIMEOUT: ConnectionLimits, "idle-timeout", "server.idle_timeout", Kind::Value("DURATION"), "60s",
        "How long a connection may be without a request, or a client may take nothing of its response.";
    MAX_CONNECTIONS: ConnectionLimits, "max-connections", "server.max_connections", Kind::Value("N"), "10000",
        "Open connections to the endpoints; more wait until one ends.";
    HTTP2_STREAMS: ConnectionLimits, "http2-streams", "server.http2_streams", Kind::Value("N"), "200",
        "Requests in flight on one connection of HTTP/2; more wait.";

    RECORD: Recording, "record", "record.dir", Kind::Value("DIR"), "",
        "Folder that gets a file for each request to a handler, with all that crossed the sandbox's boundary, for `host replay`.";
    RECORD_SIZE: Recording, "record-size", "record.size", Kind::Value("SIZE"), "256MiB",
        "Most bytes that the folder may hold; when it is full, recording ends.";
    RECORD_SHARE: Recording, "record-share", "endpoint.record_share", Kind::Value("NUMBER"), "1",
        "Which part of an endpoint's requests is recorded, from 0 to 1.";

    LOG_FORMAT: Process, "log-format", "log.format", Kind::Value("text|json"), "text",
        "How a line of the log looks. Logs go to stderr.";
    LOG_LEVEL: Process, "log-level", "log.level", Kind::Value("FILTER"), "info",
        "What is logged: `off`, `error`, `warn`, `info`, `debug`, `trace`, or one per module, as in `info,host::deploy=debug`.";
    PLUGIN_INSTANCES: Process, "plugin-instances", "plugin.instances", Kind::Value("N"), "auto",
        "Most instances of all handlers together. Idle ones make way, handlers that hold less than their share come first; beyond it the answer is 503.";
    CACHE_DIR: Process, "cache-dir", "plugin.cache_dir", Kind::Value("DIR|none"), "${XDG_CACHE_HOME:-~/.cache}/modelhost",
        "Where compiled handlers, and the memory that their `init` leaves, are kept for the next start, and what it must know of refused ones; nobody else may be able to write there. A folder of root's that this user can only read is read and never written to. Files in it may be removed while hosts run, and not written to: hosts run them. `none` keeps none.";
    CACHE_SIZE: Process, "cache-size", "plugin.cache_size", Kind::Value("SIZE"), "1GiB",
        "Most bytes that handlers, compiled or kept, take there; beyond it those go that were not used for longest.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_setting_and_no_other() {
        let reference = include_str!("../../../docs/reference.md");
        let section =
            reference.split("\n## ").find(|section| section.starts_with("Flags and environment")).unwrap();
        let rows = |line: &&str| line.starts_with("| `--");
        let written: Vec<&str> = section.lines().filter(rows).collect();
        let code = |text: &str| format!("`{text}`");
        let expected: Vec<String> = ALL
            .iter()
            .map(|setting| {
                let flag = match setting.kind {
                    Kind::Value(value) | Kind::List(value) => code(&format!("--{} {value}", setting.flag)),
                    Kind::Switch(off) => format!("`--{}`, `--{off}`", setting.flag),
                };
                let key = if setting.key.is_empty() { "none".to_owned() } else { code(setting.key) };
                let default = match setting.default {
                    "" => "none".to_owned(),
                    words if words.contains(' ') => words.to_owned(),
                    default => code(default),
                };
                let row = [flag, code(&setting.variable()), key, default, setting.help.to_owned()];
                format!("| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "))
            })
            .collect();
        let listed = expected.join("\n");
        assert_eq!(written, expected, "the rows of docs/reference.md should be:\n{listed}\n");
        for group in Group::ALL {
            assert!(section.contains(&format!("### {}\n", group.title())), "{group:?}");
        }
    }

    #[test]
    fn the_file_in_the_reference_is_a_config_file() {
        let reference = include_str!("../../../docs/reference.md");
        let example = reference.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let (file, problems) = super::super::file::parse(std::path::Path::new("modelhost.toml"), example);
        assert_eq!(problems, []);
        for setting in ALL.iter().filter(|setting| !setting.key.is_empty()) {
            let mut tables = file.endpoints.iter().chain([&file.process]);
            assert!(
                tables.any(|table| table.get(setting.key).is_some()),
                "`{}` is not in the example",
                setting.key
            );
        }
    }
}
