//! Has a part of the runs recorded.

use super::{EndedRun, RunStart};

pub(super) struct Observer;

impl super::Observer for Observer {
    fn begin(start: &mut RunStart<'_>) -> Observer {
        if let Some(recorder) = &start.endpoint.recorder
            && recorder.takes_next()
        {
            start.plan.calls.log();
        }
        Observer
    }

    fn end(self, run: &EndedRun<'_>) {
        if let Some(recorder) = &run.endpoint.recorder
            && let Some(plugin) = &run.generation.pipeline.plugin
            && let Some(log) = run.report.log().filter(|log| log.is_of_instance())
        {
            recorder.record(plugin, run.request, log, run.handled);
        }
    }
}
