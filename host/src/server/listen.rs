//! Accepts connections, and ends them so that no request is lost.
//!
//! Place in the flow: between the socket and the router.
//! Shutdown, in order: the process is asked to stop → it reports itself unready, takes what the kernel has already
//! accepted for it, and closes the socket → every response from now on says `connection: close`, so clients on
//! kept-alive connections leave by themselves, with an answer → after [`LINGER`] connections without a request are
//! closed → the last response ends the drain.
//! Invariants: a connection is never closed between a request and the end of its response, unless the client has stopped to
//! take it or the drain itself times out; at most [`Limits::max_connections`] are open, the others wait in the kernel.

mod bodies;
mod closing;
mod connection;
mod socket;
mod turn;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use self::connection::{Connection, ConnectionState};
use super::switch::ServiceSwitch;
use super::tls::Tls;

/// How long a kept-alive connection may stay silent once the process is stopping.
pub const LINGER: Duration = Duration::from_secs(1);
/// Pause after the process ran out of file descriptors, in which connections may end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Files that are no connection of the endpoints: the operator's connections, models, handlers, their projects.
const OTHER_FILES: usize = 512;
/// At least and at most this long passes until all connections are looked at again; within that, a quarter of the shortest
/// timeout.
const SWEEP_INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// What a connection may cost. docs/reference.md lists the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest head of a request in bytes.
    pub header_size: usize,
    /// Most headers of a request.
    pub headers: usize,
    /// How long a client may take for a head, the TLS handshake before the first one likewise.
    pub header_timeout: Duration,
    /// How long a connection may be without a request, or with a response of which the client takes nothing.
    pub idle_timeout: Duration,
    /// Connections of one listener at the same time; more wait until one ends.
    pub max_connections: usize,
    /// Requests in flight on one connection of HTTP/2.
    pub http2_streams: u32,
}

impl Limits {
    /// These, with no more connections than there can be files for so many listeners. Asks the system for as many files as it
    /// allows.
    pub fn affordable(&self, listeners: usize) -> Limits {
        let files = (most_files().saturating_sub(OTHER_FILES) / listeners.max(1)).max(1);
        if files < self.max_connections {
            tracing::info!(
                "at most {files} connections: the system allows this process no more files (`ulimit -Hn`)"
            );
        }
        Limits { max_connections: self.max_connections.min(files), ..self.clone() }
    }
}

/// How many files the process may have open, sockets among them.
fn most_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let allowed = if raised.is_ok() { maximum } else { current };
    allowed.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// How a listener treats its connections.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// What each may cost.
    pub limits: Arc<Limits>,
    /// Certificate and key; `None` for plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

/// Tells everybody that the process is going away. Cheap to clone, cheap to ask.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    begun: Arc<AtomicBool>,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Serving,
    Begun,
    Over,
}

impl Drain {
    /// Begins the drain.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.phase.send_replace(Phase::Begun);
    }

    /// Its time is over: nothing is waited for any more.
    pub fn end(&self) {
        self.phase.send_replace(Phase::Over);
    }

    /// Whether it has begun. One atomic load.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        self.until(Phase::Begun).await;
    }

    /// Waits until its time is over.
    pub async fn over(&self) {
        self.until(Phase::Over).await;
    }

    async fn until(&self, wanted: Phase) {
        // An error would mean that the sender is gone, and `self` holds it.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
    }
}

/// Serves on `listener` what `switch` leads to, until the drain has begun and the last connection has ended.
pub async fn serve(
    listener: TcpListener,
    switch: Arc<ServiceSwitch>,
    drain: Drain,
    connections: ConnectionConfig,
) {
    let registry = ConnectionRegistry::new(&connections.limits);
    let places = Arc::new(Semaphore::new(connections.limits.max_connections));
    // Every connection holds a sender; when all are gone the receiver says so.
    let (alive, mut ended) = mpsc::channel::<Infallible>(1);
    let spawn = |registry: &ConnectionRegistry,
                 (stream, address): (TcpStream, SocketAddr),
                 place: Option<OwnedSemaphorePermit>| {
        let connection = Arc::new(Connection::new(switch.clone(), drain.clone(), connections.clone()));
        registry.add(&connection);
        let alive = alive.clone();
        tokio::spawn(async move {
            connection.serve(stream, address.ip()).await;
            drop((alive, place));
        });
    };
    let accept = async || {
        let place = places.clone().acquire_owned().await.ok();
        listener.accept().await.map(|accepted| (accepted, place))
    };
    let begun = drain.begun();
    tokio::pin!(begun);
    let mut sweep = tokio::time::interval(registry.interval());
    let mut was_full = false;
    loop {
        tokio::select! {
            biased;
            () = &mut begun => break,
            _ = sweep.tick() => {
                let is_full = places.available_permits() == 0;
                if is_full && !was_full {
                    tracing::warn!("{} connections are open, as many as may be: more wait", connections.limits.max_connections);
                }
                was_full = is_full;
                registry.sweep(is_full);
            }
            accepted = accept() => match accepted {
                Ok((accepted, place)) => spawn(&registry, accepted, place),
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    if let Err(error) = closing::close(listener, |accepted| spawn(&registry, accepted, None)).await {
        tracing::warn!("cannot close the listener in order, the latest connections may be reset: {error}");
    }
    drop(alive);
    if tokio::time::timeout(LINGER, ended.recv()).await.is_err() {
        registry.finish_all();
        // A head that never comes to its end, a response that nobody takes: they are still looked for.
        loop {
            tokio::select! {
                biased;
                _ = ended.recv() => break,
                _ = sweep.tick() => registry.sweep(false),
            }
        }
    }
}

/// The open connections of one listener. Touched when one is accepted and when all are looked at, never by a request.
struct ConnectionRegistry {
    header_timeout: Duration,
    idle_timeout: Duration,
    watched: Mutex<Vec<Watched>>,
}

/// A connection, and since when nothing was heard of its client.
struct Watched {
    connection: Weak<Connection>,
    signs: u64,
    silent_since: Instant,
}

impl ConnectionRegistry {
    fn new(limits: &Limits) -> ConnectionRegistry {
        let Limits { header_timeout, idle_timeout, .. } = *limits;
        ConnectionRegistry { header_timeout, idle_timeout, watched: Mutex::default() }
    }

    /// How often to look.
    fn interval(&self) -> Duration {
        let (least, most) = SWEEP_INTERVAL;
        (self.header_timeout.min(self.idle_timeout) / 4).clamp(least, most)
    }

    fn add(&self, connection: &Arc<Connection>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended ones are forgotten when the list would have to grow, so it stays as long as the most that were open.
        if watched.len() == watched.capacity() {
            watched.retain(|watched| watched.connection.strong_count() > 0);
        }
        let connection = Arc::downgrade(connection);
        watched.push(Watched { connection, signs: 0, silent_since: Instant::now() });
    }

    /// Ends connections that are silent for too long: a client that keeps an idle one, never comes to the end of a request's
    /// head, or takes nothing of its response. When no more may be open, an idle one is not kept for long.
    fn sweep(&self, is_full: bool) {
        let now = Instant::now();
        let patience = if is_full { self.interval() } else { self.idle_timeout };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for watched in &mut *watched {
            let Some(connection) = watched.connection.upgrade() else { continue };
            if connection.stalled_writes.longest() >= self.idle_timeout {
                // Whatever else it does: what it does not take is held for it.
                connection.set_state(ConnectionState::Closed);
                continue;
            }
            let signs = connection.signs.load(Ordering::Relaxed);
            if signs != watched.signs || connection.in_flight.load(Ordering::Relaxed) > 0 {
                (watched.signs, watched.silent_since) = (signs, now);
                continue;
            }
            let silent = now.duration_since(watched.silent_since);
            let in_head = connection.in_head.load(Ordering::Relaxed);
            let was_told = connection.is_ending();
            if (in_head && silent >= self.header_timeout) || (was_told && silent >= self.idle_timeout) {
                connection.set_state(ConnectionState::Closed);
            } else if !in_head && silent >= patience {
                // In order, if its client lets it.
                connection.set_state(ConnectionState::Draining);
            }
        }
    }

    fn finish_all(&self) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let open = watched.iter().filter_map(|watched| watched.connection.upgrade());
        open.for_each(|connection| connection.set_state(ConnectionState::Draining));
    }
}
