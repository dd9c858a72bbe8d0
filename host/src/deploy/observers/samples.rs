//! Offers a run to the samples of the gate.

use super::{EndedRun, RunStart};

pub(super) struct Observer;

impl super::Observer for Observer {
    fn begin(_start: &mut RunStart<'_>) -> Observer {
        Observer
    }

    fn end(self, run: &EndedRun<'_>) {
        if let Some(samples) = &run.endpoint.samples {
            samples.offer(run.request, run.handled);
        }
    }
}
