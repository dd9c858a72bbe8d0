//! Readers: one value, as someone wrote it, to what it means.
//!
//! Place in the flow: `config.rs` finds the value and its place, a reader here judges it.
//! In:   a [`Given`]. Flags and variables come as strings, so every reader takes a string, and what TOML has a
//!       type of its own for besides. Out: the meaning, or a [`Complaint`] that says what to write instead.
//! Invariant: readers look at the value only; whether a file exists is for `config/endpoint.rs` to see.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;

use super::file::with_article;
use super::problem::{Complaint, list};
use crate::json::path::Pattern;
use crate::plugin::headers::{self, Owner};
use crate::request::Protocol;
use crate::text::is_token;
use crate::text::similar;

/// A value and how it came here.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub value: &'a Value,
    /// The folder that relative paths start from.
    pub base: &'a Path,
    /// Where it stands.
    pub origin: Origin,
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Flag,
    Variable,
    File,
}

pub(super) type Reading<T> = Result<T, Complaint>;

impl Given<'_> {
    pub(super) fn expected(&self, what: &str, hint: impl Into<String>) -> Complaint {
        Complaint::new(format!("expected {what}, found {}", with_article(self.value.type_str())), hint)
    }
}

pub(super) fn text(given: &Given<'_>) -> Reading<String> {
    given
        .value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| given.expected("a string", "put the value in double quotes"))
}

/// A path, joined to the folder it is relative to.
pub(super) fn path(given: &Given<'_>) -> Reading<PathBuf> {
    match text(given)? {
        path if path.is_empty() => Err(Complaint::new("is empty", "write a path, or leave it out")),
        path => Ok(given.base.join(path)),
    }
}

/// A path, or `none`.
pub(super) fn path_or_none(given: &Given<'_>) -> Reading<Option<PathBuf>> {
    if given.value.as_str() == Some("none") { Ok(None) } else { path(given).map(Some) }
}

pub(super) fn switch(given: &Given<'_>) -> Reading<bool> {
    match given.value {
        Value::Boolean(on) => Ok(*on),
        Value::String(text) if text == "true" || text == "1" => Ok(true),
        Value::String(text) if text == "false" || text == "0" => Ok(false),
        Value::String(text) => {
            Err(Complaint::new(format!("`{text}` is neither true nor false"), "write `true` or `false`"))
        }
        _ => Err(given.expected("true or false", "write `true` or `false`")),
    }
}

/// One of `choices`.
pub(super) fn choice<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&Given<'_>) -> Reading<T> {
    move |given| {
        let typed = text(given)?;
        let words = || choices.iter().map(|(word, _)| *word);
        choices.iter().find(|(word, _)| *word == typed).map(|(_, meant)| *meant).ok_or_else(|| {
            let hint = match similar(&typed, words()) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("write {}", list(words(), "or")),
            };
            Complaint::new(format!("`{typed}` is not one of {}", list(words(), "or")), hint)
        })
    }
}

/// A whole number within `range`.
pub(super) fn count(range: RangeInclusive<usize>) -> impl Fn(&Given<'_>) -> Reading<usize> {
    move |given| {
        let hint = || format!("write a whole number from {} to {}", range.start(), range.end());
        let number = match given.value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            Value::String(text) => text.parse().ok(),
            _ => return Err(given.expected("a whole number", hint())),
        };
        match number {
            Some(number) if range.contains(&number) => Ok(number),
            Some(number) => Err(Complaint::new(format!("`{number}` is out of range"), hint())),
            None => Err(Complaint::new(format!("{} is not a count", quoted(given.value)), hint())),
        }
    }
}

/// A whole number within `range`, or `auto`.
pub(super) fn count_or_auto(range: RangeInclusive<usize>) -> impl Fn(&Given<'_>) -> Reading<Option<usize>> {
    let count = count(range);
    move |given| if given.value.as_str() == Some("auto") { Ok(None) } else { count(given).map(Some) }
}

/// A share above 0 and up to 1, in thousandths, or `off`.
pub(super) fn thousandths_or_off(given: &Given<'_>) -> Reading<Option<u32>> {
    const HINT: &str = "write a number above 0 and up to 1, such as 0.5, or `off`";
    let share = match given.value {
        Value::String(text) if text == "off" => return Ok(None),
        Value::String(text) => text.parse().ok(),
        Value::Float(share) => Some(*share),
        Value::Integer(share) => Some(*share as f64),
        _ => return Err(given.expected("a share", HINT)),
    };
    let thousandths = share.map(|share: f64| (share * 1000.0).round()).filter(|n| (1.0..=1000.0).contains(n));
    match thousandths {
        Some(thousandths) => Ok(Some(thousandths as u32)),
        None => Err(Complaint::new(format!("{} is not a share", quoted(given.value)), HINT)),
    }
}

/// A number within `range`.
pub(super) fn number(range: RangeInclusive<f64>) -> impl Fn(&Given<'_>) -> Reading<f64> {
    move |given| {
        let hint = || format!("write a number from {} to {}", range.start(), range.end());
        let number = match given.value {
            Value::Float(number) => Some(*number),
            Value::Integer(number) => i32::try_from(*number).ok().map(f64::from),
            Value::String(text) => text.parse().ok(),
            _ => return Err(given.expected("a number", hint())),
        };
        match number {
            Some(number) if range.contains(&number) => Ok(number),
            Some(_) => Err(Complaint::new(format!("{} is out of range", quoted(given.value)), hint())),
            None => Err(Complaint::new(format!("{} is not a number", quoted(given.value)), hint())),
        }
    }
}

/// A number within `range`, or `none`.
pub(super) fn number_or_none(range: RangeInclusive<f64>) -> impl Fn(&Given<'_>) -> Reading<Option<f64>> {
    let number = number(range);
    move |given| if given.value.as_str() == Some("none") { Ok(None) } else { number(given).map(Some) }
}

/// A list of paths in JSON documents and of names.
pub(super) fn patterns(given: &Given<'_>) -> Reading<Vec<Pattern>> {
    let hint = "write paths that begin with `/`, such as `/predictions/*/took`, or names of headers";
    let one = std::slice::from_ref(given.value);
    let items = given.value.as_array().map_or(one, Vec::as_slice);
    let pattern = |item: &Value| match item.as_str() {
        Some(text) => Pattern::parse(text).map_err(|message| Complaint::new(message, hint)),
        None => Err(Complaint::new("holds something that is not a string", hint)),
    };
    items.iter().map(pattern).collect()
}

/// A list of response headers that need a grant, in lower case.
pub(super) fn response_headers(given: &Given<'_>) -> Reading<Vec<String>> {
    let hint = "write names such as `set-cookie` or `content-encoding`; docs/reference.md lists them";
    let one = std::slice::from_ref(given.value);
    let items = given.value.as_array().map_or(one, Vec::as_slice);
    let header = |item: &Value| {
        let text =
            item.as_str().ok_or_else(|| Complaint::new("holds something that is not a string", hint))?;
        let name = text.to_ascii_lowercase();
        match headers::owner(&name) {
            Owner::Operator if is_token(&name) => Ok(name),
            Owner::Connection | Owner::Server => Err(Complaint::new(
                format!("`{text}` is the server's, and cannot be granted"),
                "leave it out",
            )),
            Owner::Operator | Owner::Handler => {
                let hint = match similar(&name, headers::operators()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("leave it out if it is right; {hint}"),
                };
                Err(Complaint::new(format!("`{text}` is no header that needs a grant"), hint))
            }
        }
    };
    items.iter().map(header).collect()
}

/// A number of bytes within `range`, both ends in whole `KiB`, `MiB` or `GiB`.
pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&Given<'_>) -> Reading<u64> {
    move |given| {
        let hint = "write a number of bytes, or a number with a unit, such as `64MiB`";
        let size = match given.value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => parse_size::parse_size(text).ok(),
            _ => return Err(given.expected("a size", hint)),
        };
        let size =
            size.ok_or_else(|| Complaint::new(format!("{} is not a size", quoted(given.value)), hint))?;
        within(&range, size, given.value, |bytes| bytes_as_text(*bytes))
    }
}

/// A number of bytes within `range`, or `none`.
pub(super) fn size_or_none(range: RangeInclusive<u64>) -> impl Fn(&Given<'_>) -> Reading<Option<u64>> {
    let size = size(range);
    move |given| if given.value.as_str() == Some("none") { Ok(None) } else { size(given).map(Some) }
}

/// Names of hosts, without ports; in lower case.
pub(super) fn host_names(given: &Given<'_>) -> Reading<Vec<String>> {
    let hint = "write a name without a port, such as `models.internal`";
    let one = std::slice::from_ref(given.value);
    let items = given.value.as_array().map_or(one, Vec::as_slice);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name = |item: &Value| match item.as_str() {
        Some(name) if !name.is_empty() && name.chars().all(is_name) => Ok(name.to_ascii_lowercase()),
        _ => Err(Complaint::new(format!("`{item}` is no name of a host"), hint)),
    };
    items.iter().map(name).collect()
}

/// Names of protocols, one at least.
pub(super) fn protocols(given: &Given<'_>) -> Reading<Vec<Protocol>> {
    let hint = "write some of `http`, `v1`, `v2` and `grpc`";
    let one = std::slice::from_ref(given.value);
    let items = given.value.as_array().map_or(one, Vec::as_slice);
    let protocol = |item: &Value| {
        let name = item.as_str().unwrap_or_default();
        let known = Protocol::ALL.into_iter().find(|(known, _)| *known == name);
        known
            .map(|(_, protocol)| protocol)
            .ok_or_else(|| Complaint::new(format!("`{item}` is no protocol"), hint))
    };
    match items {
        [] => Err(Complaint::new("is empty, so that nobody could reach the endpoint", hint)),
        items => items.iter().map(protocol).collect(),
    }
}

/// A duration within `range`, or `auto`.
pub(super) fn duration_or_auto(
    range: RangeInclusive<Duration>,
) -> impl Fn(&Given<'_>) -> Reading<Option<Duration>> {
    let duration = duration(range);
    move |given| if given.value.as_str() == Some("auto") { Ok(None) } else { duration(given).map(Some) }
}

/// A duration within `range`.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&Given<'_>) -> Reading<Duration> {
    move |given| {
        let hint = "write a number with a unit, such as `500ms`, `30s` or `1m`";
        let text = match given.value {
            Value::String(text) => text,
            Value::Integer(number) => {
                return Err(Complaint::new(
                    format!("`{number}` has no unit"),
                    format!("write `\"{number}s\"` for seconds, `\"{number}ms\"` for milliseconds"),
                ));
            }
            _ => return Err(given.expected("a duration", hint)),
        };
        let duration = match humantime::parse_duration(text) {
            Ok(duration) => duration,
            Err(_) if text.parse::<f64>().is_ok() => {
                return Err(Complaint::new(
                    format!("`{text}` has no unit"),
                    format!("write `{text}s` for seconds, `{text}ms` for milliseconds"),
                ));
            }
            Err(_) => return Err(Complaint::new(format!("`{text}` is not a duration"), hint)),
        };
        within(&range, duration, given.value, |limit| humantime::format_duration(*limit).to_string())
    }
}

/// An IP address and a port.
pub(super) fn address(given: &Given<'_>) -> Reading<SocketAddr> {
    let typed = text(given)?;
    typed.parse().map_err(|_| {
        let hint = match typed.rsplit_once(':').map_or((None, typed.as_str()), |(ip, port)| (Some(ip), port))
        {
            (None | Some("" | "localhost"), port) if port.parse::<u16>().is_ok() => {
                format!("did you mean `127.0.0.1:{port}`? `0.0.0.0:{port}` listens on every interface")
            }
            _ => "write an IP address and a port, such as `127.0.0.1:8000` or `[::1]:8000`".to_owned(),
        };
        Complaint::new(format!("`{typed}` is not an address"), hint)
    })
}

/// An address, or `none`.
pub(super) fn address_or_none(given: &Given<'_>) -> Reading<Option<SocketAddr>> {
    if given.value.as_str() == Some("none") { Ok(None) } else { address(given).map(Some) }
}

/// An origin as in a browser's `origin` header, `*`, or `none`.
pub(super) fn origin(given: &Given<'_>) -> Reading<Option<String>> {
    let typed = text(given)?;
    let is_origin = |text: &str| {
        let (scheme, host) = text.split_once("://").unwrap_or_default();
        !scheme.is_empty()
            && !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#,@".contains(&byte))
    };
    match typed.as_str() {
        "none" => Ok(None),
        "*" => Ok(Some(typed)),
        text if is_origin(text) => Ok(Some(typed)),
        text => Err(Complaint::new(
            format!("`{text}` is not an origin"),
            "write one origin without a path, such as `https://example.com`, or `*`, or `none`",
        )),
    }
}

/// `NAME` and `NAME=value` in a list, or a table of values; `env` answers for names without a value.
pub(super) fn variables(
    given: &Given<'_>,
    env: impl Fn(&str) -> Option<String>,
) -> Reading<Vec<(String, String)>> {
    let hint = "write a list, such as `[\"NAME\", \"NAME=value\"]`, or a table of strings";
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut number = 0;
    let mut add = |name: &str, value: Option<String>| -> Reading<()> {
        number += 1;
        // A value with a comma in it comes here in pieces, so that what looks like a name may be a secret.
        let (shown, meant) = match given.origin {
            Origin::Variable => (format!("item {number}"), "NAME"),
            Origin::Flag | Origin::File => (format!("`{name}`"), name),
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Complaint::new(
                format!("{shown} is not a variable's name"),
                "write `NAME` or `NAME=value`",
            ));
        }
        if variables.iter().any(|(other, _)| other == name) {
            return Err(Complaint::new(format!("{shown} is granted twice"), "remove one of them"));
        }
        let value = value.or_else(|| env(name)).ok_or_else(|| {
            Complaint::new(
                format!("{shown} is not set in the environment of the host"),
                format!("set it, or write `{meant}=value`"),
            )
        })?;
        variables.push((name.to_owned(), value));
        Ok(())
    };
    match given.value {
        Value::Array(items) => {
            for item in items {
                match item.as_str().map(|text| text.split_once('=').ok_or(text)) {
                    Some(Ok((name, value))) => add(name, Some(value.to_owned()))?,
                    Some(Err(name)) => add(name, None)?,
                    None => return Err(Complaint::new("holds something that is not a string", hint)),
                }
            }
        }
        Value::Table(table) => {
            for (name, value) in table {
                let value = value.as_str().ok_or_else(|| {
                    Complaint::new(
                        format!("the value of `{name}` is not a string"),
                        "put it in double quotes",
                    )
                })?;
                add(name, Some(value.to_owned()))?;
            }
        }
        _ => return Err(given.expected("a list or a table", hint)),
    }
    Ok(variables)
}

/// Metadata before any file is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Metadata {
    /// JSON text.
    Json(String),
    /// A file that holds JSON text.
    File(PathBuf),
}

/// JSON text in a flag or variable, any value in the file; `@` and a path in either.
pub(super) fn metadata(given: &Given<'_>) -> Reading<Metadata> {
    match given.value {
        Value::String(text) if text.starts_with('@') => {
            Ok(Metadata::File(given.base.join(text.trim_start_matches('@'))))
        }
        Value::String(text) if given.origin != Origin::File => json_text(text).map(Metadata::Json),
        value => Ok(Metadata::Json(json_value(value)?.to_string())),
    }
}

/// `text` without the space around it, if it is JSON.
pub(super) fn json_text(text: &str) -> Reading<String> {
    match serde_json::from_str::<Box<serde_json::value::RawValue>>(text) {
        Ok(json) => Ok(json.get().to_owned()),
        Err(error) => Err(Complaint::new(
            format!("is not JSON: {error}"),
            "write JSON, such as `{\"labels\": [\"a\", \"b\"]}`, or `@` and the path of a file that holds it",
        )),
    }
}

/// A value of the file as JSON.
pub(super) fn json_value(value: &Value) -> Reading<serde_json::Value> {
    Ok(match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => serde_json::Number::from_f64(*number).map(Into::into).ok_or_else(|| {
            Complaint::new(format!("JSON has no `{number}`"), "write a finite number, or a string")
        })?,
        Value::Boolean(on) => (*on).into(),
        Value::Datetime(time) => time.to_string().into(),
        Value::Array(items) => items.iter().map(json_value).collect::<Reading<Vec<_>>>()?.into(),
        Value::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.clone(), json_value(value)?)))
            .collect::<Reading<serde_json::Map<_, _>>>()?
            .into(),
    })
}

fn within<T: PartialOrd>(
    range: &RangeInclusive<T>,
    number: T,
    typed: &Value,
    show: impl Fn(&T) -> String,
) -> Reading<T> {
    let complain = |what: &str, limit: &T, hint: &str| {
        let limit = show(limit);
        Err(Complaint::new(format!("{} is {what}", quoted(typed)), format!("{hint} is `{limit}`")))
    };
    if number < *range.start() {
        complain("too little", range.start(), "the least")
    } else if number > *range.end() {
        complain("too much", range.end(), "the most")
    } else {
        Ok(number)
    }
}

/// A scalar as the user wrote it, in backticks.
fn quoted(value: &Value) -> String {
    let shown: &dyn Display = match value {
        Value::String(text) => text,
        other => other,
    };
    format!("`{shown}`")
}

fn bytes_as_text(bytes: u64) -> String {
    [("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| bytes >= 1 << shift)
        .map_or_else(|| format!("{bytes}"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}
