//! Which shard of a per-thread structure the current thread uses.
//!
//! Counters and pools that every request touches are split into shards, so that two workers do not pull one
//! cache line back and forth: on the request path that costs more than the work itself.
//! Invariant: a thread keeps its number for life. Two threads may have the same shard, so shards are still
//! atomics or locks; they are just rarely contended.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// Number of shards worth having: more than threads that run at the same time, because workers are replaced
/// now and then and their numbers are not chosen.
static COUNT: LazyLock<usize> =
    LazyLock::new(|| (available_parallelism().map_or(1, usize::from) * 4).next_power_of_two());
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// How many shards to make.
#[inline]
pub fn count() -> usize {
    *COUNT
}

/// The current thread's shard, less than `count`.
#[inline]
pub fn current(count: usize) -> usize {
    NUMBER.with(|number| number % count.max(1))
}
