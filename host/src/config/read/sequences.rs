//! Reader of the state that is kept for a model between the requests of a sequence.
//!
//! Place in the flow: see [`read`](super).
//! In: names of outputs and inputs, as `OUTPUT=INPUT` or as a table. Out: pairs of them.

use toml::Value;

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
