//! The settings of the process: listeners, their limits and keys, recordings, resources.
//!
//! Place in the flow: see [`settings`](super), and `endpoint.rs` beside this file for what a row says.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use super::Kind::{List, Switch, Value};
use super::{DAY, GIB, Group, KIB, MIB, MILLISECOND, Row, Setting, settings};
use crate::config::read::stores::{store, store_prefix};
use crate::config::read::*;
use crate::stores::Place;
use crate::telemetry::access_log::Format as AccessFormat;
use crate::telemetry::logs::Format;
use crate::values::*;

const RECORDED_SHARE: &str = "a number from 0 to 1, such as `0.01` for one in a hundred";

settings! {
    [Server]
    LISTEN: SocketAddr = "127.0.0.1:8000", address,
        "listen", "server.listen", Value("IP:PORT"),
        "Address of the endpoints. Port 0 picks a free one.";
    ADMIN_LISTEN: SocketAddr = "127.0.0.1:8001", address,
        "admin-listen", "server.admin_listen", Value("IP:PORT"),
        "Address of metrics, health and administration. Keep it private.";
    GRPC_LISTEN: Option<SocketAddr> = "none", or("none", address),
        "grpc-listen", "server.grpc_listen", Value("IP:PORT|none"),
        "Address of the endpoints over gRPC, for clients of the Open Inference Protocol and of TensorFlow Serving.";
    MODEL_CONTROL: bool = "false", switch,
        "model-control", "server.model_control", Switch("no-model-control"),
        "Load and unload models at the order of clients of the endpoints too, by the Open Inference Protocol.";
    SHARED_MEMORY: Option<usize> = "off", or("off", count(1..=10_000)),
        "shared-memory", "server.shared_memory", Value("N|off"),
        "Let clients on this machine, those that call over a loopback address, register so many regions of POSIX shared memory, by \
         their names in `/dev/shm`, and send and take tensors there.";
    METRICS_ON_MAIN: bool = "true", switch,
        "metrics-on-main", "server.metrics_on_main", Switch("no-metrics-on-main"),
        "Answer `GET /metrics` on the address of the endpoints too.";
    METRICS: bool = "lean", choice(&[("lean", false), ("all", true)]),
        "metrics", "server.metrics", Value("lean|all"),
        "What a scrape gets: of each endpoint what dashboards and alerts need, at most 40 series while it is in order; or all of them, \
         zeros and all buckets, about 190.";
    DOCS: bool = "true", switch,
        "docs", "server.docs", Switch("no-docs"),
        "Answer `GET /openapi.json`, the page at `/docs`, and browsers at `/`, which describe the endpoints to \
         every client that can reach them.";
    CORS_ALLOW_ORIGIN: Option<String> = "*", origin,
        "cors-allow-origin", "server.cors_allow_origin", Value("ORIGIN|none"),
        "Origin whose pages may call the endpoints from a browser. `none` sends no CORS header.";
    DEBUG: bool = "false", switch,
        "debug", "server.debug", Switch("no-debug"),
        "Send callers the detail of server errors, such as a handler's own words. Not for production.";
    WATCH_CONFIG: bool = "false", switch,
        "watch-config", "server.watch_config", Switch("no-watch-config"),
        "Serve what the config file and the files in `conf.d` beside it say when they change, as a whole or not \
         at all; links are followed, as those of a ConfigMap's volume.";
    DRAIN_TIMEOUT: Duration = "30s", duration(Duration::ZERO..=DAY),
        "drain-timeout", "server.drain_timeout", Value("DURATION"),
        "How long requests in flight may take after SIGTERM.";
    SERVER_MEMORY: Option<usize> = "auto", or("auto", size(16 * MIB..=1024 * GIB)),
        "memory", "server.memory", Value("SIZE|auto"),
        "Most bytes of bodies, tensors and answers in the process; beyond it the answer is 503, first for \
         endpoints that hold more than others. `auto`: a quarter of the control group's or the machine's memory.";

    [Security]
    TLS_CERT: Option<PathBuf> = (none, "cert.pem"), some(path),
        "tls-cert", "server.tls_cert", Value("FILE"),
        "Certificate chain in PEM, the server's own first: the endpoints are then served over TLS only.";
    TLS_KEY: Option<PathBuf> = (none, "key.pem"), some(path),
        "tls-key", "server.tls_key", Value("FILE"),
        "The certificate's private key in PEM, not encrypted.";
    TLS_ADMIN: bool = "false", switch,
        "tls-admin", "server.tls_admin", Switch("no-tls-admin"),
        "Serve the admin address over TLS too, with the same certificate.";
    KEY: Vec<KeySource> = (none, "@keys.txt,env:IRIS_KEY"), key_sources,
        "key", "endpoint.keys", List("@FILE|env:NAME"),
        "Where keys are that open the endpoint: a file with one a line, or a variable. Without any, it is \
         open to all.";
    ADMIN_HOST: Vec<String> = (none, "models.internal"), host_names,
        "admin-host", "server.admin_hosts", List("NAME"),
        "Name by which the admin address may be asked, such as `models.internal`; addresses and \
         `localhost` always may.";
    ADMIN_KEY: Vec<KeySource> = (none, "env:ADMIN_KEY"), key_sources,
        "admin-key", "server.admin_key", Value("@FILE|env:NAME"),
        "Where the keys are that open the admin address; health needs none.";

    [ConnectionLimits]
    // Less than 8 KiB hyper does not read, more than 1 MiB no client sends.
    HEADER_SIZE: usize = "64KiB", size(8 * KIB..=MIB),
        "header-size", "server.header_size", Value("SIZE"),
        "Longest head of a request: request line and headers; beyond it the answer is 431.";
    HEADERS: usize = "64", count(8..=10_000),
        "headers", "server.headers", Value("N"),
        "Most headers of a request; beyond it the answer is 431.";
    HEADER_TIMEOUT: Duration = "10s", duration(100 * MILLISECOND..=DAY),
        "header-timeout", "server.header_timeout", Value("DURATION"),
        "How long a client may take to send a head, the first one from the moment it connects; then it is cut off.";
    IDLE_TIMEOUT: Duration = "60s", duration(100 * MILLISECOND..=DAY),
        "idle-timeout", "server.idle_timeout", Value("DURATION"),
        "How long a connection may be without a request, or a client may take nothing of its response.";
    MAX_CONNECTIONS: usize = "10000", count(1..=1_000_000),
        "max-connections", "server.max_connections", Value("N"),
        "Open connections to the endpoints; more wait until one ends.";
    HTTP2_STREAMS: u32 = "200", count(1..=10_000),
        "http2-streams", "server.http2_streams", Value("N"),
        "Requests in flight on one connection of HTTP/2; more wait.";

    [Recording]
    RECORD: Option<PathBuf> = (none, "recordings"), some(path),
        "record", "record.dir", Value("DIR"),
        "Folder that gets a file for each request to a handler, with all that crossed the sandbox's \
         boundary, for `modelhost replay`.";
    RECORD_SIZE: u64 = "256MiB", size(KIB..=1024 * 1024 * GIB),
        "record-size", "record.size", Value("SIZE"),
        "Most bytes that the folder may hold; when it is full, recording ends.";
    RECORD_SHARE: Ratio = "1", share(RECORDED_SHARE),
        "record-share", "endpoint.record_share", Value("NUMBER"),
        "Which part of an endpoint's requests is recorded, from 0 to 1.";

    [Process]
    LOG_FORMAT: Format = "text", choice(&[("text", Format::Text), ("json", Format::Json)]),
        "log-format", "log.format", Value("text|json"),
        "How a line of the log looks. Logs go to stderr.";
    LOG_LEVEL: String = "info", log_filter,
        "log-level", "log.level", Value("FILTER"),
        "What is logged: `off`, `error`, `warn`, `info`, `debug` (`trace` is the same), or one per module, as \
         in `info,host::rollout=debug`.";
    ACCESS_LOG: Option<AccessFormat> = "off",
        choice(&[("json", Some(AccessFormat::Json)), ("common", Some(AccessFormat::Common)), ("off", None)]),
        "access-log", "log.access", Value("json|common|off"),
        "Write a line for each request that is over: a JSON object, or the common log format of web servers.";
    ACCESS_LOG_FILE: Option<PathBuf> = (none, "/var/log/modelhost/access.log"), some(path),
        "access-log-file", "log.access_file", Value("FILE"),
        "File that gets the lines, opened again within a second when it is moved away; without one they go to stdout.";
    ACCESS_LOG_SHARE: Ratio = "1", share(RECORDED_SHARE),
        "access-log-share", "log.access_share", Value("NUMBER"),
        "Which part of the requests has a line, from 0 to 1.";
    PLUGIN_INSTANCES: Option<usize> = "auto", or("auto", count(1..=16_384)),
        "plugin-instances", "plugin.instances", Value("N"),
        "Most instances of all handlers together. Idle ones make way, handlers that hold less than their \
         share come first; beyond it the answer is 503.";
    KV_STORE: Option<Place> = (none, "redis://cache.example.com:6379/0"), some(store),
        "kv-store", "kv.store", Value("FILE|URL"),
        "Where handlers keep values: a file that this host alone has open, and makes if it is not there; or a \
         Redis that many hosts share, `redis://USER@HOST:PORT/DATABASE`, `rediss://` for TLS.";
    KV_PASSWORD: Vec<KeySource> = (none, "env:REDIS_PASSWORD"), key_sources,
        "kv-password", "kv.password", Value("@FILE|env:NAME"),
        "Where the password of a Redis is: a file that holds nothing else, or a variable.";
    KV_PREFIX: String = "modelhost", store_prefix,
        "kv-prefix", "kv.prefix", Value("NAME"),
        "What the names of all keys in a Redis begin with: hosts with the same one share their values.";
    KV_TIMEOUT: Duration = "2s", duration(MILLISECOND..=DAY),
        "kv-timeout", "kv.timeout", Value("DURATION"),
        "How long an operation may take in a Redis; beyond it the handler gets an error.";
    JOBS_STORE: Option<Place> = (none, "redis://queue.example.com:6379/0"), some(store),
        "jobs-store", "jobs.store", Value("FILE|URL"),
        "Where jobs are kept: a file of this host alone, made if it is not there; or, as for `kv.store`, a Redis.";
    JOBS_PASSWORD: Vec<KeySource> = (none, "env:REDIS_PASSWORD"), key_sources,
        "jobs-password", "jobs.password", Value("@FILE|env:NAME"),
        "Where the password of the jobs' Redis is: a file that holds nothing else, or a variable.";
    JOBS_PREFIX: String = "modelhost", store_prefix,
        "jobs-prefix", "jobs.prefix", Value("NAME"),
        "What the names of the jobs' keys in a Redis begin with: hosts with the same one share their jobs.";
    JOBS_TIMEOUT: Duration = "2s", duration(MILLISECOND..=DAY),
        "jobs-timeout", "jobs.timeout", Value("DURATION"),
        "How long an operation on jobs may take in a Redis; beyond it a submission is 503.";
    CACHE_DIR: Option<Option<PathBuf>> =
        ("${XDG_CACHE_HOME:-~/.cache}/modelhost", None, "/var/cache/modelhost"), some(or("none", path)),
        "cache-dir", "plugin.cache_dir", Value("DIR|none"),
        "Where compiled handlers, and the memory that their `init` leaves, are kept for the next start, \
         and what it must know of refused ones; no other user may be able to write there. A folder of root's \
         that this user can only read is read and never written to. Files in it may be removed while hosts \
         run, and not written to: hosts run them. `none` keeps none.";
    CACHE_SIZE: u64 = "4GiB", size(MIB..=1024 * GIB),
        "cache-size", "plugin.cache_size", Value("SIZE"),
        "Most bytes that handlers, compiled or kept, take there; beyond it those go that were not used for longest.";
}
