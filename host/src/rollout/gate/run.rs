//! One sample through one handler.

use std::sync::Arc;
use std::time::Instant;

use crate::capture::compare::Outcome;
use crate::capture::exchanges;
use crate::capture::samples::Sample;
use crate::endpoint::config::EndpointConfig;
use crate::error::Code;
use crate::pipeline::Pipeline;
use crate::pipeline::debug;
use crate::pipeline::models::Handle;
use crate::pipeline::plan::{HostCalls, RunPlan};
use crate::pipeline::report::RunReport;
use crate::plugin::host_call_log::KnownCalls;
use crate::request::Output;
use crate::rollout::gate_report::RunCost;

/// The parts that all runs of a sample share.
pub(super) struct Runner<'a> {
    pub(super) config: &'a EndpointConfig,
    /// When there is no more time.
    pub(super) until: Instant,
    /// The request's id, the same for both handlers: it may be part of an answer.
    pub(super) id: String,
    /// Whether what the stages made is to be shown.
    pub(super) debug: bool,
}

/// The outcome of one run.
pub(super) struct Run {
    pub(super) outcome: Outcome,
    /// The handler's calls of models and of others.
    pub(super) calls: Arc<KnownCalls>,
    pub(super) taken: Option<RunCost>,
    /// The objects of each stage, cut to be readable; empty unless they are to be shown.
    pub(super) objects: Vec<(&'static str, String)>,
}

impl Runner<'_> {
    /// Sends the sample through `pipeline`; what `known` has asked of models or sent to others is answered by
    /// it, and nothing else is sent.
    pub(super) async fn run(&self, pipeline: &Pipeline, sample: &Sample, known: &Arc<KnownCalls>) -> Run {
        let limits = &self.config.limits;
        let deadline = self.until.min(Instant::now() + limits.request_timeout);
        let (request, client) = sample.request(&self.id, deadline, limits.body, pipeline.is_application());
        let request = Arc::new(request);
        let calls = HostCalls::Known(known.clone());
        let plan = RunPlan { calls, measures: true, ..RunPlan::isolated() };
        let mut report = RunReport::begin(request.arrived, &plan);
        let run = exchanges::run(pipeline, &request, client, self.until, &plan, &mut report);
        let outcome = run.await;
        let objects = if self.debug { debug::objects(&request, &report, &outcome) } else { Vec::new() };
        let calls = match report.log() {
            Some(log) => {
                log.settle().await;
                log.calls()
            }
            None => KnownCalls::default(),
        };
        Run { outcome, calls: Arc::new(calls), taken: report.usage().map(RunCost::from), objects }
    }
}

impl Run {
    /// Why it came to nothing, if the host had no place for it or failed: what the handler would have said is
    /// unknown, so it must not pass for examined.
    pub(super) fn untried(&self) -> Option<Code> {
        let code = self.outcome.as_ref().err()?.code;
        matches!(code, Code::Overloaded | Code::Internal).then_some(code)
    }

    /// The reason why it failed, if it is one that no handler can mend.
    pub(super) fn unavailable(&self) -> Option<Code> {
        const OURS: [Code; 4] = [Code::ShuttingDown, Code::NotReady, Code::ModelUnloaded, Code::NotFound];
        self.outcome.as_ref().err().map(|error| error.code).filter(|code| OURS.contains(code))
    }
}

/// Whether a sample goes to the same loaded model in both.
pub(super) fn share_a_model(old: &Pipeline, new: &Pipeline, sample: &Sample) -> bool {
    if old.is_application() {
        // It may call any of them.
        let loaded = |pipeline: &Pipeline| -> Vec<_> {
            let handles = pipeline.models.0.iter().map(|named| named.handle.as_ref());
            handles.map(|handle| handle.and_then(Handle::model).map(Arc::as_ptr)).collect()
        };
        return loaded(old) == loaded(new);
    }
    let (request, _) = sample.request("", Instant::now(), 0, false);
    match (old.models.of(&request), new.models.of(&request)) {
        (Ok(None), Ok(None)) => true,
        (Ok(Some(old)), Ok(Some(new))) => old.runs_those_of(new),
        _ => false,
    }
}

/// Bytes that there are to compare.
pub(super) fn size(outcome: &Outcome) -> usize {
    match outcome {
        Ok(Output::Response(response)) => response.body.len(),
        Ok(Output::Tensors(tensors)) => tensors.iter().map(|tensor| tensor.data.len()).sum(),
        Ok(Output::Streamed { .. }) | Err(_) => 0,
    }
}
