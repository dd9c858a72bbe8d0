//! A request at an endpoint, from its head to its answer.
//!
//! Place in the flow: `server` has a request [admitted](Endpoint::admit) by its head, receives its body and
//! [serves](AdmittedRequest::serve) it.
//! In: credentials, then a [`Request`]. Out: an [`Answer`].
//! Invariants: each request is counted once: by what becomes of it, or as `cancelled` if it is dropped before, for then its
//! client went away; one that would find the handler's breaker open is refused before its body is read.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::Guard;

use super::admission::Reservation;
use super::observers::{EndedRun, Observers, RunStart};
use super::{Endpoint, Generation, OnFault};
use crate::arrivals::Origin;
use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::{Output, Request};

/// A request that has a place at its endpoint.
pub struct AdmittedRequest<'a> {
    endpoint: &'a Endpoint,
    counted: bool,
    _reservation: Reservation<'a>,
}

/// What a run made of a request, and the generation it did it with.
pub struct Answer {
    /// What the caller gets.
    pub outcome: Result<Output, RequestError>,
    /// The generation that ran. Pinned rather than counted: every request of every thread would count at the same place.
    pub generation: Guard<Arc<Generation>>,
    /// From which stage on the handler had no part in it, because it failed there.
    pub bypassed: Option<Stage>,
}

impl Endpoint {
    /// Takes a request on, before anything of its body is read.
    ///
    /// # Errors
    /// `unauthorized`, `plugin_unavailable` or `overloaded`, counted already.
    pub fn admit<'a>(
        &self,
        credentials: impl FnOnce() -> Credentials<'a>,
    ) -> Result<AdmittedRequest<'_>, RequestError> {
        self.authorize(credentials)?;
        let counted = |refusal: &RequestError| self.metrics.error(refusal.code);
        self.refusal().map_or(Ok(()), Err).inspect_err(counted)?;
        let reservation = self.admission.try_reserve().inspect_err(counted)?;
        Ok(AdmittedRequest { endpoint: self, counted: false, _reservation: reservation })
    }

    /// Why no request can be answered now, unless it is answered without the handler or by a candidate: the breaker is open.
    fn refusal(&self) -> Option<RequestError> {
        if self.config.breaker.is_none() || self.config.on_fault == OnFault::Bypass {
            return None;
        }
        let generation = self.current.load();
        let breaker = generation.breaker.as_ref().filter(|breaker| breaker.is_open())?;
        let mut refusal = breaker.refusal(Instant::now()).filter(|_| self.trial().is_none())?;
        refusal.digest = generation.digest.clone();
        Some(refusal)
    }
}

impl AdmittedRequest<'_> {
    /// Waits for the request's body.
    ///
    /// # Errors
    /// `shutting_down` if the endpoint is closed before it is there, `overloaded` if another request gets its place.
    pub async fn arrive<F: Future>(&self, origin: Origin, body: F) -> Result<F::Output, RequestError> {
        self.endpoint.admission.arrive(origin, body).await
    }

    /// Ends a request that cannot be served, for its body cannot be had.
    pub fn refuse(mut self, error: &RequestError) {
        self.counted = true;
        self.endpoint.metrics.error(error.code);
    }

    /// Serves the request on the current generation, or on the candidate that is to answer it, to its end.
    pub async fn serve(mut self, request: Arc<Request>) -> Answer {
        let endpoint = self.endpoint;
        let mut start = RunStart::new(endpoint, &request);
        let observers = Observers::begin(&mut start);
        let RunStart { generation, plan, .. } = start;
        let mut report = RunReport::begin(request.arrived, &plan);
        let ended = {
            let run = pin!(self.run(&generation, &request, &plan, &mut report));
            endpoint.admission.while_open(run).await
        };
        // Guest code that runs when the server stops is ended as well: by an error, which is none of its own.
        let ended = ended.filter(|outcome| outcome.is_ok() || !endpoint.admission.is_closed());
        let mut outcome = ended.unwrap_or_else(|| Err(cut_off(report.stage())));
        self.counted = true;
        // Of a request that was answered without the handler: what the handler itself came to.
        let own = report.bypassed().map(|failure| Err(failure.told()));
        let handled = own.as_ref().unwrap_or(&outcome);
        observers.end(&EndedRun {
            endpoint,
            generation: &generation,
            request: &request,
            report: &report,
            outcome: &outcome,
            handled,
        });
        if let Err(error) = &mut outcome
            && error.code.is_fault()
        {
            error.digest = generation.digest.clone();
        }
        let bypassed = report.bypassed().map(|failure| failure.stage);
        Answer { outcome, generation, bypassed }
    }

    /// The run itself: it has its permit, its generation and its instance until it ends. Its response is whole then.
    async fn run(
        &self,
        generation: &Generation,
        request: &Arc<Request>,
        plan: &RunPlan,
        report: &mut RunReport,
    ) -> Result<Output, RequestError> {
        let acquire = pin!(self.endpoint.admission.acquire());
        let _permit = request.in_time(Stage::Admit, acquire).await?;
        report.end(Stage::Admit);
        generation.run(request, plan, report).await
    }
}

impl Drop for AdmittedRequest<'_> {
    fn drop(&mut self) {
        if !self.counted {
            self.endpoint.metrics.cancelled();
        }
    }
}

/// What a request is told that the server does not wait for.
fn cut_off(stage: Stage) -> RequestError {
    RequestError::new(Code::ShuttingDown, stage, "the server is shutting down")
}
