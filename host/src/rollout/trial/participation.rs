//! The participation of a request in a trial: an observer of its run.
//!
//! Place in the flow: determined before a request runs, told when it has been answered.
//! In:   the request and the trial there is. Out: who answers it, what is counted of that, and perhaps a
//!       [`Sample`].
//! Invariant: nothing here waits, and only what fails locks or touches what other threads write, but for the
//! places of samples.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::{ArcSwapOption, Guard};

use super::failures::{is_error, is_fault};
use super::figures::{Compared, Side};
use super::shadow::{Sample, Shadows, handler_time};
use super::{Mode, Trial};
use crate::capture::exchanges;
use crate::endpoint::generation::Generation;
use crate::endpoint::observers::{EndedRun, Observer, RunStart};
use crate::error::{Code, RequestError, Stage};
use crate::request::Request;

/// Refusals that say nothing of either handler: neither was called.
const NEUTRAL_CODES: [Code; 5] =
    [Code::Overloaded, Code::ShuttingDown, Code::NotReady, Code::ModelUnloaded, Code::PluginUnavailable];

/// The participation of a request in a trial, from the moment it begins. Dropped before its end, it counts
/// with the time it took: a candidate that every caller hangs up on is slow.
struct TrialParticipation {
    trial: Guard<Option<Arc<Trial>>>,
    /// Who answers.
    side: Side,
    /// Whether it is to be run through the other side too.
    sampled: bool,
    began: Instant,
    counts: bool,
}

impl TrialParticipation {
    /// Of a request that is about to begin on `generation`; `None` if it has no part in a trial.
    fn of(
        trial: &ArcSwapOption<Trial>,
        generation: &Generation,
        request: &Request,
    ) -> Option<TrialParticipation> {
        // A socket belongs to the current generation for as long as it is open.
        if request.socket().is_some() {
            return None;
        }
        let guard = trial.load();
        let trial = guard.as_ref()?;
        // Another generation has been published a moment ago; the trial ends with the old one.
        if trial.beside != generation.number {
            return None;
        }
        let drawn = trial.bucketing.place(|name| request.head.header(name)) < trial.share();
        let has_place = || trial.shadows.as_ref().is_some_and(Shadows::has_place);
        let (side, sampled) = match trial.spec.mode {
            Mode::Shadow if !drawn => return None,
            Mode::Shadow if !has_place() => {
                trial.figures.compared(Compared::Dropped);
                return None;
            }
            Mode::Shadow => (Side::Current, true),
            Mode::Canary if drawn => {
                let sampled = has_place();
                if !sampled && trial.spec.compare {
                    trial.figures.compared(Compared::Dropped);
                }
                (Side::Candidate, sampled)
            }
            Mode::Canary => (Side::Current, false),
        };
        let counts = trial.spec.mode == Mode::Canary;
        Some(TrialParticipation { side, sampled, began: Instant::now(), counts, trial: guard })
    }

    /// The candidate, if it is the one to answer.
    fn candidate(&self) -> Option<Guard<Arc<Generation>>> {
        self.trial.as_ref().filter(|_| self.side == Side::Candidate).map(|trial| trial.candidate.load())
    }
}

/// Lets a request take part in the trial there is.
pub struct TrialObserver<'a> {
    trial: &'a ArcSwapOption<Trial>,
    participation: Option<TrialParticipation>,
}

impl<'a> TrialObserver<'a> {
    pub(in crate::rollout) fn new(trial: &'a ArcSwapOption<Trial>) -> TrialObserver<'a> {
        TrialObserver { trial, participation: None }
    }
}

impl Observer for TrialObserver<'_> {
    fn begin(&mut self, start: &mut RunStart<'_>) {
        let of = TrialParticipation::of(self.trial, &start.generation, start.request);
        let Some(participation) = of else { return };
        if let Some(candidate) = participation.candidate() {
            start.generation = candidate;
        }
        if participation.sampled {
            start.plan.calls.log_calls();
            start.plan.keeps_exchange = start.request.is_exchange();
        }
        self.participation = Some(participation);
    }

    fn end(self, run: &EndedRun<'_>) {
        if let Some(participation) = self.participation {
            participation.ended(run);
        }
    }
}

impl TrialParticipation {
    /// The request has been answered. What follows from that does not keep it.
    fn ended(mut self, run: &EndedRun<'_>) {
        let EndedRun { report, handled: outcome, .. } = *run;
        let Some(trial) = &*self.trial else { return };
        let is_neutral = outcome.as_ref().is_err_and(|error| NEUTRAL_CODES.contains(&error.code));
        if is_neutral || run.is_of_another() {
            self.counts = false;
            return;
        }
        if std::mem::take(&mut self.counts) {
            // A place is the endpoint's business, and the same for both sides.
            let admitted = report.duration(Stage::Admit).unwrap_or_default();
            let time = report.elapsed().saturating_sub(admitted);
            let (error, fault) = (is_error(outcome), is_fault(outcome));
            trial.figures.ended(self.side, error, fault, time);
            match self.side {
                Side::Candidate if fault => trial.fault(),
                Side::Candidate if error => trial.suspect(),
                _ => {}
            }
        }
        if !self.sampled {
            return;
        }
        let (trial, request, log) = (trial.clone(), run.request.clone(), report.log().cloned());
        let (handler, ended) = (handler_time(report), outcome.as_ref().cloned().map_err(RequestError::told));
        exchanges::when_taken(run.request, outcome, move || {
            let sample = || {
                let outcome = exchanges::whole(&request, &ended)?;
                let calls = Arc::new(log.map(|log| log.calls()).unwrap_or_default());
                Some(Sample { trial: trial.clone(), request, outcome, handler, calls })
            };
            if !trial.shadows.as_ref().is_some_and(|shadows| shadows.take(sample)) {
                trial.figures.compared(Compared::Dropped);
            }
        });
    }
}

impl Drop for TrialParticipation {
    fn drop(&mut self) {
        if let Some(trial) = self.trial.as_ref().filter(|_| self.counts) {
            trial.figures.ended(self.side, false, false, self.began.elapsed());
        }
    }
}
