//! Keeps long computations off the threads that serve requests.
//!
//! A runtime has one worker a core; what computes on one for long makes every other request on it wait.
//! Handing work to another thread costs more than most of it takes, so it is done only when there is much.
//! This file decides how much that is, and everything that takes longer for larger values asks it:
//! - work of known size, [`if_large`] and [`if_much_copied`];
//! - work for whose end no caller waits, [`in_background`];
//! - work on files, [`off_thread`];
//! - work that other code does between two calls of ours, [`leave_worker`] before it;
//! - work whose size shows only when it is done, [`Lately`]: what was large once begins off the workers for a
//!   while;
//! - guest code, by time: `plugin/deadline.rs`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::tensor::Tensor;

/// Conversions of this many bytes and more take a millisecond or longer: JSON, base64, compression.
pub const LARGE: usize = 256 << 10;
/// Copies of this many bytes do.
const LARGE_COPY: usize = 4 << 20;
/// The cost of handing a tensor over besides its bytes (three allocations, the checks), in bytes that are
/// copied.
const EACH: usize = 1 << 10;
/// How long a thread that gave its worker's place away waits at most for another thread to begin: on a busy
/// machine that takes milliseconds, and a place that is not taken is handed straight back.
const LONGEST_HANDOVER: Duration = Duration::from_millis(50);
/// From its beginning to its taking the place.
const HANDOVER: Duration = Duration::from_micros(50);
/// The part of a worker's time that large results may take: one in so many.
const SHARE: u64 = 100;

/// Runs `work`, which takes time in proportion to `bytes`; if that is long, not as one of the runtime's
/// workers.
#[inline]
pub fn if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LARGE { work() } else { off_worker(work) }
}

/// The same of work that only copies them.
#[inline]
pub fn if_much_copied<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LARGE_COPY { work() } else { off_worker(work) }
}

/// Runs `work`, for whose end no caller waits, on a thread that may take its time.
pub fn in_background(work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

/// Runs `work`, which reads or writes files, on a thread that may be held.
///
/// # Errors
/// Those of `work`; or it has panicked.
pub async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Runs `work` after giving this thread's place among the workers to another thread, if it has one.
pub fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    if may_be_worker() { tokio::task::block_in_place(work) } else { work() }
}

/// Gives this thread's place among the workers to another thread, if it has one, for the rest of this poll.
pub fn leave_worker() {
    if !may_be_worker() {
        return;
    }
    tokio::task::block_in_place(|| {
        // The new owner of the place is a job in the runtime's queue of blocking work; one behind it begins
        // later.
        let (begun, behind) = std::sync::mpsc::sync_channel(1);
        tokio::task::spawn_blocking(move || begun.send(()));
        let _ = behind.recv_timeout(LONGEST_HANDOVER);
        std::thread::sleep(HANDOVER);
    });
}

/// The same if so many bytes are about to be copied that it takes long.
#[inline]
pub fn leave_worker_if_large(bytes: usize) {
    if bytes >= LARGE_COPY {
        leave_worker();
    }
}

/// Only a multi-threaded runtime has places to give away.
#[inline]
fn may_be_worker() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The cost of handing tensors over, in bytes that are copied.
#[inline]
pub fn weight(tensors: &[Tensor]) -> usize {
    weight_of(tensors.iter().map(|tensor| tensor.data.len()))
}

/// The same of tensors of these lengths.
pub fn weight_of(lengths: impl IntoIterator<Item = usize>) -> usize {
    lengths.into_iter().map(|length| length.saturating_add(EACH)).fold(0, usize::saturating_add)
}

/// Results of one kind of call, whose size is unknown before they are there.
///
/// One that took long to copy may have held a worker. For a hundred times as long all calls begin off the
/// workers, so that however a handler alternates, it takes a hundredth of their time.
#[derive(Debug)]
pub struct Lately {
    since: Instant,
    /// Until when calls begin off the workers, in milliseconds since `since`; 0 if none was ever large.
    until: AtomicU64,
}

impl Default for Lately {
    fn default() -> Lately {
        Lately { since: Instant::now(), until: AtomicU64::new(0) }
    }
}

impl Lately {
    /// Whether a call that hands so many bytes over is to begin off the workers.
    #[inline]
    pub fn is_large(&self, bytes: usize) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        bytes >= LARGE_COPY || until > 0 && self.elapsed() < until
    }

    /// A call has returned so many bytes.
    #[inline]
    pub fn returned(&self, bytes: usize) {
        if bytes >= LARGE_COPY {
            self.took(Duration::from_millis((bytes / LARGE_COPY) as u64));
        }
    }

    /// A call has held its thread for so long.
    pub fn took(&self, time: Duration) {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).saturating_mul(SHARE);
        self.until.fetch_max(self.elapsed().saturating_add(milliseconds), Ordering::Relaxed);
    }

    #[inline]
    fn elapsed(&self) -> u64 {
        self.since.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_large_is_taken_for_large_a_hundred_times_as_long() {
        let lately = Lately::default();
        assert!(!lately.is_large(LARGE_COPY - 1) && lately.is_large(LARGE_COPY));
        lately.returned(LARGE_COPY - 1);
        assert!(!lately.is_large(0));
        lately.returned(600 * LARGE_COPY);
        assert!(lately.is_large(0));
        // A smaller one does not shorten it.
        lately.returned(LARGE_COPY);
        let until = lately.until.load(Ordering::Relaxed);
        assert!((60_000..=60_000 + lately.elapsed()).contains(&until), "{until}");
        lately.returned(usize::MAX);
        let over = Lately { until: AtomicU64::new(1), since: Instant::now() - Duration::from_secs(1) };
        assert!(!over.is_large(0));
    }

    #[test]
    fn many_small_tensors_weigh_as_much_as_a_large_one() {
        assert!(weight_of(std::iter::repeat_n(0, 100_000)) > weight_of([16 * LARGE_COPY]));
        assert!(weight_of(std::iter::repeat_n(4, 100)) < LARGE_COPY);
        assert_eq!(weight_of([usize::MAX - EACH, 1]), usize::MAX);
    }

    /// A worker that is left goes on to serve others: with one worker, the second task runs while the first
    /// has not ended.
    #[test]
    fn a_worker_that_is_left_serves_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let (sender, receiver) = std::sync::mpsc::channel();
            let first = tokio::spawn(async move {
                leave_worker();
                receiver.recv_timeout(Duration::from_secs(60))
            });
            tokio::spawn(async move { sender.send(()) }).await.unwrap().unwrap();
            first.await.unwrap().unwrap();
        });
    }
}
