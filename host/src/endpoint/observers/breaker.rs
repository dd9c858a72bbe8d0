//! Counts and logs what a run says of its handler, and tells the handler's breaker.

use std::time::Instant;

use super::{EndedRun, Observer, RunStart};
use crate::endpoint::breaker::Probe;
use crate::error::RequestError;

/// Holds the probe, if the run is one.
#[derive(Default)]
pub struct BreakerObserver(Option<Probe>);

impl Observer for BreakerObserver {
    fn begin(&mut self, start: &mut RunStart<'_>) {
        let breaker = start.generation.breaker.as_ref().filter(|breaker| breaker.is_open());
        match breaker.map(|breaker| breaker.probe(Instant::now())) {
            None => {}
            Some(Ok(probe)) => self.0 = probe,
            Some(Err(refusal)) => start.plan.refusal = Some(refusal),
        }
    }

    fn end(self, run: &EndedRun<'_>) {
        let EndedRun { config, metrics, generation, request, report, .. } = run;
        let (name, digest) = (&config.name, generation.digest.as_deref());
        let failure = run.outcome.as_ref().err();
        let bypassed = report.bypassed();
        if let Some(why) = bypassed {
            metrics.bypassed.inc();
            if let Some(fault) = why.plugin_fault() {
                tracing::error!(request.id = %request.id, endpoint = %name, code = why.code.name(),
                    stage = why.stage.name(), fault = fault.name(), plugin.digest = digest,
                    detail = why.detail,
                    "request answered without the handler: {why}");
            }
        }
        let fault = bypassed.or(failure).and_then(RequestError::plugin_fault);
        if let Some(fault) = fault {
            metrics.fault(fault);
        }
        let Some(breaker) = &generation.breaker else { return };
        match (self.0, fault) {
            (Some(probe), Some(_)) => probe.ended(Instant::now(), false),
            // An answer of the handler's own; anything else says nothing of it.
            (Some(probe), None) if failure.is_none() && bypassed.is_none() && !run.is_of_another() => {
                probe.ended(Instant::now(), true);
                tracing::info!(endpoint = %name, plugin.digest = digest, "the handler works again, the breaker is closed");
            }
            (None, Some(_)) if breaker.fault(Instant::now(), metrics.served()) => {
                tracing::error!(endpoint = %name, plugin.digest = digest, generation = generation.number,
                    "the handler fails too often, the breaker is open");
            }
            _ => {}
        }
    }
}
