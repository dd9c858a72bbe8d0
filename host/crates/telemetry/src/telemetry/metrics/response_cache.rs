//! What the response cache of an endpoint does, as metrics.
//!
//! Place in the flow: set from the cache's own counters before the metrics are rendered. Invariant: an
//! endpoint without a cache has no series.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{CounterVec, IntCounterVec, IntGaugeVec};

use super::Timing;
use super::families::{Families, opts};

/// The figures of one cache since the start. The time of each is that of its lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Requests that got an answer that was kept.
    pub hits: Timing,
    /// Requests that got the answer of an equal one at the same time.
    pub collapsed: Timing,
    /// Requests that ran, and whose answer others may get.
    pub misses: Timing,
    /// Requests that ran for themselves.
    pub bypassed: Timing,
    /// Bytes that are kept.
    pub bytes: usize,
    /// Answers that made way for others.
    pub evictions: u64,
}

/// The metrics of all caches.
#[derive(Clone)]
pub(super) struct CacheFamilies {
    requests: IntCounterVec,
    lookups: CounterVec,
    evictions: IntCounterVec,
    bytes: IntGaugeVec,
}

impl CacheFamilies {
    /// With these names and help texts.
    pub(super) fn new(
        families: &Families,
        [requests, lookups, evictions, bytes]: [(&str, &str); 4],
    ) -> Result<CacheFamilies, prometheus::Error> {
        let by_outcome = ["endpoint", "outcome"];
        Ok(CacheFamilies {
            requests: families.register(IntCounterVec::new(opts(requests), &by_outcome)?)?,
            lookups: families.register(CounterVec::new(opts(lookups), &by_outcome)?)?,
            evictions: families.register(IntCounterVec::new(opts(evictions), &["endpoint"])?)?,
            bytes: families.register(IntGaugeVec::new(opts(bytes), &["endpoint"])?)?,
        })
    }
}

/// The metrics of one endpoint's cache.
pub struct ResponseCacheMetrics {
    families: CacheFamilies,
    endpoint: String,
    /// Held while they are set: two renderings would count twice.
    setting: Mutex<()>,
}

impl ResponseCacheMetrics {
    pub(super) fn new(families: &CacheFamilies, endpoint: &str) -> ResponseCacheMetrics {
        let setting = Mutex::default();
        ResponseCacheMetrics { families: families.clone(), endpoint: endpoint.to_owned(), setting }
    }

    /// Brings them up to these figures.
    pub fn set(&self, figures: CacheFigures) {
        let _setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
        let CacheFigures { hits, collapsed, misses, bypassed, bytes, evictions } = figures;
        let timings = [("hit", hits), ("collapsed", collapsed), ("miss", misses), ("bypass", bypassed)];
        for (outcome, timing) in timings {
            let labels = [self.endpoint.as_str(), outcome];
            let requests = self.families.requests.with_label_values(&labels);
            requests.inc_by(timing.count.saturating_sub(requests.get()));
            let lookups = self.families.lookups.with_label_values(&labels);
            lookups.inc_by((Duration::from_nanos(timing.ns).as_secs_f64() - lookups.get()).max(0.0));
        }
        let labels = [self.endpoint.as_str()];
        let evicted = self.families.evictions.with_label_values(&labels);
        evicted.inc_by(evictions.saturating_sub(evicted.get()));
        self.families.bytes.with_label_values(&labels).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
