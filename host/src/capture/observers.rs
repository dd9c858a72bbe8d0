//! The observers that keep requests: for recordings and for the gate.
//!
//! Place in the flow: in the list of `rollout/observers.rs`. In: runs. Out: nothing that a request waits for.

use super::exchanges;
use super::record::Recorder;
use super::samples::{Samples, Way};
use crate::endpoint::observers::{EndedRun, Observer, RunStart};
use crate::error::RequestError;
use crate::pipeline::Pipeline;

/// Has a part of the runs recorded.
pub struct RecorderObserver<'a>(pub Option<&'a Recorder>);

/// Offers runs to the samples of the gate.
pub struct SamplesObserver<'a> {
    samples: Option<&'a Samples>,
    /// Of a run that is logged for it.
    way: Option<Way>,
}

impl<'a> SamplesObserver<'a> {
    /// For these samples.
    pub fn new(samples: Option<&'a Samples>) -> SamplesObserver<'a> {
        SamplesObserver { samples, way: None }
    }
}

/// Whether the gate needs more of a run than its request: what was sent to others or stored, or a
/// body that is read once.
fn has_to_be_logged(pipeline: &Pipeline) -> bool {
    let plugin = pipeline.plugin.as_ref();
    plugin.is_some_and(|plugin| {
        let config = plugin.config();
        plugin.stages().is_application() || config.grants.are_asked()
    })
}

impl Observer for RecorderObserver<'_> {
    fn begin(&mut self, start: &mut RunStart<'_>) {
        // What is said over a socket is not kept.
        if start.request.socket().is_some() {
            return;
        }
        if self.0.is_some_and(Recorder::takes_next) {
            start.plan.calls.log();
            start.plan.keeps_exchange = start.request.is_exchange();
        }
    }

    fn end(self, run: &EndedRun<'_>) {
        if let Some(recorder) = self.0
            && let Some(plugin) = &run.generation.pipeline.plugin
            && let Some(log) = run.report.log().filter(|log| log.is_of_instance())
        {
            let models = match plugin.calls_models() {
                true => run.generation.pipeline.models.signatures(),
                false => Vec::new(),
            };
            let (recorder, plugin, request) = (recorder.clone(), plugin.clone(), run.request.clone());
            let (log, handled) = (log.clone(), run.handled.as_ref().cloned().map_err(RequestError::told));
            exchanges::when_taken(run.request, run.handled, move || {
                recorder.record(&plugin, models, &request, &log, &handled);
            });
        }
    }
}

impl Observer for SamplesObserver<'_> {
    fn begin(&mut self, start: &mut RunStart<'_>) {
        if start.request.socket().is_some() {
            self.samples = None;
        }
        let Some(samples) = self.samples.filter(|_| has_to_be_logged(&start.generation.pipeline)) else {
            return;
        };
        self.way = samples.takes_next(start.request.arrived);
        if self.way.is_some() {
            start.plan.calls.log_calls();
            start.plan.keeps_exchange = start.request.is_exchange();
        }
    }

    fn end(self, run: &EndedRun<'_>) {
        let Some(samples) = self.samples else { return };
        if !has_to_be_logged(&run.generation.pipeline) {
            return samples.offer(run.request, run.handled);
        }
        if let Some((way, log)) = self.way.zip(run.report.log().cloned()) {
            let request = run.request.clone();
            let handled = run.handled.as_ref().cloned().map_err(RequestError::told);
            exchanges::when_taken(run.request, run.handled, move || way.offer(&request, &log, &handled));
        }
    }
}
