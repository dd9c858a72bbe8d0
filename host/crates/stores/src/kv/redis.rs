//! The store in a Redis that many hosts share: one script, run by Redis as a whole for each operation.
//!
//! Place in the flow: behind [`Store`](super::Store). In: operations of all handlers. Out: their answers.
//! Invariants: an operation is one round trip, and is sent once: whether one was done that has no answer is
//! not known, and it is not tried again; quotas and conditions are looked at where the value is written, so
//! that they hold for all hosts together; the end of a value is a time of Redis' clock. What is kept is as
//! safe as that Redis is told to keep it (`appendonly`, `appendfsync`).

mod reply;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::task::JoinSet;

use super::{Bucket, KvError, KvOp, KvOutcome, MOST_KEYS, Quota};
use crate::stores::{OpenError, Purpose, RedisClient, RedisPlace, Unavailable};

/// The script that Redis runs.
const SCRIPT: &str = include_str!("redis/script.lua");
/// Values that one run of the script removes at most, as it says itself.
const SWEEP: i64 = 2000;
/// How often values whose time is over are removed.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);
const PURPOSE: Purpose = Purpose { store: "the store of values", needs_log: false };

/// A store in a Redis.
pub(super) struct Redis {
    client: Arc<ScriptClient>,
    /// Ends with this.
    _sweeper: JoinSet<()>,
}

/// Runs the script for an operation, or for the removal of what is over.
struct ScriptClient {
    redis: RedisClient,
    prefix: String,
    /// The owners whose values were used since the start, and whether some have an end.
    owners: Mutex<HashMap<Arc<str>, bool>>,
}

/// The beginning of a member of the script's lists: `BUCKET NUL`, before the key.
fn part(bucket: &Bucket) -> &[u8] {
    bucket.prefix.as_bytes().get(bucket.owner.len() + 1..).unwrap_or_default()
}

impl From<Unavailable> for KvError {
    fn from(Unavailable(why): Unavailable) -> KvError {
        KvError::Unavailable(why)
    }
}

impl Redis {
    pub(super) async fn open(place: &RedisPlace) -> Result<Redis, OpenError> {
        let redis = RedisClient::open(place, SCRIPT, &PURPOSE).await?;
        let client = Arc::new(ScriptClient { redis, prefix: place.prefix.clone(), owners: Mutex::default() });
        let mut sweeper = JoinSet::new();
        let own = client.clone();
        sweeper.spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_PAUSE).await;
                own.sweep().await;
            }
        });
        Ok(Redis { client, _sweeper: sweeper })
    }

    /// Whether there is a connection now.
    pub(super) fn is_up(&self) -> bool {
        self.client.redis.is_up()
    }

    pub(super) async fn call(&self, bucket: &Bucket, op: KvOp, quota: Quota) -> KvOutcome {
        self.client.note(&bucket.owner, op.ttl().is_some());
        let arguments = arguments(bucket, &op);
        let value = self.client.run(&bucket.owner, op.name(), quota, &arguments).await?;
        reply::answer(bucket, &op, quota, value)
    }

    /// Removes what is over, now.
    #[cfg(test)]
    pub(super) async fn sweep(&self) {
        self.client.sweep().await;
    }

    /// The reply to a command.
    #[cfg(test)]
    pub(super) async fn ask(&self, command: &[&str]) -> Value {
        self.client.redis.ask(command).await
    }
}

impl ScriptClient {
    async fn run(
        &self,
        owner: &str,
        operation: &str,
        quota: Quota,
        arguments: &[Vec<u8>],
    ) -> Result<Value, Unavailable> {
        // All of an owner are in one slot of a cluster. No key has the last of these names, so that a
        // cluster that is moving the slot has all of them on no node, and refuses the script meanwhile.
        let keys = ["values", "order", "ends", "bytes", "scratch"]
            .map(|name| format!("{}:{{{owner}}}:{name}", self.prefix));
        let [key, ..] = &keys;
        self.redis
            .run(key, SCRIPT, |command: &mut Cmd| {
                command.arg(keys.len());
                for key in &keys {
                    command.arg(key.as_str());
                }
                command.arg(operation).arg(quota.bytes).arg(quota.entries);
                for argument in arguments {
                    command.arg(argument.as_slice());
                }
            })
            .await
    }

    fn note(&self, owner: &Arc<str>, has_end: bool) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        match owners.get_mut(owner) {
            Some(has) => *has |= has_end,
            // Perhaps another host has set some.
            None => drop(owners.insert(owner.clone(), true)),
        }
    }

    /// Removes what is over of the owners that this host has used.
    async fn sweep(&self) {
        let quota = Quota { bytes: 0, entries: 0, value: 0 };
        let owners: Vec<Arc<str>> = {
            let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            let due = owners.iter_mut().filter_map(|(owner, has)| std::mem::take(has).then(|| owner.clone()));
            due.collect()
        };
        for owner in owners {
            loop {
                match self.run(&owner, "sweep", quota, &[]).await {
                    Ok(Value::Array(entries)) => match entries.as_slice() {
                        [_, Value::Int(SWEEP..), _] => continue,
                        [_, _, Value::Int(0)] => {}
                        _ => self.note(&owner, true),
                    },
                    // Later.
                    Ok(_) | Err(_) => self.note(&owner, true),
                }
                break;
            }
        }
    }
}

/// The arguments of the script for an operation.
fn arguments(bucket: &Bucket, op: &KvOp) -> Vec<Vec<u8>> {
    let part = part(bucket);
    let member = |key: &String| [part, key.as_bytes()].concat();
    let ttl = |ttl: &Option<u64>| ttl.map(|ttl| ttl.to_string()).unwrap_or_default().into_bytes();
    match op {
        KvOp::Get { key } | KvOp::Delete { key } => vec![member(key)],
        KvOp::Set { key, value, ttl: end } | KvOp::Add { key, value, ttl: end } => {
            vec![member(key), value.0.clone(), ttl(end)]
        }
        KvOp::Increment { key, by, ttl: end } => vec![member(key), by.to_string().into_bytes(), ttl(end)],
        KvOp::Swap { key, current, value } => {
            let is = if current.is_some() { "1" } else { "0" };
            let current = current.clone().unwrap_or_default();
            vec![member(key), is.into(), current.0, value.0.clone()]
        }
        KvOp::SetMany { pairs } => {
            // The last one of a key wins.
            let last: HashMap<&String, &Vec<u8>> = pairs.iter().map(|(key, value)| (key, &value.0)).collect();
            last.into_iter().flat_map(|(key, value)| [member(key), value.clone()]).collect()
        }
        KvOp::DeleteMany { keys } => keys.iter().map(member).collect(),
        KvOp::Keys { prefix, cursor, skip, limit } => {
            let within = member(prefix);
            let border = |kind: u8, member: &[u8]| [&[kind], member].concat();
            let after = cursor.as_ref().map(member).filter(|after| *after >= within);
            let min = after.map_or_else(|| border(b'[', &within), |after| border(b'(', &after));
            // What begins with the prefix is before the text whose last byte is the next one.
            let mut end = within;
            if let Some(last) = end.last_mut() {
                *last = last.saturating_add(1);
            }
            // Numbers of Lua hold 53 bits.
            let skip = (*skip).min(1 << 52).to_string().into_bytes();
            let limit = (*limit).clamp(1, MOST_KEYS).to_string().into_bytes();
            vec![min, border(b'(', &end), skip, limit]
        }
    }
}
