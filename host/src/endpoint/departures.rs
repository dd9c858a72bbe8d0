//! Answers that are under way to clients that do not take them, and which of them make way.
//!
//! Place in the flow: an endpoint's admission queue keeps the answers of applications, and its WebSockets,
//! from the beginning of their runs to the end. In: an [`Origin`] and the [`Progress`] of an answer. Out:
//! when all places are taken and another request comes or waits, the end of one whose client is slow. The
//! order is that of [`arrivals`]: of the address that has most of them, and of it the
//! connection, the oldest. So clients that read nothing hold no place against requests that are there.
//! Invariants: an answer that waits for its handler, or whose client takes it, never ends here; entering and
//! leaving lock what is the thread's own.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::arrivals::{self, Origin};
use crate::request::exchange::Progress;
use crate::shard;
use crate::time::milliseconds;

/// How long it is believed that no answer is slow.
const PAUSE: Duration = Duration::from_millis(20);

/// The answers of an endpoint.
#[derive(Debug)]
pub struct Departures {
    /// By thread.
    shards: Box<[Shard]>,
    begun: Instant,
    /// When none was slow last, in milliseconds since then.
    looked: AtomicU64,
    /// Those that were told to end and have not.
    leaving: AtomicUsize,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Vec<(Origin, Arc<Progress>)>>);

impl Shard {
    fn list(&self) -> MutexGuard<'_, Vec<(Origin, Arc<Progress>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Departures {
    fn default() -> Departures {
        Departures {
            shards: (0..shard::count()).map(|_| Shard::default()).collect(),
            begun: Instant::now(),
            looked: AtomicU64::new(0),
            leaving: AtomicUsize::new(0),
        }
    }
}

impl Departures {
    /// Enters an answer, until the entry is dropped.
    pub fn begin(&self, origin: Origin, progress: &Arc<Progress>) -> Departure<'_> {
        let index = shard::current(self.shards.len());
        if let Some(shard) = self.shards.get(index) {
            shard.list().push((origin, progress.clone()));
        }
        Departure { departures: self, index, progress: progress.clone() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.list().is_empty())
    }

    /// Ends slow ones in favour of so many requests that wait, as far as others are not ending already.
    pub fn make_room(&self, waiting: usize) {
        while self.leaving.load(Ordering::Relaxed) < waiting && self.end_one() {}
    }

    /// Ends one in favour of a request; `false` if none is slow.
    pub fn end_one(&self) -> bool {
        let now = Instant::now();
        let passed = milliseconds(now.duration_since(self.begun));
        let pause = milliseconds(PAUSE);
        let looked = self.looked.load(Ordering::Relaxed);
        if looked > 0 && passed.saturating_sub(looked) < pause {
            return false;
        }
        let mut slow: Vec<(Origin, Arc<Progress>)> = Vec::new();
        for shard in &self.shards {
            slow.extend(shard.list().iter().filter(|(_, progress)| progress.is_slow(now)).cloned());
        }
        slow.sort_by_key(|(_, progress)| progress.begun());
        let first = arrivals::first_to_end(slow.iter().map(|(origin, _)| *origin));
        let Some((_, progress)) = first.and_then(|index| slow.get(index)) else {
            self.looked.store(passed.max(1), Ordering::Relaxed);
            return false;
        };
        // Two that look at the same time want two places.
        if progress.make_way() {
            self.leaving.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

/// An answer that is under way.
pub struct Departure<'a> {
    departures: &'a Departures,
    index: usize,
    progress: Arc<Progress>,
}

impl Drop for Departure<'_> {
    fn drop(&mut self) {
        if let Some(shard) = self.departures.shards.get(self.index) {
            let mut list = shard.list();
            if let Some(own) = list.iter().position(|(_, progress)| Arc::ptr_eq(progress, &self.progress)) {
                list.swap_remove(own);
            }
        }
        if self.progress.has_made_way() {
            self.departures.leaving.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn origin(address: u8, connection: usize) -> Origin {
        Origin { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, address)), connection }
    }

    fn slow() -> Arc<Progress> {
        let progress = Arc::new(Progress::new());
        progress.answer(200);
        progress.handed_over(1);
        progress.wait_for(Duration::from_secs(60));
        progress
    }

    #[test]
    fn the_oldest_slow_one_of_those_with_most_makes_way() {
        let departures = Departures::default();
        let [few, early, late] = [slow(), slow(), slow()];
        let resting = slow();
        resting.asked();
        let unanswered = Arc::new(Progress::new());
        let _held = [
            departures.begin(origin(1, 1), &few),
            departures.begin(origin(2, 2), &late),
            departures.begin(origin(2, 2), &early),
            departures.begin(origin(3, 3), &resting),
            departures.begin(origin(3, 3), &unanswered),
        ];
        let (first, second) = if early.begun() <= late.begun() { (&early, &late) } else { (&late, &early) };
        assert!(departures.end_one());
        assert!(first.has_made_way() && !second.has_made_way() && !few.has_made_way());
        departures.make_room(1);
        assert!(!second.has_made_way(), "one is ending already");
        departures.make_room(5);
        assert!(second.has_made_way() && few.has_made_way());
        assert!(!resting.has_made_way() && !unanswered.has_made_way());
        assert!(!departures.end_one());
    }

    #[test]
    fn one_that_ends_is_counted_no_more() {
        let departures = Departures::default();
        for _ in 0..3 {
            let progress = slow();
            let entry = departures.begin(origin(1, 1), &progress);
            assert!(departures.end_one());
            assert_eq!(departures.leaving.load(Ordering::Relaxed), 1);
            drop(entry);
            assert_eq!(departures.leaving.load(Ordering::Relaxed), 0);
            assert!(departures.is_empty());
        }
    }
}
