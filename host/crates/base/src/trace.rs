//! The trace that a request is part of, and what its run leaves for the spans that are made of it afterwards.
//!
//! Place in the flow: `server/serve.rs` begins one where tracing or the access log is on; the request carries
//! it; an observer of the run leaves [`RunFacts`]; `telemetry/traces` makes spans of both once the request is
//! answered, `telemetry/access_log` a line.
//! Invariant: with both off there is none, and nothing of this is made.

mod context;
mod sampler;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use uuid::Uuid;

pub use self::context::{LONGEST_STATE, SpanId, TRACEPARENT, TRACESTATE, TraceContext, TraceId};
pub use self::sampler::Sampler;
use crate::error::{Code, Stage};

/// The trace of one request, from its head to its answer.
#[derive(Debug)]
pub struct RequestTrace {
    /// The request's own span, where tracing is on.
    pub own: TraceContext,
    /// The client's span, if it has one.
    pub parent: Option<SpanId>,
    /// Whether it is told to others, and goes on with what the request asks for.
    is_traced: bool,
    /// Whether the facts of the run are wanted.
    is_kept: bool,
    run: OnceLock<RunFacts>,
    is_cancelled: AtomicBool,
}

/// The facts of a run that is over.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// How long each stage that ended took, in the order of the flow.
    pub stages: [Option<Duration>; Stage::ALL.len()],
    /// From the request's arrival to the end of the run.
    pub ended: Duration,
    /// Requests that shared the run of the model.
    pub batch: Option<usize>,
    /// The stage in which the run failed, and how.
    pub failed: Option<(Stage, Code)>,
    /// The stage from which on the handler had no part in the answer.
    pub bypassed: Option<Stage>,
    /// SHA-256 of the handler.
    pub digest: Option<Arc<str>>,
    /// The generation that answered.
    pub generation: u64,
    /// The status of an answer that the handler has sent by itself.
    pub streamed: Option<u16>,
    /// Whether the handler is the whole program.
    pub is_application: bool,
    /// Whether the answer came from the response cache.
    pub is_cached: bool,
}

impl RequestTrace {
    /// The trace of a request, a new one without a parent. `is_logged`: the access log wants to know of it.
    pub fn begin(parent: Option<TraceContext>, sampler: Sampler, is_logged: bool) -> RequestTrace {
        let trace = parent.as_ref().map_or_else(TraceId::random, |parent| parent.trace);
        let sampled = sampler.samples(trace, parent.as_ref());
        let (parent, state) = parent.map_or((None, None), |parent| (Some(parent.span), parent.state));
        let own = TraceContext { trace, span: SpanId::random(), sampled, state };
        RequestTrace::of(own, parent, true, sampled || is_logged)
    }

    /// The trace of a request where tracing is off: its client's, for the access log.
    pub fn untraced(parent: Option<TraceContext>) -> RequestTrace {
        let (trace, span) = parent.map_or((TraceId([0; 16]), None), |it| (it.trace, Some(it.span)));
        let own = TraceContext { trace, span: SpanId([0; 8]), sampled: false, state: None };
        RequestTrace::of(own, span, false, true)
    }

    fn of(own: TraceContext, parent: Option<SpanId>, is_traced: bool, is_kept: bool) -> RequestTrace {
        let (run, is_cancelled) = (OnceLock::new(), AtomicBool::new(false));
        RequestTrace { own, parent, is_traced, is_kept, run, is_cancelled }
    }

    /// The context that requests to others carry on; `None` where tracing is off.
    pub fn context(&self) -> Option<&TraceContext> {
        self.is_traced.then_some(&self.own)
    }

    /// The trace's id; `None` if there is no trace of it anywhere.
    pub fn id(&self) -> Option<TraceId> {
        (self.is_traced || self.parent.is_some()).then_some(self.own.trace)
    }

    /// Keeps what is known of the run.
    pub fn ran(&self, facts: impl FnOnce() -> RunFacts) {
        if self.is_kept {
            self.run.get_or_init(facts);
        }
    }

    /// The facts of the run; `None`: there was none, or it did not come to its end.
    pub fn run(&self) -> Option<&RunFacts> {
        self.run.get()
    }

    /// The client went away.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the client went away.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// 64 random bits: the fixed ones of a UUID lie where the other half has random ones.
fn random() -> u64 {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    high ^ low
}
