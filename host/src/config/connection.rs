//! TLS, keys and what a connection may cost: values to what the listeners need.
//!
//! Place in the flow: `config.rs` calls it once for the process, `config/endpoint.rs` for each endpoint's
//! keys.
//! Invariants: a key never stands in a flag, a variable of ours or the file, only where one of them points
//! to; no diagnostic repeats what was written in a key's place; files with secrets are noted in [`Sources`],
//! to be hidden from handlers.

use std::path::PathBuf;

use super::file::Table;
use super::files::{existing_file, missing, unreadable};
use super::read::KeySource;
use super::settings::{self as set, Row, Setting};
use super::sources::Sources;
use crate::file;
use crate::jobs::WebhookSecret;
use crate::keys::Keys;
use crate::server::listen::Limits;
use crate::server::tls::Files;
use crate::values::{Diagnostic, ParseResult};

/// Certificate and key of the main listener.
pub(super) fn tls(sources: &mut Sources<'_>, table: &Table) -> Option<Files> {
    let mut file = |setting: &'static Row<Option<PathBuf>>| {
        let path = sources.get(setting, table);
        existing_file(sources, setting, table, path.as_deref());
        path
    };
    let (certificate, key) = (file(&set::TLS_CERT), file(&set::TLS_KEY));
    sources.secret.extend(key.clone());
    for (here, there) in [(&set::TLS_CERT, &set::TLS_KEY), (&set::TLS_KEY, &set::TLS_CERT)] {
        if let (Some(place), false) = (sources.place(here, table), sources.has(there, table)) {
            let hint = format!("give `{}` too", there.flag);
            sources.report(Some(place), Diagnostic::new("is one half of a pair", hint));
        }
    }
    Some(Files { certificate: certificate?, key: key? })
}

/// Whether the admin listener speaks TLS.
pub(super) fn tls_admin(sources: &mut Sources<'_>, table: &Table) -> bool {
    let wanted = sources.get(&set::TLS_ADMIN, table);
    if wanted && !sources.has(&set::TLS_CERT, table) {
        let diagnostic = Diagnostic::new("needs a certificate", "give `tls-cert` and `tls-key` too");
        sources.report(sources.place(&set::TLS_ADMIN, table), diagnostic);
    }
    wanted
}

/// The limits of one connection.
pub(super) fn limits(sources: &mut Sources<'_>, table: &Table) -> Limits {
    Limits {
        header_size: sources.get(&set::HEADER_SIZE, table),
        headers: sources.get(&set::HEADERS, table),
        header_timeout: sources.get(&set::HEADER_TIMEOUT, table),
        idle_timeout: sources.get(&set::IDLE_TIMEOUT, table),
        max_connections: sources.get(&set::MAX_CONNECTIONS, table),
        http2_streams: sources.get(&set::HTTP2_STREAMS, table),
    }
}

/// The keys that `setting` points to; none if it is not set.
pub(super) fn keys(sources: &mut Sources<'_>, setting: &'static Row<Vec<KeySource>>, table: &Table) -> Keys {
    let name = |source: &KeySource| match source {
        KeySource::File(path) => path.file_name().unwrap_or_default().display().to_string(),
        KeySource::Variable(name) => name.clone(),
    };
    let parse = |text: &str, source: &KeySource| Keys::parse(text, &name(source));
    let found = read_all(sources, setting, table, parse, Keys::is_empty);
    found.iter().fold(Keys::default(), |keys, more| keys.and(more))
}

/// The secrets that sign an endpoint's webhooks.
pub(super) fn webhook_secrets(sources: &mut Sources<'_>, table: &Table) -> Vec<WebhookSecret> {
    let parse = |text: &str, _: &KeySource| WebhookSecret::parse(text);
    read_all(sources, &set::WEBHOOK_SECRET, table, parse, Vec::is_empty).concat()
}

/// The one secret that `setting` points to, without the space around it.
pub(super) fn secret(
    sources: &mut Sources<'_>,
    setting: &'static Row<Vec<KeySource>>,
    table: &Table,
) -> Option<String> {
    let given = sources.get(setting, table);
    let source = given.first()?;
    let found = match text_of(sources, setting, table, source) {
        Ok((text, _)) if given.len() == 1 && !text.trim().is_empty() => return Some(text.trim().to_owned()),
        Ok((_, shown)) if given.len() == 1 => Diagnostic::new(format!("{shown} is empty"), "write it there"),
        Ok(_) => Diagnostic::new("names more than one", "name one file or one variable"),
        Err(diagnostic) => diagnostic,
    };
    sources.report(sources.place(setting, table), found);
    None
}

/// The lines of all sources that `setting` points to, of each as `parse` reads them.
fn read_all<T>(
    sources: &mut Sources<'_>,
    setting: &'static Row<Vec<KeySource>>,
    table: &Table,
    parse: impl Fn(&str, &KeySource) -> Result<T, usize>,
    is_empty: fn(&T) -> bool,
) -> Vec<T> {
    let hint = "write one key a line, at most 1024 visible ASCII characters without spaces";
    let mut found = Vec::new();
    for source in sources.get(setting, table) {
        let lines =
            text_of(sources, setting, table, &source).and_then(|(text, shown)| match parse(&text, &source) {
                Ok(lines) if is_empty(&lines) => Err(Diagnostic::new(format!("{shown} holds no key"), hint)),
                Ok(lines) => Ok(lines),
                Err(line) => Err(Diagnostic::new(format!("line {line} of {shown} is not a key"), hint)),
            });
        match lines {
            Ok(lines) => found.push(lines),
            Err(diagnostic) => sources.report(sources.place(setting, table), diagnostic),
        }
    }
    found
}

/// The text that a source points to, and how it is called. A file of it is secret from then on.
fn text_of(
    sources: &mut Sources<'_>,
    setting: &Setting,
    table: &Table,
    source: &KeySource,
) -> ParseResult<(String, String)> {
    match source {
        KeySource::File(path) => {
            sources.secret.push(path.clone());
            match file::text(path) {
                Ok(text) => Ok((text, format!("`{}`", path.display()))),
                Err(_) if !path.exists() => Err(missing(path, sources.is_in_file(setting, table))),
                Err(error) => Err(unreadable(path, &error)),
            }
        }
        KeySource::Variable(name) => match (sources.env)(name) {
            Some(text) => Ok((text, format!("variable `{name}`"))),
            None => {
                let message = format!("`{name}` is not set in the environment of the host");
                Err(Diagnostic::new(message, "set it to the key"))
            }
        },
    }
}
