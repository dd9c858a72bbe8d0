//! What is asked of a server of objects, one method each.
//!
//! Place in the flow: below [`super`], above `object_store`. In: a key and what is to be done. Out: what the
//! server returned, or a [`Failure`]. Invariants: whether the store can be used is what the last request has
//! shown; a request whose key is refused is made once again if there is another key by then; what hashes a
//! large body leaves the worker.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{GetOptions, GetResult, MultipartId, ObjectStoreExt as _, PutOptions, PutPayload};

use super::failure::Failure;
use super::keys::CurrentCredentials;
use super::place::BucketPlace;
use super::server::{Server, Variables, server};
use crate::outbound::OutboundError;
use crate::throttle::Throttle;

/// The way to a bucket.
pub(super) struct Client {
    server: Arc<dyn Server>,
    /// The operator's, if it may be replaced.
    keys: Option<Arc<CurrentCredentials>>,
    timeout: Duration,
    is_up: AtomicBool,
    /// Of lines about a store that cannot be used.
    failures: Throttle,
    /// Whether the last line was one of them.
    is_told_down: AtomicBool,
}

impl Client {
    pub(super) async fn new(place: &BucketPlace, variables: Variables<'_>) -> io::Result<Client> {
        let (server, keys) = server(place, variables).await?;
        Ok(Client {
            server,
            keys,
            timeout: place.timeout,
            is_up: AtomicBool::new(true),
            failures: Throttle::default(),
            is_told_down: AtomicBool::new(false),
        })
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the last request was served.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// A page of a listing: at most so many objects whose keys begin so.
    pub(super) async fn list(
        &self,
        prefix: &str,
        most: usize,
        token: Option<&str>,
    ) -> Result<PaginatedListResult, Failure> {
        let options = || PaginatedListOptions {
            max_keys: Some(most),
            page_token: token.map(str::to_owned),
            ..PaginatedListOptions::default()
        };
        self.ask(|| self.server.list_paginated(Some(prefix), options())).await
    }

    pub(super) async fn get(&self, key: &Path, options: GetOptions) -> Result<GetResult, Failure> {
        self.ask(|| self.server.get_opts(key, options.clone())).await
    }

    pub(super) async fn delete(&self, key: &Path) -> Result<(), Failure> {
        self.ask(|| self.server.delete(key)).await
    }

    pub(super) async fn put(&self, key: &Path, content: Bytes) -> Result<(), Failure> {
        let put = || self.server.put_opts(key, PutPayload::from(content.clone()), PutOptions::default());
        self.ask(|| hashed(content.len(), put())).await.map(drop)
    }

    /// Begins an upload in parts.
    pub(super) async fn begin(&self, key: &Path) -> Result<MultipartId, Failure> {
        self.ask(|| self.server.create_multipart(key)).await
    }

    pub(super) async fn put_part(
        &self,
        key: &Path,
        upload: &MultipartId,
        index: usize,
        part: Bytes,
    ) -> Result<PartId, Failure> {
        let put = || self.server.put_part(key, upload, index, PutPayload::from(part.clone()));
        self.ask(|| hashed(part.len(), put())).await
    }

    pub(super) async fn complete(
        &self,
        key: &Path,
        upload: &MultipartId,
        parts: &[PartId],
    ) -> Result<(), Failure> {
        self.ask(|| self.server.complete_multipart(key, upload, parts.to_vec())).await.map(drop)
    }

    pub(super) async fn abort(&self, key: &Path, upload: &MultipartId) -> Result<(), Failure> {
        self.ask(|| self.server.abort_multipart(key, upload)).await
    }

    /// Makes a request; once again if its key has been refused and replaced.
    async fn ask<T, F>(&self, request: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let used = self.keys.as_ref().map(|keys| keys.used());
        let mut answer = request().await.map_err(Failure::from);
        let is_key_refused = answer.as_ref().err().is_some_and(Failure::is_about_the_credentials);
        if let (true, Some(keys), Some(used)) = (is_key_refused, &self.keys, used)
            && keys.replaced(&used).await
        {
            answer = request().await.map_err(Failure::from);
        }
        let is_up = match &answer {
            // The server has not been asked.
            Err(Failure::Silent(OutboundError::TooMany)) => return answer,
            Ok(_) => true,
            Err(failure) => failure.is_about_the_request(),
        };
        if self.is_up.swap(is_up, Ordering::Relaxed) != is_up {
            self.tell(answer.as_ref().err().filter(|_| !is_up));
        }
        answer
    }

    /// Says in the log that the store cannot be used, or can be again: now and then, since it may change with
    /// every request.
    fn tell(&self, failure: Option<&Failure>) {
        match failure {
            Some(failure) if self.failures.is_due() => {
                self.is_told_down.store(true, Ordering::Relaxed);
                tracing::error!("the store of objects cannot be used: {}", failure.detail());
            }
            Some(_) => {}
            None if self.is_told_down.swap(false, Ordering::Relaxed) => {
                tracing::info!("the store of objects can be used again");
            }
            None => {}
        }
    }
}

/// Waits for a request whose first step is to hash so many bytes.
async fn hashed<F: Future>(bytes: usize, request: F) -> F::Output {
    let mut request = pin!(request);
    let first = std::future::poll_fn(|context| {
        Poll::Ready(crate::blocking::if_large(bytes, || request.as_mut().poll(context)))
    });
    match first.await {
        Poll::Ready(answer) => answer,
        Poll::Pending => request.await,
    }
}
