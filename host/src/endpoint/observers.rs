//! The observers of an endpoint's runs: asked before a run what it needs, told afterwards what came of it.
//!
//! Place in the flow: [`AdmittedRequest::serve`](super::AdmittedRequest::serve) has them complete a
//! [`RunStart`] and shows them the [`EndedRun`]. The list of all is in `rollout/observers.rs`.
//! Invariants: an observer neither waits nor changes an outcome; one that is not configured costs a
//! comparison.

pub mod breaker;
pub mod debug_log;
pub mod metrics;
pub mod trace;
pub mod tracker;

use std::sync::Arc;

use arc_swap::Guard;

use super::config::EndpointConfig;
use super::generation::Generation;
use super::response_cache::CacheUse;
use crate::error::RequestError;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::{Output, Request};
use crate::telemetry::metrics::EndpointMetrics;

/// A run that is about to begin.
pub struct RunStart<'a> {
    /// The request.
    pub request: &'a Request,
    /// The generation that will answer it.
    pub generation: Guard<Arc<Generation>>,
    /// The plan of the run.
    pub plan: RunPlan,
}

/// A run that is over.
pub struct EndedRun<'a> {
    /// The endpoint's configuration.
    pub config: &'a EndpointConfig,
    /// The endpoint's metrics.
    pub metrics: &'a EndpointMetrics,
    /// The generation that answered.
    pub generation: &'a Generation,
    /// The request.
    pub request: &'a Arc<Request>,
    /// The report of the run.
    pub report: &'a RunReport,
    /// The caller's answer.
    pub outcome: &'a Result<Output, RequestError>,
    /// The part that the response cache had in the answer, if the endpoint has one.
    pub cached: Option<CacheUse>,
    /// The handler's outcome: another if the request was answered without it.
    pub handled: &'a Result<Output, RequestError>,
}

impl EndedRun<'_> {
    /// Whether the answer was another run's, so that it says nothing of the handler.
    pub fn is_of_another(&self) -> bool {
        matches!(self.cached, Some(CacheUse::Hit(_) | CacheUse::Collapsed))
    }
}

/// An observer of one run.
pub trait Observer {
    /// A run is about to begin: the observer adds to the plan what it needs to know.
    fn begin(&mut self, start: &mut RunStart<'_>);

    /// The run is over.
    fn end(self, run: &EndedRun<'_>);
}
