//! The requests that a handler serves by one call, counted.
//!
//! Place in the flow: recorded by `pipeline/batches.rs` when a batch begins. Invariant: endpoints without
//! such batches have no series.

use std::sync::Arc;

use prometheus::{HistogramOpts, HistogramVec};

/// Requests of one batch, upper ends of the buckets.
const SIZES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// The batches of all endpoints, with this name and help text.
pub(super) fn family((name, help): (&str, &str)) -> Result<HistogramVec, prometheus::Error> {
    HistogramVec::new(HistogramOpts::new(name, help).buckets(SIZES.to_vec()), &["endpoint"])
}

/// The sizes of one endpoint's batches.
#[derive(Clone)]
pub struct BatchSizes {
    all: HistogramVec,
    endpoint: Arc<str>,
}

impl BatchSizes {
    pub(super) fn new(all: &HistogramVec, endpoint: &str) -> BatchSizes {
        BatchSizes { all: all.clone(), endpoint: endpoint.into() }
    }

    /// A batch of so many requests begins.
    pub fn record(&self, requests: usize) {
        self.all.with_label_values(&[&*self.endpoint]).observe(requests as f64);
    }
}
