//! Counts a run: how it ended, how long its stages took, how many requests shared the model's run.

use super::{EndedRun, RunStart};

pub(super) struct Observer;

impl super::Observer for Observer {
    fn begin(_start: &mut RunStart<'_>) -> Observer {
        Observer
    }

    fn end(self, run: &EndedRun<'_>) {
        let (metrics, report) = (&run.endpoint.metrics, run.report);
        match run.outcome {
            Ok(_) => metrics.ok(),
            Err(error) => metrics.error(error.code),
        }
        metrics.durations(run.request.arrived, report.elapsed(), run.outcome.is_ok(), report.durations());
        if let Some(requests) = report.batch() {
            metrics.run(requests);
        }
    }
}
