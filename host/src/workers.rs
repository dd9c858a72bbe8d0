//! The workers of the jobs: each takes a job when it is due and there is a place for it, and has it run as a
//! request of its own.
//!
//! Place in the flow: as many for an endpoint as `limits.job_concurrency`, from the moment that it is served
//! until it is served no more or the server stops. In: the store's jobs. Out: what came of each; `run` has
//! the request of one, `deliveries` sends webhooks.
//! Invariants: a job is claimed with a permit in hand, which it gets only when no request waits for one, and
//! holds until its run has ended, work after the response included; none is claimed while the handler's
//! breaker is open; a claimed job is ended in the store, or found there as running by the next start; a swap
//! cuts no job, nor does a change of the endpoint.

mod deliveries;
pub mod headers;
mod message;
mod run;
mod task;
pub mod view;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::deliveries::Deliverer;
pub use self::message::{MessageForm, tag};
pub use self::task::JobContext;
use self::task::{JobTask, PAUSE};
use crate::endpoint::admission::Permit;
use crate::endpoint::config::EndpointConfig;
use crate::jobs::{Job, JobState, Mode, Outcome};
use crate::rollout::deployment::Deployment;
use crate::rollout::endpoints::Endpoints;
use crate::telemetry::metrics::AttemptOutcome;

/// How much later than its request an attempt ends at the latest: the request's own error is the better one.
const GRACE: Duration = Duration::from_secs(1);

/// The workers of all endpoints, and those that send their webhooks.
pub struct JobWorkers {
    /// `None` where no jobs are stored.
    context: Option<Arc<JobContext>>,
    served: watch::Sender<Option<Endpoints>>,
    /// The endpoints that have workers, by name.
    followed: HashMap<String, Weak<Deployment>>,
    tasks: Vec<JoinHandle<()>>,
}

impl JobWorkers {
    /// Workers of no endpoint yet.
    pub fn new(context: Option<JobContext>) -> JobWorkers {
        JobWorkers {
            context: context.map(Arc::new),
            served: watch::Sender::default(),
            followed: HashMap::new(),
            tasks: Vec::new(),
        }
    }

    /// From now on these endpoints are served: those that are new get workers, those of others end after the
    /// jobs that they are at.
    pub fn follow(&mut self, endpoints: &Endpoints) {
        let Some(context) = &self.context else { return };
        self.served.send_replace(Some(endpoints.clone()));
        self.tasks.retain(|task| !task.is_finished());
        self.followed.retain(|_, endpoint| endpoint.strong_count() > 0);
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.config.jobs.mode != Mode::Off) {
            let name = &endpoint.config.name;
            let is_followed = |known: &Weak<Deployment>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(endpoint));
            if self.followed.get(name).is_some_and(is_followed) {
                continue;
            }
            self.followed.insert(name.clone(), Arc::downgrade(endpoint));
            let task = JobTask {
                endpoint: endpoint.clone(),
                context: context.clone(),
                queue: context.store.queue(name),
                served: self.served.subscribe(),
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
        let (endpoint, context) = (self.task.endpoint.clone(), self.task.context.clone());
        let (name, store) = (&endpoint.config.name, &context.store);
        while self.task.goes_on() {
            if let Some(wait) = endpoint.job_wait() {
                // A new handler may come before.
                self.task.rest(Some(wait.min(PAUSE)), std::future::pending()).await;
                continue;
            }
            match store.next_due(name).await {
                Ok(Some(Duration::ZERO)) => {}
                Ok(time) => {
                    self.rest(time).await;
                    continue;
                }
                Err(_) => {
                    self.rest(Some(PAUSE)).await;
                    // The next write opens a file again, and taking a job is one. For a store elsewhere no
                    // permit is held meanwhile.
                    if store.is_reachable().is_some() {
                        continue;
                    }
                }
            }
            let permit = tokio::select! {
                biased;
                () = context.drain.begun() => return,
                _ = self.task.served.changed() => continue,
                permit = endpoint.permit_job() => permit,
            };
            // Without one the endpoint is closed.
            let Some(permit) = permit else { return };
            if endpoint.job_wait().is_some() {
                continue;
            }
            match store.claim(name).await {
                Ok(Some((job, body))) => self.attempt(permit, job, body).await,
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
    async fn attempt(&self, permit: Permit<'_>, job: Job, body: Bytes) {
        let JobTask { endpoint, context, queue, .. } = &self.task;
        let EndpointConfig { name, jobs, .. } = &endpoint.config;
        let counts = &endpoint.metrics.jobs;
        let attempt = job.current();
        let mut running = queue.begin(&attempt.id);
        // One that was cancelled before it could be stopped.
        if let Ok(stored) = context.store.job(name, &attempt.id).await
            && !stored.is_some_and(|it| it.state == JobState::Running && it.current() == attempt)
        {
            counts.attempted(AttemptOutcome::Cancelled);
            return;
        }
        let limit = jobs.timeout + GRACE;
        let (own_endpoint, own_context) = (endpoint.clone(), context.clone());
        let mut run = tokio::spawn(async move {
            let _counted = own_context.activity.begin(Instant::now());
            let too_long = "it took longer than `limits.job_timeout`";
            let run = tokio::time::timeout(limit, run::outcome(&own_endpoint, &own_context, &job, body));
            run.await.unwrap_or_else(|_| Outcome::Failed { error: too_long.to_owned(), answer: None })
        });
        let ended = tokio::select! {
            biased;
            () = running.stopped() => None,
            () = context.drain.over() => Some(Outcome::CutOff),
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
        while context.store.end(name, &attempt, outcome.clone()).await.is_err() {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = context.drain.over() => return,
            }
        }
    }
}
