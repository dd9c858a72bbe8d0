//! Accepts connections, and ends them so that no request is lost.
//!
//! Place in the flow: between the socket and the router.
//! Shutdown, in order: the process is asked to stop → it reports itself unready, takes what the kernel has
//! already accepted for it, and closes the socket → every response from now on says `connection: close`, so
//! clients on kept-alive connections leave by themselves, with an answer → after [`LINGER`] connections
//! without a request are closed → the last response ends the drain.
//! Invariants: a connection is never closed between a request and the end of its response, unless the client
//! has stopped to take it or the drain itself times out; one that has gone over to another protocol is
//! open until that ends; at most [`Limits::max_connections`] are open, the
//! others wait in the kernel.

mod bodies;
mod client;
mod closing;
mod connection;
mod frames;
mod socket;
mod turn;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use self::client::Client;
pub use self::connection::ConnectionConfig;
use self::connection::{Connection, ConnectionState};
use super::limits::LINGER;
pub use super::limits::Limits;
use super::switch::ServiceSwitch;
use crate::drain::Drain;

/// Pause after the process ran out of file descriptors, in which connections may end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a client of HTTP/2 without a request may take to acknowledge that its connection ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// At least and at most this long passes until all connections are looked at again; within that, a quarter of
/// the shortest timeout.
const SWEEP_INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

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
        tokio::spawn(connection.serve(stream, address.ip(), (alive.clone(), place)));
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
        // A head that never comes to its end, a response that is not taken: they are still looked for.
        loop {
            tokio::select! {
                biased;
                _ = ended.recv() => break,
                _ = sweep.tick() => registry.sweep(false),
            }
        }
    }
}

/// The open connections of one listener. Touched when one is accepted and when all are looked at, never by a
/// request.
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
    /// When its client was first seen not to have reacted to the end of the connection.
    deaf_since: Option<Instant>,
}

impl Watched {
    /// Whether a client of HTTP/2 has not even acknowledged that the connection ends: one that reads does so
    /// at once, however slowly it takes its response.
    fn is_deaf(&mut self, client: &Client, now: Instant) -> bool {
        let heard = client.heard.load(Ordering::Relaxed);
        if !client.is_http2.load(Ordering::Relaxed) || heard != client.heard_when_told.load(Ordering::Relaxed)
        {
            self.deaf_since = None;
            return false;
        }
        now.duration_since(*self.deaf_since.get_or_insert(now)) >= FAREWELL
    }
}

impl ConnectionRegistry {
    fn new(limits: &Limits) -> ConnectionRegistry {
        let Limits { header_timeout, idle_timeout, .. } = *limits;
        ConnectionRegistry { header_timeout, idle_timeout, watched: Mutex::default() }
    }

    /// The time between two looks.
    fn interval(&self) -> Duration {
        let (least, most) = SWEEP_INTERVAL;
        (self.header_timeout.min(self.idle_timeout) / 4).clamp(least, most)
    }

    fn add(&self, connection: &Arc<Connection>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended ones are forgotten when the list would have to grow, so it stays as long as the most that
        // were open.
        if watched.len() == watched.capacity() {
            watched.retain(|watched| watched.connection.strong_count() > 0);
        }
        let connection = Arc::downgrade(connection);
        watched.push(Watched { connection, signs: 0, silent_since: Instant::now(), deaf_since: None });
    }

    /// Ends connections that are silent for too long: a client that keeps an idle one, never comes to the end
    /// of a request's head, or takes nothing of its response. When no more may be open, an idle one is not
    /// kept for long.
    fn sweep(&self, is_full: bool) {
        let now = Instant::now();
        let patience = if is_full { self.interval() } else { self.idle_timeout };
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for watched in &mut *watched {
            let Some(connection) = watched.connection.upgrade() else { continue };
            if connection.client.stalled_writes.longest() >= self.idle_timeout {
                // Also if it is busy otherwise: what it does not take is held for it.
                connection.set_state(ConnectionState::Closed);
                continue;
            }
            let signs = connection.client.signs.load(Ordering::Relaxed);
            if signs != watched.signs || connection.client.in_flight.load(Ordering::Relaxed) > 0 {
                (watched.signs, watched.silent_since) = (signs, now);
                continue;
            }
            let silent = now.duration_since(watched.silent_since);
            let has_begun = !is_full || connection.client.has_spoken.load(Ordering::Relaxed);
            let in_head = has_begun && connection.client.in_head.load(Ordering::Relaxed);
            let was_told = connection.is_ending();
            let is_deaf = watched.is_deaf(&connection.client, now);
            if (in_head && silent >= self.header_timeout)
                || (was_told && silent >= self.idle_timeout)
                || is_deaf
            {
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
