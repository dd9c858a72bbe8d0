//! Counts a run: how it ended, how long its stages took, how many requests shared the model's run.

use super::{EndedRun, Observer, RunStart};

/// Writes the endpoint's metrics.
pub struct MetricsObserver;

impl Observer for MetricsObserver {
    fn begin(&mut self, _start: &mut RunStart<'_>) {}

    fn end(self, run: &EndedRun<'_>) {
        let (metrics, report) = (run.metrics, run.report);
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
