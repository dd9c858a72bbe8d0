//! Leaves what is known of a run for the spans of its trace, and its trace among the metrics.

use super::{EndedRun, Observer, RunStart};
use crate::error::Stage;
use crate::request::Output;
use crate::trace::RunFacts;

/// Writes to the request's trace, if it has one that is sampled.
pub struct TraceObserver;

impl Observer for TraceObserver {
    fn begin(&mut self, _start: &mut RunStart<'_>) {}

    fn end(self, run: &EndedRun<'_>) {
        if let Some(trace) = &run.request.trace {
            trace.ran(|| facts(run));
            if trace.own.sampled && run.request.socket().is_none() {
                run.metrics.exemplar(trace.own.trace, run.report.elapsed());
            }
        }
    }
}

#[cold]
fn facts(run: &EndedRun<'_>) -> RunFacts {
    let EndedRun { generation, report, outcome, .. } = run;
    RunFacts {
        stages: Stage::ALL.map(|stage| report.duration(stage)),
        ended: report.elapsed(),
        batch: report.batch(),
        failed: outcome.as_ref().err().map(|error| (report.stage(), error.code)),
        bypassed: report.bypassed().map(|failure| failure.stage),
        digest: generation.digest.clone(),
        generation: generation.number,
        streamed: match outcome {
            Ok(Output::Streamed { status }) => Some(*status),
            _ => None,
        },
        is_application: generation.pipeline.is_application(),
        is_cached: run.is_of_another(),
    }
}
