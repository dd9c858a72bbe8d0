//! The replies of the script, as answers to operations.
//!
//! Place in the flow: between Redis and `redis.rs`. In: an operation, a value of Redis. Out: a [`KvAnswer`].

use redis::Value;

use super::super::{Bucket, KvAnswer, KvError, KvOp, KvOutcome, KvValue, MOST_KEYS, Quota};
use crate::stores::{bytes, unexpected};

/// The answer that the script's reply is.
pub(super) fn answer(bucket: &Bucket, op: &KvOp, quota: Quota, reply: Value) -> KvOutcome {
    let other = || KvError::from(unexpected());
    let Value::Array(entries) = reply else { return Err(other()) };
    let mut entries = entries.into_iter();
    let kind = entries.next().and_then(bytes).ok_or_else(other)?;
    let mut next = || entries.next().ok_or_else(other);
    match kind.as_slice() {
        b"done" => Ok(KvAnswer::Done),
        b"none" => Ok(KvAnswer::Value(None)),
        b"value" => Ok(KvAnswer::Value(Some(KvValue(bytes(next()?).ok_or_else(other)?)))),
        b"was" => Ok(KvAnswer::Was(next()? == Value::Int(1))),
        b"number" => {
            let digits = bytes(next()?).ok_or_else(other)?;
            super::super::number(&digits).map(KvAnswer::Number)
        }
        b"limit" => {
            let beyond = match bytes(next()?).as_deref() {
                Some(b"bytes") => format!("more than {} bytes, `limits.kv_bytes`", quota.bytes),
                _ => format!("more than {} keys, `limits.kv_entries`", quota.entries),
            };
            Err(KvError::Limit(format!("the buckets would hold {beyond}")))
        }
        b"invalid" => Err(match bytes(next()?).as_deref() {
            Some(b"sum") => super::super::beyond(),
            _ => super::super::no_number(),
        }),
        b"keys" => {
            let KvOp::Keys { limit, .. } = op else { return Err(other()) };
            let limit = (*limit).clamp(1, MOST_KEYS) as usize;
            let part = super::part(bucket);
            let mut keys = Vec::new();
            for member in entries {
                let member = bytes(member).ok_or_else(other)?;
                let key = member.strip_prefix(part).ok_or_else(other)?;
                keys.push(String::from_utf8_lossy(key).into_owned());
            }
            let has_more = keys.len() > limit;
            keys.truncate(limit);
            let cursor = keys.last().filter(|_| has_more).cloned();
            Ok(KvAnswer::Keys(keys, cursor))
        }
        _ => Err(other()),
    }
}
