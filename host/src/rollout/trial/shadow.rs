//! Runs requests that have been answered through the other handler too, and compares.
//!
//! ```text
//! answered → [a place is free?] → thread of lowest priority:
//!   pre → (same inputs: the model's known answer) → post → compare
//! ```
//! Place in the flow: beside it, on a thread of its own for each trial. In: a [`Sample`]. Out: one count, and
//! the differences.
//! Invariants: a sample takes nothing from requests: it takes no place of theirs, handlers run on this
//! thread, which the kernel gives only what no other thread wants, and at most `concurrency` samples are held
//! in memory. The model, if it has to be asked again, is asked by the workers of the requests: this thread,
//! which may rest at any moment, never holds a session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Trial;
use super::failures::{is_error, is_fault};
use super::figures::{Compared, Side};
use crate::capture::compare::{self, Outcome};
use crate::capture::exchanges;
use crate::error::{Code, Stage};
use crate::pipeline::Pipeline;
use crate::pipeline::plan::{HostCalls, RunPlan};
use crate::pipeline::report::RunReport;
use crate::plugin::host_call_log::KnownCalls;
use crate::priority::{Priority, step_back};
use crate::request::Request;

/// How many times as long as the first a second run may take, beside the time of a request.
const SLOWER: u32 = 10;

/// The handler that runs after the other one has answered.
pub(super) struct Shadow {
    pub pipeline: Pipeline,
    /// The plan that all of its runs share.
    pub plan: RunPlan,
    pub side: Side,
}

/// A trial's way to its thread.
#[derive(Debug)]
pub(super) struct Shadows {
    places: Arc<Semaphore>,
    samples: mpsc::UnboundedSender<(Sample, OwnedSemaphorePermit)>,
}

/// A request that has been answered.
pub(super) struct Sample {
    pub trial: Arc<Trial>,
    pub request: Arc<Request>,
    /// The caller's answer.
    pub outcome: Outcome,
    /// How long the handler took for it.
    pub handler: Duration,
    /// Its handler's calls of models and of others.
    pub calls: Arc<KnownCalls>,
}

impl Shadows {
    /// Starts the thread. It ends with the trial.
    ///
    /// # Errors
    /// The operating system refuses it.
    pub(super) fn start(concurrency: usize) -> std::io::Result<Shadows> {
        let (samples, mut taken) = mpsc::unbounded_channel::<(Sample, OwnedSemaphorePermit)>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("shadow".to_owned()).spawn(move || {
            step_back(Priority::Idle);
            runtime.block_on(async move {
                while let Some((sample, place)) = taken.recv().await {
                    tokio::spawn(async move {
                        sample.run().await;
                        drop(place);
                    });
                }
            });
        })?;
        Ok(Shadows { places: Arc::new(Semaphore::new(concurrency)), samples })
    }

    /// Whether a sample has a chance now. What is kept of a request for one is not free.
    pub(super) fn has_place(&self) -> bool {
        self.places.available_permits() > 0
    }

    /// Takes a sample, unless there are too many, or all of it is not here; says whether. Never waits.
    pub(super) fn take(&self, sample: impl FnOnce() -> Option<Sample>) -> bool {
        match self.places.clone().try_acquire_owned() {
            Ok(place) => sample().is_some_and(|sample| self.samples.send((sample, place)).is_ok()),
            Err(_) => false,
        }
    }
}

impl Sample {
    async fn run(self) {
        let Sample { trial, request, outcome, handler, calls } = self;
        let Some(after) = &trial.after else { return };
        let (pipeline, side) = (&after.pipeline, &after.side);
        let plan = RunPlan { calls: HostCalls::Known(calls.clone()), ..after.plan.clone() };
        // It may be given less of a processor than the one before.
        let until = Instant::now() + trial.request_timeout + handler.saturating_mul(SLOWER);
        let (run, client) = match exchanges::again(&request, until) {
            Some((again, client)) => (Arc::new(again), Some(client)),
            None if request.is_exchange() => return trial.figures.compared(Compared::Dropped),
            None => (request.clone(), None),
        };
        let mut report = RunReport::begin(Instant::now(), &plan);
        let began = (Instant::now(), cpu_time());
        let shadow = exchanges::run(pipeline, &run, client, until, &plan, &mut report).await;
        let sent = match report.log() {
            Some(log) => {
                log.settle().await;
                log.outbound()
            }
            None => Vec::new(),
        };
        let took = handler_time(&report);
        // Without a model the stage is nothing but what the handler made.
        let has_model = !pipeline.models.0.is_empty();
        let was_known = report.log().is_some_and(|log| log.was_known());
        let called = report.log().map_or(0, |log| log.models_asked()) as u64;
        let inferred = has_model && !was_known && report.duration(Stage::Infer).is_some();
        trial.model_runs.fetch_add(called + u64::from(inferred), Ordering::Relaxed);
        let code = shadow.as_ref().err().map(|error| error.code);
        let nothing_found_out = match code {
            // There was no sandbox for it, or no time left.
            Some(Code::Overloaded | Code::ShuttingDown | Code::RequestTimeout) => true,
            Some(Code::PluginTimeout) => was_starved(began),
            _ => false,
        };
        if nothing_found_out {
            return trial.figures.compared(Compared::Dropped);
        }
        let (error, fault) = (is_error(&shadow), is_fault(&shadow));
        let (old, new) = match side {
            Side::Candidate => (&outcome, &shadow),
            Side::Current => (&shadow, &outcome),
        };
        let mut differences = compare::compare(old, new, &trial.spec.bounds);
        let (old, new) = match side {
            Side::Candidate => (&calls.outbound, &sent),
            Side::Current => (&sent, &calls.outbound),
        };
        differences.extend(compare::outbound::compare(old, new, &trial.spec.bounds));
        let what = match code {
            _ if differences.is_empty() => Compared::Same,
            Some(code) if error => {
                trial.failed(code);
                Compared::Failed
            }
            _ => Compared::Differs,
        };
        // A canary's own answers are counted where they are given.
        if *side == Side::Candidate {
            trial.figures.ended(Side::Current, is_error(&outcome), is_fault(&outcome), handler);
            trial.figures.ended(Side::Candidate, error, fault, took);
        }
        trial.compared(what, &request, differences);
    }
}

/// The time of a request without waiting and the model.
pub(super) fn handler_time(report: &RunReport) -> Duration {
    let others = [Stage::Admit, Stage::Queue, Stage::Infer];
    let of_others = report.durations().filter(|(stage, _)| others.contains(stage)).map(|(_, time)| time);
    report.elapsed().saturating_sub(of_others.sum())
}

/// Whether this thread has had a processor for less than half of the time: then a handler that ran out of
/// time may be as fast as any other.
fn was_starved((since, used): (Instant, Option<Duration>)) -> bool {
    let used = cpu_time().zip(used).map(|(now, then)| now.saturating_sub(then));
    used.is_some_and(|used| used * 2 < since.elapsed())
}

/// This thread's time on a processor; `None` where the system does not tell.
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
