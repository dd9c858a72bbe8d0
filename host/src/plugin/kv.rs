//! `kv`: the values of the endpoint's buckets, asked for by the guest.
//!
//! Place in the flow: called while any function of a handler runs; beside
//! [`wasi_keyvalue`](super::wasi_keyvalue), which takes the same way. In: an operation on a bucket. Out: its
//! answer: the store's, or that of an earlier or a recorded run.
//! Invariants: only a client's request writes to the store; what any other run writes is seen by itself
//! alone. Waiting for the store holds no thread, and counts as no computing.

use wasmtime::Result;
use wasmtime::component::Resource;

use super::bindings::modelhost::handler::kv::{self, Error};
use super::deadline::DeadlineExceeded;
use super::host_call_log::KvSource;
use super::state::State;
use crate::kv::{Bucket, KvAnswer, KvError, KvOp, KvOutcome, KvValue};
use crate::request::dependencies::Dependency;
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

impl State {
    /// Opens a bucket.
    pub(super) fn open_bucket(&mut self, name: &str) -> Result<Result<Resource<Bucket>, KvError>> {
        let none = || KvError::NoSuchBucket(shown(name));
        match self.loaded.config.kv.as_ref().ok_or_else(none).and_then(|kv| kv.open(name)) {
            Ok(bucket) => Ok(Ok(self.table().push(bucket)?)),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Does this with a bucket.
    pub(super) async fn kv(&mut self, handle: &Resource<Bucket>, op: KvOp) -> Result<KvOutcome> {
        self.count_host_call();
        let bucket = self.table().get(handle)?.clone();
        self.kv_at(&bucket, op).await
    }

    /// The same without a handle.
    pub(super) async fn kv_at(&mut self, bucket: &Bucket, op: KvOp) -> Result<KvOutcome> {
        self.depends_on(Dependency::Kv);
        let Some(kv) = self.loaded.config.kv.clone() else {
            return Ok(Err(KvError::NoSuchBucket(bucket.name().to_owned())));
        };
        let log = self.calls_log.clone();
        let source = log.as_ref().map(|log| log.kv_called(bucket.name(), &op));
        let number = match source {
            None => None,
            Some(KvSource::Live(number)) => Some(number),
            Some(KvSource::Known(outcome)) => {
                // What the run asks next may depend on it.
                if op.is_write() {
                    let _ = self.written.values.get_or_insert_default().call(&kv, bucket, op).await;
                }
                return Ok(outcome);
            }
            Some(KvSource::Recorded(outcome)) => return Ok(outcome),
            Some(KvSource::CutOff) => return Err(DeadlineExceeded::Cpu.into()),
            Some(KvSource::Diverged) => {
                return Err(wasmtime::Error::msg("the handler has left its recording"));
            }
        };
        let operation = op.number();
        let outcome = match self.calls_out {
            true => kv.call(bucket, op).await,
            false => self.written.values.get_or_insert_default().call(&kv, bucket, op).await,
        };
        if let Some(calls) = &self.loaded.config.kv_calls {
            calls.count(operation, outcome.is_ok());
        }
        if let Some((log, number)) = log.zip(number) {
            log.kv_answered(number, &outcome);
        }
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

impl kv::Host for State {
    fn open(&mut self, name: String) -> Result<Result<Resource<Bucket>, Error>> {
        Ok(self.open_bucket(&name)?.map_err(Error::from))
    }
}

impl kv::HostBucket for State {
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
        self.table().delete(bucket)?;
        Ok(())
    }
}
