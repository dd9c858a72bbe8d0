//! Lends sessions to requests.
//!
//! Flow: `verify → [sessions] → session`.
//! In:   the inputs of one request. Out: its outputs, or the engine's error.
//!
//! # Where it runs
//! A run of some microseconds is cheaper than handing it to another thread and back, but a run of milliseconds
//! on an async thread stalls every request that this thread serves. So the time of runs is watched: if all but the
//! slowest fifth have lately been fast, a run is made in place, otherwise on one of tokio's blocking threads. Large
//! inputs always go there, since the time of others says nothing about them.
//!
//! Invariant: a run owns the lease of its session, wherever it runs. So the session comes back after an error or
//! a panic, and when the caller has gone while the run went on in a blocking thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task;
use tracing::debug;

use super::ModelError;
use super::engine::Session;
use super::pool::Pool;
use crate::tensor::{Tensor, TensorSpec, element_count};

/// Runs shorter than this are made on the caller's thread.
const FAST: Duration = Duration::from_micros(200);

/// Inputs larger than this, in bytes, are not: nothing tells how long they take.
const SMALL: usize = 64 << 10;

/// A warm-up run this long is not repeated: what the first one cost on top no longer matters.
const LONG: Duration = Duration::from_millis(10);

/// Runs of a warm-up that are fast enough to be repeated.
const WARM_UP_RUNS: usize = 10;

/// Inputs larger than this, in bytes, are not made up for a warm-up.
const TOO_LARGE: usize = 1 << 30;

/// All sessions of one model.
#[derive(Debug)]
pub struct Sessions {
    pool: Pool<Box<dyn Session>>,
    /// About the 80th percentile of the time of recent runs with small inputs, in nanoseconds. Not an average: a run
    /// that the kernel interrupts takes a thousand times longer, and one of those must not count as a thousand.
    typical: AtomicU64,
}

impl Sessions {
    /// Runs every session some times on zeros, so that no request pays for the engine's first allocations,
    /// and takes the time.
    pub fn warm_up(mut sessions: Vec<Box<dyn Session>>) -> Arc<Sessions> {
        // Until a run has been timed, a run is not fast; the first one that is tips the balance.
        let mut typical = FAST;
        for session in &mut sessions {
            match warm_up(&mut **session) {
                Ok(time) => typical = time,
                Err(error) => debug!(error, "a run on zeros failed, so the model is not warmed up"),
            }
        }
        Arc::new(Sessions { pool: Pool::new(sessions), typical: AtomicU64::new(nanoseconds(typical)) })
    }

    /// Runs the model once, in place or on a blocking thread. Dropping the future loses nothing.
    pub async fn run(self: &Arc<Self>, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        let small = inputs.iter().map(|input| input.data.len()).sum::<usize>() <= SMALL;
        let mut session = self.pool.take().await;
        if small && self.typical.load(Ordering::Relaxed) < nanoseconds(FAST) {
            return self.timed(small, || session.run(&inputs));
        }
        let this = Arc::clone(self);
        // The closure owns the session, so that the run can outlive this future.
        let run = task::spawn_blocking(move || this.timed(small, || session.run(&inputs)));
        run.await.unwrap_or_else(|error| Err(ModelError::Run(format!("the run was lost: {error}"))))
    }

    /// Number of sessions.
    pub fn total(&self) -> usize {
        self.pool.total()
    }

    /// Sessions that nobody holds at the moment.
    pub fn idle(&self) -> usize {
        self.pool.idle()
    }

    /// Runs and, if the inputs were `small`, notes how long it took.
    fn timed<T>(&self, small: bool, run: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = run();
        if small {
            let old = self.typical.load(Ordering::Relaxed);
            let new = towards(old, nanoseconds(started.elapsed()));
            // Two runs that end together may lose one measurement, which does no harm.
            self.typical.store(new, Ordering::Relaxed);
        }
        result
    }
}

/// Runs on zeros, with one for every free extent, and says how long a run takes.
fn warm_up(session: &mut dyn Session) -> Result<Duration, String> {
    let inputs = session.signature().inputs.iter().map(zeros).collect::<Option<Vec<_>>>();
    let inputs = inputs.ok_or_else(|| "an input is too large to be made up".to_owned())?;
    let mut run = || -> Result<Duration, String> {
        let started = Instant::now();
        session.run(&inputs).map_err(|error| error.to_string())?;
        Ok(started.elapsed())
    };
    // The first runs also pay for allocations that later ones find done.
    let mut fastest = run()?;
    for _ in 1..WARM_UP_RUNS {
        if fastest >= LONG {
            break;
        }
        fastest = fastest.min(run()?);
    }
    Ok(fastest)
}

/// One step of a percentile estimate: up by a half after a longer time, down by a tenth after a shorter one. It rests
/// where one time in five is longer.
fn towards(estimate: u64, time: u64) -> u64 {
    if time > estimate {
        (estimate + estimate / 2 + 1).min(time)
    } else {
        (estimate - estimate / 10).max(time)
    }
}

fn zeros(spec: &TensorSpec) -> Option<Tensor> {
    let shape = spec.smallest_shape();
    // Four zero bytes are an empty element of BYTES.
    let length = element_count(&shape)?.checked_mul(spec.datatype.size().unwrap_or(4))?;
    if length > TOO_LARGE {
        return None;
    }
    Tensor::new(Arc::clone(&spec.name), spec.datatype, shape, vec![0; length].into()).ok()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}
