//! Where stores are: in a file of this process, with the threads that write to it and read from it, or in a
//! Redis that many hosts share, with the connections to it; in [`grants`] what of them a handler may open, in
//! [`allowance`] how much a run writes that must not.
//!
//! Place in the flow: below the stores of values and of jobs, which are told a [`Place`]; that in a Redis
//! sends its script by [`RedisClient`]. In: a place, commands. Out: replies, or why there are none.
//! Invariant: no text of this module's holds a password.

mod address;
pub mod allowance;
mod client;
mod cluster;
mod connector;
mod database;
pub mod grants;
mod link;
mod readers;
mod reason;
mod slot;
#[cfg(test)]
pub(crate) mod test_cluster;
#[cfg(test)]
pub(crate) mod test_server;
mod writer;

use std::fmt;
use std::path::PathBuf;

use redis::Value;

pub use self::address::RedisPlace;
pub use self::client::RedisClient;
pub use self::database::{FileHints, StoreFile};
pub use self::readers::Readers;
pub use self::writer::Writer;

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of this process alone.
    File(PathBuf),
    /// A Redis, which many hosts share.
    Redis(RedisPlace),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Redis(place) => place.fmt(f),
        }
    }
}

/// The use of a Redis.
#[derive(Debug)]
pub struct Purpose {
    /// The store's name in logs.
    pub store: &'static str,
    /// Whether what is stored has to be in Redis' append-only file to be what it was promised to be.
    pub needs_log: bool,
}

/// The way out where a store's file cannot be written.
pub const ROOM: &str = "the disk has to have room for it, and the file has to be one that a host has written";

/// Why a store cannot be used at the start.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the store `{place}`: {why}\n  hint: {hint}")]
pub struct OpenError {
    /// Without a password.
    pub place: String,
    /// In a line.
    pub why: String,
    /// A way out.
    pub hint: &'static str,
}

/// Why Redis has not answered. Whether it has done what was asked is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

/// Redis has answered something that no script says.
pub fn unexpected() -> Unavailable {
    Unavailable("Redis sent an unexpected response".to_owned())
}

/// A text of Redis.
pub fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}
