//! Every metric: names and help texts in one list, and the handles that count.
//!
//! Place in the flow: counted by `endpoint` and `rollout` when a request or a swap ends, rendered by `server`
//! for `GET /metrics` in Prometheus' text format. What every request touches is in `requests`, sharded by
//! thread; the rest changes rarely and is `prometheus`' own.
//! Invariants: a request touches atomics only, through handles resolved when its endpoint was made; no caller
//! can grow label sets, but for a tracker's classes, which are bounded; docs/reference.md lists the names.

mod batches;
mod blobs;
mod custom;
mod exemplars;
mod families;
mod jobs;
mod names;
mod openmetrics;
mod predictions;
mod process;
mod kv;
mod lean;
mod reloads;
mod requests;
mod response_cache;
mod sequences;
mod sockets;
mod statistics;
pub mod timeline;
mod totals;
mod trials;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    TextEncoder,
};

pub use self::batches::BatchSizes;
pub use self::blobs::BlobCalls;
use self::custom::CustomFamilies;
pub use self::custom::{CustomChange, CustomKind, CustomMaker, CustomMetrics, CustomSeries};
use self::families::{Families, opts};
use self::jobs::JobFamilies;
pub use self::jobs::{AttemptOutcome, DeliveryOutcome, JobCounts, Submitted};
pub use self::kv::KvCalls;
pub use self::names::METRICS;
use self::predictions::PredictionFamilies;
pub use self::predictions::Predictions;
use self::process::Process;
pub use self::reloads::{ReloadOutcome, Reloads};
use self::requests::{Requests, Tally};
use self::response_cache::CacheFamilies;
pub use self::response_cache::{CacheFigures, ResponseCacheMetrics};
use self::sequences::SequenceFamilies;
pub use self::sequences::SequenceGauges;
use self::sockets::SocketFamilies;
pub use self::sockets::{OpenSocket, SocketCounts};
pub use self::statistics::{Statistics, Timing};
pub use self::totals::{Spread, Totals};
pub use self::trials::{Plugins, TrialCounts, TrialSeries};
use crate::error::{Code, PluginFault, Stage};
use crate::trace::TraceId;

/// Upper bounds of predicted values, whose unit only the model knows: by powers of ten, both ways from 0.
const PREDICTED: [f64; 15] =
    [-1e6, -1e4, -100.0, -10.0, -1.0, -0.1, 0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 1e4, 1e6];

/// All metrics of one process.
pub struct Metrics {
    families: Families,
    requests: Requests,
    batch_sizes: HistogramVec,
    in_flight: IntGaugeVec,
    queued: IntGaugeVec,
    memory: IntGaugeVec,
    instances: IntGaugeVec,
    instances_created: IntCounterVec,
    generation: IntGaugeVec,
    swaps: IntCounterVec,
    faults: IntCounterVec,
    bypassed: IntCounterVec,
    breaker_open: IntGaugeVec,
    recordings: IntCounterVec,
    plugins: IntGaugeVec,
    trial_requests: IntCounterVec,
    trial_share: GaugeVec,
    predictions: PredictionFamilies,
    kv: IntCounterVec,
    kv_up: IntGaugeVec,
    blobs: IntCounterVec,
    blobs_up: IntGaugeVec,
    sequences: SequenceFamilies,
    responses: CacheFamilies,
    sockets: SocketFamilies,
    jobs: JobFamilies,
    custom: CustomFamilies,
    spans: IntCounterVec,
    access_log: IntCounterVec,
    /// The attempts to serve another configuration.
    pub reloads: Reloads,
}

/// The metrics of one endpoint, every handle resolved.
pub struct EndpointMetrics {
    requests: Arc<Tally>,
    /// The requests that its handler serves together.
    pub batch_sizes: BatchSizes,
    /// Requests that hold a permit; set when rendered.
    pub in_flight: IntGauge,
    /// Requests that wait; set when rendered.
    pub queued: IntGauge,
    /// Bytes that it holds of the process's budget; set when rendered.
    pub memory: IntGauge,
    /// Counts sandboxes.
    pub instances: Instances,
    /// Current generation; set when rendered.
    pub generation: IntGauge,
    /// Swaps that were published.
    pub swaps_published: IntCounter,
    /// Swaps that were refused.
    pub swaps_refused: IntCounter,
    /// In the order of [`PluginFault::ALL`].
    faults: [IntCounter; PluginFault::ALL.len()],
    /// Requests that were answered without the handler.
    pub bypassed: IntCounter,
    /// Whether the breaker is open; set when rendered.
    pub breaker_open: IntGauge,
    recordings: RecordingFamily,
    /// Which handlers there are; set when rendered.
    pub plugins: Plugins,
    /// The outcomes of its trials.
    pub trial: TrialSeries,
    /// Its predictions, if it has a tracker.
    pub predictions: Predictions,
    /// The operations on its buckets.
    pub kv: KvCalls,
    /// The operations on its objects.
    pub blobs: BlobCalls,
    /// The sequences whose state is kept for it, if it has such models; set when rendered.
    pub sequences: SequenceGauges,
    /// Its response cache, if it has one; set when rendered.
    pub responses: ResponseCacheMetrics,
    /// Its WebSockets.
    pub sockets: SocketCounts,
    /// Its jobs; those that are not finished are set when rendered.
    pub jobs: JobCounts,
    /// Those that its handlers make themselves.
    pub custom: CustomMetrics,
}

/// The format of a scrape, and how much of the metrics it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsView {
    /// The format of the text.
    pub format: MetricsFormat,
    /// Whether every series is shown, or a few of each endpoint.
    pub is_whole: bool,
}

/// The format of metrics as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus', version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Counts what became of the spans of traces.
#[derive(Debug, Clone)]
pub struct SpanCounts {
    /// The collector has taken them.
    pub exported: IntCounter,
    /// It has not, or there was no place for them.
    pub dropped: IntCounter,
}

/// Counts what became of the lines of the access log.
#[derive(Debug, Clone)]
pub struct AccessLogCounts {
    /// They are in the file.
    pub written: IntCounter,
    /// They are not: no place in the queue or on the disk, or no reader.
    pub dropped: IntCounter,
}

/// The recordings of one endpoint, of which there may be none.
struct RecordingFamily {
    series: IntCounterVec,
    endpoint: String,
}

/// Counts what became of the recordings of one endpoint.
#[derive(Debug, Clone)]
pub struct RecordingCounts {
    /// There is a file.
    pub written: IntCounter,
    /// No place, in the queue or on the disk.
    pub dropped: IntCounter,
    /// It would have held a secret.
    pub refused: IntCounter,
}

/// Counts the sandboxes of one endpoint.
#[derive(Debug, Clone)]
pub struct Instances {
    created: IntCounter,
    alive: IntGauge,
}

/// A sandbox that was made; dropped with it.
#[derive(Debug)]
pub struct Alive(IntGauge);

impl Instances {
    /// Those that there are.
    pub fn alive(&self) -> i64 {
        self.alive.get()
    }

    /// Counts a new sandbox, until the answer is dropped.
    pub fn made(&self) -> Alive {
        self.created.inc();
        self.alive.inc();
        Alive(self.alive.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// Only if two of the names above are equal.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let families = Families::default();
        let [requests, duration, stages, batches, batch_calls, rest @ ..] = METRICS;
        let [
            in_flight,
            queued,
            memory,
            instances,
            created,
            generation,
            swaps,
            faults,
            bypassed,
            open,
            rest @ ..,
        ] = rest;
        let [
            recordings,
            plugins,
            trial_requests,
            trial_share,
            classes,
            values,
            least,
            greatest,
            untracked,
            kv,
            kv_up,
            blobs,
            blobs_up,
            sequences,
            sequence_bytes,
            cached,
            lookups,
            evictions,
            cached_bytes,
            open_sockets,
            messages,
            closes,
            jobs,
            oldest_job,
            submitted,
            ended,
            attempts,
            webhooks,
            pending,
            jobs_up,
            job_operations,
            refused,
            spans,
            access_log,
            reloads,
            reload_successful,
            reload_success,
            process @ ..,
            build,
        ] = rest;
        let bounds = PREDICTED.to_vec();
        let values = HistogramOpts::new(values.0, values.1).buckets(bounds);
        let build = IntGaugeVec::new(Opts::new(build.0, build.1), &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        families.register(build)?;
        families.register(Process::new(process)?)?;
        Ok(Metrics {
            requests: families.register(Requests::new([requests, duration, stages, batches])?)?,
            batch_sizes: families.register(batches::family(batch_calls)?)?,
            in_flight: families.register(IntGaugeVec::new(opts(in_flight), &["endpoint"])?)?,
            memory: families.register(IntGaugeVec::new(opts(memory), &["endpoint"])?)?,
            queued: families.register(IntGaugeVec::new(opts(queued), &["endpoint"])?)?,
            instances: families.register(IntGaugeVec::new(opts(instances), &["endpoint"])?)?,
            instances_created: families.register(IntCounterVec::new(opts(created), &["endpoint"])?)?,
            generation: families.register(IntGaugeVec::new(opts(generation), &["endpoint"])?)?,
            swaps: families.register(IntCounterVec::new(opts(swaps), &["endpoint", "outcome"])?)?,
            faults: families.register(IntCounterVec::new(opts(faults), &["endpoint", "kind"])?)?,
            bypassed: families.register(IntCounterVec::new(opts(bypassed), &["endpoint"])?)?,
            breaker_open: families.register(IntGaugeVec::new(opts(open), &["endpoint"])?)?,
            recordings: families.register(IntCounterVec::new(opts(recordings), &["endpoint", "outcome"])?)?,
            plugins: families.register(IntGaugeVec::new(opts(plugins), &["endpoint", "role", "digest"])?)?,
            trial_requests: families
                .register(IntCounterVec::new(opts(trial_requests), &["endpoint", "mode", "outcome"])?)?,
            trial_share: families.register(GaugeVec::new(opts(trial_share), &["endpoint"])?)?,
            predictions: PredictionFamilies {
                classes: families.register(IntCounterVec::new(opts(classes), &["endpoint", "class"])?)?,
                values: families.register(HistogramVec::new(values, &["endpoint"])?)?,
                least: families.register(GaugeVec::new(opts(least), &["endpoint"])?)?,
                greatest: families.register(GaugeVec::new(opts(greatest), &["endpoint"])?)?,
                untracked: families.register(IntCounterVec::new(opts(untracked), &["endpoint"])?)?,
            },
            kv: families.register(IntCounterVec::new(opts(kv), &["endpoint", "operation", "outcome"])?)?,
            kv_up: families.register(IntGaugeVec::new(opts(kv_up), &["endpoint"])?)?,
            blobs: families
                .register(IntCounterVec::new(opts(blobs), &["endpoint", "operation", "outcome"])?)?,
            blobs_up: families.register(IntGaugeVec::new(opts(blobs_up), &["endpoint"])?)?,
            sequences: SequenceFamilies::new(&families, [sequences, sequence_bytes])?,
            responses: CacheFamilies::new(&families, [cached, lookups, evictions, cached_bytes])?,
            sockets: SocketFamilies::new(&families, [open_sockets, messages, closes])?,
            jobs: JobFamilies::new(
                &families,
                [jobs, oldest_job, submitted, ended, attempts, webhooks, pending, jobs_up, job_operations],
            )?,
            custom: CustomFamilies::new(
                families.register(IntCounterVec::new(opts(refused), &["endpoint"])?)?,
            ),
            spans: families.register(IntCounterVec::new(opts(spans), &["outcome"])?)?,
            access_log: families.register(IntCounterVec::new(opts(access_log), &["outcome"])?)?,
            reloads: Reloads::new(&families, [reloads, reload_successful, reload_success])?,
            families,
        })
    }

    /// The handles for one endpoint. Counters and gauges that every endpoint has exist from now on, at zero.
    pub fn endpoint(&self, name: &str) -> EndpointMetrics {
        EndpointMetrics {
            requests: self.requests.endpoint(name),
            batch_sizes: BatchSizes::new(&self.batch_sizes, name),
            in_flight: self.in_flight.with_label_values(&[name]),
            memory: self.memory.with_label_values(&[name]),
            queued: self.queued.with_label_values(&[name]),
            instances: Instances {
                created: self.instances_created.with_label_values(&[name]),
                alive: self.instances.with_label_values(&[name]),
            },
            generation: self.generation.with_label_values(&[name]),
            swaps_published: self.swaps.with_label_values(&[name, "published"]),
            swaps_refused: self.swaps.with_label_values(&[name, "refused"]),
            faults: PluginFault::ALL.map(|fault| self.faults.with_label_values(&[name, fault.name()])),
            bypassed: self.bypassed.with_label_values(&[name]),
            breaker_open: self.breaker_open.with_label_values(&[name]),
            recordings: RecordingFamily { series: self.recordings.clone(), endpoint: name.to_owned() },
            plugins: Plugins::new(&self.plugins, name),
            trial: TrialSeries::new(&self.trial_requests, &self.trial_share, name),
            predictions: Predictions::new(&self.predictions, name),
            kv: KvCalls::new(&self.kv, &self.kv_up, name),
            blobs: BlobCalls::new(&self.blobs, &self.blobs_up, name),
            sequences: SequenceGauges::new(&self.sequences, name),
            responses: ResponseCacheMetrics::new(&self.responses, name),
            sockets: SocketCounts::new(&self.sockets, name),
            jobs: JobCounts::new(&self.jobs, name),
            custom: self.custom.endpoint(name),
        }
    }

    /// The handles of the exporter of traces, which exist from now on, at zero.
    pub fn spans(&self) -> SpanCounts {
        let [exported, dropped] =
            ["exported", "dropped"].map(|outcome| self.spans.with_label_values(&[outcome]));
        SpanCounts { exported, dropped }
    }

    /// The handles of the access log, which exist from now on, at zero.
    pub fn access_log(&self) -> AccessLogCounts {
        let [written, dropped] =
            ["written", "dropped"].map(|outcome| self.access_log.with_label_values(&[outcome]));
        AccessLogCounts { written, dropped }
    }

    /// Ends the series of endpoints that are served no more. What still ends on one of them is not rendered.
    pub fn forget<'a>(&self, endpoints: impl IntoIterator<Item = &'a str>) {
        let endpoints: HashSet<&str> = endpoints.into_iter().collect();
        if !endpoints.is_empty() {
            self.families.forget(&endpoints);
            self.custom.forget(&endpoints);
        }
    }

    /// The text of all metrics, as far as they are to be shown.
    pub fn render(&self, view: MetricsView) -> String {
        let mut families = self.families.gather();
        if !view.is_whole {
            lean::reduce(&mut families);
        }
        families.extend(self.custom.gather());
        match view.format {
            MetricsFormat::Prometheus => TextEncoder::new().encode_to_string(&families).unwrap_or_default(),
            MetricsFormat::OpenMetrics => openmetrics::text(&families, &self.requests.exemplars()),
        }
    }
}

impl EndpointMetrics {
    /// Counts a request that was answered by handler or model, with this status.
    pub fn ok(&self, status: u16) {
        self.requests.ok(status);
    }

    /// A request that took so long is part of this trace.
    pub fn exemplar(&self, trace: TraceId, took: Duration) {
        self.requests.exemplar(trace, took);
    }

    /// Leaves a request that has ended out of those that have come to the current handler.
    pub fn of_another(&self) {
        self.requests.of_another();
    }

    /// Counts a request that failed.
    pub fn error(&self, code: Code) {
        self.requests.error(code);
    }

    /// Begins the series of the recordings, at zero.
    pub fn recordings(&self) -> RecordingCounts {
        let RecordingFamily { series, endpoint } = &self.recordings;
        let counter = |outcome| series.with_label_values(&[endpoint.as_str(), outcome]);
        let [written, dropped, refused] = ["written", "dropped", "refused"].map(counter);
        RecordingCounts { written, dropped, refused }
    }

    /// Counts a fault of the handler, with any outcome of the request.
    pub fn fault(&self, fault: PluginFault) {
        if let Some(counter) = self.faults.get(fault as usize) {
            counter.inc();
        }
    }

    /// Requests that have come to the current handler so far. Adds all shards up: not for every request.
    pub fn served(&self) -> u64 {
        self.requests.served()
    }

    /// Counts a request whose client went away.
    pub fn cancelled(&self) {
        self.requests.cancelled();
    }

    /// Counts a run of the model that this many requests shared.
    pub fn run(&self, requests: usize) {
        self.requests.run(requests);
    }

    /// Records how long a request took, in all and by stage, and whether it was answered.
    pub fn durations(
        &self,
        arrived: Instant,
        total: Duration,
        ok: bool,
        stages: impl Iterator<Item = (Stage, Duration)>,
    ) {
        self.requests.durations(arrived, total, ok, stages);
    }

    /// The outcomes of all requests so far.
    pub fn statistics(&self) -> Statistics {
        self.requests.statistics()
    }

    /// How many requests have ended so far.
    pub fn ended(&self) -> u64 {
        self.requests.ended()
    }

    /// The counters of a timeline.
    pub fn totals(&self) -> Totals {
        self.requests.totals()
    }
}

#[cfg(test)]
mod tests;
