//! The limits of the state that is kept for a model between the requests of a sequence.
//!
//! Place in the flow: `config/endpoint.rs` calls [`limits`] once for each endpoint.

use super::file::Table;
use super::settings as set;
use super::sources::Sources;
use crate::model::SequenceLimits;

/// The limits of an endpoint's sequences.
pub(super) fn limits(sources: &mut Sources<'_>, table: &Table) -> SequenceLimits {
    SequenceLimits {
        most: sources.get(&set::SEQUENCES, table),
        bytes: sources.get(&set::SEQUENCE_MEMORY, table),
        idle: sources.get(&set::SEQUENCE_IDLE, table),
    }
}
