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

use super::pool::{IdleList, MakesWay, Pool};
use crate::shard;

/// The idle instances of one plugin.
pub(super) struct Idle<T> {
    shards: Box<[Shard<T>]>,
    list: Arc<IdleList>,
    /// The number of its entry in the list; 0 without one.
    entry: AtomicU64,
}

/// Aligned so that no two shards share a cache line (or a pair of them, which x86 fetches together).
#[repr(align(128))]
struct Shard<T>(Mutex<Stack<T>>);

/// Boxed for its whole life: an instance changes hands several times a request.
type Stack<T> = Vec<Box<T>>;

impl<T: Send + 'static> Idle<T> {
    /// Of a new handler: `pool` may ask it for instances from now on.
    pub(super) fn enter(pool: &Pool) -> Arc<Idle<T>> {
        let shards = (0..shard::count()).map(|_| Shard(Mutex::default())).collect();
        let idle = Arc::new(Idle { shards, list: pool.idle().clone(), entry: AtomicU64::new(0) });
        pool.enter(&(idle.clone() as Arc<dyn MakesWay>));
        idle
    }

    pub(super) fn pop(&self) -> Option<Box<T>> {
        let (before, from_own) = self.shards.split_at(shard::current(self.shards.len()));
        from_own.iter().chain(before).find_map(|shard| shard.stack().pop())
    }

    pub(super) fn clear(&self) {
        for shard in &self.shards {
            // Taken out first: dropping an instance takes long enough for others to want the lock.
            let instances = std::mem::take(&mut *shard.stack());
            drop(instances);
        }
    }

    pub(super) fn push(self: &Arc<Self>, instance: Box<T>) {
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
                self.list.add(&(self.clone() as Arc<dyn MakesWay>), entry);
            }
        }
    }
}

impl<T: Send + 'static> MakesWay for Idle<T> {
    fn end_coldest(&self) -> bool {
        let coldest = self.shards.iter().find_map(|shard| {
            let mut stack = shard.stack();
            (!stack.is_empty()).then(|| stack.remove(0))
        });
        coldest.is_some()
    }

    fn list_again(self: Arc<Self>) {
        self.enlist();
    }

    fn is_listed_as(&self, entry: u64) -> bool {
        self.entry.load(Ordering::SeqCst) == entry
    }

    fn unlist(&self, entry: u64) {
        let _ = self.entry.compare_exchange(entry, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

impl<T> std::fmt::Debug for Idle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").finish_non_exhaustive()
    }
}

impl<T> Shard<T> {
    fn stack(&self) -> std::sync::MutexGuard<'_, Stack<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
