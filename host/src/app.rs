//! Configuration of the whole process, and the composition root that turns it into a running server.
//!
//! Place in the flow: the only file that names every subsystem; builds them in the order they need each other, runs
//! them, and stops them in reverse.
//! Invariant: the sockets are opened first and tell whoever asks that everything is loading; a port that is taken is found
//! out before a model is loaded. The site takes over when the last endpoint is ready.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::deploy::{Endpoint, watch};
use crate::model::Catalog;
use crate::plugin::Sandbox;
use crate::server::front::Front;
use crate::server::http::Site;
use crate::server::listen::{Drain, Edge};
use crate::server::tls::Tls;
use crate::server::{self, Served, admin, listen};
use crate::telemetry::metrics::Metrics;
use crate::{deploy, model, plugin, telemetry};

/// Everything `host serve` needs; one field per subsystem, owned by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Listeners.
    pub server: server::Config,
    /// What to serve; never empty.
    pub endpoints: Vec<deploy::EndpointConfig>,
    /// The sandbox.
    pub plugin: plugin::Config,
    /// The inference engine.
    pub model: model::Config,
    /// Logs.
    pub logs: telemetry::logs::Config,
}

/// A server that serves.
pub struct App {
    served: Arc<Served>,
    watched: Vec<(Arc<Endpoint>, PathBuf, watch::FileStamp)>,
    tls: Option<Arc<Tls>>,
    addresses: (SocketAddr, SocketAddr),
    serving: JoinHandle<()>,
    admin: thread::JoinHandle<()>,
    /// Ends the admin listener when dropped.
    stop_admin: oneshot::Sender<()>,
}

impl App {
    /// Opens the sockets, loads everything, and serves it. Until all is loaded, both listeners say so.
    ///
    /// # Errors
    /// The first thing that cannot be had: a port, a certificate, the sandbox, a model, a handler. The text is for the
    /// operator.
    pub async fn build(config: Config) -> anyhow::Result<App> {
        let main = bind(config.server.listen, "--listen")?;
        let admin = bind(config.server.admin_listen, "--admin-listen")?;
        let tls = match &config.server.tls {
            Some(files) => Some(Arc::new(Tls::load(files).await?)),
            None => None,
        };
        let (main, admin) = (open(main, "--listen")?, open(admin, "--admin-listen")?);
        let addresses = (main.local_addr()?, admin.local_addr()?);
        let metrics = Arc::new(Metrics::new().context("cannot set up the metrics")?);
        let drain = Drain::default();
        let activity = Arc::default();
        let served = |endpoints| {
            let (metrics, config, drain) = (metrics.clone(), config.server.clone(), drain.clone());
            Arc::new(Served { activity: Arc::clone(&activity), endpoints, metrics, config, drain })
        };

        let nothing = served(Vec::new());
        let edge = Edge { limits: Arc::new(config.server.connections.affordable()), tls: tls.clone() };
        let admin_tls = tls.clone().filter(|_| config.server.tls_admin);
        let admin_edge = Edge { tls: admin_tls, ..edge.clone() };
        let front = Arc::new(Front::new(nothing.clone(), Site::loading(&nothing)));
        let admin_front = Arc::new(Front::new(nothing.clone(), admin::loading(&nothing)));
        let main = tokio::net::TcpListener::from_std(main).context("cannot serve the main listener")?;
        let serving = tokio::spawn(listen::serve(main, front.clone(), drain.clone(), edge));
        let (stop_admin, stopped) = oneshot::channel();
        let admin = admin::spawn(admin, admin_front.clone(), admin_edge, stopped)
            .context("cannot start the admin listener")?;

        let (main, admin_address) = addresses;
        tracing::info!(%main, admin = %admin_address, "loading; whoever asks is told so");
        let sandbox = sandbox(&config.plugin, &config.endpoints)?;
        let catalog = Arc::new(Catalog::new(config.model));
        let mut endpoints = Vec::with_capacity(config.endpoints.len());
        let mut watched = Vec::new();
        for endpoint in config.endpoints {
            // Taken before the file is read: a version that lands in between is noticed.
            let watch = match &endpoint.plugin {
                Some(path) if endpoint.watch => Some((path.clone(), watch::FileStamp::of(path).await)),
                _ => None,
            };
            let endpoint = Arc::new(Endpoint::first(endpoint, &catalog, &sandbox, &metrics).await?);
            tracing::info!(endpoint = %endpoint.config.name, path = %endpoint.config.path,
                plugin.digest = endpoint.current().digest.as_deref(), "endpoint is ready");
            watched.extend(watch.map(|(path, stamp)| (endpoint.clone(), path, stamp)));
            endpoints.push(endpoint);
        }
        let served = served(endpoints);
        front.open(Site::new(&served));
        admin_front.open(admin::site(&served));
        Ok(App { served, watched, tls, addresses, serving, admin, stop_admin })
    }

    /// The addresses, with real port numbers: main, admin.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }

    /// The URLs under which it serves, with real port numbers: main, admin.
    pub fn urls(&self) -> [String; 2] {
        let url = |tls: bool, address| format!("{}://{address}", if tls { "https" } else { "http" });
        let (main, admin) = self.addresses;
        [url(self.tls.is_some(), main), url(self.tls.is_some() && self.served.config.tls_admin, admin)]
    }

    /// Serves until `stop` resolves, then answers what is in flight and returns.
    ///
    /// # Errors
    /// Requests were still unanswered when the drain's time was over.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let App { served, watched, tls, serving, admin, stop_admin, .. } = self;
        let mut watchers: Vec<_> = watched
            .into_iter()
            .map(|(endpoint, path, stamp)| tokio::spawn(watch::follow(endpoint, path, stamp)))
            .collect();
        watchers.extend(tls.map(|tls| tokio::spawn(async move { tls.follow().await })));

        stop.await;
        tracing::info!("stopping: requests in flight are answered first");
        served.drain.begin();
        // A new handler version has nobody left to serve.
        for watcher in watchers {
            watcher.abort();
            // It ended as it was told to; its hold on the endpoint is gone.
            let _ = watcher.await;
        }
        let timeout = served.config.drain_timeout;
        tokio::pin!(serving);
        let mut ended = tokio::time::timeout(timeout, &mut serving).await.is_ok();
        if !ended {
            // What has not even begun gets an answer, and the time to read it.
            served.endpoints.iter().for_each(|endpoint| endpoint.close());
            ended = tokio::time::timeout(FAREWELL, &mut serving).await.is_ok();
        }
        if !ended {
            let unanswered: usize = served.endpoints.iter().map(|endpoint| endpoint.unanswered()).sum();
            anyhow::bail!(
                "stopped after {timeout:?} with {unanswered} requests unanswered\n  hint: give them more time with `--drain-timeout`"
            );
        }
        tracing::info!("stopped: every request is answered");
        // The last holder of the endpoints: with it go their copies of project files.
        drop(stop_admin);
        let _ = admin.join();
        Ok(())
    }
}

/// The sandbox, with room for every instance the endpoints may need at once.
///
/// # Errors
/// The engine refuses its settings, or the compile cache cannot be used.
pub fn sandbox(config: &plugin::Config, endpoints: &[deploy::EndpointConfig]) -> anyhow::Result<Sandbox> {
    // Twice: during a swap, two generations of every endpoint are alive. Some more for first instances.
    let instances: usize = endpoints.iter().map(|endpoint| endpoint.limits.concurrency * 2 + 2).sum();
    Ok(Sandbox::new(config, instances)?)
}

/// After the drain's time is over: how long writing the last answers may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// Connections the kernel may hold for a process that is busy, or that has as many as it may.
const BACKLOG: u32 = 1024;

/// Takes the address. Nobody can connect yet.
fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpSocket> {
    let bind = || -> std::io::Result<TcpSocket> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for the last connections of the process before it.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().with_context(|| cannot_listen(&address.to_string(), flag))
}

/// Opens a socket. From here on the kernel takes connections.
fn open(socket: TcpSocket, flag: &str) -> anyhow::Result<TcpListener> {
    let address = socket.local_addr()?;
    let listener = socket.listen(BACKLOG).and_then(tokio::net::TcpListener::into_std);
    listener.with_context(|| cannot_listen(&address.to_string(), flag))
}

fn cannot_listen(address: &str, flag: &str) -> String {
    format!(
        "cannot listen on {address}\n  hint: choose another address with `{flag}`, or port 0 for any free one"
    )
}
