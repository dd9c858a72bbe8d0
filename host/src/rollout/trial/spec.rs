//! The spec of a trial, as an order gives it (`parameters.rs`).

use std::time::Duration;

use super::canary::Limits;
use crate::bucketing::Sticky;
use crate::endpoint::config::Bounds;
use crate::values::Ratio;

/// The candidate's part in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It sees requests that others answer.
    Shadow,
    /// It answers requests.
    Canary,
}

impl Mode {
    /// Its name in orders, answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Shadow => "shadow",
            Mode::Canary => "canary",
        }
    }
}

/// The spec of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialSpec {
    /// The candidate's part.
    pub mode: Mode,
    /// Its share of the requests, more than 0 and at most 1; several, ever larger, one after the other.
    pub steps: Vec<Ratio>,
    /// How long each step is held before the next, and the last before the candidate is published; `None`:
    /// until an order.
    pub step_time: Option<Duration>,
    /// By what requests are drawn; `None`: by chance.
    pub sticky: Option<Sticky>,
    /// Requests that are shadowed at a time. Further samples are dropped.
    pub concurrency: usize,
    /// Whether the current handler shadows the requests that a canary answers.
    pub compare: bool,
    /// The differences that are allowed.
    pub bounds: Bounds,
    /// The limits of a canary.
    pub limits: Limits,
}
