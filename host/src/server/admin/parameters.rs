//! The query of an order: its parameters beside path and body.
//!
//! Place in the flow: [`endpoints`](super::endpoints), [`trial`](super::trial) and [`logs`](super::logs) read
//! queries by it. In: the pairs of a query. Out: their values.
//! Invariants: a parameter that a route does not have is refused, with those that it has.

#![expect(clippy::result_large_err, reason = "an order is rare, and its refusal is the answer")]

use std::sync::Arc;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::response::Response;

use crate::endpoint::config::GateOverrides;
use crate::json::path::Pattern;
use crate::server::browser::refused;
use crate::values::{Diagnostic, Ratio, RawValue, Reader as _, count, number, ratio, switch};

/// Longest note, in bytes.
const LONGEST_NOTE: usize = 200;

/// A query as it came.
pub(super) type Pairs = Result<Query<Vec<(String, String)>>, QueryRejection>;

/// The parameters of a route, each as it is written: `NAME=FORM`.
pub(super) type Forms = &'static [&'static str];

/// Those of a swap; every other change of a generation has the last of them.
pub(super) const OF_A_SWAP: Forms = &[
    "persist=true|false",
    "model=NAME[:VERSION]",
    "note=TEXT",
    "ignore=PATH|NAME",
    "tolerance=NUMBER",
    "mismatches=SHARE",
    "accept_differences=true|false",
];
/// Only a component can be kept.
pub(super) const OF_A_RELOAD: Forms = OF_A_SWAP.split_at(1).1;
/// A candidate brings its models with it.
pub(super) const OF_A_PROMOTION: Forms = OF_A_SWAP.split_at(2).1;
pub(super) const OF_A_LOAD: Forms = &["version=NUMBER"];
pub(super) const OF_A_CONFIG: Forms = &["dry_run=true|false", "persist=true|false", "note=TEXT"];
/// The files are what they are.
pub(super) const OF_A_CONFIG_RELOAD: Forms = &["dry_run=true|false", "note=TEXT"];
pub(super) const ONLY_A_NOTE: Forms = &["note=TEXT"];
pub(super) const NONE: Forms = &[];

/// The parameters of an order.
#[derive(Debug, Default)]
pub(super) struct OrderParams {
    /// `model=NAME` or `model=NAME:VERSION`, any number of times.
    pub models: Vec<(String, Option<u64>)>,
    pub version: Option<u64>,
    pub note: Option<Arc<str>>,
    pub persist: bool,
    pub dry_run: bool,
    pub gate: GateOverrides,
}

impl OrderParams {
    /// Reads a query of a route that has `forms`.
    pub(super) fn parse(query: Pairs, forms: Forms) -> Result<OrderParams, Response> {
        let mut params = OrderParams::default();
        for (name, value) in pairs(query)? {
            params.set(&name, &value, forms).map_err(invalid)?;
        }
        Ok(params)
    }

    fn set(&mut self, name: &str, value: &str, forms: Forms) -> Result<(), String> {
        known(name, value, forms)?;
        let raw = RawValue::of(value);
        let wrong = |diagnostic: Diagnostic| diagnostic.of_parameter(name, value);
        match name {
            "model" => self.models.push(match value.split_once(':') {
                None => (value.to_owned(), None),
                Some((name, version)) => {
                    let text = |_| format!("`{value}`: expected NAME or NAME:VERSION");
                    (name.to_owned(), Some(version.parse().map_err(text)?))
                }
            }),
            "version" => self.version = Some(count(0..=u64::MAX).read(&raw).map_err(wrong)?),
            "note" => self.note = Some(note(value)?),
            "persist" => self.persist = switch(&raw).map_err(wrong)?,
            "dry_run" => self.dry_run = switch(&raw).map_err(wrong)?,
            "ignore" => self.gate.ignore.push(Pattern::parse(value)?),
            "tolerance" => self.gate.tolerance = Some(number(0.0..=1e6).read(&raw).map_err(wrong)?),
            "mismatches" => self.gate.mismatches = Some(ratio().read(&raw).map_err(wrong)?),
            "accept_differences" => {
                if switch(&raw).map_err(wrong)? {
                    self.gate.mismatches = Some(Ratio::percent(100));
                }
            }
            _ => return Err(unknown(name, value, forms)),
        }
        Ok(())
    }
}

/// The pairs of a query.
pub(super) fn pairs(query: Pairs) -> Result<Vec<(String, String)>, Response> {
    query.map(|Query(pairs)| pairs).map_err(|error| invalid(error.body_text()))
}

/// Refuses every parameter.
pub(super) fn no_parameters(query: Pairs) -> Result<(), Response> {
    OrderParams::parse(query, NONE).map(drop)
}

/// Refuses a parameter that is not among `forms`.
fn known(name: &str, value: &str, forms: Forms) -> Result<(), String> {
    let is_of = |form: &&str| form.split_once('=').is_some_and(|(known, _)| known == name);
    forms.iter().any(is_of).then_some(()).ok_or_else(|| unknown(name, value, forms))
}

/// The refusal of a parameter.
pub(super) fn unknown(name: &str, value: &str, forms: Forms) -> String {
    let there_are = match forms {
        [] => "there are none here".to_owned(),
        [only] => format!("there is only `{only}`"),
        [first @ .., last] => format!("there are `{}` and `{last}`", first.join("`, `")),
    };
    format!("unknown parameter `{name}={value}`: {there_are}")
}

/// The refusal of an order that cannot be read.
pub(super) fn invalid(text: String) -> Response {
    refused(StatusCode::BAD_REQUEST, "invalid_input", text)
}

/// The operator's reason for an order.
pub(super) fn note(text: &str) -> Result<Arc<str>, String> {
    match text.len() <= LONGEST_NOTE && !text.contains(char::is_control) {
        true => Ok(text.into()),
        false => Err(format!("the note is more than a line of {LONGEST_NOTE} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_refuses_parameters_that_it_does_not_have() {
        let set = |name: &str, value: &str, forms| OrderParams::default().set(name, value, forms);
        for (forms, name, value, says) in [
            (NONE, "note", "x", "unknown parameter `note=x`: there are none here"),
            (ONLY_A_NOTE, "foo", "1", "unknown parameter `foo=1`: there is only `note=TEXT`"),
            (OF_A_LOAD, "version", "-1", "`version=-1`: "),
            (OF_A_RELOAD, "persist", "true", "there are `model=NAME[:VERSION]`, `note=TEXT`, "),
            (OF_A_PROMOTION, "model", "m", "`mismatches=SHARE` and `accept_differences=true|false`"),
            (OF_A_SWAP, "model", "m:x", "`m:x`: expected NAME or NAME:VERSION"),
        ] {
            let refusal = set(name, value, forms).unwrap_err();
            assert!(refusal.contains(says), "{refusal}");
        }
        for form in OF_A_SWAP.iter().chain(OF_A_LOAD) {
            let name = form.split_once('=').unwrap().0;
            let value = if ["persist", "accept_differences"].contains(&name) { "true" } else { "1" };
            set(name, value, OF_A_SWAP).or_else(|_| set(name, value, OF_A_LOAD)).expect(form);
        }
    }
}
