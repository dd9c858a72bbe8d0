//! The configuration of the listeners, and what they all serve.
//!
//! Place in the flow: made by `app.rs`, once while everything is loading and once when it is loaded; every
//! answer is given from it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::configuration::Configuration;
use super::development::Development;
use super::metrics_text::MetricsTexts;
use super::orders::Orders;
use super::shared_memory::SharedMemory;
use super::{limits, split, tls};
use crate::drain::Drain;
use crate::jobs::JobStore;
use crate::keys::Keys;
use crate::plugin::capabilities::Stores;
use crate::rollout::endpoints::Endpoints;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::activity::Activity;
use crate::telemetry::metrics::{Metrics, MetricsFormat, MetricsView};
use crate::telemetry::traces::Tracer;

/// The settings of the listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where endpoints are served.
    pub listen: SocketAddr,
    /// Where metrics, health and administration are served.
    pub admin_listen: SocketAddr,
    /// Where endpoints are served over gRPC; `None`: nowhere.
    pub grpc_listen: Option<SocketAddr>,
    /// Whether clients of the main listener may load and unload models.
    pub model_control: bool,
    /// Most regions of shared memory that clients may register; `None`: they register none.
    pub shared_memory: Option<usize>,
    /// Whether `GET /metrics` is answered on the main listener too.
    pub metrics_on_main: bool,
    /// Whether a scrape gets every series.
    pub all_metrics: bool,
    /// Whether `GET /openapi.json` and the page at `/docs` are answered.
    pub docs: bool,
    /// Value of `access-control-allow-origin`; `None` sends no CORS header.
    pub cors_allow_origin: Option<String>,
    /// Whether callers see the detail of server errors (a handler's own words, backtraces).
    pub debug: bool,
    /// After SIGTERM: how long requests in flight may take.
    pub drain_timeout: Duration,
    /// Most bytes of bodies, tensors and answers; `None`: by the memory that there is.
    pub memory: Option<usize>,
    /// Certificate and key of the main listener; `None` speaks plain HTTP.
    pub tls: Option<tls::Files>,
    /// Whether the admin listener speaks TLS too.
    pub tls_admin: bool,
    /// Keys of the admin listener; without keys, it is open to every client that reaches it.
    pub admin_keys: Keys,
    /// Names by which the admin address may be asked, beside those of the loopback and all addresses.
    pub admin_hosts: Vec<String>,
    /// The limits of a connection.
    pub connections: limits::Limits,
    /// Paths whose requests go to one of several endpoints.
    pub splits: Vec<split::Split>,
}

/// The endpoints that all listeners serve. Another value takes its place when endpoints come or go.
#[derive(Clone)]
pub struct Served {
    /// The requests that there are and have been.
    pub activity: Arc<Activity>,
    /// Every endpoint, in the order of the configuration; none until all are loaded.
    pub endpoints: Endpoints,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
    /// Traces of requests; `None`: tracing is off.
    pub tracer: Option<Arc<Tracer>>,
    /// The access log; `None`: there is none.
    pub access_log: Option<Arc<AccessLog>>,
    /// Whether there is one of both.
    pub is_observed: bool,
    /// Their texts that clients of the endpoints are reading.
    pub metrics_texts: MetricsTexts,
    /// The jobs of all endpoints; `None` if they are stored nowhere.
    pub jobs: Option<Arc<JobStore>>,
    /// The stores of handlers; none of values and objects until the listeners are open.
    pub stores: Stores,
    /// How to serve them.
    pub config: Config,
    /// The regions of shared memory that clients have registered.
    pub shared_memory: SharedMemory,
    /// Whether the process is going away.
    pub drain: Drain,
    /// Takes orders to serve another configuration.
    pub configuration: Configuration,
    /// The operator's orders that are being carried out.
    pub orders: Orders,
    /// The runtime of requests, and of the operator's orders.
    pub runtime: tokio::runtime::Handle,
    /// The state of the builds of `host dev`; `None` elsewhere.
    pub development: Option<Development>,
}

impl Served {
    /// The keys that open one endpoint at least; none if one of them stands open to all.
    pub(super) fn every_key(&self) -> Keys {
        match self.endpoints.iter().any(|endpoint| endpoint.config.keys.is_empty()) {
            true => Keys::default(),
            false => {
                self.endpoints.iter().fold(Keys::default(), |all, endpoint| all.and(&endpoint.config.keys))
            }
        }
    }

    /// All metrics in Prometheus' text format, up to date.
    pub(super) fn render_metrics(&self, format: MetricsFormat) -> String {
        for endpoint in &self.endpoints {
            endpoint.refresh_metrics();
            if endpoint.read_current(|it| it.pipeline.has_websocket()) {
                endpoint.metrics.sockets.begin();
            }
            let config = &endpoint.config;
            self.stores.refresh_metrics(&config.capabilities, &config.view(&endpoint.metrics));
        }
        self.metrics.render(MetricsView { format, is_whole: self.config.all_metrics })
    }
}
