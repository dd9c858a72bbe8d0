//! The jobs in a Redis that many hosts share: one script, run by Redis as a whole for each operation.
//!
//! Place in the flow: behind [`JobStore`](super::JobStore). In: changes and questions of all endpoints. Out:
//! their answers.
//! Invariants: an operation is one round trip, and is sent once; only a claim whose answer was lost is
//! asked again, by its token; a job that runs here has a lease in Redis, which this host renews with every
//! beat until what came of the job is stored: once it has not done so for [`LEASE`], another host takes the
//! job, and what comes of it here counts no more. Jobs that other hosts have submitted, cancelled or taken
//! are known here by the next beat. What was acknowledged is as safe as that Redis is told to keep it
//! (`appendonly`, `appendfsync`).

mod arguments;
mod reply;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use redis::{Cmd, Value};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use self::arguments::{encoded, fields, number};
use self::reply::{Beat, Reply, parts};
use super::queue::Sending;
use super::{
    Attempt, Batch, BatchSubmission, Delivered, Delivery, DeliveryLimits, Job, JobError, Outcome, Page,
    Queue, Quota, Submission, WebhookState, record,
};
use crate::stores::{OpenError, Purpose, RedisClient, RedisPlace, Unavailable};
use crate::time::milliseconds;

/// The script that Redis runs.
const SCRIPT: &str = concat!(include_str!("redis/script.lua"), include_str!("redis/operations.lua"));
/// How long a job is a host's that has not renewed its lease.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// How often leases are renewed, and jobs of other hosts looked for.
const BEAT: Duration = Duration::from_secs(1);
/// Most bytes of one value that a Redis takes, if its `proto-max-bulk-len` is the usual one.
const MOST_BYTES: usize = 512 << 20;
/// How much longer than an attempt to deliver a message is a host's.
const SEND_GRACE: Duration = Duration::from_secs(10);
const PURPOSE: Purpose = Purpose { store: "the store of jobs", needs_log: true };

/// A store in a Redis.
pub(super) struct Redis {
    pub(super) client: Arc<ScriptClient>,
    /// Most bytes of a body.
    pub(super) most_bytes: usize,
    /// Ends with this.
    _beats: JoinSet<()>,
}

/// Runs the script.
pub(super) struct ScriptClient {
    redis: RedisClient,
    prefix: String,
    /// Redis' clock less this host's, in milliseconds.
    pub(super) ahead: AtomicI64,
    /// By name.
    endpoints: Mutex<HashMap<String, Arc<EndpointJobs>>>,
}

/// The part of an endpoint's jobs that this host has.
#[derive(Default)]
struct EndpointJobs {
    queue: Arc<Queue>,
    /// The claims of jobs whose leases this host renews, by id.
    held: Mutex<HashMap<String, u64>>,
    /// The tokens of claims whose answers were lost: a job may have been claimed by each.
    unanswered: Mutex<Vec<String>>,
}

impl EndpointJobs {
    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of a lease, if it is that of this claim; gives whether it is.
    fn release(&self, id: &str, claim: u64) -> bool {
        let mut held = self.held();
        let is_it = held.get(id) == Some(&claim);
        if is_it {
            held.remove(id);
        }
        is_it
    }
}

impl From<Unavailable> for JobError {
    fn from(Unavailable(why): Unavailable) -> JobError {
        JobError::Unavailable(why)
    }
}

impl Redis {
    pub(super) async fn open(place: &RedisPlace) -> Result<Redis, OpenError> {
        let redis = RedisClient::open(place, SCRIPT, &PURPOSE).await?;
        let prefix = place.prefix.clone();
        let client = ScriptClient { redis, prefix, ahead: AtomicI64::new(0), endpoints: Mutex::default() };
        // The first beat knows it too. It is of no endpoint; an empty name would be no hash tag.
        if let Ok(time) = client.run("-", "time", &[]).await.and_then(Reply::new).and_then(Reply::clock) {
            client.set_time(time);
        }
        let client = Arc::new(client);
        let mut beats = JoinSet::new();
        let own = client.clone();
        beats.spawn(async move {
            loop {
                tokio::time::sleep(BEAT).await;
                let mut all = JoinSet::new();
                for (name, jobs) in own.endpoints() {
                    let own = own.clone();
                    // None keeps the leases of other endpoints waiting, however long `jobs.timeout` is.
                    all.spawn(async move { timeout(BEAT * 2, own.beat(&name, &jobs)).await });
                }
                all.join_all().await;
            }
        });
        Ok(Redis { client, most_bytes: MOST_BYTES, _beats: beats })
    }

    pub(super) fn is_up(&self) -> bool {
        self.client.redis.is_up()
    }

    pub(super) fn queue(&self, endpoint: &str) -> Arc<Queue> {
        self.client.endpoint(endpoint).queue.clone()
    }

    async fn run(&self, endpoint: &str, operation: &str, arguments: &[&[u8]]) -> Result<Reply, JobError> {
        let value = self.client.run(endpoint, operation, arguments).await?;
        Ok(Reply::new(value)?)
    }

    pub(super) async fn submit(
        &self,
        endpoint: &str,
        submission: Submission,
        quota: Quota,
    ) -> Result<(Job, bool), JobError> {
        let delay = submission.delay;
        self.fits(submission.body.len(), "the body").map_err(JobError::Full)?;
        let (job, body) = submission.into_job(self.client.now(), None);
        let (record, fields) = (encoded(&job), fields(&job, delay));
        let [most_jobs, most_bytes] = [quota.queue, quota.bytes].map(|most| most.to_string());
        let mut arguments: Vec<&[u8]> =
            vec![most_jobs.as_bytes(), most_bytes.as_bytes(), job.id.as_bytes(), &record, &body];
        arguments.extend(fields.iter().map(|field| field.as_bytes()));
        let mut reply = self.run(endpoint, "submit", &arguments).await?;
        match reply.kind.as_str() {
            "stored" => Ok((reply.job()?, true)),
            "known" => Ok((reply.job()?, false)),
            "conflict" => Err(JobError::Conflict),
            _ => Err(reply.refusal(quota, 1)),
        }
    }

    pub(super) async fn next_due(&self, endpoint: &str) -> Result<Option<Duration>, JobError> {
        let mut reply = self.run(endpoint, "due", &[]).await?;
        Ok(if reply.is_none() { None } else { reply.time()? })
    }

    pub(super) async fn claim(&self, endpoint: &str) -> Result<Option<(Job, Bytes)>, JobError> {
        let own = self.client.endpoint(endpoint);
        let lost = own.unanswered().pop();
        let is_again = lost.is_some();
        let token = lost.unwrap_or_else(|| Uuid::new_v4().to_string());
        let mut reply = match self.claimed_by(endpoint, &token, is_again).await {
            Ok(reply) => reply,
            Err(error) => {
                own.unanswered().push(token);
                return Err(error);
            }
        };
        if reply.is_none() {
            return Ok(None);
        }
        let (job, body) = (reply.job()?, reply.body()?.unwrap_or_default());
        if own.held().insert(job.id.clone(), job.claims).is_some() {
            // An attempt of this host's that has lost its lease, and was not told yet.
            own.queue.stop(&job.id);
        }
        Ok(Some((job, body)))
    }

    async fn claimed_by(&self, endpoint: &str, token: &str, is_again: bool) -> Result<Reply, JobError> {
        let (lease, again) = (number(milliseconds(LEASE)), if is_again { "1" } else { "0" });
        self.run(endpoint, "claim", &[lease.as_bytes(), token.as_bytes(), again.as_bytes()]).await
    }

    /// Claims a job and forgets the answer.
    #[cfg(test)]
    pub(super) async fn lose_a_claim(&self, endpoint: &str) {
        self.claimed_by(endpoint, "token", false).await.unwrap();
        self.client.endpoint(endpoint).unanswered().push("token".to_owned());
    }

    /// Whether a body can be stored.
    fn fits(&self, bytes: usize, what: &str) -> Result<(), String> {
        let most = self.most_bytes;
        if bytes <= most {
            Ok(())
        } else {
            Err(format!("{what} has {bytes} bytes, and a Redis takes {most}"))
        }
    }

    pub(super) async fn end(
        &self,
        endpoint: &str,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<(), JobError> {
        let (kind, why, answer, delay) = match outcome {
            Outcome::Answered { is_ok: true, answer, body } => {
                ("completed", String::new(), Some((answer, body)), Duration::ZERO)
            }
            Outcome::Answered { answer, body, .. } => {
                ("refused", String::new(), Some((answer, body)), Duration::ZERO)
            }
            Outcome::Failed { error, answer } => ("failed", error, answer, Duration::ZERO),
            Outcome::NotTried { delay } => ("postponed", String::new(), None, delay),
            Outcome::CutOff => ("cut-off", String::new(), None, Duration::ZERO),
        };
        let size = answer.as_ref().map_or(0, |(_, body)| body.len());
        let (kind, why, answer) = match self.fits(size, "the answer") {
            Ok(()) => (kind, why, answer),
            // Another attempt would come to the same, and so would another try to store this one.
            Err(why) => ("given-up", why, None),
        };
        let (answer, body) = answer.map(|(answer, body)| (encoded(&answer), body)).unwrap_or_default();
        let (claim, delay) = (number(attempt.claim), number(milliseconds(delay)));
        let arguments: [&[u8]; 7] = [
            attempt.id.as_bytes(),
            claim.as_bytes(),
            kind.as_bytes(),
            why.as_bytes(),
            &answer,
            &body,
            delay.as_bytes(),
        ];
        self.run(endpoint, "end", &arguments).await?;
        self.client.endpoint(endpoint).release(&attempt.id, attempt.claim);
        Ok(())
    }

    /// A job after an operation on it; `None` if there is none.
    async fn changed(
        &self,
        endpoint: &str,
        operation: &str,
        arguments: &[&[u8]],
    ) -> Result<Option<Job>, JobError> {
        let mut reply = self.run(endpoint, operation, arguments).await?;
        if reply.is_none() { Ok(None) } else { Ok(Some(reply.job()?)) }
    }

    pub(super) async fn cancel(
        &self,
        endpoint: &str,
        id: &str,
        is_queued_only: bool,
    ) -> Result<Option<Job>, JobError> {
        let is_queued_only: &[u8] = if is_queued_only { b"1" } else { b"0" };
        self.changed(endpoint, "cancel", &[id.as_bytes(), is_queued_only]).await
    }

    pub(super) async fn send_again(&self, endpoint: &str, id: &str) -> Result<Option<Job>, JobError> {
        self.changed(endpoint, "send-again", &[id.as_bytes()]).await
    }

    pub(super) async fn result(
        &self,
        endpoint: &str,
        id: &str,
        longest: usize,
    ) -> Result<Option<(Job, Option<Bytes>)>, JobError> {
        let longest = number(longest as u64);
        let mut reply = self.run(endpoint, "result", &[id.as_bytes(), longest.as_bytes()]).await?;
        if reply.is_none() { Ok(None) } else { Ok(Some((reply.job()?, reply.body()?))) }
    }

    pub(super) async fn list(
        &self,
        endpoint: &str,
        page: Page,
    ) -> Result<(Vec<Job>, Option<String>), JobError> {
        let limit = page.limit.clamp(1, super::MOST_LISTED).to_string();
        let after = page.after.unwrap_or_default();
        let state = page.state.map(super::JobState::name).unwrap_or_default();
        let (operation, last) = match &page.batch {
            Some(batch) => ("parts", batch.as_str()),
            None => ("list", page.webhook.map(WebhookState::name).unwrap_or_default()),
        };
        let arguments = [&*after, &*limit, state, last].map(str::as_bytes);
        Ok(self.run(endpoint, operation, &arguments).await?.page()?)
    }

    pub(super) async fn due_deliveries(
        &self,
        endpoint: &str,
        sending: Sending,
        limits: DeliveryLimits,
    ) -> Result<(Vec<Delivery>, Option<Duration>), JobError> {
        let free = limits.concurrency.saturating_sub(sending.ids.len()).to_string();
        let lease = number(milliseconds(limits.timeout + SEND_GRACE));
        let mut arguments = vec![free, limits.by_origin.to_string(), lease];
        for (origin, count) in sending.origins {
            arguments.extend([origin, count.to_string()]);
        }
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        Ok(self.run(endpoint, "deliveries", &arguments).await?.deliveries()?)
    }

    pub(super) async fn delivered(
        &self,
        endpoint: &str,
        delivery: &Delivery,
        outcome: Delivered,
        most: u32,
    ) -> Result<Option<WebhookState>, JobError> {
        let (is_accepted, why, is_final, after) = match outcome {
            Delivered::Accepted => ("1", String::new(), "0", Duration::ZERO),
            Delivered::Failed { error, is_final: true, after } => ("0", error, "1", after),
            Delivered::Failed { error, after, .. } => ("0", error, "0", after),
        };
        let (after, most) = (number(milliseconds(after)), most.to_string());
        let arguments: [&[u8]; 7] = [
            delivery.id.as_bytes(),
            &delivery.place,
            is_accepted.as_bytes(),
            why.as_bytes(),
            is_final.as_bytes(),
            after.as_bytes(),
            most.as_bytes(),
        ];
        let mut reply = self.run(endpoint, "delivered", &arguments).await?;
        if reply.is_none() { Ok(None) } else { Ok(Some(reply.webhook_state()?)) }
    }

    pub(super) async fn submit_batch(
        &self,
        endpoint: &str,
        submission: BatchSubmission,
        quota: Quota,
    ) -> Result<Batch, JobError> {
        let longest = submission.parts.iter().map(Bytes::len).max().unwrap_or_default();
        self.fits(longest, "a part").map_err(JobError::Full)?;
        let now = self.client.now();
        let (batch, parts) = submission.into_batch(now);
        let list = |job: &Job| encoded(&fields(job, Duration::ZERO));
        let [most_jobs, most_bytes, keep] = [quota.queue, quota.bytes, batch.keep].map(|it| it.to_string());
        let timeout = batch.until.map(|until| number(until - now)).unwrap_or_default();
        let last = batch.last().map(|last| last.into_job(now, None).0);
        let (last_record, last_fields) =
            last.as_ref().map(|job| (encoded(job), list(job))).unwrap_or_default();
        let jobs: Vec<(Job, Vec<u8>, Bytes)> = parts
            .into_iter()
            .map(|part| {
                let (job, body) = part.into_job(now, Some(batch.id.clone()));
                let record = encoded(&job);
                (job, record, body)
            })
            .collect();
        let (record, fields) = (encoded(&batch), jobs.first().map(|(job, ..)| list(job)).unwrap_or_default());
        let last_id = last.as_ref().map(|job| job.id.as_bytes()).unwrap_or_default();
        let mut arguments: Vec<&[u8]> = vec![
            most_jobs.as_bytes(),
            most_bytes.as_bytes(),
            batch.id.as_bytes(),
            &record,
            keep.as_bytes(),
            timeout.as_bytes(),
            &fields,
            last_id,
            &last_record,
            &last_fields,
        ];
        arguments.extend(jobs.iter().flat_map(|(job, record, body)| [job.id.as_bytes(), record, body]));
        let mut reply = self.run(endpoint, "submit-batch", &arguments).await?;
        if reply.kind == "batch" { Ok(reply.batch()?) } else { Err(reply.refusal(quota, batch.total)) }
    }

    pub(super) async fn batch(&self, endpoint: &str, id: &str) -> Result<Option<Batch>, JobError> {
        let mut reply = self.run(endpoint, "batch", &[id.as_bytes()]).await?;
        if reply.is_none() { Ok(None) } else { Ok(Some(reply.batch()?)) }
    }

    pub(super) async fn stop_batch(&self, endpoint: &str, id: &str) -> Result<Option<Batch>, JobError> {
        let mut reply = self.run(endpoint, "stop-batch", &[id.as_bytes()]).await?;
        if reply.is_none() { Ok(None) } else { Ok(Some(reply.batch()?)) }
    }
}

impl ScriptClient {
    /// The time by Redis' clock, which is that of all hosts.
    pub(super) fn now(&self) -> u64 {
        record::now().saturating_add_signed(self.ahead.load(Ordering::Relaxed))
    }

    /// Redis has just said its time.
    fn set_time(&self, time: u64) {
        let ahead = i128::from(time) - i128::from(record::now());
        self.ahead.store(i64::try_from(ahead).unwrap_or(0), Ordering::Relaxed);
    }

    fn endpoint(&self, name: &str) -> Arc<EndpointJobs> {
        let mut endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = endpoints.get(name) {
            return endpoint.clone();
        }
        endpoints.entry(name.to_owned()).or_default().clone()
    }

    /// Those whose jobs were asked for since the start.
    fn endpoints(&self) -> Vec<(String, Arc<EndpointJobs>)> {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.iter().map(|(name, jobs)| (name.clone(), jobs.clone())).collect()
    }

    async fn run(&self, endpoint: &str, operation: &str, arguments: &[&[u8]]) -> Result<Value, Unavailable> {
        let base = format!("{}:jobs:{{{endpoint}}}", self.prefix);
        // No key has the first of these names, so that a cluster that is moving the slot has both on no
        // node, and refuses the script meanwhile: with one name alone, the node to which the slot goes would
        // run it on those keys that are there already.
        let numbers = format!("{base}:numbers");
        let given = self
            .redis
            .run(&base, SCRIPT, |command: &mut Cmd| {
                command.arg(2).arg(base.as_str()).arg(numbers.as_str()).arg(operation);
                for argument in arguments {
                    command.arg(*argument);
                }
            })
            .await?;
        let (reply, ended) = parts(given)?;
        if !ended.is_empty() {
            self.endpoint(endpoint).queue.ended(endpoint, &ended);
        }
        Ok(reply)
    }

    /// Renews the leases of an endpoint's jobs, and looks at what others have done.
    async fn beat(&self, name: &str, jobs: &EndpointJobs) {
        let held: Vec<(String, u64)> = jobs.held().iter().map(|(id, claim)| (id.clone(), *claim)).collect();
        let mut arguments = vec![number(milliseconds(LEASE))];
        for (id, claim) in &held {
            arguments.extend([id.clone(), number(*claim)]);
        }
        let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        // Without an answer the next one renews them.
        let Ok(value) = self.run(name, "beat", &arguments).await else { return };
        let Ok(Beat { queued, running, oldest, ready, webhooks, due, lost, time }) =
            Reply::new(value).and_then(Reply::beat)
        else {
            return;
        };
        self.set_time(time);
        // By this host's clock, to which it is compared.
        let oldest = oldest.map(|oldest| record::now().saturating_sub(time.saturating_sub(oldest)));
        jobs.queue.set_numbers(queued, running, oldest);
        jobs.queue.set_webhooks(webhooks);
        if ready > 0 {
            jobs.queue.ready();
        }
        if due > 0 {
            jobs.queue.deliver();
        }
        for (id, claim) in held.iter().filter(|(id, _)| lost.contains(id)) {
            if jobs.release(id, *claim) {
                jobs.queue.stop(id);
            }
        }
    }
}
