//! Keeps long computations off the threads that serve requests.
//!
//! A runtime has one worker a core; whatever computes on one for long makes every other request on it wait. Handing
//! work to another thread costs more than most of it takes, so it is done only when there is much: by size where that is
//! known ahead ([`if_large`]), by time for guest code (`plugin/deadline.rs`).

use tokio::runtime::{Handle, RuntimeFlavor};

/// Conversions of this many bytes and more take a millisecond or longer.
pub const LARGE: usize = 256 << 10;

/// Runs `work`, which takes time in proportion to `bytes`; if that is long, not as one of the runtime's workers.
pub fn if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LARGE { work() } else { off_worker(work) }
}

/// Runs `work` after giving this thread's place among the workers to another thread, if it has one.
pub fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    // Only a multi-threaded runtime has places to give away.
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}
