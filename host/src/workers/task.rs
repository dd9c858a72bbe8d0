//! The common part of an endpoint's tasks for jobs: each worker, and the one that sends webhooks.
//!
//! Place in the flow: inside `workers.rs` and `deliveries.rs`. In: what is served, the drain. Out: whether
//! the task goes on, and when.
//! Invariant: a task ends when its endpoint is served no more, or the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::message::MessageForm;
use crate::drain::Drain;
use crate::jobs::{JobStore, Queue};
use crate::rollout::deployment::Deployment;
use crate::rollout::endpoints::Endpoints;
use crate::telemetry::activity::Activity;

/// The wait of a task that could not use the store.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait, also for what is due at a known time: a clock may be set.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(60);

/// The process around the workers.
#[derive(Clone)]
pub struct JobContext {
    /// Where the jobs are.
    pub store: Arc<JobStore>,
    /// Whether the process is going away.
    pub drain: Drain,
    /// The calls that there are: an attempt is one.
    pub activity: Arc<Activity>,
    /// Whether results show the detail of the server's errors.
    pub is_debug: bool,
    /// Whether clients speak TLS with the server.
    pub is_secure: bool,
    /// The forms of messages beside the server's own.
    pub message_forms: &'static [&'static dyn MessageForm],
}

/// A task for the jobs of one endpoint.
#[derive(Clone)]
pub(super) struct JobTask {
    pub(super) endpoint: Arc<Deployment>,
    pub(super) context: Arc<JobContext>,
    pub(super) queue: Arc<Queue>,
    pub(super) served: watch::Receiver<Option<Endpoints>>,
}

impl JobTask {
    /// Whether this endpoint is served still, and the server does not stop.
    pub(super) fn goes_on(&mut self) -> bool {
        let served = self.served.borrow_and_update();
        let own = served.as_ref().and_then(|served| served.named(&self.endpoint.config.name));
        own.is_some_and(|own| Arc::ptr_eq(own, &self.endpoint)) && !self.context.drain.has_begun()
    }

    /// Waits for `woken`, for so long if the time is known, or until something else has changed. Never for
    /// ever: a task that ends may take the wake of another with it.
    pub(super) async fn rest(&mut self, time: Option<Duration>, woken: impl Future<Output = ()>) {
        let until = time.unwrap_or(LONGEST_REST).min(LONGEST_REST);
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(until) => {}
            _ = self.served.changed() => {}
            () = self.context.drain.begun() => {}
        }
    }
}
