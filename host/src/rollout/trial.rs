//! A handler on trial beside the current generation: a **shadow** sees requests that others answer, a
//! **canary** answers some.
//!
//! ```text
//! order → load → verify → init → smoke → [canary: gate] → on trial
//!   ├─ an order: [shadow: gate]; a canary that has passed → published
//!   └─ a limit broken, an order, another generation → dropped
//! ```
//! Place in the flow: `candidate.rs` starts and ends trials; [`TrialObserver`] is a request's participation
//! in one.
//! Invariants: the candidate runs with the models of the generation that it stands beside, and only as long
//! as that is current; a request is answered by one of the two from its first byte to its last; what a shadow
//! says reaches no caller; requests share no counter, and without a trial pay one look at an atomic pointer.

mod canary;
mod failures;
mod figures;
mod parameters;
mod participation;
mod report;
mod shadow;
mod spec;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::Notify;

pub(super) use self::canary::Verdict;
pub use self::parameters::read_share;
pub use self::participation::TrialObserver;
pub use self::report::Report;
pub use self::spec::{Mode, TrialSpec};

use self::canary::View;
use self::figures::{Compared, Counted, Figures, Side};
use self::shadow::{Shadow, Shadows};
use super::deploy_request::DeployRequest;
use crate::bucketing::Bucketing;
use crate::capture::compare::Difference;
use crate::endpoint::config::EndpointConfig;
use crate::endpoint::generation::Generation;
use crate::error::Code;
use crate::pipeline::Pipeline;
use crate::pipeline::plan::RunPlan;
use crate::plugin::InstanceSource;
use crate::request::Request;
use crate::telemetry::metrics::{EndpointMetrics, TrialCounts};
use crate::time::unix_seconds;
use crate::values::Ratio;

/// Differences that are remembered.
const MOST_DIFFERENCES: usize = 20;

/// A candidate at work.
pub struct Trial {
    /// As ordered.
    pub spec: TrialSpec,
    pub(super) order: DeployRequest,
    /// Of the endpoint.
    request_timeout: Duration,
    /// Number of the generation it stands beside, and the digest of that.
    beside: u64,
    pub(super) current: Option<Arc<str>>,
    /// Not a generation yet. Pinned by the requests it answers, as the current one is.
    pub(super) candidate: ArcSwap<Generation>,
    /// Bits of the share of requests that it takes part in.
    share: AtomicU64,
    bucketing: Bucketing,
    figures: Figures,
    /// The shadow that requests are run through after they have been answered; `None` without one.
    after: Option<Shadow>,
    shadows: Option<Shadows>,
    faults: AtomicU64,
    mismatches: AtomicU64,
    /// Times that the model was asked again for a comparison.
    model_runs: AtomicU64,
    /// Says that something has happened that may end it.
    pub(super) alarm: Arc<Notify>,
    progress: Mutex<RolloutProgress>,
    differences: Mutex<VecDeque<Arc<Mismatch>>>,
    failures: Mutex<BTreeMap<&'static str, u64>>,
    counts: TrialCounts,
    /// The counts that the metrics have been told.
    counted: Mutex<BTreeMap<&'static str, u64>>,
}

/// Where a trial is between its steps.
struct RolloutProgress {
    steps: Vec<Ratio>,
    step: usize,
    step_time: Option<Duration>,
    /// When this step began, and what both sides had done by then.
    since: Instant,
    begun: [Counted; 2],
    /// The limit that was broken in it.
    broken: Option<String>,
}

/// A request that the two sides do not agree on.
#[derive(Debug, Serialize)]
pub struct Mismatch {
    /// Unix time in seconds.
    pub at: u64,
    /// The request's id.
    pub request_id: Arc<str>,
    /// `differs` or `failed`.
    pub outcome: &'static str,
    /// The differences, the current handler's value first.
    pub differences: Vec<Difference>,
}

impl Trial {
    /// Begins a trial of `pipeline` beside `old`.
    ///
    /// # Errors
    /// There is no thread for shadows.
    pub(super) fn begin(
        endpoint: &EndpointConfig,
        metrics: &EndpointMetrics,
        old: &Generation,
        pipeline: Pipeline,
        spec: TrialSpec,
        order: &DeployRequest,
    ) -> io::Result<Trial> {
        let candidate = Generation::new(old.number, pipeline, None);
        // Of the sandboxes there are, no more than a generation's requests may take.
        let places = spec.concurrency.min(endpoint.limits.concurrency);
        let digest = candidate.digest.clone().unwrap_or_default();
        let shadow = |pipeline: &Pipeline, instance, side| {
            let model_runtime = Some(tokio::runtime::Handle::current());
            let plan = RunPlan { instance, model_runtime, ..RunPlan::default() };
            Shadow { pipeline: pipeline.clone(), plan, side }
        };
        let after = match spec.mode {
            Mode::Shadow => Some(shadow(&candidate.pipeline, InstanceSource::ByIsolation, Side::Candidate)),
            // Its instances are for requests.
            Mode::Canary if spec.compare => Some(shadow(&old.pipeline, InstanceSource::Fresh, Side::Current)),
            Mode::Canary => None,
        };
        let shadows = after.as_ref().map(|_| Shadows::start(places)).transpose()?;
        let progress = RolloutProgress {
            steps: spec.steps.clone(),
            step: 0,
            step_time: spec.step_time,
            since: Instant::now(),
            begun: Default::default(),
            broken: None,
        };
        let share = spec.steps.first().copied().unwrap_or_default();
        Ok(Trial {
            order: order.clone(),
            request_timeout: endpoint.limits.request_timeout,
            beside: old.number,
            current: old.digest.clone(),
            candidate: ArcSwap::from_pointee(candidate),
            share: AtomicU64::new(share.get().to_bits()),
            bucketing: Bucketing::new(spec.sticky.clone(), &digest),
            figures: Figures::new(),
            after,
            shadows,
            faults: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            model_runs: AtomicU64::new(0),
            alarm: Arc::default(),
            progress: Mutex::new(progress),
            differences: Mutex::default(),
            failures: Mutex::default(),
            counts: metrics.trial.begin(spec.mode.name(), spec.mode == Mode::Canary),
            counted: Mutex::default(),
            spec,
        })
    }

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

    /// The candidate broke its contract or a limit.
    fn fault(&self) {
        self.faults.fetch_add(1, Ordering::SeqCst);
        self.suspect();
    }

    /// The candidate has failed, or said something else. Beyond what is allowed, not one more request goes
    /// to it, on whichever thread and before the trial is ended.
    fn suspect(&self) {
        self.stop_if_broken();
        // Who holds it looks at the same figures, or is told next.
        if let Ok(mut progress) = self.progress.try_lock()
            && progress.broken.is_none()
            && let Verdict::End(reason) = self.verdict_on(&progress)
        {
            progress.broken = Some(reason);
            self.set_share(Ratio::ZERO);
        }
        self.alarm.notify_one();
    }

    /// Looked at after a share is set, so that the later of the two sees the other.
    fn stop_if_broken(&self) {
        let limits = &self.spec.limits;
        if self.faults.load(Ordering::SeqCst) > limits.max_faults
            || self.mismatches.load(Ordering::SeqCst) > limits.max_mismatches
        {
            self.set_share(Ratio::ZERO);
        }
    }

    /// Writes down what came of comparing the two sides on a request.
    fn compared(&self, what: Compared, request: &Request, differences: Vec<Difference>) {
        self.figures.compared(what);
        if differences.is_empty() {
            return;
        }
        if what == Compared::Differs && self.spec.mode == Mode::Canary {
            self.mismatches.fetch_add(1, Ordering::SeqCst);
            self.suspect();
        }
        let at = unix_seconds(SystemTime::now());
        let noted = Mismatch { at, request_id: request.id.clone(), outcome: what.name(), differences };
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

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict_on(&self.progress())
    }

    fn verdict_on(&self, progress: &RolloutProgress) -> Verdict {
        if let Some(reason) = &progress.broken {
            return Verdict::End(reason.clone());
        }
        let (candidate, current) = (self.figures.of(Side::Candidate), self.figures.of(Side::Current));
        let [candidate_begun, current_begun] = &progress.begun;
        let view = View {
            steps: &progress.steps,
            step: progress.step,
            step_time: progress.step_time,
            held: progress.since.elapsed(),
            candidate: &candidate.since(candidate_begun),
            current: &current.since(current_begun),
            before: &current,
            faults: self.faults.load(Ordering::Relaxed),
            mismatches: self.mismatches.load(Ordering::Relaxed),
        };
        canary::evaluate(&view, &self.spec.limits)
    }

    /// Begins the first of these steps.
    pub(super) fn enter(&self, steps: Vec<Ratio>, step_time: Option<Duration>) {
        self.begin_step(&mut self.progress(), steps, 0, step_time);
    }

    /// Begins the next step, unless an order has come since the verdict. Whether it has begun.
    pub(super) fn grow(&self) -> bool {
        let mut progress = self.progress();
        if !matches!(self.verdict_on(&progress), Verdict::Grow) {
            return false;
        }
        let (steps, step, step_time) =
            (std::mem::take(&mut progress.steps), progress.step + 1, progress.step_time);
        self.begin_step(&mut progress, steps, step, step_time);
        true
    }

    fn begin_step(
        &self,
        progress: &mut RolloutProgress,
        steps: Vec<Ratio>,
        step: usize,
        step_time: Option<Duration>,
    ) {
        let begun = [Side::Candidate, Side::Current].map(|side| self.figures.of(side));
        *progress = RolloutProgress { step, step_time, since: Instant::now(), begun, steps, broken: None };
        self.set_share(progress.steps.get(step).copied().unwrap_or_default());
        self.stop_if_broken();
    }

    /// Brings the metrics up to date.
    pub(super) fn count(&self) {
        // First of all: figures that are older than those that have been told would count for nothing, and
        // then twice.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let candidate = self.figures.of(Side::Candidate);
        let compared = Compared::ALL.map(|what| (what.name(), self.figures.of_compared(what)));
        let is_canary = self.spec.mode == Mode::Canary;
        let answered =
            [("ok", candidate.requests.saturating_sub(candidate.errors)), ("error", candidate.errors)];
        let answered = answered.into_iter().filter(|_| is_canary);
        for (outcome, now) in answered.chain(compared) {
            let before = counted.insert(outcome, now).unwrap_or_default();
            self.counts.add(outcome, now.saturating_sub(before));
        }
    }

    fn progress(&self) -> MutexGuard<'_, RolloutProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn differences(&self) -> MutexGuard<'_, VecDeque<Arc<Mismatch>>> {
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
        f.debug_struct("Trial").field("spec", &self.spec).finish_non_exhaustive()
    }
}
