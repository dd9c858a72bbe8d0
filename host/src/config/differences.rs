//! The settings that a configuration sets, by which it is told from another one.
//!
//! Place in the flow: `config.rs` adds them to what it reads, `app` plans by them what another configuration
//! changes, and `modelhost diff-config` shows it. In: the file as it was read. Out: [`Settings`].

use std::path::Path;

use super::file::{File, Table};
use super::files;
use super::problem::{Place, Problems};
use super::settings::Scope;
use super::sources::{Sources, Typed};
use crate::endpoint::config::EndpointConfig;
use crate::server::configuration::{Fingerprint, Plan, Settings};
use crate::values::Env;

/// The settings of a file, whose endpoints have become these.
pub(super) fn settings(file: &File, endpoints: &[EndpointConfig]) -> Settings {
    let of = |(endpoint, table): (&EndpointConfig, &Table)| (endpoint.name.clone(), fingerprint(table));
    Settings {
        file: file.place().map(|_| file.path.clone()),
        digest: file.digest.clone(),
        process: fingerprint(&file.process),
        endpoints: endpoints.iter().zip(&file.endpoints).map(of).collect(),
    }
}

fn fingerprint(table: &Table) -> Fingerprint {
    let short = |(key, text): (String, String)| match key.strip_prefix("endpoint.") {
        Some(short) => (short.to_owned(), text),
        None => (key, text),
    };
    Fingerprint::of(table.texts().into_iter().map(short))
}

/// The plan that leads from one config file to another. Of files that they name nothing is read.
///
/// # Errors
/// Everything that is wrong with the form of the files: syntax, and keys that there are not.
pub fn differences(before: &Path, after: &Path, env: Env<'_>) -> Result<Plan, Problems> {
    let mut problems = Vec::new();
    let mut read = |path: &Path| {
        let place = Place::outside(path.display().to_string());
        let (file, found) = files::open(&place, path, None);
        problems.extend(found);
        let mut sources = Sources { scope: Scope::Serve, ..Sources::new(Typed::new(), env) };
        // Only their names count here; whether a file is there is for the server to say.
        let endpoints: Vec<EndpointConfig> =
            file.endpoints.iter().map(|table| super::endpoint::endpoint(&mut sources, table)).collect();
        let splits: Vec<_> = file.splits.iter().map(Table::texts).collect();
        (settings(&file, &endpoints), splits)
    };
    let ((before, splits_before), (after, splits)) = (read(before), read(after));
    if !problems.is_empty() {
        return Err(Problems::new(problems));
    }
    Ok(Plan { splits: splits != splits_before, ..Plan::between(&before, &after) })
}
