//! Jobs: requests that are stored before they are acknowledged, and run when their endpoint has a place.
//!
//! Place in the flow: clients submit and ask by `server/http/jobs.rs`; `workers.rs` claims jobs, runs each as
//! a request of its own and says what came of it. One [`JobStore`] for the process; one [`Queue`] in memory
//! for each endpoint.
//! In: a [`Submission`]. Out: a [`Job`], its result, and what of it changed.
//! Invariants: what was answered is stored, so that a job that was acknowledged survives the end of the
//! process at any moment; a job is run at least once, and again only after an attempt that has failed or
//! that the end of the process cut off; a queued job takes no memory.

mod batch;
mod embedded;
pub mod handler;
mod queue;
mod record;
mod redis;
mod snapshot;
mod tables;
#[cfg(test)]
mod tests;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use self::batch::{Batch, BatchState, BatchSubmission, MOST_PARTS};
use self::embedded::Embedded;
pub use self::queue::{Queue, Running, SendGuard};
pub use self::record::{
    Answer, Attempt, IDEMPOTENCY_KEY, Job, JobState, LONGEST_DELAY, LONGEST_KEY, Outcome, Pauses, Submission,
    is_id, is_kept_header, is_key, time_text,
};
use self::redis::Redis;
use self::tables::Tables;
pub use self::webhook::{
    Delivered, Delivery, LONGEST_URL, Webhook, WebhookConfig, WebhookForm, WebhookSecret, WebhookState,
};
use crate::stores::{OpenError, Place};

/// Most jobs of one page of a listing.
pub const MOST_LISTED: usize = 1000;
/// The priorities of a job: 0 comes first.
pub const LAST_PRIORITY: u8 = 2;
/// The priority of a job that says nothing of it.
pub const USUAL_PRIORITY: u8 = 1;

/// Whether an endpoint has jobs, and which of its paths take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// None.
    #[default]
    Off,
    /// Below its path, beside the requests that are answered at once.
    On,
    /// The same, and on further paths in another form.
    Also(&'static JobForm),
}

/// A form of jobs beside the server's own.
#[derive(Debug, PartialEq, Eq)]
pub struct JobForm {
    /// As it is configured.
    pub name: &'static str,
    /// Names below the endpoint's own path that are paths of its jobs too.
    pub below: &'static [&'static str],
}

/// The jobs of one endpoint, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whether there are any.
    pub mode: Mode,
    /// Jobs that run at the same time.
    pub concurrency: usize,
    /// The most that is stored.
    pub quota: Quota,
    /// How long a result is kept.
    pub keep: Duration,
    /// How often a job is tried that says nothing of it.
    pub attempts: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How many jobs one request of the handler may submit.
    pub submissions: u32,
    /// How many jobs may follow each other, each submitted by the one before.
    pub depth: u32,
    /// Where results may be sent, and how.
    pub webhooks: WebhookConfig,
}

impl Config {
    /// No jobs.
    pub fn none() -> Config {
        Config {
            mode: Mode::Off,
            concurrency: 0,
            quota: Quota { queue: 0, bytes: 0 },
            keep: Duration::ZERO,
            attempts: 0,
            timeout: Duration::ZERO,
            submissions: 0,
            depth: 0,
            webhooks: WebhookConfig::default(),
        }
    }
}

/// The most messages of one endpoint that are sent at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryLimits {
    /// All of them.
    pub concurrency: usize,
    /// To one place, scheme, host and port.
    pub by_origin: usize,
    /// The longest that one takes.
    pub timeout: Duration,
}

/// The most that an endpoint's jobs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Jobs that are not finished.
    pub queue: u64,
    /// Bytes of all jobs and results. A result is kept even beyond it; then no job is taken.
    pub bytes: u64,
}

impl Quota {
    /// So many jobs more would not be finished.
    fn too_many_jobs(self, jobs: u64) -> JobError {
        let most = self.queue;
        JobError::Full(match jobs {
            1 => format!("{most} jobs are not finished, and as many are `limits.job_queue`"),
            _ => format!("more than {most} jobs would not be finished with these {jobs}, `limits.job_queue`"),
        })
    }

    fn too_many_bytes(self) -> JobError {
        let most = self.bytes;
        JobError::Full(format!("jobs and results would take more than {most} bytes, `limits.job_bytes`"))
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// Beyond a quota. Says which.
    #[error("{0}")]
    Full(String),
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for a job with another body, path or query")]
    Conflict,
    /// The store cannot be used now; whether a change was made is not known.
    #[error("the store of the jobs cannot be used: {0}")]
    Unavailable(String),
}

/// The part of a listing that is wanted.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The id behind which it begins.
    pub after: Option<String>,
    /// Most jobs, at most [`MOST_LISTED`].
    pub limit: usize,
    /// In this state only.
    pub state: Option<JobState>,
    /// Only those whose webhook is in this state.
    pub webhook: Option<WebhookState>,
    /// Only the parts of this batch, the first of the list first.
    pub batch: Option<String>,
}

/// The jobs of all endpoints.
pub struct JobStore(Backend);

enum Backend {
    Embedded(Embedded),
    Redis(Redis),
}

impl JobStore {
    /// Opens the store at this place. In a file, jobs that ran when the process before ended are queued
    /// again.
    ///
    /// # Errors
    /// [`OpenError`], for the operator.
    pub async fn open(place: &Place) -> Result<JobStore, OpenError> {
        Ok(JobStore(match place {
            Place::File(path) => Backend::Embedded(Embedded::open(path)?),
            Place::Redis(place) => Backend::Redis(Redis::open(place).await?),
        }))
    }

    /// Whether it can be reached now; `None` if it is nowhere else.
    pub fn is_reachable(&self) -> Option<bool> {
        match &self.0 {
            Backend::Embedded(_) => None,
            Backend::Redis(redis) => Some(redis.is_up()),
        }
    }

    /// Closes a file, after which changes fail. Takes as long as the disk does.
    pub fn close(&self) {
        if let Backend::Embedded(embedded) = &self.0 {
            embedded.close();
        }
    }

    /// The part of an endpoint's jobs that is in memory.
    pub fn queue(&self, endpoint: &str) -> Arc<Queue> {
        match &self.0 {
            Backend::Embedded(embedded) => embedded.queue(endpoint),
            Backend::Redis(redis) => redis.queue(endpoint),
        }
    }

    /// Stores a job, and gives it; or the one that was submitted with the same idempotency key, and
    /// `false`.
    ///
    /// # Errors
    /// [`JobError`].
    pub async fn submit(
        &self,
        endpoint: &str,
        submission: Submission,
        quota: Quota,
    ) -> Result<(Job, bool), JobError> {
        let (name, size) = (endpoint.to_owned(), submission.body.len());
        match &self.0 {
            // Its writer wakes a worker.
            Backend::Embedded(embedded) => {
                embedded.write(size, move |tables| tables.submit(&name, submission, quota)).await
            }
            Backend::Redis(redis) => {
                let (job, is_new) = redis.submit(endpoint, submission, quota).await?;
                if is_new {
                    redis.queue(endpoint).ready();
                }
                Ok((job, is_new))
            }
        }
    }

    /// How long it is until there is a job to run; `None` if there is none.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn next_due(&self, endpoint: &str) -> Result<Option<Duration>, JobError> {
        let name = endpoint.to_owned();
        match &self.0 {
            Backend::Embedded(embedded) => embedded.read(move |snapshot| snapshot.next_due(&name)).await,
            Backend::Redis(redis) => redis.next_due(endpoint).await,
        }
    }

    /// Takes the first job that is due, with its body, and counts the attempt; `None` if none is.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn claim(&self, endpoint: &str) -> Result<Option<(Job, Bytes)>, JobError> {
        let name = endpoint.to_owned();
        let claimed = match &self.0 {
            Backend::Embedded(embedded) => embedded.write(0, move |tables| tables.claim(&name)).await?,
            Backend::Redis(redis) => redis.claim(endpoint).await?,
        };
        if claimed.is_some() {
            // There may be another one, for another worker.
            self.queue(endpoint).ready();
        }
        Ok(claimed)
    }

    /// Notes what an attempt came to. Of a job that was cancelled meanwhile, nothing.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn end(&self, endpoint: &str, attempt: &Attempt, outcome: Outcome) -> Result<(), JobError> {
        match &self.0 {
            Backend::Embedded(embedded) => {
                let (name, own, size) = (endpoint.to_owned(), attempt.clone(), outcome.size());
                let end = move |tables: &mut Tables<'_>| tables.end(&name, &own.id, own.claim, outcome);
                embedded.write(size, end).await?
            }
            Backend::Redis(redis) => redis.end(endpoint, attempt, outcome).await?,
        }
        self.queue(endpoint).ready();
        Ok(())
    }

    /// Cancels a job that is not finished, and gives it as it is then; `None` if there is none.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn cancel(&self, endpoint: &str, id: &str) -> Result<Option<Job>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        let job = match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.write(0, move |tables| tables.cancel(&name, &own, false)).await?
            }
            Backend::Redis(redis) => redis.cancel(endpoint, id, false).await?,
        };
        let queue = self.queue(endpoint);
        queue.stop(id);
        // With the last part of a batch the job that follows it is due.
        queue.ready();
        Ok(job)
    }

    /// Cancels a job if no attempt is under way, and gives it as it is then; `None` if there is none.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn cancel_queued(&self, endpoint: &str, id: &str) -> Result<Option<Job>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        let job = match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.write(0, move |tables| tables.cancel(&name, &own, true)).await?
            }
            Backend::Redis(redis) => redis.cancel(endpoint, id, true).await?,
        };
        self.queue(endpoint).ready();
        Ok(job)
    }

    /// Webhooks that are to be sent now, within the limits, and how long it is until another one is.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn due_deliveries(
        &self,
        endpoint: &str,
        limits: DeliveryLimits,
    ) -> Result<(Vec<Delivery>, Option<Duration>), JobError> {
        let (name, sending) = (endpoint.to_owned(), self.queue(endpoint).sending());
        match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.read(move |snapshot| snapshot.due_deliveries(&name, &sending, limits)).await
            }
            Backend::Redis(redis) => redis.due_deliveries(endpoint, sending, limits).await,
        }
    }

    /// Notes what an attempt to deliver came to, of at most so many; gives the webhook's state then, `None`
    /// if it was not pending any more.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn delivered(
        &self,
        endpoint: &str,
        delivery: &Delivery,
        outcome: Delivered,
        most: u32,
    ) -> Result<Option<WebhookState>, JobError> {
        let (name, own) = (endpoint.to_owned(), delivery.clone());
        match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.write(0, move |tables| tables.delivered(&name, &own, outcome, most)).await
            }
            Backend::Redis(redis) => redis.delivered(endpoint, delivery, outcome, most).await,
        }
    }

    /// Sends a job's message again that was delivered or is a dead letter, with all its attempts, and gives
    /// the job as it is then; `None` if there is none.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn send_again(&self, endpoint: &str, id: &str) -> Result<Option<Job>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.write(0, move |tables| tables.send_again(&name, &own)).await
            }
            Backend::Redis(redis) => redis.send_again(endpoint, id).await,
        }
    }

    /// Stores a batch with all of its jobs.
    ///
    /// # Errors
    /// [`JobError`].
    pub async fn submit_batch(
        &self,
        endpoint: &str,
        submission: BatchSubmission,
        quota: Quota,
    ) -> Result<Batch, JobError> {
        let (name, size) = (endpoint.to_owned(), submission.parts.iter().map(Bytes::len).sum());
        match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.write(size, move |tables| tables.submit_batch(&name, submission, quota)).await
            }
            Backend::Redis(redis) => {
                let batch = redis.submit_batch(endpoint, submission, quota).await?;
                redis.queue(endpoint).ready();
                Ok(batch)
            }
        }
    }

    /// A batch.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn batch(&self, endpoint: &str, id: &str) -> Result<Option<Batch>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        match &self.0 {
            Backend::Embedded(embedded) => embedded.read(move |snapshot| snapshot.batch(&name, &own)).await,
            Backend::Redis(redis) => redis.batch(endpoint, id).await,
        }
    }

    /// Stops a batch that has not ended, with its jobs, and gives it as it is then; `None` if there is none.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn stop_batch(&self, endpoint: &str, id: &str) -> Result<Option<Batch>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        let stop = move |tables: &mut Tables<'_>| tables.stop_batch(&name, &own, BatchState::Stopped);
        match &self.0 {
            Backend::Embedded(embedded) => embedded.write(0, stop).await,
            Backend::Redis(redis) => redis.stop_batch(endpoint, id).await,
        }
    }

    /// A job.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn job(&self, endpoint: &str, id: &str) -> Result<Option<Job>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        match &self.0 {
            Backend::Embedded(embedded) => embedded.read(move |snapshot| snapshot.job(&name, &own)).await,
            Backend::Redis(redis) => Ok(redis.result(endpoint, id, 0).await?.map(|(job, _)| job)),
        }
    }

    /// A job, and the body of its result if that is there and has at most `longest` bytes.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn result(
        &self,
        endpoint: &str,
        id: &str,
        longest: usize,
    ) -> Result<Option<(Job, Option<Bytes>)>, JobError> {
        let (name, own) = (endpoint.to_owned(), id.to_owned());
        match &self.0 {
            Backend::Embedded(embedded) => {
                embedded.read(move |snapshot| snapshot.result(&name, &own, longest)).await
            }
            Backend::Redis(redis) => redis.result(endpoint, id, longest).await,
        }
    }

    /// Jobs, the last submitted first; and the id to go on behind, if there may be more.
    ///
    /// # Errors
    /// [`JobError::Unavailable`].
    pub async fn list(&self, endpoint: &str, page: Page) -> Result<(Vec<Job>, Option<String>), JobError> {
        let name = endpoint.to_owned();
        match &self.0 {
            Backend::Embedded(embedded) => embedded.read(move |snapshot| snapshot.list(&name, &page)).await,
            Backend::Redis(redis) => redis.list(endpoint, page).await,
        }
    }
}
