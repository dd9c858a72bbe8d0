//! Keeps guest code from holding a thread or a request longer than it may.
//!
//! One ticker thread per process advances the engine's epoch every [`TICK`]. Compiled guest code checks the epoch
//! at loop heads and function entries and lands in [`on_tick`], on the thread it runs on. There:
//! - past its deadline it traps, which ends one request;
//! - before that it may go on, but not on a thread that serves other requests. A guest call starts on an async
//!   worker because it usually takes microseconds; one that is still running at the first tick hands the worker's
//!   place to another thread ([`leave_worker`]) and from then on competes for the CPU as any other OS thread does.
//!   So a slow handler costs its neighbours at most two ticks once, however long it runs, and a fast one pays
//!   nothing for the protection.
//!
//! Time a guest spends waiting (a WASI clock, a file) is not guest code; the pipeline's own timer covers it.

use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use wasmtime::{EngineWeak, UpdateDeadline};

/// Resolution of guest deadlines, and how long a guest call may hold an async worker.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Epochs from the start of a call to its first [`on_tick`]: between one and two ticks of time.
pub(super) const FIRST_TICKS: u64 = 2;

/// How long a thread that gave its worker's place away waits for the new owner to take it. Without the pause the
/// runtime would hand the place straight back.
const HANDOVER: Duration = Duration::from_micros(300);

/// A guest call that ran past its deadline.
#[derive(Debug, thiserror::Error)]
#[error("deadline exceeded")]
pub(super) struct DeadlineExceeded;

/// Starts the ticker. It ends by itself when the engine is dropped.
///
/// # Errors
/// The operating system refuses a thread.
pub(super) fn start_ticker(engine: EngineWeak) -> std::io::Result<()> {
    std::thread::Builder::new().name("epoch-ticker".to_owned()).spawn(move || {
        loop {
            std::thread::sleep(TICK);
            let Some(engine) = engine.upgrade() else { return };
            engine.increment_epoch();
        }
    })?;
    Ok(())
}

/// Decides what happens to a guest call that is still running. `ticks` counts how often this was asked during
/// the call.
pub(super) fn on_tick(deadline: Instant, ticks: &mut u32) -> wasmtime::Result<UpdateDeadline> {
    if Instant::now() >= deadline {
        return Err(DeadlineExceeded.into());
    }
    *ticks = ticks.saturating_add(1);
    // The first attempt nearly always succeeds. Should the new owner not have got a CPU in time, later ticks try
    // again, ever more rarely, so that the pauses stay a small share of a long call.
    if ticks.is_power_of_two() {
        leave_worker();
    }
    Ok(UpdateDeadline::Continue(1))
}

/// Gives this thread's place among the async workers to another thread, if it has one.
fn leave_worker() {
    // Only a multi-threaded runtime has places to give away.
    let on_worker = Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    if on_worker {
        tokio::task::block_in_place(|| std::thread::sleep(HANDOVER));
    }
}
