//! What is to be deployed, who wants it, and what became of it.
//!
//! Place in the flow: made by the admin listener, the watch, the signal, the breaker; carried out by the
//! other files of `rollout`.

use std::sync::Arc;

use serde::Serialize;

use super::history::Origin;
use crate::endpoint::config::GateOverrides;
use crate::endpoint::generation::Generation;
use crate::plugin::Binary;

/// The parts that are to be replaced. Empty: none.
#[derive(Debug, Clone, Default)]
pub struct GenerationChange {
    /// A handler component; `None` keeps the handler there is.
    pub component: Option<Binary>,
    /// Models to load as their files are now, by name; a number picks one of a folder of versions.
    pub models: Vec<(String, Option<u64>)>,
    /// Whether the handler is to be in the endpoint's file as well, and serve after a restart.
    pub persist: bool,
}

/// Source and conditions of a change.
#[derive(Debug, Clone)]
pub struct DeployRequest {
    /// The source of the request.
    pub origin: Origin,
    /// The name of the key that it came with.
    pub by: Option<Arc<str>>,
    /// Why, in the caller's words.
    pub note: Option<Arc<str>>,
    /// Only if this is the digest of the current handler.
    pub expected: Option<String>,
    /// The differences that the gate lets pass this once.
    pub gate: GateOverrides,
}

impl DeployRequest {
    /// An order without conditions.
    pub fn by(origin: Origin) -> DeployRequest {
        DeployRequest { origin, by: None, note: None, expected: None, gate: GateOverrides::default() }
    }
}

/// The outcome of a request that was not refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeployOutcome {
    /// `published`, or `unchanged` if this very handler and these very models are current already.
    pub outcome: &'static str,
    /// The current generation.
    pub generation: u64,
    /// SHA-256 of its handler.
    pub digest: Option<Arc<str>>,
}

impl DeployOutcome {
    pub(super) fn published(new: &Generation) -> DeployOutcome {
        DeployOutcome { outcome: "published", generation: new.number, digest: new.digest.clone() }
    }

    pub(super) fn unchanged(current: &Generation) -> DeployOutcome {
        DeployOutcome { outcome: "unchanged", ..DeployOutcome::published(current) }
    }

    /// Whether there is a new generation.
    pub fn is_new(&self) -> bool {
        self.outcome == "published"
    }
}
