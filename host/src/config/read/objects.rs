//! Readers of where objects are kept, and of the containers that handlers may open.
//!
//! Place in the flow: see [`read`](super).

use super::{path, strings};
use crate::blobs::{BucketPlace, Place};
use crate::stores::grants::is_grant;
use crate::values::{Diagnostic, ParseResult, RawValue, text};

/// How to say where the store is.
const STORE_HINT: &str =
    "write the path of a folder, or `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`";

/// Whose credentials a bucket is used with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialSource {
    /// The operator's.
    Keys,
    /// Those that the platform gives to this pod or machine.
    Platform,
}

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
    match BucketPlace::is_one(&typed) {
        true => BucketPlace::parse(&typed).map(Place::Bucket).map_err(|why| Diagnostic::new(why, STORE_HINT)),
        false if typed.contains("://") => Err(Diagnostic::new("is no folder and no bucket", STORE_HINT)),
        false => path(raw).map(Place::Folder),
    }
}

/// The address of a server.
pub(crate) fn server(raw: &RawValue<'_>) -> ParseResult<String> {
    let hint = "write scheme, host and port, such as `https://s3.example.com`";
    BucketPlace::server(&text(raw)?).map_err(|why| Diagnostic::new(why, hint))
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

/// The name of a storage account of Azure.
pub(crate) fn account(raw: &RawValue<'_>) -> ParseResult<String> {
    let account = text(raw)?;
    let is_tame = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match (3..=24).contains(&account.len()) && account.bytes().all(is_tame) {
        true => Ok(account),
        false => {
            let hint = "write 3 to 24 lower-case letters and digits";
            Err(Diagnostic::new(format!("`{account}` is no storage account"), hint))
        }
    }
}
