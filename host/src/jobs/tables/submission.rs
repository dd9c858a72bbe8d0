//! A job that is new.
//!
//! Place in the flow: `embedded.rs` calls it for submissions of clients, `batches.rs` for each part of a
//! list.
//! In: a [`Submission`], the endpoint's quota. Out: the job, stored and queued.

use redb::{ReadableTable as _, StorageError};
use sha2::{Digest as _, Sha256};

use super::super::record::{self, milliseconds, now};
use super::{Failure, Job, JobError, JobState, Quota, Submission, Tables, place, timed};

/// SHA-256 of what a job is made of, in hex.
fn digest(submission: &Submission) -> String {
    let mut hash = Sha256::new();
    for part in [submission.path.as_bytes(), submission.query.as_bytes(), &submission.body] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of what is stored of a submission's request.
pub(super) fn size(submission: &Submission) -> u64 {
    let headers: usize = submission.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    (submission.body.len() + headers) as u64
}

impl Tables<'_> {
    pub(in crate::jobs) fn submit(
        &mut self,
        endpoint: &str,
        submission: Submission,
        quota: Quota,
    ) -> Result<(Job, bool), Failure> {
        let key = submission.idempotency_key.as_ref().map(|key| place(endpoint, key.as_bytes()));
        let digest = if key.is_some() { digest(&submission) } else { String::new() };
        if let Some(key) = &key {
            let id = self.keys.get(key.as_slice())?.map(|id| id.value().to_owned());
            if let Some(job) = id.map(|id| self.job(endpoint, &id)).transpose()?.flatten() {
                let is_same = job.digest == digest;
                return if is_same { Ok((job, false)) } else { Err(JobError::Conflict.into()) };
            }
        }
        self.room(endpoint, quota, 1, size(&submission))?;
        let job = self.store(endpoint, submission, digest, None)?;
        if let Some(key) = &key {
            self.keys.insert(key.as_slice(), job.id.as_str())?;
        }
        Ok((job, true))
    }

    /// Whether there is room for so many jobs of so many bytes together.
    pub(super) fn room(&self, endpoint: &str, quota: Quota, jobs: u64, bytes: u64) -> Result<(), Failure> {
        let stored = self.numbers.get(endpoint)?.map_or((0, 0, 0), |numbers| numbers.value());
        let numbers = self.touched.get(endpoint).map_or(stored, |it| (it.queued, it.running, it.bytes));
        if numbers.0 + numbers.1 + jobs > quota.queue {
            let most = quota.queue;
            let text = match jobs {
                1 => format!("{most} jobs are not finished, and as many are `limits.job_queue`"),
                _ => format!(
                    "more than {most} jobs would not be finished with these {jobs}, `limits.job_queue`"
                ),
            };
            return Err(JobError::Full(text).into());
        }
        if numbers.2 + bytes > quota.bytes {
            let text =
                format!("jobs and results would take more than {} bytes, `limits.job_bytes`", quota.bytes);
            return Err(JobError::Full(text).into());
        }
        Ok(())
    }

    /// Stores a job, and queues it.
    pub(super) fn store(
        &mut self,
        endpoint: &str,
        submission: Submission,
        digest: String,
        batch: Option<String>,
    ) -> Result<Job, StorageError> {
        let now = now();
        let number = self.next.get(())?.map_or(0, |number| number.value());
        self.next.insert((), number + 1)?;
        let job = Job {
            id: record::new_id(now),
            state: JobState::Queued,
            path: submission.path,
            query: submission.query,
            headers: submission.headers,
            priority: submission.priority,
            attempts: submission.attempts,
            attempt: 0,
            submitted: now,
            changed: now,
            due: now.saturating_add(milliseconds(submission.delay)),
            start_by: submission.wait.map(|wait| now.saturating_add(milliseconds(wait))),
            keep: milliseconds(submission.keep),
            size: submission.body.len() as u64,
            error: None,
            answer: None,
            webhook: submission.webhook,
            pauses: submission.pauses,
            batch,
            number,
            idempotency_key: submission.idempotency_key,
            digest,
        };
        self.put(endpoint, &job)?;
        let place = place(endpoint, job.id.as_bytes());
        self.bodies.insert(place.as_slice(), &*submission.body)?;
        self.numbers(endpoint)?.bytes += job.size;
        if let Some(time) = job.start_by {
            self.times.insert(timed(time, &place).as_slice(), ())?;
        }
        self.enqueue(endpoint, &job)?;
        Ok(job)
    }
}
