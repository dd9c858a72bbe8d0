//! The process's places for instances: how many there may be, and whose they are.
//!
//! Place in the flow: every instance takes a [`Place`] before it is made and holds it to its end. In: how
//! many there are in all, and the idle instances of every handler. Out: a place, or that there is none. All
//! handlers share the places, so that what is reserved grows with what may run at a time and not with what is
//! configured. An idle instance makes way for one that is needed. The last eighth is for handlers that hold
//! less than their share, the places divided by those who hold any and one more who may come; while places
//! are short, an instance of a handler that holds more ends with its request.
//! Invariants: a request that finds an idle instance touches nothing of this but one flag that is hardly ever
//! written; one that finds no place costs the same with many handlers as with few.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many handlers that have had idle instances are asked for one before a request is refused; the next one
/// asks others. Each that has none is not asked again before it has.
const ASKED: usize = 32;

/// The idle instances of one handler, as the pool knows them: they make way for one that is needed.
pub(super) trait MakesWay: Send + Sync + Debug {
    /// Ends the one that has been idle for longest, of the first thread that has any; whether there was one.
    fn end_coldest(&self) -> bool;
    /// Makes sure that the handler is in the list.
    fn list_again(self: Arc<Self>);
    /// Whether this is its entry.
    fn is_listed_as(&self, entry: u64) -> bool;
    /// It has none: the entry is worth nothing now. What was pushed meanwhile has to be looked for once more.
    fn unlist(&self, entry: u64);
}

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
    handlers: Mutex<Vec<Weak<dyn MakesWay>>>,
    idle: Arc<IdleList>,
}

/// The handlers that may have idle instances, to be asked for them in turn.
#[derive(Debug, Default)]
pub(super) struct IdleList {
    entries: Mutex<VecDeque<Entry>>,
    /// As many as there are, for those who would find none.
    length: AtomicUsize,
    numbered: AtomicU64,
}

/// A handler, and the number that tells whether this is its entry still.
type Entry = (Weak<dyn MakesWay>, u64);

impl IdleList {
    /// A number for an entry.
    pub(super) fn number(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Adds a handler that has an idle instance now.
    pub(super) fn add(&self, idle: &Arc<dyn MakesWay>, number: u64) {
        self.change(|entries| {
            // Now and then, so that it costs nothing on the average.
            if entries.len().is_power_of_two() {
                entries.retain(|entry| valid(entry).is_some());
            }
            entries.push_back((Arc::downgrade(idle), number));
        });
    }

    /// The next handler to ask, which stays in the list.
    fn next(&self) -> Option<(Arc<dyn MakesWay>, u64)> {
        if self.length.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.change(|entries| {
            for _ in 0..ASKED {
                let entry = entries.pop_front()?;
                if let Some(idle) = valid(&entry) {
                    let number = entry.1;
                    entries.push_back(entry);
                    return Some((idle, number));
                }
            }
            None
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<Entry>) -> T) -> T {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut entries);
        self.length.store(entries.len(), Ordering::SeqCst);
        changed
    }
}

/// The handler of an entry that is worth something.
fn valid((idle, number): &Entry) -> Option<Arc<dyn MakesWay>> {
    idle.upgrade().filter(|idle| idle.is_listed_as(*number))
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
            idle: Arc::default(),
        })
    }

    /// The places that one handler holds: none yet.
    pub(super) fn holding(self: &Arc<Self>) -> Arc<Holding> {
        Arc::new(Holding { pool: self.clone(), held: AtomicUsize::new(0) })
    }

    /// The handlers that may have idle instances.
    pub(super) fn idle(&self) -> &Arc<IdleList> {
        &self.idle
    }

    /// The idle instances of a handler make way for others from now on.
    pub(super) fn enter(&self, idle: &Arc<dyn MakesWay>) {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        // Now and then, so that it costs nothing on the average.
        if handlers.len().is_power_of_two() {
            handlers.retain(|idle| idle.strong_count() > 0);
        }
        handlers.push(Arc::downgrade(idle));
        self.entered.store(handlers.len(), Ordering::Relaxed);
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

    /// Ends one idle instance of any handler. No lock is held meanwhile but for a moment each.
    fn end_an_idle_one(&self) -> bool {
        for _ in 0..ASKED {
            let Some((idle, entry)) = self.idle.next() else { return false };
            if idle.end_coldest() {
                return true;
            }
            idle.unlist(entry);
            // One that was pushed before that has not listed it again.
            if idle.end_coldest() {
                idle.list_again();
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
    use crate::plugin::idle::Idle;

    /// A pool, and that many handlers without idle instances.
    fn pool(places: usize, handlers: usize) -> (Arc<Pool>, Vec<Arc<Idle<()>>>) {
        let pool = Pool::new(NonZeroUsize::new(places).unwrap());
        let idle = (0..handlers).map(|_| Idle::enter(&pool)).collect();
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

    /// Overload costs most when least can be paid.
    #[test]
    fn a_request_without_a_place_asks_only_handlers_that_have_had_idle_instances() {
        let (pool, mut idle) = pool(1, 1000);
        let holding = pool.holding();
        let _place = holding.take().unwrap();
        let length = || pool.idle.length.load(Ordering::SeqCst);
        assert_eq!((holding.take().err(), length()), (Some(Full), 0));
        // They have had some, which requests have taken since.
        idle.iter().for_each(|idle| idle.enlist());
        assert_eq!(length(), 1000);
        let listed = |idle: &[Arc<Idle<()>>]| idle.iter().filter(|idle| !idle.is_listed_as(0)).count();
        assert_eq!(holding.take().err(), Some(Full));
        assert_eq!(listed(&idle), 1000 - ASKED, "none of them is asked again");
        for _ in 0..2 * 1000 / ASKED {
            assert_eq!(holding.take().err(), Some(Full));
        }
        assert_eq!((listed(&idle), length()), (0, 0));
        // One that has an idle instance again is listed once, and one that is gone is not.
        for _ in 0..3 {
            idle[7].enlist();
            idle[8].enlist();
        }
        idle.remove(8);
        assert_eq!(
            (
                pool.idle
                    .next()
                    .map(|(found, _)| std::ptr::addr_eq(Arc::as_ptr(&found), Arc::as_ptr(&idle[7]))),
                length()
            ),
            (Some(true), 2)
        );
        assert!(pool.idle.next().is_some() && length() == 1);
    }
}
