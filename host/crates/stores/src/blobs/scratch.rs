//! What a run writes that must not write: objects that are seen by itself alone, and gone with it.
//!
//! Place in the flow: between a handler and its containers, in every run that is not a client's request. In:
//! its objects. Out: the same. Invariants: nothing of it reaches the store; it holds no more than its
//! [`Allowance`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::usage::too_long;
use super::{BlobError, Container, Quota};
use crate::stores::allowance::{Allowance, ENTRY};

/// Objects by container and name; `None` for those that the run has removed.
type Written = BTreeMap<(Arc<str>, String), Option<Bytes>>;

/// The objects of one run.
#[derive(Clone, Default)]
pub(super) struct Scratch(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    written: Written,
    allowance: Allowance,
}

impl Inner {
    fn charge(&mut self, bytes: usize) -> Result<(), BlobError> {
        self.allowance.charge(bytes).map_err(BlobError::Limit)
    }

    fn put(&mut self, place: (Arc<str>, String), content: Option<Bytes>) -> Result<(), BlobError> {
        if !self.written.contains_key(&place) {
            self.charge(place.1.len() + ENTRY)?;
        }
        self.written.insert(place, content);
        Ok(())
    }
}

impl Scratch {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object as the run has left it; `None` if it has not touched it.
    pub(super) fn get(&self, container: &Container, name: &str) -> Option<Option<Bytes>> {
        self.lock().written.get(&place(container, name)).cloned()
    }

    /// Those that it has written.
    pub(super) fn names(&self, container: &Container) -> Vec<String> {
        let inner = self.lock();
        let written =
            inner.written.iter().filter(|((path, _), content)| *path == container.path && content.is_some());
        written.map(|((_, name), _)| name.clone()).collect()
    }

    pub(super) fn delete(&self, container: &Container, name: &str) -> Result<(), BlobError> {
        self.lock().put(place(container, name), None)
    }

    pub(super) fn writer(&self, container: &Container, name: &str, quota: Quota) -> Writer {
        Writer { scratch: self.clone(), place: place(container, name), quota, content: Vec::new() }
    }
}

fn place(container: &Container, name: &str) -> (Arc<str>, String) {
    (container.path.clone(), name.to_owned())
}

/// An object that the run writes.
pub(super) struct Writer {
    scratch: Scratch,
    place: (Arc<str>, String),
    quota: Quota,
    content: Vec<u8>,
}

impl Writer {
    pub(super) fn write(&mut self, piece: &[u8]) -> Result<(), BlobError> {
        if (self.content.len() + piece.len()) as u64 > self.quota.size {
            return Err(too_long(self.quota.size));
        }
        self.scratch.lock().charge(piece.len())?;
        self.content.extend_from_slice(piece);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), BlobError> {
        self.scratch.lock().put(self.place, Some(self.content.into()))
    }
}
