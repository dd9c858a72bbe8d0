//! How much an owner's containers hold, and what is being added to it.
//!
//! Place in the flow: beside both stores; they say what is there, and each write reserves what it adds.
//! Invariant: what is there and what is reserved together are never more than the quota of the one who adds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{BlobError, Quota};

/// The use of one owner.
#[derive(Debug, Default)]
pub(super) struct Usage(Mutex<Counts>);

/// Bytes and objects.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) objects: u64,
}

#[derive(Debug, Default)]
struct Counts {
    held: Held,
    reserved: Held,
    /// The part of `held` that was added since [`Usage::begin`].
    added: Held,
    /// Whether something was removed since.
    has_removed: bool,
    /// Whether less may be there than is held for that: something was written, replaced or removed since.
    is_stale: bool,
}

impl Usage {
    /// That is what is there now.
    pub(super) fn set(&self, held: Held) {
        self.lock().held = held;
    }

    /// Says that a listing begins.
    pub(super) fn begin(&self) {
        let mut counts = self.lock();
        (counts.added, counts.has_removed) = (Held::default(), false);
    }

    /// That has been listed. What was added meanwhile may be part of it or not, and counts beside it.
    pub(super) fn end(&self, listed: Held) {
        let mut counts = self.lock();
        let added = std::mem::take(&mut counts.added);
        counts.held = Held {
            bytes: listed.bytes.saturating_add(added.bytes),
            objects: listed.objects.saturating_add(added.objects),
        };
        counts.is_stale = counts.has_removed || added != Held::default();
    }

    /// Objects may be gone, which the next listing says.
    pub(super) fn note_removed(&self) {
        let mut counts = self.lock();
        (counts.has_removed, counts.is_stale) = (true, true);
    }

    /// Whether a listing may find less than is held for there.
    pub(super) fn is_stale(&self) -> bool {
        self.lock().is_stale
    }

    /// An object of this size is gone.
    pub(super) fn remove(&self, size: u64) {
        let held = &mut self.lock().held;
        held.bytes = held.bytes.saturating_sub(size);
        held.objects = held.objects.saturating_sub(1);
    }

    /// A write begins: of one object more, if it is new.
    ///
    /// # Errors
    /// [`BlobError::Limit`].
    pub(super) fn reserve(self: &Arc<Usage>, quota: Quota, is_new: bool) -> Result<Reservation, BlobError> {
        let mut counts = self.lock();
        let objects = u64::from(is_new);
        if counts.held.objects + counts.reserved.objects + objects > quota.objects {
            let text =
                format!("the containers would hold more than {} objects, `limits.blob_count`", quota.objects);
            return Err(BlobError::Limit(text));
        }
        counts.reserved.objects += objects;
        Ok(Reservation { usage: self.clone(), quota, bytes: 0, objects })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes and the object that one write adds, as far as it has come.
#[derive(Debug)]
pub(super) struct Reservation {
    usage: Arc<Usage>,
    quota: Quota,
    bytes: u64,
    objects: u64,
}

impl Reservation {
    /// So many bytes more.
    ///
    /// # Errors
    /// [`BlobError::Limit`].
    pub(super) fn grow(&mut self, more: usize) -> Result<(), BlobError> {
        let more = more as u64;
        let Quota { bytes, size, .. } = self.quota;
        let length = self.bytes.saturating_add(more);
        if length > size {
            return Err(too_long(size));
        }
        let mut counts = self.usage.lock();
        if counts.held.bytes.saturating_add(counts.reserved.bytes).saturating_add(more) > bytes {
            let text = format!("the containers would hold more than {bytes} bytes, `limits.blob_bytes`");
            return Err(BlobError::Limit(text));
        }
        counts.reserved.bytes += more;
        drop(counts);
        self.bytes = length;
        Ok(())
    }

    /// Its bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The object is there. What it has replaced, the next listing says.
    pub(super) fn commit_added(self) {
        let counts = &mut *self.usage.lock();
        for held in [&mut counts.held, &mut counts.added] {
            held.bytes = held.bytes.saturating_add(self.bytes);
            held.objects += self.objects;
        }
        counts.is_stale = true;
    }

    /// The object is there, in place of one of this size.
    pub(super) fn commit(self, replaced: Option<u64>) {
        let mut counts = self.usage.lock();
        counts.held.bytes =
            counts.held.bytes.saturating_add(self.bytes).saturating_sub(replaced.unwrap_or(0));
        counts.held.objects += u64::from(replaced.is_none());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &mut self.usage.lock().reserved;
        reserved.bytes = reserved.bytes.saturating_sub(self.bytes);
        reserved.objects = reserved.objects.saturating_sub(self.objects);
    }
}

/// An object that is longer than it may be.
pub(super) fn too_long(size: u64) -> BlobError {
    BlobError::Limit(format!("an object of more than {size} bytes, `limits.blob_size`"))
}
