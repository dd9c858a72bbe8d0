//! The tables `[endpoint.input.NAME]` to a [`Schema`].
//!
//! Place in the flow: `config/endpoint.rs` calls it once for each endpoint.
//! In:   the tables, in the file's order. Out: the schema, `None` without any; every problem at its place.
//! Invariant: as in the rest of the report, what is missing is named at the table, what is wrong at its key.
//! The words for what is missing are Inferless's, whose `INPUT_SCHEMA` this is.

use super::file::{Entry, Table};
use super::read::json_value;
use super::sources::Sources;
use crate::schema::{Input, MOST_INPUTS, Schema, SchemaError};
use crate::tensor::Datatype;
use crate::text::similar;
use crate::values::{Diagnostic, ParseResult, RawValue, list, switch, text};

/// Another name of BYTES.
const STRING: &str = "STRING";

/// The schema of the endpoint whose table this is.
pub(super) fn schema(sources: &mut Sources<'_>, table: &Table) -> Option<Schema> {
    if table.inputs.len() > MOST_INPUTS {
        let error = SchemaError::Inputs(table.inputs.len());
        let hint = "declare fewer, or put several into one";
        sources.report(table.place.clone(), Diagnostic::new(error.to_string(), hint));
        return None;
    }
    let mut inputs = Vec::new();
    for (name, table) in &table.inputs {
        inputs.extend(input(sources, name, table));
    }
    (!inputs.is_empty()).then_some(Schema { inputs })
}

/// One input; `None` if it was a problem.
fn input(sources: &mut Sources<'_>, name: &str, table: &Table) -> Option<Input> {
    let mut parts = Parts { sources, name, table };
    // `None` is a problem by now, `Some(None)` is not there.
    let required = parts.read("required", switch).map(|required| required.unwrap_or(true));
    let must = required != Some(false);
    let datatype = match parts.read("datatype", datatype) {
        Some(None) => {
            parts.lacks("Data type", "set `datatype`, such as `\"STRING\"`, `\"INT32\"` or `\"FP32\"`")
        }
        datatype => datatype.flatten(),
    };
    let shape = match parts.read("shape", |raw| shape(name, raw)) {
        Some(None) if must => parts.lacks("shape", "set `shape`; `[1]` is a single value, `[-1]` a list"),
        // What is not said of an optional input is the simplest.
        Some(None) => Some(vec![1]),
        shape => shape.flatten(),
    };
    let example = match parts.read("example", |raw| json_value(&raw.value)) {
        Some(None) if must => parts.lacks("example", "set `example`; it is tried before the endpoint serves"),
        example => example,
    };
    let description = parts.read("description", text);
    let input = Input {
        name: name.into(),
        datatype: datatype?,
        shape: shape?,
        required: required?,
        example: example?,
        description: description?.unwrap_or_default(),
    };
    let errors = input.errors();
    let is_sound = errors.is_empty();
    for error in errors {
        parts.error(&error);
    }
    is_sound.then_some(input)
}

/// An input's table while it is read.
struct Parts<'a, 'b, 'c> {
    sources: &'a mut Sources<'b>,
    name: &'c str,
    table: &'c Table,
}

impl Parts<'_, '_, '_> {
    /// The part `key`, if it is there; `None` if it is a problem.
    fn read<T>(&mut self, key: &str, reader: impl Fn(&RawValue<'_>) -> ParseResult<T>) -> Option<Option<T>> {
        let Some(Entry { place, value }) = self.table.get(key) else { return Some(None) };
        let read = reader(&self.sources.raw(value));
        match read {
            Ok(part) => Some(Some(part)),
            Err(diagnostic) => {
                self.sources.report(Some(place.clone()), diagnostic);
                None
            }
        }
    }

    /// Reports that a part is missing, unless it may be there, misspelt.
    fn lacks<T>(&mut self, part: &str, hint: &str) -> Option<T> {
        if !self.table.faulty {
            let message = format!("{part} not specified for input --> {}", self.name);
            self.sources.report(self.table.place.clone(), Diagnostic::new(message, hint));
        }
        None
    }

    fn error(&mut self, error: &SchemaError) {
        let (key, hint) = match error {
            SchemaError::Shape(_) => ("shape", "write a list of whole numbers, -1 for any"),
            SchemaError::Example(_) => {
                ("example", "write a value of this datatype and shape, or change those")
            }
            _ => ("", "choose another name"),
        };
        let place = self.table.get(key).map(|entry| entry.place.clone()).or_else(|| self.table.place.clone());
        self.sources.report(place, Diagnostic::new(error.to_string(), hint));
    }
}

/// The protocol's name, in any case, or `STRING`.
fn datatype(raw: &RawValue<'_>) -> ParseResult<Datatype> {
    let typed = text(raw)?;
    let upper = typed.to_ascii_uppercase();
    if upper == STRING {
        return Ok(Datatype::Bytes);
    }
    Datatype::named(&upper).ok_or_else(|| {
        let names = || Datatype::ALL.iter().map(|datatype| datatype.name()).chain([STRING]);
        let hint = match similar(&upper, names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("write {}", list(names(), "or")),
        };
        Diagnostic::new(format!("`{typed}` is not a datatype"), hint)
    })
}

fn shape(name: &str, raw: &RawValue<'_>) -> ParseResult<Vec<i64>> {
    let extents = raw.value.as_array().map(|extents| extents.iter().map(toml::Value::as_integer).collect());
    extents.flatten().ok_or_else(|| {
        let message = format!("shape not specified as a list for input --> {name}");
        Diagnostic::new(message, "write a list of whole numbers, -1 for any: `[1]`, `[-1, 4]`")
    })
}
