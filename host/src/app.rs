//! Configuration of the whole process, and the composition root that turns it into a running server.
//!
//! Place in the flow: the only file that names every subsystem; builds them in the order they need each
//! other, runs them, and stops them in reverse.
//! Invariant: the sockets are opened first and answer requests with the state of the load; a port that is
//! taken is found out before a model is loaded. The service takes over when the last endpoint is ready.

pub mod config_files;
mod development;
mod registry;
mod reload;
mod jobs;
mod sandbox;
mod stores;

use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use self::development::Build;
use self::registry::{Changes, Registry, Resources};
pub use self::sandbox::sandbox;
use crate::capture::record::Archive;
use crate::drain::Drain;
use crate::endpoint::config::EndpointConfig;
use crate::jobs::JobStore;
use crate::model::Catalog;
use crate::plugin::capabilities::Stores;
use crate::rollout::endpoints::Endpoints;
use crate::server::configuration::{ConfigOrder, Configuration, Fingerprint, Settings};
use crate::server::development::Development;
use crate::server::http::HttpService;
use crate::server::listen::ConnectionConfig;
use crate::server::split::Split;
use crate::server::switch::ServiceSwitch;
use crate::server::tls::Tls;
use crate::server::{self, MetricsTexts, Orders, Served, SharedMemory, admin, grpc, listen};
use crate::stores::Place;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Tracer;
use crate::workers::JobWorkers;
use crate::{blobs, capture, memory, model, plugin, telemetry};

/// Everything `host serve` needs; one field per subsystem, owned by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Listeners.
    pub server: server::Config,
    /// The endpoints to serve; never empty.
    pub endpoints: Vec<EndpointConfig>,
    /// The sandbox.
    pub plugin: plugin::Config,
    /// The inference engine.
    pub model: model::Config,
    /// Logs.
    pub logs: telemetry::logs::Config,
    /// The access log, if there is one.
    pub access_log: Option<telemetry::access_log::Config>,
    /// Traces.
    pub traces: telemetry::traces::Settings,
    /// Where requests are recorded, if they are.
    pub record: Option<capture::record::Config>,
    /// Where handlers keep values, if they may.
    pub kv: Option<Place>,
    /// Where handlers keep objects, if they may.
    pub blobs: Option<blobs::Place>,
    /// Where jobs are kept, if there are any.
    pub jobs: Option<Place>,
    /// Whether the configuration is read again when its files change.
    pub watch_config: bool,
    /// The settings that are set, by which this configuration is told from another.
    pub settings: Settings,
}

/// A server that serves.
pub struct App {
    /// As it was at the start.
    config: Config,
    /// The settings of the process then.
    at_start: Fingerprint,
    /// The settings that are served.
    settings: Settings,
    /// The files of the configuration as they were read.
    files: config_files::Stamps,
    /// Orders to serve another configuration.
    orders: mpsc::Receiver<ConfigOrder>,
    served: Arc<Served>,
    registry: Registry,
    listeners: Listeners,
    workers: JobWorkers,
}

/// A reason to read configuration, handlers and models again.
pub enum ReloadReason {
    /// SIGHUP.
    Reload,
    /// An order of the operator, or of the watch of the files.
    Order(ConfigOrder),
    /// `host dev` has built the project, or could not.
    Built(Build),
}

impl Config {
    /// The parts that are others in `other`, apart from the endpoints: what a reload cannot change.
    fn process_changes(&self, other: &Config) -> Vec<&'static str> {
        let server = server::Config { splits: self.server.splits.clone(), ..other.server.clone() };
        let Config { server: _, endpoints: _, settings: _, watch_config, plugin, model, .. } = self;
        let Config { logs, access_log, traces, record, kv, blobs, jobs, .. } = self;
        let same = [
            ("listeners", self.server == server),
            ("sandbox", *plugin == other.plugin),
            ("engine", *model == other.model),
            ("logs", *logs == other.logs),
            ("access log", *access_log == other.access_log),
            ("traces", *traces == other.traces),
            ("recordings", *record == other.record),
            ("values", *kv == other.kv),
            ("objects", *blobs == other.blobs),
            ("jobs", *jobs == other.jobs),
            ("watch of the configuration", *watch_config == other.watch_config),
        ];
        same.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
    }
}

/// The listeners at work, and what stands at them.
struct Listeners {
    addresses: Addresses,
    tls: Option<Arc<Tls>>,
    main: Arc<ServiceSwitch>,
    grpc: Option<Arc<ServiceSwitch>>,
    admin: Arc<ServiceSwitch>,
    /// The last minutes of all endpoints, for the operator's page.
    timelines: Arc<admin::Timelines>,
    /// Ends with the last connection of `main` and `grpc`.
    serving: JoinHandle<()>,
    admin_thread: thread::JoinHandle<()>,
    /// Ends the admin listener when dropped.
    stop_admin: oneshot::Sender<()>,
}

/// Where it can be reached, with real port numbers.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Endpoints.
    pub main: SocketAddr,
    /// Administration.
    pub admin: SocketAddr,
    /// Endpoints over gRPC, if they are served so.
    pub grpc: Option<SocketAddr>,
}

impl App {
    /// Opens the sockets, loads everything, and serves it. Until all is loaded, the listeners say so.
    ///
    /// # Errors
    /// A port that is taken, or a certificate, the sandbox, a model or a handler that cannot be loaded. The
    /// text is for the operator.
    pub async fn build(config: Config) -> anyhow::Result<App> {
        let mut app = App::open(config, None).await?;
        let (endpoints, splits) = (app.config.endpoints.clone(), app.config.server.splits.clone());
        app.serve(endpoints, splits).await?;
        Ok(app)
    }

    /// Opens the sockets and loads nothing yet.
    ///
    /// # Errors
    /// As [`App::build`], but for models and handlers.
    async fn open(config: Config, development: Option<Development>) -> anyhow::Result<App> {
        memory::set_budget(config.server.memory.unwrap_or_else(memory::of_machine));
        let files = config.settings.file.as_deref().filter(|_| config.watch_config);
        let files = files.map(config_files::stamps).unwrap_or_default();
        let (configuration, orders) = Configuration::new(&config.settings);
        let metrics = Arc::new(Metrics::new().context("cannot set up the metrics")?);
        let jobs = match &config.jobs {
            Some(place) => Some(Arc::new(JobStore::open(place).await?)),
            None => None,
        };
        let tracer = Tracer::start(&config.traces, &metrics).context("cannot start the export of traces")?;
        let access_log = config.access_log.as_ref().map(|config| AccessLog::start(config, &metrics));
        let access_log = access_log.transpose().context("cannot write the access log")?;
        let served = Arc::new(Served {
            activity: Arc::default(),
            endpoints: Endpoints::default(),
            metrics: metrics.clone(),
            is_observed: tracer.is_some() || access_log.is_some(),
            tracer,
            access_log,
            metrics_texts: MetricsTexts::default(),
            jobs: jobs.clone(),
            stores: Stores::default(),
            config: config.server.clone(),
            shared_memory: SharedMemory::new(config.server.shared_memory),
            drain: Drain::default(),
            configuration,
            orders: Orders::default(),
            runtime: tokio::runtime::Handle::current(),
            development,
        });
        let listeners = Listeners::open(&served).await?;
        let stores = stores::open(&config, jobs).await?;
        let served = Arc::new(Served { stores: stores.clone(), ..Served::clone(&served) });
        let registry = Registry::new(Resources {
            metrics,
            sandbox: sandbox(&config.plugin, &config.endpoints)?.with_stores(stores),
            archive: config.record.as_ref().map(Archive::open).transpose()?,
            server: server_of(&config),
            catalog: Arc::new(Catalog::new(config.model.clone())),
        });
        let workers = JobWorkers::new(jobs::context(&served));
        let settings = config.settings.clone();
        let at_start = settings.process.clone();
        Ok(App { config, at_start, settings, files, orders, served, registry, listeners, workers })
    }

    /// Serves these endpoints, and no others.
    ///
    /// # Errors
    /// One of them cannot be loaded: what there was goes on serving.
    async fn serve(&mut self, endpoints: Vec<EndpointConfig>, splits: Vec<Split>) -> anyhow::Result<Changes> {
        let App { served, registry, listeners, workers, .. } = self;
        registry
            .change(endpoints, |deployments| {
                let config = server::Config { splits, ..served.config.clone() };
                let next = Served { endpoints: deployments.into(), config, ..Served::clone(served) };
                *served = Arc::new(next);
                listeners.take_over(served)?;
                workers.follow(&served.endpoints);
                Ok(())
            })
            .await
    }

    /// The addresses.
    pub fn addresses(&self) -> Addresses {
        self.listeners.addresses
    }

    /// The lines that tell a user where the server is.
    pub fn announcement(&self) -> Vec<String> {
        let Addresses { main, admin, grpc } = self.addresses();
        let scheme = |tls| if tls { "https" } else { "http" };
        let tls = self.listeners.tls.is_some();
        let admin_tls = tls && self.served.config.tls_admin;
        let mut lines = vec![
            format!("listening on {}://{main}", scheme(tls)),
            format!("admin on {}://{admin}", scheme(admin_tls)),
        ];
        lines.extend(grpc.map(|grpc| format!("grpc on {grpc}")));
        lines
    }

    /// Serves until `stop` resolves, then answers what is in flight and returns. At every change the
    /// configuration is `read` again.
    ///
    /// # Errors
    /// Requests were still unanswered when the drain's time was over, and were refused.
    pub async fn run(
        mut self,
        stop: impl Future<Output = ()>,
        mut changes: mpsc::Receiver<ReloadReason>,
        read: impl Fn(Option<&str>) -> Result<Config, String>,
    ) -> anyhow::Result<()> {
        let files = std::mem::take(&mut self.files);
        let watched = self.config.settings.file.clone().filter(|_| self.config.watch_config);
        let following = watched
            .map(|file| tokio::spawn(config_files::follow(file, files, self.served.configuration.clone())));
        let tls = self.listeners.tls.clone().map(|tls| tokio::spawn(async move { tls.follow().await }));
        let mut stop = pin!(stop);
        loop {
            let change = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(change) = changes.recv() => change,
                Some(order) = self.orders.recv() => ReloadReason::Order(order),
            };
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.take(change, &read) => {}
            }
        }
        self.orders.close();
        following.iter().for_each(JoinHandle::abort);
        self.served.orders.close();
        tracing::info!("stopping: requests in flight are answered first");
        self.served.drain.begin();
        let App { served, registry, listeners, workers, .. } = self;
        registry.stop_following().await;
        if let Some(tls) = tls {
            tls.abort();
        }
        let Listeners { serving, admin_thread, stop_admin, .. } = listeners;
        let timeout = served.config.drain_timeout;
        // Jobs and orders that run end within the same time; jobs that wait are for the next start.
        let (working, ordered) = (workers.ended(), served.orders.ended());
        let all = async { tokio::join!(serving, working, ordered).0 };
        tokio::pin!(all);
        let mut cut_off = 0;
        if tokio::time::timeout(timeout, &mut all).await.is_err() {
            let endpoints = registry.deployments().await;
            cut_off = endpoints.iter().map(|endpoint| endpoint.unanswered()).sum();
            // They are told so, and get the time to read it. A connection without a request is owed nothing.
            served.drain.end();
            endpoints.iter().for_each(|endpoint| endpoint.close());
            drop(endpoints);
            let _ = tokio::time::timeout(FAREWELL, &mut all).await;
            served.orders.tell_of_unended();
        }
        // What is recorded is written, as far as it waits. A disk that does not answer costs nothing else.
        if let Some(archive) = registry.archive()
            && !ends_in(timeout.min(LAST_WRITES), move || archive.close()).await
        {
            tracing::warn!("the last recordings are lost: the disk takes too long");
        }
        if let Some(tracer) = served.tracer.clone() {
            ends_in(LAST_WRITES, move || tracer.close()).await;
        }
        if let Some(access_log) = served.access_log.clone()
            && !ends_in(timeout.min(LAST_WRITES), move || access_log.close()).await
        {
            tracing::warn!("the last lines of the access log are lost: they are not taken in time");
        }
        let stores = served.stores.clone();
        // What was answered is on the disk; the next start has more to read.
        ends_in(timeout.min(LAST_WRITES), move || stores.close()).await;
        // The last holder of the endpoints: with it go their copies of project files.
        drop(stop_admin);
        let _ = admin_thread.join();
        if cut_off > 0 {
            anyhow::bail!(
                "stopped after {timeout:?} with {cut_off} requests unanswered: they were refused as `shutting_down`\n  \
                 hint: give them more time with `--drain-timeout`"
            );
        }
        tracing::info!("stopped: every request is answered");
        Ok(())
    }
}

impl Listeners {
    /// Takes all addresses, then serves on all of them what is said while everything is loading.
    ///
    /// # Errors
    /// An address is taken, or certificate and key cannot be served.
    async fn open(loading: &Arc<Served>) -> anyhow::Result<Listeners> {
        let config = &loading.config;
        let main = bind(config.listen, "--listen")?;
        let admin = bind(config.admin_listen, "--admin-listen")?;
        let grpc = config.grpc_listen.map(|address| bind(address, "--grpc-listen")).transpose()?;
        let tls = match &config.tls {
            Some(files) => Some(Arc::new(Tls::load(files).await?)),
            None => None,
        };
        let (main, admin) = (open(main, "--listen")?, open(admin, "--admin-listen")?);
        let grpc = grpc.map(|socket| open(socket, "--grpc-listen")).transpose()?;
        let addresses = Addresses {
            main: main.local_addr()?,
            admin: admin.local_addr()?,
            grpc: grpc.as_ref().map(TcpListener::local_addr).transpose()?,
        };

        let limits = Arc::new(config.connections.affordable(1 + usize::from(grpc.is_some())));
        let connections = ConnectionConfig { limits, tls: tls.clone() };
        let admin_connections =
            ConnectionConfig { tls: tls.clone().filter(|_| config.tls_admin), ..connections.clone() };
        let switch = |service| ServiceSwitch::new(loading.clone(), service);
        let serve = |listener, switch| -> anyhow::Result<_> {
            let listener = tokio::net::TcpListener::from_std(listener).context("cannot serve a listener")?;
            Ok(listen::serve(listener, switch, loading.drain.clone(), connections.clone()))
        };
        let main_switch = Arc::new(switch(HttpService::loading(loading)).logged());
        let admin_switch = Arc::new(switch(admin::loading(loading)));
        let grpc_switch = grpc.is_some().then(|| Arc::new(switch(HttpService::loading(loading)).logged()));
        let main = serve(main, main_switch.clone())?;
        let grpc = grpc.zip(grpc_switch.clone()).map(|(grpc, switch)| serve(grpc, switch)).transpose()?;
        let serving = tokio::spawn(async move {
            match grpc {
                Some(grpc) => drop(tokio::join!(main, grpc)),
                None => main.await,
            }
        });
        let (stop_admin, stopped) = oneshot::channel();
        let timelines = Arc::new(admin::Timelines::default());
        let admin_thread =
            admin::spawn(admin, admin_switch.clone(), admin_connections, timelines.clone(), stopped)
                .context("cannot start the admin listener")?;
        tracing::info!(main = %addresses.main, admin = %addresses.admin,
            grpc = addresses.grpc.map(tracing::field::display), "loading; requests are answered so");
        Ok(Listeners {
            addresses,
            tls,
            main: main_switch,
            grpc: grpc_switch,
            admin: admin_switch,
            timelines,
            serving,
            admin_thread,
            stop_admin,
        })
    }

    /// From now on requests are told that everything is loading.
    fn load(&self, served: &Arc<Served>) {
        self.grpc.iter().for_each(|switch| switch.switch_to(HttpService::loading(served)));
        self.main.switch_to(HttpService::loading(served));
        self.admin.switch_to(admin::loading(served));
    }

    /// From now on everything is served.
    ///
    /// # Errors
    /// gRPC's reflection cannot be set up: a defect of the build.
    fn take_over(&self, served: &Arc<Served>) -> anyhow::Result<()> {
        if let Some(switch) = &self.grpc {
            switch.switch_to(grpc::service(served).context("cannot serve gRPC")?);
        }
        self.main.switch_to(HttpService::new(served));
        self.admin.switch_to(admin::service(served, &self.timelines));
        Ok(())
    }
}

/// The name that tells a server from others on the machine: its config file, and its port unless it is 0.
fn server_of(config: &Config) -> Option<String> {
    let file = config.settings.file.as_ref().map(|file| std::path::absolute(file).unwrap_or(file.clone()));
    let listen = Some(config.server.listen).filter(|listen| listen.port() != 0);
    (file.is_some() || listen.is_some()).then(|| format!("{file:?} {listen:?}"))
}

/// How long the last recordings may take, and closing the stores.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// After the drain's time is over: how long the last answers, refusals, may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// Connections the kernel may hold for a process that is busy, or that has as many as it may.
const BACKLOG: u32 = 1024;

/// Whether what may block has ended within `limit`.
async fn ends_in(limit: Duration, close: impl FnOnce() + Send + 'static) -> bool {
    tokio::time::timeout(limit, tokio::task::spawn_blocking(close)).await.is_ok()
}

/// Takes the address. No client can connect yet.
fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpSocket> {
    let bind = || -> std::io::Result<TcpSocket> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for the last connections of the process before it.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| cannot_listen(address, flag, &error))
}

/// Opens a socket. From here on the kernel takes connections.
fn open(socket: TcpSocket, flag: &str) -> anyhow::Result<TcpListener> {
    let address = socket.local_addr()?;
    let listener = socket.listen(BACKLOG).and_then(tokio::net::TcpListener::into_std);
    listener.map_err(|error| cannot_listen(address, flag, &error))
}

fn cannot_listen(address: SocketAddr, flag: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "cannot listen on {address}: {error}\n  hint: choose another address with `{flag}`, or port 0 for any free one"
    )
}
