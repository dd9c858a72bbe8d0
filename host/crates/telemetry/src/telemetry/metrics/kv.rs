//! What handlers ask of the store, counted.
//!
//! Place in the flow: counted by `capabilities/kv/buckets.rs` when an operation ends; whether a store
//! elsewhere can be reached is set before the metrics are rendered. Invariant: a series is looked up once;
//! endpoints that keep no values have none.

use std::sync::{Arc, OnceLock};

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec};

use crate::kv::KvOp;

const OUTCOMES: [&str; 2] = ["error", "ok"];

/// Counts the operations of one endpoint.
#[derive(Clone)]
pub struct KvCalls {
    all: IntCounterVec,
    up: IntGaugeVec,
    endpoint: Arc<str>,
    resolved: Arc<[[OnceLock<IntCounter>; 2]; KvOp::NAMES.len()]>,
}

impl KvCalls {
    pub(super) fn new(all: &IntCounterVec, up: &IntGaugeVec, endpoint: &str) -> KvCalls {
        KvCalls { all: all.clone(), up: up.clone(), endpoint: endpoint.into(), resolved: Arc::default() }
    }

    /// Begins the series of an endpoint that keeps values, at zero.
    pub fn begin(&self) {
        for (operation, outcomes) in self.resolved.iter().enumerate() {
            for outcome in 0..outcomes.len() {
                self.resolve(operation, outcome);
            }
        }
    }

    /// Brings up to date whether the store can be reached.
    pub fn set_up(&self, is_up: bool) {
        self.up.with_label_values(&[&*self.endpoint]).set(i64::from(is_up));
    }

    /// Counts an operation by its number.
    pub fn count(&self, operation: usize, is_ok: bool) {
        if let Some(counter) = self.resolve(operation, usize::from(is_ok)) {
            counter.inc();
        }
    }

    fn resolve(&self, operation: usize, outcome: usize) -> Option<&IntCounter> {
        let place = self.resolved.get(operation)?.get(outcome)?;
        let labels = [&*self.endpoint, KvOp::NAMES.get(operation)?, OUTCOMES.get(outcome)?];
        Some(place.get_or_init(|| self.all.with_label_values(&labels)))
    }
}
