//! Jobs that a handler submits: the contract's `jobs`.
//!
//! Place in the flow: host functions of every linker; the endpoint's jobs are those of the handler's
//! configuration, [`JobAccess`]. In: a submission, an id. Out: the
//! answer of the store, or that of an earlier or a recorded run.
//! Invariants: only a client's request, or a job, stores one; what any other run submits is seen by itself
//! alone. A submission is answered when it is stored. Waiting for the store holds no thread, and counts as
//! no computing.

use wasmtime::Result;

use super::bindings::modelhost::handler::jobs::{self, Error};
use super::deadline::DeadlineExceeded;
use super::host_call_log::JobSource;
use super::settings::JobAccess;
use super::state::State;
use crate::jobs::handler::{
    HandlerJobError, JobAnswer, JobOp, JobOutcome, JobRequest, JobView, Submitter, webhook,
};
use crate::jobs::{JobState, LONGEST_URL, Submission};
use crate::request::dependencies::Dependency;
use crate::telemetry::metrics::Submitted;

impl From<HandlerJobError> for Error {
    fn from(error: HandlerJobError) -> Error {
        match error {
            HandlerJobError::Invalid(text) => Error::Invalid(text),
            HandlerJobError::Conflict => Error::Conflict,
            HandlerJobError::Limit(text) => Error::Limit(text),
            HandlerJobError::Unavailable(text) => Error::Unavailable(text),
        }
    }
}

impl From<JobView> for jobs::Job {
    fn from(job: JobView) -> jobs::Job {
        jobs::Job {
            id: job.id,
            state: match job.state {
                JobState::Queued => jobs::State::Queued,
                JobState::Running => jobs::State::Running,
                JobState::Completed => jobs::State::Completed,
                JobState::Failed => jobs::State::Failed,
                JobState::Cancelled => jobs::State::Cancelled,
            },
            attempt: job.attempt,
            attempts: job.attempts,
            submitted_ms: job.submitted,
            changed_ms: job.changed,
            error: job.error,
            status: job.status,
        }
    }
}

impl State {
    /// Does this with the endpoint's jobs.
    async fn jobs(&mut self, op: JobOp) -> Result<JobOutcome> {
        self.count_host_call();
        self.depends_on(Dependency::Jobs);
        let Some(access) = self.loaded.config.jobs.clone() else {
            return Ok(Err(HandlerJobError::Unavailable("the endpoint has no jobs".to_owned())));
        };
        let log = self.calls_log.clone();
        let number = match log.as_ref().map(|log| log.jobs_called(&op)) {
            None => None,
            Some(JobSource::Live(number)) => Some(number),
            Some(JobSource::Known(outcome) | JobSource::Recorded(outcome)) => return Ok(outcome),
            Some(JobSource::CutOff) => return Err(DeadlineExceeded::Cpu.into()),
            Some(JobSource::Diverged) => {
                return Err(wasmtime::Error::msg("the handler has left its recording"));
            }
        };
        let name = op.name();
        let outcome = match op {
            JobOp::Submit(wanted) => self.submit_job(&access, *wanted).await,
            op if self.calls_out => access.jobs.look(&op).await,
            op => self.written.jobs.get_or_insert_default().look(&access.jobs, &op).await,
        };
        if let Some(counts) = &access.counts {
            counts.asked(name, outcome.is_ok());
        }
        if let Some((log, number)) = log.zip(number) {
            log.jobs_answered(number, &outcome);
        }
        Ok(outcome)
    }

    async fn submit_job(&mut self, access: &JobAccess, wanted: JobRequest) -> JobOutcome {
        let checked = self.check_job(access, wanted);
        let is_live = self.calls_out;
        let outcome = match checked {
            Err(error) => Err(error),
            Ok(job) if is_live => access.jobs.submit(job).await,
            Ok(job) => Ok((self.written.jobs.get_or_insert_default().submit(job), true)),
        };
        self.written.job_count += u32::from(outcome.is_ok());
        if let Some(counts) = access.counts.as_ref().filter(|_| is_live) {
            counts.submitted(match &outcome {
                Ok((_, true)) => Submitted::Stored,
                Ok((_, false)) => Submitted::Repeated,
                Err(_) => Submitted::Refused,
            });
        }
        outcome.map(|(job, _)| JobAnswer::Job(Some(job)))
    }

    fn check_job(&self, access: &JobAccess, mut wanted: JobRequest) -> Result<Submission, HandlerJobError> {
        let invalid = |text: String| HandlerJobError::Invalid(text);
        let none = || invalid("jobs are submitted while a request is served, and none is".to_owned());
        let request = self.request.as_ref().ok_or_else(none)?;
        let by = Submitter {
            job_depth: request.head.job_depth(),
            submitted: self.written.job_count,
            has_paths: self.loaded.stages.is_application(),
        };
        let url = wanted.webhook.take();
        let mut job = access.jobs.check(wanted, by)?;
        if let Some(url) = url {
            if url.len() > LONGEST_URL {
                return Err(invalid(format!("the webhook is longer than {LONGEST_URL} bytes")));
            }
            let origin = access.webhook_places.origin(&url);
            let origin = origin.map_err(|error| invalid(format!("the webhook {error}")))?;
            job.webhook = Some(webhook(&url, origin));
        }
        Ok(job)
    }
}

fn job(outcome: JobOutcome) -> Result<Option<jobs::Job>, Error> {
    match outcome? {
        JobAnswer::Job(job) => Ok(job.map(jobs::Job::from)),
        JobAnswer::Answer { .. } | JobAnswer::NoAnswer => Err(unexpected()),
    }
}

fn unexpected() -> Error {
    Error::Unavailable("the store sent an unexpected response".to_owned())
}

impl jobs::Host for State {
    async fn submit(&mut self, submission: jobs::Submission) -> Result<Result<jobs::Job, Error>> {
        let wanted = JobRequest {
            path: submission.path,
            headers: submission.headers,
            body: submission.body,
            priority: submission.priority,
            delay: submission.delay_ms,
            wait: submission.wait_ms,
            attempts: submission.attempts,
            webhook: submission.webhook,
            idempotency_key: submission.idempotency_key,
        };
        let outcome = self.jobs(JobOp::Submit(Box::new(wanted))).await?;
        Ok(job(outcome).and_then(|job| job.ok_or_else(unexpected)))
    }

    async fn get(&mut self, id: String) -> Result<Result<Option<jobs::Job>, Error>> {
        Ok(job(self.jobs(JobOp::Get { id }).await?))
    }

    async fn get_answer(&mut self, id: String) -> Result<Result<Option<jobs::Answer>, Error>> {
        Ok(match self.jobs(JobOp::GetAnswer { id }).await? {
            Ok(JobAnswer::Answer { status, headers, body }) => {
                Ok(Some(jobs::Answer { status, headers, body }))
            }
            Ok(JobAnswer::NoAnswer) => Ok(None),
            Ok(JobAnswer::Job(_)) => Err(unexpected()),
            Err(error) => Err(error.into()),
        })
    }

    async fn cancel(&mut self, id: String) -> Result<Result<Option<jobs::Job>, Error>> {
        Ok(job(self.jobs(JobOp::Cancel { id }).await?))
    }
}
