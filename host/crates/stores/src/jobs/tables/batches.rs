//! Batches: submitted with all their jobs, counted as these end, stopped with them.
//!
//! Place in the flow: `embedded.rs` calls it for clients; a job that ends comes here in the same
//! transaction.
//! Invariants: a batch is stored with all of its jobs or not at all; what ended after it was stopped does
//! not count.

use redb::{ReadableTable as _, StorageError};

use super::super::batch::{Batch, BatchState, BatchSubmission};
use super::super::record::now;
use super::{Failure, Job, JobState, Quota, Submission, Tables, after, endpoint_of, place, timed};

/// A batch of a table; one that cannot be read is none.
pub(in crate::jobs) fn decoded(stored: &[u8]) -> Option<Batch> {
    serde_json::from_slice(stored).ok()
}

impl Tables<'_> {
    pub(in crate::jobs) fn submit_batch(
        &mut self,
        endpoint: &str,
        submission: BatchSubmission,
        quota: Quota,
    ) -> Result<Batch, Failure> {
        let (mut batch, parts) = submission.into_batch(now());
        let id = batch.id.clone();
        batch.bytes = serde_json::to_vec(&batch).unwrap_or_default().len() as u64;
        let bytes = batch.bytes + parts.iter().map(Submission::size).sum::<u64>();
        self.room(endpoint, quota, batch.total, bytes)?;
        self.numbers(endpoint)?.bytes += batch.bytes;
        for part in parts {
            let (job, body) = part.into_job(batch.submitted, Some(id.clone()));
            let job = self.store(endpoint, job, &body)?;
            let number = place(&format!("{endpoint}\0{id}"), &job.number.to_be_bytes());
            self.parts.insert(number.as_slice(), job.id.as_str())?;
        }
        if let Some(until) = batch.until {
            self.times.insert(timed(until, &place(endpoint, id.as_bytes())).as_slice(), ())?;
        }
        self.put_batch(endpoint, &batch)?;
        Ok(batch)
    }

    fn batch(&self, endpoint: &str, id: &str) -> Result<Option<Batch>, StorageError> {
        let place = place(endpoint, id.as_bytes());
        Ok(self.batches.get(place.as_slice())?.and_then(|it| decoded(it.value())))
    }

    fn put_batch(&mut self, endpoint: &str, batch: &Batch) -> Result<(), StorageError> {
        let record = serde_json::to_vec(batch).unwrap_or_default();
        let place = place(endpoint, batch.id.as_bytes());
        self.batches.insert(place.as_slice(), record.as_slice())?;
        self.is_changed = true;
        if let Some(ended) = batch.ended {
            self.times.insert(timed(ended.saturating_add(batch.keep), &place).as_slice(), ())?;
        }
        Ok(())
    }

    /// Counts a job that has ended, if it is one of a batch; `took` is the time of its last attempt.
    pub(super) fn part_ended(&mut self, endpoint: &str, job: &Job, took: u64) -> Result<(), StorageError> {
        let Some(id) = &job.batch else { return Ok(()) };
        let Some(mut batch) = self.batch(endpoint, id)? else { return Ok(()) };
        if batch.state != BatchState::Running {
            return Ok(());
        }
        if job.state == JobState::Completed {
            batch.succeeded += 1;
            batch.time += took;
        } else {
            batch.failed += 1;
        }
        if batch.succeeded + batch.failed >= batch.total {
            let is_all = batch.failed == 0;
            batch.state = if is_all { BatchState::Succeeded } else { BatchState::CompletedWithFailures };
            batch.ended = Some(now());
            if let Some(last) = batch.last() {
                let (job, body) = last.into_job(now(), None);
                self.store(endpoint, job, &body)?;
            }
        }
        self.put_batch(endpoint, &batch)
    }

    /// Stops a batch that has not ended, with all of its jobs; gives it as it is then, `None` if there is
    /// none.
    pub(in crate::jobs) fn stop_batch(
        &mut self,
        endpoint: &str,
        id: &str,
        state: BatchState,
    ) -> Result<Option<Batch>, Failure> {
        let Some(mut batch) = self.batch(endpoint, id)? else { return Ok(None) };
        if batch.state == BatchState::Running {
            batch.state = state;
            batch.ended = Some(now());
            self.put_batch(endpoint, &batch)?;
            for (_, id) in self.parts_of(endpoint, id)? {
                let Some(job) = self.job(endpoint, &id)? else { continue };
                match job.state {
                    JobState::Queued => self.dequeue(endpoint, &job)?,
                    JobState::Running => {
                        self.stop(endpoint, &job)?;
                        self.numbers(endpoint)?.stopped.push(id);
                    }
                    _ => continue,
                }
                self.finish(endpoint, job, JobState::Cancelled, None, None)?;
            }
        }
        Ok(Some(batch))
    }

    /// The entries of a batch's jobs.
    fn parts_of(&self, endpoint: &str, id: &str) -> Result<Vec<(Vec<u8>, String)>, StorageError> {
        let own = format!("{endpoint}\0{id}");
        let mut found = Vec::new();
        for entry in self.parts.range(place(&own, &[]).as_slice()..after(&own).as_slice())? {
            let (place, id) = entry?;
            found.push((place.value().to_vec(), id.value().to_owned()));
        }
        Ok(found)
    }

    /// Does what is due with the batch at a place: stops one that takes too long, removes one that was kept
    /// long enough.
    pub(super) fn sweep_batch(&mut self, own: &[u8], now: u64) -> Result<(), StorageError> {
        let Some(batch) = self.batches.get(own)?.and_then(|it| decoded(it.value())) else { return Ok(()) };
        let endpoint = endpoint_of(own);
        match batch.ended {
            None if batch.until.is_some_and(|until| until <= now) => {
                match self.stop_batch(&endpoint, &batch.id, BatchState::TimedOut) {
                    Err(Failure::Store(error)) => Err(error),
                    _ => Ok(()),
                }
            }
            Some(ended) if ended.saturating_add(batch.keep) <= now => {
                for (place, _) in self.parts_of(&endpoint, &batch.id)? {
                    self.parts.remove(place.as_slice())?;
                }
                self.batches.remove(own)?;
                let numbers = self.numbers(&endpoint)?;
                numbers.bytes = numbers.bytes.saturating_sub(batch.bytes);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
