//! Keeps guest code from holding a thread or a request longer than it may.
//!
//! One ticker thread per process advances the engine's epoch every [`TICK`]. Compiled guest code checks the epoch
//! at loop heads and function entries and lands in [`on_tick`], on the thread it runs on. There:
//! - past its deadline it traps, which ends one request;
//! - before that it may go on, but not on a thread that serves other requests. A guest call starts on an async
//!   worker because it usually takes microseconds; one that is still running at the second tick hands the worker's
//!   place to another thread ([`leave_worker`]) and from then on competes for the CPU as any other OS thread does.
//!   A handler whose calls have lately done that leaves the worker before it even begins ([`Pace`]): a crowd of such
//!   calls would otherwise fight for the CPU with the very threads that have to let them go.
//!   So a slow handler costs its neighbours at most three ticks once, however long it runs, and a fast one pays
//!   nothing for the protection.
//!
//! Time a guest spends waiting (a WASI clock, a file) is not guest code; the pipeline's own timer covers it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use wasmtime::{EngineWeak, UpdateDeadline};

use crate::blocking;

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

/// Whether a handler's calls have lately been long.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Raised by every long call, lowered by every short one; above zero, calls begin off the worker.
    long: AtomicU32,
}

impl Pace {
    /// How many short calls make up for a long one.
    const WEIGHT: u32 = 4;
    /// How far long calls add up.
    const MOST: u32 = 16;

    /// A call is about to enter the guest on this thread.
    pub(super) fn begin(&self) {
        if self.long.load(Ordering::Relaxed) > 0 {
            leave_worker();
        }
    }

    /// A call has turned out to be long.
    fn long(&self) {
        let raise = |long: u32| Some((long + Self::WEIGHT).min(Self::MOST));
        let _ = self.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise);
    }

    /// A call has ended that was asked `ticks` times to go on.
    pub(super) fn end(&self, ticks: u32) {
        // The usual case, a short call of a handler without long ones, writes nothing.
        if !is_long(ticks) && self.long.load(Ordering::Relaxed) > 0 {
            let lower = |long: u32| long.checked_sub(1);
            let _ = self.long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }
}

/// Whether a call was still running at its second tick. Not at the first one: a short call that the kernel interrupted for some
/// milliseconds ends right after it.
fn is_long(ticks: u32) -> bool {
    ticks > 1
}

/// Decides what happens to a guest call that is still running. `ticks` counts how often this was asked during
/// the call.
pub(super) fn on_tick(deadline: Instant, ticks: &mut u32, pace: &Pace) -> wasmtime::Result<UpdateDeadline> {
    if Instant::now() >= deadline {
        return Err(DeadlineExceeded.into());
    }
    *ticks = ticks.saturating_add(1);
    // The first attempt nearly always succeeds. Should the new owner not have got a CPU in time, later ticks try
    // again, ever more rarely, so that the pauses stay a small share of a long call.
    if is_long(*ticks) && ticks.is_power_of_two() {
        if *ticks == 2 {
            // Said before the call has ended, for those that begin meanwhile.
            pace.long();
        }
        leave_worker();
    }
    Ok(UpdateDeadline::Continue(1))
}

/// Gives this thread's place among the async workers to another thread, if it has one.
fn leave_worker() {
    blocking::off_worker(|| std::thread::sleep(HANDOVER));
}
