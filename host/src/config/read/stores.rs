//! Readers of where values and jobs are kept, and of the buckets that handlers may open.
//!
//! Place in the flow: see [`read`](super).
//! Invariant: no diagnostic repeats an address of a Redis, which may hold a password.

use super::{path, strings};
use crate::stores::grants::is_grant;
use crate::stores::{Place, RedisPlace};
use crate::values::{Diagnostic, ParseResult, RawValue, text};

/// How to say where a store is.
const STORE_HINT: &str = "write a path, or `redis://USER@HOST:PORT/0`, and `rediss://` for TLS";

/// A list of buckets that a handler may open.
pub(crate) fn kv_buckets(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write names such as `default` or `shared/sessions`, or `*` for all of the endpoint's own";
    let why = "is not a bucket's name: letters, digits, `-`, `_`, `.` and `:`, 1 to 128 of them";
    let bucket = |text: &str| match is_grant(text) {
        true => Ok(text.to_owned()),
        false => Err(Diagnostic::new(format!("`{text}` {why}"), hint)),
    };
    strings(raw, hint, bucket)
}

/// Where a store is. An address may hold a password: it is not repeated.
pub(crate) fn store(raw: &RawValue<'_>) -> ParseResult<Place> {
    let typed = text(raw)?;
    if !RedisPlace::is_one(&typed) {
        return match typed.contains("://") {
            true => Err(Diagnostic::new("is no file and no address of a Redis", STORE_HINT)),
            false => path(raw).map(Place::File),
        };
    }
    RedisPlace::parse(&typed).map(Place::Redis).map_err(|why| Diagnostic::new(why, STORE_HINT))
}

/// The first part of the names of keys.
pub(crate) fn store_prefix(raw: &RawValue<'_>) -> ParseResult<String> {
    let prefix = text(raw)?;
    let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(is_tame) {
        let hint = "write at most 64 letters, digits, `-`, `_`, `.` and `:`";
        return Err(Diagnostic::new(format!("`{prefix}` is no name"), hint));
    }
    Ok(prefix)
}
