//! What a run did: where its time went, how its model was shared, what was logged of its host calls.
//!
//! Place in the flow: written by the run, read by the endpoint's observers and by other callers of
//! [`Pipeline::run`](super::Pipeline::run) when it is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::plan::RunPlan;
use crate::error::{RequestError, Stage};
use crate::model_access::ModelCall;
use crate::plugin::Lease;
use crate::plugin::host_call_log::HostCallLog;
use crate::request::dependencies::Dependencies;

/// The resources that a handler used for one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in its stages, without the making of an instance and without the model.
    pub time: Duration,
    /// Memory of its instance, in bytes; a guest's memory never shrinks.
    pub memory: usize,
}

/// The report of one run.
#[derive(Debug)]
pub struct RunReport {
    started: Instant,
    /// When the last stage ended.
    last: Instant,
    durations: [Option<Duration>; Stage::ALL.len()],
    batch: Option<usize>,
    bypassed: Option<RequestError>,
    log: Option<Arc<HostCallLog>>,
    usage: Option<Measured>,
    dependencies: Dependencies,
}

#[derive(Debug, Default)]
struct Measured {
    memory: usize,
    /// Time until there was an instance.
    checkout: Duration,
}

impl RunReport {
    /// An empty report of a run by `plan`, for a request that arrived at `started`.
    pub fn begin(started: Instant, plan: &RunPlan) -> RunReport {
        RunReport {
            started,
            last: started,
            durations: [None; Stage::ALL.len()],
            batch: None,
            bypassed: None,
            log: plan.calls.open(),
            usage: plan.measures.then(Measured::default),
            dependencies: Dependencies::default(),
        }
    }

    /// An empty report of a run that waits for no permit: admission took no time.
    pub fn unqueued(started: Instant, plan: &RunPlan) -> RunReport {
        let mut report = RunReport::begin(started, plan);
        report.end(Stage::Admit);
        report
    }

    /// Time since the request's arrival.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long each stage that ended took, in the order of the flow.
    pub fn durations(&self) -> impl Iterator<Item = (Stage, Duration)> {
        Stage::ALL.into_iter().zip(self.durations).filter_map(|(stage, duration)| Some((stage, duration?)))
    }

    /// How long a stage took; `None` if it has not ended.
    pub fn duration(&self, stage: Stage) -> Option<Duration> {
        self.durations.get(stage as usize).copied().flatten()
    }

    /// The stage that has begun and not ended.
    pub fn stage(&self) -> Stage {
        let stages = [Stage::Admit, Stage::PreInference, Stage::Infer];
        let first = stages.into_iter().find(|stage| self.duration(*stage).is_none());
        first.unwrap_or(Stage::PostInference)
    }

    /// How many requests shared the run of the model; `None` if there was none, or another of them says.
    pub fn batch(&self) -> Option<usize> {
        self.batch
    }

    /// Why the request was answered without the handler, and from which stage on; `None` if it was not.
    pub fn bypassed(&self) -> Option<&RequestError> {
        self.bypassed.as_ref()
    }

    /// The log of the host calls, if the plan wanted it.
    pub fn log(&self) -> Option<&Arc<HostCallLog>> {
        self.log.as_ref()
    }

    /// The call of the model, if it was logged and the run got as far.
    pub fn model_call(&self) -> Option<ModelCall> {
        self.log.as_ref()?.model_call()
    }

    /// The resources that the handler used, if the plan wanted them measured.
    pub fn usage(&self) -> Option<Usage> {
        let Measured { memory, checkout } = self.usage.as_ref()?;
        let stages = [Stage::PreInference, Stage::PostInference];
        let time: Duration = stages.into_iter().filter_map(|stage| self.duration(stage)).sum();
        Some(Usage { time: time.saturating_sub(*checkout), memory: *memory })
    }

    /// The things that the handler asked for beside its request.
    pub fn dependencies(&self) -> Dependencies {
        self.dependencies
    }

    /// A stage has ended.
    pub fn end(&mut self, stage: Stage) {
        let now = Instant::now();
        if let Some(duration) = self.durations.get_mut(stage as usize) {
            *duration = Some(now.saturating_duration_since(self.last));
        }
        self.last = now;
    }

    /// The run has its instance.
    pub(super) fn checked_out(&mut self) {
        if let Some(usage) = &mut self.usage {
            usage.checkout = self.last.elapsed();
        }
    }

    /// The handler has been called.
    pub(super) fn called(&mut self, lease: Option<&Lease<'_>>) {
        if let Some(lease) = lease {
            self.dependencies = lease.dependencies();
        }
        if let Some(usage) = &mut self.usage {
            usage.memory = lease.map_or(0, Lease::memory);
        }
    }

    /// The model ran, after the request had waited for it.
    pub(super) fn ran(&mut self, queued: Duration, batch: Option<usize>) {
        self.batch = batch;
        // Most requests never wait; those pay for no measurement.
        if !queued.is_zero()
            && let Some(slot) = self.durations.get_mut(Stage::Queue as usize)
        {
            *slot = Some(queued);
            self.last += queued;
        }
    }

    /// The request waited so long for others, before its handler was called: a part of the stage that has
    /// ended last.
    pub(super) fn waited(&mut self, waited: Duration) {
        let [handled, queue] = [Stage::PreInference, Stage::Queue].map(|stage| stage as usize);
        if let Some(duration) = self.durations.get_mut(handled) {
            *duration = duration.map(|duration| duration.saturating_sub(waited));
        }
        if let Some(duration) = self.durations.get_mut(queue) {
            *duration = Some(waited);
        }
    }

    /// From here on the request is answered without the handler.
    pub(super) fn bypass(&mut self, failure: RequestError) {
        self.bypassed = Some(failure);
    }
}
