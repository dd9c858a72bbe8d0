//! Configuration of the whole process, and the composition root that turns it into a running server.
//!
//! Place in the flow: the only file that names every subsystem; builds them in the order they need each other, runs
//! them, and stops them in reverse.
//! Invariant: the sockets are bound first and opened last. A port that is taken is found out before a model is loaded,
//! and nobody can connect before everything is ready.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use crate::deploy::{Endpoint, watch};
use crate::model::Catalog;
use crate::plugin::Sandbox;
use crate::server::http::Site;
use crate::server::{self, Served, admin, grpc, listen};
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

/// A server that is ready to open its sockets.
pub struct App {
    served: Arc<Served>,
    watched: Vec<(Arc<Endpoint>, std::path::PathBuf, watch::FileStamp)>,
    main: TcpListener,
    admin: TcpListener,
    grpc: Option<TcpListener>,
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
    /// Loads everything. Nothing is served yet.
    ///
    /// # Errors
    /// The first thing that cannot be had: a port, the sandbox, a model, a handler. The text is for the operator.
    pub async fn build(config: Config) -> anyhow::Result<App> {
        let main = bind(config.server.listen, "--listen")?;
        let admin = bind(config.server.admin_listen, "--admin-listen")?;
        let grpc = config.server.grpc_listen.map(|address| bind(address, "--grpc-listen")).transpose()?;
        let metrics = Metrics::new().context("cannot set up the metrics")?;
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
        let (main, admin) = (listen(main, "--listen")?, listen(admin, "--admin-listen")?);
        let grpc = grpc.map(|socket| listen(socket, "--grpc-listen")).transpose()?;
        let drain = listen::Drain::default();
        let served =
            Arc::new(Served { activity: Arc::default(), endpoints, metrics, config: config.server, drain });
        Ok(App { served, watched, main, admin, grpc })
    }

    /// The addresses.
    ///
    /// # Errors
    /// The operating system cannot say.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        let grpc = self.grpc.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(Addresses { main: self.main.local_addr()?, admin: self.admin.local_addr()?, grpc })
    }

    /// Serves until `stop` resolves, then answers what is in flight and returns. Connections made before the call are
    /// waiting in the sockets and are served as well.
    ///
    /// # Errors
    /// A listener cannot be started, or requests were still unanswered when the drain's time was over.
    pub async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let App { served, watched, main, admin, grpc } = self;
        let drain = served.drain.clone();
        let watchers: Vec<_> = watched
            .into_iter()
            .map(|(endpoint, path, stamp)| tokio::spawn(watch::follow(endpoint, path, stamp)))
            .collect();
        let (stop_admin, stopped) = oneshot::channel();
        let admin =
            admin::spawn(admin, served.clone(), stopped).context("cannot start the admin listener")?;
        let main = tokio::net::TcpListener::from_std(main).context("cannot serve the main listener")?;
        let main = listen::serve(main, Arc::new(Site::new(&served)), drain.clone());
        let grpc = grpc.map(|grpc| serve_grpc(grpc, &served)).transpose().context("cannot serve gRPC")?;
        let serving = tokio::spawn(async move {
            match grpc {
                Some(grpc) => drop(tokio::join!(main, grpc)),
                None => main.await,
            }
        });

        stop.await;
        tracing::info!("stopping: requests in flight are answered first");
        drain.begin();
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

/// Serves gRPC until the drain has begun and the last connection has ended.
///
/// # Errors
/// The socket cannot be used, or reflection not be set up.
fn serve_grpc(
    listener: TcpListener,
    served: &Arc<Served>,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(listen::serve(listener, Arc::new(grpc::site(served)?), served.drain.clone()))
}

/// After the drain's time is over: how long writing the last answers may take.
const FAREWELL: Duration = Duration::from_millis(500);
/// Connections the kernel may hold for a process that is busy, or not ready yet.
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
fn listen(socket: TcpSocket, flag: &str) -> anyhow::Result<TcpListener> {
    let address = socket.local_addr()?;
    let listener = socket.listen(BACKLOG).and_then(tokio::net::TcpListener::into_std);
    listener.with_context(|| cannot_listen(&address.to_string(), flag))
}

fn cannot_listen(address: &str, flag: &str) -> String {
    format!(
        "cannot listen on {address}\n  hint: choose another address with `{flag}`, or port 0 for any free one"
    )
}
