//! The spans of a request that is over: its own, and one for each stage.
//!
//! In: an [`EndedRequest`]. Out: spans of OTLP, with the attributes of OpenTelemetry's conventions for
//! servers of HTTP and gRPC, and this server's own below `modelhost.`; docs/tracing.md lists them.
//! Invariant: a stage lies within its request; every text is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::otlp::{KeyValue, Span, Status, attribute, kind};
use crate::error::{Code, Stage};
use crate::trace::{RequestTrace, RunFacts, SpanId};

/// The protocol of a request, and what it asks for.
#[derive(Debug)]
pub enum Operation {
    /// HTTP, with any protocol over it.
    Http {
        /// The method.
        method: Box<str>,
        /// The path, shortened.
        path: Box<str>,
        /// The path as it is configured, names of models left out; `None`: it leads nowhere.
        route: Option<Box<str>>,
        /// `http` or `https`.
        scheme: &'static str,
    },
    /// gRPC.
    Grpc {
        /// `/service/method`.
        path: &'static str,
    },
}

/// The status of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerStatus {
    /// HTTP's.
    Http(u16),
    /// gRPC's.
    Grpc(i32),
    /// The run knows: the handler has sent its answer by itself.
    Streamed,
}

/// A request, as far as it is known at its head.
#[derive(Debug)]
pub struct RequestFacts {
    /// The operation that it asks for.
    pub operation: Operation,
    /// Its endpoint, if it has one.
    pub endpoint: Option<Box<str>>,
    /// Its id.
    pub id: Arc<str>,
    /// When its head was there.
    pub arrived: Instant,
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct EndedRequest {
    pub trace: Arc<RequestTrace>,
    pub request: RequestFacts,
    /// `None`: its client went away.
    pub status: Option<AnswerStatus>,
    pub error: Option<(Code, String)>,
    pub ended: SystemTime,
    pub took: Duration,
}

/// Codes of gRPC that are the server's failures, by OpenTelemetry's convention.
const GRPC_FAILURES: [i32; 6] = [2, 4, 12, 13, 14, 15];
/// OTLP's code of an error.
const ERROR: i32 = 2;
/// OTLP's flags of a span: whether its parent is another process's, and whether that is known.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

impl EndedRequest {
    /// How many spans it has.
    pub(super) fn spans(&self) -> usize {
        1 + self.trace.run().map_or(0, |run| run.stages.iter().flatten().count() + usize::from(failed(run)))
    }

    /// Its spans, the request's own first.
    pub(super) fn into_spans(self, spans: &mut Vec<Span>) {
        let trace = self.trace.clone();
        let run = trace.run();
        let ended = nanoseconds(self.ended.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let started = ended.saturating_sub(nanoseconds(self.took));
        let own = &trace.own;
        let own_id = own.span.0.to_vec();
        let state = own.state.as_deref().unwrap_or_default();
        let flags = u32::from(own.sampled) | HAS_IS_REMOTE;
        spans.push(Span {
            trace_id: own.trace.0.to_vec(),
            span_id: own_id.clone(),
            trace_state: state.to_owned(),
            parent_span_id: trace.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
            name: self.request.operation.name(),
            kind: kind::SERVER,
            start_time_unix_nano: started,
            end_time_unix_nano: ended,
            attributes: self.attributes(run),
            status: self.failure(run),
            flags: if trace.parent.is_some() { flags | IS_REMOTE } else { flags },
        });
        let Some(run) = run else { return };
        let mut at = started;
        let mut child = |name: &str, until: u64, attributes: Vec<KeyValue>, status: Option<Status>| {
            let until = until.clamp(at, ended);
            spans.push(Span {
                trace_id: own.trace.0.to_vec(),
                span_id: SpanId::random().0.to_vec(),
                trace_state: state.to_owned(),
                parent_span_id: own_id.clone(),
                name: name.to_owned(),
                kind: kind::INTERNAL,
                start_time_unix_nano: at,
                end_time_unix_nano: until,
                attributes,
                status,
                flags,
            });
            at = until;
        };
        let mut until = started;
        for (stage, took) in Stage::ALL.into_iter().zip(run.stages) {
            let Some(took) = took else { continue };
            until = until.saturating_add(nanoseconds(took));
            let batch = run.batch.filter(|_| stage == Stage::Infer).map(|batch| batch as u64);
            let batch = batch.map(|batch| attribute("modelhost.batch.requests", batch));
            let bypassed = run.bypassed == Some(stage);
            let bypassed = bypassed.then(|| attribute("modelhost.bypassed", true));
            child(name(stage, run), until, batch.into_iter().chain(bypassed).collect(), None);
        }
        if let Some((stage, code)) = run.failed.filter(|_| failed(run)) {
            let until = started.saturating_add(nanoseconds(run.ended));
            let status = Status { message: String::new(), code: ERROR };
            child(name(stage, run), until, vec![attribute("error.type", code.name())], Some(status));
        }
    }

    fn attributes(&self, run: Option<&RunFacts>) -> Vec<KeyValue> {
        let mut attributes = Vec::with_capacity(12);
        match &self.request.operation {
            Operation::Http { method, path, route, scheme } => {
                attributes.push(attribute("http.request.method", &**method));
                attributes.push(attribute("url.path", &**path));
                attributes.push(attribute("url.scheme", *scheme));
                attributes.extend(route.as_deref().map(|route| attribute("http.route", route)));
                if let Some(status) = self.http_status(run) {
                    attributes.push(attribute("http.response.status_code", u64::from(status)));
                }
            }
            Operation::Grpc { path } => {
                let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
                attributes.push(attribute("rpc.system", "grpc"));
                attributes.push(attribute("rpc.service", service));
                attributes.push(attribute("rpc.method", method));
                if let Some(AnswerStatus::Grpc(code)) = self.status {
                    let code = u64::try_from(code).unwrap_or_default();
                    attributes.push(attribute("rpc.grpc.status_code", code));
                }
            }
        }
        attributes.push(attribute("modelhost.request.id", &*self.request.id));
        let endpoint = self.request.endpoint.as_deref();
        attributes.extend(endpoint.map(|endpoint| attribute("modelhost.endpoint", endpoint)));
        attributes.push(attribute("modelhost.outcome", self.outcome()));
        if let Some(run) = run {
            let digest = run.digest.as_deref();
            attributes.extend(digest.map(|digest| attribute("modelhost.handler.digest", digest)));
            attributes.push(attribute("modelhost.generation", run.generation));
            if run.is_cached {
                attributes.push(attribute("modelhost.cached", true));
            }
        }
        if let Some(kind) = self.error_type(run) {
            attributes.push(attribute("error.type", &*kind));
        }
        attributes
    }

    fn http_status(&self, run: Option<&RunFacts>) -> Option<u16> {
        match self.status? {
            AnswerStatus::Http(status) => Some(status),
            AnswerStatus::Streamed => run?.streamed,
            AnswerStatus::Grpc(_) => None,
        }
    }

    /// As the metric of requests has it.
    fn outcome(&self) -> &'static str {
        match &self.error {
            _ if self.is_cancelled() => "cancelled",
            Some((code, _)) => code.name(),
            None => "ok",
        }
    }

    fn is_cancelled(&self) -> bool {
        self.status.is_none() || self.trace.is_cancelled()
    }

    /// Whether the server has failed; what its client has done wrong, or has ended, is no failure of it.
    fn is_failure(&self, run: Option<&RunFacts>) -> bool {
        match self.status {
            _ if self.is_cancelled() => false,
            Some(AnswerStatus::Grpc(code)) => GRPC_FAILURES.contains(&code),
            _ => self.http_status(run).is_some_and(|status| status >= 500),
        }
    }

    fn error_type(&self, run: Option<&RunFacts>) -> Option<String> {
        if self.is_cancelled() {
            return Some("cancelled".to_owned());
        }
        let own = self.error.as_ref().map(|(code, _)| code.name().to_owned());
        let of_handler = || self.http_status(run).filter(|status| *status >= 500);
        own.or_else(|| of_handler().map(|status| status.to_string()))
    }

    fn failure(&self, run: Option<&RunFacts>) -> Option<Status> {
        let message = || self.error.as_ref().map(|(_, message)| message.clone()).unwrap_or_default();
        self.is_failure(run).then(|| Status { message: message(), code: ERROR })
    }
}

impl Operation {
    /// The name of a span, one of few.
    fn name(&self) -> String {
        match self {
            Operation::Http { method, route, .. } => match route {
                Some(route) => format!("{method} {route}"),
                None => method.to_string(),
            },
            Operation::Grpc { path } => path.trim_start_matches('/').to_owned(),
        }
    }
}

/// Whether a stage began and has no end of its own.
fn failed(run: &RunFacts) -> bool {
    let Some((stage, _)) = run.failed else { return false };
    run.stages.get(stage as usize).is_some_and(Option::is_none)
}

/// The name of a stage's span.
fn name(stage: Stage, run: &RunFacts) -> &'static str {
    match stage {
        Stage::Admit => "admission",
        Stage::PreInference if run.is_application => "respond",
        Stage::PreInference => "pre-inference",
        Stage::Queue => "queue",
        Stage::Infer => "inference",
        Stage::PostInference => "post-inference",
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
