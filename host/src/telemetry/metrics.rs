//! Every metric: names, labels and buckets in one list.
//!
//! Place in the flow: counted by `deploy` when a request or a swap ends, rendered by `server` for `GET /metrics` in
//! Prometheus' text format.
//! Invariants: a request touches atomics only, through handles resolved when its endpoint was made; the label sets are
//! fixed at start, so no caller can grow them. docs/reference.md lists the names, and a test compares.

use prometheus::core::Collector;
use prometheus::{Histogram, IntGauge};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

use crate::error::{Code, Stage};

/// Label value of requests that were answered by handler or model.
const OK: &str = "ok";
/// Label value of requests whose client went away.
const CANCELLED: &str = "cancelled";

/// Seconds. From what an iris request takes to the default request timeout.
const BUCKETS: [f64; 17] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0, 5.0, 30.0,
];

/// Names and help texts, in the order of docs/reference.md.
pub const METRICS: [(&str, &str); 10] = [
    ("modelhost_requests_total", "Requests by endpoint and outcome: `ok`, `cancelled` or an error code."),
    ("modelhost_request_duration_seconds", "Time from a request's arrival to its response, by endpoint."),
    ("modelhost_stage_duration_seconds", "Time a request spent in a stage, by endpoint and stage."),
    ("modelhost_requests_in_flight", "Requests that hold a permit now, by endpoint."),
    ("modelhost_requests_queued", "Requests that wait for a permit now, by endpoint."),
    (
        "modelhost_plugin_instances",
        "Sandboxes alive now, those of draining generations included, by endpoint.",
    ),
    ("modelhost_plugin_instances_created_total", "Sandboxes made since the start, by endpoint."),
    ("modelhost_plugin_generation", "Number of the current handler generation, by endpoint; 1 is the first."),
    (
        "modelhost_plugin_swaps_total",
        "Attempts to swap a handler, by endpoint and outcome: `published`, `refused`.",
    ),
    ("modelhost_build_info", "Always 1; the label holds the version."),
];

/// All metrics of one process.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_duration: HistogramVec,
    stage_duration: HistogramVec,
    in_flight: IntGaugeVec,
    queued: IntGaugeVec,
    instances: IntGaugeVec,
    instances_created: IntCounterVec,
    generation: IntGaugeVec,
    swaps: IntCounterVec,
}

/// The metrics of one endpoint, every handle resolved.
pub struct EndpointMetrics {
    ok: IntCounter,
    cancelled: IntCounter,
    errors: [IntCounter; Code::ALL.len()],
    duration: Histogram,
    stages: [Histogram; Stage::ALL.len()],
    /// Requests that hold a permit; set when rendered.
    pub in_flight: IntGauge,
    /// Requests that wait; set when rendered.
    pub queued: IntGauge,
    /// Counts sandboxes.
    pub instances: Instances,
    /// Current generation.
    pub generation: IntGauge,
    /// Swaps that were published.
    pub swaps_published: IntCounter,
    /// Swaps that were refused.
    pub swaps_refused: IntCounter,
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
        let registry = Registry::new();
        let [requests, duration, stages, in_flight, queued, instances, created, generation, swaps, build] =
            METRICS;
        let build = IntGaugeVec::new(Opts::new(build.0, build.1), &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        register(&registry, build)?;
        Ok(Metrics {
            requests: register(&registry, IntCounterVec::new(opts(requests), &["endpoint", "outcome"])?)?,
            request_duration: register(&registry, HistogramVec::new(histogram(duration), &["endpoint"])?)?,
            stage_duration: register(
                &registry,
                HistogramVec::new(histogram(stages), &["endpoint", "stage"])?,
            )?,
            in_flight: register(&registry, IntGaugeVec::new(opts(in_flight), &["endpoint"])?)?,
            queued: register(&registry, IntGaugeVec::new(opts(queued), &["endpoint"])?)?,
            instances: register(&registry, IntGaugeVec::new(opts(instances), &["endpoint"])?)?,
            instances_created: register(&registry, IntCounterVec::new(opts(created), &["endpoint"])?)?,
            generation: register(&registry, IntGaugeVec::new(opts(generation), &["endpoint"])?)?,
            swaps: register(&registry, IntCounterVec::new(opts(swaps), &["endpoint", "outcome"])?)?,
            registry,
        })
    }

    /// The handles for one endpoint. All its series exist from now on, at zero.
    pub fn endpoint(&self, name: &str) -> EndpointMetrics {
        EndpointMetrics {
            ok: self.requests.with_label_values(&[name, OK]),
            cancelled: self.requests.with_label_values(&[name, CANCELLED]),
            errors: Code::ALL.map(|code| self.requests.with_label_values(&[name, code.name()])),
            duration: self.request_duration.with_label_values(&[name]),
            stages: Stage::ALL.map(|stage| self.stage_duration.with_label_values(&[name, stage.name()])),
            in_flight: self.in_flight.with_label_values(&[name]),
            queued: self.queued.with_label_values(&[name]),
            instances: Instances {
                created: self.instances_created.with_label_values(&[name]),
                alive: self.instances.with_label_values(&[name]),
            },
            generation: self.generation.with_label_values(&[name]),
            swaps_published: self.swaps.with_label_values(&[name, "published"]),
            swaps_refused: self.swaps.with_label_values(&[name, "refused"]),
        }
    }

    /// Prometheus' text format, version 0.0.4.
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

impl EndpointMetrics {
    /// Counts a request that was answered.
    pub fn ok(&self) {
        self.ok.inc();
    }

    /// Counts a request that failed.
    pub fn error(&self, code: Code) {
        if let Some(counter) = self.errors.get(code as usize) {
            counter.inc();
        }
    }

    /// Counts a request whose client went away.
    pub fn cancelled(&self) {
        self.cancelled.inc();
    }

    /// Records how long a request took, in all and by stage.
    pub fn durations(
        &self,
        total: std::time::Duration,
        stages: impl Iterator<Item = (Stage, std::time::Duration)>,
    ) {
        self.duration.observe(total.as_secs_f64());
        for (stage, duration) in stages {
            if let Some(histogram) = self.stages.get(stage as usize) {
                histogram.observe(duration.as_secs_f64());
            }
        }
    }
}

fn opts((name, help): (&str, &str)) -> Opts {
    Opts::new(name, help)
}

fn histogram((name, help): (&str, &str)) -> HistogramOpts {
    HistogramOpts::new(name, help).buckets(BUCKETS.to_vec())
}

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
