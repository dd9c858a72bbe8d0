//! Where objects are kept: what has to fit together.
//!
//! Place in the flow: `config.rs` calls [`place`] once for the process.
//! In: values of the configuration, each accepted by its reader. Out: a [`Place`], or diagnostics.
//! Invariant: no diagnostic repeats a secret; the files of secrets are noted before endpoints are read.

use super::connection;
use super::file::{File, Table};
use super::read::KeySource;
use super::settings::{self as set, Row, Scope, Setting};
use super::sources::Sources;
use crate::blobs::{CredentialFiles, Credentials, Place};
use crate::endpoint::config::EndpointConfig;
use crate::values::Diagnostic;

/// Where handlers keep objects. Before the endpoints are read: the files of secrets are hidden from them.
pub(super) fn place(sources: &mut Sources<'_>, table: &Table) -> Option<Place> {
    let place = sources.get(&set::BLOBS_STORE, table);
    let of_s3: [&Setting; 7] = [
        &set::BLOBS_SERVER,
        &set::BLOBS_REGION,
        &set::BLOBS_ADDRESSING,
        &set::BLOBS_ACCESS_KEY,
        &set::BLOBS_SECRET_KEY,
        &set::BLOBS_SESSION_TOKEN,
        &set::BLOBS_TIMEOUT,
    ];
    let Some(Place::S3(mut s3)) = place else {
        for setting in of_s3 {
            if let Some(given) = sources.place(setting, table) {
                let hint =
                    "give `blobs.store` the address of a bucket, `s3://BUCKET/PREFIX`, or leave it out";
                sources.report(Some(given), Diagnostic::new("is of S3, and there is none", hint));
            }
        }
        if let Some(Place::Folder(folder)) = &place {
            // Who sees the folder sees the objects of all.
            sources.secret.push(folder.clone());
        }
        return place;
    };
    s3.server = sources.get(&set::BLOBS_SERVER, table);
    s3.region = sources.get(&set::BLOBS_REGION, table);
    s3.addressing = sources.get(&set::BLOBS_ADDRESSING, table);
    s3.timeout = sources.get(&set::BLOBS_TIMEOUT, table);
    for setting in [&set::BLOBS_ACCESS_KEY, &set::BLOBS_SECRET_KEY] {
        if !sources.has(setting, table) {
            let hint = format!("give `{}` too: a file, `@FILE`, or a variable, `env:NAME`", setting.key);
            let diagnostic = Diagnostic::new("is a bucket of S3, and there is no key for it", hint);
            sources.report(sources.place(&set::BLOBS_STORE, table), diagnostic);
        }
    }
    let access_key = connection::secret(sources, &set::BLOBS_ACCESS_KEY, table);
    let secret_key = connection::secret(sources, &set::BLOBS_SECRET_KEY, table);
    let session_token = connection::secret(sources, &set::BLOBS_SESSION_TOKEN, table);
    s3.credentials = access_key.zip(secret_key).map(|(access_key, secret_key)| Credentials {
        access_key,
        secret_key,
        session_token,
    });
    let mut file = |setting: &'static Row<Vec<KeySource>>| match sources.get(setting, table).pop() {
        Some(KeySource::File(path)) => Some(path),
        _ => None,
    };
    s3.credential_files = CredentialFiles {
        access_key: file(&set::BLOBS_ACCESS_KEY),
        secret_key: file(&set::BLOBS_SECRET_KEY),
        session_token: file(&set::BLOBS_SESSION_TOKEN),
    };
    Some(Place::S3(s3))
}

/// Endpoints that may keep objects need a place, but for a run that keeps none.
pub(super) fn check(
    sources: &mut Sources<'_>,
    file: &File,
    place: Option<&Place>,
    endpoints: &[EndpointConfig],
    scope: Scope,
) {
    if place.is_some() || scope == Scope::Run {
        return;
    }
    for endpoint in endpoints.iter().filter(|endpoint| !endpoint.capabilities.blobs.containers.is_empty()) {
        let message = format!("endpoint `{}` has containers, and there is no store for them", endpoint.name);
        let hint = "give `--blobs-store DIR`, or `[blobs]` with `store = \"DIR\"`";
        sources.report(file.place(), Diagnostic::new(message, hint));
    }
}
