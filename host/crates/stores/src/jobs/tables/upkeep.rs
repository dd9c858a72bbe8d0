//! Changes that no request asks for: at the start, and when a time has come.
//!
//! Place in the flow: `embedded.rs` calls them, one at the start, the others in every transaction.
//! Invariant: a sweep looks at no more entries than are due, and at `MOST` at a time.

use std::collections::HashSet;
use std::time::Duration;

use redb::{ReadableTable as _, StorageError};

use super::super::record::now;
use super::super::webhook::WebhookState;
use super::{Claim, Failure, Job, JobState, MOST, Outcome, TOO_LATE, Tables, decoded, endpoint_of, place};

/// Text for a job that was cut off.
const CUT_OFF: &str = "the server ended while the job ran";

impl Tables<'_> {
    /// Queues the jobs again that ran when the process before ended; gives how many.
    pub(in crate::jobs) fn recover(&mut self) -> Result<usize, StorageError> {
        let mut cut_off = Vec::new();
        for entry in self.running.iter()? {
            cut_off.push(entry?.0.value().to_vec());
        }
        for place in &cut_off {
            let Some((endpoint, mut job)) = self.found(place)? else {
                self.running.remove(place.as_slice())?;
                continue;
            };
            self.stop(&endpoint, &job)?;
            if job.attempt < job.attempts {
                job.error = Some(CUT_OFF.to_owned());
                self.again(&endpoint, job, 0)?;
            } else {
                self.finish(&endpoint, job, JobState::Failed, Some(CUT_OFF.to_owned()), None)?;
            }
        }
        Ok(cut_off.len())
    }

    /// Queues the jobs of these claims again, as far as they are stored: their answer was an error, so that
    /// no worker has them.
    pub(in crate::jobs) fn put_back(&mut self, claims: &HashSet<Claim>) -> Result<(), StorageError> {
        for Claim { endpoint, id, number } in claims {
            let not_tried = Outcome::NotTried { delay: Duration::ZERO };
            if let Err(Failure::Store(error)) = self.end(endpoint, id, *number, not_tried) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The job at a place, and its endpoint.
    fn found(&self, place: &[u8]) -> Result<Option<(String, Job)>, StorageError> {
        let job = self.jobs.get(place)?.and_then(|it| decoded(it.value()));
        Ok(job.map(|job| (endpoint_of(place), job)))
    }

    /// Removes what was kept long enough, and fails what has waited too long.
    pub(in crate::jobs) fn sweep(&mut self) -> Result<(), StorageError> {
        let now = now();
        let mut over = Vec::new();
        for entry in self.times.iter()?.take(MOST) {
            let (timed, ()) = entry.map(|(timed, _)| (timed.value().to_vec(), ()))?;
            match timed.split_first_chunk() {
                Some((time, _)) if u64::from_be_bytes(*time) <= now => over.push(timed),
                _ => break,
            }
        }
        for timed in over {
            self.times.remove(timed.as_slice())?;
            self.is_changed = true;
            let Some((_, place)) = timed.split_first_chunk::<8>() else { continue };
            let Some((endpoint, job)) = self.found(place)? else {
                self.sweep_batch(place, now)?;
                continue;
            };
            // A dead letter is kept as long as a result, from its last attempt on; what is pending comes here
            // again after that.
            let webhook = job.webhook.as_ref();
            let is_pending = webhook.is_some_and(|it| it.state == WebhookState::Pending);
            let changed = webhook.map_or(job.changed, |webhook| webhook.changed.max(job.changed));
            let is_over = !is_pending && changed.saturating_add(job.keep) <= now;
            if job.state == JobState::Queued && job.is_late(now) {
                self.dequeue(&endpoint, &job)?;
                self.finish(&endpoint, job, JobState::Failed, Some(TOO_LATE.to_owned()), None)?;
            } else if job.state.is_final() && is_over {
                self.remove(&endpoint, place, &job)?;
            }
        }
        Ok(())
    }

    /// Removes a finished job.
    fn remove(&mut self, endpoint: &str, own: &[u8], job: &Job) -> Result<(), StorageError> {
        let record = self.jobs.remove(own)?.map_or(0, |it| it.value().len());
        let result = self.results.remove(own)?.map_or(0, |it| it.value().len());
        if let Some(key) = &job.idempotency_key {
            self.keys.remove(place(endpoint, key.as_bytes()).as_slice())?;
        }
        let numbers = self.numbers(endpoint)?;
        numbers.bytes = numbers.bytes.saturating_sub((record + result) as u64);
        Ok(())
    }

    /// When the next sweep has something to do.
    pub(in crate::jobs) fn next_time(&self) -> Result<Option<u64>, StorageError> {
        let first = self.times.first()?;
        Ok(first.and_then(|(timed, _)| timed.value().first_chunk().copied().map(u64::from_be_bytes)))
    }
}
