//! Compiles components, within bounds of memory.
//!
//! Place in the flow: below the compile cache, for what is not in it. In: a component's bytes. Out: its code,
//! or what of it would take too much memory to compile.
//! The compiler's memory cannot be limited, and can grow with the square of a function's length. So it is
//! estimated first; a component that needs too much is refused, and those that are compiled at the same time
//! wait for each other.
//! Invariant: of estimated memory no more than [`MOST`] is in use at any time.

mod estimate;
mod instances;

use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

use rayon::ThreadPool;
use wasmtime::Engine;
use wasmtime::component::Component;

pub(super) use self::estimate::TooCostly;

/// Estimated bytes that all compilations may take together, and so one of them.
const MOST: u64 = 3 << 30;
/// Functions that are compiled at the same time, in the whole process.
const THREADS: usize = 8;

/// What all compilations of the process take.
static TAKEN: Mutex<u64> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// So much of [`MOST`] for one of them.
struct Taken(u64);

impl Taken {
    /// Waits until there is as much left.
    fn take(bytes: u64) -> Taken {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_too_much = |taken: &mut u64| taken.saturating_add(bytes) > MOST;
        let mut taken = GIVEN_BACK.wait_while(taken, is_too_much).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        Taken(bytes)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GIVEN_BACK.notify_all();
    }
}

/// The compiler's threads: no more of them than functions were estimated to be compiled at the same time.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("compiler-{n}"));
    pool.build().map_err(|error| tracing::warn!("the compiler has no threads of its own: {error}")).ok()
});

/// Compiles a component. Takes up to seconds of this thread, and of others.
///
/// # Errors
/// [`TooCostly`], or the compiler's.
pub(super) fn compile(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Component> {
    let _taken = Taken::take(estimate::estimate(bytes)?);
    match &*POOL {
        Some(pool) => pool.install(|| Component::from_binary(engine, bytes)),
        None => Component::from_binary(engine, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilations_wait_for_each_other() {
        let first = Taken::take(MOST);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(Taken::take(1)));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap();
        });
    }
}
