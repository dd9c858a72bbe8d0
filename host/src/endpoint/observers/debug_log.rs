//! Logs what every stage of a run saw, if its client asked for that: `?debug=true`.

use super::{EndedRun, Observer, RunStart};
use crate::pipeline::debug;

/// Writes the log.
pub struct DebugLogObserver;

impl Observer for DebugLogObserver {
    fn begin(&mut self, start: &mut RunStart<'_>) {
        if start.request.debug {
            start.plan.calls.log_calls();
        }
    }

    fn end(self, run: &EndedRun<'_>) {
        if !run.request.debug {
            return;
        }
        let endpoint = &run.config.name;
        for (name, object) in debug::objects(run.request, run.report, run.outcome) {
            tracing::info!(endpoint = %endpoint, request.id = %run.request.id, "{name}: {object}");
        }
    }
}
