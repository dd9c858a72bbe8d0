//! A handler on trial beside the current generation: a **shadow** sees requests that others answer, a **canary** answers some.
//!
//! ```text
//! order → load → verify → init → smoke → [canary: gate] → on trial ─┬─ an order: [shadow: gate]; a canary that has passed → published
//!                                                                 └─ a limit broken, an order, another generation → dropped
//! ```
//! Place in the flow: [`Endpoint::try_out`] starts one, [`Part`] is a request's part in it, [`follow`] looks after a canary.
//! Invariants: the candidate runs with the models of the generation that it stands beside, and only as long as that is
//! current; a request is answered by one of the two from its first byte to its last; what a shadow says reaches no caller;
//! requests share no counter, and without a trial pay one look at an atomic pointer.

mod canary;
mod figures;
mod participation;
mod report;
mod shadow;
mod terms;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::Notify;

pub(super) use self::participation::TrialParticipation;
pub use self::report::Report;
pub use self::terms::{Mode, Terms, read_share};

use self::canary::{Verdict, View};
use self::figures::{Compared, Counted, Figures, Side};
use self::shadow::{Shadow, Shadows};
use super::compare::Difference;
use super::error::DeployError;
use super::history::{Origin, unix_seconds};
use super::swap::{Change, Order, Swapped, load, pipeline};
use super::{Endpoint, Generation};
use crate::draw::Draw;
use crate::error::Code;
use crate::pipeline::Pipeline;
use crate::pipeline::plan::RunPlan;
use crate::plugin::{Binary, InstanceSource};
use crate::request::Request;
use crate::telemetry::metrics::TrialCounts;
use crate::text::on_one_line;
use crate::values::Ratio;

/// How often a canary is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Differences that are remembered.
const MOST_DIFFERENCES: usize = 20;

/// A candidate at work.
pub struct Trial {
    /// As ordered.
    pub terms: Terms,
    order: Order,
    /// Number of the generation it stands beside, and the digest of that.
    beside: u64,
    current: Option<Arc<str>>,
    /// Not a generation yet. Pinned by the requests it answers, as the current one is.
    candidate: ArcSwap<Generation>,
    /// Bits of the share of requests that it takes part in.
    share: AtomicU64,
    draw: Draw,
    figures: Figures,
    /// What requests are run through after they have been answered; `None` if they are not.
    after: Option<Shadow>,
    shadows: Option<Shadows>,
    faults: AtomicU64,
    mismatches: AtomicU64,
    /// Times that the model was asked again for a comparison.
    model_runs: AtomicU64,
    /// Says that something has happened that may end it.
    alarm: Arc<Notify>,
    course: Mutex<Course>,
    differences: Mutex<VecDeque<Arc<Noted>>>,
    failures: Mutex<BTreeMap<&'static str, u64>>,
    counts: TrialCounts,
    /// What the metrics have been told.
    counted: Mutex<BTreeMap<&'static str, u64>>,
}

/// Where a trial is between its steps.
struct Course {
    steps: Vec<Ratio>,
    step: usize,
    step_time: Option<Duration>,
    /// When this step began, and what both sides had done by then.
    since: Instant,
    begun: [Counted; 2],
}

/// A request that the two sides do not agree on.
#[derive(Debug, Serialize)]
pub struct Noted {
    /// Unix time in seconds.
    pub at: u64,
    /// The request's id.
    pub request_id: Arc<str>,
    /// `differs` or `failed`.
    pub outcome: &'static str,
    /// What differs, the current handler's first.
    pub differences: Vec<Difference>,
}

impl Trial {
    /// SHA-256 of the candidate.
    pub fn digest(&self) -> Option<Arc<str>> {
        self.candidate.load().digest.clone()
    }

    /// The share of requests that the candidate takes part in.
    pub fn share(&self) -> f64 {
        f64::from_bits(self.share.load(Ordering::Relaxed))
    }

    fn set_share(&self, share: Ratio) {
        self.share.store(share.get().to_bits(), Ordering::SeqCst);
    }

    /// The candidate broke its contract or a limit. Beyond what is allowed, not one more request goes to it.
    fn fault(&self) {
        self.faults.fetch_add(1, Ordering::SeqCst);
        self.stop_if_broken();
        self.alarm.notify_one();
    }

    /// Whoever sets a share looks here after, so that whichever of the two is later sees the other.
    fn stop_if_broken(&self) {
        if self.faults.load(Ordering::SeqCst) > self.terms.limits.max_faults {
            self.set_share(Ratio::ZERO);
        }
    }

    /// Writes down what came of comparing the two sides on a request.
    fn compared(&self, what: Compared, request: &Request, differences: Vec<Difference>) {
        self.figures.compared(what);
        if differences.is_empty() {
            return;
        }
        if what == Compared::Differs && self.terms.mode == Mode::Canary {
            self.mismatches.fetch_add(1, Ordering::Relaxed);
            self.alarm.notify_one();
        }
        let at = unix_seconds(SystemTime::now());
        let noted = Noted { at, request_id: request.id.clone(), outcome: what.name(), differences };
        let mut all = self.differences();
        if all.len() == MOST_DIFFERENCES {
            all.pop_front();
        }
        all.push_back(Arc::new(noted));
    }

    /// Notes how a shadow failed.
    fn failed(&self, code: Code) {
        *self.failures().entry(code.name()).or_default() += 1;
    }

    fn verdict(&self) -> Verdict {
        let course = self.course();
        let (candidate, current) = (self.figures.of(Side::Candidate), self.figures.of(Side::Current));
        let [candidate_begun, current_begun] = &course.begun;
        let view = View {
            steps: &course.steps,
            step: course.step,
            step_time: course.step_time,
            held: course.since.elapsed(),
            candidate: &candidate.since(candidate_begun),
            current: &current.since(current_begun),
            before: &current,
            faults: self.faults.load(Ordering::Relaxed),
            mismatches: self.mismatches.load(Ordering::Relaxed),
        };
        canary::judge(&view, &self.terms.limits)
    }

    /// Begins a step.
    fn enter(&self, steps: Vec<Ratio>, step: usize, step_time: Option<Duration>) {
        let mut course = self.course();
        let begun = [Side::Candidate, Side::Current].map(|side| self.figures.of(side));
        *course = Course { step, step_time, since: Instant::now(), begun, steps };
        self.set_share(course.steps.get(step).copied().unwrap_or_default());
        self.stop_if_broken();
    }

    fn grow(&self) {
        let (steps, step, step_time) = {
            let course = self.course();
            (course.steps.clone(), course.step + 1, course.step_time)
        };
        self.enter(steps, step, step_time);
    }

    /// Brings the metrics up to date.
    pub(super) fn count(&self) {
        // First of all: figures that are older than those that have been told would count for nothing, and then twice.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let candidate = self.figures.of(Side::Candidate);
        let compared = Compared::ALL.map(|what| (what.name(), self.figures.of_compared(what)));
        let is_canary = self.terms.mode == Mode::Canary;
        let answered =
            [("ok", candidate.requests.saturating_sub(candidate.errors)), ("error", candidate.errors)];
        let answered = answered.into_iter().filter(|_| is_canary);
        for (outcome, now) in answered.chain(compared) {
            let before = counted.insert(outcome, now).unwrap_or_default();
            self.counts.add(self.terms.mode.name(), outcome, now.saturating_sub(before));
        }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn differences(&self) -> MutexGuard<'_, VecDeque<Arc<Noted>>> {
        self.differences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Requests that it answered may have ended after it.
        self.count();
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The candidate that is on trial.
    pub fn trial(&self) -> Option<Arc<Trial>> {
        self.trial.load_full()
    }

    /// Puts a handler on trial beside the current generation, in place of one that is; nothing else changes.
    ///
    /// # Errors
    /// [`DeployError`]: it is not put on trial, and what was before goes on.
    pub async fn try_out(
        self: &Arc<Self>,
        plugin: Binary,
        terms: Terms,
        order: &Order,
    ) -> Result<Arc<Trial>, DeployError> {
        let started = Instant::now();
        let _turn = self.swapping.lock().await;
        let old = self.current();
        self.expect(order, old.digest.as_deref())?;
        let digest = plugin.digest().clone();
        let trial = async {
            let change = Change { plugin: Some(plugin.clone()), ..Change::default() };
            let pipeline = match self.make(&change, order, &old).await? {
                Some(pipeline) => {
                    // Nobody gets an answer of a shadow: before it is published is early enough.
                    if terms.mode == Mode::Canary {
                        self.gate(&old, &pipeline, order).await?;
                    }
                    pipeline
                }
                // The very handler that serves, compared with itself, shows what a trial costs.
                None => {
                    let loaded =
                        load(&self.config, &self.sandbox, &self.metrics, plugin, order.origin).await?;
                    pipeline(&self.config, Some(loaded), old.models().clone())
                }
            };
            self.begin(&old, pipeline, terms, order)
        };
        let trial = trial.await.inspect_err(|error| self.note(order, started, Some(digest), Err(error)))?;
        let trial = Arc::new(trial);
        let before = self.trial.swap(Some(trial.clone()));
        if let Some(before) = before {
            self.ended(&before, order, "another candidate took its place");
        }
        tracing::info!(endpoint = %self.config.name, plugin.digest = trial.candidate.load().digest.as_deref(),
            mode = trial.terms.mode.name(), share = trial.share(), note = order.note.as_deref(), "candidate on trial");
        if trial.terms.mode == Mode::Canary {
            tokio::spawn(follow(Arc::downgrade(self), Arc::downgrade(&trial), trial.alarm.clone()));
        }
        Ok(trial)
    }

    fn begin(
        &self,
        old: &Generation,
        pipeline: Pipeline,
        terms: Terms,
        order: &Order,
    ) -> Result<Trial, DeployError> {
        let candidate = Generation::new(old.number, pipeline, None);
        // Of the sandboxes there are, no more than a generation's requests may take.
        let places = terms.concurrency.min(self.config.limits.concurrency);
        let digest = candidate.digest.clone().unwrap_or_default();
        let shadow = |pipeline: &Pipeline, instance, side| {
            let model_runtime = Some(tokio::runtime::Handle::current());
            let plan = RunPlan { instance, model_runtime, ..RunPlan::default() };
            Shadow { pipeline: pipeline.clone(), plan, side }
        };
        let after = match terms.mode {
            Mode::Shadow => Some(shadow(&candidate.pipeline, InstanceSource::ByIsolation, Side::Candidate)),
            // Its instances are for requests.
            Mode::Canary if terms.compare => {
                Some(shadow(&old.pipeline, InstanceSource::Fresh, Side::Current))
            }
            Mode::Canary => None,
        };
        let shadows = after.as_ref().map(|_| Shadows::start(places)).transpose();
        let shadows =
            shadows.map_err(|error| self.ended_by(terms.mode, format!("no thread for shadows: {error}")))?;
        let course = Course {
            steps: terms.steps.clone(),
            step: 0,
            step_time: terms.step_time,
            since: Instant::now(),
            begun: Default::default(),
        };
        let share = terms.steps.first().copied().unwrap_or_default();
        Ok(Trial {
            order: order.clone(),
            beside: old.number,
            current: old.digest.clone(),
            candidate: ArcSwap::from_pointee(candidate),
            share: AtomicU64::new(share.get().to_bits()),
            draw: Draw::new(terms.sticky.clone(), &digest),
            figures: Figures::new(),
            after,
            shadows,
            faults: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            model_runs: AtomicU64::new(0),
            alarm: Arc::default(),
            course: Mutex::new(course),
            differences: Mutex::default(),
            failures: Mutex::default(),
            counts: self.metrics.trial.clone(),
            counted: Mutex::default(),
            terms,
        })
    }

    /// Gives the candidate another share, which is held until another order.
    ///
    /// # Errors
    /// [`DeployError::NoCandidate`], or the current handler is not the one that the order is about.
    pub fn set_share(&self, share: Ratio, order: &Order) -> Result<Arc<Trial>, DeployError> {
        let trial = self.trial();
        self.expect_beside(order, trial.as_deref())?;
        let trial = trial.ok_or_else(|| self.no_candidate())?;
        trial.enter(vec![share], 0, None);
        Ok(trial)
    }

    /// Publishes the candidate.
    ///
    /// # Errors
    /// [`DeployError::NoCandidate`], or it is not on the condition of the order.
    pub async fn promote(&self, order: &Order) -> Result<Swapped, DeployError> {
        let trial = self.trial().ok_or_else(|| self.no_candidate())?;
        self.publish_candidate(&trial, order).await
    }

    async fn publish_candidate(&self, trial: &Arc<Trial>, order: &Order) -> Result<Swapped, DeployError> {
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
        if trial.terms.mode == Mode::Shadow {
            let passed = self.gate(&self.current(), &candidate.pipeline, order).await;
            passed.inspect_err(|error| self.note(order, started, candidate.digest.clone(), Err(error)))?;
        }
        if !self.take(trial) {
            return Err(self.no_candidate());
        }
        let swapped = self.publish(&turn, candidate.pipeline.clone(), order, started);
        if let Some(ledger) = &self.ledger {
            ledger.published(swapped.digest.as_deref()).await;
        }
        Ok(swapped)
    }

    /// Drops the candidate, if there is one; whether there was.
    ///
    /// # Errors
    /// The current handler is not the one that the order is about.
    pub fn drop_candidate(&self, order: &Order) -> Result<bool, DeployError> {
        let trial = self.trial();
        self.expect_beside(order, trial.as_deref())?;
        let trial = trial.filter(|trial| self.take(trial));
        if let Some(trial) = &trial {
            self.ended(trial, order, "an order");
        }
        Ok(trial.is_some())
    }

    /// Whether an order is about the handler that a candidate stands beside.
    fn expect_beside(&self, order: &Order, trial: Option<&Trial>) -> Result<(), DeployError> {
        match trial {
            Some(trial) => self.expect(order, trial.current.as_deref()),
            None => self.expect(order, self.current().digest.as_deref()),
        }
    }

    /// Another generation is about to be published: who stands beside the old one has nobody to be compared with.
    pub(super) fn supersede_trial(&self, order: &Order) {
        if let Some(trial) = self.trial.swap(None) {
            self.ended(&trial, order, "another generation is published");
        }
    }

    /// Takes this candidate off trial; whether it was on trial.
    fn take(&self, trial: &Arc<Trial>) -> bool {
        let found = self.trial.compare_and_swap(&Some(trial.clone()), None);
        found.as_ref().is_some_and(|found| Arc::ptr_eq(found, trial))
    }

    /// The candidate is off trial, and not published.
    fn ended(&self, trial: &Trial, order: &Order, reason: &str) {
        let candidate = trial.candidate.load();
        if let Some(plugin) = &candidate.pipeline.plugin {
            plugin.retire();
        }
        let started = begun(&candidate);
        let error = self.ended_by(trial.terms.mode, reason.to_owned());
        tracing::warn!(plugin.digest = candidate.digest.as_deref(), origin = order.origin.name(), "{error}");
        self.note(order, started, candidate.digest.clone(), Err(&error));
    }

    fn ended_by(&self, mode: Mode, reason: String) -> DeployError {
        DeployError::Trial { endpoint: self.config.name.clone(), mode: mode.name(), reason }
    }

    fn no_candidate(&self) -> DeployError {
        DeployError::NoCandidate { endpoint: self.config.name.clone() }
    }
}

/// When a candidate was put on trial.
fn begun(candidate: &Generation) -> Instant {
    let since = SystemTime::now().duration_since(candidate.published).unwrap_or_default();
    Instant::now().checked_sub(since).unwrap_or_else(Instant::now)
}

/// Looks after a canary until it is published, ended or gone.
async fn follow(endpoint: Weak<Endpoint>, trial: Weak<Trial>, alarm: Arc<Notify>) {
    loop {
        // Whichever it is: a look is due.
        let _ = tokio::time::timeout(LOOK, alarm.notified()).await;
        let (Some(endpoint), Some(trial)) = (endpoint.upgrade(), trial.upgrade()) else { return };
        if !endpoint.trial().is_some_and(|now| Arc::ptr_eq(&now, &trial)) {
            return;
        }
        let order = Order { note: trial.order.note.clone(), ..Order::by(Origin::Canary) };
        match trial.verdict() {
            Verdict::GoOn => {}
            Verdict::Grow => {
                trial.grow();
                tracing::info!(endpoint = %endpoint.config.name, share = trial.share(), "canary has a larger share");
            }
            Verdict::Publish => {
                if let Err(error) = endpoint.publish_candidate(&trial, &order).await {
                    tracing::warn!("canary passed, and is not published: {}", on_one_line(&error));
                    continue;
                }
                return;
            }
            Verdict::End(reason) => {
                if endpoint.take(&trial) {
                    endpoint.ended(&trial, &order, &reason);
                }
                return;
            }
        }
    }
}
