//! What a trial has come to so far, for the operator.
//!
//! In: a [`Trial`] at work. Out: a [`Report`], plain data that the admin listener writes as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;

use super::figures::{Compared, Counted, Side};
use super::{Mismatch, Trial};
use crate::time::unix_seconds;
use crate::values::Ratio;

/// The state of a trial. docs/reference.md says what each key means.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names are those of the document")]
pub struct Report {
    pub mode: &'static str,
    pub digest: Option<Arc<str>>,
    pub since: u64,
    pub note: Option<Arc<str>>,
    pub share: f64,
    pub steps: Vec<Ratio>,
    pub step: usize,
    pub step_time_seconds: Option<f64>,
    pub held_seconds: f64,
    pub sticky: Option<String>,
    pub current: Figures,
    pub candidate: Figures,
    pub compared: BTreeMap<&'static str, u64>,
    pub model_runs: u64,
    pub failures: BTreeMap<&'static str, u64>,
    pub differences: Vec<Arc<Mismatch>>,
}

/// The counts of one side.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub digest: Option<Arc<str>>,
    pub requests: u64,
    pub errors: u64,
    pub faults: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Figures {
    fn of(digest: Option<Arc<str>>, counted: &Counted) -> Figures {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Figures {
            digest,
            requests: counted.requests,
            errors: counted.errors,
            faults: counted.faults,
            mean_ms: ms(counted.mean()),
            p50_ms: ms(counted.quantile(0.5)),
            p99_ms: ms(counted.quantile(0.99)),
        }
    }
}

impl Trial {
    /// The state of it, now.
    pub fn report(&self) -> Report {
        let progress = self.progress();
        let candidate = self.candidate.load();
        let mut differences: Vec<_> = self.differences().iter().cloned().collect();
        differences.reverse();
        Report {
            mode: self.spec.mode.name(),
            digest: candidate.digest.clone(),
            since: unix_seconds(candidate.published),
            note: self.order.note.clone(),
            share: self.share(),
            steps: progress.steps.clone(),
            step: progress.step + 1,
            step_time_seconds: progress.step_time.map(|time| time.as_secs_f64()),
            held_seconds: progress.since.elapsed().as_secs_f64(),
            sticky: self.spec.sticky.as_ref().map(|sticky| format!("header:{}", sticky.header())),
            current: Figures::of(self.current.clone(), &self.figures.of(Side::Current)),
            candidate: Figures::of(candidate.digest.clone(), &self.figures.of(Side::Candidate)),
            compared: Compared::ALL.map(|what| (what.name(), self.figures.of_compared(what))).into(),
            model_runs: self.model_runs.load(Ordering::Relaxed),
            failures: self.failures().clone(),
            differences,
        }
    }
}
