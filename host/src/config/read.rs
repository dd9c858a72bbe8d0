//! Readers of what only the configuration has: paths, names, addresses, grants, keys.
//!
//! Place in the flow: a row of `config/settings/` names its reader, `config.rs` finds the value and
//! its place. The readers of single values are in [`values`](crate::values).
//! Invariant: readers look at the value only; whether a file exists is for `config/files.rs` to see.

pub(super) mod objects;
pub(super) mod sequences;
pub(super) mod stores;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use toml::Value;

use crate::json::path::Pattern;
use crate::model::Device;
use crate::outbound::{Rule, Rules};
use crate::plugin::headers::{self, Owner};
use crate::program::is_the_servers;
use crate::request::dependencies::Dependency;
use crate::request::{ID_HEADERS, Protocol};
use crate::telemetry::logs;
use crate::text::{is_token, similar};
use crate::values::{Diagnostic, Origin, ParseResult, RawValue, Reader, text};

/// The characters of a name.
pub(super) const NAME_HINT: &str =
    "write at most 64 letters, digits, `-`, `_` and `.`, and begin with a letter or a digit";
/// How to say where a key is.
const SOURCES_HINT: &str =
    "write `@FILE` for a file with one key a line, or `env:NAME` for a variable; never the key itself";

/// Reads with `reader` a setting that need not be set.
pub(crate) fn some<T>(reader: impl Reader<T>) -> impl Reader<Option<T>> {
    move |raw: &RawValue<'_>| reader.read(raw).map(Some)
}

/// A list of strings, each read by `read`.
pub(super) fn strings<T>(
    raw: &RawValue<'_>,
    hint: &'static str,
    read: impl Fn(&str) -> ParseResult<T>,
) -> ParseResult<Vec<T>> {
    let item = |item: &Value| match item.as_str() {
        Some(text) => read(text),
        None => Err(Diagnostic::new("holds something that is not a string", hint)),
    };
    raw.items().iter().map(item).collect()
}

/// A path, joined to the folder it is relative to.
pub(crate) fn path(raw: &RawValue<'_>) -> ParseResult<PathBuf> {
    match text(raw)? {
        path if path.is_empty() => Err(Diagnostic::new("is empty", "write a path, or leave it out")),
        path => Ok(raw.base.join(path)),
    }
}

/// The name of an endpoint.
pub(crate) fn name(raw: &RawValue<'_>) -> ParseResult<String> {
    let name = text(raw)?;
    if name == tame(&name) {
        return Ok(name);
    }
    Err(Diagnostic::new(format!("`{name}` is not a name"), NAME_HINT))
}

/// `text` as a name: in metrics, logs and URLs without any escape.
pub(super) fn tame(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String =
        text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().map(allowed).take(64).collect();
    if name.is_empty() { "endpoint".to_owned() } else { name }
}

/// The path of an endpoint in URLs.
pub(crate) fn url_path(raw: &RawValue<'_>) -> ParseResult<String> {
    let path = text(raw)?;
    let Some(rest) = path.strip_prefix('/') else {
        let hint = format!("did you mean `/{path}`?");
        return Err(Diagnostic::new(format!("`{path}` does not start with `/`"), hint));
    };
    if let Some(diagnostic) = reserved(&path) {
        return Err(diagnostic);
    }
    if is_path(rest) {
        return Ok(path);
    }
    Err(Diagnostic::new(
        format!("`{path}` is not a path"),
        "between single `/`, write letters, digits and `-`, `_`, `.`, `~`, `:`, `@`; end without `/`",
    ))
}

/// Whether text is a path without its first `/`.
fn is_path(rest: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:@".contains(&byte);
    let is_segment = |text: &str| !["", ".", ".."].contains(&text) && text.bytes().all(allowed);
    rest.is_empty() || rest.split('/').all(is_segment)
}

/// A path of an application, below its endpoint's.
pub(crate) fn own_path(raw: &RawValue<'_>) -> ParseResult<String> {
    let path = text(raw)?;
    match path.strip_prefix('/') {
        Some(rest) if is_path(rest) => Ok(path),
        _ => Err(Diagnostic::new(format!("`{path}` is not a path"), "write one such as `/health`")),
    }
}

/// A place in a JSON document: a key, or a JSON Pointer (RFC 6901).
pub(crate) fn key_path(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let typed = text(raw)?;
    match typed.strip_prefix('/') {
        Some(steps) => Ok(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()),
        None if typed.is_empty() => {
            Err(Diagnostic::new("is empty", "leave it out if the response is the prediction"))
        }
        None => Ok(vec![typed]),
    }
}

/// A list of paths, the server's own among them but for those that operators and proxies need, and what these
/// are below: an application gets everything below its path.
pub(crate) fn server_paths(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    const KEPT: [&str; 6] = ["metrics", "healthz", "livez", "readyz", "ping", "admin"];
    let hint = "write paths such as `/v1/chat/completions`";
    let path = |text: &str| {
        let rest = text.strip_prefix('/').filter(|rest| is_path(rest) && !rest.is_empty());
        let rest = rest.ok_or_else(|| Diagnostic::new(format!("`{text}` is not a path"), hint))?;
        let first = rest.split('/').next().unwrap_or_default();
        if KEPT.contains(&first) || rest == "v2" || rest.starts_with("v2/health") {
            return Err(Diagnostic::new(format!("`{text}` stays the server's"), "leave it out"));
        }
        Ok(text.to_owned())
    };
    let paths = strings(raw, hint, path)?;
    let mut seen = HashSet::new();
    match paths.iter().find(|path| !seen.insert(*path)) {
        Some(twice) => Err(Diagnostic::new(format!("`{twice}` is listed twice"), "leave one out")),
        None => Ok(paths),
    }
}

/// Whether the server itself answers at `path` or below it.
pub(super) fn reserved(path: &str) -> Option<Diagnostic> {
    let first = path.split('/').nth(1).unwrap_or_default();
    is_the_servers(first).then(|| {
        Diagnostic::new(
            format!("`/{first}` is the server's own"),
            format!("choose another path, such as `/models{path}`"),
        )
    })
}

/// Where a model runs.
pub(crate) fn device(raw: &RawValue<'_>) -> ParseResult<Device> {
    let typed = text(raw)?;
    let number = |text: &str| text.parse().map(Device::Cuda).ok();
    let device = match typed.as_str() {
        "auto" => Some(Device::Auto),
        "cpu" => Some(Device::Cpu),
        "cuda" => Some(Device::Cuda(0)),
        text => text.strip_prefix("cuda:").and_then(number),
    };
    device.ok_or_else(|| {
        Diagnostic::new(format!("`{typed}` is not a device"), "write `auto`, `cpu`, `cuda` or `cuda:N`")
    })
}

/// A list of paths in JSON documents and of names.
pub(crate) fn patterns(raw: &RawValue<'_>) -> ParseResult<Vec<Pattern>> {
    let hint = "write paths that begin with `/`, such as `/predictions/*/took`, or names of headers";
    let pattern = |text: &str| Pattern::parse(text).map_err(|message| Diagnostic::new(message, hint));
    strings(raw, hint, pattern)
}

/// A list of places that a handler may reach.
pub(crate) fn outbound(raw: &RawValue<'_>) -> ParseResult<Rules> {
    let hint = "write scheme, host and port, such as `https://hooks.example.com`, or a network, `10.0.0.0/8`";
    let rule = |text: &str| Rule::parse(text).map_err(|why| Diagnostic::new(format!("`{text}` {why}"), hint));
    strings(raw, hint, rule).map(Rules)
}

/// A list of media types, in lower case; `image/*` is a range.
pub(crate) fn media_types(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write types such as `image/jpeg` or `image/*`, without parameters";
    let media_type = |text: &str| {
        let media_type = text.to_ascii_lowercase();
        let is_type = media_type.split_once('/').is_some_and(|(kind, own)| {
            is_token(kind) && kind != "*" && is_token(own) && (own == "*" || !own.contains('*'))
        });
        is_type
            .then_some(media_type)
            .ok_or_else(|| Diagnostic::new(format!("`{text}` is no media type"), hint))
    };
    strings(raw, hint, media_type)
}

/// A list of response headers that need a grant, in lower case.
pub(crate) fn response_headers(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write names such as `set-cookie` or `content-encoding`; docs/reference.md lists them";
    let header = |text: &str| {
        let name = text.to_ascii_lowercase();
        match headers::owner(&name) {
            Owner::Operator if is_token(&name) => Ok(name),
            Owner::Connection | Owner::Server => Err(Diagnostic::new(
                format!("`{text}` is the server's, and cannot be granted"),
                "leave it out",
            )),
            Owner::Operator | Owner::Handler => {
                let hint = match similar(&name, headers::operators()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("leave it out if it is right; {hint}"),
                };
                Err(Diagnostic::new(format!("`{text}` is no header that needs a grant"), hint))
            }
        }
    };
    strings(raw, hint, header)
}

/// A list of headers of requests, in lower case.
pub(crate) fn request_headers(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write names such as `accept-language`";
    let header = |text: &str| {
        let name = text.to_ascii_lowercase();
        match name.as_str() {
            name if ID_HEADERS.contains(&name) => Err(Diagnostic::new(
                format!("`{text}` is another for each request"),
                "leave it out: no two requests would be equal",
            )),
            _ if is_token(&name) => Ok(name),
            _ => Err(Diagnostic::new(format!("`{text}` is no name of a header"), hint)),
        }
    };
    strings(raw, hint, header)
}

/// A list of what an answer may depend on.
pub(crate) fn dependencies(raw: &RawValue<'_>) -> ParseResult<Vec<Dependency>> {
    let words = || Dependency::ALLOWABLE.into_iter().map(|(word, _)| word);
    let hint = "write some of `clock`, `random`, `request_id`, `kv` and `outbound`";
    let dependency = |text: &str| {
        let found = Dependency::ALLOWABLE.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, dependency)| dependency).ok_or_else(|| {
            let hint = match similar(text, words()) {
                _ if text == "header" || text == "headers" => {
                    "name the headers in `response_cache.headers`: they become part of the key".to_owned()
                }
                Some(word) => format!("did you mean `{word}`?"),
                None => hint.to_owned(),
            };
            Diagnostic::new(format!("`{text}` is nothing that can be allowed"), hint)
        })
    };
    strings(raw, hint, dependency)
}

/// Names of hosts, without ports; in lower case.
pub(crate) fn host_names(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write a name without a port, such as `models.internal`";
    let items = raw.items();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name = |item: &Value| match item.as_str() {
        Some(name) if !name.is_empty() && name.chars().all(is_name) => Ok(name.to_ascii_lowercase()),
        _ => Err(Diagnostic::new(format!("`{item}` is no name of a host"), hint)),
    };
    items.iter().map(name).collect()
}

/// Names of protocols, one at least.
pub(crate) fn protocols(raw: &RawValue<'_>) -> ParseResult<Vec<Protocol>> {
    let hint = "write some of `http`, `v1`, `v2` and `grpc`";
    let items = raw.items();
    let protocol = |item: &Value| {
        let name = item.as_str().unwrap_or_default();
        let known = Protocol::ALL.into_iter().find(|(known, _)| *known == name);
        known
            .map(|(_, protocol)| protocol)
            .ok_or_else(|| Diagnostic::new(format!("`{item}` is no protocol"), hint))
    };
    match items {
        [] => Err(Diagnostic::new("is empty, so that no client could reach the endpoint", hint)),
        items => items.iter().map(protocol).collect(),
    }
}

/// An IP address and a port.
pub(crate) fn address(raw: &RawValue<'_>) -> ParseResult<SocketAddr> {
    let typed = text(raw)?;
    typed.parse().map_err(|_| {
        let hint = match typed.rsplit_once(':').map_or((None, typed.as_str()), |(ip, port)| (Some(ip), port))
        {
            (None | Some("" | "localhost"), port) if port.parse::<u16>().is_ok() => {
                format!("did you mean `127.0.0.1:{port}`? `0.0.0.0:{port}` listens on every interface")
            }
            _ => "write an IP address and a port, such as `127.0.0.1:8000` or `[::1]:8000`".to_owned(),
        };
        Diagnostic::new(format!("`{typed}` is not an address"), hint)
    })
}

/// An origin as in a browser's `origin` header, `*`, or `none`.
pub(crate) fn origin(raw: &RawValue<'_>) -> ParseResult<Option<String>> {
    let typed = text(raw)?;
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
        text => Err(Diagnostic::new(
            format!("`{text}` is not an origin"),
            "write one origin without a path, such as `https://example.com`, or `*`, or `none`",
        )),
    }
}

/// The value of a granted variable.
#[derive(Debug, Clone)]
pub enum Granted {
    /// Here it is.
    Value(String),
    /// A file holds it.
    File(PathBuf),
}

/// `NAME` and `NAME=value` in a list, or a table of values and of files with one each; the environment
/// answers for names without a value.
pub(crate) fn variables(raw: &RawValue<'_>) -> ParseResult<Vec<(String, Granted)>> {
    let hint = "write a list, such as `[\"NAME\", \"NAME=value\"]`, or a table of strings";
    let mut variables: Vec<(String, Granted)> = Vec::new();
    let mut number = 0;
    let mut add = |name: &str, value: Option<Granted>| -> ParseResult<()> {
        number += 1;
        // A value with a comma in it comes here in pieces, so that what looks like a name may be a secret.
        let (shown, meant) = match raw.origin {
            Origin::Variable => (format!("item {number}"), "NAME"),
            Origin::Flag | Origin::File => (format!("`{name}`"), name),
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Diagnostic::new(
                format!("{shown} is not a variable's name"),
                "write `NAME` or `NAME=value`",
            ));
        }
        if variables.iter().any(|(other, _)| other == name) {
            return Err(Diagnostic::new(format!("{shown} is granted twice"), "remove one of them"));
        }
        let value = value.or_else(|| (raw.env)(name).map(Granted::Value)).ok_or_else(|| {
            Diagnostic::new(
                format!("{shown} is not set in the environment of the host"),
                format!("set it, or write `{meant}=value`"),
            )
        })?;
        variables.push((name.to_owned(), value));
        Ok(())
    };
    match &*raw.value {
        Value::Array(items) => {
            for item in items {
                match item.as_str().map(|text| text.split_once('=').ok_or(text)) {
                    Some(Ok((name, value))) => add(name, Some(Granted::Value(value.to_owned())))?,
                    Some(Err(name)) => add(name, None)?,
                    None => return Err(Diagnostic::new("holds something that is not a string", hint)),
                }
            }
        }
        Value::Table(table) => {
            for (name, value) in table {
                let value = granted(raw, value).ok_or_else(|| {
                    Diagnostic::new(
                        format!("the value of `{name}` is neither a string nor a file"),
                        "put it in double quotes, or write `{ file = \"PATH\" }`",
                    )
                })?;
                add(name, Some(value))?;
            }
        }
        _ => return Err(raw.mistyped("a list or a table", hint)),
    }
    Ok(variables)
}

/// A string, or `{ file = "PATH" }`.
fn granted(raw: &RawValue<'_>, value: &Value) -> Option<Granted> {
    if let Some(text) = value.as_str() {
        return Some(Granted::Value(text.to_owned()));
    }
    let table = value.as_table().filter(|table| table.len() == 1)?;
    let path = table.get("file")?.as_str().filter(|path| !path.is_empty())?;
    Some(Granted::File(raw.base.join(path)))
}

/// The filter of the log.
pub(crate) fn log_filter(raw: &RawValue<'_>) -> ParseResult<String> {
    let filter = text(raw)?;
    match logs::check(&filter) {
        Ok(()) => Ok(filter),
        Err(error) => Err(Diagnostic::new(
            error.to_string(),
            "write `off`, `error`, `warn`, `info`, `debug` or `trace`, also per module, as in \
             `info,host::rollout=debug`",
        )),
    }
}

/// Where keys are.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A file with one a line.
    File(PathBuf),
    /// A variable of the environment.
    Variable(String),
}

/// One source, or a list of them.
pub(crate) fn key_sources(raw: &RawValue<'_>) -> ParseResult<Vec<KeySource>> {
    let items = raw.items();
    if items.is_empty() {
        return Err(Diagnostic::new("names nothing", "leave it out if there is none"));
    }
    let source = |item: &Value| {
        let text = item.as_str().unwrap_or_default();
        let file = text.strip_prefix('@').filter(|path| !path.is_empty());
        let variable = text.strip_prefix("env:").filter(|name| !name.is_empty());
        match (file, variable) {
            (Some(path), _) => Ok(KeySource::File(raw.base.join(path))),
            (None, Some(name)) => Ok(KeySource::Variable(name.to_owned())),
            // Perhaps the key itself: it is not repeated.
            (None, None) => Err(Diagnostic::new("names no source of a key", SOURCES_HINT)),
        }
    };
    items.iter().map(source).collect()
}

/// Metadata before any file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metadata {
    /// JSON text.
    Json(String),
    /// A file that holds JSON text.
    File(PathBuf),
}

/// JSON text in a flag or variable, any value in the file; `@` and a path in either.
pub(crate) fn metadata(raw: &RawValue<'_>) -> ParseResult<Metadata> {
    match &*raw.value {
        Value::String(text) if text.starts_with('@') => {
            Ok(Metadata::File(raw.base.join(text.trim_start_matches('@'))))
        }
        Value::String(text) if raw.origin != Origin::File => json_text(text).map(Metadata::Json),
        value => Ok(Metadata::Json(json_value(value)?.to_string())),
    }
}

/// `text` without the space around it, if it is JSON.
pub(crate) fn json_text(text: &str) -> ParseResult<String> {
    match serde_json::from_str::<Box<serde_json::value::RawValue>>(text) {
        Ok(json) => Ok(json.get().to_owned()),
        Err(error) => Err(Diagnostic::new(
            format!("is not JSON: {error}"),
            "write JSON, such as `{\"labels\": [\"a\", \"b\"]}`, or `@` and the path of a file that holds it",
        )),
    }
}

/// A value of the file as JSON.
pub(crate) fn json_value(value: &Value) -> ParseResult<serde_json::Value> {
    Ok(match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => serde_json::Number::from_f64(*number).map(Into::into).ok_or_else(|| {
            Diagnostic::new(format!("JSON has no `{number}`"), "write a finite number, or a string")
        })?,
        Value::Boolean(on) => (*on).into(),
        Value::Datetime(time) => time.to_string().into(),
        Value::Array(items) => items.iter().map(json_value).collect::<ParseResult<Vec<_>>>()?.into(),
        Value::Table(table) => table
            .iter()
            .map(|(name, value)| Ok((name.clone(), json_value(value)?)))
            .collect::<ParseResult<serde_json::Map<_, _>>>()?
            .into(),
    })
}
