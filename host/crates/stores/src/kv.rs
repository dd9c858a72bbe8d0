//! Values that handlers keep: buckets of an endpoint, or shared by some, in one store of the process.
//!
//! Place in the flow: a handler's `kv` and `wasi:keyvalue`, see `capabilities/kv.rs`. One [`Store`] for the
//! process, in a file or in a Redis; one [`EndpointKv`] for each loaded handler that is granted a bucket.
//! In: a [`KvOp`] on a [`Bucket`]. Out: a [`KvAnswer`], or why there is none.
//! Invariants: a bucket that is not granted cannot be opened; what was answered is stored; a value whose
//! time is over is never given out; an owner, which is an endpoint or a shared bucket, never holds more than
//! the quota of the endpoint that writes.

mod apply;
mod embedded;
mod redis;
pub mod scratch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use self::embedded::Embedded;
use self::redis::Redis;
use crate::json::base64;
use crate::stores::grants::{Grants, Owner};
use crate::stores::{OpenError, Place};
use crate::text::shown;
use crate::time::unix_milliseconds;

/// Longest key and longest name of a bucket, in bytes.
pub const LONGEST_KEY: usize = 1024;
/// Most keys of one page of a listing, and of one call that sets or deletes several.
pub const MOST_KEYS: u32 = 1000;
/// Longest time to live: a hundred years.
const LONGEST_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Bytes of a value; base64 in files.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KvValue(#[serde(with = "base64")] pub Vec<u8>);

impl fmt::Debug for KvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// An operation on a bucket. A `ttl` is in milliseconds; without one a value stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are those of the contract's functions")]
pub enum KvOp {
    /// The value of a key.
    Get { key: String },
    /// Sets a value.
    Set { key: String, value: KvValue, ttl: Option<u64> },
    /// Sets a value if there is none.
    Add { key: String, value: KvValue, ttl: Option<u64> },
    /// Adds to a number; the time to live is of a key that is not there yet.
    Increment { key: String, by: i64, ttl: Option<u64> },
    /// Sets a value if the present one is `current`; keeps its time to live.
    Swap { key: String, current: Option<KvValue>, value: KvValue },
    /// Removes a key.
    Delete { key: String },
    /// Keys in order, from behind `cursor` and `skip` more.
    Keys { prefix: String, cursor: Option<String>, skip: u64, limit: u32 },
    /// Sets all of these, or none.
    SetMany { pairs: Vec<(String, KvValue)> },
    /// Removes all of these.
    DeleteMany { keys: Vec<String> },
}

impl KvOp {
    /// The names of all, as metrics have them.
    pub const NAMES: [&str; 9] =
        ["get", "set", "add", "increment", "swap", "delete", "keys", "set-many", "delete-many"];

    /// Its place in [`KvOp::NAMES`].
    pub fn number(&self) -> usize {
        match self {
            KvOp::Get { .. } => 0,
            KvOp::Set { .. } => 1,
            KvOp::Add { .. } => 2,
            KvOp::Increment { .. } => 3,
            KvOp::Swap { .. } => 4,
            KvOp::Delete { .. } => 5,
            KvOp::Keys { .. } => 6,
            KvOp::SetMany { .. } => 7,
            KvOp::DeleteMany { .. } => 8,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        Self::NAMES.get(self.number()).copied().unwrap_or_default()
    }

    /// Whether it may change the bucket.
    pub fn is_write(&self) -> bool {
        !matches!(self, KvOp::Get { .. } | KvOp::Keys { .. })
    }

    /// The keys that it names; of a listing the prefix.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let (one, pairs, many): (Option<&str>, &[(String, KvValue)], &[String]) = match self {
            KvOp::Get { key }
            | KvOp::Set { key, .. }
            | KvOp::Add { key, .. }
            | KvOp::Increment { key, .. }
            | KvOp::Swap { key, .. }
            | KvOp::Delete { key }
            | KvOp::Keys { prefix: key, .. } => (Some(key), &[], &[]),
            KvOp::SetMany { pairs } => (None, pairs, &[]),
            KvOp::DeleteMany { keys } => (None, &[], keys),
        };
        let pairs = pairs.iter().map(|(key, _)| key.as_str());
        one.into_iter().chain(pairs).chain(many.iter().map(String::as_str))
    }

    /// The values that it brings.
    pub fn values(&self) -> impl Iterator<Item = &KvValue> {
        let (one, current, pairs): (Option<&KvValue>, Option<&KvValue>, &[(String, KvValue)]) = match self {
            KvOp::Set { value, .. } | KvOp::Add { value, .. } => (Some(value), None, &[]),
            KvOp::Swap { value, current, .. } => (Some(value), current.as_ref(), &[]),
            KvOp::SetMany { pairs } => (None, None, pairs),
            _ => (None, None, &[]),
        };
        one.into_iter().chain(current).chain(pairs.iter().map(|(_, value)| value))
    }

    fn ttl(&self) -> Option<u64> {
        match self {
            KvOp::Set { ttl, .. } | KvOp::Add { ttl, .. } | KvOp::Increment { ttl, .. } => *ttl,
            _ => None,
        }
    }
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvAnswer {
    /// Done.
    Done,
    /// A value, if there is one.
    Value(Option<KvValue>),
    /// Whether a value was set.
    Was(bool),
    /// A number.
    Number(i64),
    /// A page of keys; with the cursor of the next one, if there is more.
    Keys(Vec<String>, Option<String>),
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum KvError {
    /// The endpoint is not granted a bucket of this name.
    #[error("the endpoint is granted no bucket `{0}`")]
    NoSuchBucket(String),
    /// A key, a name or a number that cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// Beyond a quota. Says which.
    #[error("{0}")]
    Limit(String),
    /// The store cannot be used now; whether a write was done is not known.
    #[error("the store cannot be used: {0}")]
    Unavailable(String),
}

/// The outcome of an operation.
pub type KvOutcome = Result<KvAnswer, KvError>;

/// An operation, and what came of it: vocabulary of those who keep runs and give their answers again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KvCall {
    /// The bucket's name, as the handler opened it.
    pub bucket: String,
    /// The operation.
    #[serde(flatten)]
    pub op: KvOp,
    /// `None` if there was none by the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<KvOutcome>,
}

impl KvCall {
    /// Whether the other one asks the same.
    pub fn is_same(&self, bucket: &str, op: &KvOp) -> bool {
        self.bucket == bucket && self.op == *op
    }

    /// Bytes of keys and values.
    pub fn size(&self) -> usize {
        let answer = match &self.answer {
            Some(Ok(KvAnswer::Value(Some(value)))) => value.0.len(),
            Some(Ok(KvAnswer::Keys(keys, _))) => keys.iter().map(|key| key.len() + 24).sum(),
            _ => 0,
        };
        self.bucket.len() + size(&self.op) + answer + 64
    }
}

/// Bytes of what an operation brings.
pub fn size(op: &KvOp) -> usize {
    let cursor = if let KvOp::Keys { cursor: Some(cursor), .. } = op { cursor.len() } else { 0 };
    let keys = op.keys().map(|key| key.len() + size_of::<String>()).sum::<usize>();
    keys + cursor + op.values().map(|value| value.0.len() + size_of::<KvValue>()).sum::<usize>()
}

/// The most that the buckets of one owner hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys.
    pub entries: u64,
    /// Bytes of one value.
    pub value: usize,
}

/// The bucket that a handler has opened.
#[derive(Debug, Clone)]
pub struct Bucket {
    name: Arc<str>,
    /// `own/ENDPOINT` or `shared/BUCKET`: whose quota it is.
    owner: Arc<str>,
    /// The part of a place in the store that is before the key.
    prefix: Arc<str>,
}

impl Bucket {
    /// As the handler opened it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn place(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }
}

/// The values of all endpoints.
pub struct Store(Backend);

enum Backend {
    /// No value, and none is taken: where nothing is served.
    Empty,
    Embedded(Embedded),
    Redis(Redis),
}

impl Store {
    /// One that is empty and stays so: for runs that write nothing.
    pub fn empty() -> Store {
        Store(Backend::Empty)
    }

    /// Opens the store at this place.
    ///
    /// # Errors
    /// [`OpenError`], for the operator.
    pub async fn open(place: &Place) -> Result<Store, OpenError> {
        Ok(Store(match place {
            Place::File(path) => Backend::Embedded(Embedded::open(path)?),
            Place::Redis(place) => Backend::Redis(Redis::open(place).await?),
        }))
    }

    /// Whether it can be reached now; `None` if it is nowhere else.
    pub fn is_reachable(&self) -> Option<bool> {
        match &self.0 {
            Backend::Empty | Backend::Embedded(_) => None,
            Backend::Redis(redis) => Some(redis.is_up()),
        }
    }

    /// Closes a file, after which operations fail. Takes as long as the disk does.
    pub fn close(&self) {
        if let Backend::Embedded(embedded) = &self.0 {
            embedded.close();
        }
    }

    async fn call(&self, bucket: &Bucket, op: KvOp, quota: Quota) -> KvOutcome {
        match &self.0 {
            Backend::Empty => match op {
                KvOp::Get { .. } => Ok(KvAnswer::Value(None)),
                KvOp::Keys { .. } => Ok(KvAnswer::Keys(Vec::new(), None)),
                _ => Err(KvError::Unavailable("nothing is stored here".to_owned())),
            },
            Backend::Embedded(embedded) => embedded.call(bucket, op, quota).await,
            Backend::Redis(redis) => redis.call(bucket, op, quota).await,
        }
    }
}

/// The buckets that one endpoint may use.
#[derive(Clone)]
pub struct EndpointKv {
    store: Arc<Store>,
    grants: Grants,
    quota: Quota,
}

impl EndpointKv {
    /// Of this endpoint, with these grants.
    pub fn new(store: Arc<Store>, endpoint: &str, granted: &[String], quota: Quota) -> EndpointKv {
        EndpointKv { store, grants: Grants::new(endpoint, granted), quota }
    }

    /// Its grants.
    pub fn granted(&self) -> &[String] {
        self.grants.names()
    }

    /// Opens a bucket.
    ///
    /// # Errors
    /// [`KvError::NoSuchBucket`].
    pub fn open(&self, name: &str) -> Result<Bucket, KvError> {
        let (owner, prefix) = match self.grants.owner(name) {
            None => return Err(KvError::NoSuchBucket(shown(name))),
            Some(Owner::Shared(_)) => (name.to_owned(), format!("{name}\0\0")),
            Some(Owner::Endpoint(endpoint)) => {
                let owner = format!("own/{endpoint}");
                let prefix = format!("{owner}\0{name}\0");
                (owner, prefix)
            }
        };
        Ok(Bucket { name: name.into(), owner: owner.into(), prefix: prefix.into() })
    }

    /// Most bytes of a value.
    pub fn most_value(&self) -> usize {
        self.quota.value
    }

    /// Does this with the bucket.
    ///
    /// # Errors
    /// [`KvError`].
    pub async fn call(&self, bucket: &Bucket, op: KvOp) -> KvOutcome {
        self.check(&op)?;
        self.store.call(bucket, op, self.quota).await
    }

    /// Looks at keys, values and times.
    fn check(&self, op: &KvOp) -> Result<(), KvError> {
        let is_listing = matches!(op, KvOp::Keys { .. });
        if op.keys().count() > MOST_KEYS as usize {
            return Err(KvError::Limit(format!("more than {MOST_KEYS} keys in one call")));
        }
        for key in op.keys() {
            if key.len() > LONGEST_KEY || key.is_empty() && !is_listing {
                let text = format!("a key of {} bytes, expected 1 to {LONGEST_KEY}", key.len());
                return Err(KvError::Invalid(text));
            }
        }
        if let KvOp::Keys { cursor: Some(cursor), .. } = op
            && cursor.len() > LONGEST_KEY
        {
            let text = format!("a cursor of {} bytes, expected at most {LONGEST_KEY}", cursor.len());
            return Err(KvError::Invalid(text));
        }
        let most = self.quota.value;
        if let Some(value) = op.values().find(|value| value.0.len() > most) {
            let length = value.0.len();
            return Err(KvError::Limit(format!(
                "a value of {length} bytes, and {most} are `limits.kv_value`"
            )));
        }
        if op.ttl().is_some_and(|ttl| ttl == 0 || u128::from(ttl) > LONGEST_TTL.as_millis()) {
            let most = LONGEST_TTL.as_millis();
            return Err(KvError::Invalid(format!("a time to live outside of 1 to {most} milliseconds")));
        }
        Ok(())
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    unix_milliseconds(SystemTime::now())
}

/// When a value is over that lives so long from now.
fn end(ttl: Option<u64>) -> Option<u64> {
    ttl.map(|ttl| now().saturating_add(ttl))
}

/// A value as a number.
fn number(value: &[u8]) -> Result<i64, KvError> {
    let text = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(no_number)
}

fn no_number() -> KvError {
    KvError::Invalid("the value is not a whole number of 64 bits".to_owned())
}

/// The sum of a number and `by`.
fn sum(number: i64, by: i64) -> Result<i64, KvError> {
    number.checked_add(by).ok_or_else(beyond)
}

fn beyond() -> KvError {
    KvError::Invalid("the sum is beyond 64 bits".to_owned())
}
