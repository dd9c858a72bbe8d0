//! A job that is new.
//!
//! Place in the flow: `embedded.rs` calls it for submissions of clients, `batches.rs` for each part of a
//! list.
//! In: a [`Submission`], the endpoint's quota. Out: the job, stored and queued.

use redb::{ReadableTable as _, StorageError};

use super::super::record::now;
use super::{Failure, Job, JobError, Quota, Submission, Tables, place, timed};

impl Tables<'_> {
    pub(in crate::jobs) fn submit(
        &mut self,
        endpoint: &str,
        submission: Submission,
        quota: Quota,
    ) -> Result<(Job, bool), Failure> {
        let size = submission.size();
        let (job, body) = submission.into_job(now(), None);
        let key = job.idempotency_key.as_ref().map(|key| place(endpoint, key.as_bytes()));
        if let Some(key) = &key {
            let id = self.keys.get(key.as_slice())?.map(|id| id.value().to_owned());
            if let Some(known) = id.map(|id| self.job(endpoint, &id)).transpose()?.flatten() {
                let is_same = known.digest == job.digest;
                return if is_same { Ok((known, false)) } else { Err(JobError::Conflict.into()) };
            }
        }
        self.room(endpoint, quota, 1, size)?;
        let job = self.store(endpoint, job, &body)?;
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
            return Err(quota.too_many_jobs(jobs).into());
        }
        if numbers.2 + bytes > quota.bytes {
            return Err(quota.too_many_bytes().into());
        }
        Ok(())
    }

    /// Stores a job, and queues it.
    pub(super) fn store(&mut self, endpoint: &str, mut job: Job, body: &[u8]) -> Result<Job, StorageError> {
        let number = self.next.get(())?.map_or(0, |number| number.value());
        self.next.insert((), number + 1)?;
        job.number = number;
        self.put(endpoint, &job)?;
        let place = place(endpoint, job.id.as_bytes());
        self.bodies.insert(place.as_slice(), body)?;
        self.numbers(endpoint)?.bytes += job.size;
        if let Some(time) = job.start_by {
            self.times.insert(timed(time, &place).as_slice(), ())?;
        }
        self.enqueue(endpoint, &job)?;
        Ok(job)
    }
}
