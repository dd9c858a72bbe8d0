//! Where handlers keep values, and which buckets they may open: readers, and what has to fit together.
//!
//! Place in the flow: rows of `config/settings/rows.rs` name its readers; `config.rs` calls [`place()`] once
//! for the process. In: values of the configuration. Out: a [`Place`], or diagnostics.
//! Invariant: no diagnostic repeats an address of a Redis, which may hold a password.

use super::file::File;
use super::read::{path, strings};
use super::settings::{self as set, Scope, Setting};
use super::{Sources, connection};
use crate::endpoint::config::EndpointConfig;
use crate::kv::{self, Place, RedisPlace};
use crate::values::{Diagnostic, ParseResult, RawValue, text};

/// How to say where values are kept.
const STORE_HINT: &str = "write a path, or `redis://USER@HOST:PORT/0`, and `rediss://` for TLS";

/// A list of buckets that a handler may open.
pub(crate) fn kv_buckets(raw: &RawValue<'_>) -> ParseResult<Vec<String>> {
    let hint = "write names such as `default` or `shared/sessions`, or `*` for all of the endpoint's own";
    let bucket = |text: &str| match kv::grant_error(text) {
        None => Ok(text.to_owned()),
        Some(why) => Err(Diagnostic::new(format!("`{text}` {why}"), hint)),
    };
    strings(raw, hint, bucket)
}

/// Where handlers keep values. An address may hold a password: it is not repeated.
pub(crate) fn kv_store(raw: &RawValue<'_>) -> ParseResult<Place> {
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
pub(crate) fn kv_prefix(raw: &RawValue<'_>) -> ParseResult<String> {
    let prefix = text(raw)?;
    let is_tame = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(is_tame) {
        let hint = "write at most 64 letters, digits, `-`, `_`, `.` and `:`";
        return Err(Diagnostic::new(format!("`{prefix}` is no name"), hint));
    }
    Ok(prefix)
}

/// Where handlers keep values; endpoints that may keep some need a place, but for a run that keeps none.
pub(super) fn place(
    sources: &mut Sources<'_>,
    file: &File,
    endpoints: &[EndpointConfig],
    scope: Scope,
) -> Option<kv::Place> {
    let mut place = sources.get(&set::KV_STORE, &file.process);
    let (prefix, timeout) =
        (sources.get(&set::KV_PREFIX, &file.process), sources.get(&set::KV_TIMEOUT, &file.process));
    let password = connection::secret(sources, &set::KV_PASSWORD, &file.process);
    // Defaults that are written out say nothing.
    let of_a_redis: [(&Setting, bool); 3] = [
        (&set::KV_PASSWORD, true),
        (&set::KV_PREFIX, prefix != set::KV_PREFIX.default()),
        (&set::KV_TIMEOUT, timeout != set::KV_TIMEOUT.default()),
    ];
    match &mut place {
        Some(kv::Place::Redis(redis)) => {
            (redis.prefix, redis.timeout) = (prefix, timeout);
            if password.is_some() && redis.password.is_some() {
                let diagnostic =
                    Diagnostic::new("is there, and so is one in `kv.store`", "take that one out");
                sources.report(sources.place(&set::KV_PASSWORD, &file.process), diagnostic);
            }
            redis.password = password.or(redis.password.take());
        }
        _ => {
            for (setting, is_meant) in of_a_redis {
                if let Some(given) = sources.place(setting, &file.process).filter(|_| is_meant) {
                    let hint = "give `kv.store` the address of one, `redis://HOST:PORT/0`, or leave it out";
                    sources.report(Some(given), Diagnostic::new("is of a Redis, and there is none", hint));
                }
            }
        }
    }
    if place.is_none() && scope != Scope::Run {
        for endpoint in endpoints.iter().filter(|endpoint| !endpoint.kv.is_empty()) {
            let message = format!("endpoint `{}` has buckets, and there is no store for them", endpoint.name);
            let hint = "give `--kv-store FILE`, or `[kv]` with `store = \"FILE\"`";
            sources.report(file.place(), Diagnostic::new(message, hint));
        }
    }
    place
}
