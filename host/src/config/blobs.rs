//! Where objects are kept, and which containers handlers may open: readers, and what has to fit together.
//!
//! Place in the flow: rows of `config/settings/objects.rs` name its readers; `config.rs` calls [`place`]
//! once for the process. In: values of the configuration. Out: a [`Place`], or diagnostics.
//! Invariant: no diagnostic repeats a secret; the files of secrets are noted before endpoints are read.

use super::file::{File, Table};
use super::read::{KeySource, path, strings};
use super::settings::{self as set, Row, Scope, Setting};
use super::{Sources, connection};
use crate::blobs::{CredentialFiles, Credentials, Place, S3Place};
use crate::endpoint::config::EndpointConfig;
use crate::stores::grants::is_grant;
use crate::values::{Diagnostic, ParseResult, RawValue, text};

/// How to say where the store is.
const STORE_HINT: &str = "write the path of a folder, or `s3://BUCKET/PREFIX`";

/// A list of containers that a handler may open.
pub(crate) fn containers(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write names such as `default` or `shared/images`, or `*` for all of the endpoint's own";
    let container = |text: &str| match is_grant(text) {
        true => Ok(text.to_owned()),
        false => Err(Diagnostic::new(format!("`{text}` is not a container's name"), hint)),
    };
    strings(raw, hint, container)
}

/// Where the store is.
pub(crate) fn store(raw: &RawValue<'_>) -> ParseResult<Place> {
    let typed = text(raw)?;
    match S3Place::is_one(&typed) {
        true => S3Place::parse(&typed).map(Place::S3).map_err(|why| Diagnostic::new(why, STORE_HINT)),
        false if typed.contains("://") => {
            Err(Diagnostic::new("is no folder and no bucket of S3", STORE_HINT))
        }
        false => path(raw).map(Place::Folder),
    }
}

/// The address of a server.
pub(crate) fn server(raw: &RawValue<'_>) -> ParseResult<String> {
    let hint = "write scheme, host and port, such as `https://s3.example.com`";
    S3Place::server(&text(raw)?).map_err(|why| Diagnostic::new(why, hint))
}

/// The name of a region.
pub(crate) fn region(raw: &RawValue<'_>) -> ParseResult<String> {
    let region = text(raw)?;
    let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !region.is_empty() && region.len() <= 64 && region.bytes().all(is_tame) {
        true => Ok(region),
        false => {
            let hint = "write the region's name, such as `eu-north-1`";
            Err(Diagnostic::new(format!("`{region}` is no region"), hint))
        }
    }
}

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
    for endpoint in endpoints.iter().filter(|endpoint| !endpoint.blobs.is_empty()) {
        let message = format!("endpoint `{}` has containers, and there is no store for them", endpoint.name);
        let hint = "give `--blobs-store DIR`, or `[blobs]` with `store = \"DIR\"`";
        sources.report(file.place(), Diagnostic::new(message, hint));
    }
}
