//! Logs what every stage of a run saw, if its client asked for that: `?debug=true`.

use super::{EndedRun, RunStart};
use crate::pipeline::debug;

pub(super) struct Observer;

impl super::Observer for Observer {
    fn begin(start: &mut RunStart<'_>) -> Observer {
        if start.request.debug {
            start.plan.calls.log_model();
        }
        Observer
    }

    fn end(self, run: &EndedRun<'_>) {
        if !run.request.debug {
            return;
        }
        let endpoint = &run.endpoint.config.name;
        for (name, object) in debug::objects(run.request, run.report, run.outcome) {
            tracing::info!(endpoint = %endpoint, request.id = %run.request.id, "{name}: {object}");
        }
    }
}
