//! Answers by key, within bytes.
//!
//! Place in the flow: what the response cache looks up, and puts the outcome of a run into.
//! Invariants: the answers of a shard take at most its part of the cache's size, what is kept beside them
//! counted; one that was used since it was last looked at stays for another round (the CLOCK algorithm), so
//! that a flood of requests that come once does not push out those that come again. A lookup writes at most
//! one flag.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::Flight;
use super::key::Key;
use crate::request::{Output, Response};
use crate::tensor::Tensor;

/// Bytes that are counted for an entry beside its answer: map, queue, counters.
const OVERHEAD: usize = 256;
/// Fewest bytes of a shard: a cache of less has one.
const SMALLEST: usize = 8 << 20;
/// Most shards.
const MOST: usize = 64;

/// An answer that is kept.
pub(super) struct StoredAnswer {
    output: Output,
    bytes: usize,
    made: Instant,
    ttl: Option<Duration>,
    was_used: AtomicBool,
}

impl StoredAnswer {
    pub(super) fn new(output: Output, bytes: usize, ttl: Option<Duration>) -> StoredAnswer {
        StoredAnswer { output, bytes, made: Instant::now(), ttl, was_used: AtomicBool::new(false) }
    }

    pub(super) fn output(&self) -> &Output {
        &self.output
    }

    pub(super) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.ttl.is_none_or(|ttl| now.saturating_duration_since(self.made) < ttl)
    }

    /// The same, and it is known that it was used.
    pub(super) fn used(self: &Arc<StoredAnswer>) -> Arc<StoredAnswer> {
        // Reading is cheaper than writing: every thread would write to the same place.
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
        self.clone()
    }
}

/// The contents of a key.
pub(super) enum Place {
    Kept(Arc<StoredAnswer>),
    /// A run is under way.
    Flying(watch::Receiver<Flight>),
    /// The answer is not kept, and until then no request waits for another.
    Unkept(Instant),
}

impl Place {
    fn bytes(&self) -> usize {
        match self {
            Place::Kept(kept) => kept.bytes,
            // As many as there are requests that run.
            Place::Flying(_) => 0,
            Place::Unkept(_) => OVERHEAD,
        }
    }
}

struct Entry {
    place: Place,
    /// Its place in the queue, if it has one.
    number: u64,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Kept answers in the order in which they make way; those that are no more have another number.
    queue: VecDeque<(Key, u64)>,
    bytes: usize,
    next: u64,
    evictions: u64,
}

/// All answers.
pub(super) struct Shards {
    shards: Box<[RwLock<Shard>]>,
    /// Most bytes of each.
    most: usize,
}

impl Shards {
    pub(super) fn new(size: usize) -> Shards {
        let count = (size / SMALLEST).clamp(1, MOST);
        let shards = (0..count).map(|_| RwLock::default()).collect();
        Shards { shards, most: size / count }
    }

    /// Most bytes of one answer.
    pub(super) fn largest(&self) -> usize {
        self.most
    }

    /// The result of `found` for the place of this key; without a result, or a place, `new` is put there.
    pub(super) fn find<T>(
        &self,
        key: &Key,
        found: impl Fn(&Place) -> Option<T>,
        new: impl FnOnce() -> Place,
    ) -> Option<T> {
        let shard = self.of(key)?;
        let look = |shard: &Shard| shard.entries.get(key).and_then(|entry| found(&entry.place));
        if let Some(found) = look(&shard.read().unwrap_or_else(PoisonError::into_inner)) {
            return Some(found);
        }
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        // Another may have come first.
        if let Some(found) = look(&shard) {
            return Some(found);
        }
        shard.put(key, new());
        None
    }

    /// Puts something else under a key. What has to make way for it goes.
    pub(super) fn put(&self, key: &Key, place: Place) {
        let Some(shard) = self.of(key) else { return };
        let evicted = {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.put(key, place);
            shard.evict(self.most)
        };
        // Their memory is given back without the lock.
        drop(evicted);
    }

    /// The run under this key has no outcome.
    pub(super) fn take_off(&self, key: &Key) {
        let Some(shard) = self.of(key) else { return };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        if shard.entries.get(key).is_some_and(|entry| matches!(entry.place, Place::Flying(_))) {
            shard.entries.remove(key);
        }
    }

    /// Removes all answers; runs that are under way go on.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            let entries = std::mem::take(&mut shard.entries);
            let (flying, kept): (HashMap<_, _>, HashMap<_, _>) =
                entries.into_iter().partition(|(_, entry)| matches!(entry.place, Place::Flying(_)));
            shard.entries = flying;
            shard.queue.clear();
            shard.bytes = 0;
            drop(shard);
            drop(kept);
        }
    }

    /// Bytes that are kept, and how many answers made way so far.
    pub(super) fn figures(&self) -> (usize, u64) {
        self.shards.iter().fold((0, 0), |(bytes, evictions), shard| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            (bytes + shard.bytes, evictions + shard.evictions)
        })
    }

    fn of(&self, key: &Key) -> Option<&RwLock<Shard>> {
        self.shards.get(key.number() % self.shards.len().max(1))
    }
}

impl Shard {
    fn put(&mut self, key: &Key, place: Place) {
        let bytes = place.bytes();
        self.next += 1;
        let number = self.next;
        let old = self.entries.insert(*key, Entry { place, number });
        self.bytes = self.bytes.saturating_sub(old.map_or(0, |old| old.place.bytes())).saturating_add(bytes);
        if bytes > 0 {
            self.queue.push_back((*key, number));
        }
        // Places in the queue whose entry is another by now: at most as many as the others.
        if self.queue.len() > 2 * self.entries.len() + 16 {
            let Shard { entries, queue, .. } = self;
            queue.retain(|(key, number)| entries.get(key).is_some_and(|entry| entry.number == *number));
        }
    }

    /// Removes entries until the others fit.
    fn evict(&mut self, most: usize) -> Vec<Entry> {
        let mut evicted = Vec::new();
        while self.bytes > most {
            let Some((key, number)) = self.queue.pop_front() else { break };
            let Some(entry) = self.entries.get(&key).filter(|entry| entry.number == number) else { continue };
            if let Place::Kept(kept) = &entry.place
                && kept.was_used.swap(false, Ordering::Relaxed)
            {
                self.queue.push_back((key, number));
                continue;
            }
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes = self.bytes.saturating_sub(entry.place.bytes());
                self.evictions += u64::from(matches!(entry.place, Place::Kept(_)));
                evicted.push(entry);
            }
        }
        evicted
    }
}

/// Bytes that an answer takes when it is kept.
pub(super) fn bytes_of(output: &Output) -> usize {
    let answer: usize = match output {
        Output::Response(response) => {
            let headers = response.headers.iter().map(|(name, value)| name.len() + value.len() + 48);
            response.body.len() + response.content_type.len() + headers.sum::<usize>()
        }
        Output::Streamed { .. } => 0,
        Output::Tensors(tensors) => {
            let tensor = |tensor: &Tensor| {
                tensor.data.len() + tensor.name.len() + size_of_val(&*tensor.shape) + size_of::<Tensor>()
            };
            tensors.iter().map(tensor).sum()
        }
    };
    answer + OVERHEAD
}

/// An answer with bytes of its own.
pub(super) fn copied(output: &Output) -> Output {
    match output {
        Output::Response(response) => {
            let body = Bytes::copy_from_slice(&response.body);
            Output::Response(Response { body, ..response.clone() })
        }
        Output::Streamed { status } => Output::Streamed { status: *status },
        Output::Tensors(tensors) => {
            let own =
                |tensor: &Tensor| Tensor { data: Bytes::copy_from_slice(&tensor.data), ..tensor.clone() };
            Output::Tensors(tensors.iter().map(own).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::respond;

    fn kept(bytes: usize, ttl: Option<Duration>) -> Place {
        let output = Output::Response(respond::json(vec![b'1'; bytes]));
        Place::Kept(Arc::new(StoredAnswer::new(output, bytes, ttl)))
    }

    fn has(shards: &Shards, number: u8) -> bool {
        let shard = shards.of(&Key::numbered(number)).unwrap().read().unwrap();
        match shard.entries.get(&Key::numbered(number)).map(|entry| &entry.place) {
            Some(Place::Kept(kept)) => {
                kept.used();
                true
            }
            _ => false,
        }
    }

    #[test]
    fn answers_that_are_used_stay_and_all_fit() {
        let shards = Shards::new(1000);
        for number in 0..3 {
            shards.put(&Key::numbered(number), kept(300, None));
        }
        assert!(has(&shards, 0));
        // A flood of answers that are not asked for again.
        for number in 10..100 {
            shards.put(&Key::numbered(number), kept(300, None));
            assert!(shards.figures().0 <= 1000);
            assert!(has(&shards, 0), "{number}");
        }
        assert!(!has(&shards, 1));
        assert_eq!(shards.figures(), (900, 90));
        shards.clear();
        assert_eq!(shards.figures().0, 0);
        assert!(!has(&shards, 0));
    }

    #[test]
    fn one_key_replaced_for_ever_takes_no_more_memory() {
        let shards = Shards::new(1000);
        for _ in 0..10_000 {
            shards.put(&Key::numbered(1), kept(300, Some(Duration::ZERO)));
        }
        let shard = shards.shards[0].read().unwrap();
        assert_eq!((shard.bytes, shard.entries.len(), shard.evictions), (300, 1, 0));
        assert!(shard.queue.len() < 32, "{}", shard.queue.len());
    }

    #[test]
    fn a_cache_has_shards_of_a_size_that_answers_fit_in() {
        for (size, count, largest) in [(1 << 10, 1, 1 << 10), (64 << 20, 8, 8 << 20), (64 << 30, 64, 1 << 30)]
        {
            let shards = Shards::new(size);
            assert_eq!((shards.shards.len(), shards.largest()), (count, largest));
        }
    }
}
