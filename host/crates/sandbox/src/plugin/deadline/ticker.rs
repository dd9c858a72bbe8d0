//! The clock of all guest calls: one thread that counts, while any guest runs.
//!
//! Place in the flow: started with the sandbox; calls compare its ticks, compiled code the epochs of its
//! engine. In: signs that guest code runs. Out: ticks.
//! Invariants: one thread a process's sandbox, however many engines that has; it ends with the last of them.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::Handle;
use wasmtime::{Engine, EngineWeak};

use crate::plugin::turns::Turns;

/// Resolution of the limits, and how long a guest call may hold an async worker.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Ticks without a sign of guest code after which none is counted until there is one. Code that runs gives a
/// sign with every tick.
const QUIET: u64 = 50;

/// How often a thread that rests looks whether an engine is still there.
const REST: Duration = Duration::from_secs(1);

/// The clock and the scheduler of all calls of all engines: the ticks since the first was made, and turns.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::plugin) struct Scheduler(Arc<SchedulerState>);

#[derive(Debug, Default)]
struct SchedulerState {
    ticks: AtomicU64,
    /// Whether guest calls are to end.
    is_stopped: AtomicBool,
    /// Whether there was a sign of guest code lately. Written when it changes only: every call reads it.
    is_awake: AtomicBool,
    /// The thread that counts, while it is parked.
    parked: Mutex<Option<Thread>>,
    turns: Turns,
    engines: Mutex<Engines>,
}

/// The engines whose epochs are advanced, as long as they are there.
#[derive(Default)]
struct Engines(Vec<EngineWeak>);

impl Engines {
    /// Those that are still there.
    fn alive(&self) -> impl Iterator<Item = Engine> {
        self.0.iter().filter_map(EngineWeak::upgrade)
    }
}

impl fmt::Debug for Engines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} engines", self.0.len())
    }
}

impl Scheduler {
    /// Ends the guest calls that run, as soon as they are looked at.
    pub(in crate::plugin) fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Advances the epoch of this engine too.
    pub(in crate::plugin) fn tick(&self, engine: EngineWeak) {
        self.engines().0.push(engine);
    }

    fn engines(&self) -> MutexGuard<'_, Engines> {
        self.0.engines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> u64 {
        self.0.ticks.load(Ordering::Relaxed)
    }

    /// Whether guest calls are to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// The turns of calls that are long.
    pub(super) fn turns(&self) -> &Turns {
        &self.0.turns
    }

    /// Ends the turn of a call on the thread of its request, but not before the tasks have run that are ready
    /// now: the runtime polls next what a task wakes, and the next call would again go before all others. At
    /// once where no other task had a turn on this thread since the last of this one: there is no crowd.
    pub(super) fn end_short_turn(&self) {
        thread_local!(static LAST: Cell<Option<tokio::task::Id>> = const { Cell::new(None) });
        struct Turn(Scheduler);
        impl Drop for Turn {
            fn drop(&mut self) {
                self.0.turns().end();
            }
        }
        let task = tokio::task::try_id();
        if task.is_some() && LAST.replace(task) == task {
            self.turns().end();
            return;
        }
        let turn = Turn(self.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                tokio::task::yield_now().await;
                drop(turn);
            });
        }
    }

    /// So many ticks have passed.
    #[cfg(test)]
    pub(super) fn pass(&self, ticks: u64) {
        self.0.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Guest code runs from now on, or still: ticks have to be counted.
    pub(in crate::plugin) fn wake(&self) {
        if !self.0.is_awake.load(Ordering::Relaxed) {
            self.0.is_awake.store(true, Ordering::SeqCst);
            if let Some(thread) = self.parked().take() {
                thread.unpark();
            }
        }
    }

    /// Waits for a while, or until there is a sign of guest code; not at all if there was one since
    /// `is_awake` was cleared.
    fn park(&self) {
        *self.parked() = Some(std::thread::current());
        // Either this sees the sign, or who gives it sees the thread.
        if !self.0.is_awake.load(Ordering::SeqCst) {
            std::thread::park_timeout(REST);
        }
        self.parked().take();
    }

    fn parked(&self) -> MutexGuard<'_, Option<Thread>> {
        self.0.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that counts ticks. It ends by itself when the last engine is dropped.
///
/// # Errors
/// The operating system refuses a thread.
pub(in crate::plugin) fn start_ticker(engine: EngineWeak) -> std::io::Result<Scheduler> {
    let scheduler = Scheduler::default();
    scheduler.tick(engine);
    let counted = scheduler.clone();
    std::thread::Builder::new().name("epoch-ticker".to_owned()).spawn(move || {
        loop {
            for _ in 0..QUIET {
                std::thread::sleep(TICK);
                counted.0.ticks.fetch_add(1, Ordering::Relaxed);
                if counted.engines().alive().map(|engine| engine.increment_epoch()).count() == 0 {
                    return;
                }
            }
            while !counted.0.is_awake.swap(false, Ordering::SeqCst) {
                counted.park();
                if counted.engines().alive().next().is_none() {
                    return;
                }
            }
        }
    })?;
    Ok(scheduler)
}
