//! Metrics that a handler makes itself, as a capability: the contract's `metrics`.
//!
//! Place in the flow: an entry of the list of capabilities; called while any function of a handler runs. In:
//! names, labels, numbers, all of which are checked here. Out: what they come to, in the metrics of the
//! endpoint.
//! Invariants: only a client's request, or a job, counts. The answer to a call depends on its arguments
//! alone, so that no recording has to know of it; a series too many is dropped without an error.

mod check;

use std::sync::Arc;

use wasmtime::Result;
use wasmtime::component::Linker;

use self::bindings::modelhost::handler::metrics;
use crate::plugin::capability::{Capability, EndpointView, HasView, View};
use crate::plugin::names::is_same;
use crate::request::dependencies::Dependency;
use crate::telemetry::metrics::{CustomChange, CustomKind, CustomMaker, CustomSeries};

mod bindings {
    #![allow(missing_docs, reason = "generated; wit/metrics.wit documents every item")]

    wasmtime::component::bindgen!({
        path: "../../../wit",
        world: "metric-imports",
        imports: { default: trappable },
    });
}

/// Full name of the contract's interface.
const METRICS: &str = "modelhost:handler/metrics@0.1.0";

/// Metrics that a handler makes.
pub struct Metrics;

/// The settings of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Most series of all its handlers.
    pub series: usize,
}

/// The grant of a handler.
#[derive(Clone)]
pub struct Granted {
    /// The metrics of the endpoint; none in a replay.
    maker: Option<Arc<CustomMaker>>,
}

impl Capability for Metrics {
    type Settings = Settings;
    type Store = ();
    type Granted = Granted;
    type State = ();
    /// A replay counts nothing, and needs to know nothing.
    type Recorded = ();

    const INTERFACES: &'static [&'static str] = &["modelhost:handler/metrics"];
    const HINT: &'static str = "every endpoint's handler may make metrics";
    const DEPENDENCY: Option<Dependency> = None;
    const USE: &'static str = "it makes metrics of its own, at most `limits.series`";
    const OF_EVERY: bool = true;

    fn no_store() {}

    async fn grant(
        settings: &Settings,
        endpoint: &EndpointView<'_>,
        (): &(),
    ) -> Result<Option<Granted>, String> {
        Ok(Some(Granted { maker: Some(Arc::new(endpoint.metrics.custom.maker(settings.series))) }))
    }

    fn is_used_by(import: &str) -> bool {
        is_same(import, METRICS)
    }

    fn link<T: Send + 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> View<'_, Metrics>) -> Result<()> {
        metrics::add_to_linker::<_, HasView<Metrics>>(linker, view)
    }

    fn begin((): &mut ()) {}

    fn recorded(_: Option<&Granted>) {}

    fn replayed((): &(), (): &()) -> Option<Granted> {
        Some(Granted { maker: None })
    }
}

/// The answer to a call; an error says which argument is wrong, and why.
type Answer = Result<Result<(), String>>;

impl View<'_, Metrics> {
    /// The metrics of the endpoint, if what this run does counts.
    fn maker(&self) -> Option<&CustomMaker> {
        self.granted?.maker.as_deref().filter(|_| self.kernel.run.calls_out)
    }

    /// Counts in a series, whose labels may be in any order.
    fn count(
        &mut self,
        kind: CustomKind,
        name: String,
        change: CustomChange,
        mut labels: Vec<metrics::Label>,
    ) -> Answer {
        self.kernel.count_host_call();
        if let Err(error) = check::change(kind, change) {
            return Ok(Err(error));
        }
        labels.sort_unstable();
        let series = CustomSeries { kind, name: check::completed(kind, name), labels };
        let maker = self.maker();
        // A series that is there has been checked.
        if maker.is_some_and(|maker| maker.count(&series, change)) {
            return Ok(Ok(()));
        }
        if let Err(error) = check::series(&series) {
            return Ok(Err(error));
        }
        if let Some(maker) = maker {
            maker.begin(series, change);
        }
        Ok(Ok(()))
    }
}

impl metrics::Host for View<'_, Metrics> {
    fn describe(&mut self, name: String, kind: metrics::Kind, help: String, bounds: Vec<f64>) -> Answer {
        self.kernel.count_host_call();
        let kind = match kind {
            metrics::Kind::Counter => CustomKind::Counter,
            metrics::Kind::Gauge => CustomKind::Gauge,
            metrics::Kind::Histogram => CustomKind::Histogram,
        };
        let name = check::completed(kind, name);
        if let Err(error) = check::description(kind, &name, &help, &bounds) {
            return Ok(Err(error));
        }
        // In any run: it makes no series, and an instance says it once.
        if let Some(maker) = self.granted.and_then(|granted| granted.maker.as_deref()) {
            maker.describe(kind, name, help, bounds);
        }
        Ok(Ok(()))
    }

    fn add(&mut self, name: String, by: f64, labels: Vec<metrics::Label>) -> Answer {
        self.count(CustomKind::Counter, name, CustomChange::Add(by), labels)
    }

    fn set(&mut self, name: String, value: f64, labels: Vec<metrics::Label>) -> Answer {
        self.count(CustomKind::Gauge, name, CustomChange::Set(value), labels)
    }

    fn change(&mut self, name: String, by: f64, labels: Vec<metrics::Label>) -> Answer {
        self.count(CustomKind::Gauge, name, CustomChange::Add(by), labels)
    }

    fn observe(&mut self, name: String, value: f64, labels: Vec<metrics::Label>) -> Answer {
        self.count(CustomKind::Histogram, name, CustomChange::Observe(value), labels)
    }
}
