//! TLS, keys and what a connection may cost: values to what the listeners need.
//!
//! Place in the flow: `config.rs` calls it once for the process, `config/endpoint.rs` for each endpoint's keys.
//! Invariants: a key never stands in a flag, a variable of ours or the file, only where one of them points to; no complaint
//! repeats what was written in a key's place; files with secrets are noted in [`Sources`], to be hidden from handlers.

use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::endpoint::{self, DAY};
use super::file::Table;
use super::problem::Complaint;
use super::read::{self, Given, Reading};
use super::settings::{self as set, Setting};
use super::{Sources, unreadable};
use crate::file;
use crate::keys::Keys;
use crate::server::listen::Limits;
use crate::server::tls::Files;

const SOURCES_HINT: &str =
    "write `@FILE` for a file with one key a line, or `env:NAME` for a variable; never the key itself";

/// Certificate and key of the main listener.
pub(super) fn tls(sources: &mut Sources<'_>, table: &Table) -> Option<Files> {
    let mut file = |setting| {
        let path = sources.read(setting, table, read::path);
        endpoint::existing_file(sources, setting, table, path.as_deref());
        path
    };
    let (certificate, key) = (file(&set::TLS_CERT), file(&set::TLS_KEY));
    sources.secret.extend(key.clone());
    for (here, there) in [(&set::TLS_CERT, &set::TLS_KEY), (&set::TLS_KEY, &set::TLS_CERT)] {
        if let (Some(place), false) = (sources.place(here, table), sources.has(there, table)) {
            let hint = format!("give `{}` too", there.flag);
            sources.complain(Some(place), Complaint::new("is one half of a pair", hint));
        }
    }
    Some(Files { certificate: certificate?, key: key? })
}

/// Whether the admin listener speaks TLS.
pub(super) fn tls_admin(sources: &mut Sources<'_>, table: &Table) -> bool {
    let wanted = sources.read(&set::TLS_ADMIN, table, read::switch).unwrap_or(false);
    if wanted && !sources.has(&set::TLS_CERT, table) {
        let complaint = Complaint::new("needs a certificate", "give `tls-cert` and `tls-key` too");
        sources.complain(sources.place(&set::TLS_ADMIN, table), complaint);
    }
    wanted
}

/// What one connection may cost.
pub(super) fn connections(sources: &mut Sources<'_>, table: &Table) -> Limits {
    let defaults = Limits::default();
    let timeout = read::duration(Duration::from_millis(100)..=DAY);
    // Less than 8 KiB hyper does not read, more than 1 MiB nobody sends.
    let header_size = sources.read(&set::HEADER_SIZE, table, read::size(8 << 10..=1 << 20));
    let streams = sources.read(&set::HTTP2_STREAMS, table, read::count(1..=10_000));
    Limits {
        header_size: header_size.and_then(|size| size.try_into().ok()).unwrap_or(defaults.header_size),
        headers: sources.read(&set::HEADERS, table, read::count(8..=10_000)).unwrap_or(defaults.headers),
        header_timeout: sources
            .read(&set::HEADER_TIMEOUT, table, &timeout)
            .unwrap_or(defaults.header_timeout),
        idle_timeout: sources.read(&set::IDLE_TIMEOUT, table, &timeout).unwrap_or(defaults.idle_timeout),
        max_connections: sources
            .read(&set::MAX_CONNECTIONS, table, read::count(1..=1_000_000))
            .unwrap_or(defaults.max_connections),
        http2_streams: streams.and_then(|n| n.try_into().ok()).unwrap_or(defaults.http2_streams),
    }
}

/// Where keys are.
#[derive(Debug)]
enum Source {
    File(PathBuf),
    Variable(String),
}

/// The keys that `setting` points to; none if it is not set.
pub(super) fn keys(sources: &mut Sources<'_>, setting: &Setting, table: &Table) -> Keys {
    let mut keys = Keys::default();
    for source in sources.read(setting, table, key_sources).unwrap_or_default() {
        if let Source::File(path) = &source {
            sources.secret.push(path.clone());
        }
        match keys_of(sources, setting, table, &source) {
            Ok(more) => keys = keys.and(&more),
            Err(complaint) => sources.complain(sources.place(setting, table), complaint),
        }
    }
    keys
}

/// One source, or a list of them.
fn key_sources(given: &Given<'_>) -> Reading<Vec<Source>> {
    let one = std::slice::from_ref(given.value);
    let items = given.value.as_array().map_or(one, Vec::as_slice);
    if items.is_empty() {
        return Err(Complaint::new("names no key", "leave it out, and everybody is let in"));
    }
    let source = |item: &Value| {
        let text = item.as_str().unwrap_or_default();
        let file = text.strip_prefix('@').filter(|path| !path.is_empty());
        let variable = text.strip_prefix("env:").filter(|name| !name.is_empty());
        match (file, variable) {
            (Some(path), _) => Ok(Source::File(given.base.join(path))),
            (None, Some(name)) => Ok(Source::Variable(name.to_owned())),
            // Perhaps the key itself: it is not repeated.
            (None, None) => Err(Complaint::new("says where no key is to be found", SOURCES_HINT)),
        }
    };
    items.iter().map(source).collect()
}

fn keys_of(sources: &Sources<'_>, setting: &Setting, table: &Table, source: &Source) -> Reading<Keys> {
    let (text, shown) = match source {
        Source::File(path) => match file::text(path) {
            Ok(text) => (text, format!("`{}`", path.display())),
            Err(_) if !path.exists() => {
                return Err(endpoint::missing(path, sources.is_in_file(setting, table)));
            }
            Err(error) => return Err(unreadable(path, &error)),
        },
        Source::Variable(name) => match (sources.env)(name) {
            Some(text) => (text, format!("variable `{name}`")),
            None => {
                let message = format!("`{name}` is not set in the environment of the host");
                return Err(Complaint::new(message, "set it to the key"));
            }
        },
    };
    let hint = "write one key a line, at most 1024 visible ASCII characters without spaces";
    match Keys::parse(&text) {
        Ok(keys) if keys.is_empty() => Err(Complaint::new(format!("{shown} holds no key"), hint)),
        Ok(keys) => Ok(keys),
        Err(line) => Err(Complaint::new(format!("line {line} of {shown} is not a key"), hint)),
    }
}
