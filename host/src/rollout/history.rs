//! What became of every attempt to publish another generation of an endpoint.
//!
//! Place in the flow: written when an attempt has ended, read by the admin listener.
//! Invariants: bounded, the oldest go first; nothing here is touched by a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Serialize, Serializer};

use super::gate_report::Report;

/// Attempts that are remembered.
const MOST: usize = 50;

/// The source of a request for another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The start of the process.
    Start,
    /// The handler's file changed.
    Watch,
    /// An order of the operator: admin API or `host swap`.
    Admin,
    /// A client's order over the Open Inference Protocol.
    Client,
    /// SIGHUP.
    Signal,
    /// `host dev` has built.
    Dev,
    /// An order to go back to the generation before.
    Rollback,
    /// Too many faults.
    Breaker,
    /// A candidate that answered its share well.
    Canary,
}

impl Origin {
    /// Its name in the history and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Start => "start",
            Origin::Watch => "watch",
            Origin::Admin => "admin",
            Origin::Client => "client",
            Origin::Signal => "signal",
            Origin::Dev => "dev",
            Origin::Rollback => "rollback",
            Origin::Breaker => "breaker",
            Origin::Canary => "canary",
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One attempt.
#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// When it ended: Unix time in seconds.
    pub at: u64,
    /// The source of the request for it.
    pub origin: Origin,
    /// The caller's reason, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// `published` or `refused`.
    pub outcome: &'static str,
    /// The number it was published under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// SHA-256 of its handler.
    pub digest: Option<Arc<str>>,
    /// The step that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'static str>,
    /// Why it was refused.
    pub error: Option<String>,
    /// The gate's findings, if it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Arc<Report>>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The attempts of one endpoint.
#[derive(Debug, Default)]
pub struct History(Mutex<VecDeque<Arc<Attempt>>>);

impl History {
    pub(super) fn add(&self, attempt: Attempt) {
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() == MOST {
            attempts.pop_front();
        }
        attempts.push_back(Arc::new(attempt));
    }

    /// All that are remembered, the latest first.
    pub fn attempts(&self) -> Vec<Arc<Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    /// The latest that the start of the process did not ask for.
    pub fn last_swap(&self) -> Option<Arc<Attempt>> {
        self.attempts().into_iter().find(|attempt| attempt.origin != Origin::Start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_attempt_goes_first() {
        let history = History::default();
        for n in 0..MOST as u64 + 3 {
            history.add(Attempt {
                at: n,
                origin: if n == 0 { Origin::Start } else { Origin::Watch },
                note: None,
                outcome: "published",
                generation: Some(n),
                digest: None,
                step: None,
                error: None,
                gate: None,
                duration_ms: 0,
            });
        }
        let kept: Vec<u64> = history.attempts().iter().map(|attempt| attempt.at).collect();
        assert_eq!(kept.len(), MOST);
        assert_eq!((kept[0], kept[MOST - 1]), (MOST as u64 + 2, 3));
    }
}
