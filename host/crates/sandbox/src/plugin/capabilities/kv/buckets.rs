//! `kv`: the values of the endpoint's buckets, asked for by the guest.
//!
//! Place in the flow: called while any function of a handler runs; beside [`keyvalue`](super::keyvalue),
//! which takes the same way. In: an operation on a bucket. Out: its answer: the store's, or that of an
//! earlier or a recorded run.
//! Invariants: only a client's request writes to the store; what any other run writes is seen by itself
//! alone. Waiting for the store holds no thread, and counts as no computing.

use wasmtime::Result;
use wasmtime::component::Resource;

use super::Kv;
use crate::kv::{Bucket, KvAnswer, KvCall, KvError, KvOp, KvOutcome, KvValue};
use crate::plugin::bindings::modelhost::handler::kv::{self, Error};
use crate::plugin::capability::{View, Way};
use crate::text::shown;

impl From<KvError> for Error {
    fn from(error: KvError) -> Error {
        match error {
            KvError::NoSuchBucket(name) => Error::NoSuchBucket(name),
            KvError::Invalid(text) => Error::Invalid(text),
            KvError::Limit(text) => Error::Limit(text),
            KvError::Unavailable(text) => Error::Unavailable(text),
        }
    }
}

impl View<'_, Kv> {
    /// Opens a bucket.
    pub(super) fn open_bucket(&mut self, name: &str) -> Result<Result<Resource<Bucket>, KvError>> {
        let none = || KvError::NoSuchBucket(shown(name));
        match self.granted.ok_or_else(none).and_then(|granted| granted.kv.open(name)) {
            Ok(bucket) => Ok(Ok(self.kernel.table.push(bucket)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Does this with a bucket.
    pub(super) async fn kv(&mut self, handle: &Resource<Bucket>, op: KvOp) -> Result<KvOutcome> {
        self.kernel.count_host_call();
        let bucket = self.kernel.table.get(handle)?.clone();
        self.kv_at(&bucket, op).await
    }

    /// The same without a handle.
    pub(super) async fn kv_at(&mut self, bucket: &Bucket, op: KvOp) -> Result<KvOutcome> {
        self.note_dependency();
        let Some(granted) = self.granted else {
            return Ok(Err(KvError::NoSuchBucket(bucket.name().to_owned())));
        };
        let call = || KvCall { bucket: bucket.name().to_owned(), op: op.clone(), answer: None };
        let number = match self.kernel.look_up(call)? {
            Way::Live(number) => number,
            Way::Known(outcome) => {
                // What the run asks next may depend on it.
                if op.is_write() {
                    let scratch = self.state.scratch.get_or_insert_default();
                    let _ = scratch.call(&granted.kv, bucket, op).await;
                }
                return Ok(outcome);
            }
            Way::Recorded(outcome) => return Ok(outcome),
        };
        let operation = op.number();
        let outcome = match self.kernel.run.calls_out {
            true => granted.kv.call(bucket, op).await,
            false => self.state.scratch.get_or_insert_default().call(&granted.kv, bucket, op).await,
        };
        if let Some(calls) = &granted.calls {
            calls.count(operation, outcome.is_ok());
        }
        self.kernel.answered::<KvCall>(number, &outcome);
        Ok(outcome)
    }
}

/// The error of an answer that does not fit its operation.
pub(super) fn unexpected(_: KvAnswer) -> KvError {
    KvError::Unavailable("the store sent an unexpected response".to_owned())
}

pub(super) fn done(outcome: KvOutcome) -> Result<(), KvError> {
    outcome.and_then(|answer| match answer {
        KvAnswer::Done => Ok(()),
        other => Err(unexpected(other)),
    })
}

pub(super) fn value(outcome: KvOutcome) -> Result<Option<Vec<u8>>, KvError> {
    outcome.and_then(|answer| match answer {
        KvAnswer::Value(value) => Ok(value.map(|KvValue(bytes)| bytes)),
        other => Err(unexpected(other)),
    })
}

pub(super) fn was(outcome: KvOutcome) -> Result<bool, KvError> {
    outcome.and_then(|answer| match answer {
        KvAnswer::Was(was) => Ok(was),
        other => Err(unexpected(other)),
    })
}

pub(super) fn number(outcome: KvOutcome) -> Result<i64, KvError> {
    outcome.and_then(|answer| match answer {
        KvAnswer::Number(number) => Ok(number),
        other => Err(unexpected(other)),
    })
}

pub(super) fn keys(outcome: KvOutcome) -> Result<(Vec<String>, Option<String>), KvError> {
    outcome.and_then(|answer| match answer {
        KvAnswer::Keys(keys, cursor) => Ok((keys, cursor)),
        other => Err(unexpected(other)),
    })
}

impl kv::Host for View<'_, Kv> {
    fn open(&mut self, name: String) -> Result<Result<Resource<Bucket>, Error>> {
        Ok(self.open_bucket(&name)?.map_err(Error::from))
    }
}

impl kv::HostBucket for View<'_, Kv> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<Option<Vec<u8>>, Error>> {
        Ok(value(self.kv(&bucket, KvOp::Get { key }).await?).map_err(Error::from))
    }

    async fn set(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        value: Vec<u8>,
        ttl: Option<u64>,
    ) -> Result<Result<(), Error>> {
        let op = KvOp::Set { key, value: KvValue(value), ttl };
        Ok(done(self.kv(&bucket, op).await?).map_err(Error::from))
    }

    async fn add(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        value: Vec<u8>,
        ttl: Option<u64>,
    ) -> Result<Result<bool, Error>> {
        let op = KvOp::Add { key, value: KvValue(value), ttl };
        Ok(was(self.kv(&bucket, op).await?).map_err(Error::from))
    }

    async fn increment(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        by: i64,
        ttl: Option<u64>,
    ) -> Result<Result<i64, Error>> {
        let op = KvOp::Increment { key, by, ttl };
        Ok(number(self.kv(&bucket, op).await?).map_err(Error::from))
    }

    async fn swap(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        current: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<Result<bool, Error>> {
        let op = KvOp::Swap { key, current: current.map(KvValue), value: KvValue(value) };
        Ok(was(self.kv(&bucket, op).await?).map_err(Error::from))
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Result<(), Error>> {
        Ok(done(self.kv(&bucket, KvOp::Delete { key }).await?).map_err(Error::from))
    }

    async fn keys(
        &mut self,
        bucket: Resource<Bucket>,
        prefix: String,
        cursor: Option<String>,
        limit: u32,
    ) -> Result<Result<(Vec<String>, Option<String>), Error>> {
        let op = KvOp::Keys { prefix, cursor, skip: 0, limit };
        Ok(keys(self.kv(&bucket, op).await?).map_err(Error::from))
    }

    fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
        self.kernel.table.delete(bucket)?;
        Ok(())
    }
}
