//! The workers of the jobs: each takes a job when it is due and there is a place for it, and runs it as a
//! request of its own.
//!
//! Place in the flow: as many for an endpoint as `limits.job_concurrency`, from the moment that it is served
//! until it is served no more or the server stops. In: the store's jobs. Out: what came of each.
//! Invariants: a job is claimed with a permit in hand, which it gets only when no request waits for one, and
//! holds until its run has ended, work after the response included; none is claimed while the handler's
//! breaker is open; a claimed job is ended in the store, or found there as running by the next start; a swap
//! cuts no job, nor does a change of the endpoint.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::application::{self, ApplicationRoute};
use super::super::classic;
use super::super::route::EndpointRoute;
use super::answers::append;
use super::deliveries::Deliverer;
use super::task::{JobTask, PAUSE};
use crate::endpoint::admission::Permit;
use crate::endpoint::config::EndpointConfig;
use crate::error::Code;
use crate::jobs::{Answer, Job, JobState, Mode, Outcome};
use crate::rollout::deployment::Deployment;
use crate::server::head::{Head, X_JOB, X_JOB_ATTEMPT, X_REQUEST_ID, insert, visible};
use crate::server::served::Served;
use crate::telemetry::metrics::AttemptOutcome;

/// How much later than its request an attempt ends at the latest: the request's own error is the better one.
const GRACE: Duration = Duration::from_secs(1);
/// Headers of an answer that are not part of a result.
const NOT_KEPT: [&str; 6] =
    ["connection", "content-length", "date", "keep-alive", "transfer-encoding", "x-request-id"];

/// The workers of all endpoints, and those that send their webhooks.
#[derive(Default)]
pub struct JobWorkers {
    served: watch::Sender<Option<Arc<Served>>>,
    /// The endpoints that have workers, by name.
    followed: HashMap<String, Weak<Deployment>>,
    tasks: Vec<JoinHandle<()>>,
}

impl JobWorkers {
    /// From now on these endpoints are served: those that are new get workers, those of others end after the
    /// jobs that they are at.
    pub fn follow(&mut self, served: &Arc<Served>) {
        let Some(store) = &served.jobs else { return };
        self.served.send_replace(Some(served.clone()));
        self.tasks.retain(|task| !task.is_finished());
        self.followed.retain(|_, endpoint| endpoint.strong_count() > 0);
        for endpoint in served.endpoints.iter().filter(|endpoint| endpoint.config.jobs.mode != Mode::Off) {
            let name = &endpoint.config.name;
            let is_followed = |known: &Weak<Deployment>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(endpoint));
            if self.followed.get(name).is_some_and(is_followed) {
                continue;
            }
            self.followed.insert(name.clone(), Arc::downgrade(endpoint));
            let task = JobTask {
                endpoint: endpoint.clone(),
                store: store.clone(),
                queue: store.queue(name),
                served: self.served.subscribe(),
                drain: served.drain.clone(),
            };
            for _ in 0..endpoint.config.jobs.concurrency {
                self.tasks.push(tokio::spawn(Worker { task: task.clone() }.run()));
            }
            self.tasks.push(tokio::spawn(Deliverer { task }.run()));
        }
    }

    /// Waits until all have ended, which they do once the drain has begun.
    pub async fn ended(self) {
        for task in self.tasks {
            // One that has panicked has ended as well.
            let _ = task.await;
        }
    }
}

/// One worker.
struct Worker {
    task: JobTask,
}

impl Worker {
    async fn run(mut self) {
        let endpoint = self.task.endpoint.clone();
        let name = &endpoint.config.name;
        while let Some(served) = self.task.current() {
            if let Some(wait) = endpoint.job_wait() {
                drop(served);
                // A new handler may come before.
                self.task.rest(Some(wait.min(PAUSE)), std::future::pending()).await;
                continue;
            }
            match self.task.store.next_due(name).await {
                Ok(Some(Duration::ZERO)) => {}
                Ok(time) => {
                    drop(served);
                    self.rest(time).await;
                    continue;
                }
                Err(_) => {
                    self.rest(Some(PAUSE)).await;
                    // The next write opens a file again, and taking a job is one. For a store elsewhere no
                    // permit is held meanwhile.
                    if self.task.store.is_reachable().is_some() {
                        continue;
                    }
                }
            }
            let permit = tokio::select! {
                biased;
                () = self.task.drain.begun() => return,
                _ = self.task.served.changed() => continue,
                permit = endpoint.permit_job() => permit,
            };
            // Without one the endpoint is closed.
            let Some(permit) = permit else { return };
            if endpoint.job_wait().is_some() {
                continue;
            }
            match self.task.store.claim(name).await {
                Ok(Some((job, body))) => self.attempt(served, permit, job, body).await,
                Ok(None) => {}
                Err(_) => {
                    drop(permit);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits until there may be a job, or something else to do.
    async fn rest(&mut self, time: Option<Duration>) {
        let queue = self.task.queue.clone();
        self.task.rest(time, queue.wait()).await;
    }

    /// Runs a job that was claimed, and says what came of it.
    async fn attempt(&self, served: Arc<Served>, permit: Permit<'_>, job: Job, body: Bytes) {
        let EndpointConfig { name, jobs, .. } = &self.task.endpoint.config;
        let counts = &self.task.endpoint.metrics.jobs;
        let attempt = job.current();
        let mut running = self.task.queue.begin(&attempt.id);
        // One that was cancelled before it could be stopped.
        if let Ok(stored) = self.task.store.job(name, &attempt.id).await
            && !stored.is_some_and(|it| it.state == JobState::Running && it.current() == attempt)
        {
            counts.attempted(AttemptOutcome::Cancelled);
            return;
        }
        let route = EndpointRoute { endpoint: self.task.endpoint.clone(), served };
        let limit = jobs.timeout + GRACE;
        let mut run = tokio::spawn(async move {
            let _counted = route.served.activity.begin(Instant::now());
            let too_long = "it took longer than `limits.job_timeout`";
            let run = tokio::time::timeout(limit, outcome(&route, job, body));
            run.await.unwrap_or_else(|_| Outcome::Failed { error: too_long.to_owned(), answer: None })
        });
        let ended = tokio::select! {
            biased;
            () = running.stopped() => None,
            () = self.task.drain.over() => Some(Outcome::CutOff),
            outcome = &mut run => Some(outcome.unwrap_or_else(|_| {
                Outcome::Failed { error: "a defect of the server".to_owned(), answer: None }
            })),
        };
        if !run.is_finished() {
            run.abort();
            // Its permit is free when it is gone.
            let _ = run.await;
        }
        drop((permit, running));
        counts.attempted(match &ended {
            None => AttemptOutcome::Cancelled,
            Some(Outcome::NotTried { .. } | Outcome::CutOff) => AttemptOutcome::Postponed,
            Some(Outcome::Answered { is_ok: true, .. }) => AttemptOutcome::Completed,
            Some(Outcome::Answered { .. } | Outcome::Failed { .. }) => AttemptOutcome::Failed,
        });
        let Some(outcome) = ended else { return };
        // Until it is stored. What the end of the process cuts off here is tried again by the next.
        while self.task.store.end(name, &attempt, outcome.clone()).await.is_err() {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.task.drain.over() => return,
            }
        }
    }
}

/// Runs a job as a request to its endpoint.
async fn outcome(route: &EndpointRoute, job: Job, body: Bytes) -> Outcome {
    let config = &route.endpoint.config;
    let longest = config.limits.plugin.output;
    let Some(request) = request(config, &job, body) else {
        let error = "its path cannot be called any more".to_owned();
        return Outcome::Failed { error, answer: None };
    };
    let arrived = Instant::now();
    let (mut head, body) = Head::split(request);
    head.job_depth = Some(job.depth);
    let collected = if route.endpoint.is_application() {
        let prefix = config.path.trim_end_matches('/').to_owned();
        let route = EndpointRoute { endpoint: route.endpoint.clone(), served: route.served.clone() };
        application::call_to_end(&ApplicationRoute { route, prefix }, head, body, arrived, |response| {
            collect(response, longest)
        })
        .await
    } else {
        let response = classic::call(route, head, body, arrived).await;
        collect(response, longest).await
    };
    match collected {
        Ok((response, body)) => outcome_of(&response, body),
        Err(error) => Outcome::Failed { error, answer: None },
    }
}

/// The request that a job is.
fn request(config: &EndpointConfig, job: &Job, body: Bytes) -> Option<Request<Body>> {
    let path = match job.path.as_str() {
        "/" => config.path.clone(),
        path => format!("{}{path}", config.path.trim_end_matches('/')),
    };
    let uri = if job.query.is_empty() { path } else { format!("{path}?{}", job.query) };
    let mut request = Request::post(uri).body(Body::from(body)).ok()?;
    let headers = request.headers_mut();
    append(headers, &job.headers);
    insert(headers, X_REQUEST_ID, &job.id);
    insert(headers, X_JOB, &job.id);
    headers.insert(X_JOB_ATTEMPT, HeaderValue::from(job.attempt));
    Some(request)
}

/// The whole of a response, of at most `longest` bytes; or why it is not whole.
async fn collect(response: Response, longest: usize) -> Result<(Response<()>, Bytes), String> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, longest).collect().await.map_err(|error| {
        match error.downcast_ref::<LengthLimitError>() {
            Some(_) => format!("the answer is longer than {longest} bytes, `limits.output`"),
            None => "the answer broke off".to_owned(),
        }
    })?;
    Ok((Response::from_parts(parts, ()), body.to_bytes()))
}

/// The meaning of an answer for the job: it stands, is tried again, or was never tried.
fn outcome_of(response: &Response<()>, body: Bytes) -> Outcome {
    let (status, code) = (response.status(), response.extensions().get::<Code>().copied());
    if code == Some(Code::PluginUnavailable) {
        // This host takes no other one meanwhile, and another one may run it.
        return Outcome::NotTried { delay: Duration::ZERO };
    }
    if let Some(Code::Overloaded | Code::ShuttingDown | Code::NotReady | Code::ModelUnloaded) = code {
        let after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
        return Outcome::NotTried { delay: after.map_or(PAUSE, Duration::from_secs).max(PAUSE) };
    }
    let is_kept = |name: &str| !NOT_KEPT.contains(&name);
    let headers = visible(response.headers()).into_iter().filter(|(name, _)| is_kept(name));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let answer = Answer { status: status.as_u16(), headers, size: body.len() as u64 };
    let may_pass = status.is_server_error()
        || status == StatusCode::REQUEST_TIMEOUT
        || status == StatusCode::TOO_MANY_REQUESTS;
    if may_pass {
        let error = match code {
            Some(code) => format!("{}: {}", code.name(), code.summary()),
            None => format!("the handler answered {}", status.as_u16()),
        };
        return Outcome::Failed { error, answer: Some((answer, body)) };
    }
    Outcome::Answered { is_ok: !status.is_client_error(), answer, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_or_is_tried_again_or_was_never_tried() {
        let of = |status: u16, code: Option<Code>| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
            if let Some(code) = code {
                response.extensions_mut().insert(code);
            }
            match outcome_of(&response, Bytes::new()) {
                Outcome::Answered { is_ok: true, .. } => "completed".to_owned(),
                Outcome::Answered { .. } => "failed".to_owned(),
                Outcome::Failed { error, .. } => error,
                Outcome::NotTried { delay } => format!("after {delay:?}"),
                Outcome::CutOff => "cut off".to_owned(),
            }
        };
        for (status, code, expected) in [
            (200, None, "completed"),
            (302, None, "completed"),
            (400, Some(Code::InvalidInput), "failed"),
            (404, None, "failed"),
            (408, None, "the handler answered 408"),
            (429, None, "the handler answered 429"),
            (503, None, "the handler answered 503"),
            (500, Some(Code::PluginTrap), "plugin_trap: the handler crashed"),
            (504, Some(Code::RequestTimeout), "request_timeout: the request took longer than it may"),
            (503, Some(Code::Overloaded), "after 30s"),
            (503, Some(Code::PluginUnavailable), "after 0ns"),
            (503, Some(Code::ShuttingDown), "after 30s"),
        ] {
            assert_eq!(of(status, code), expected, "{status} {code:?}");
        }
    }
}
