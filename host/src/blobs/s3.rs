//! The store in a bucket of S3, or of another server that speaks its protocol.
//!
//! Place in the flow: behind [`Store`](super::Store). `PREFIX/own/ENDPOINT/CONTAINER/NAME`: an object is one
//! of S3's, under its escaped name. In: names, and content in pieces. Out: likewise.
//! Invariants: an object is there when S3 has said that all of it is; what is given up is taken back; of an
//! object that is written at most one part is in memory, of one that is read a few pieces. How much an owner
//! holds is what was listed last, with what this host has written since.

mod client;
mod place;
mod sign;
mod xml;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::client::{Answer, Client, Failure};
pub use self::place::{Addressing, Credentials, S3Place};
use super::usage::{Held, Reservation, Usage};
use super::{BlobError, Container, Info, MOST_NAMES, OpenError, Page, Quota, name};
use crate::outbound::Body;

/// Bytes of a part; of an object that is not longer, all of it. S3 takes none below 5 MiB but the last.
const PART: usize = 8 << 20;
/// Most parts that S3 takes.
const MOST_PARTS: usize = 10_000;
/// Objects that are written at the same time, each with a part in memory.
const WRITERS: usize = 64;
/// After this time an owner's use is listed again, since other hosts may have changed it.
const LISTED: Duration = Duration::from_secs(60);
/// Longest key that S3 takes.
const LONGEST_KEY: usize = 1024;
/// How long the server is tried at the start, and the pause between two tries.
const START: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(300));

/// A store in S3.
pub(super) struct S3 {
    client: Client,
    prefix: String,
    owners: Mutex<HashMap<Arc<str>, Arc<Owner>>>,
    writers: Arc<Semaphore>,
}

/// The use of one owner, and when it was listed.
#[derive(Default)]
struct Owner {
    usage: Arc<Usage>,
    listed: tokio::sync::Mutex<Option<Instant>>,
}

impl S3 {
    /// Looks whether the bucket is there and may be read.
    pub(super) async fn open(place: &S3Place) -> Result<S3, OpenError> {
        let failed = |why: String, hint| OpenError { place: place.to_string(), why, hint };
        let client = Client::new(place).map_err(|error| {
            failed(error.to_string(), "`SSL_CERT_FILE` names a file with the certificates to trust")
        })?;
        let prefix = if place.prefix.is_empty() { String::new() } else { format!("{}/", place.prefix) };
        let begun = Instant::now();
        loop {
            let query = [("list-type", "2"), ("max-keys", "1"), ("prefix", &*prefix)];
            match client.send(Method::GET, "", &query, &[], Bytes::new()).await {
                Ok(_) => break,
                Err(Failure::Refused { status, code }) if status < 500 => {
                    let hint = match status {
                        404 => "the bucket has to be there before the host starts",
                        _ => {
                            "`blobs.access_key`, `blobs.secret_key` and `blobs.region` have to be those of the server"
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
        let writers = Arc::new(Semaphore::new(WRITERS));
        Ok(S3 { client, prefix, owners: Mutex::default(), writers })
    }

    /// Whether the last request was answered.
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

    /// The owner, whose use is known.
    async fn owner(&self, container: &Container) -> Result<Arc<Owner>, BlobError> {
        let owner = {
            let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            owners.entry(container.owner.clone()).or_default().clone()
        };
        let mut listed = owner.listed.lock().await;
        if listed.is_none_or(|listed| listed.elapsed() > LISTED) {
            let (mut held, mut token) = (Held::default(), None);
            let prefix = format!("{}{}/", self.prefix, container.owner);
            loop {
                let text = self.page(&prefix, token.as_deref()).await?;
                for size in xml::all(&text, "Size").filter_map(|size| size.parse::<u64>().ok()) {
                    (held.bytes, held.objects) = (held.bytes.saturating_add(size), held.objects + 1);
                }
                token = xml::first(&text, "NextContinuationToken");
                if token.is_none() {
                    break;
                }
            }
            owner.usage.set(held);
            *listed = Some(Instant::now());
        }
        drop(listed);
        Ok(owner)
    }

    /// A page of a listing.
    async fn page(&self, prefix: &str, token: Option<&str>) -> Result<String, BlobError> {
        let most = MOST_NAMES.to_string();
        let mut query = vec![("list-type", "2"), ("max-keys", &*most), ("prefix", prefix)];
        query.extend(token.map(|token| ("continuation-token", token)));
        Ok(self.client.send(Method::GET, "", &query, &[], Bytes::new()).await?.text().await?)
    }

    pub(super) async fn list(&self, container: &Container, from: Option<String>) -> Result<Page, BlobError> {
        let prefix = format!("{}{}/", self.prefix, container.path);
        let text = self.page(&prefix, from.as_deref()).await?;
        let keys = xml::all(&text, "Key");
        // What another program has put there has no name.
        let names = keys.filter_map(|key| name::unescaped(key.strip_prefix(&*prefix)?)).collect();
        Ok((names, xml::first(&text, "NextContinuationToken")))
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
            let size = self.info(container, name).await?.map(|info| info.size);
            match self.client.send(Method::DELETE, &key, &[], &[], Bytes::new()).await {
                Ok(_) | Err(Failure::Refused { status: 404, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((owner, size)) = owners.get(&container.owner).zip(size) {
                owner.usage.remove(size);
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
    ) -> Result<Option<(u64, Reader)>, BlobError> {
        let key = self.key(container, name)?;
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
                Ok(Some((size, Reader { body: Some(answer.into_body()), left: size })))
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
    ) -> Result<Writer, BlobError> {
        let key = self.key(container, name)?;
        let place = self.writers.clone().try_acquire_owned();
        let place =
            place.map_err(|_| BlobError::Unavailable("too many objects are being written".to_owned()))?;
        let owner = self.owner(container).await?;
        let replaced = self.info(container, name).await?.map(|info| info.size);
        let reservation = owner.usage.reserve(quota, replaced.is_none())?;
        let (s3, part) = (self.clone(), BytesMut::new());
        Ok(Writer { s3, key, replaced, reservation: Some(reservation), part, upload: None, _place: place })
    }
}

/// An object's content.
pub(super) struct Reader {
    body: Option<Body>,
    left: u64,
}

impl Reader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let Some(body) = self.body.as_mut().filter(|_| self.left > 0) else { return Ok(None) };
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
    key: String,
    replaced: Option<u64>,
    /// `None` once the object is there.
    reservation: Option<Reservation>,
    part: BytesMut,
    upload: Option<Parts>,
    _place: OwnedSemaphorePermit,
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
            reservation.grow(piece.len())?;
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
            let answer = self.s3.client.send(Method::POST, &self.key, &query, &[], document.into()).await?;
            // It begins with 200 and may end otherwise.
            let text = answer.text().await?;
            if let Some(code) = xml::first(&text, "Code").filter(|_| text.contains("<Error>")) {
                return Err(BlobError::Unavailable(format!("S3 has answered {code}")));
            }
            self.upload = None;
        }
        if let Some(reservation) = self.reservation.take() {
            reservation.commit(self.replaced);
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
    BlobError::Unavailable("S3 has answered something else".to_owned())
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
