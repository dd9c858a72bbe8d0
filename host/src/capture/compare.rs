//! Whether two handlers said the same to one request.
//!
//! Place in the flow: beside it; callers that have run a request through two handlers (a gate, a shadow,
//! `host diff`) ask here.
//! In:   two [`Outcome`]s, the old one first, and [`Bounds`]. Out: the [`Difference`]s, none if they are the
//!       same.
//!
//! | what | is the same if |
//! |---|---|
//! | errors | their codes are |
//! | status | it is equal |
//! | content type | it is equal but for case, order of parameters, and the charset of JSON, which has only one |
//! | headers | each has the same values; order between names does not matter |
//! | a JSON body | its structure is (`json`); any other body if its bytes are |
//! | requests that they sent | as answers (`outbound`), and their number and order |
//! | tensors | name, datatype, shape and values are (`tensors`) |
//!
//! Invariants: pure; at most [`MOST`] differences are found for a pair, and then nothing more is looked at;
//! each is one short line without control characters, for every answer of a handler. It costs no memory in
//! proportion to the bodies but for objects whose keys are in another order.

mod json;
pub mod outbound;
mod tensors;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use crate::endpoint::config::Bounds;
use crate::error::RequestError;
use crate::json::cursor::Cursor;
use crate::keys;
use crate::pipeline::debug;
use crate::request::{Output, Response, is_json_type};

/// Most differences that are looked for in one pair.
pub const MOST: usize = 16;
/// Most characters of a value that a difference shows.
const VALUE: usize = 80;
/// Most characters of a place that a difference shows.
const PLACE: usize = 160;

/// The outcome of a request.
pub type Outcome = Result<Output, RequestError>;

impl Bounds {
    fn are_close(&self, old: f64, new: f64) -> bool {
        let within = self.tolerance * old.abs().max(new.abs()).max(1.0);
        let is_near = (old - new).abs() <= within && old.is_finite() && new.is_finite();
        old == new || is_near || old.is_nan() && new.is_nan()
    }

    fn ignores_name(&self, name: &str) -> bool {
        self.ignore.iter().any(|pattern| pattern.is_name(name))
    }
}

/// One thing that is not the same. On one line: `/predictions/0/label: "setosa" became "virginica"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Where: `status`, `content-type`, `header NAME`, `body`, a JSON Pointer, or that of a tensor's element.
    pub place: String,
    /// The kind of difference.
    pub change: String,
}

impl Difference {
    /// At `place`, `old` became `new`.
    pub fn became(place: impl fmt::Display, old: impl fmt::Display, new: impl fmt::Display) -> Difference {
        Difference::at(place, format!("{old} became {new}"))
    }

    fn at(place: impl fmt::Display, change: String) -> Difference {
        Difference { place: debug::cut(&place.to_string(), PLACE), change }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.change)
    }
}

/// Compares what two handlers said. Takes time in proportion to the answers: for large ones, not on a thread
/// that others wait for.
pub fn compare(old: &Outcome, new: &Outcome, bounds: &Bounds) -> Vec<Difference> {
    let mut found = Vec::new();
    match (old, new) {
        (Ok(Output::Response(old)), Ok(Output::Response(new))) => responses(old, new, bounds, &mut found),
        (Ok(Output::Tensors(old)), Ok(Output::Tensors(new))) => {
            tensors::compare(old, new, bounds, &mut found)
        }
        (Ok(Output::Streamed { status: old }), Ok(Output::Streamed { status: new })) if old == new => {}
        (Err(old), Err(new)) if old.code == new.code => {}
        (old, new) => found.push(Difference::became("answer", said(old), said(new))),
    }
    found.truncate(MOST);
    found
}

/// An outcome in a few words.
fn said(outcome: &Outcome) -> String {
    match outcome {
        Ok(Output::Response(response)) => {
            format!("status {} {}", response.status, debug::cut_bytes(&response.body, VALUE))
        }
        Ok(Output::Streamed { status }) => format!("status {status}"),
        Ok(Output::Tensors(tensors)) => debug::cut(&debug::tensors(tensors), VALUE),
        Err(error) => {
            let text = format!("{} in {}: {error}", error.code.name(), error.stage);
            debug::cut(&text, 2 * VALUE)
        }
    }
}

fn responses(old: &Response, new: &Response, bounds: &Bounds, found: &mut Vec<Difference>) {
    if old.status != new.status {
        // Another status has another body; the new one says why.
        let new = format!("{} {}", new.status, debug::cut_bytes(&new.body, 2 * VALUE));
        found.push(Difference::became("status", old.status, new));
        return;
    }
    headers_and_body(old, new, bounds, found);
}

fn headers_and_body(old: &Response, new: &Response, bounds: &Bounds, found: &mut Vec<Difference>) {
    const TYPE: &str = "content-type";
    if !bounds.ignores_name(TYPE) && media_type(&old.content_type) != media_type(&new.content_type) {
        let shown = |media: &str| match media {
            "" => "none".to_owned(),
            media => format!("`{}`", debug::cut(media, VALUE)),
        };
        found.push(Difference::became(TYPE, shown(&old.content_type), shown(&new.content_type)));
    }
    headers(old, new, bounds, found);
    // Equal bytes are the usual case, and need no reading.
    if old.body == new.body {
        return;
    }
    let is_json = is_json_type(&old.content_type) && is_json_type(&new.content_type);
    let cursors = Cursor::proven(&old.body).zip(Cursor::proven(&new.body));
    match cursors.filter(|_| is_json) {
        Some((old, new)) => json::compare(old, new, bounds, found),
        None => {
            let shown = |body| debug::cut_bytes(body, VALUE);
            found.push(match (shown(&old.body), shown(&new.body)) {
                // The part that differs is not shown.
                (old, new) if old == new => Difference::at("body", format!("other bytes in {new}")),
                (old, new) => Difference::became("body", old, new),
            });
        }
    }
}

/// The type in lower case, and its parameters in an order of ours.
fn media_type(text: &str) -> (String, Vec<(String, String)>) {
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
    let parameter = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
        let value = if name == "charset" { value.to_ascii_lowercase() } else { value.to_owned() };
        (name, value)
    };
    let mut parameters: Vec<_> = parts.filter(|part| !part.is_empty()).map(parameter).collect();
    parameters.retain(|(name, _)| name != "charset" || !is_json_type(&essence));
    parameters.sort();
    (essence, parameters)
}

/// The headers that the handler set, name by name.
fn headers(old: &Response, new: &Response, bounds: &Bounds, found: &mut Vec<Difference>) {
    let values = |response: &Response, name: &str| -> Vec<String> {
        let of_name = response.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        of_name.map(|(_, value)| value.clone()).collect()
    };
    let mut seen: Vec<&str> = Vec::new();
    for (name, _) in old.headers.iter().chain(&new.headers) {
        if bounds.ignores_name(name) || seen.iter().any(|seen| seen.eq_ignore_ascii_case(name)) {
            continue;
        }
        seen.push(name);
        let (before, after) = (values(old, name), values(new, name));
        if before != after {
            let shown = |values: &[String]| match values {
                [] => "none".to_owned(),
                // Some caller's session, perhaps.
                _ if keys::is_secret_name(name) => "a value".to_owned(),
                values => format!("`{}`", debug::cut(&values.join("`, `"), VALUE)),
            };
            let place = format!("header {}", name.to_ascii_lowercase());
            found.push(Difference::became(place, shown(&before), shown(&after)));
        }
    }
}
