//! Lends a fixed number of items, each to one borrower at a time.
//!
//! Flow: `sessions → [pool]`.
//! In: the items, once. Out: [`Lease`]s.
//!
//! An idle item lies in a lock-free queue; a borrower that finds one there takes it, and that is all. Otherwise
//! it stands in line: a fair mutex, whose holder is the head of the line and the only one who waits for an item
//! to come back. Within the line nobody is overtaken, and a borrower who goes away merely leaves it. A newcomer may
//! take an item that has come back before the head of the line has woken; items come back far more often than
//! newcomers hit those microseconds, so the head is only ever delayed.
//!
//! No wake-up is lost. A borrower counts itself as waiting *before* it looks into the queue for the last time;
//! whoever gives back puts the item into the queue *before* it reads that count. Both have a sequentially
//! consistent fence in between, so at least one sees the other: the borrower the item, or the giver the
//! borrower, whom it then wakes. The notice is kept if the head of the line is not listening yet, and a notice
//! that nobody needed costs one more look into the queue.
//!
//! Invariant: an item is in the queue or in exactly one lease, which gives it back when it is dropped, however
//! that comes about.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crossbeam_queue::ArrayQueue;
use tokio::sync::{Mutex, Notify};

/// The items that are to be lent. Clones are the same pool.
#[derive(Debug)]
pub struct Pool<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    idle: ArrayQueue<T>,
    /// Borrowers that found the queue empty.
    waiting: AtomicUsize,
    /// The line they stand in.
    line: Mutex<()>,
    /// Wakes the head of the line.
    returned: Notify,
}

impl<T> Pool<T> {
    /// A pool of `items`.
    pub fn new(items: Vec<T>) -> Pool<T> {
        // A queue of no places is not allowed; no items then means that every borrower waits.
        let idle = ArrayQueue::new(items.len().max(1));
        for item in items {
            // There is a place for each of them.
            let _ = idle.push(item);
        }
        Pool(Arc::new(Shared {
            idle,
            waiting: AtomicUsize::new(0),
            line: Mutex::new(()),
            returned: Notify::new(),
        }))
    }

    /// Borrows an item. Dropping the future is safe at any moment.
    pub async fn take(&self) -> Lease<T> {
        // Also while others wait: an item that lies here has no runner yet, and making it wait for the head of the
        // line to wake would keep the line for ever once it has formed.
        if let Some(item) = self.0.idle.pop() {
            return self.lease(item);
        }
        let _counted = Counted::new(&self.0.waiting);
        let _head = self.0.line.lock().await;
        fence(Ordering::SeqCst);
        loop {
            if let Some(item) = self.0.idle.pop() {
                return self.lease(item);
            }
            self.0.returned.notified().await;
        }
    }

    /// Number of items.
    pub fn total(&self) -> usize {
        self.0.idle.capacity()
    }

    /// Items that nobody holds.
    pub fn idle(&self) -> usize {
        self.0.idle.len()
    }

    fn lease(&self, item: T) -> Lease<T> {
        Lease { item: Some(item), pool: Pool(Arc::clone(&self.0)) }
    }

    fn give_back(&self, item: T) {
        // Never full: there are as many places as items.
        let _ = self.0.idle.push(item);
        fence(Ordering::SeqCst);
        if self.0.waiting.load(Ordering::Relaxed) > 0 {
            self.0.returned.notify_one();
        }
    }
}

/// An item that is lent; goes back on drop.
#[derive(Debug)]
pub struct Lease<T> {
    /// `None` only while it is being dropped.
    item: Option<T>,
    pool: Pool<T>,
}

impl<T> Deref for Lease<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.item {
            Some(item) => item,
            None => unreachable!("a lease keeps its item until it is dropped"),
        }
    }
}

impl<T> DerefMut for Lease<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.item {
            Some(item) => item,
            None => unreachable!("a lease keeps its item until it is dropped"),
        }
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.pool.give_back(item);
        }
    }
}

/// Counts its owner as waiting for as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::task::{JoinSet, yield_now};
    use tokio::time::{sleep, timeout};

    use super::*;

    fn threads(count: usize) -> Runtime {
        Builder::new_multi_thread().worker_threads(count).enable_all().build().unwrap()
    }

    #[test]
    fn the_line_is_served_in_order_and_leavers_leave_no_trace() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let pool = Arc::new(Pool::new(vec![()]));
            let held = pool.take().await;
            let served = Arc::new(std::sync::Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for name in 0..6 {
                let (pool, served) = (Arc::clone(&pool), Arc::clone(&served));
                tasks.push(tokio::spawn(async move {
                    let _lease = pool.take().await;
                    served.lock().unwrap().push(name);
                    yield_now().await;
                }));
                yield_now().await;
            }
            // The head of the line goes away after it was woken and before it ran, another one while it waits.
            drop(held);
            tasks[0].abort();
            tasks[3].abort();
            for task in tasks {
                let _ = task.await;
            }
            assert_eq!(*served.lock().unwrap(), [1, 2, 4, 5]);
            assert_eq!(pool.idle(), 1);
        });
    }

    #[test]
    fn nothing_is_lost_by_many_who_come_and_go() {
        let runtime = threads(4);
        runtime.block_on(async {
            let pool = Arc::new(Pool::new(vec![0u64, 0]));
            let mut tasks = JoinSet::new();
            for task in 0..64u64 {
                let pool = Arc::clone(&pool);
                tasks.spawn(async move {
                    let mut runs = 0;
                    for round in 0..2000u64 {
                        // Every shape of coming and going: at once, after a while, gone before it is served.
                        let patience = Duration::from_micros((task * 31 + round * 17) % 50);
                        let work = async {
                            let mut lease = pool.take().await;
                            *lease += 1;
                            if (task + round).is_multiple_of(3) {
                                yield_now().await;
                            }
                        };
                        if (task + round).is_multiple_of(2) {
                            work.await;
                            runs += 1;
                        } else if timeout(patience, work).await.is_ok() {
                            runs += 1;
                        }
                    }
                    runs
                });
            }
            let finished = timeout(Duration::from_secs(60), tasks.join_all());
            let runs: u64 = finished.await.expect("a wake-up was lost").into_iter().sum();
            assert_eq!(pool.idle(), 2);
            assert_eq!(pool.0.waiting.load(Ordering::SeqCst), 0);
            // Every run counted in the item it held; some who left had counted already.
            let (one, other) = (pool.take().await, pool.take().await);
            assert!(runs <= *one + *other && *one + *other <= 64 * 2000);
        });
    }

    #[test]
    fn a_panic_gives_the_item_back() {
        threads(1).block_on(async {
            let pool = Arc::new(Pool::new(vec![()]));
            let lease = pool.take().await;
            let panicked = tokio::task::spawn_blocking(move || {
                let _lease = lease;
                panic!("as a broken engine would");
            });
            assert!(panicked.await.is_err());
            assert_eq!(pool.idle(), 1);
        });
    }

    #[test]
    fn who_waits_is_woken_by_an_item_that_comes_back_late() {
        threads(2).block_on(async {
            let pool = Arc::new(Pool::new(vec![()]));
            let lease = pool.take().await;
            let waiting = tokio::spawn({
                let pool = Arc::clone(&pool);
                async move { drop(pool.take().await) }
            });
            sleep(Duration::from_millis(20)).await;
            assert!(!waiting.is_finished());
            drop(lease);
            timeout(Duration::from_secs(5), waiting).await.expect("woken").unwrap();
        });
    }
}
