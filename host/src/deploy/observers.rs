//! The observers of an endpoint's runs: asked before a run what it needs, told afterwards what came of it.
//!
//! Place in the flow: [`AdmittedRequest::serve`](super::admitted::AdmittedRequest::serve) makes a [`RunStart`], has the observers
//! complete it, and shows them the [`EndedRun`]. A new observer is one file and one line in the list below.
//! Invariants: an observer neither waits nor changes an outcome; one that is not configured costs a comparison.

mod breaker;
mod debug_log;
mod metrics;
mod recorder;
mod samples;

use std::sync::Arc;

use arc_swap::Guard;

use super::trial::TrialParticipation;
use super::{Endpoint, Generation, OnFault};
use crate::error::RequestError;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::{Output, Request};

/// A run that is about to begin.
pub(super) struct RunStart<'a> {
    pub endpoint: &'a Endpoint,
    pub request: &'a Request,
    pub generation: Guard<Arc<Generation>>,
    pub plan: RunPlan,
}

/// A run that is over.
pub(super) struct EndedRun<'a> {
    pub endpoint: &'a Endpoint,
    pub generation: &'a Generation,
    pub request: &'a Arc<Request>,
    pub report: &'a RunReport,
    /// What the caller gets.
    pub outcome: &'a Result<Output, RequestError>,
    /// What the handler came to: another thing if the request was answered without it.
    pub handled: &'a Result<Output, RequestError>,
}

/// What an observer keeps of a run between its beginning and its end.
pub(super) trait Observer: Sized {
    /// A run is about to begin: the observer adds to the plan what it needs to know.
    fn begin(start: &mut RunStart<'_>) -> Self;

    /// The run is over.
    fn end(self, run: &EndedRun<'_>);
}

impl<'a> RunStart<'a> {
    /// A run of `request` on the current generation.
    pub fn new(endpoint: &'a Endpoint, request: &'a Request) -> RunStart<'a> {
        let plan = RunPlan { bypass: endpoint.config.on_fault == OnFault::Bypass, ..RunPlan::default() };
        RunStart { endpoint, request, generation: endpoint.current.load(), plan }
    }
}

macro_rules! observers {
    ($($name:ident: $observer:ty),* $(,)?) => {
        /// All of them, statically dispatched, in the order in which they are asked and told.
        pub(super) struct Observers {
            $($name: $observer),*
        }

        impl Observers {
            pub fn begin(start: &mut RunStart<'_>) -> Observers {
                $(let $name = <$observer>::begin(start);)*
                Observers { $($name),* }
            }

            pub fn end(self, run: &EndedRun<'_>) {
                $(self.$name.end(run);)*
            }
        }
    };
}

observers! {
    // First: it may choose another generation.
    trial: Option<TrialParticipation>,
    recorder: recorder::Observer,
    samples: samples::Observer,
    metrics: metrics::Observer,
    debug_log: debug_log::Observer,
    // After the metrics: it compares faults with requests that were counted.
    breaker: breaker::Observer,
}
