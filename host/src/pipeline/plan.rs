//! What a run is to do, decided before it begins.
//!
//! Place in the flow: made by the caller of [`Pipeline::run`](super::Pipeline::run): for a request by the
//! endpoint and its observers, for others (smoke test, gate, shadow, `host run`, `host replay`) by
//! themselves.
//! Invariant: a run changes nothing of its plan; what it did is in its [report](super::report).

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::error::RequestError;
use crate::plugin::InstanceSource;
use crate::plugin::host_call_log::{HostCallLog, KnownCalls};

/// The plan of a run. The default is a request of an endpoint that nothing looks at.
#[derive(Debug, Clone, Default)]
pub struct RunPlan {
    /// Where the handler's instance comes from. A run whose host calls are all logged gets a fresh one.
    pub instance: InstanceSource,
    /// The treatment of the host calls.
    pub calls: HostCalls,
    /// Whether the model may answer without the handler, should that fail.
    pub bypass: bool,
    /// Why the handler is not called at all: its breaker is open.
    pub refusal: Option<RequestError>,
    /// The workers that run the model; `None`: those that run the handler.
    pub model_runtime: Option<Handle>,
    /// Whether the handler's requests to others are sent; of any but a client's request they are denied.
    pub calls_out: bool,
    /// Whether the report says what the handler used.
    pub measures: bool,
    /// Whether the bodies of an exchange are kept while they pass.
    pub keeps_exchange: bool,
}

impl RunPlan {
    /// A run that neither uses instances of requests nor leaves anything in them.
    pub fn isolated() -> RunPlan {
        RunPlan { instance: InstanceSource::Fresh, ..RunPlan::default() }
    }
}

/// The treatment of the host calls of a run.
#[derive(Debug, Clone, Default)]
pub enum HostCalls {
    /// They are made, and forgotten.
    #[default]
    Live,
    /// They are made; those of models and the requests to others are logged.
    LogCalls,
    /// They are made and logged.
    Log,
    /// They are answered by these, where they ask models the same or send others the same. Nothing else is
    /// sent.
    Known(Arc<KnownCalls>),
    /// A recording answers them all.
    Replay(Arc<HostCallLog>),
}

impl HostCalls {
    /// Wants the calls of models and the requests to others logged.
    pub fn log_calls(&mut self) {
        if let HostCalls::Live = self {
            *self = HostCalls::LogCalls;
        }
    }

    /// Wants all calls logged.
    pub fn log(&mut self) {
        if let HostCalls::Live | HostCalls::LogCalls = self {
            *self = HostCalls::Log;
        }
    }

    /// The log of a run that begins now, if there is to be one.
    pub(super) fn open(&self) -> Option<Arc<HostCallLog>> {
        Some(match self {
            HostCalls::Live => return None,
            HostCalls::LogCalls => Arc::new(HostCallLog::of_calls(None)),
            HostCalls::Known(calls) => Arc::new(HostCallLog::of_calls(Some(calls.clone()))),
            HostCalls::Log => Arc::new(HostCallLog::blank()),
            HostCalls::Replay(recorded) => recorded.clone(),
        })
    }
}
