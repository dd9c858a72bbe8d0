//! The replies of the script: jobs, batches, pages, messages to send, the answer to a beat.
//!
//! Place in the flow: between Redis and `redis.rs`. In: a value of Redis. Out: what it means.
//! Invariant: what Redis says of a job that changes wins over the record that the host has written.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use serde::de::DeserializeOwned;

use super::super::queue::EndedJob;
use super::super::{Batch, Delivery, Job, JobError, JobState, Quota, WebhookState};
use crate::stores::{Unavailable, bytes, unexpected};

/// A reply.
pub(super) struct Reply {
    /// The kind of reply.
    pub(super) kind: String,
    rest: std::vec::IntoIter<Value>,
}

/// The answer to a beat.
pub(super) struct Beat {
    pub(super) queued: u64,
    pub(super) running: u64,
    /// When the oldest job that waits for a place was submitted.
    pub(super) oldest: Option<u64>,
    /// Jobs that could run.
    pub(super) ready: u64,
    /// Webhooks that are pending.
    pub(super) webhooks: u64,
    /// Places for which one is due.
    pub(super) due: u64,
    /// Jobs whose leases are not this host's any more.
    pub(super) lost: Vec<String>,
    /// The time by Redis' clock.
    pub(super) time: u64,
}

/// The fields that a hash of Redis is.
struct Fields(HashMap<String, Vec<u8>>);

impl Fields {
    fn new(flat: Value) -> Result<Fields, Unavailable> {
        let flat = entries(flat)?;
        let mut fields = HashMap::new();
        let mut all = flat.into_iter();
        while let (Some(name), Some(value)) = (all.next(), all.next()) {
            fields.insert(text(name)?, bytes(value).ok_or_else(unexpected)?);
        }
        Ok(Fields(fields))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Unavailable> {
        self.text(name).map(|text| text.parse().map_err(|_| unexpected())).transpose()
    }

    fn count(&self, name: &str) -> Result<u64, Unavailable> {
        self.number(name)?.ok_or_else(unexpected)
    }

    fn small(&self, name: &str) -> Result<u32, Unavailable> {
        u32::try_from(self.count(name)?).map_err(|_| unexpected())
    }
}

fn entries(value: Value) -> Result<Vec<Value>, Unavailable> {
    match value {
        Value::Array(entries) => Ok(entries),
        _ => Err(unexpected()),
    }
}

fn text(value: Value) -> Result<String, Unavailable> {
    let bytes = bytes(value).ok_or_else(unexpected)?;
    String::from_utf8(bytes).map_err(|_| unexpected())
}

fn json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unavailable> {
    serde_json::from_slice(text).map_err(|_| unexpected())
}

/// The parts of what the script gives: the reply itself, and the jobs that have ended by it.
pub(super) fn parts(value: Value) -> Result<(Value, Vec<EndedJob>), Unavailable> {
    let mut parts = entries(value)?.into_iter();
    let (Some(reply), Some(ended)) = (parts.next(), parts.next()) else { return Err(unexpected()) };
    let mut texts = entries(ended)?.into_iter().map(text);
    let mut jobs = Vec::new();
    while let (Some(id), Some(state), Some(error)) = (texts.next(), texts.next(), texts.next()) {
        let state = JobState::of(&state?).ok_or_else(unexpected)?;
        jobs.push(EndedJob { id: id?, state, error: error? });
    }
    Ok((reply, jobs))
}

impl Reply {
    pub(super) fn new(value: Value) -> Result<Reply, Unavailable> {
        let mut rest = entries(value)?.into_iter();
        let kind = text(rest.next().ok_or_else(unexpected)?)?;
        Ok(Reply { kind, rest })
    }

    /// Whether there is none of what was asked for.
    pub(super) fn is_none(&self) -> bool {
        self.kind == "none"
    }

    fn next(&mut self) -> Result<Value, Unavailable> {
        self.rest.next().ok_or_else(unexpected)
    }

    fn number(&mut self) -> Result<i64, Unavailable> {
        match self.next()? {
            Value::Int(number) => Ok(number),
            _ => Err(unexpected()),
        }
    }

    fn count(&mut self) -> Result<u64, Unavailable> {
        u64::try_from(self.number()?).map_err(|_| unexpected())
    }

    /// A job.
    pub(super) fn job(&mut self) -> Result<Job, Unavailable> {
        job(self.next()?)
    }

    /// A body, if it is there.
    pub(super) fn body(&mut self) -> Result<Option<Bytes>, Unavailable> {
        Ok(bytes(self.next()?).map(Bytes::from))
    }

    /// Milliseconds; none if the number is negative.
    pub(super) fn time(&mut self) -> Result<Option<Duration>, Unavailable> {
        Ok(u64::try_from(self.number()?).ok().map(Duration::from_millis))
    }

    /// The time by Redis' clock.
    pub(super) fn clock(mut self) -> Result<u64, Unavailable> {
        self.count()
    }

    /// Why so many jobs were not stored.
    pub(super) fn refusal(mut self, quota: Quota, jobs: u64) -> JobError {
        match self.next().and_then(text).as_deref() {
            Ok("jobs") => quota.too_many_jobs(jobs),
            Ok("bytes") => quota.too_many_bytes(),
            _ => unexpected().into(),
        }
    }

    /// A page of a listing, and the id behind which the next one begins.
    pub(super) fn page(mut self) -> Result<(Vec<Job>, Option<String>), Unavailable> {
        let next = bytes(self.next()?).map(|id| String::from_utf8_lossy(&id).into_owned());
        let jobs = entries(self.next()?)?.into_iter().map(job).collect::<Result<_, _>>()?;
        Ok((jobs, next))
    }

    /// Messages that are to be sent, and how long it is until another one is.
    pub(super) fn deliveries(mut self) -> Result<(Vec<Delivery>, Option<Duration>), Unavailable> {
        let next = self.time()?;
        let delivery = |value| {
            let mut parts = entries(value)?.into_iter().map(text);
            let mut next = || parts.next().ok_or_else(unexpected)?;
            Ok(Delivery { id: next()?, origin: next()?, place: next()?.into_bytes() })
        };
        let found = entries(self.next()?)?.into_iter().map(delivery).collect::<Result<_, Unavailable>>()?;
        Ok((found, next))
    }

    /// The state of a webhook.
    pub(super) fn webhook_state(&mut self) -> Result<WebhookState, Unavailable> {
        webhook_state(&text(self.next()?)?)
    }

    /// A batch.
    pub(super) fn batch(&mut self) -> Result<Batch, Unavailable> {
        let fields = Fields::new(self.next()?)?;
        let mut batch: Batch = json(fields.0.get("record").ok_or_else(unexpected)?)?;
        let state = fields.text("state").ok_or_else(unexpected)?;
        batch.state = json(format!("\"{state}\"").as_bytes())?;
        batch.succeeded = fields.count("succeeded")?;
        batch.failed = fields.count("failed")?;
        batch.time = fields.count("time")?;
        batch.submitted = fields.count("submitted")?;
        (batch.ended, batch.until) = (fields.number("ended")?, fields.number("until")?);
        Ok(batch)
    }

    /// The answer to a beat.
    pub(super) fn beat(mut self) -> Result<Beat, Unavailable> {
        let (queued, running) = (self.count()?, self.count()?);
        let oldest = u64::try_from(self.number()?).ok();
        let (ready, webhooks, due) = (self.count()?, self.count()?, self.count()?);
        let lost = entries(self.next()?)?.into_iter().map(text).collect::<Result<_, _>>()?;
        let time = self.count()?;
        Ok(Beat { queued, running, oldest, ready, webhooks, due, lost, time })
    }
}

fn webhook_state(name: &str) -> Result<WebhookState, Unavailable> {
    WebhookState::ALL.into_iter().find(|state| state.name() == name).ok_or_else(unexpected)
}

/// The job of a view: the record, the answer, the fields.
fn job(view: Value) -> Result<Job, Unavailable> {
    let mut parts = entries(view)?.into_iter();
    let mut next = || parts.next().ok_or_else(unexpected);
    let mut job: Job = json(&bytes(next()?).ok_or_else(unexpected)?)?;
    job.answer = bytes(next()?).map(|answer| json(&answer)).transpose()?;
    let fields = Fields::new(next()?)?;
    let state = fields.text("state");
    job.state = state.as_deref().and_then(JobState::of).ok_or_else(unexpected)?;
    job.attempt = fields.small("attempt")?;
    job.number = fields.count("number")?;
    job.claims = fields.number("claims")?.unwrap_or_default();
    (job.submitted, job.changed) = (fields.count("submitted")?, fields.count("changed")?);
    job.due = fields.count("due")?;
    job.start_by = fields.number("start_by")?;
    job.error = fields.text("error");
    if let (Some(webhook), Some(state)) = (&mut job.webhook, fields.text("w_state")) {
        webhook.state = webhook_state(&state)?;
        webhook.attempts = fields.number("w_attempts")?.map_or(0, |it| u32::try_from(it).unwrap_or(u32::MAX));
        webhook.changed = fields.number("w_changed")?.unwrap_or_default();
        webhook.due = fields.number("w_due")?.unwrap_or_default();
        webhook.error = fields.text("w_error");
    }
    Ok(job)
}
