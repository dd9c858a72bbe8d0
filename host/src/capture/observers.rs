//! The observers that keep requests: for recordings and for the gate.
//!
//! Place in the flow: in the list of `rollout/observers.rs`. In: runs. Out: nothing that a request waits for.

use super::record::Recorder;
use super::samples::Samples;
use crate::endpoint::observers::{EndedRun, Observer, RunStart};

/// Has a part of the runs recorded.
pub struct RecorderObserver<'a>(pub Option<&'a Recorder>);

/// Offers runs to the samples of the gate.
pub struct SamplesObserver<'a>(pub Option<&'a Samples>);

impl Observer for RecorderObserver<'_> {
    fn begin(&mut self, start: &mut RunStart<'_>) {
        // What its own calls came to would be missing from the recording.
        let calls_others = || {
            let plugin = start.generation.pipeline.plugin.as_ref();
            plugin.is_some_and(|plugin| plugin.calls_models() || plugin.config().outbound.is_some())
        };
        if !start.request.is_exchange() && !calls_others() && self.0.is_some_and(Recorder::takes_next) {
            start.plan.calls.log();
        }
    }

    fn end(self, run: &EndedRun<'_>) {
        if let Some(recorder) = self.0
            && let Some(plugin) = &run.generation.pipeline.plugin
            && let Some(log) = run.report.log().filter(|log| log.is_of_instance())
        {
            recorder.record(plugin, run.request, log, run.handled);
        }
    }
}

impl Observer for SamplesObserver<'_> {
    fn begin(&mut self, _start: &mut RunStart<'_>) {}

    fn end(self, run: &EndedRun<'_>) {
        if let Some(samples) = self.0.filter(|_| !run.request.is_exchange()) {
            samples.offer(run.request, run.handled);
        }
    }
}
