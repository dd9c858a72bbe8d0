//! Objects that handlers keep: values of any size in containers, an endpoint's own or shared by some, in one
//! store of the process.
//!
//! Place in the flow: a handler's `wasi:blobstore`, see `capabilities/blobs.rs`. One [`Store`] for the
//! process, in a folder or in a bucket; one [`EndpointBlobs`] for each loaded handler that is granted a
//! container. In: names, and content in pieces. Out: likewise, or a [`BlobError`].
//! Invariants: a container that is not granted cannot be opened; an object is there as a whole or not at all,
//! and once its write is answered it stays; an owner, which is an endpoint or a shared container, never holds
//! more than the quota of the endpoint that writes; no more of an object is in memory than a few pieces.

mod bucket;
mod folder;
mod name;
mod scratch;
#[cfg(test)]
mod tests;
mod upload;
mod usage;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use self::bucket::Bucket;
pub use self::bucket::{Addressing, BucketPlace, Cloud, CredentialFiles, Credentials};
use self::folder::Folder;
use self::scratch::Scratch;
pub use self::upload::Upload;
use crate::stores::OpenError;
use crate::stores::grants::{Grants, Owner};
use crate::text::shown;
use crate::time::unix_seconds;

/// Longest name of an object, in bytes.
pub const LONGEST_NAME: usize = 512;
/// Most names of one page of a listing, and of one call that deletes several.
pub const MOST_NAMES: usize = 1000;
/// Most pages of a listing that the host goes through at once.
const MOST_PAGES: usize = 10_000;
/// Objects that a request may have open at the same time, read or written, and listings.
pub const MOST_OPEN: usize = 16;

/// Where objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a process has one")]
pub enum Place {
    /// A folder of this process alone.
    Folder(PathBuf),
    /// A bucket of a cloud, which many hosts share.
    Bucket(BucketPlace),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(path) => path.display().fmt(f),
            Place::Bucket(place) => place.fmt(f),
        }
    }
}

/// Why an operation has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The endpoint is not granted a container of this name.
    #[error("the endpoint is granted no container `{0}`")]
    NoSuchContainer(String),
    /// There is no object of this name.
    #[error("there is no object `{0}`")]
    NoSuchObject(String),
    /// A name or a range that cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// Beyond a quota. Says which.
    #[error("{0}")]
    Limit(String),
    /// The store cannot be used now.
    #[error("the store cannot be used: {0}")]
    Unavailable(String),
}

/// Size and age of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Its bytes.
    pub size: u64,
    /// When it was written, in seconds since 1970.
    pub created: u64,
}

/// The most that the containers of one owner hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of all objects.
    pub bytes: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes of one object.
    pub size: u64,
}

/// The container that a handler has opened.
#[derive(Debug, Clone)]
pub struct Container {
    name: Arc<str>,
    /// `own/ENDPOINT` or `shared/NAME`: whose quota it is.
    owner: Arc<str>,
    /// The part of a place in the store that is before the object's name, without a `/` at its end.
    path: Arc<str>,
}

impl Container {
    /// As the handler opened it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The objects of all endpoints.
pub struct Store(Backend);

enum Backend {
    /// No object, and none is taken: where nothing is served.
    Empty,
    Folder(Arc<Folder>),
    Bucket(Arc<Bucket>),
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
            Place::Folder(path) => Backend::Folder(Arc::new(Folder::open(path)?)),
            Place::Bucket(place) => Backend::Bucket(Arc::new(Bucket::open(place).await?)),
        }))
    }

    /// Whether the last request to it was answered; `None` if it is nowhere else.
    pub fn is_reachable(&self) -> Option<bool> {
        match &self.0 {
            Backend::Empty | Backend::Folder(_) => None,
            Backend::Bucket(bucket) => Some(bucket.is_up()),
        }
    }
}

/// The content of an object, piece by piece.
pub struct Reader(Source);

enum Source {
    Memory(Bytes),
    File(folder::Reader),
    Bucket(bucket::Reader),
}

impl Reader {
    /// The next piece; `None` at the end. A call that is not waited for loses nothing.
    ///
    /// # Errors
    /// [`BlobError::Unavailable`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        match &mut self.0 {
            Source::Memory(bytes) => Ok(Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty())),
            Source::File(file) => file.next().await,
            Source::Bucket(body) => body.next().await,
        }
    }
}

/// An object that is being written. If it is dropped before its end, nothing is left of it.
pub struct Writer(Sink);

enum Sink {
    Scratch(scratch::Writer),
    Folder(Box<folder::Writer>),
    Bucket(Box<bucket::Writer>),
}

impl Writer {
    /// Adds a piece.
    ///
    /// # Errors
    /// [`BlobError::Limit`], [`BlobError::Unavailable`].
    pub async fn write(&mut self, piece: Bytes) -> Result<(), BlobError> {
        match &mut self.0 {
            Sink::Scratch(writer) => writer.write(&piece),
            Sink::Folder(writer) => writer.write(&piece).await,
            Sink::Bucket(writer) => writer.write(&piece).await,
        }
    }

    /// Ends the object: it is there now, in place of an earlier one of its name.
    ///
    /// # Errors
    /// [`BlobError::Limit`], [`BlobError::Unavailable`].
    pub async fn finish(self) -> Result<(), BlobError> {
        match self.0 {
            Sink::Scratch(writer) => writer.finish(),
            Sink::Folder(writer) => writer.finish().await,
            Sink::Bucket(writer) => writer.finish().await,
        }
    }
}

/// A page of names, and where the next one begins, if there is more.
pub type Page = (Vec<String>, Option<String>);

/// The containers that one endpoint may use.
#[derive(Clone)]
pub struct EndpointBlobs {
    store: Arc<Store>,
    grants: Grants,
    quota: Quota,
    places: bucket::Places,
    /// Of a run that must not write.
    scratch: Option<Scratch>,
}

impl EndpointBlobs {
    /// Of this endpoint, with these grants.
    pub fn new(store: Arc<Store>, endpoint: &str, granted: &[String], quota: Quota) -> EndpointBlobs {
        let (grants, places) = (Grants::new(endpoint, granted), bucket::Places::default());
        EndpointBlobs { store, grants, quota, places, scratch: None }
    }

    /// As a run has it that must not write: it sees the store and what it writes itself, which goes with it.
    #[must_use]
    pub fn isolated(&self) -> EndpointBlobs {
        EndpointBlobs { scratch: Some(Scratch::default()), ..self.clone() }
    }

    /// Opens a container.
    ///
    /// # Errors
    /// [`BlobError::NoSuchContainer`].
    pub fn open(&self, name: &str) -> Result<Container, BlobError> {
        let (owner, path) = match self.grants.owner(name) {
            None => return Err(BlobError::NoSuchContainer(shown(name))),
            Some(Owner::Shared(shared)) => {
                let path = format!("shared/{}", name::escaped(shared));
                (path.clone(), path)
            }
            Some(Owner::Endpoint(endpoint)) => {
                let owner = format!("own/{}", name::escaped(endpoint));
                let path = format!("{owner}/{}", name::escaped(name));
                (owner, path)
            }
        };
        Ok(Container { name: name.into(), owner: owner.into(), path: path.into() })
    }

    /// Begins to write an object.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn write(&self, container: &Container, name: &str) -> Result<Writer, BlobError> {
        check(name)?;
        if let Some(scratch) = &self.scratch {
            return Ok(Writer(Sink::Scratch(scratch.writer(container, name, self.quota))));
        }
        Ok(Writer(match &self.store.0 {
            Backend::Empty => return Err(BlobError::Unavailable("nothing is stored here".to_owned())),
            Backend::Folder(folder) => {
                Sink::Folder(Box::new(folder.writer(container, name, self.quota).await?))
            }
            Backend::Bucket(bucket) => {
                Sink::Bucket(Box::new(bucket.writer(container, name, self.quota, &self.places).await?))
            }
        }))
    }

    /// The bytes of an object from `first` to `last`, both of them included, as far as there are some; and
    /// how many they are.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn read(
        &self,
        container: &Container,
        name: &str,
        first: u64,
        last: u64,
    ) -> Result<(u64, Reader), BlobError> {
        check(name)?;
        if first > last {
            return Err(BlobError::Invalid("a range whose end is before its beginning".to_owned()));
        }
        let none = || BlobError::NoSuchObject(shown(name));
        if let Some(own) = self.scratch.as_ref().and_then(|scratch| scratch.get(container, name)) {
            let bytes = own.ok_or_else(none)?;
            let end = last.saturating_add(1).min(bytes.len() as u64);
            let range = usize::try_from(first.min(end)).ok().zip(usize::try_from(end).ok());
            let bytes = range.map(|(first, end)| bytes.slice(first..end)).unwrap_or_default();
            return Ok((bytes.len() as u64, Reader(Source::Memory(bytes))));
        }
        let (size, source) = match &self.store.0 {
            Backend::Empty => return Err(none()),
            Backend::Folder(folder) => {
                let found = folder.read(container, name, first, last).await?.ok_or_else(none)?;
                (found.0, Source::File(found.1))
            }
            Backend::Bucket(bucket) => {
                let found =
                    bucket.read(container, name, first, last, &self.places).await?.ok_or_else(none)?;
                (found.0, Source::Bucket(found.1))
            }
        };
        Ok((size, Reader(source)))
    }

    /// Size and age of an object, if it is there.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn info(&self, container: &Container, name: &str) -> Result<Option<Info>, BlobError> {
        check(name)?;
        if let Some(own) = self.scratch.as_ref().and_then(|scratch| scratch.get(container, name)) {
            return Ok(own.map(|bytes| Info { size: bytes.len() as u64, created: now() }));
        }
        match &self.store.0 {
            Backend::Empty => Ok(None),
            Backend::Folder(folder) => folder.info(container, name).await,
            Backend::Bucket(bucket) => bucket.info(container, name).await,
        }
    }

    /// A page of the container's names, at most [`MOST_NAMES`], from where the last one ended.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn list(&self, container: &Container, from: Option<String>) -> Result<Page, BlobError> {
        let is_first = from.is_none();
        let (mut names, next) = match &self.store.0 {
            Backend::Empty => (Vec::new(), None),
            Backend::Folder(folder) => folder.list(container, from).await?,
            Backend::Bucket(bucket) => bucket.list(container, from).await?,
        };
        if let Some(scratch) = &self.scratch {
            names.retain(|name| scratch.get(container, name).is_none());
            if is_first {
                names.extend(scratch.names(container));
            }
        }
        Ok((names, next))
    }

    /// Removes these objects, as far as they are there.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn delete(&self, container: &Container, names: &[String]) -> Result<(), BlobError> {
        if names.len() > MOST_NAMES {
            return Err(BlobError::Limit(format!("more than {MOST_NAMES} names in one call")));
        }
        names.iter().try_for_each(|name| check(name))?;
        if let Some(scratch) = &self.scratch {
            return names.iter().try_for_each(|name| scratch.delete(container, name));
        }
        match &self.store.0 {
            Backend::Empty => Ok(()),
            Backend::Folder(folder) => folder.delete(container, names).await,
            Backend::Bucket(bucket) => bucket.delete(container, names).await,
        }
    }

    /// Removes all objects of a container.
    ///
    /// # Errors
    /// [`BlobError`].
    pub async fn clear(&self, container: &Container) -> Result<(), BlobError> {
        let mut from = None;
        for _ in 0..MOST_PAGES {
            let (names, next) = self.list(container, from).await?;
            // What a run has written itself comes beside a page of the store.
            for names in names.chunks(MOST_NAMES) {
                self.delete(container, names).await?;
            }
            if next.is_none() {
                return Ok(());
            }
            from = next;
        }
        Err(BlobError::Unavailable(format!("a listing of more than {MOST_PAGES} pages")))
    }
}

/// Looks at an object's name. Any text is one, of the right length.
fn check(name: &str) -> Result<(), BlobError> {
    match name.len() {
        1..=LONGEST_NAME => Ok(()),
        length => {
            let text = format!("a name of {length} bytes, expected 1 to {LONGEST_NAME}");
            Err(BlobError::Invalid(text))
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    unix_seconds(SystemTime::now())
}
