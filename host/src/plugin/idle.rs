//! Instances between two requests.
//!
//! Place in the flow: [`super::Plugin::checkout`] takes one, [`super::Lease::finish`] puts it back. Last in,
//! first out, and first of all the calling thread's own: the instance whose memory is still in this core's
//! cache. A thread that has none takes another's, so that no more instances are made than requests are in
//! flight.
//! When places are short, the pool finds those who have any in a list of its own, [`IdleList`], to which a
//! handler is added by the first push after it was found to have none.
//! Invariant: a shard's lock is held for a push or a pop, never across anything else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::instance::Instance;
use super::pool::IdleList;
use crate::shard;

/// The idle instances of one plugin.
pub(super) struct Idle {
    shards: Box<[Shard]>,
    list: Arc<IdleList>,
    /// The number of its entry in the list; 0 without one.
    entry: AtomicU64,
}

/// Aligned so that no two shards share a cache line (or a pair of them, which x86 fetches together).
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Stack>);

/// Boxed for its whole life: an instance changes hands several times a request.
type Stack = Vec<Box<Instance>>;

impl Idle {
    pub(super) fn new(list: Arc<IdleList>) -> Idle {
        let shards = (0..shard::count()).map(|_| Shard::default()).collect();
        Idle { shards, list, entry: AtomicU64::new(0) }
    }

    pub(super) fn pop(&self) -> Option<Box<Instance>> {
        let (before, from_own) = self.shards.split_at(shard::current(self.shards.len()));
        from_own.iter().chain(before).find_map(|shard| shard.stack().pop())
    }

    /// The one that has been idle for longest, of the first thread that has any.
    pub(super) fn pop_coldest(&self) -> Option<Box<Instance>> {
        self.shards.iter().find_map(|shard| {
            let mut stack = shard.stack();
            (!stack.is_empty()).then(|| stack.remove(0))
        })
    }

    pub(super) fn clear(&self) {
        for shard in &self.shards {
            // Taken out first: dropping an instance takes long enough for others to want the lock.
            let instances = std::mem::take(&mut *shard.stack());
            drop(instances);
        }
    }

    pub(super) fn push(self: &Arc<Self>, instance: Box<Instance>) {
        if let Some(own) = self.shards.get(shard::current(self.shards.len())) {
            own.stack().push(instance);
            self.enlist();
        }
    }

    /// Makes sure that it is in the list: called after a push.
    pub(super) fn enlist(self: &Arc<Self>) {
        if self.entry.load(Ordering::SeqCst) == 0 {
            let entry = self.list.number();
            if self.entry.compare_exchange(0, entry, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                self.list.add(self, entry);
            }
        }
    }

    /// Whether this is its entry.
    pub(super) fn is_listed_as(&self, entry: u64) -> bool {
        self.entry.load(Ordering::SeqCst) == entry
    }

    /// It has none: the entry is worth nothing now. What was pushed meanwhile has to be looked for once more.
    pub(super) fn unlist(&self, entry: u64) {
        let _ = self.entry.compare_exchange(entry, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").finish_non_exhaustive()
    }
}

impl Shard {
    fn stack(&self) -> std::sync::MutexGuard<'_, Stack> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
