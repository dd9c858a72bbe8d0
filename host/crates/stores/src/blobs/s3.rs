//! The store in a bucket of S3, or of another server that speaks its protocol.
//!
//! Place in the flow: behind [`Store`](super::Store). `PREFIX/own/ENDPOINT/CONTAINER/NAME`: an object is one
//! of S3's, under its escaped name. In: names, and content in pieces. Out: likewise.
//! Invariants: an object is there when S3 has said that all of it is; what is given up is taken back; of an
//! object that is written at most one part is in memory, of one that is read a few pieces. How much an owner
//! holds is what was listed last, with all that this host has written since: what was replaced or removed is
//! known by the next listing, which a write waits for that would be refused without.

mod client;
mod credentials;
mod place;
mod sign;
#[cfg(test)]
mod tests;
mod xml;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::client::{Answer, Client, Failure};
pub use self::credentials::{CredentialFiles, Credentials};
pub use self::place::{Addressing, S3Place};
use super::usage::{Held, Reservation, Usage};
use super::{BlobError, Container, Info, MOST_NAMES, MOST_PAGES, OpenError, Page, Quota, name};
use crate::outbound::Body;

/// Bytes of a part; of an object that is not longer, all of it. S3 takes none below 5 MiB but the last.
const PART: usize = 8 << 20;
/// Most parts that S3 takes.
const MOST_PARTS: usize = 10_000;
/// Objects that are written at the same time, each with a part in memory: by all endpoints, and by one.
const WRITERS: (usize, usize) = (64, 32);
/// Objects that are read at the same time, each with a connection: likewise.
const READERS: (usize, usize) = (128, 32);
/// Requests at the same time: more than there are readers, so that those who read slowly stop no others.
const REQUESTS: usize = 256;
/// After this time an owner's use is listed again, since other hosts may have changed it.
const LISTED: Duration = Duration::from_secs(60);
/// How long a listing that has failed counts for the writes that have waited for it.
const FAILED: Duration = Duration::from_secs(1);
/// Longest key that S3 takes.
const LONGEST_KEY: usize = 1024;
/// How long the server is tried at the start, and the pause between two tries.
const START: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(300));

/// A store in S3.
pub(super) struct S3 {
    client: Client,
    prefix: String,
    owners: Mutex<HashMap<Arc<str>, Arc<Owner>>>,
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
}

/// The use of one owner, and its last listing.
#[derive(Default)]
struct Owner {
    usage: Arc<Usage>,
    /// Held while it is listed, by a task that no request can end early.
    listed: Arc<tokio::sync::Mutex<Option<Listed>>>,
}

/// When a listing has ended, and how.
struct Listed {
    ended: Instant,
    outcome: Result<(), BlobError>,
}

impl Listed {
    /// The outcome, as long as it counts.
    fn outcome(&self) -> Option<Result<(), BlobError>> {
        let lasts = if self.outcome.is_ok() { LISTED } else { FAILED };
        (self.ended.elapsed() <= lasts).then(|| self.outcome.clone())
    }
}

/// The places of one endpoint among those who read and write.
#[derive(Clone)]
pub(super) struct Places {
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Places {
        Places { readers: Arc::new(Semaphore::new(READERS.1)), writers: Arc::new(Semaphore::new(WRITERS.1)) }
    }
}

/// A place of the endpoint's own, and one among all.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Takes a place, for something that is `done`.
fn place(own: &Arc<Semaphore>, all: &Arc<Semaphore>, done: &str) -> Result<Place, BlobError> {
    let own = own.clone().try_acquire_owned();
    let own = own.map_err(|_| BlobError::Limit(format!("too many objects of the endpoint are {done}")))?;
    let all = all.clone().try_acquire_owned();
    let all = all.map_err(|_| BlobError::Unavailable(format!("too many objects are {done}")))?;
    Ok((own, all))
}

impl S3 {
    /// Looks whether the bucket is there and may be read.
    pub(super) async fn open(place: &S3Place) -> Result<S3, OpenError> {
        let failed = |why: String, hint| OpenError { place: place.to_string(), why, hint };
        let client = Client::new(place).await.map_err(|error| {
            failed(error.to_string(), "`SSL_CERT_FILE` names a file with the certificates to trust")
        })?;
        let prefix = if place.prefix.is_empty() { String::new() } else { format!("{}/", place.prefix) };
        let begun = Instant::now();
        loop {
            let query = [("list-type", "2"), ("max-keys", "1"), ("prefix", &*prefix)];
            match client.send(Method::GET, "", &query, &[], Bytes::new()).await {
                Ok(_) => break,
                Err(Failure::Refused { status, code, .. }) if status < 500 => {
                    let hint = match status {
                        404 => "the bucket has to be there before the host starts",
                        _ => {
                            "`blobs.access_key`, `blobs.secret_key` and `blobs.region` have to be those of \
                             the server"
                        }
                    };
                    return Err(failed(format!("the server has answered {status} {code}"), hint));
                }
                Err(error) if begun.elapsed() > START.0 => {
                    return Err(failed(error.to_string(), "`blobs.server` is where S3 is spoken"));
                }
                Err(_) => tokio::time::sleep(START.1).await,
            }
        }
        let (readers, writers) = (Arc::new(Semaphore::new(READERS.0)), Arc::new(Semaphore::new(WRITERS.0)));
        Ok(S3 { client, prefix, owners: Mutex::default(), readers, writers })
    }

    /// Whether the last request was served.
    pub(super) fn is_up(&self) -> bool {
        self.client.is_up()
    }

    fn key(&self, container: &Container, name: &str) -> Result<String, BlobError> {
        let key = format!("{}{}/{}", self.prefix, container.path, name::escaped(name));
        match key.len() > LONGEST_KEY {
            false => Ok(key),
            true => Err(BlobError::Invalid(
                "a name that is too long for S3 with what is escaped in it".to_owned(),
            )),
        }
    }

    fn owner(&self, name: &Arc<str>) -> Arc<Owner> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.entry(name.clone()).or_default().clone()
    }

    /// Makes sure that the owner's use is known: that it was listed not long ago; `is_anew`: since something
    /// was removed.
    async fn known(self: &Arc<S3>, name: &Arc<str>, is_anew: bool) -> Result<(), BlobError> {
        let owner = self.owner(name);
        let is_needed = move |owner: &Owner| is_anew && owner.usage.is_stale();
        if !is_needed(&owner)
            && let Ok(listed) = owner.listed.try_lock()
            && let Some(Ok(())) = listed.as_ref().and_then(Listed::outcome)
        {
            return Ok(());
        }
        let (s3, own, name) = (self.clone(), owner.clone(), name.clone());
        let listing = tokio::spawn(async move {
            let mut listed = own.listed.lock().await;
            match listed.as_ref().and_then(Listed::outcome) {
                // Of one that others have waited for too.
                Some(outcome) if outcome.is_err() || !is_needed(&own) => outcome,
                _ => {
                    own.usage.begin();
                    let outcome = s3.listed(&name).await.map(|held| own.usage.end(held));
                    *listed = Some(Listed { ended: Instant::now(), outcome: outcome.clone() });
                    outcome
                }
            }
        });
        // A long one goes on meanwhile, for the next who asks.
        match tokio::time::timeout(self.client.timeout(), listing).await {
            Ok(Ok(outcome)) => outcome,
            _ => Err(BlobError::Unavailable("what it holds is still being listed".to_owned())),
        }
    }

    /// Lists all that an owner has.
    async fn listed(&self, owner: &str) -> Result<Held, BlobError> {
        let (mut held, mut token) = (Held::default(), None);
        let prefix = format!("{}{owner}/", self.prefix);
        for _ in 0..MOST_PAGES {
            let (text, next) = self.page(&prefix, token.as_deref()).await?;
            for size in xml::all(&text, "Size").filter_map(|size| size.parse::<u64>().ok()) {
                (held.bytes, held.objects) = (held.bytes.saturating_add(size), held.objects + 1);
            }
            if next.is_none() {
                return Ok(held);
            }
            token = next;
        }
        Err(BlobError::Unavailable(format!("S3 lists more than {MOST_PAGES} pages")))
    }

    /// Reserves what a write adds; if there is no room, once more when it is known what was removed.
    async fn reserved<T>(
        self: &Arc<S3>,
        owner: &Arc<str>,
        mut reserve: impl FnMut(&Arc<Usage>) -> Result<T, BlobError>,
    ) -> Result<T, BlobError> {
        let usage = self.owner(owner).usage.clone();
        match reserve(&usage) {
            Err(BlobError::Limit(_)) if usage.is_stale() => {
                self.known(owner, true).await?;
                reserve(&usage)
            }
            outcome => outcome,
        }
    }

    /// A page of a listing, and the token of the next one.
    async fn page(&self, prefix: &str, token: Option<&str>) -> Result<(String, Option<String>), BlobError> {
        let most = MOST_NAMES.to_string();
        let mut query = vec![("list-type", "2"), ("max-keys", &*most), ("prefix", prefix)];
        query.extend(token.map(|token| ("continuation-token", token)));
        let text = self.client.send(Method::GET, "", &query, &[], Bytes::new()).await?.text().await?;
        // A proxy's page, or half a listing, would be an empty container.
        if !text.contains("<ListBucketResult") || !text.trim_end().ends_with("</ListBucketResult>") {
            return Err(unexpected());
        }
        let next = xml::first(&text, "NextContinuationToken");
        match next.is_some() && next.as_deref() == token {
            // It would never end.
            true => Err(BlobError::Unavailable("S3 lists the same page again".to_owned())),
            false => Ok((text, next)),
        }
    }

    pub(super) async fn list(&self, container: &Container, from: Option<String>) -> Result<Page, BlobError> {
        let prefix = format!("{}{}/", self.prefix, container.path);
        let (text, next) = self.page(&prefix, from.as_deref()).await?;
        let keys = xml::all(&text, "Key");
        // What another program has put there has no name.
        let names = keys.filter_map(|key| name::unescaped(key.strip_prefix(&*prefix)?)).collect();
        Ok((names, next))
    }

    pub(super) async fn info(&self, container: &Container, name: &str) -> Result<Option<Info>, BlobError> {
        let key = self.key(container, name)?;
        match self.client.send(Method::HEAD, &key, &[], &[], Bytes::new()).await {
            Ok(answer) => {
                let size = answer.header("content-length").and_then(|length| length.parse().ok());
                let created = answer.header("last-modified").and_then(|time| xml::http_date(&time));
                Ok(Some(Info { size: size.unwrap_or(0), created: created.unwrap_or(0) }))
            }
            Err(Failure::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn delete(&self, container: &Container, names: &[String]) -> Result<(), BlobError> {
        for name in names {
            let key = self.key(container, name)?;
            let outcome = self.client.send(Method::DELETE, &key, &[], &[], Bytes::new()).await;
            // Also if no answer has come.
            self.owner(&container.owner).usage.note_removed();
            match outcome {
                Ok(_) | Err(Failure::Refused { status: 404, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) async fn read(
        &self,
        container: &Container,
        name: &str,
        first: u64,
        last: u64,
        places: &Places,
    ) -> Result<Option<(u64, Reader)>, BlobError> {
        let key = self.key(container, name)?;
        let place = place(&places.readers, &self.readers, "being read")?;
        let range = match (first, last) {
            (0, u64::MAX) => None,
            (_, u64::MAX) => Some(("range", format!("bytes={first}-"))),
            _ => Some(("range", format!("bytes={first}-{last}"))),
        };
        let headers: Vec<(&str, String)> = range.into_iter().collect();
        match self.client.send(Method::GET, &key, &[], &headers, Bytes::new()).await {
            Ok(answer) => {
                let size = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
                let Some(size) = size else {
                    return Err(BlobError::Unavailable("S3 has not said how long the object is".to_owned()));
                };
                // Some give all of an object where it is within the range.
                let is_within = answer.status() == 206 || first == 0 && size <= last.saturating_add(1);
                if !headers.is_empty() && !is_within {
                    return Err(BlobError::Unavailable("S3 has given more than the range".to_owned()));
                }
                Ok(Some((size, Reader { body: Some((answer.into_body(), place)), left: size })))
            }
            Err(Failure::Refused { status: 404, .. }) => Ok(None),
            // Behind the end, or of an object without content.
            Err(Failure::Refused { status: 416, .. }) => Ok(Some((0, Reader { body: None, left: 0 }))),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn writer(
        self: &Arc<S3>,
        container: &Container,
        name: &str,
        quota: Quota,
        places: &Places,
    ) -> Result<Writer, BlobError> {
        let key = self.key(container, name)?;
        let place = place(&places.writers, &self.writers, "being written")?;
        let is_new = self.info(container, name).await?.is_none();
        self.known(&container.owner, false).await?;
        let reserve = |usage: &Arc<Usage>| usage.reserve(quota, is_new);
        let reservation = Some(self.reserved(&container.owner, reserve).await?);
        let (s3, owner, part) = (self.clone(), container.owner.clone(), BytesMut::new());
        Ok(Writer { s3, owner, key, reservation, part, upload: None, _place: place })
    }
}

/// An object's content.
pub(super) struct Reader {
    /// Until its end.
    body: Option<(Body, Place)>,
    left: u64,
}

impl Reader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        if self.left == 0 {
            self.body = None;
        }
        let Some((body, _)) = &mut self.body else { return Ok(None) };
        let broken = || BlobError::Unavailable("the connection to S3 has failed".to_owned());
        loop {
            let frame = body.frame().await.ok_or_else(broken)?.map_err(|_| broken())?;
            if let Ok(piece) = frame.into_data()
                && !piece.is_empty()
            {
                self.left = self.left.saturating_sub(piece.len() as u64);
                return Ok(Some(piece));
            }
        }
    }
}

/// An object that is being written: in one request if it is no longer than a part.
pub(super) struct Writer {
    s3: Arc<S3>,
    /// The name of the owner.
    owner: Arc<str>,
    key: String,
    /// `None` once the object is there.
    reservation: Option<Reservation>,
    part: BytesMut,
    upload: Option<Parts>,
    _place: Place,
}

/// An upload in parts.
struct Parts {
    id: String,
    /// S3's name of each part that it has.
    tags: Vec<String>,
}

impl Writer {
    pub(super) async fn write(&mut self, mut piece: &[u8]) -> Result<(), BlobError> {
        if let Some(reservation) = &mut self.reservation {
            self.s3.reserved(&self.owner, |_| reservation.grow(piece.len())).await?;
        }
        while self.part.len() + piece.len() > PART {
            let (now, later) = piece.split_at(PART.saturating_sub(self.part.len()));
            self.part.extend_from_slice(now);
            piece = later;
            self.send_part().await?;
        }
        self.part.extend_from_slice(piece);
        Ok(())
    }

    async fn send_part(&mut self) -> Result<(), BlobError> {
        let client = &self.s3.client;
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => {
                let answer =
                    client.send(Method::POST, &self.key, &[("uploads", "")], &[], Bytes::new()).await?;
                let id = xml::first(&answer.text().await?, "UploadId").ok_or_else(unexpected)?;
                self.upload.insert(Parts { id, tags: Vec::new() })
            }
        };
        let number = upload.tags.len() + 1;
        if number > MOST_PARTS {
            return Err(BlobError::Limit(format!("an object of more than {MOST_PARTS} parts")));
        }
        let number = number.to_string();
        let query = [("partNumber", &*number), ("uploadId", &*upload.id)];
        let answer = client.send(Method::PUT, &self.key, &query, &[], self.part.split().freeze()).await?;
        upload.tags.push(answer.header("etag").ok_or_else(unexpected)?);
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<(), BlobError> {
        if self.upload.is_none() {
            let content = self.part.split().freeze();
            self.s3.client.send(Method::PUT, &self.key, &[], &[], content).await?;
        } else {
            self.send_part().await?;
            let upload = self.upload.as_ref().ok_or_else(unexpected)?;
            let mut document = "<CompleteMultipartUpload>".to_owned();
            for (number, tag) in (1..).zip(&upload.tags) {
                let tag = xml::escaped(tag);
                document += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
            }
            document += "</CompleteMultipartUpload>";
            let query = [("uploadId", &*upload.id)];
            let (document, mut retries) = (Bytes::from(document), self.s3.client.retries());
            loop {
                let sent = self.s3.client.send(Method::POST, &self.key, &query, &[], document.clone());
                // It begins with 200 and may end otherwise.
                let text = sent.await?.text().await?;
                if text.contains("<CompleteMultipartUploadResult") {
                    break;
                }
                let code = xml::first(&text, "Code").filter(|_| text.contains("<Error>"));
                let code = client::tame(code.ok_or_else(unexpected)?);
                if !client::is_transient(&code) || !retries.pause(None).await {
                    return Err(BlobError::Unavailable(format!("S3 has answered {code}")));
                }
            }
            self.upload = None;
        }
        if let Some(reservation) = self.reservation.take() {
            reservation.commit_added();
        }
        Ok(())
    }
}

impl Drop for Writer {
    /// Takes back the parts of an object that has no end.
    fn drop(&mut self) {
        if let Some(Parts { id, .. }) = self.upload.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (s3, key) = (self.s3.clone(), std::mem::take(&mut self.key));
            runtime.spawn(async move {
                // What stays is for the bucket's rule for unfinished uploads.
                let _ = s3.client.send(Method::DELETE, &key, &[("uploadId", &*id)], &[], Bytes::new()).await;
            });
        }
    }
}

fn unexpected() -> BlobError {
    BlobError::Unavailable("S3 sent an unexpected response".to_owned())
}

impl From<Failure> for BlobError {
    fn from(failure: Failure) -> BlobError {
        BlobError::Unavailable(failure.to_string())
    }
}

impl Answer {
    /// The document that it is.
    async fn text(self) -> Result<String, Failure> {
        let bytes = self.into_bytes().await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
