//! The jobs of an endpoint, counted.
//!
//! Place in the flow: counted by `server/http/jobs.rs` and `capabilities/jobs/submit.rs` when one is
//! submitted and by the workers when an attempt has ended; those that are not finished, and those that have
//! ended, are taken from the store before the metrics are rendered.
//! Invariant: endpoints without jobs have no series.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec};

use super::families::{Families, opts};
use crate::jobs::JobState;
use crate::time::since_1970;

/// The families of all endpoints.
#[derive(Clone)]
pub(super) struct JobFamilies {
    unfinished: IntGaugeVec,
    oldest: GaugeVec,
    submitted: IntCounterVec,
    ended: IntCounterVec,
    attempts: IntCounterVec,
    webhooks: IntCounterVec,
    pending: IntGaugeVec,
    up: IntGaugeVec,
    operations: IntCounterVec,
}

impl JobFamilies {
    /// With these names and help texts.
    pub(super) fn new(
        families: &Families,
        [unfinished, oldest, submitted, ended, attempts, webhooks, pending, up, operations]: [(&str, &str);
            9],
    ) -> Result<JobFamilies, prometheus::Error> {
        let by_outcome = ["endpoint", "outcome"];
        Ok(JobFamilies {
            unfinished: families.register(IntGaugeVec::new(opts(unfinished), &["endpoint", "state"])?)?,
            oldest: families.register(GaugeVec::new(opts(oldest), &["endpoint"])?)?,
            submitted: families.register(IntCounterVec::new(opts(submitted), &by_outcome)?)?,
            ended: families.register(IntCounterVec::new(opts(ended), &by_outcome)?)?,
            attempts: families.register(IntCounterVec::new(opts(attempts), &by_outcome)?)?,
            webhooks: families.register(IntCounterVec::new(opts(webhooks), &by_outcome)?)?,
            pending: families.register(IntGaugeVec::new(opts(pending), &["endpoint"])?)?,
            up: families.register(IntGaugeVec::new(opts(up), &["endpoint"])?)?,
            operations: families
                .register(IntCounterVec::new(opts(operations), &["endpoint", "operation", "outcome"])?)?,
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

impl Submitted {
    const ALL: [Submitted; 3] = [Submitted::Stored, Submitted::Repeated, Submitted::Refused];

    fn name(self) -> &'static str {
        match self {
            Submitted::Stored => "stored",
            Submitted::Repeated => "repeated",
            Submitted::Refused => "refused",
        }
    }
}

impl AttemptOutcome {
    const ALL: [AttemptOutcome; 4] = [
        AttemptOutcome::Completed,
        AttemptOutcome::Failed,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Postponed,
    ];

    fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Completed => "completed",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Cancelled => "cancelled",
            AttemptOutcome::Postponed => "postponed",
        }
    }
}

impl DeliveryOutcome {
    const ALL: [DeliveryOutcome; 3] =
        [DeliveryOutcome::Delivered, DeliveryOutcome::Failed, DeliveryOutcome::Dead];

    fn name(self) -> &'static str {
        match self {
            DeliveryOutcome::Delivered => "delivered",
            DeliveryOutcome::Failed => "failed",
            DeliveryOutcome::Dead => "dead",
        }
    }
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

    /// Begins the series of an endpoint that has jobs, at zero; but for what its handler asks.
    pub fn begin(&self) {
        self.add_ended([0; JobState::ENDS.len()]);
        let JobFamilies { submitted, attempts, webhooks, .. } = &self.families;
        let of_submissions = Submitted::ALL.map(Submitted::name);
        let of_attempts = AttemptOutcome::ALL.map(AttemptOutcome::name);
        let of_webhooks = DeliveryOutcome::ALL.map(DeliveryOutcome::name);
        let all: [(_, &[&str]); 3] =
            [(submitted, &of_submissions), (attempts, &of_attempts), (webhooks, &of_webhooks)];
        for (family, outcomes) in all {
            for outcome in outcomes {
                family.with_label_values(&[&*self.endpoint, outcome]);
            }
        }
    }

    /// A submission has ended.
    pub fn submitted(&self, outcome: Submitted) {
        self.families.submitted.with_label_values(&[&*self.endpoint, outcome.name()]).inc();
    }

    /// Adds jobs that have ended, in the order of [`JobState::ENDS`].
    pub fn add_ended(&self, jobs: [u64; JobState::ENDS.len()]) {
        for (state, number) in JobState::ENDS.into_iter().zip(jobs) {
            self.families.ended.with_label_values(&[&*self.endpoint, state.name()]).inc_by(number);
        }
    }

    /// A handler has asked this of the jobs.
    pub fn asked(&self, operation: &str, is_ok: bool) {
        let labels = [&*self.endpoint, operation, if is_ok { "ok" } else { "error" }];
        self.families.operations.with_label_values(&labels).inc();
    }

    /// An attempt has ended.
    pub fn attempted(&self, outcome: AttemptOutcome) {
        self.families.attempts.with_label_values(&[&*self.endpoint, outcome.name()]).inc();
    }

    /// An attempt to deliver a webhook has ended.
    pub fn delivered(&self, outcome: DeliveryOutcome) {
        self.families.webhooks.with_label_values(&[&*self.endpoint, outcome.name()]).inc();
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
            let now = since_1970(SystemTime::now());
            now.saturating_sub(Duration::from_millis(time)).as_secs_f64()
        };
        let oldest = oldest.map_or(0.0, since);
        self.families.oldest.with_label_values(&[&*self.endpoint]).set(oldest);
    }
}
