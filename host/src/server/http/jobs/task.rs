//! The common part of an endpoint's tasks for jobs: each worker, and the one that sends webhooks.
//!
//! Place in the flow: inside `workers.rs` and `deliveries.rs`. In: what is served, the drain. Out: whether
//! the task goes on, and when.
//! Invariant: a task ends when its endpoint is served no more, or the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::jobs::{JobStore, Queue};
use crate::rollout::deployment::Deployment;
use crate::server::drain::Drain;
use crate::server::served::Served;

/// The wait of a task that could not use the store.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait, also for what is due at a known time: a clock may be set.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(60);

/// A task for the jobs of one endpoint.
#[derive(Clone)]
pub(super) struct JobTask {
    pub(super) endpoint: Arc<Deployment>,
    pub(super) store: Arc<JobStore>,
    pub(super) queue: Arc<Queue>,
    pub(super) served: watch::Receiver<Option<Arc<Served>>>,
    pub(super) drain: Drain,
}

impl JobTask {
    /// All that is served now; `None` if this endpoint is not, or the server stops.
    pub(super) fn current(&mut self) -> Option<Arc<Served>> {
        let served = self.served.borrow_and_update().clone()?;
        let own = served.endpoints.named(&self.endpoint.config.name)?;
        (Arc::ptr_eq(own, &self.endpoint) && !self.drain.has_begun()).then_some(served)
    }

    /// Waits for `woken`, for so long if the time is known, or until something else has changed. Never for
    /// ever: a task that ends may take the wake of another with it.
    pub(super) async fn rest(&mut self, time: Option<Duration>, woken: impl Future<Output = ()>) {
        let until = time.unwrap_or(LONGEST_REST).min(LONGEST_REST);
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(until) => {}
            _ = self.served.changed() => {}
            () = self.drain.begun() => {}
        }
    }
}
