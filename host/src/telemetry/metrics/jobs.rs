//! The jobs of an endpoint, counted.
//!
//! Place in the flow: counted by `server/http/jobs.rs` and `plugin/jobs.rs` when one is submitted and by the
//! workers when an attempt has ended; those that are not finished are set from the store before the metrics
//! are rendered.
//! Invariant: endpoints without jobs have no series.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Registry};

use super::{opts, register};

/// The families of all endpoints.
#[derive(Clone)]
pub(super) struct JobFamilies {
    unfinished: IntGaugeVec,
    oldest: GaugeVec,
    submitted: IntCounterVec,
    attempts: IntCounterVec,
    webhooks: IntCounterVec,
    pending: IntGaugeVec,
    up: IntGaugeVec,
    operations: IntCounterVec,
}

impl JobFamilies {
    /// With these names and help texts.
    pub(super) fn new(
        registry: &Registry,
        [unfinished, oldest, submitted, attempts, webhooks, pending, up, operations]: [(&str, &str); 8],
    ) -> Result<JobFamilies, prometheus::Error> {
        let by_outcome = ["endpoint", "outcome"];
        Ok(JobFamilies {
            unfinished: register(registry, IntGaugeVec::new(opts(unfinished), &["endpoint", "state"])?)?,
            oldest: register(registry, GaugeVec::new(opts(oldest), &["endpoint"])?)?,
            submitted: register(registry, IntCounterVec::new(opts(submitted), &by_outcome)?)?,
            attempts: register(registry, IntCounterVec::new(opts(attempts), &by_outcome)?)?,
            webhooks: register(registry, IntCounterVec::new(opts(webhooks), &by_outcome)?)?,
            pending: register(registry, IntGaugeVec::new(opts(pending), &["endpoint"])?)?,
            up: register(registry, IntGaugeVec::new(opts(up), &["endpoint"])?)?,
            operations: register(
                registry,
                IntCounterVec::new(opts(operations), &["endpoint", "operation", "outcome"])?,
            )?,
        })
    }
}

/// The outcome of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    /// It is a job now.
    Stored,
    /// There was a job with its idempotency key.
    Repeated,
    /// It is none.
    Refused,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The answer was no error.
    Completed,
    /// It was one, or there was none.
    Failed,
    /// The job was cancelled meanwhile.
    Cancelled,
    /// The server did not take it: the job is tried later.
    Postponed,
}

/// The outcome of an attempt to deliver a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver has it.
    Delivered,
    /// Another attempt follows.
    Failed,
    /// None does.
    Dead,
}

/// Counts the jobs of one endpoint.
#[derive(Clone)]
pub struct JobCounts {
    families: JobFamilies,
    endpoint: Arc<str>,
}

impl JobCounts {
    pub(super) fn new(families: &JobFamilies, endpoint: &str) -> JobCounts {
        JobCounts { families: families.clone(), endpoint: endpoint.into() }
    }

    /// A submission has ended.
    pub fn submitted(&self, outcome: Submitted) {
        let outcome = match outcome {
            Submitted::Stored => "stored",
            Submitted::Repeated => "repeated",
            Submitted::Refused => "refused",
        };
        self.families.submitted.with_label_values(&[&*self.endpoint, outcome]).inc();
    }

    /// A handler has asked this of the jobs.
    pub fn asked(&self, operation: &str, is_ok: bool) {
        let labels = [&*self.endpoint, operation, if is_ok { "ok" } else { "error" }];
        self.families.operations.with_label_values(&labels).inc();
    }

    /// An attempt has ended.
    pub fn attempted(&self, outcome: AttemptOutcome) {
        let outcome = match outcome {
            AttemptOutcome::Completed => "completed",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Cancelled => "cancelled",
            AttemptOutcome::Postponed => "postponed",
        };
        self.families.attempts.with_label_values(&[&*self.endpoint, outcome]).inc();
    }

    /// An attempt to deliver a webhook has ended.
    pub fn delivered(&self, outcome: DeliveryOutcome) {
        let outcome = match outcome {
            DeliveryOutcome::Delivered => "delivered",
            DeliveryOutcome::Failed => "failed",
            DeliveryOutcome::Dead => "dead",
        };
        self.families.webhooks.with_label_values(&[&*self.endpoint, outcome]).inc();
    }

    /// Brings up to date how many webhooks are pending.
    pub fn set_pending(&self, webhooks: i64) {
        self.families.pending.with_label_values(&[&*self.endpoint]).set(webhooks);
    }

    /// Brings up to date whether the store can be reached.
    pub fn set_up(&self, is_up: bool) {
        self.families.up.with_label_values(&[&*self.endpoint]).set(i64::from(is_up));
    }

    /// Brings up to date: jobs queued, jobs running, and when the oldest of those that wait for a place was
    /// submitted, in milliseconds since 1970.
    pub fn set(&self, (queued, running, oldest): (u64, u64, Option<u64>)) {
        for (state, number) in [("queued", queued), ("running", running)] {
            let gauge = self.families.unfinished.with_label_values(&[&*self.endpoint, state]);
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        let since = |time: u64| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            now.saturating_sub(Duration::from_millis(time)).as_secs_f64()
        };
        let oldest = oldest.map_or(0.0, since);
        self.families.oldest.with_label_values(&[&*self.endpoint]).set(oldest);
    }
}
