//! What Redis says, in the words of this program: reasons for handlers and clients, refusals for the
//! operator.
//!
//! Place in the flow: beside `link.rs`, which sends. In: errors of Redis, what it says of itself. Out: a
//! reason and what is to be done.
//! Invariant: a reason names no address and repeats nothing that Redis has said; that is for the log.

use redis::{ErrorKind, RedisError};

use super::Purpose;

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

/// Why there is no connection.
pub(super) enum ConnectError {
    /// It can be tried again: for handlers, and for the log.
    Failed(&'static str, String),
    /// The configuration has to change: why, and a hint.
    Refused(String, &'static str),
}

impl ConnectError {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            ConnectError::Failed(reason, _) => reason,
            ConnectError::Refused(..) => "Redis refuses the connection",
        }
    }

    pub(super) fn detail(&self) -> &str {
        match self {
            ConnectError::Failed(_, detail) | ConnectError::Refused(detail, _) => detail,
        }
    }
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
        ErrorKind::Parse => ("Redis sent an unexpected response", Effect::Reconnect),
        _ => ("Redis has refused it", Effect::None),
    }
}

fn bad_login() -> ConnectError {
    ConnectError::Refused(
        "it refuses user or password".to_owned(),
        "give those that it knows: `redis://USER@HOST:PORT/0`, and `password = \"@FILE\"` beside it",
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
            format!("the user may not do what it has to: {detail}"),
            "its rules have to be `~PREFIX:* +@read +@write +@scripting +@connection +time +info`",
        ),
        (_, Some("LOADING")) => {
            ConnectError::Failed("Redis is loading its data", "it is loading its data".to_owned())
        }
        (ErrorKind::Io, _) => ConnectError::Failed(LOST, detail),
        // Something else than Redis, whose answer may have any length.
        (ErrorKind::Parse, _) => ConnectError::Failed(LOST, "it does not answer as Redis does".to_owned()),
        (_, Some("ERR")) => ConnectError::Refused(
            format!("it does not take what a connection begins with: {detail}"),
            "user, password and number of the database have to be those of this Redis, 6 or newer",
        ),
        _ => ConnectError::Failed(LOST, detail),
    }
}

/// The warnings that follow from what Redis says of itself.
pub(super) fn info(info: &str, purpose: &Purpose) -> Result<Vec<String>, ConnectError> {
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
    let mut warnings = Vec::new();
    let policy = field("maxmemory_policy").unwrap_or_default();
    if policy.starts_with("allkeys") && field("maxmemory") != Some("0") {
        warnings.push(format!(
            "Redis removes values when its memory is full (`maxmemory-policy {policy}`); hint: `noeviction` \
             refuses writes instead"
        ));
    }
    if purpose.needs_log && field("aof_enabled") == Some("0") {
        warnings.push(
            "Redis writes no append-only file: what it has acknowledged since its last snapshot ends with \
             its process; hint: `appendonly yes` and `appendfsync always` keep all of it"
                .to_owned(),
        );
    }
    Ok(warnings)
}
