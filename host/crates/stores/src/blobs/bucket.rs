//! The store in a bucket: of S3 or a server that speaks its protocol, of Google Cloud Storage, of Azure.
//!
//! Place in the flow: behind [`Store`](super::Store). `PREFIX/own/ENDPOINT/CONTAINER/NAME`: an object is one
//! of the bucket's, under its escaped name. In: names, and content in pieces. Out: likewise.
//! Invariants: an object is there when the server has said that all of it is; what is given up is taken back;
//! of an object that is written at most one part is in memory, of one that is read a few pieces. How much an
//! owner holds is what was listed last, with all that this host has written since: what was replaced or
//! removed is known by the next listing, which a write waits for that would be refused without.

mod client;
mod failure;
mod keys;
mod place;
mod server;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, MultipartId, ObjectMeta};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::client::Client;
use self::failure::Failure;
pub use self::keys::{CredentialFiles, Credentials};
pub use self::place::{Addressing, BucketPlace, Cloud};
use self::server::Variables;
use super::usage::{Held, Reservation, Usage};
use super::{BlobError, Container, Info, MOST_NAMES, MOST_PAGES, OpenError, Page, Quota, name};

/// Bytes of a part; of an object that is not longer, all of it. No server takes one below 5 MiB but the last.
const PART: usize = 8 << 20;
/// Most parts that each server takes.
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
/// Longest key that each server takes.
const LONGEST_KEY: usize = 1024;
/// How long the server is tried at the start, and the pause between two tries.
const START: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(300));

/// A store in a bucket.
pub(super) struct Bucket {
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

impl Bucket {
    /// Looks whether the bucket is there and may be read.
    pub(super) async fn open(place: &BucketPlace) -> Result<Bucket, OpenError> {
        Bucket::open_in(place, &|name| std::env::var(name).ok().filter(|value| !value.is_empty())).await
    }

    /// The same with these variables in the environment.
    async fn open_in(place: &BucketPlace, variables: Variables<'_>) -> Result<Bucket, OpenError> {
        let failed = |why: String, hint| OpenError { place: place.to_string(), why, hint };
        let client = Client::new(place, variables).await.map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::InvalidInput if place.credentials.is_some() => {
                    "`blobs.secret_key` is the key of Azure's account, or the whole file that Google gives \
                     for a service account"
                }
                std::io::ErrorKind::InvalidInput => {
                    "`blobs.credentials = \"platform\"` is for what the platform gives to this host"
                }
                _ => "`SSL_CERT_FILE` names a file with the certificates to trust",
            };
            failed(error.to_string(), hint)
        })?;
        let prefix = if place.prefix.is_empty() { String::new() } else { format!("{}/", place.prefix) };
        let begun = Instant::now();
        loop {
            match client.list(&prefix, 1, None).await {
                Ok(_) => break,
                Err(Failure::Refused { status, code }) if status < 500 => {
                    let hint = match status {
                        404 => "the bucket has to be there before the host starts",
                        _ if place.credentials.is_none() => {
                            "the role that the platform gives to this host needs rights in the bucket"
                        }
                        _ => {
                            "`blobs.access_key`, `blobs.secret_key` and `blobs.region`, or `blobs.account`, \
                             have to be those of the server"
                        }
                    };
                    return Err(failed(format!("the server has answered {status} {code}"), hint));
                }
                Err(failure) if begun.elapsed() > START.0 => {
                    return Err(failed(failure.detail(), "`blobs.server` is where the store is"));
                }
                Err(_) => tokio::time::sleep(START.1).await,
            }
        }
        let (readers, writers) = (Arc::new(Semaphore::new(READERS.0)), Arc::new(Semaphore::new(WRITERS.0)));
        Ok(Bucket { client, prefix, owners: Mutex::default(), readers, writers })
    }

    /// Whether the last request was served.
    pub(super) fn is_up(&self) -> bool {
        self.client.is_up()
    }

    fn key(&self, container: &Container, name: &str) -> Result<Path, BlobError> {
        let key = format!("{}{}/{}", self.prefix, container.path, name::escaped(name));
        let key = Path::parse(&key).ok().filter(|_| key.len() <= LONGEST_KEY);
        key.ok_or_else(|| {
            BlobError::Invalid("a name that is too long for the store with what is escaped in it".to_owned())
        })
    }

    fn owner(&self, name: &Arc<str>) -> Arc<Owner> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.entry(name.clone()).or_default().clone()
    }

    /// Makes sure that the owner's use is known: that it was listed not long ago; `is_anew`: since something
    /// was removed.
    async fn known(self: &Arc<Bucket>, name: &Arc<str>, is_anew: bool) -> Result<(), BlobError> {
        let owner = self.owner(name);
        let is_needed = move |owner: &Owner| is_anew && owner.usage.is_stale();
        if !is_needed(&owner)
            && let Ok(listed) = owner.listed.try_lock()
            && let Some(Ok(())) = listed.as_ref().and_then(Listed::outcome)
        {
            return Ok(());
        }
        let (bucket, own, name) = (self.clone(), owner.clone(), name.clone());
        let listing = tokio::spawn(async move {
            let mut listed = own.listed.lock().await;
            match listed.as_ref().and_then(Listed::outcome) {
                // Of one that others have waited for too.
                Some(outcome) if outcome.is_err() || !is_needed(&own) => outcome,
                _ => {
                    own.usage.begin();
                    let outcome = bucket.listed(&name).await.map(|held| own.usage.end(held));
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
            let (objects, next) = self.page(&prefix, token.as_deref()).await?;
            for ObjectMeta { size, .. } in objects {
                (held.bytes, held.objects) = (held.bytes.saturating_add(size), held.objects + 1);
            }
            if next.is_none() {
                return Ok(held);
            }
            token = next;
        }
        Err(BlobError::Unavailable(format!("a listing of more than {MOST_PAGES} pages")))
    }

    /// Reserves what a write adds; if there is no room, once more when it is known what was removed.
    async fn reserved<T>(
        self: &Arc<Bucket>,
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
    async fn page(
        &self,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<(Vec<ObjectMeta>, Option<String>), BlobError> {
        let page = self.client.list(prefix, MOST_NAMES, token).await?;
        match page.page_token.is_some() && page.page_token.as_deref() == token {
            // It would never end.
            true => Err(BlobError::Unavailable("the server lists the same page again".to_owned())),
            false => Ok((page.result.objects, page.page_token)),
        }
    }

    pub(super) async fn list(&self, container: &Container, from: Option<String>) -> Result<Page, BlobError> {
        let prefix = format!("{}{}/", self.prefix, container.path);
        let (objects, next) = self.page(&prefix, from.as_deref()).await?;
        // What another program has put there has no name.
        let name = |object: ObjectMeta| name::unescaped(object.location.as_ref().strip_prefix(&*prefix)?);
        Ok((objects.into_iter().filter_map(name).collect(), next))
    }

    pub(super) async fn info(&self, container: &Container, name: &str) -> Result<Option<Info>, BlobError> {
        let key = self.key(container, name)?;
        match self.client.get(&key, GetOptions { head: true, ..GetOptions::default() }).await {
            Ok(found) => {
                let created = u64::try_from(found.meta.last_modified.timestamp()).unwrap_or(0);
                Ok(Some(Info { size: found.meta.size, created }))
            }
            Err(Failure::Refused { status: 404, .. }) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    pub(super) async fn delete(&self, container: &Container, names: &[String]) -> Result<(), BlobError> {
        for name in names {
            let key = self.key(container, name)?;
            let outcome = self.client.delete(&key).await;
            // Also if no answer has come.
            self.owner(&container.owner).usage.note_removed();
            match outcome {
                Ok(()) | Err(Failure::Refused { status: 404, .. }) => {}
                Err(failure) => return Err(failure.into()),
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
            (_, u64::MAX) => Some(GetRange::Offset(first)),
            _ => Some(GetRange::Bounded(first..last.saturating_add(1))),
        };
        match self.client.get(&key, GetOptions { range, ..GetOptions::default() }).await {
            Ok(found) => {
                let size = found.range.end.saturating_sub(found.range.start);
                Ok(Some((size, Reader { content: Some((found.into_stream(), place)), left: size })))
            }
            Err(Failure::Refused { status: 404, .. }) => Ok(None),
            // Behind the end, or of an object without content.
            Err(Failure::Refused { status: 416, .. }) => Ok(Some((0, Reader { content: None, left: 0 }))),
            Err(failure) => Err(failure.into()),
        }
    }

    pub(super) async fn writer(
        self: &Arc<Bucket>,
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
        let (bucket, owner, part) = (self.clone(), container.owner.clone(), BytesMut::new());
        Ok(Writer { bucket, owner, key, reservation, part, upload: None, _place: place })
    }
}

/// An object's content.
pub(super) struct Reader {
    /// Until its end.
    content: Option<(BoxStream<'static, object_store::Result<Bytes>>, Place)>,
    left: u64,
}

impl Reader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        if self.left == 0 {
            self.content = None;
        }
        let Some((content, _)) = &mut self.content else { return Ok(None) };
        let broken = || BlobError::Unavailable("the connection to the server has failed".to_owned());
        loop {
            let piece = content.next().await.ok_or_else(broken)?.map_err(|_| broken())?;
            if !piece.is_empty() {
                self.left = self.left.saturating_sub(piece.len() as u64);
                return Ok(Some(piece));
            }
        }
    }
}

/// An object that is being written: in one request if it is no longer than a part.
pub(super) struct Writer {
    bucket: Arc<Bucket>,
    /// The name of the owner.
    owner: Arc<str>,
    key: Path,
    /// `None` once the object is there.
    reservation: Option<Reservation>,
    part: BytesMut,
    upload: Option<Parts>,
    _place: Place,
}

/// An upload in parts.
struct Parts {
    id: MultipartId,
    /// The server's name of each part that it has.
    sent: Vec<PartId>,
}

impl Writer {
    pub(super) async fn write(&mut self, mut piece: &[u8]) -> Result<(), BlobError> {
        if let Some(reservation) = &mut self.reservation {
            self.bucket.reserved(&self.owner, |_| reservation.grow(piece.len())).await?;
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
        let client = &self.bucket.client;
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => {
                let id = client.begin(&self.key).await?;
                self.upload.insert(Parts { id, sent: Vec::new() })
            }
        };
        let index = upload.sent.len();
        if index >= MOST_PARTS {
            return Err(BlobError::Limit(format!("an object of more than {MOST_PARTS} parts")));
        }
        let part = self.part.split().freeze();
        upload.sent.push(client.put_part(&self.key, &upload.id, index, part).await?);
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<(), BlobError> {
        if self.upload.is_some() {
            self.send_part().await?;
        }
        let client = &self.bucket.client;
        match &self.upload {
            None => client.put(&self.key, self.part.split().freeze()).await?,
            Some(Parts { id, sent }) => client.complete(&self.key, id, sent).await?,
        }
        self.upload = None;
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
            let (bucket, key) = (self.bucket.clone(), std::mem::take(&mut self.key));
            runtime.spawn(async move {
                // What stays is for the bucket's rule for unfinished uploads.
                let _ = bucket.client.abort(&key, &id).await;
            });
        }
    }
}
