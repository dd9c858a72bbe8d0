//! Splits: `[[split]]` of the file to [`Split`]s.
//!
//! Place in the flow: `config.rs` calls it when every endpoint is read.
//! Invariant: what comes out names endpoints that there are, at paths that no other endpoint has.

use super::file::{File, Table};
use super::problem::Place;
use super::read;
use super::sources::Sources;
use crate::bucketing::Sticky;
use crate::endpoint::config::EndpointConfig;
use crate::request::Protocol;
use crate::server::split::Split;
use crate::text::similar;
use crate::values::{Diagnostic, ParseResult, RawValue, list, text};

const MOST_WEIGHT: i64 = 1_000_000;

/// All splits of the file.
pub(super) fn splits(sources: &mut Sources<'_>, file: &File, endpoints: &[EndpointConfig]) -> Vec<Split> {
    let mut splits: Vec<Split> = Vec::new();
    for table in &file.splits {
        let path = value(sources, table, "path", read::url_path);
        let sticky = value(sources, table, "sticky", sticky);
        let weights = value(sources, table, "endpoints", |raw| weights(raw, endpoints));
        for (key, example) in [("path", "path = \"/both\""), ("endpoints", "endpoints = { a = 90, b = 10 }")]
        {
            if table.get(key).is_none() && !table.faulty {
                let diagnostic = Diagnostic::new(format!("has no `{key}`"), format!("write `{example}`"));
                sources.report(table.place.clone(), diagnostic);
            }
        }
        let (Some(path), Some(endpoints_of)) = (path, weights) else { continue };
        let of_endpoints = endpoints.iter().flat_map(|it| std::iter::once(&it.path).chain(&it.paths));
        let of_others = of_endpoints.chain(splits.iter().map(|split| &split.path));
        if of_others.into_iter().any(|other| *other == path) {
            let message = format!("an endpoint or another split has the path `{path}` too");
            sources.report(place(table, "path"), Diagnostic::new(message, "give it a path of its own"));
        }
        splits.push(Split { path, endpoints: endpoints_of, sticky });
    }
    splits
}

/// Reads one value of the table; `None` if it is not there, or wrong, which is then recorded.
fn value<T>(
    sources: &mut Sources<'_>,
    table: &Table,
    key: &str,
    reader: impl Fn(&RawValue<'_>) -> ParseResult<T>,
) -> Option<T> {
    let entry = table.get(key)?;
    reader(&sources.raw(&entry.value))
        .map_err(|diagnostic| sources.report(Some(entry.place.clone()), diagnostic))
        .ok()
}

fn place(table: &Table, key: &str) -> Option<Place> {
    table.get(key).map(|entry| entry.place.clone())
}

fn sticky(raw: &RawValue<'_>) -> ParseResult<Sticky> {
    let text = text(raw)?;
    let wrong = |_| Diagnostic::new(format!("`{text}` names no header"), "write `header:NAME`");
    Sticky::parse(&text).map_err(wrong)
}

/// `{ a = 90, b = 10 }`
fn weights(raw: &RawValue<'_>, endpoints: &[EndpointConfig]) -> ParseResult<Vec<(String, u32)>> {
    let hint = "write `{ a = 90, b = 10 }`: endpoints by name, each with a whole number from 1 to 1000000";
    let table = raw.value.as_table().filter(|table| !table.is_empty());
    let table = table.ok_or_else(|| Diagnostic::new("is not a table of endpoints", hint))?;
    let mut weights = Vec::new();
    for (name, weight) in table {
        let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.name == *name) else {
            let names = || endpoints.iter().map(|endpoint| endpoint.name.as_str());
            let hint = match similar(name, names()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("there are {}", list(names(), "and")),
            };
            return Err(Diagnostic::new(format!("there is no endpoint `{name}`"), hint));
        };
        if !endpoint.speaks(Some(Protocol::Http)) {
            let hint = "add `http` to its `protocols`";
            return Err(Diagnostic::new(format!("`{name}` is not reached by HTTP"), hint));
        }
        let weight = weight.as_integer().filter(|weight| (1..=MOST_WEIGHT).contains(weight));
        let weight = weight.and_then(|weight| u32::try_from(weight).ok());
        let wrong = || Diagnostic::new(format!("the weight of `{name}` is none"), hint);
        weights.push((name.clone(), weight.ok_or_else(wrong)?));
    }
    Ok(weights)
}
