//! Values that outlive a request: in the buckets that the endpoint grants, `kv = ["default"]`.
//!
//! In a component every function is a call to the host. Natively, in a unit test, the values are in the
//! memory of the test's thread.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use modelhost_guest::kv::Bucket;
//! use modelhost_guest::{Response, Result};
//!
//! fn limited(client: &str) -> Result<Response> {
//!     let requests = Bucket::open("requests")?;
//!     if requests.increment_for(client, 1, Duration::from_secs(60))? > 100 {
//!         return Ok(Response::text("try again in a minute").status(429));
//!     }
//!     Ok(Response::text("welcome"))
//! }
//! ```

#![cfg_attr(
    not(target_family = "wasm"),
    allow(clippy::needless_question_mark, reason = "natively the host's errors are these")
)]

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, internal};

#[cfg(target_family = "wasm")]
use crate::bindings::kv::modelhost::handler::kv as host;
#[cfg(not(target_family = "wasm"))]
use native as host;

/// Most keys of one page of a listing.
const PAGE: u32 = 1000;

/// Why a bucket has not done what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvError {
    /// The endpoint is granted no bucket of this name.
    NoSuchBucket(String),
    /// A key, a time to live or a value that cannot be used.
    Invalid(String),
    /// Beyond a limit of the endpoint. Nothing was changed.
    Limit(String),
    /// The store cannot be used now; whether a write was done is not known.
    Unavailable(String),
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvError::NoSuchBucket(name) => write!(f, "the endpoint grants no bucket `{name}`"),
            KvError::Invalid(text) | KvError::Limit(text) => f.write_str(text),
            KvError::Unavailable(text) => write!(f, "the store cannot be used: {text}"),
        }
    }
}

impl std::error::Error for KvError {}

/// The handler's failure.
impl From<KvError> for Error {
    fn from(error: KvError) -> Error {
        internal(error.to_string())
    }
}

type Result<T> = std::result::Result<T, KvError>;

/// Keys and their values.
#[derive(Debug)]
pub struct Bucket(host::Bucket);

impl Bucket {
    /// Opens a bucket: `default`, or `shared/sessions` for one that several endpoints are granted.
    ///
    /// # Errors
    /// [`KvError::NoSuchBucket`].
    pub fn open(name: &str) -> Result<Bucket> {
        Ok(Bucket(host::open(name)?))
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// Any [`KvError`].
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key)?)
    }

    /// A value that was set as JSON.
    ///
    /// # Errors
    /// [`KvError::Invalid`] if it is none, or none of this type.
    pub fn get_json<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let read = |value: Vec<u8>| serde_json::from_slice(&value);
        let value = self.get(key)?.map(read).transpose();
        value.map_err(|error| KvError::Invalid(format!("the value of `{key}`: {error}")))
    }

    /// Sets a value, which stays until it is deleted.
    ///
    /// # Errors
    /// Any [`KvError`].
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        Ok(self.0.set(key, value, None)?)
    }

    /// Sets a value that lives for this time.
    ///
    /// # Errors
    /// Any [`KvError`].
    pub fn set_for(&self, key: &str, value: &[u8], ttl: Duration) -> Result<()> {
        Ok(self.0.set(key, value, Some(milliseconds(ttl)))?)
    }

    /// Sets a value as JSON, for this time or until it is deleted.
    ///
    /// # Errors
    /// Any [`KvError`].
    pub fn set_json<T: Serialize>(&self, key: &str, value: &T, ttl: Option<Duration>) -> Result<()> {
        let text = serde_json::to_vec(value);
        let text = text.map_err(|error| KvError::Invalid(format!("the value of `{key}`: {error}")))?;
        Ok(self.0.set(key, &text, ttl.map(milliseconds))?)
    }

    /// Sets a value if the key is not there, and says whether it did: a lock, or a mark that something is
    /// being done.
    ///
    /// # Errors
    /// Any [`KvError`].
    pub fn add(&self, key: &str, value: &[u8], ttl: Option<Duration>) -> Result<bool> {
        Ok(self.0.add(key, value, ttl.map(milliseconds))?)
    }

    /// Adds to a number and gives the sum. A key that is not there counts as 0.
    ///
    /// # Errors
    /// [`KvError::Invalid`] if the value is no number, or the sum beyond its range.
    pub fn increment(&self, key: &str, by: i64) -> Result<i64> {
        Ok(self.0.increment(key, by, None)?)
    }

    /// Adds to a number that lives for this time since it was first added to.
    ///
    /// # Errors
    /// As of [`increment`](Bucket::increment).
    pub fn increment_for(&self, key: &str, by: i64, ttl: Duration) -> Result<i64> {
        Ok(self.0.increment(key, by, Some(milliseconds(ttl)))?)
    }

    /// Sets a value if the present one is `current`, and says whether it did.
    ///
    /// # Errors
    /// Any [`KvError`].
    pub fn swap(&self, key: &str, current: Option<&[u8]>, value: &[u8]) -> Result<bool> {
        Ok(self.0.swap(key, current, value)?)
    }

    /// Removes a key, whether it is there or not.
    ///
    /// # Errors
    /// [`KvError::Unavailable`].
    pub fn delete(&self, key: &str) -> Result<()> {
        Ok(self.0.delete(key)?)
    }

    /// All keys that begin with `prefix`, in the order of their bytes.
    ///
    /// # Errors
    /// [`KvError::Unavailable`].
    pub fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let mut cursor = None;
        loop {
            let (page, next) = self.page(prefix, cursor.as_deref(), PAGE)?;
            all.extend(page);
            cursor = next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// At most so many keys behind the cursor; with the next one, if there are more.
    ///
    /// # Errors
    /// [`KvError::Unavailable`].
    pub fn page(
        &self,
        prefix: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<String>, Option<String>)> {
        Ok(self.0.keys(prefix, cursor, limit)?)
    }
}

fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(target_family = "wasm")]
impl From<host::Error> for KvError {
    fn from(error: host::Error) -> KvError {
        match error {
            host::Error::NoSuchBucket(name) => KvError::NoSuchBucket(name),
            host::Error::Invalid(text) => KvError::Invalid(text),
            host::Error::Limit(text) => KvError::Limit(text),
            host::Error::Unavailable(text) => KvError::Unavailable(text),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod native;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_test_has_buckets_of_its_own() {
        let bucket = Bucket::open("a").unwrap();
        bucket.set("k/1", b"v").unwrap();
        bucket.set_json("k/2", &[1, 2], Some(Duration::from_secs(60))).unwrap();
        assert_eq!(Bucket::open("a").unwrap().get("k/1").unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(bucket.get_json::<Vec<u8>>("k/2").unwrap(), Some(vec![1, 2]));
        assert_eq!(Bucket::open("b").unwrap().get("k/1").unwrap(), None);
        assert_eq!(bucket.keys("k/").unwrap(), ["k/1", "k/2"]);
        assert_eq!(bucket.page("k/", None, 1).unwrap(), (vec!["k/1".to_owned()], Some("k/1".to_owned())));
        assert!(bucket.swap("k/1", Some(b"v"), b"w").unwrap() && !bucket.add("k/1", b"x", None).unwrap());
        assert_eq!((bucket.increment("n", 2).unwrap(), bucket.increment("n", -5).unwrap()), (2, -3));
        assert!(matches!(bucket.increment("k/1", 1), Err(KvError::Invalid(_))));
        bucket.set_for("gone", b"", Duration::ZERO).unwrap();
        assert_eq!(bucket.get("gone").unwrap(), None);
        bucket.delete("k/1").unwrap();
        assert_eq!(bucket.get("k/1").unwrap(), None);
    }
}
