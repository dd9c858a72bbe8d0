//! Where objects are kept: what has to fit together.
//!
//! Place in the flow: `config.rs` calls [`place`] once for the process.
//! In: values of the configuration, each accepted by its reader. Out: a [`Place`], or diagnostics.
//! Invariant: no diagnostic repeats a secret; the files of secrets are noted before endpoints are read.

use super::connection;
use super::file::{File, Table};
use super::read::KeySource;
use super::read::objects::CredentialSource;
use super::settings::{self as set, Row, Scope, Setting};
use super::sources::Sources;
use crate::blobs::{BucketPlace, Cloud, CredentialFiles, Credentials, Place};
use crate::endpoint::config::EndpointConfig;
use crate::values::Diagnostic;

/// The clouds that a setting says something of.
const OF_ALL: &[Cloud] = &[Cloud::S3, Cloud::Gcs, Cloud::Azure];
const OF_S3: &[Cloud] = &[Cloud::S3];
const OF_AZURE: &[Cloud] = &[Cloud::Azure];

/// Where handlers keep objects. Before the endpoints are read: the files of secrets are hidden from them.
pub(super) fn place(sources: &mut Sources<'_>, table: &Table) -> Option<Place> {
    let place = sources.get(&set::BLOBS_STORE, table);
    let cloud = match &place {
        Some(Place::Bucket(bucket)) => Some(bucket.cloud),
        _ => None,
    };
    let of_clouds: [(&Setting, &[Cloud]); 9] = [
        (&set::BLOBS_SERVER, OF_ALL),
        (&set::BLOBS_REGION, OF_S3),
        (&set::BLOBS_ADDRESSING, &[Cloud::S3, Cloud::Azure]),
        (&set::BLOBS_ACCOUNT, OF_AZURE),
        (&set::BLOBS_CREDENTIALS, OF_ALL),
        (&set::BLOBS_ACCESS_KEY, OF_S3),
        (&set::BLOBS_SECRET_KEY, OF_ALL),
        (&set::BLOBS_SESSION_TOKEN, OF_S3),
        (&set::BLOBS_TIMEOUT, OF_ALL),
    ];
    for (setting, clouds) in of_clouds {
        if !cloud.is_some_and(|cloud| clouds.contains(&cloud))
            && let Some(given) = sources.place(setting, table)
        {
            sources.report(Some(given), of_another(clouds, cloud));
        }
    }
    let Some(Place::Bucket(mut bucket)) = place else {
        if let Some(Place::Folder(folder)) = &place {
            // Who sees the folder sees the objects of all.
            sources.secret.push(folder.clone());
        }
        return place;
    };
    bucket.server = sources.get(&set::BLOBS_SERVER, table);
    bucket.region = sources.get(&set::BLOBS_REGION, table);
    bucket.addressing = sources.get(&set::BLOBS_ADDRESSING, table);
    bucket.timeout = sources.get(&set::BLOBS_TIMEOUT, table);
    match sources.get(&set::BLOBS_ACCOUNT, table) {
        Some(account) => bucket.account = account,
        None if bucket.cloud == Cloud::Azure => {
            let diagnostic = Diagnostic::new(
                "is a container of Azure, and there is no account for it",
                "give `blobs.account` too: the name of the storage account",
            );
            sources.report(sources.place(&set::BLOBS_STORE, table), diagnostic);
        }
        None => {}
    }
    match sources.get(&set::BLOBS_CREDENTIALS, table) {
        CredentialSource::Keys => keys(sources, table, &mut bucket),
        CredentialSource::Platform => {
            for setting in [&set::BLOBS_ACCESS_KEY, &set::BLOBS_SECRET_KEY, &set::BLOBS_SESSION_TOKEN] {
                if let Some(given) = sources.place(setting, table) {
                    let diagnostic = Diagnostic::new(
                        "is not used, since `blobs.credentials` is `platform`",
                        "leave one of them out",
                    );
                    sources.report(Some(given), diagnostic);
                }
            }
        }
    }
    Some(Place::Bucket(bucket))
}

/// A setting of these clouds alone is given, and the store is of another one or a folder.
fn of_another(clouds: &[Cloud], cloud: Option<Cloud>) -> Diagnostic {
    let named = match clouds.len() {
        3 => "a bucket".to_owned(),
        _ => clouds.iter().map(|cloud| cloud.name()).collect::<Vec<_>>().join(" and "),
    };
    match cloud {
        Some(cloud) => {
            let message = format!("is of {named}, and the store is of {}", cloud.name());
            Diagnostic::new(message, "leave it out")
        }
        None => {
            let hint = "give `blobs.store` the address of a bucket, `s3://BUCKET/PREFIX`, or leave it out";
            Diagnostic::new(format!("is of {named}, and there is none"), hint)
        }
    }
}

/// The operator's keys for a bucket.
fn keys(sources: &mut Sources<'_>, table: &Table, bucket: &mut BucketPlace) {
    let of_s3 = bucket.cloud == Cloud::S3;
    let needed = of_s3.then_some(&set::BLOBS_ACCESS_KEY).into_iter().chain([&set::BLOBS_SECRET_KEY]);
    for setting in needed {
        if !sources.has(setting, table) {
            let hint = format!(
                "give `{}` too: a file, `@FILE`, or a variable, `env:NAME`; or \
                 `blobs.credentials = \"platform\"`",
                setting.key
            );
            let message = format!("is a bucket of {}, and there is no key for it", bucket.cloud.name());
            sources.report(sources.place(&set::BLOBS_STORE, table), Diagnostic::new(message, hint));
        }
    }
    let access_key = connection::secret(sources, &set::BLOBS_ACCESS_KEY, table);
    let secret_key = connection::secret(sources, &set::BLOBS_SECRET_KEY, table);
    let session_token = connection::secret(sources, &set::BLOBS_SESSION_TOKEN, table);
    let access_key = if of_s3 { access_key } else { Some(String::new()) };
    bucket.credentials = access_key.zip(secret_key).map(|(access_key, secret_key)| Credentials {
        access_key,
        secret_key,
        session_token,
    });
    let mut file = |setting: &'static Row<Vec<KeySource>>| match sources.get(setting, table).pop() {
        Some(KeySource::File(path)) => Some(path),
        _ => None,
    };
    bucket.credential_files = CredentialFiles {
        access_key: file(&set::BLOBS_ACCESS_KEY),
        secret_key: file(&set::BLOBS_SECRET_KEY),
        session_token: file(&set::BLOBS_SESSION_TOKEN),
    };
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
