//! `wasi:keyvalue`: the endpoint's buckets, for components that were made for other hosts.
//!
//! Place in the flow: linked with [`buckets`](super::buckets), whose grants and quotas it has; called while
//! any function of a handler runs. In: keys and values. Out: likewise.
//! Invariant: what one interface writes the other one reads; a value that is set here has no end.
//! Source: <https://github.com/WebAssembly/wasi-keyvalue>, in the drafts that are in use, which differ in the
//! cursor of a listing, in the numbers, and in `cas`.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::Result;
use wasmtime::component::{Linker, Resource};

use super::Kv;
use super::buckets::{done, keys, number, value, was};
use crate::kv::{Bucket, KvError, KvOp, KvValue, MOST_KEYS};
use crate::plugin::capability::{HasView, View};

mod draft {
    wasmtime::component::bindgen!({
        path: "wit/keyvalue/draft",
        world: "imports",
        imports: {
            "wasi:keyvalue/store.open": trappable,
            "wasi:keyvalue/store.[drop]bucket": trappable,
            default: async | trappable,
        },
        with: { "wasi:keyvalue/store.bucket": crate::kv::Bucket },
    });
}

mod draft2 {
    wasmtime::component::bindgen!({
        path: "wit/keyvalue/draft2",
        world: "imports",
        imports: {
            "wasi:keyvalue/store.open": trappable,
            "wasi:keyvalue/store.[drop]bucket": trappable,
            "wasi:keyvalue/atomics.[drop]cas": trappable,
            default: async | trappable,
        },
        with: {
            "wasi:keyvalue/store.bucket": crate::kv::Bucket,
            "wasi:keyvalue/atomics.cas": super::Cas,
        },
    });
}

/// Most values that a handler holds at the same time, to replace them.
const MOST_CAS: usize = 16;

/// A value as it was, to be replaced if it still is so.
#[derive(Debug)]
pub struct Cas {
    bucket: Bucket,
    key: String,
    current: Option<Vec<u8>>,
    place: OwnedSemaphorePermit,
}

/// Links both drafts.
pub(super) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> View<'_, Kv>,
) -> Result<()> {
    draft::wasi::keyvalue::store::add_to_linker::<_, HasView<Kv>>(linker, view)?;
    draft::wasi::keyvalue::atomics::add_to_linker::<_, HasView<Kv>>(linker, view)?;
    draft::wasi::keyvalue::batch::add_to_linker::<_, HasView<Kv>>(linker, view)?;
    draft2::wasi::keyvalue::store::add_to_linker::<_, HasView<Kv>>(linker, view)?;
    draft2::wasi::keyvalue::atomics::add_to_linker::<_, HasView<Kv>>(linker, view)?;
    draft2::wasi::keyvalue::batch::add_to_linker::<_, HasView<Kv>>(linker, view)
}

type Pairs = Vec<Option<(String, Vec<u8>)>>;

impl View<'_, Kv> {
    async fn get_many(
        &mut self,
        bucket: &Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Result<Pairs, KvError>> {
        if keys.len() > MOST_KEYS as usize {
            return Ok(Err(KvError::Limit(format!("more than {MOST_KEYS} keys in one call"))));
        }
        // Together at most what a handler may give to one call.
        let mut left = self.kernel.limits.output;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            match value(self.kv(bucket, KvOp::Get { key: key.clone() }).await?) {
                Ok(value) => {
                    let Some(less) = left.checked_sub(value.as_ref().map_or(0, Vec::len)) else {
                        return Ok(Err(KvError::Limit("values of more than `limits.output`".to_owned())));
                    };
                    left = less;
                    found.push(value.map(|value| (key, value)));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(found))
    }

    async fn set_many(
        &mut self,
        bucket: &Resource<Bucket>,
        pairs: Vec<(String, Vec<u8>)>,
    ) -> Result<Result<(), KvError>> {
        let pairs = pairs.into_iter().map(|(key, value)| (key, KvValue(value))).collect();
        Ok(done(self.kv(bucket, KvOp::SetMany { pairs }).await?))
    }

    /// Adds to a number.
    async fn add_to(
        &mut self,
        bucket: &Resource<Bucket>,
        key: String,
        by: i64,
    ) -> Result<Result<i64, KvError>> {
        Ok(number(self.kv(bucket, KvOp::Increment { key, by, ttl: None }).await?))
    }
}

/// The functions that both drafts have.
macro_rules! common {
    ($draft:ident, $cursor:ty, $page:expr, $next:expr) => {
        impl From<KvError> for $draft::wasi::keyvalue::store::Error {
            fn from(error: KvError) -> Self {
                match error {
                    KvError::NoSuchBucket(_) => Self::NoSuchStore,
                    other => Self::Other(other.to_string()),
                }
            }
        }

        impl $draft::wasi::keyvalue::store::Host for View<'_, Kv> {
            fn open(
                &mut self,
                name: String,
            ) -> Result<Result<Resource<Bucket>, $draft::wasi::keyvalue::store::Error>> {
                Ok(self.open_bucket(&name)?.map_err(Into::into))
            }
        }

        impl $draft::wasi::keyvalue::store::HostBucket for View<'_, Kv> {
            async fn get(
                &mut self,
                bucket: Resource<Bucket>,
                key: String,
            ) -> Result<Result<Option<Vec<u8>>, $draft::wasi::keyvalue::store::Error>> {
                Ok(value(self.kv(&bucket, KvOp::Get { key }).await?).map_err(Into::into))
            }

            async fn set(
                &mut self,
                bucket: Resource<Bucket>,
                key: String,
                value: Vec<u8>,
            ) -> Result<Result<(), $draft::wasi::keyvalue::store::Error>> {
                let op = KvOp::Set { key, value: KvValue(value), ttl: None };
                Ok(done(self.kv(&bucket, op).await?).map_err(Into::into))
            }

            async fn delete(
                &mut self,
                bucket: Resource<Bucket>,
                key: String,
            ) -> Result<Result<(), $draft::wasi::keyvalue::store::Error>> {
                Ok(done(self.kv(&bucket, KvOp::Delete { key }).await?).map_err(Into::into))
            }

            async fn exists(
                &mut self,
                bucket: Resource<Bucket>,
                key: String,
            ) -> Result<Result<bool, $draft::wasi::keyvalue::store::Error>> {
                let found = value(self.kv(&bucket, KvOp::Get { key }).await?);
                Ok(found.map(|value| value.is_some()).map_err(Into::into))
            }

            async fn list_keys(
                &mut self,
                bucket: Resource<Bucket>,
                cursor: Option<$cursor>,
            ) -> Result<
                Result<$draft::wasi::keyvalue::store::KeyResponse, $draft::wasi::keyvalue::store::Error>,
            > {
                let page: fn(Option<$cursor>) -> (Option<String>, u64) = $page;
                let next: fn(u64, usize, Option<String>) -> Option<$cursor> = $next;
                let (cursor, skip) = page(cursor);
                let op = KvOp::Keys { prefix: String::new(), cursor, skip, limit: MOST_KEYS };
                let found = keys(self.kv(&bucket, op).await?);
                Ok(found
                    .map(|(keys, cursor)| {
                        let cursor = next(skip, keys.len(), cursor);
                        $draft::wasi::keyvalue::store::KeyResponse { keys, cursor }
                    })
                    .map_err(Into::into))
            }

            fn drop(&mut self, bucket: Resource<Bucket>) -> Result<()> {
                self.kernel.table.delete(bucket)?;
                Ok(())
            }
        }

        impl $draft::wasi::keyvalue::batch::Host for View<'_, Kv> {
            async fn get_many(
                &mut self,
                bucket: Resource<Bucket>,
                keys: Vec<String>,
            ) -> Result<Result<Pairs, $draft::wasi::keyvalue::store::Error>> {
                Ok(View::get_many(self, &bucket, keys).await?.map_err(Into::into))
            }

            async fn set_many(
                &mut self,
                bucket: Resource<Bucket>,
                pairs: Vec<(String, Vec<u8>)>,
            ) -> Result<Result<(), $draft::wasi::keyvalue::store::Error>> {
                Ok(View::set_many(self, &bucket, pairs).await?.map_err(Into::into))
            }

            async fn delete_many(
                &mut self,
                bucket: Resource<Bucket>,
                keys: Vec<String>,
            ) -> Result<Result<(), $draft::wasi::keyvalue::store::Error>> {
                Ok(done(self.kv(&bucket, KvOp::DeleteMany { keys }).await?).map_err(Into::into))
            }
        }
    };
}

common!(draft, u64, |cursor| (None, cursor.unwrap_or(0)), |skip, found, cursor| cursor
    .map(|_| skip.saturating_add(found as u64)));
common!(draft2, String, |cursor| (cursor, 0), |_, _, cursor| cursor);

impl draft::wasi::keyvalue::atomics::Host for View<'_, Kv> {
    async fn increment(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        delta: u64,
    ) -> Result<Result<u64, draft::wasi::keyvalue::store::Error>> {
        let beyond = || KvError::Invalid("the number is beyond 63 bits, or negative".to_owned());
        let sum = match i64::try_from(delta) {
            Ok(by) => self.add_to(&bucket, key, by).await?,
            Err(_) => Err(beyond()),
        };
        Ok(sum.and_then(|sum| u64::try_from(sum).map_err(|_| beyond())).map_err(Into::into))
    }
}

use draft2::wasi::keyvalue::atomics::{CasError, Host as Atomics, HostCas};

impl Atomics for View<'_, Kv> {
    async fn increment(
        &mut self,
        bucket: Resource<Bucket>,
        key: String,
        delta: i64,
    ) -> Result<Result<i64, draft2::wasi::keyvalue::store::Error>> {
        Ok(self.add_to(&bucket, key, delta).await?.map_err(Into::into))
    }

    async fn swap(&mut self, cas: Resource<Cas>, new: Vec<u8>) -> Result<Result<(), CasError>> {
        let Cas { bucket, key, current, place } = self.kernel.table.delete(cas)?;
        self.kernel.count_host_call();
        let op = KvOp::Swap { key: key.clone(), current: current.map(KvValue), value: KvValue(new) };
        match was(self.kv_at(&bucket, op).await?) {
            Ok(true) => Ok(Ok(())),
            // To try again with: the value as it is now.
            Ok(false) => match value(self.kv_at(&bucket, KvOp::Get { key: key.clone() }).await?) {
                Ok(current) => {
                    let again = self.kernel.table.push(Cas { bucket, key, current, place })?;
                    Ok(Err(CasError::CasFailed(again)))
                }
                Err(error) => Ok(Err(CasError::StoreError(error.into()))),
            },
            Err(error) => Ok(Err(CasError::StoreError(error.into()))),
        }
    }
}

impl HostCas for View<'_, Kv> {
    async fn new(
        &mut self,
        handle: Resource<Bucket>,
        key: String,
    ) -> Result<Result<Resource<Cas>, draft2::wasi::keyvalue::store::Error>> {
        let bucket = self.kernel.table.get(&handle)?.clone();
        let places = self.state.cas_places.get_or_insert_with(|| Arc::new(Semaphore::new(MOST_CAS))).clone();
        let Ok(place) = places.try_acquire_owned() else {
            let text = format!("more than {MOST_CAS} values are held to be replaced");
            return Ok(Err(KvError::Limit(text).into()));
        };
        match value(self.kv(&handle, KvOp::Get { key: key.clone() }).await?) {
            Ok(current) => Ok(Ok(self.kernel.table.push(Cas { bucket, key, current, place })?)),
            Err(error) => Ok(Err(error.into())),
        }
    }

    async fn current(
        &mut self,
        cas: Resource<Cas>,
    ) -> Result<Result<Option<Vec<u8>>, draft2::wasi::keyvalue::store::Error>> {
        Ok(Ok(self.kernel.table.get(&cas)?.current.clone()))
    }

    fn drop(&mut self, cas: Resource<Cas>) -> Result<()> {
        self.kernel.table.delete(cas)?;
        Ok(())
    }
}
