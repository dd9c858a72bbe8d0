//! The requests that an instance serves together, as its store holds them.
//!
//! Place in the flow: `respond-all` ([`batch`](super::batch)) begins and ends a batch, a context of the
//! guest's asks for its request.

use std::sync::Arc;

use crate::request::Request;

/// The requests of a batch by the numbers of their contexts. No number is given again, so that a context
/// which a guest keeps is never that of a later request.
#[derive(Default)]
pub(super) struct Members {
    requests: Vec<Arc<Request>>,
    /// The numbers that were given before theirs.
    given: u32,
}

impl Members {
    /// These are served now. The number of the first of them.
    pub(super) fn begin(&mut self, requests: &[Arc<Request>]) -> u32 {
        self.requests = requests.to_vec();
        self.given.saturating_add(1)
    }

    /// None is any more.
    pub(super) fn end(&mut self) {
        let count = u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
        self.given = self.given.saturating_add(count);
        self.requests = Vec::new();
    }

    pub(super) fn get(&self, number: u32) -> Option<&Arc<Request>> {
        let place = number.checked_sub(self.given)?.checked_sub(1)?;
        self.requests.get(usize::try_from(place).ok()?)
    }
}
