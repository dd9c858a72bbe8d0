//! The process's places for instances: how many there may be, and whose they are.
//!
//! Place in the flow: every instance takes a [`Place`] before it is made and holds it to its end. In: how
//! many there are in all, and the idle instances of every handler. Out: a place, or that there is none. All
//! handlers share the places, so that what is reserved grows with what may run at a time and not with what is
//! configured. An idle instance makes way for one that is needed. The last eighth is for handlers that hold
//! less than their share, the places divided by those who hold any and one more who may come; while places
//! are short, an instance of a handler that holds more ends with its request.
//! Invariant: a request that finds an idle instance touches nothing of this but one flag that is hardly ever
//! written.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::idle::Idle;

/// How many handlers are asked for an idle instance before a request is refused; the next one asks others.
const ASKED: usize = 1024;

/// All places of the process.
#[derive(Debug)]
pub(super) struct Pool {
    places: usize,
    taken: AtomicUsize,
    /// Handlers that hold a place.
    holders: AtomicUsize,
    /// Handlers that may come to hold one.
    entered: AtomicUsize,
    /// A place had to be looked for since there were last many.
    is_short: AtomicBool,
    /// And none was found.
    is_full: AtomicBool,
    handlers: Mutex<Handlers>,
}

#[derive(Debug, Default)]
struct Handlers {
    idle: Vec<Weak<Idle>>,
    /// Whose idle instances are looked at next: all of them in turn.
    next: usize,
}

impl Pool {
    pub(super) fn new(places: NonZeroUsize) -> Arc<Pool> {
        Arc::new(Pool {
            places: places.get(),
            taken: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            entered: AtomicUsize::new(0),
            is_short: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            handlers: Mutex::default(),
        })
    }

    /// The places that one handler holds: none yet.
    pub(super) fn holding(self: &Arc<Self>) -> Arc<Holding> {
        Arc::new(Holding { pool: self.clone(), held: AtomicUsize::new(0) })
    }

    /// Instances in `idle` make way for others from now on.
    pub(super) fn enter(&self, idle: &Arc<Idle>) {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        // Now and then, so that it costs nothing on the average.
        if handlers.idle.len().is_power_of_two() {
            handlers.idle.retain(|idle| idle.strong_count() > 0);
        }
        handlers.idle.push(Arc::downgrade(idle));
        self.entered.store(handlers.idle.len(), Ordering::Relaxed);
    }

    /// Whether half of the places are free.
    pub(super) fn is_roomy(&self) -> bool {
        self.taken.load(Ordering::Relaxed) <= self.places / 2
    }

    /// A holder's part when there is not enough for all.
    fn share(&self) -> usize {
        (self.places / (self.holders.load(Ordering::Relaxed) + 1)).max(1)
    }

    fn reserve(&self, below: usize) -> bool {
        let next = |taken: usize| (taken < below).then_some(taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    /// Ends one idle instance of any handler.
    fn end_an_idle_one(&self) -> bool {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..handlers.idle.len().min(ASKED) {
            let next = handlers.next % handlers.idle.len().max(1);
            handlers.next = next + 1;
            let Some(idle) = handlers.idle.get(next).map(Weak::upgrade) else { break };
            let Some(idle) = idle else {
                // A version that is gone. The last one comes into its place, and is looked at next.
                handlers.idle.swap_remove(next);
                handlers.next = next;
                continue;
            };
            if let Some(instance) = idle.pop_coldest() {
                drop(handlers);
                drop(instance);
                return true;
            }
        }
        false
    }
}

/// The places of the pool that one handler holds.
#[derive(Debug)]
pub(super) struct Holding {
    pool: Arc<Pool>,
    held: AtomicUsize,
}

/// There is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Holding {
    /// Takes a place for an instance.
    ///
    /// # Errors
    /// All are taken by instances that are at work, or those that are left are for handlers that hold less.
    pub(super) fn take(self: &Arc<Self>) -> Result<Place, Full> {
        let pool = &self.pool;
        let is_alone = pool.entered.load(Ordering::Relaxed) < 2;
        let below = match is_alone || self.held.load(Ordering::Relaxed) < pool.share() {
            true => pool.places,
            false => pool.places - pool.places / 8,
        };
        while !pool.reserve(below) {
            pool.is_short.store(true, Ordering::Relaxed);
            // Others may be faster to the place that becomes free; each of them has taken one, so this ends.
            if !pool.end_an_idle_one() {
                if !pool.is_full.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "all {} places for instances are taken: requests are refused; hint: `plugin.instances`",
                        pool.places
                    );
                }
                return Err(Full);
            }
        }
        if self.held.fetch_add(1, Ordering::Relaxed) == 0 {
            pool.holders.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Place(self.clone()))
    }

    /// Whether an instance that has come to rest is to make way: places are short, and this handler holds
    /// more than its share.
    pub(super) fn is_to_yield(&self) -> bool {
        self.pool.is_short.load(Ordering::Relaxed) && self.held.load(Ordering::Relaxed) > self.pool.share()
    }

    /// Whether half of all places are free.
    pub(super) fn is_roomy(&self) -> bool {
        self.pool.is_roomy()
    }
}

/// The place of one instance, which is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Holding>);

impl Drop for Place {
    fn drop(&mut self) {
        let pool = &self.0.pool;
        if self.0.held.fetch_sub(1, Ordering::Relaxed) == 1 {
            pool.holders.fetch_sub(1, Ordering::Relaxed);
        }
        let taken = pool.taken.fetch_sub(1, Ordering::SeqCst);
        if taken <= pool.places / 4 * 3 && pool.is_short.load(Ordering::Relaxed) {
            pool.is_short.store(false, Ordering::Relaxed);
            pool.is_full.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool, and that many handlers without idle instances.
    fn pool(places: usize, handlers: usize) -> (Arc<Pool>, Vec<Arc<Idle>>) {
        let pool = Pool::new(NonZeroUsize::new(places).unwrap());
        let idle: Vec<_> = (0..handlers).map(|_| Arc::new(Idle::new())).collect();
        idle.iter().for_each(|idle| pool.enter(idle));
        (pool, idle)
    }

    fn take(holding: &Arc<Holding>, count: usize) -> Vec<Place> {
        (0..count).map_while(|_| holding.take().ok()).collect()
    }

    #[test]
    fn one_alone_gets_all_places() {
        let (pool, _idle) = pool(16, 1);
        let only = pool.holding();
        let mut held = take(&only, 20);
        assert_eq!(held.len(), 16);
        held.pop();
        assert_eq!(take(&only, 2).len(), 1);
    }

    #[test]
    fn the_last_places_are_for_those_who_hold_less() {
        let (pool, _idle) = pool(16, 3);
        let (greedy, other, late) = (pool.holding(), pool.holding(), pool.holding());
        let few = take(&other, 1);
        // Its share is 5, so the last two are not for it.
        let many = take(&greedy, 20);
        assert_eq!(many.len(), 13);
        assert!(greedy.is_to_yield() && !other.is_to_yield());
        let more = take(&late, 20);
        assert_eq!(more.len(), 2);
        drop((many, few, more));
        assert!(!greedy.is_to_yield());
        assert_eq!(take(&late, 20).len(), 14);
    }
}
