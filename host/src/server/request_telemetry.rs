//! The span of a request, and its part in the access log.
//!
//! Place in the flow: [`serve`](super::serve) begins it where tracing or the access log is on, and ends it
//! with the answer. In: the head of a request, and what became of it. Out: a trace, which the request
//! carries; a span if the trace is sampled; what the request's line has of its endpoint and its run.

use std::sync::Arc;

use axum::http::HeaderMap;

use crate::error::RequestError;
use crate::telemetry::access_log::{AccessEntry, ServedAccess, ServedFacts};
use crate::telemetry::traces::{AnswerStatus, RequestFacts, ServerSpan, Tracer};
use crate::trace::{RequestTrace, TRACEPARENT, TRACESTATE, TraceContext};

/// The span of one request and its part in the access log, each if there is one.
pub(super) struct RequestTelemetry {
    span: Option<ServerSpan>,
    access: Option<ServedAccess>,
}

impl RequestTelemetry {
    /// Begins the trace of a request with these headers; `None` if nothing is kept of it. `key`: the name of
    /// the key that lets it in.
    pub(super) fn begin(
        tracer: Option<&Arc<Tracer>>,
        access: Option<Arc<AccessEntry>>,
        headers: &HeaderMap,
        facts: impl FnOnce() -> RequestFacts,
        key: impl FnOnce() -> Option<Arc<str>>,
    ) -> Option<(Arc<RequestTrace>, RequestTelemetry)> {
        let lines = |name: &'static str| headers.get_all(name).into_iter().map(|value| value.as_bytes());
        let (parents, states) = (lines(TRACEPARENT), lines(TRACESTATE));
        let trace = match (tracer, &access) {
            (Some(tracer), _) => tracer.begin(parents, states, access.is_some()),
            (None, Some(_)) => Arc::new(RequestTrace::untraced(TraceContext::read(parents, states))),
            (None, None) => return None,
        };
        let tracer = tracer.filter(|_| trace.own.sampled);
        if tracer.is_none() && access.is_none() {
            return Some((trace, RequestTelemetry { span: None, access: None }));
        }
        let facts = facts();
        let access = access.map(|entry| {
            let (id, endpoint, trace) = (facts.id.clone(), facts.endpoint.clone(), trace.clone());
            entry.serve(|| ServedFacts { id, endpoint, key: key(), trace })
        });
        let span = tracer.map(|tracer| ServerSpan::begin(tracer, trace.clone(), facts));
        Some((trace, RequestTelemetry { span, access }))
    }

    /// The request has failed.
    pub(super) fn fail(&mut self, error: &RequestError) {
        if let Some(span) = &mut self.span {
            span.fail(error);
        }
        if let Some(access) = &mut self.access {
            access.fail(error.code);
        }
    }

    /// The request has its answer.
    pub(super) fn end(self, status: AnswerStatus) {
        if let Some(span) = self.span {
            span.end(status);
        }
        if let Some(access) = self.access {
            access.end(status);
        }
    }
}
