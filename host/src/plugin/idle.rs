//! Instances between two requests.
//!
//! Place in the flow: [`super::Plugin::checkout`] takes one, [`super::Lease::finish`] puts it back. Last in,
//! first out, and first of all the calling thread's own: the instance whose memory is still in this core's
//! cache. A thread that has none takes another's, so that no more instances are made than requests are in
//! flight.
//! Invariant: a shard's lock is held for a push or a pop, never across anything else.

use std::sync::{Mutex, PoisonError};

use super::instance::Instance;
use crate::shard;

/// The idle instances of one plugin.
pub(super) struct Idle(Box<[Shard]>);

/// Aligned so that no two shards share a cache line (or a pair of them, which x86 fetches together).
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Stack>);

/// Boxed for its whole life: an instance changes hands several times a request.
type Stack = Vec<Box<Instance>>;

impl Idle {
    pub(super) fn new() -> Idle {
        Idle((0..shard::count()).map(|_| Shard::default()).collect())
    }

    pub(super) fn pop(&self) -> Option<Box<Instance>> {
        let (before, from_own) = self.0.split_at(shard::current(self.0.len()));
        from_own.iter().chain(before).find_map(|shard| shard.stack().pop())
    }

    /// The one that has been idle for longest, of the first thread that has any.
    pub(super) fn pop_coldest(&self) -> Option<Box<Instance>> {
        self.0.iter().find_map(|shard| {
            let mut stack = shard.stack();
            (!stack.is_empty()).then(|| stack.remove(0))
        })
    }

    pub(super) fn clear(&self) {
        for shard in &self.0 {
            // Taken out first: dropping an instance takes long enough for others to want the lock.
            let instances = std::mem::take(&mut *shard.stack());
            drop(instances);
        }
    }

    pub(super) fn push(&self, instance: Box<Instance>) {
        if let Some(own) = self.0.get(shard::current(self.0.len())) {
            own.stack().push(instance);
        }
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
