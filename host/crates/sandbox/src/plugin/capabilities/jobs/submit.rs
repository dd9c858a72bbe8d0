//! `jobs`: the endpoint's jobs, asked for by the guest.
//!
//! Place in the flow: called while any function of a handler runs. In: a submission, an id. Out: the answer
//! of the store, or that of an earlier or a recorded run.
//! Invariants: only a client's request, or a job, stores one; what any other run submits is seen by itself
//! alone. A submission is answered when it is stored. Waiting for the store holds no thread, and counts as
//! no computing.

use wasmtime::Result;

use super::{Granted, Jobs};
use crate::jobs::handler::{
    HandlerJobError, JobAnswer, JobCall, JobOp, JobOutcome, JobRequest, JobView, Submitter, webhook,
};
use crate::jobs::{JobState, LONGEST_URL, Submission};
use crate::plugin::bindings::modelhost::handler::jobs::{self, Error};
use crate::plugin::capability::{View, Way};
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

impl View<'_, Jobs> {
    /// Does this with the endpoint's jobs.
    async fn jobs(&mut self, op: JobOp) -> Result<JobOutcome> {
        self.kernel.count_host_call();
        self.note_dependency();
        let Some(granted) = self.granted else {
            return Ok(Err(HandlerJobError::Unavailable("the endpoint has no jobs".to_owned())));
        };
        let number = match self.kernel.look_up(|| JobCall { op: op.clone(), answer: None })? {
            Way::Live(number) => number,
            Way::Known(outcome) | Way::Recorded(outcome) => return Ok(outcome),
        };
        let name = op.name();
        let outcome = match op {
            JobOp::Submit(wanted) => self.submit_job(granted, *wanted).await,
            op if self.kernel.run.calls_out => granted.jobs.look(&op).await,
            op => self.state.scratch.get_or_insert_default().look(&granted.jobs, &op).await,
        };
        if let Some(counts) = &granted.counts {
            counts.asked(name, outcome.is_ok());
        }
        self.kernel.answered::<JobCall>(number, &outcome);
        Ok(outcome)
    }

    async fn submit_job(&mut self, granted: &Granted, wanted: JobRequest) -> JobOutcome {
        let checked = self.check_job(granted, wanted);
        let is_live = self.kernel.run.calls_out;
        let outcome = match checked {
            Err(error) => Err(error),
            Ok(job) if is_live => granted.jobs.submit(job).await,
            Ok(job) => Ok((self.state.scratch.get_or_insert_default().submit(job), true)),
        };
        self.state.submitted += u32::from(outcome.is_ok());
        if let Some(counts) = granted.counts.as_ref().filter(|_| is_live) {
            counts.submitted(match &outcome {
                Ok((_, true)) => Submitted::Stored,
                Ok((_, false)) => Submitted::Repeated,
                Err(_) => Submitted::Refused,
            });
        }
        outcome.map(|(job, _)| JobAnswer::Job(Some(job)))
    }

    fn check_job(&self, granted: &Granted, mut wanted: JobRequest) -> Result<Submission, HandlerJobError> {
        let invalid = |text: String| HandlerJobError::Invalid(text);
        let none = || invalid("jobs are submitted while a request is served, and none is".to_owned());
        let request = self.kernel.request.ok_or_else(none)?;
        let by = Submitter {
            job_depth: request.caller.job_depth(),
            submitted: self.state.submitted,
            has_paths: self.kernel.is_application,
        };
        let url = wanted.webhook.take();
        let mut job = granted.jobs.check(wanted, by)?;
        if let Some(url) = url {
            if url.len() > LONGEST_URL {
                return Err(invalid(format!("the webhook is longer than {LONGEST_URL} bytes")));
            }
            let origin = granted.webhook_places.origin(&url);
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

impl jobs::Host for View<'_, Jobs> {
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
