//! An endpoint that serves, and a request at it from its head to its answer.
//!
//! Place in the flow: `server` has a request [admitted](Endpoint::admit) by its head, receives its body and
//! [serves](AdmittedRequest::serve) it. What observes runs, or publishes other generations, is above:
//! `capture`, `rollout`.
//! In: credentials, then a [`Request`]. Out: an [`Answer`].
//! Invariants: the current generation is the only thing that changes while serving, by one atomic store,
//! handler and models together; a request that began on a generation ends on it; each request is counted
//! once: by what becomes of it, or as `cancelled` if it is dropped before, for then its client went away; one
//! that would find the handler's breaker open is refused before its body is read.

pub mod admission;
pub mod breaker;
pub mod config;
pub mod departures;
pub mod generation;
pub mod observers;
pub mod readiness;
pub mod response_cache;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use self::admission::{AdmissionQueue, Permit, Reservation};
use self::config::{EndpointConfig, OnFault};
use self::generation::Generation;
use self::observers::{EndedRun, Observer, RunStart};
use self::readiness::Readiness;
use self::response_cache::{CacheUse, Looked, ResponseCache};
use crate::arrivals::Origin;
use crate::error::{Code, RequestError, Stage};
use crate::keys::Credentials;
use crate::memory::{Account, EndpointAccount};
use crate::model::sequences::Sequences;
use crate::pipeline::RunFailure;
use crate::pipeline::models::Named;
use crate::pipeline::plan::RunPlan;
use crate::pipeline::report::RunReport;
use crate::request::{Input, Output, Request};
use crate::telemetry::metrics::{CacheFigures, EndpointMetrics};

/// An endpoint that serves.
pub struct Endpoint {
    /// As configured.
    pub config: EndpointConfig,
    /// Its metrics.
    pub metrics: EndpointMetrics,
    admission: AdmissionQueue,
    /// The places of its WebSockets, which wait for none.
    sockets: AdmissionQueue,
    /// Whether the endpoint is served no more.
    removed: watch::Sender<bool>,
    current: ArcSwap<Generation>,
    responses: Option<ResponseCache>,
    /// The readiness of an application, as it says itself.
    pub readiness: Readiness,
    /// The account of what its requests hold of the process's budget.
    pub memory: Account,
    /// Until it is dropped.
    _account: EndpointAccount,
}

/// A request that has a place at its endpoint.
pub struct AdmittedRequest<'a> {
    endpoint: &'a Endpoint,
    queue: &'a AdmissionQueue,
    counted: bool,
    origin: Origin,
    /// `None` of a job, which holds its permit already.
    reservation: Option<Reservation<'a>>,
}

/// The outcome of a run, and the generation that it ran on.
pub struct Answer {
    /// The caller's answer.
    pub outcome: Result<Output, RequestError>,
    /// The generation that ran. Pinned rather than counted: every request of every thread would count at the
    /// same place.
    pub generation: Guard<Arc<Generation>>,
    /// From which stage on the handler had no part in it, because it failed there.
    pub bypassed: Option<Stage>,
    /// The part that the response cache had in it, if there is one.
    pub cached: Option<CacheUse>,
}

impl Endpoint {
    /// An endpoint that serves its first generation.
    pub fn new(config: EndpointConfig, metrics: EndpointMetrics, first: Generation) -> Endpoint {
        let admission = AdmissionQueue::new(config.limits.concurrency, config.limits.queue);
        let current = ArcSwap::from_pointee(first);
        let sockets = AdmissionQueue::new(config.limits.sockets.open, 0);
        let (removed, readiness) = (watch::Sender::new(false), Readiness::default());
        let responses = config.response_cache.clone().map(ResponseCache::new);
        let account = EndpointAccount::open(&config.name);
        let memory = account.account();
        Endpoint {
            config,
            metrics,
            admission,
            sockets,
            removed,
            current,
            responses,
            readiness,
            memory,
            _account: account,
        }
    }

    /// The generation that new requests begin on.
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// The result of `read` on the generation that new requests begin on, without counting a reference.
    pub fn read_current<T>(&self, read: impl FnOnce(&Generation) -> T) -> T {
        read(&self.current.load())
    }

    /// Whether its handler is the whole program.
    pub fn is_application(&self) -> bool {
        self.read_current(|current| current.pipeline.is_application())
    }

    /// The one atomic store by which another generation takes over.
    pub fn publish(&self, generation: Arc<Generation>) {
        self.current.store(generation);
        if let Some(responses) = &self.responses {
            responses.clear();
        }
    }

    /// Whether a request may know of this endpoint more than that it is there. What a protocol tells of it or
    /// does with it asks here first; [`Endpoint::admit`] asks by itself.
    ///
    /// # Errors
    /// `unauthorized`, counted already.
    pub fn authorize<'a>(&self, credentials: impl FnOnce() -> Credentials<'a>) -> Result<(), RequestError> {
        if self.config.keys.admit(credentials) {
            return Ok(());
        }
        self.metrics.error(Code::Unauthorized);
        let message = format!("`{}` requires a key: send `authorization: Bearer KEY`", self.config.name);
        Err(RequestError::new(Code::Unauthorized, Stage::Admit, message))
    }

    /// Takes a request on, before anything of its body is read. `has_candidate`: another generation may
    /// answer it.
    ///
    /// # Errors
    /// `unauthorized`, `plugin_unavailable` or `overloaded`, counted already.
    pub fn admit<'a>(
        &self,
        credentials: impl FnOnce() -> Credentials<'a>,
        has_candidate: impl FnOnce() -> bool,
    ) -> Result<AdmittedRequest<'_>, RequestError> {
        self.authorize(credentials)?;
        self.check_breaker(has_candidate)?;
        let reservation = self.counted(self.admission.try_reserve())?;
        Ok(self.admitted(&self.admission, Some(reservation)))
    }

    /// Takes on the submission of a job, before anything of its body is read: it has a place of a request
    /// until it is dropped, and is counted as none. Its caller was authorized.
    ///
    /// # Errors
    /// `overloaded`, not counted: the submission is, however it is refused.
    pub fn admit_submission(&self) -> Result<AdmittedRequest<'_>, RequestError> {
        let reservation = Some(self.admission.try_reserve()?);
        Ok(AdmittedRequest {
            endpoint: self,
            queue: &self.admission,
            counted: true,
            origin: Origin::default(),
            reservation,
        })
    }

    /// Keeps a place for a request that is here and may not be served yet; it gives it back to be served.
    ///
    /// # Errors
    /// `overloaded`, counted already.
    pub fn admit_waiting(&self) -> Result<Reservation<'_>, RequestError> {
        self.counted(self.admission.try_reserve())
    }

    /// A permit for a job, after waiting until no request waits for one; `None` if the endpoint is closed.
    pub async fn permit_job(&self) -> Option<Permit<'_>> {
        self.admission.acquire_behind().await
    }

    /// How long no job can be run here, since the handler's breaker is open: none is to be taken that another
    /// host could run.
    pub fn job_wait(&self) -> Option<Duration> {
        // A candidate may answer it, and as a rule does not.
        let refusal = self.refusal(|| false)?;
        Some(refusal.retry_after.unwrap_or_default())
    }

    /// Takes a job on, which was let in when it was submitted, and for which a permit is held. It takes no
    /// place from requests.
    ///
    /// # Errors
    /// `plugin_unavailable`, counted already.
    pub fn admit_job(
        &self,
        has_candidate: impl FnOnce() -> bool,
    ) -> Result<AdmittedRequest<'_>, RequestError> {
        self.check_breaker(has_candidate)?;
        Ok(self.admitted(&self.admission, None))
    }

    /// Takes on a WebSocket, for as long as it is open. It takes no place of a request.
    ///
    /// # Errors
    /// As [`Endpoint::admit`]: `overloaded` if as many are open as may be.
    pub fn admit_socket<'a>(
        &self,
        credentials: impl FnOnce() -> Credentials<'a>,
    ) -> Result<AdmittedRequest<'_>, RequestError> {
        self.authorize(credentials)?;
        self.check_breaker(|| false)?;
        let full = |_| RequestError::new(Code::Overloaded, Stage::Admit, "too many WebSockets are open");
        let reservation = self.counted(self.sockets.try_reserve().map_err(full))?;
        Ok(self.admitted(&self.sockets, Some(reservation)))
    }

    /// Counts a refusal.
    fn counted<T>(&self, outcome: Result<T, RequestError>) -> Result<T, RequestError> {
        outcome.inspect_err(|refusal| self.metrics.error(refusal.code))
    }

    /// Refuses a request while the breaker is open.
    fn check_breaker(&self, has_candidate: impl FnOnce() -> bool) -> Result<(), RequestError> {
        self.counted(self.refusal(has_candidate).map_or(Ok(()), Err))
    }

    /// A request that is taken on, and not counted yet.
    fn admitted<'a>(
        &'a self,
        queue: &'a AdmissionQueue,
        reservation: Option<Reservation<'a>>,
    ) -> AdmittedRequest<'a> {
        AdmittedRequest { endpoint: self, queue, counted: false, origin: Origin::default(), reservation }
    }

    /// The endpoint is served no more: requests that have begun end on it, WebSockets are closed.
    pub fn remove(&self) {
        self.removed.send_replace(true);
    }

    /// Waits until it is served no more.
    pub async fn removed(&self) {
        // An error would mean that the sender is gone, and `self` holds it.
        let _ = self.removed.subscribe().wait_for(|removed| *removed).await;
    }

    /// Requests that have arrived and have no answer yet, and WebSockets whose handler has not ended.
    pub fn unanswered(&self) -> usize {
        self.admission.reserved() + self.sockets.reserved()
    }

    /// Requests that could be in flight beside those that are, now.
    pub fn free_places(&self) -> usize {
        let (in_flight, _) = self.admission.load();
        self.config.limits.concurrency.saturating_sub(in_flight)
    }

    /// Answers the requests that are here with `shutting_down`, and any that would have to wait for
    /// something.
    pub fn close(&self) {
        self.admission.close();
        self.sockets.close();
    }

    /// Brings the gauges up to date, before they are rendered.
    pub fn refresh_metrics(&self) {
        let (in_flight, queued) = self.admission.load();
        let gauge = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.metrics.in_flight.set(gauge(in_flight));
        self.metrics.queued.set(gauge(queued));
        self.metrics.memory.set(gauge(self.memory.held()));
        // Only of an endpoint that serves: another one of its name may have been loaded in vain.
        let current = self.current.load();
        self.metrics.generation.set(i64::try_from(current.number).unwrap_or(i64::MAX));
        self.metrics.breaker_open.set(current.is_open().into());
        self.metrics.predictions.refresh();
        if let Some((count, bytes)) = self.sequences() {
            self.metrics.sequences.set(count, bytes);
        }
        if let Some(figures) = self.response_cache() {
            self.metrics.responses.set(figures);
        }
    }

    /// How many sequences there are of its models that keep state, and the bytes of that.
    fn sequences(&self) -> Option<(usize, usize)> {
        let current = self.current.load();
        let handles = current.models().0.iter().flat_map(Named::handles);
        let figures = handles.filter_map(|handle| handle.sequences().map(Sequences::figures));
        figures.reduce(|(count, bytes), (more, of_these)| (count + more, bytes + of_these))
    }

    /// The figures of its response cache, if it has one.
    pub fn response_cache(&self) -> Option<CacheFigures> {
        self.responses.as_ref().map(ResponseCache::figures)
    }

    /// Why no request can be answered now, unless it is answered without the handler or by a candidate: the
    /// breaker is open.
    fn refusal(&self, has_candidate: impl FnOnce() -> bool) -> Option<RequestError> {
        if self.config.breaker.is_none() || self.config.on_fault == OnFault::Bypass {
            return None;
        }
        let generation = self.current.load();
        let breaker = generation.breaker.as_ref().filter(|breaker| breaker.is_open())?;
        let mut refusal = breaker.refusal(Instant::now()).filter(|_| !has_candidate())?;
        refusal.digest = generation.digest.clone();
        Some(refusal)
    }
}

impl AdmittedRequest<'_> {
    /// Waits for the request's body.
    ///
    /// # Errors
    /// `shutting_down` if the endpoint is closed before it is there, `overloaded` if another request gets its
    /// place.
    pub fn arrive<F: Future + Unpin>(
        &mut self,
        origin: Origin,
        body: F,
    ) -> impl Future<Output = Result<F::Output, RequestError>> {
        self.origin = origin;
        self.queue.arrive(origin, body)
    }

    /// Ends a request whose body could not be read.
    pub fn refuse(mut self, error: &RequestError) {
        self.counted = true;
        self.endpoint.metrics.error(error.code);
    }

    /// Serves the request on the current generation, or on one that an observer has chosen, to its end.
    ///
    /// # Errors
    /// [`RunFailure::ClientGone`]: the request counts as cancelled.
    pub async fn serve(
        mut self,
        request: Arc<Request>,
        mut observers: impl Observer,
    ) -> Result<Answer, RunFailure> {
        let endpoint = self.endpoint;
        let bypass = endpoint.config.on_fault == OnFault::Bypass;
        let plan = RunPlan { bypass, calls_out: true, ..RunPlan::default() };
        let generation = match request.socket() {
            None => endpoint.current.load(),
            // Of those that are pinned a thread has a few; a socket may be open for days.
            Some(_) => Guard::from_inner(endpoint.current.load_full()),
        };
        let mut start = RunStart { request: &request, generation, plan };
        observers.begin(&mut start);
        let RunStart { generation, plan, .. } = start;
        let mut report = RunReport::begin(request.arrived, &plan);
        let mut cached = None;
        // What goes to a client piece by piece may have to make way. A job takes no place from requests.
        let progress = match &request.input {
            Input::Exchange(exchange) => Some(exchange.progress()),
            Input::Socket(socket) => Some(socket.progress()),
            Input::Body(..) | Input::Tensors(_) => None,
        };
        let progress = progress.filter(|_| self.reservation.is_some());
        let _departure = progress.map(|progress| self.queue.departures().begin(self.origin, progress));
        // A socket is no answer that could be kept.
        let ended = match endpoint.responses.as_ref().filter(|_| request.socket().is_none()) {
            None => {
                let run = pin!(self.run(&generation, &request, &plan, &mut report));
                self.queue.while_open(run).await
            }
            Some(cache) => {
                let run = self.run_cached(cache, &generation, &request, &plan, &mut report, &mut cached);
                self.queue.while_open(Box::pin(run)).await
            }
        };
        // Guest code that runs when the server stops is ended as well: by an error, which is none of its own.
        let ended = ended.filter(|outcome| outcome.is_ok() || !self.queue.is_closed());
        let mut outcome = match ended {
            Some(Ok(output)) => Ok(output),
            Some(Err(RunFailure::Failed(error))) => Err(error),
            Some(Err(RunFailure::ClientGone)) => return Err(RunFailure::ClientGone),
            None => Err(RequestError::shutting_down(report.stage())),
        };
        self.counted = true;
        if let Input::Exchange(exchange) = &request.input {
            // Observers may hold the request for as long as they like.
            exchange.close();
        }
        // Of a request that was answered without the handler: what the handler itself came to.
        let own = report.bypassed().map(|failure| Err(failure.told()));
        let handled = own.as_ref().unwrap_or(&outcome);
        observers.end(&EndedRun {
            config: &endpoint.config,
            metrics: &endpoint.metrics,
            generation: &generation,
            request: &request,
            report: &report,
            outcome: &outcome,
            cached,
            handled,
        });
        if let Err(error) = &mut outcome
            && error.code.is_fault()
        {
            error.digest = generation.digest.clone();
        }
        let bypassed = report.bypassed().map(|failure| failure.stage);
        Ok(Answer { outcome, generation, bypassed, cached })
    }

    /// The answer to a request at an endpoint with a cache: from there, or of a run. `used`: which of both.
    async fn run_cached(
        &self,
        cache: &ResponseCache,
        generation: &Generation,
        request: &Arc<Request>,
        plan: &RunPlan,
        report: &mut RunReport,
        used: &mut Option<CacheUse>,
    ) -> Result<Output, RunFailure> {
        let lead = match cache.look(request, generation, plan, used).await? {
            Looked::Answer(output) => return Ok(output),
            Looked::Run(lead) => lead,
        };
        let outcome = self.run(generation, request, plan, report).await;
        if let Some(lead) = lead {
            cache.end(lead, outcome.as_ref().ok(), report, request.memory);
        }
        outcome
    }

    /// The run itself: it has its permit, its generation and its instance until it ends. Its response is
    /// whole then.
    async fn run(
        &self,
        generation: &Generation,
        request: &Arc<Request>,
        plan: &RunPlan,
        report: &mut RunReport,
    ) -> Result<Output, RunFailure> {
        let _permit = match self.reservation {
            Some(_) => {
                let acquire = pin!(self.queue.acquire());
                Some(request.in_time(Stage::Admit, acquire).await?)
            }
            None => None,
        };
        report.end(Stage::Admit);
        let mut output = generation.pipeline.run(request, plan, report).await?;
        if let Output::Response(response) = &mut output {
            // It was in the handler's memory, and may be with a slow client for long.
            let body = request.memory.own(std::mem::take(&mut response.body));
            response.body = body.map_err(|full| full.at(Stage::PostInference))?;
        }
        Ok(output)
    }
}

impl Drop for AdmittedRequest<'_> {
    fn drop(&mut self) {
        if !self.counted {
            self.endpoint.metrics.cancelled();
        }
    }
}
