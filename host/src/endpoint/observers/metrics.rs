//! Counts a run: how it ended, how long its stages took, how many requests shared the model's run.

use super::{EndedRun, Observer, RunStart};

/// Writes the endpoint's metrics.
pub struct MetricsObserver;

impl Observer for MetricsObserver {
    fn begin(&mut self, _start: &mut RunStart<'_>) {}

    fn end(self, run: &EndedRun<'_>) {
        let (metrics, report) = (run.metrics, run.report);
        match run.outcome {
            Ok(output) => metrics.ok(output.status()),
            Err(error) => metrics.error(error.code),
        }
        if is_not_the_breakers(run) {
            metrics.of_another();
        }
        // A socket is answered when it opens, and may be open for days.
        let opened = run.request.socket().and_then(|socket| socket.opened());
        let total =
            opened.map_or_else(|| report.elapsed(), |at| at.saturating_duration_since(run.request.arrived));
        metrics.durations(run.request.arrived, total, run.outcome.is_ok(), report.durations());
        if let Some(requests) = report.batch() {
            metrics.run(requests);
        }
    }
}

/// Whether an answer is to be left out by the endpoint's breaker, if it has one: another run's, or that of a
/// candidate, which has none.
fn is_not_the_breakers(run: &EndedRun<'_>) -> bool {
    run.config.breaker.is_some() && (run.is_of_another() || run.generation.breaker.is_none())
}
