//! Why a request failed: one type for every stage and protocol.
//!
//! Place in the flow: each stage returns it where the failure happens; `error/code.rs` holds the one table of
//! [`Code`]s with their statuses of HTTP and gRPC. `Display` goes to the caller and so names no host path,
//! address or secret; [`Failure::detail`] goes to the log only.
//! Invariant: a [`Code`] is a promise to clients, logs and metrics. docs/reference.md lists all of them, and
//! a test compares.

mod code;
mod violation;
mod plugin_fault;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::text;

pub use self::code::{Code, Grpc, Side};
pub use self::plugin_fault::PluginFault;
pub use self::violation::{Expected, MAX_VIOLATIONS, ValueError, ValueErrorKind, Violation, ViolationKind};

/// Where in the pipeline a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Reading the request, finding its endpoint, waiting for a place.
    Admit,
    /// The handler's `pre-inference`, or the built-in conversion in its place; then the check of its tensors.
    PreInference,
    /// Waiting for the model: for a free session, and for others to share a run with.
    Queue,
    /// The model.
    Infer,
    /// The handler's `post-inference`, or the built-in conversion in its place; then the check of its
    /// response.
    PostInference,
}

impl Stage {
    /// Every stage, in the order of the flow.
    pub const ALL: [Stage; 5] =
        [Stage::Admit, Stage::PreInference, Stage::Queue, Stage::Infer, Stage::PostInference];

    /// The stage's name in errors, logs and metric labels.
    #[inline]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Admit => "admit",
            Stage::PreInference => "pre_inference",
            Stage::Queue => "queue",
            Stage::Infer => "infer",
            Stage::PostInference => "post_inference",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Seconds a refused caller is asked to wait. Queues here drain in far less; one second keeps callers from
/// hammering.
const RETRY_AFTER: u64 = 1;

/// The words of [`Code::ShuttingDown`].
pub const SHUTTING_DOWN: &str = "the server is shutting down";

/// A failed request. One pointer, so that the results of all stages stay small: nearly none of them is a
/// failure.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .0.message)]
pub struct RequestError(Box<Failure>);

/// The error of a failed request.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind of failure.
    pub code: Code,
    /// Where it happened.
    pub stage: Stage,
    /// For the caller: what was wrong and, where it is the caller's fault, what was expected.
    pub message: String,
    /// For the log: causes, backtraces, a handler's own words. Shown to the caller only under `--debug`.
    pub detail: Option<String>,
    /// The inputs at fault, if it is that and the endpoint has a schema; `message` says the same.
    pub violations: Vec<Violation>,
    /// The handler's fault, where the code does not say it exactly.
    plugin_fault: Option<PluginFault>,
    /// The handler of the generation that failed the request: SHA-256 in hex.
    pub digest: Option<Arc<str>>,
    /// When a refused client may come back; `None`: soon.
    pub retry_after: Option<Duration>,
    /// Whether it is how the body is packed that is not taken.
    pub is_of_coding: bool,
}

/// An error as callers read it, in JSON.
#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    code: &'a str,
    stage: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl Deref for RequestError {
    type Target = Failure;

    #[inline]
    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl DerefMut for RequestError {
    #[inline]
    fn deref_mut(&mut self) -> &mut Failure {
        &mut self.0
    }
}

impl RequestError {
    /// A failure whose message says everything.
    pub fn new(code: Code, stage: Stage, message: impl Into<String>) -> Self {
        RequestError(Box::new(Failure {
            code,
            stage,
            // It may name what a client or a handler gave.
            message: text::cut(message.into()),
            detail: None,
            violations: Vec::new(),
            plugin_fault: None,
            digest: None,
            retry_after: None,
            is_of_coding: false,
        }))
    }

    /// A request that a server on its way down does not take, or waits for no longer: 503 `shutting_down`.
    pub fn shutting_down(stage: Stage) -> Self {
        RequestError::new(Code::ShuttingDown, stage, SHUTTING_DOWN)
    }

    /// A failure that the caller can fix: 400 `invalid_input`.
    pub fn invalid(stage: Stage, message: impl Into<String>) -> Self {
        RequestError::new(Code::InvalidInput, stage, message)
    }

    /// Inputs that are not as the endpoint's schema says: 400 `invalid_input`.
    pub fn violating(stage: Stage, violations: Vec<Violation>) -> Self {
        let mut failure = RequestError::invalid(stage, violation::line(&violations));
        failure.violations = violations;
        failure
    }

    /// The error as callers see it, without what only the log may know.
    pub fn told(&self) -> Self {
        RequestError::new(self.code, self.stage, self.message.clone())
    }

    /// The error as JSON, for the caller of the request with this id: `{"error", "code", "stage",
    /// "request_id"}`, and `detail` where callers may see it.
    pub fn to_json(&self, request_id: &str, with_detail: bool) -> Vec<u8> {
        let body = ErrorBody {
            error: &self.message,
            code: self.code.name(),
            stage: self.stage.name(),
            request_id,
            detail: self.detail.as_deref().filter(|_| with_detail),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// The seconds after which a caller that was refused may come back; `None` if its status is not 503.
    /// Rounded up: a caller that comes back a moment too early is refused once more.
    pub fn retry_seconds(&self) -> Option<u64> {
        let seconds = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
        (self.code.http() == 503).then(|| self.retry_after.map_or(RETRY_AFTER, seconds))
    }

    /// Adds what only the log may know.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }

    /// Adds to it what the handler wrote to stderr before it failed, if anything.
    #[must_use]
    pub fn with_last_lines(mut self, lines: &str) -> Self {
        if !lines.is_empty() {
            let detail = self.detail.take().map_or_else(String::new, |detail| detail + "\n");
            self.detail = Some(format!("{detail}stderr:\n{lines}"));
        }
        self
    }

    /// Says what exactly the handler did.
    #[must_use]
    pub fn by_plugin(mut self, fault: PluginFault) -> Self {
        self.plugin_fault = Some(fault);
        self
    }

    /// In which way the handler failed the request; `None` if it did not.
    #[inline]
    pub fn plugin_fault(&self) -> Option<PluginFault> {
        let of_code = PluginFault::of(self.code);
        // A code that is none stays none: a request's own time may be over while a handler starts.
        of_code.map(|fault| self.plugin_fault.unwrap_or(fault))
    }
}
