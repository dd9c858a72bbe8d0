//! The attempts to serve another configuration, counted.
//!
//! Place in the flow: counted by `app` when an attempt has ended. In: outcomes. Out: three families of the
//! process, which no endpoint is a label of.

use std::time::SystemTime;

use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec};

use super::families::{Families, opts};
use crate::time::since_1970;

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// It is served.
    Applied,
    /// It was served already.
    Unchanged,
    /// A part of it is not served.
    Incomplete,
    /// Nothing has changed.
    Refused,
}

impl ReloadOutcome {
    const ALL: [ReloadOutcome; 4] =
        [ReloadOutcome::Applied, ReloadOutcome::Unchanged, ReloadOutcome::Incomplete, ReloadOutcome::Refused];

    fn name(self) -> &'static str {
        match self {
            ReloadOutcome::Applied => "applied",
            ReloadOutcome::Unchanged => "unchanged",
            ReloadOutcome::Incomplete => "incomplete",
            ReloadOutcome::Refused => "refused",
        }
    }
}

/// Counts attempts.
#[derive(Debug, Clone)]
pub struct Reloads {
    attempts: IntCounterVec,
    successful: IntGaugeVec,
    success: GaugeVec,
}

impl Reloads {
    /// With these names and help texts. The start is a success.
    pub(super) fn new(
        families: &Families,
        [attempts, successful, success]: [(&str, &str); 3],
    ) -> Result<Reloads, prometheus::Error> {
        let reloads = Reloads {
            attempts: families.register(IntCounterVec::new(opts(attempts), &["outcome"])?)?,
            successful: families.register(IntGaugeVec::new(opts(successful), &[])?)?,
            success: families.register(GaugeVec::new(opts(success), &[])?)?,
        };
        for outcome in ReloadOutcome::ALL {
            reloads.attempts.with_label_values(&[outcome.name()]);
        }
        reloads.succeeded(true);
        Ok(reloads)
    }

    /// Counts an attempt.
    pub fn note(&self, outcome: ReloadOutcome) {
        self.attempts.with_label_values(&[outcome.name()]).inc();
        self.succeeded(matches!(outcome, ReloadOutcome::Applied | ReloadOutcome::Unchanged));
    }

    fn succeeded(&self, has: bool) {
        const NONE: [&str; 0] = [];
        self.successful.with_label_values(&NONE).set(has.into());
        if has {
            self.success.with_label_values(&NONE).set(since_1970(SystemTime::now()).as_secs_f64());
        }
    }
}
