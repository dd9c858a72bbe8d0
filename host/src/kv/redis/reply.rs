//! What Redis says, in the words of this program: reasons for handlers, refusals for the operator, answers.
//!
//! Place in the flow: between `link.rs`, which sends, and `redis.rs`. In: errors and values of Redis. Out: a
//! reason and what is to be done, or a [`KvAnswer`].
//! Invariant: a reason names no address and repeats nothing that Redis has said; that is for the log.

use redis::{ErrorKind, RedisError, Value};

use super::super::{Bucket, KvAnswer, KvError, KvOp, KvOutcome, KvValue, MOST_KEYS, Quota};
use super::RedisPlace;
use super::link::ConnectError;

/// No connection can be made.
pub(super) const ABSENT: &str = "Redis cannot be reached";
/// A connection was there.
pub(super) const LOST: &str = "the connection to Redis was lost";
/// No answer, or none in time.
pub(super) const LATE: &str = "Redis did not answer in time";

/// Consequence of an error for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The connection can be used on.
    None,
    /// A new one may lead to a Redis that can be used.
    Reconnect,
}

/// The meaning of Redis' own codes.
const CODES: [(&str, &str, Effect); 14] = [
    ("READONLY", "Redis is a replica, and takes no writes", Effect::Reconnect),
    ("MASTERDOWN", "Redis is a replica without its primary", Effect::Reconnect),
    ("LOADING", "Redis is loading its data", Effect::Reconnect),
    ("NOAUTH", "Redis asks for a password", Effect::Reconnect),
    ("WRONGPASS", "Redis refuses user or password", Effect::Reconnect),
    ("NOPERM", "Redis forbids the user to do this", Effect::None),
    ("OOM", "Redis has no memory left for it", Effect::None),
    ("MISCONF", "Redis cannot write to its disk", Effect::None),
    ("NOREPLICAS", "Redis has too few replicas to take writes", Effect::None),
    ("BUSY", "Redis runs a script of another program", Effect::None),
    ("MOVED", "Redis is a cluster, which needs a proxy", Effect::None),
    ("ASK", "Redis is a cluster, which needs a proxy", Effect::None),
    ("CLUSTERDOWN", "Redis is a cluster, which is down", Effect::None),
    ("CROSSSLOT", "Redis is a cluster, which needs a proxy", Effect::None),
];

/// The reason for a handler, and what follows.
pub(super) fn reason(error: &RedisError) -> (&'static str, Effect) {
    let text = error.to_string();
    // Within a script's error the code is that of the command that failed.
    let is = |code: &str| error.code() == Some(code) || text.split([' ', ':']).any(|word| word == code);
    if let Some((_, reason, effect)) = CODES.iter().find(|(code, ..)| is(code)) {
        return (reason, *effect);
    }
    match error.kind() {
        ErrorKind::Io => (LOST, Effect::Reconnect),
        ErrorKind::Parse => ("Redis has answered something else", Effect::Reconnect),
        _ => ("Redis has refused it", Effect::None),
    }
}

fn bad_login() -> ConnectError {
    ConnectError::Refused(
        "it refuses user or password".to_owned(),
        "give those that it knows: `redis://USER@HOST:PORT/0`, and `kv.password = \"@FILE\"`",
    )
}

/// Why a connection cannot be used that was just made.
pub(super) fn refusal(error: &RedisError) -> ConnectError {
    let detail = error.to_string();
    let has_to_log_in = detail.contains("Authentication required");
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => bad_login(),
        _ if has_to_log_in => bad_login(),
        (_, Some("NOPERM")) => ConnectError::Refused(
            format!("the user may not use scripts: {detail}"),
            "its rules have to be `~PREFIX:* +@read +@write +@scripting +@connection +time +info`",
        ),
        (_, Some("LOADING")) => {
            ConnectError::Failed("Redis is loading its data", "it is loading its data".to_owned())
        }
        (ErrorKind::Io, _) => ConnectError::Failed(LOST, detail),
        (_, Some("ERR")) => ConnectError::Refused(
            format!("it does not take what a connection begins with: {detail}"),
            "user, password and number of the database have to be those of this Redis, 6 or newer",
        ),
        _ => ConnectError::Failed(LOST, detail),
    }
}

/// Looks at what Redis says of itself.
pub(super) fn info(info: &str, place: &RedisPlace) -> Result<(), ConnectError> {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if field("cluster_enabled") == Some("1") {
        return Err(ConnectError::Refused(
            "it is a node of a Redis Cluster, which this program does not follow from node to node"
                .to_owned(),
            "give the address of a Redis without cluster mode, or of a proxy that speaks for the cluster",
        ));
    }
    if field("role") == Some("slave") {
        let detail = "it is a replica, which takes no writes".to_owned();
        return Err(ConnectError::Failed("Redis is a replica, and takes no writes", detail));
    }
    let policy = field("maxmemory_policy").unwrap_or_default();
    if policy.starts_with("allkeys") && field("maxmemory") != Some("0") {
        tracing::warn!(
            store = %place,
            "Redis removes values when its memory is full (`maxmemory-policy {policy}`); hint: `noeviction` \
             refuses writes instead"
        );
    }
    Ok(())
}

/// The answer that the script's reply is.
pub(super) fn answer(bucket: &Bucket, op: &KvOp, quota: Quota, reply: Value) -> KvOutcome {
    let other = || KvError::Unavailable("Redis has answered something else".to_owned());
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

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}
