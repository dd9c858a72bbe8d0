//! Orders about a candidate: on trial, with another share, promoted, dropped; and the task that looks after a
//! canary.
//!
//! Place in the flow: `server/admin/trial.rs` gives the orders, [`follow`] publishes or drops a canary by its
//! verdicts.
//! In: a component and a [`TrialSpec`]. Out: a [`Trial`], or the step that refused it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

use super::deploy_request::{DeployOutcome, DeployRequest, GenerationChange};
use super::deployment::Deployment;
use super::error::DeployError;
use super::history::Origin;
use super::trial::{Mode, Trial, TrialSpec, Verdict};
use crate::endpoint::generation::Generation;
use crate::plugin::Binary;
use crate::text::on_one_line;
use crate::values::Ratio;

/// How often a canary is looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Deployment {
    /// Puts a handler on trial beside the current generation, in place of one that is; nothing else changes.
    ///
    /// # Errors
    /// [`DeployError`]: it is not put on trial, and what was before goes on.
    pub async fn try_out(
        self: &Arc<Self>,
        component: Binary,
        spec: TrialSpec,
        order: &DeployRequest,
    ) -> Result<Arc<Trial>, DeployError> {
        let started = Instant::now();
        let _turn = self.swapping.lock().await;
        let old = self.current();
        self.expect(order, old.digest.as_deref())?;
        let digest = component.digest().clone();
        let trial = async {
            let change = GenerationChange { component: Some(component), ..GenerationChange::default() };
            let Some(pipeline) = self.make(&change, order, &old).await? else {
                let (endpoint, digest) = (self.config.name.clone(), digest.clone());
                return Err(DeployError::SameCandidate { endpoint, digest });
            };
            // No client gets an answer of a shadow: before it is published is early enough.
            if spec.mode == Mode::Canary {
                self.gate(&old, &pipeline, order).await?;
            }
            let mode = spec.mode;
            Trial::begin(&self.config, &self.metrics, &old, pipeline, spec, order)
                .map_err(|error| self.ended_by(mode, format!("no thread for shadows: {error}")))
        };
        let trial = trial.await.inspect_err(|error| self.note(order, started, Some(digest), Err(error)))?;
        let trial = Arc::new(trial);
        let placed = self.serving().await.map(|_serving| self.trial.swap(Some(trial.clone())));
        let before = placed.inspect_err(|error| {
            retire(&trial);
            self.note(order, started, trial.digest(), Err(error));
        })?;
        if let Some(before) = before {
            self.ended(&before, order, "another candidate took its place");
        }
        tracing::info!(endpoint = %self.config.name, plugin.digest = trial.candidate.load().digest.as_deref(),
            mode = trial.spec.mode.name(), share = trial.share(), note = order.note.as_deref(), "candidate on trial");
        if trial.spec.mode == Mode::Canary {
            tokio::spawn(follow(Arc::downgrade(self), Arc::downgrade(&trial), trial.alarm.clone()));
        }
        Ok(trial)
    }

    /// Gives the candidate another share, which is held until another order.
    ///
    /// # Errors
    /// [`DeployError::NoCandidate`], or the current handler is not the one that the order is about.
    pub fn set_share(&self, share: Ratio, order: &DeployRequest) -> Result<Arc<Trial>, DeployError> {
        let trial = self.trial();
        self.expect_beside(order, trial.as_deref())?;
        let trial = trial.ok_or_else(|| self.no_candidate())?;
        trial.enter(vec![share], None);
        Ok(trial)
    }

    /// Publishes the candidate.
    ///
    /// # Errors
    /// [`DeployError::NoCandidate`], or it is not on the condition of the order.
    pub async fn promote(&self, order: &DeployRequest) -> Result<DeployOutcome, DeployError> {
        let trial = self.trial().ok_or_else(|| self.no_candidate())?;
        self.publish_candidate(&trial, order).await
    }

    async fn publish_candidate(
        &self,
        trial: &Arc<Trial>,
        order: &DeployRequest,
    ) -> Result<DeployOutcome, DeployError> {
        let turn = self.swapping.lock().await;
        self.expect(order, self.current().digest.as_deref())?;
        if !self.trial().is_some_and(|now| Arc::ptr_eq(&now, trial)) {
            return Err(self.no_candidate());
        }
        // While this waited for its turn the candidate answered on, and an order may have come.
        if order.origin == Origin::Canary && !matches!(trial.verdict(), Verdict::Publish) {
            return Err(self.no_candidate());
        }
        let candidate = trial.candidate.load();
        let started = begun(&candidate);
        if trial.spec.mode == Mode::Shadow {
            let passed = self.gate(&self.current(), &candidate.pipeline, order).await;
            passed.inspect_err(|error| self.note(order, started, candidate.digest.clone(), Err(error)))?;
        }
        let published = self.serving().await.map(|serving| {
            let pipeline = candidate.pipeline.clone();
            self.take(trial).then(|| self.take_over(&turn, &serving, pipeline, order, started))
        });
        let published = published.inspect_err(|_| self.end_trial(order))?;
        let swapped = published.ok_or_else(|| self.no_candidate())?;
        if let Some(ledger) = &self.ledger {
            ledger.published(swapped.digest.as_deref()).await;
        }
        Ok(swapped)
    }

    /// Drops the candidate, if there is one; whether there was.
    ///
    /// # Errors
    /// The current handler is not the one that the order is about.
    pub fn drop_candidate(&self, order: &DeployRequest) -> Result<bool, DeployError> {
        let trial = self.trial();
        self.expect_beside(order, trial.as_deref())?;
        let trial = trial.filter(|trial| self.take(trial));
        if let Some(trial) = &trial {
            self.ended(trial, order, "an order");
        }
        Ok(trial.is_some())
    }

    /// Whether an order is about the handler that a candidate stands beside.
    fn expect_beside(&self, order: &DeployRequest, trial: Option<&Trial>) -> Result<(), DeployError> {
        match trial {
            Some(trial) => self.expect(order, trial.current.as_deref()),
            None => self.expect(order, self.current().digest.as_deref()),
        }
    }

    /// Another generation is about to be published: a candidate beside the old one has nothing to be compared
    /// with.
    pub(super) fn cancel_trial(&self, order: &DeployRequest) {
        if let Some(trial) = self.trial.swap(None) {
            self.ended(&trial, order, "another generation is published");
        }
    }

    /// Nothing is published or put on trial here any more: ends the trial there is. Requests may be left on
    /// the endpoint for long.
    pub fn end_trial(&self, order: &DeployRequest) {
        if let Some(trial) = self.trial.swap(None) {
            self.ended(&trial, order, "the endpoint is replaced or removed");
        }
    }

    /// Takes this candidate off trial; whether it was on trial.
    fn take(&self, trial: &Arc<Trial>) -> bool {
        let found = self.trial.compare_and_swap(&Some(trial.clone()), None);
        found.as_ref().is_some_and(|found| Arc::ptr_eq(found, trial))
    }

    /// The candidate is off trial, and not published.
    fn ended(&self, trial: &Trial, order: &DeployRequest, reason: &str) {
        retire(trial);
        let candidate = trial.candidate.load();
        let started = begun(&candidate);
        let error = self.ended_by(trial.spec.mode, reason.to_owned());
        tracing::warn!(endpoint = %self.config.name, plugin.digest = candidate.digest.as_deref(),
            origin = order.origin.name(), "{error}");
        self.note(order, started, candidate.digest.clone(), Err(&error));
    }

    fn ended_by(&self, mode: Mode, reason: String) -> DeployError {
        DeployError::Trial { endpoint: self.config.name.clone(), mode: mode.name(), reason }
    }

    fn no_candidate(&self) -> DeployError {
        DeployError::NoCandidate { endpoint: self.config.name.clone() }
    }
}

/// Lets go of what a candidate keeps for requests to come.
fn retire(trial: &Trial) {
    if let Some(plugin) = &trial.candidate.load().pipeline.plugin {
        plugin.retire();
    }
}

/// When a candidate was put on trial.
fn begun(candidate: &Generation) -> Instant {
    let since = SystemTime::now().duration_since(candidate.published).unwrap_or_default();
    Instant::now().checked_sub(since).unwrap_or_else(Instant::now)
}

/// Looks after a canary until it is published, ended or gone.
async fn follow(endpoint: Weak<Deployment>, trial: Weak<Trial>, alarm: Arc<Notify>) {
    loop {
        // In both cases a look is due.
        let _ = tokio::time::timeout(CHECK_INTERVAL, alarm.notified()).await;
        let (Some(endpoint), Some(trial)) = (endpoint.upgrade(), trial.upgrade()) else { return };
        if !endpoint.trial().is_some_and(|now| Arc::ptr_eq(&now, &trial)) {
            return;
        }
        let (by, note) = (trial.order.by.clone(), trial.order.note.clone());
        let order = DeployRequest { by, note, ..DeployRequest::by(Origin::Canary) };
        match trial.verdict() {
            Verdict::Grow if trial.grow() => {
                tracing::info!(endpoint = %endpoint.config.name, share = trial.share(), "canary has a larger share");
            }
            // Of the second, an order came in between.
            Verdict::GoOn | Verdict::Grow => {}
            Verdict::Publish => match endpoint.publish_candidate(&trial, &order).await {
                // An endpoint that is gone ends its trial itself.
                Ok(_) | Err(DeployError::Gone { .. }) => return,
                Err(error) => {
                    tracing::warn!("canary passed, and is not published: {}", on_one_line(&error));
                }
            },
            Verdict::End(reason) => {
                if endpoint.take(&trial) {
                    endpoint.ended(&trial, &order, &reason);
                }
                return;
            }
        }
    }
}
