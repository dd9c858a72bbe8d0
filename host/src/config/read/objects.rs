//! Readers of where objects are kept, and of the containers that handlers may open.
//!
//! Place in the flow: see [`read`](super).

use super::{path, strings};
use crate::blobs::{Place, S3Place};
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
