//! The codes of errors: one row each.
//!
//! Place in the flow: [`Failure`](super::Failure) has one; bodies, logs and metrics show its name;
//! `server/status.rs` gives each protocol its words for it.
//! Invariant: a code is a promise to clients, logs and metrics. Its row is the only place that lists it:
//! docs/reference.md gets its table from the rows (`make reference`), and a test compares.

use super::PluginFault;

/// The properties of a code beside its name in Rust.
#[derive(Debug)]
struct Row {
    name: &'static str,
    http: u16,
    grpc: Grpc,
    side: Side,
    summary: &'static str,
    meaning: &'static str,
}

/// A status of gRPC, with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grpc {
    /// `INVALID_ARGUMENT`
    InvalidArgument = 3,
    /// `DEADLINE_EXCEEDED`
    DeadlineExceeded = 4,
    /// `NOT_FOUND`
    NotFound = 5,
    /// `ALREADY_EXISTS`
    AlreadyExists = 6,
    /// `PERMISSION_DENIED`
    PermissionDenied = 7,
    /// `RESOURCE_EXHAUSTED`
    ResourceExhausted = 8,
    /// `UNIMPLEMENTED`
    Unimplemented = 12,
    /// `INTERNAL`
    Internal = 13,
    /// `UNAVAILABLE`
    Unavailable = 14,
    /// `UNAUTHENTICATED`
    Unauthenticated = 16,
}

/// The side that a failure is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The request.
    Caller,
    /// The model or its handler.
    Model,
    /// The server.
    Server,
}

macro_rules! codes {
    ($(
        $code:ident: $name:literal, $http:literal, $grpc:ident, $side:ident,
            $summary:literal, $meaning:literal;
    )+) => {
        /// The kind of a failure. Stable: clients and dashboards depend on the names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $code,)+
        }

        impl Code {
            /// Every code, in the order of the documents.
            pub const ALL: [Code; [$($name),+].len()] = [$(Code::$code),+];

            #[inline]
            fn row(self) -> &'static Row {
                match self {
                    $(Code::$code => {
                        const ROW: Row = Row {
                            name: $name,
                            http: $http,
                            grpc: Grpc::$grpc,
                            side: Side::$side,
                            summary: $summary,
                            meaning: $meaning,
                        };
                        &ROW
                    })+
                }
            }
        }
    };
}

codes! {
    InvalidInput: "invalid_input", 400, InvalidArgument, Caller,
        "the request has to be changed; the text says how",
        "The caller has to change the request: malformed JSON, a wrong type or shape, inputs that are not as \
         the schema says, or what the handler calls `invalid-input`.";
    Unauthorized: "unauthorized", 401, Unauthenticated, Caller,
        "a key is required, and the request has none or a wrong one",
        "The endpoint, or the administration, requires a key, and the request has none or a wrong one.";
    Forbidden: "forbidden", 403, PermissionDenied, Caller,
        "a page of another origin may not do this",
        "A page whose origin `server.cors_allow_origin` does not allow has asked for a WebSocket; or a web page \
         has sent an order, such as to load a model.";
    NotFound: "not_found", 404, NotFound, Caller,
        "there is no such model, or no such job",
        "No endpoint has this path; or there is no model, version, job or region of shared memory of this name.";
    MethodNotAllowed: "method_not_allowed", 405, Unimplemented, Caller,
        "the path answers other methods",
        "The path does not answer this method; `Allow` has those it does answer.";
    IdempotencyConflict: "idempotency_conflict", 409, AlreadyExists, Caller,
        "the idempotency key belongs to another job",
        "The `idempotency-key` of a job was used before, for one with another path, query or body.";
    BodyTooLarge: "body_too_large", 413, ResourceExhausted, Caller,
        "the body is longer than this endpoint takes",
        "The body is longer than `limits.body`: as it came, unpacked, or as the JSON that tensors \
         become for a handler that takes none.";
    BodyTimeout: "body_timeout", 408, DeadlineExceeded, Caller,
        "the body came too slowly",
        "The body came more slowly than `limits.body_timeout` and `limits.body_rate` allow.";
    UpgradeRequired: "upgrade_required", 426, Unimplemented, Caller,
        "the endpoint serves WebSockets, and this is no handshake for one",
        "The handler serves WebSockets and no other requests, or the handshake is of another version than 13.";
    HeadTooLarge: "head_too_large", 431, ResourceExhausted, Caller,
        "the request's head is longer than the server takes",
        "The request's head is longer than `server.header_size`, or has more headers than `server.headers`.";
    ExpectationFailed: "expectation_failed", 417, InvalidArgument, Caller,
        "the head expects something that the server does not do",
        "`Expect` says something other than `100-continue`.";
    NotImplemented: "not_implemented", 501, Unimplemented, Caller,
        "the body has a transfer coding that is not read here",
        "The body has a transfer coding other than `chunked`.";
    UnsupportedMediaType: "unsupported_media_type", 415, InvalidArgument, Caller,
        "the body is of a media type or content encoding that is not read here",
        "An endpoint whose handler has no `pre-inference`, or that has an input schema, reads JSON only; a \
         body is packed (`content-encoding`) as `gzip`, `deflate`, `br` or `zstd`, or not at all.";
    Overloaded: "overloaded", 503, Unavailable, Server,
        "too many requests are here already",
        "As many requests as `limits.concurrency` and `limits.queue` together allow are here already, in \
         flight or waiting; or the body was still arriving when a request came for which there was no other \
         place; or clients take results of jobs too slowly; or bodies, tensors and answers take all of \
         `server.memory` that the endpoint may have. `Retry-After` says when to come back.";
    JobsFull: "jobs_full", 503, ResourceExhausted, Server,
        "too many jobs are stored already",
        "As many jobs are unfinished as `limits.job_queue` allows, or jobs and results take as much as `limits.job_bytes` does. \
         `Retry-After` is set.";
    JobsUnavailable: "jobs_unavailable", 503, Unavailable, Server,
        "the store of the jobs cannot be used now",
        "The store of the jobs could not be read or written: its disk is full, for example. The job may or may not be stored: \
         with an `idempotency-key` it can be submitted again. `Retry-After` is set.";
    ShuttingDown: "shutting_down", 503, Unavailable, Server,
        "the server is shutting down",
        "The server is shutting down. Requests in flight get this when `server.drain_timeout` is over; new WebSockets, \
         orders and questions for readiness get it at once. `Retry-After` is set.";
    NotReady: "not_ready", 503, Unavailable, Model,
        "the server is still loading",
        "The server is still loading models and handlers. `Retry-After` is set.";
    ModelUnloaded: "model_unloaded", 503, Unavailable, Model,
        "the operator has taken the model out of service",
        "The operator has unloaded the model. `Retry-After` is set.";
    PluginUnavailable: "plugin_unavailable", 503, Unavailable, Model,
        "the handler has failed too often and is not called for a while",
        "The handler has failed so often that it is not called for a while; see [the breaker](#the-breaker). \
         `Retry-After` says how long.";
    PluginTrap: "plugin_trap", 500, Internal, Model,
        "the handler crashed",
        "The handler trapped: a panic, `unreachable`, a bad memory access, too deep a recursion, an exit, \
         too many handles or host calls.";
    PluginOutOfMemory: "plugin_out_of_memory", 500, Internal, Model,
        "the handler needed more memory than it may have",
        "The handler trapped after it was refused memory beyond `limits.memory`.";
    PluginBadOutput: "plugin_bad_output", 500, Internal, Model,
        "the handler returned something that cannot be passed on",
        "The handler returned tensors that do not fit, no valid response, or more than `limits.output`; or \
         it printed more than that.";
    PluginError: "plugin_error", 500, Internal, Model,
        "the handler could not do its job",
        "The handler returned `internal`; its text is the `detail`.";
    PluginTimeout: "plugin_timeout", 504, DeadlineExceeded, Model,
        "the handler took longer than it may",
        "The handler used more CPU time than `limits.pre_timeout` or `limits.post_timeout`, or \
         `limits.init_timeout` where every instance runs `init`; or it took longer than \
         `limits.wall_timeout`.";
    RequestTimeout: "request_timeout", 504, DeadlineExceeded, Server,
        "the request took longer than it may",
        "The request took longer than `limits.request_timeout`, the attempt of a job longer than `limits.job_timeout`, \
         or either longer than its client's own deadline.";
    ModelError: "model_error", 500, Internal, Model,
        "the model failed",
        "The model failed; the engine's words are the `detail`.";
    Internal: "internal", 500, Internal, Server,
        "a defect of the server",
        "A defect of this host.";
}

impl Code {
    /// The stable name in error bodies, logs and metric labels.
    #[inline]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The status of HTTP.
    #[inline]
    pub fn http(self) -> u16 {
        self.row().http
    }

    /// The status of gRPC.
    #[inline]
    pub fn grpc(self) -> Grpc {
        self.row().grpc
    }

    /// The side that the failure is on.
    #[inline]
    pub fn side(self) -> Side {
        self.row().side
    }

    /// Its meaning to a caller, in a line of the OpenAPI document.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// Its meaning to the operator, in Markdown.
    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    /// Whether the handler broke its contract or a limit: what the metric of faults counts and the breaker
    /// opens for.
    #[inline]
    pub fn is_fault(self) -> bool {
        PluginFault::of(self).is_some()
    }
}
