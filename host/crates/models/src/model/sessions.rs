//! The sessions of one model, and who runs them.
//!
//! Flow: `handle → [sessions] → a session`, or `queue → [sessions] → a session`.
//! In:   the inputs of one request, or the jobs of one batch. Out: outputs, or the engine's error, to each
//!       its own.
//!
//! # Where a run is made
//! Every session has one runner, a thread that takes work from the queue and runs nothing else. But a run of
//! some microseconds is cheaper than handing it to another thread and back, so the time of runs is watched:
//! if all but the slowest fifth have lately been fast, a request that finds a session free runs it in place,
//! on the thread that serves the request. A run of milliseconds there would stall every request of that
//! thread. So only inputs that are no larger than others which were fast run there; the first of their size
//! go to a runner, and so does everything after a run that was slow by far.
//!
//! # Fair shares
//! A run cannot be interrupted, so a model of seconds would keep a core from a model of a millisecond for as
//! long as the kernel's scheduler lets it. The runners of slow models therefore step back: the scheduler
//! gives a core to any other thread that wants it, and all of it to them while none does; and while faster
//! models are in use they leave one core alone (`shares.rs`). Only the runner steps back; threads that ONNX
//! Runtime adds to a run (`threads`) do not.
//!
//! Invariant: a session is locked for exactly one run, so it comes back after an error, a panic, and when the
//! caller has gone meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::engine::Session;
use super::error::ModelError;
use super::extents::explained;
use super::prediction::Prediction;
use super::queue::{Job, Queue};
use super::schedule::Batching;
use super::shape::LastShape;
use super::{batch, shares, warm_up};
use crate::priority::{Priority, step_back};
use crate::shard;
use crate::tensor::{Signature, Tensor};
use crate::time::nanoseconds;

/// Runs shorter than this are made on the caller's thread.
const FAST: Duration = Duration::from_micros(200);

/// Inputs larger than this, in bytes, never are: building them costs as much as handing them over.
const SMALL: usize = 64 << 10;

/// A run in place that takes this long was slow by far, not just interrupted by the kernel.
const STALLED: Duration = Duration::from_millis(2);

/// A model whose runs take this long is a slow one: its callers do not count milliseconds.
const SLOW: Duration = Duration::from_millis(100);

/// A caller's answer, with the job that it is for.
type Answer = (Job, Result<Prediction, ModelError>);

/// All sessions of one model, and the requests that wait for them.
#[derive(Debug)]
pub struct Sessions {
    /// The inputs and outputs of the model.
    pub signature: Arc<Signature>,
    /// Requests that wait for a runner.
    pub queue: Arc<Queue>,
    sessions: Vec<Mutex<Slot>>,
    /// Cores that one run takes; none on a GPU.
    cores: Option<usize>,
    /// About the 80th percentile of the time of recent runs, in nanoseconds. Not an average: a run that the
    /// kernel interrupts takes a thousand times longer, and one of those must not count as a thousand.
    typical: AtomicU64,
    /// Size of the largest inputs that were fast, in bytes.
    fast_bytes: AtomicUsize,
}

/// A session, and the shape that it is prepared for.
#[derive(Debug)]
struct Slot {
    session: Box<dyn Session>,
    /// `None` if a run of another shape takes no longer.
    shape: Option<LastShape>,
}

impl Slot {
    fn new(session: Box<dyn Session>) -> Slot {
        let shape = session.prepares_for_shapes().then(LastShape::default);
        Slot { session, shape }
    }

    /// How many rows `jobs`, which need `rows`, are to be padded with.
    fn padding(&mut self, jobs: &[Job], rows: usize) -> usize {
        let (Some(shape), [job, ..]) = (&mut self.shape, jobs) else { return 0 };
        match job.most_rows() {
            Some(most) if job.inputs.iter().all(|input| input.datatype.size().is_some()) => {
                shape.rows(&job.inputs, rows, most) - rows
            }
            _ => 0,
        }
    }

    fn forget(&mut self) {
        if let Some(shape) = &mut self.shape {
            shape.forget();
        }
    }

    /// Runs the model once, and says how long it took.
    fn run(&mut self, inputs: &[Tensor]) -> (Result<Vec<Tensor>, ModelError>, Duration) {
        let started = Instant::now();
        let result = self.session.run(inputs);
        let took = started.elapsed();
        if let Some(shape) = &mut self.shape {
            match batch::rows(inputs).filter(|_| result.is_ok()) {
                Some(rows) => shape.ran(inputs, rows, took),
                None => shape.forget(),
            }
        }
        (result, took)
    }
}

impl Sessions {
    /// Runs every session some times on zeros, so that no request pays for the engine's first allocations,
    /// takes the time, and starts the runners. They end when the queue is closed. `cores`: how many one run
    /// takes, if any.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        mut sessions: Vec<Box<dyn Session>>,
        signature: Arc<Signature>,
        cores: Option<usize>,
    ) -> std::io::Result<Arc<Sessions>> {
        // Until a run has been timed, a run is not fast; the first one that is tips the balance.
        let mut typical = FAST;
        for session in &mut sessions {
            match warm_up::run(&mut **session) {
                Ok(time) => typical = time,
                Err(error) => {
                    tracing::debug!(error, "a run on zeros failed, so the model is not warmed up");
                }
            }
        }
        let this = Arc::new(Sessions {
            signature,
            queue: Arc::default(),
            sessions: sessions.into_iter().map(Slot::new).map(Mutex::new).collect(),
            cores,
            fast_bytes: AtomicUsize::new(0),
            typical: AtomicU64::new(nanoseconds(typical)),
        });
        for index in 0..this.sessions.len() {
            let runner = Arc::clone(&this);
            let started =
                thread::Builder::new().name(format!("model-{index}")).spawn(move || runner.work(index));
            if let Err(error) = started {
                this.queue.close();
                return Err(error);
            }
        }
        Ok(this)
    }

    /// The largest batch that pays off, at most as configured. Runs a session on batches of made-up rows,
    /// which also finds out a model whose outputs do not follow its rows.
    ///
    /// # Errors
    /// Text for the operator.
    pub fn best_batch(&self, batching: &Batching) -> Result<usize, String> {
        let Some(slot) = self.sessions.first() else { return Ok(batching.max_batch) };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let best = warm_up::best_batch(&mut *slot.session, batching);
        slot.forget();
        if slot.shape.is_some() {
            // Requests come one by one at first. A model that refuses zeros was told of before.
            let _ = warm_up::run(&mut *slot.session);
        }
        best
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// Those that are not running at the moment.
    pub fn idle(&self) -> usize {
        self.sessions.iter().filter(|session| session.try_lock().is_ok()).count()
    }

    /// Runs in place, if runs are fast and a session is free; else gives the inputs back.
    pub fn run_in_place(&self, inputs: Vec<Tensor>) -> Result<Result<Vec<Tensor>, ModelError>, Vec<Tensor>> {
        if self.typical.load(Ordering::Relaxed) >= nanoseconds(FAST)
            || bytes(&inputs) > self.fast_bytes.load(Ordering::Relaxed)
        {
            return Err(inputs);
        }
        // Each thread begins at another session, so that two rarely want the same.
        let first = shard::current(self.sessions.len());
        let (before, from) = self.sessions.split_at(first);
        for slot in from.iter().chain(before) {
            let mut slot = match slot.try_lock() {
                Ok(slot) => slot,
                // A run never leaves a session half changed: the engine's own state is behind its interface.
                Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            shares::note_fast_run(Instant::now());
            let (result, took) = slot.run(&inputs);
            if result.is_ok() {
                self.note(took);
            }
            if took >= STALLED {
                self.typical.fetch_max(nanoseconds(took), Ordering::Relaxed);
            }
            return Ok(result.map_err(|error| explained(error, &self.signature.inputs, &inputs)));
        }
        Err(inputs)
    }

    /// A runner's life.
    fn work(&self, index: usize) {
        let Some(slot) = self.sessions.get(index) else { return };
        let mut runner = self.queue.runner();
        let mut stepped_back = false;
        while let Some(jobs) = runner.take() {
            let slow = self.typical.load(Ordering::Relaxed) >= nanoseconds(SLOW);
            if slow && self.cores.is_some() && !stepped_back {
                step_back(Priority::Low);
                stepped_back = true;
            }
            let _permit = self.cores.filter(|_| slow).map(shares::begin);
            let mut groups = vec![jobs];
            while let Some(group) = groups.pop() {
                // Others hold it for a fast run, or while a new handle tries how large a batch pays.
                let mut locked = slot.lock().unwrap_or_else(PoisonError::into_inner);
                let served = self.serve(&mut locked, group);
                // Before any caller is told: one that asks again at once is to find it free, and not to wait
                // for this thread again.
                drop(locked);
                match served {
                    Ok(answers) => {
                        if groups.is_empty() {
                            runner.announce();
                        }
                        for (job, answer) in answers {
                            // A caller who has gone in the meantime needs no answer.
                            let _ = job.answer.send(answer);
                        }
                    }
                    // One bad request must not fail its neighbours, and which one it is is unknown: halves of
                    // halves find it in a few runs.
                    Err(mut failed) => {
                        let rest = failed.split_off(failed.len() / 2);
                        groups.extend([rest, failed]);
                    }
                }
            }
        }
    }

    /// Runs jobs together: what each gets. Gives several jobs back if the run that they shared has failed.
    fn serve(&self, slot: &mut Slot, mut jobs: Vec<Job>) -> Result<Vec<Answer>, Vec<Job>> {
        // Some callers may have left since their jobs were taken from the queue.
        jobs.retain(|job| !job.answer.is_closed());
        let started = Instant::now();
        let padding = slot.padding(&jobs, jobs.iter().map(Job::rows).sum());
        let outputs = match (jobs.as_slice(), padding) {
            ([], _) => return Ok(Vec::new()),
            ([job], 0) => {
                let outputs = self.run(slot, &job.inputs);
                let outputs = outputs.map_err(|error| explained(error, &self.signature.inputs, &job.inputs));
                let queued = job.waited(started);
                let answer = outputs.map(|outputs| Prediction { outputs, queued, shared: Some(1) });
                return Ok(jobs.into_iter().zip([answer]).collect());
            }
            _ => {
                let members: Vec<&[Tensor]> = jobs.iter().map(|job| job.inputs.as_slice()).collect();
                self.run(slot, &batch::join(&members, padding))
            }
        };
        // One request alone comes back too, and is run without padding: the shape is forgotten by now.
        let Ok(outputs) = outputs else { return Err(jobs) };
        let rows: Vec<usize> = jobs.iter().map(Job::rows).chain((padding > 0).then_some(padding)).collect();
        let size = jobs.len();
        Ok(match batch::split(&outputs, &rows) {
            Ok(mut parts) => {
                if padding > 0 {
                    // What a caller keeps is counted without the rows of the padding, and must not hold them.
                    parts
                        .iter_mut()
                        .flatten()
                        .for_each(|part| part.data = Bytes::copy_from_slice(&part.data));
                }
                let answer = |(place, (job, outputs)): (usize, (Job, Vec<Tensor>))| {
                    let shared = (place == 0).then_some(size);
                    let queued = job.waited(started);
                    (job, Ok(Prediction { outputs, queued, shared }))
                };
                jobs.into_iter().zip(parts).enumerate().map(answer).collect()
            }
            Err(_) if padding > 0 => {
                slot.forget();
                return Err(jobs);
            }
            // Which rows are whose is unknown, now and at any other time.
            Err(text) => jobs.into_iter().map(|job| (job, Err(ModelError::Run(text.clone())))).collect(),
        })
    }

    /// Runs on a runner's thread, and makes an error of a panic: the runner has other requests to serve.
    fn run(&self, slot: &mut Slot, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        if self.typical.load(Ordering::Relaxed) < nanoseconds(SLOW) {
            shares::note_fast_run(Instant::now());
        }
        let (result, took) = catch_unwind(AssertUnwindSafe(|| slot.run(inputs)))
            .unwrap_or_else(|_| (Err(ModelError::Run("the engine panicked".to_owned())), Duration::ZERO));
        // A run that failed may have failed early.
        if result.is_ok() {
            self.note(took);
            let size = bytes(inputs);
            if took < FAST && size <= SMALL {
                self.fast_bytes.fetch_max(size, Ordering::Relaxed);
            }
        }
        result
    }

    /// One step of the estimate of what a run takes: up by a half after a longer time, down by a tenth after
    /// a shorter one. It rests where one time in five is longer.
    fn note(&self, took: Duration) {
        let (estimate, time) = (self.typical.load(Ordering::Relaxed), nanoseconds(took));
        let next = if time > estimate {
            estimate.saturating_add(estimate / 2 + 1).min(time)
        } else {
            (estimate - estimate / 10).max(time)
        };
        // Two runs that end together may lose one measurement, which does no harm.
        self.typical.store(next, Ordering::Relaxed);
    }
}

fn bytes(inputs: &[Tensor]) -> usize {
    inputs.iter().map(|input| input.data.len()).sum()
}
