//! An endpoint together with what replaces its generations.
//!
//! Place in the flow: what `server` holds of each endpoint. Its methods are in `swap.rs`, `models.rs` and
//! `candidate.rs`; here is what they share.
//! Invariants: one change at a time: `swapping` is held while a generation is made; nothing is published on a
//! deployment that is retired, which is decided where it would be.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::deploy_request::DeployRequest;
use super::error::DeployError;
use super::history::{Attempt, History, Origin};
use super::ledger::Ledger;
use super::trial::{Mode, Trial};
use crate::capture::record::Recorder;
use crate::capture::samples::Samples;
use crate::endpoint::Endpoint;
use crate::endpoint::breaker::Breaker;
use crate::endpoint::generation::Generation;
use crate::file::stamp::FileStamp;
use crate::model::Catalog;
use crate::plugin::Sandbox;
use crate::text;
use crate::time::{milliseconds, unix_seconds};

/// Proves that a deployment serves, and keeps it from being retired.
pub(super) type Serving<'a> = MutexGuard<'a, ()>;

/// An endpoint, and what replaces its generations.
pub struct Deployment {
    pub(super) endpoint: Endpoint,
    pub(super) sandbox: Sandbox,
    pub(super) catalog: Arc<Catalog>,
    /// The generation before, kept for a rollback.
    pub(super) previous: ArcSwapOption<Generation>,
    /// The handler that is on trial beside the current generation.
    pub(super) trial: ArcSwapOption<Trial>,
    /// Held while a new generation is made, so that two never race.
    pub(super) swapping: Mutex<()>,
    /// Held while something is published, which may wait for the disk, and while others take its place.
    pub(super) publishing: Mutex<()>,
    /// Whether it serves no more. Changes while that is held.
    pub(super) is_retired: AtomicBool,
    /// The handler's file as an order has written it last: nothing that the watch has to swap in.
    pub(super) written: ArcSwapOption<FileStamp>,
    /// Told when a breaker opens.
    pub(super) breaker_opened: Arc<Notify>,
    /// The versions that were refused in the handler's file.
    pub(super) ledger: Option<Ledger>,
    /// The outcome of every attempt to publish another generation.
    pub history: History,
    /// Records requests, if that was asked for.
    pub recorder: Option<Recorder>,
    /// The last requests, if the gate wants any.
    pub samples: Option<Samples>,
}

/// A deployment is an endpoint that can change.
impl Deref for Deployment {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Deployment {
    /// The generation that a rollback goes back to.
    pub fn previous(&self) -> Option<Arc<Generation>> {
        self.previous.load_full()
    }

    /// The candidate that is on trial.
    pub fn trial(&self) -> Option<Arc<Trial>> {
        self.trial.load_full()
    }

    /// Whether there is a candidate, which may answer in place of the current generation.
    pub fn has_candidate(&self) -> bool {
        self.trial.load().as_ref().is_some_and(|trial| trial.spec.mode == Mode::Canary)
    }

    /// Retires these deployments, if `publish` has others take their places: an order that was under way has
    /// published before, or is refused.
    ///
    /// # Errors
    /// As `publish`; then they serve on.
    pub async fn retire<E>(
        deployments: &[&Deployment],
        publish: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut held = Vec::with_capacity(deployments.len());
        for one in deployments {
            held.push(one.publishing.lock().await);
        }
        publish()?;
        deployments.iter().for_each(|one| one.is_retired.store(true, Ordering::SeqCst));
        Ok(())
    }

    /// Keeps it from being retired, for as long as something is published.
    ///
    /// # Errors
    /// [`DeployError::Gone`]: it is retired.
    pub(super) async fn serving(&self) -> Result<Serving<'_>, DeployError> {
        let serving = self.publishing.lock().await;
        self.serves().map(|()| serving)
    }

    /// Says whether it serves, now.
    ///
    /// # Errors
    /// [`DeployError::Gone`]: it is retired.
    fn serves(&self) -> Result<(), DeployError> {
        match self.is_retired.load(Ordering::SeqCst) {
            true => Err(DeployError::Gone { endpoint: self.config.name.clone() }),
            false => Ok(()),
        }
    }

    /// Answers the requests that are here with `shutting_down`, and any that would have to wait for
    /// something.
    pub fn close(&self) {
        self.endpoint.close();
        self.sandbox.stop();
    }

    /// Brings the gauges up to date, before they are rendered.
    pub fn refresh_metrics(&self) {
        self.endpoint.refresh_metrics();
        let trial = self.trial();
        if let Some(trial) = &trial {
            trial.count();
        }
        self.metrics.trial.share.set(trial.as_ref().map_or(0.0, |trial| trial.share()));
        let candidate = trial.and_then(|trial| trial.digest());
        let previous = self.previous().and_then(|previous| previous.digest.clone());
        self.metrics.plugins.set([self.current().digest.clone(), candidate, previous]);
    }

    /// The breaker of a new generation, if the operator wants one.
    pub(super) fn breaker(&self) -> Option<Breaker> {
        self.config.breaker.map(|policy| Breaker::new(policy, self.breaker_opened.clone()))
    }

    /// Whether an order is about the handler of this digest, on an endpoint that serves.
    pub(super) fn expect(&self, order: &DeployRequest, found: Option<&str>) -> Result<(), DeployError> {
        self.serves()?;
        let found = found.unwrap_or_default();
        match &order.expected {
            Some(expected) if expected != found => Err(DeployError::Expected {
                endpoint: self.config.name.clone(),
                expected: expected.clone(),
                found: found.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Writes down what an attempt came to.
    pub(super) fn note(
        &self,
        order: &DeployRequest,
        started: Instant,
        digest: Option<Arc<str>>,
        outcome: Result<&Generation, &DeployError>,
    ) {
        match (&outcome, order.origin) {
            (_, Origin::Start) => {}
            (Ok(_), _) => self.metrics.swaps_published.inc(),
            (Err(_), _) => self.metrics.swaps_refused.inc(),
        }
        let new = outcome.ok();
        let error = outcome.err();
        self.history.add(Attempt {
            at: unix_seconds(SystemTime::now()),
            origin: order.origin,
            by: order.by.clone(),
            note: order.note.clone(),
            outcome: if new.is_some() { "published" } else { "refused" },
            generation: new.map(|new| new.number),
            digest: new.map_or(digest, |new| new.digest.clone()),
            step: error.map(DeployError::step),
            error: error.map(|error| text::cut(error.to_string())),
            gate: error.and_then(DeployError::report).cloned(),
            duration_ms: milliseconds(started.elapsed()),
        });
    }
}
