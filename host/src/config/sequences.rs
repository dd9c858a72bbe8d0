//! The state that is kept for a model between the requests of a sequence.
//!
//! Place in the flow: a row of `config/settings/` names [`states`], its reader; `config/endpoint.rs`
//! calls [`limits`].
//! In: names of outputs and inputs, as `OUTPUT=INPUT` or as a table. Out: pairs of them; the limits.

use toml::Value;

use super::Sources;
use super::file::Table;
use super::settings as set;
use crate::model::SequenceLimits;
use crate::values::{Diagnostic, ParseResult, RawValue};

/// Outputs, each with the input that takes it.
pub(crate) fn states(raw: &RawValue<'_>) -> ParseResult<Vec<(String, String)>> {
    let hint = "write a table, `{ state_out = \"state_in\" }`, or a list of `OUTPUT=INPUT`";
    let odd = || Diagnostic::new("holds something that is no output with its input", hint);
    let pair = |output: &str, input: &str| match output.is_empty() || input.is_empty() {
        true => Err(odd()),
        false => Ok((output.to_owned(), input.to_owned())),
    };
    let from_text = |item: &Value| {
        let (output, input) = item.as_str().and_then(|text| text.split_once('=')).ok_or_else(odd)?;
        pair(output, input)
    };
    match &*raw.value {
        Value::Array(items) => items.iter().map(from_text).collect(),
        Value::Table(table) => {
            table.iter().map(|(output, input)| pair(output, input.as_str().ok_or_else(odd)?)).collect()
        }
        _ => Err(raw.mistyped("a table or a list", hint)),
    }
}

/// The limits of an endpoint's sequences.
pub(super) fn limits(sources: &mut Sources<'_>, table: &Table) -> SequenceLimits {
    SequenceLimits {
        most: sources.get(&set::SEQUENCES, table),
        bytes: sources.get(&set::SEQUENCE_MEMORY, table),
        idle: sources.get(&set::SEQUENCE_IDLE, table),
    }
}
