//! What the tables say as the last transaction left them.
//!
//! Place in the flow: `embedded.rs` asks it for every question. In: an endpoint, an id or a page. Out:
//! jobs.
//! Invariant: a page reads `MOST_LISTED` jobs at most, however few of them are in the state that is wanted.

use std::time::Duration;

use bytes::Bytes;
use redb::ReadTransaction;

use super::queue::Sending;
use super::record::now;
use super::tables::{
    BATCHES, DELAYED, DELIVERIES, JOBS, PARTS, RESULTS, WAITING, after, batch_of, decoded, place, time_of,
};
use super::webhook::Delivery;
use super::{Batch, DeliveryLimits, Job, MOST_LISTED, Page};

/// The tables as the last transaction left them.
pub(super) struct Snapshot(pub(super) ReadTransaction);

impl Snapshot {
    pub(super) fn job(&self, endpoint: &str, id: &str) -> Result<Option<Job>, redb::Error> {
        let jobs = self.0.open_table(JOBS)?;
        Ok(jobs.get(place(endpoint, id.as_bytes()).as_slice())?.and_then(|it| decoded(it.value())))
    }

    pub(super) fn result(
        &self,
        endpoint: &str,
        id: &str,
        longest: usize,
    ) -> Result<Option<(Job, Option<Bytes>)>, redb::Error> {
        let Some(job) = self.job(endpoint, id)? else { return Ok(None) };
        if job.answer.as_ref().is_none_or(|answer| answer.size > longest as u64) {
            return Ok(Some((job, None)));
        }
        let results = self.0.open_table(RESULTS)?;
        let body = results.get(place(endpoint, id.as_bytes()).as_slice())?;
        Ok(Some((job, body.map(|body| Bytes::copy_from_slice(body.value())))))
    }

    /// How long it is until a job is due; `None` if none is queued.
    pub(super) fn next_due(&self, endpoint: &str) -> Result<Option<Duration>, redb::Error> {
        let (from, to) = (place(endpoint, &[]), after(endpoint));
        let waiting = self.0.open_table(WAITING)?;
        if waiting.range(from.as_slice()..to.as_slice())?.next().is_some() {
            return Ok(Some(Duration::ZERO));
        }
        let delayed = self.0.open_table(DELAYED)?;
        let first = delayed.range(from.as_slice()..to.as_slice())?.next().transpose()?;
        let time = first.and_then(|(place, _)| time_of(endpoint, place.value()));
        Ok(time.map(|time| Duration::from_millis(time.saturating_sub(now()))))
    }

    pub(super) fn batch(&self, endpoint: &str, id: &str) -> Result<Option<Batch>, redb::Error> {
        let batches = self.0.open_table(BATCHES)?;
        Ok(batches.get(place(endpoint, id.as_bytes()).as_slice())?.and_then(|it| batch_of(it.value())))
    }

    /// A page of a batch's jobs, in the order of its list.
    fn parts(
        &self,
        endpoint: &str,
        batch: &str,
        page: &Page,
    ) -> Result<(Vec<Job>, Option<String>), redb::Error> {
        let own = format!("{endpoint}\0{batch}");
        let last = page.after.as_ref().map(|id| self.job(endpoint, id)).transpose()?.flatten();
        let from = match last {
            Some(job) => place(&own, &job.number.saturating_add(1).to_be_bytes()),
            None => place(&own, &[]),
        };
        let parts = self.0.open_table(PARTS)?;
        let limit = page.limit.clamp(1, MOST_LISTED);
        let (mut found, mut looked) = (Vec::new(), None);
        for (number, entry) in parts.range(from.as_slice()..after(&own).as_slice())?.enumerate() {
            if found.len() == limit || number >= MOST_LISTED {
                return Ok((found, looked));
            }
            let Some(job) = self.job(endpoint, entry?.1.value())? else { continue };
            looked = Some(job.id.clone());
            if page.state.is_none_or(|state| state == job.state) {
                found.push(job);
            }
        }
        Ok((found, None))
    }

    pub(super) fn list(
        &self,
        endpoint: &str,
        page: &Page,
    ) -> Result<(Vec<Job>, Option<String>), redb::Error> {
        if let Some(batch) = &page.batch {
            return self.parts(endpoint, batch, page);
        }
        let limit = page.limit.clamp(1, MOST_LISTED);
        let from = place(endpoint, &[]);
        let to = match &page.after {
            Some(id) => place(endpoint, id.as_bytes()).max(from.clone()),
            None => after(endpoint),
        };
        let jobs = self.0.open_table(JOBS)?;
        let mut found = Vec::new();
        let mut looked = None;
        for (number, entry) in jobs.range(from.as_slice()..to.as_slice())?.rev().enumerate() {
            let Some(job) = decoded(entry?.1.value()) else { continue };
            // A page of few jobs in one state costs no more than a full one.
            if found.len() == limit || number >= MOST_LISTED {
                return Ok((found, looked));
            }
            looked = Some(job.id.clone());
            let webhook = job.webhook.as_ref().map(|webhook| webhook.state);
            if page.state.is_none_or(|state| state == job.state)
                && page.webhook.is_none_or(|state| webhook == Some(state))
            {
                found.push(job);
            }
        }
        Ok((found, None))
    }

    /// Messages that are due, in turn of the places that they go to: beyond those that are being sent, no
    /// more than the limits allow. And how long it is until another one is due.
    pub(super) fn due_deliveries(
        &self,
        endpoint: &str,
        sending: &Sending,
        limits: DeliveryLimits,
    ) -> Result<(Vec<Delivery>, Option<Duration>), redb::Error> {
        let deliveries = self.0.open_table(DELIVERIES)?;
        let (now, mut next, mut found) = (now(), None, Vec::new());
        let (mut from, to) = (place(endpoint, &[]), after(endpoint));
        let mut free = limits.concurrency.saturating_sub(sending.ids.len());
        while free > 0
            && let Some((first, _)) = deliveries.range(from.as_slice()..to.as_slice())?.next().transpose()?
        {
            let rest = first.value().get(endpoint.len() + 1..).unwrap_or_default();
            let origin = String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap_or_default());
            let own = format!("{endpoint}\0{origin}");
            let (start, end) = (place(&own, &[]), after(&own));
            let busy = sending.origins.get(&*origin).copied().unwrap_or(0);
            let mut places = limits.by_origin.saturating_sub(busy);
            for entry in deliveries.range(start.as_slice()..end.as_slice())? {
                let (place, id) = entry?;
                let time = time_of(&own, place.value()).unwrap_or(0);
                if time > now {
                    next = Some(next.map_or(time, |next: u64| next.min(time)));
                    break;
                }
                if places == 0 || free == 0 {
                    break;
                }
                if sending.ids.contains(id.value()) {
                    continue;
                }
                (places, free) = (places - 1, free - 1);
                let (id, place) = (id.value().to_owned(), place.value().to_vec());
                found.push(Delivery { id, origin: origin.clone().into_owned(), place });
            }
            from = end;
        }
        Ok((found, next.map(|time| Duration::from_millis(time.saturating_sub(now)))))
    }
}
