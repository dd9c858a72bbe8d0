//! What handlers ask of the store, counted.
//!
//! Place in the flow: counted by `plugin/kv.rs` when an operation ends; whether a store elsewhere can be
//! reached is set before the metrics are rendered. Invariant: a series begins with its
//! first operation, and is looked up once: endpoints that keep no values have none.

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

    /// Brings up to date whether the store can be reached.
    pub fn set_up(&self, is_up: bool) {
        self.up.with_label_values(&[&*self.endpoint]).set(i64::from(is_up));
    }

    /// Counts an operation by its number.
    pub fn count(&self, operation: usize, is_ok: bool) {
        let outcome = usize::from(is_ok);
        let place = self.resolved.get(operation).and_then(|outcomes| outcomes.get(outcome));
        let names = KvOp::NAMES.get(operation).zip(OUTCOMES.get(outcome));
        if let Some((place, (operation, outcome))) = place.zip(names) {
            let labels = [&*self.endpoint, operation, outcome];
            place.get_or_init(|| self.all.with_label_values(&labels)).inc();
        }
    }
}
