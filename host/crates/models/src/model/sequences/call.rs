//! The part of a request in a sequence.
//!
//! Place in the flow: before a run. In: a request's parameters, hostile. Out: a [`SequenceCall`].
//! Invariant: a name that is neither a number nor a text is passed over as it is read, never kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::blocking;

/// Longest name of a sequence, in bytes.
pub const LONGEST_ID: usize = 128;

/// The name of a sequence: a number and the text of it are two.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SequenceId {
    /// A number.
    Unsigned(u64),
    /// A number below zero, which some clients make of large ones.
    Signed(i64),
    /// A text.
    Text(String),
}

impl<'de> Deserialize<'de> for SequenceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = SequenceId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a text")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<SequenceId, E> {
                Ok(SequenceId::Unsigned(number))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<SequenceId, E> {
                Ok(u64::try_from(number).map_or(SequenceId::Signed(number), SequenceId::Unsigned))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SequenceId, E> {
                Ok(SequenceId::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(Name)
    }
}

/// The part of a request in a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceCall {
    /// Which sequence; `None` for a run by itself, from the initial state, that keeps none.
    pub id: Option<SequenceId>,
    /// Whether it is the first request.
    pub start: bool,
    /// Whether it is the last one.
    pub end: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    sequence_id: Option<SequenceId>,
    sequence_start: bool,
    sequence_end: bool,
}

impl SequenceCall {
    /// A run that belongs to no sequence.
    pub const ALONE: SequenceCall = SequenceCall { id: None, start: true, end: true };

    /// The part that a request's parameters, a JSON object, say; `None`: it belongs to no sequence.
    ///
    /// # Errors
    /// Text for the caller.
    pub fn of(parameters: &str) -> Result<Option<SequenceCall>, String> {
        blocking::if_large(parameters.len(), || SequenceCall::read(parameters))
    }

    fn read(parameters: &str) -> Result<Option<SequenceCall>, String> {
        if !parameters.contains("\"sequence_") {
            return Ok(None);
        }
        let Parameters { sequence_id, sequence_start: start, sequence_end: end } = serde_json::from_str(
            parameters,
        )
        .map_err(
            |_| "`sequence_id` is a number or a text, `sequence_start` and `sequence_end` are true or false",
        )?;
        match &sequence_id {
            None | Some(SequenceId::Unsigned(0)) => return Ok(None),
            Some(SequenceId::Text(text)) if text.is_empty() => return Ok(None),
            Some(SequenceId::Text(text)) if text.len() > LONGEST_ID => {
                return Err(format!("`sequence_id` has {} bytes, more than {LONGEST_ID}", text.len()));
            }
            Some(_) => {}
        }
        Ok(Some(SequenceCall { id: sequence_id, start, end }))
    }
}
