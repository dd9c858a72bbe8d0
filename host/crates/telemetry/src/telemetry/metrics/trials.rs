//! Which handlers an endpoint has, and what its trials came to.
//!
//! Place in the flow: brought up to date by `rollout` before the metrics are rendered, never by a request.
//! Invariant: a digest is no set of labels that grows: an endpoint has one series for each role, replaced
//! when the digest is.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec, IntGaugeVec};

const ROLES: [&str; 3] = ["current", "candidate", "previous"];
const COMPARED: [&str; 4] = ["same", "differs", "failed", "dropped"];
const ANSWERED: [&str; 2] = ["ok", "error"];

/// The handlers of one endpoint.
pub struct Plugins {
    series: IntGaugeVec,
    endpoint: String,
    /// Digests by role as they are shown; empty for none.
    shown: Mutex<[String; ROLES.len()]>,
}

impl Plugins {
    pub(super) fn new(series: &IntGaugeVec, endpoint: &str) -> Plugins {
        let plugins =
            Plugins { series: series.clone(), endpoint: endpoint.to_owned(), shown: Mutex::default() };
        for role in ROLES {
            plugins.series.with_label_values(&[endpoint, role, ""]);
        }
        plugins
    }

    /// Says which handlers there are now: current, candidate and previous.
    pub fn set(&self, digests: [Option<Arc<str>>; ROLES.len()]) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for ((role, shown), digest) in ROLES.into_iter().zip(shown.iter_mut()).zip(digests) {
            let digest = digest.as_deref().unwrap_or_default();
            if shown != digest {
                // Nothing to remove is no harm.
                let _ = self.series.remove_label_values(&[&self.endpoint, role, shown]);
                self.series
                    .with_label_values(&[&self.endpoint, role, digest])
                    .set(i64::from(!digest.is_empty()));
                digest.clone_into(shown);
            }
        }
    }
}

/// The series of the trials of one endpoint, one after the other.
pub struct TrialSeries {
    /// The share that a candidate has now.
    pub share: Gauge,
    requests: IntCounterVec,
    endpoint: String,
}

impl TrialSeries {
    pub(super) fn new(requests: &IntCounterVec, share: &GaugeVec, endpoint: &str) -> TrialSeries {
        let share = share.with_label_values(&[endpoint]);
        TrialSeries { share, requests: requests.clone(), endpoint: endpoint.to_owned() }
    }

    /// Begins the series of a trial's mode, at zero; `is_answered`: whether the candidate answers requests.
    pub fn begin(&self, mode: &str, is_answered: bool) -> TrialCounts {
        let answered = if is_answered { &ANSWERED[..] } else { &[] };
        let counter = |outcome: &&'static str| {
            (*outcome, self.requests.with_label_values(&[self.endpoint.as_str(), mode, outcome]))
        };
        TrialCounts(answered.iter().chain(&COMPARED).map(counter).collect())
    }
}

/// The counts of one trial. What it counts after its endpoint is gone begins no series.
pub struct TrialCounts(Vec<(&'static str, IntCounter)>);

impl TrialCounts {
    /// Counts more requests that ended so.
    pub fn add(&self, outcome: &str, more: u64) {
        if let Some((_, counter)) = self.0.iter().find(|(known, _)| *known == outcome) {
            counter.inc_by(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    #[test]
    fn a_role_has_one_series_whatever_handlers_come_and_go() {
        let series = IntGaugeVec::new(Opts::new("info", "help"), &["endpoint", "role", "digest"]).unwrap();
        let plugins = Plugins::new(&series, "e");
        for round in 0..100u32 {
            let digest = |n: u32| Some(Arc::from(format!("{:064x}", round + n)));
            plugins.set([digest(0), digest(1).filter(|_| round % 2 == 0), digest(2)]);
            let families = prometheus::core::Collector::collect(&series);
            assert_eq!(families[0].get_metric().len(), ROLES.len());
        }
        let value = |role, digest: &str| series.with_label_values(&["e", role, digest]).get();
        assert_eq!(value("current", &format!("{:064x}", 99)), 1);
        assert_eq!(value("candidate", ""), 0);
    }
}
