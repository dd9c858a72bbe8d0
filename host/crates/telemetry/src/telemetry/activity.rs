//! Which calls there are and have been.
//!
//! Place in the flow: around every call of the main listener (`POST`), on any path and with any outcome.
//! In: [`Activity::begin`] when its head is there; the [`CallGuard`] it gives is dropped with the answer, or
//! with the client.
//! Out: [`Activity::snapshot`], for a request for the status.
//!
//! Invariant: a call takes no lock and touches nothing of another thread's calls: it counts itself and writes
//! its beginning into a free slot of its own thread's shard. Only a call that ends on another thread than it
//! began on goes to another shard.

use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::shard;

/// Slots of a shard's first chunk; each further chunk has twice as many as the one before.
const FIRST_CHUNK: usize = 64;
/// Chunks of a shard: slots for a quarter of a million calls in flight.
const CHUNKS: usize = 12;
/// In a slot, in place of a time.
const FREE: u64 = 0;

/// The calls of one process.
#[derive(Debug)]
pub struct Activity {
    started: Instant,
    shards: Box<[Shard]>,
}

/// One thread's part. Aligned so that no two share a cache line (or a pair of them, which x86 fetches
/// together). Times are nanoseconds since the start of the process, 1 at least.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    begun: AtomicU64,
    last_ended: AtomicU64,
    /// When each call in flight began. A chunk is made when the ones before it are full.
    slots: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
}

/// A call that has not ended.
#[derive(Debug)]
pub struct CallGuard<'a> {
    activity: &'a Activity,
    shard: &'a Shard,
    slot: &'a AtomicU64,
}

/// The calls at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActivitySnapshot {
    /// Calls that ever began.
    pub begun: u64,
    /// Age of the oldest call in flight.
    pub oldest: Option<Duration>,
    /// Time since the last call ended, or since the process started.
    pub quiet: Duration,
}

impl Default for Activity {
    fn default() -> Self {
        Activity { started: Instant::now(), shards: (0..shard::count()).map(|_| Shard::default()).collect() }
    }
}

impl Shard {
    /// Takes a free slot; `None` if all of them are taken.
    fn take_slot(&self, began: u64) -> Option<&AtomicU64> {
        let take = |slot: &&AtomicU64| {
            slot.load(Ordering::Relaxed) == FREE
                && slot.compare_exchange(FREE, began, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.slots.iter().enumerate().find_map(|(number, chunk)| {
            let make = || iter::repeat_with(AtomicU64::default).take(FIRST_CHUNK << number).collect();
            chunk.get_or_init(make).iter().find(take)
        })
    }
}

impl Activity {
    /// Counts a call that begins `now`, until the guard is dropped.
    pub fn begin(&self, now: Instant) -> Option<CallGuard<'_>> {
        let shard = self.shards.get(shard::current(self.shards.len()))?;
        shard.begun.fetch_add(1, Ordering::Relaxed);
        self.hold(now)
    }

    /// Holds a call that began at `began` and is counted already: an application may work on after its
    /// response.
    pub fn hold(&self, began: Instant) -> Option<CallGuard<'_>> {
        let shard = self.shards.get(shard::current(self.shards.len()))?;
        let slot = shard.take_slot(self.time(began))?;
        Some(CallGuard { activity: self, shard, slot })
    }

    /// The calls now. Shards are read one after the other: a call that begins meanwhile may be missed.
    pub fn snapshot(&self) -> ActivitySnapshot {
        let begun = self.shards.iter().map(|shard| shard.begun.load(Ordering::Relaxed)).sum();
        let slots = self.shards.iter().flat_map(|shard| &shard.slots).filter_map(OnceLock::get).flatten();
        let oldest = slots.map(|slot| slot.load(Ordering::Acquire)).filter(|began| *began != FREE).min();
        let last_ended = self.shards.iter().map(|shard| shard.last_ended.load(Ordering::Relaxed)).max();
        let now = self.time(Instant::now());
        let since = |time: u64| Duration::from_nanos(now.saturating_sub(time));
        ActivitySnapshot { begun, oldest: oldest.map(since), quiet: since(last_ended.unwrap_or_default()) }
    }

    fn time(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        // In this order: a snapshot without the call has the time at which it ended.
        self.shard.last_ended.fetch_max(self.activity.time(Instant::now()), Ordering::Relaxed);
        self.slot.store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn calls_are_counted_and_the_oldest_is_known() {
        let activity = Activity::default();
        assert_eq!((activity.snapshot().begun, activity.snapshot().oldest), (0, None));
        let first = activity.begin(Instant::now());
        let after_first = Instant::now();
        let second = activity.begin(Instant::now());
        let least = after_first.elapsed();
        let snapshot = activity.snapshot();
        assert_eq!(snapshot.begun, 2);
        assert!(snapshot.oldest.unwrap() >= least);
        // It ends on another thread, and the younger one is left.
        thread::scope(|scope| scope.spawn(move || drop(first)).join().unwrap());
        assert!(activity.snapshot().oldest.unwrap() <= after_first.elapsed());
        drop(second);
        let snapshot = activity.snapshot();
        assert_eq!((snapshot.begun, snapshot.oldest), (2, None));
        assert!(snapshot.quiet <= after_first.elapsed());
    }

    #[test]
    fn a_call_that_is_held_after_its_answer_is_still_one_call() {
        let activity = Activity::default();
        let began = Instant::now();
        let (counted, held) = (activity.begin(began), activity.hold(began));
        drop(counted);
        let snapshot = activity.snapshot();
        assert_eq!((snapshot.begun, snapshot.oldest.is_some()), (1, true));
        drop(held);
        assert_eq!(activity.snapshot().oldest, None);
    }

    #[test]
    fn slots_are_used_again() {
        let activity = Activity::default();
        for _ in 0..100 {
            drop([activity.begin(Instant::now()), activity.begin(Instant::now())]);
        }
        let chunks = activity.shards.iter().flat_map(|shard| &shard.slots).filter_map(OnceLock::get);
        assert_eq!((chunks.count(), activity.snapshot().begun), (1, 200));
    }

    #[test]
    fn calls_beyond_the_first_slots_are_known_as_well() {
        let activity = Activity::default();
        let oldest = activity.begin(Instant::now());
        let began = Instant::now();
        let younger: Vec<_> = (0..3 * FIRST_CHUNK).map(|_| activity.begin(Instant::now())).collect();
        let age = began.elapsed();
        assert!(activity.snapshot().oldest.unwrap() >= age);
        let last = younger.into_iter().next_back();
        drop(oldest);
        assert!(activity.snapshot().oldest.unwrap() <= began.elapsed());
        drop(last);
        let snapshot = activity.snapshot();
        assert_eq!((snapshot.begun, snapshot.oldest), (3 * FIRST_CHUNK as u64 + 1, None));
    }

    #[test]
    fn every_thread_is_counted() {
        let activity = Activity::default();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| drop(activity.begin(Instant::now()))));
            }
        });
        let snapshot = activity.snapshot();
        assert_eq!((snapshot.begun, snapshot.oldest), (8000, None));
    }
}
