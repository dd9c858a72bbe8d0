//! The sequences whose state an endpoint's models are given.
//!
//! Place in the flow: set before the metrics are rendered. Invariant: endpoints whose models keep no state
//! have no series.

use std::sync::Arc;

use prometheus::IntGaugeVec;

use super::families::{Families, opts};

/// The families of all endpoints.
#[derive(Clone)]
pub(super) struct SequenceFamilies {
    count: IntGaugeVec,
    bytes: IntGaugeVec,
}

impl SequenceFamilies {
    /// With these names and help texts.
    pub(super) fn new(
        families: &Families,
        [count, bytes]: [(&str, &str); 2],
    ) -> Result<SequenceFamilies, prometheus::Error> {
        Ok(SequenceFamilies {
            count: families.register(IntGaugeVec::new(opts(count), &["endpoint"])?)?,
            bytes: families.register(IntGaugeVec::new(opts(bytes), &["endpoint"])?)?,
        })
    }
}

/// The sequences of one endpoint.
#[derive(Clone)]
pub struct SequenceGauges {
    families: SequenceFamilies,
    endpoint: Arc<str>,
}

impl SequenceGauges {
    pub(super) fn new(families: &SequenceFamilies, endpoint: &str) -> SequenceGauges {
        SequenceGauges { families: families.clone(), endpoint: endpoint.into() }
    }

    /// Brings them up to date.
    pub fn set(&self, count: usize, bytes: usize) {
        let SequenceFamilies { count: counts, bytes: all } = &self.families;
        for (family, figure) in [(counts, count), (all, bytes)] {
            let figure = i64::try_from(figure).unwrap_or(i64::MAX);
            family.with_label_values(&[&*self.endpoint]).set(figure);
        }
    }
}
