//! What Redis says, in the words of this program: reasons for handlers and clients, refusals for the
//! operator.
//!
//! Place in the flow: beside `connector.rs` and `link.rs`, which connect and send. In: errors of Redis, its
//! words of itself. Out: a reason and what is to be done.
//! Invariant: a reason names no address and repeats nothing that Redis has said; that is for the log.

use redis::{ErrorKind, RedisError};

use super::Purpose;
use super::slot::SLOTS;

/// No connection can be made.
pub(super) const ABSENT: &str = "Redis cannot be reached";
/// A connection was there.
pub(super) const LOST: &str = "the connection to Redis was lost";
/// No answer, or none in time.
pub(super) const LATE: &str = "Redis did not answer in time";
/// A node has named another one, and that one did too.
pub(super) const ELSEWHERE: &str = "Redis has the keys on another node";
/// The slot is being moved.
pub(super) const MOVING: &str = "Redis is moving the keys to another node";
/// No node has the slot.
pub(super) const UNASSIGNED: &str = "Redis is a cluster in which no node has the keys";
/// The rules of a user of a cluster.
const CLUSTER_RULES: &str = "its rules have to be `~PREFIX:* +@read +@write +@scripting +@connection +time +info \
                             +cluster|slots +asking`";

/// Consequence of an error for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The connection can be used on.
    None,
    /// A new one may lead to a Redis that can be used.
    Reconnect,
    /// Another node of a cluster may be able to do it.
    Elsewhere,
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
const CODES: [(&str, &str, Effect); 15] = [
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
    ("MOVED", ELSEWHERE, Effect::Elsewhere),
    ("ASK", MOVING, Effect::Elsewhere),
    ("TRYAGAIN", MOVING, Effect::Elsewhere),
    ("CLUSTERDOWN", "Redis is a cluster, which is down", Effect::Elsewhere),
    ("CROSSSLOT", "Redis has the keys on several nodes", Effect::None),
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
        (ErrorKind::Parse, _) => unreadable(),
        (_, Some("ERR")) if detail.contains("cluster mode") => ConnectError::Refused(
            "it is a node of a Redis Cluster, which has no database but 0".to_owned(),
            "leave the number of the database out: `redis://HOST:PORT`",
        ),
        (_, Some("ERR")) => ConnectError::Refused(
            format!("it does not take what a connection begins with: {detail}"),
            "user, password and number of the database have to be those of this Redis, 6 or newer",
        ),
        _ => ConnectError::Failed(LOST, detail),
    }
}

/// An answer that is not Redis'.
pub(super) fn unreadable() -> ConnectError {
    ConnectError::Failed(LOST, "it does not answer as Redis does".to_owned())
}

/// Why a node does not say the nodes of its cluster.
pub(super) fn untold(error: &RedisError) -> ConnectError {
    match error.code() {
        Some("NOPERM") => ConnectError::Refused(
            format!("the user may not ask a node of a Redis Cluster for the others: {error}"),
            CLUSTER_RULES,
        ),
        Some("LOADING" | "NOAUTH" | "WRONGPASS") | None => refusal(error),
        Some(_) => ConnectError::Refused(
            format!("it is a node of a Redis Cluster, and does not say the others: {error}"),
            "it has to answer `CLUSTER SLOTS`; so does a proxy, or it says `cluster_enabled:0`",
        ),
    }
}

/// Not all slots have a node.
pub(super) fn not_whole(covered: u16) -> ConnectError {
    let detail = format!("it is a node of a Redis Cluster in which {covered} of {SLOTS} slots have a node");
    ConnectError::Failed(UNASSIGNED, detail)
}

/// A server that was none of a cluster's nodes when this process started.
pub(super) fn has_become_a_cluster() -> ConnectError {
    ConnectError::Refused(
        "it is a node of a Redis Cluster now, which a host follows once it is started again".to_owned(),
        "start the host again",
    )
}

/// The answer to `INFO`.
pub(super) struct Told {
    /// Whether it is a node of a cluster.
    pub(super) is_node: bool,
    /// Of settings by which something may be lost.
    pub(super) warnings: Vec<String>,
}

/// Reads what Redis says of itself.
pub(super) fn info(info: &str, purpose: &Purpose) -> Result<Told, ConnectError> {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let is_node = field("cluster_enabled") == Some("1");
    // A node of a cluster says where else the keys are.
    if !is_node && field("role") == Some("slave") {
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
    Ok(Told { is_node, warnings })
}
