//! What handlers ask of their objects, counted.
//!
//! Place in the flow: counted by `capabilities/blobs/blobstore.rs` when an operation ends; whether a store
//! elsewhere has answered is set before the metrics are rendered. Invariant: a series begins with its first
//! operation: endpoints that keep no objects have none.

use std::sync::Arc;

use prometheus::{IntCounterVec, IntGaugeVec};

/// Counts the operations of one endpoint.
#[derive(Clone)]
pub struct BlobCalls {
    all: IntCounterVec,
    up: IntGaugeVec,
    endpoint: Arc<str>,
}

impl BlobCalls {
    pub(super) fn new(all: &IntCounterVec, up: &IntGaugeVec, endpoint: &str) -> BlobCalls {
        BlobCalls { all: all.clone(), up: up.clone(), endpoint: endpoint.into() }
    }

    /// Brings up to date whether the store has answered.
    pub fn set_up(&self, is_up: bool) {
        self.up.with_label_values(&[&*self.endpoint]).set(i64::from(is_up));
    }

    /// Counts an operation by its name.
    pub fn count(&self, operation: &str, is_ok: bool) {
        let outcome = if is_ok { "ok" } else { "error" };
        self.all.with_label_values(&[&*self.endpoint, operation, outcome]).inc();
    }
}
