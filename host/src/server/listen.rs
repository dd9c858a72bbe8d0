//! Accepts connections, and ends them so that no request is lost.
//!
//! Place in the flow: between the socket and the router.
//! Shutdown, in order: the process is asked to stop → it reports itself unready, takes what the kernel has already
//! accepted for it, and closes the socket → every response from now on says `connection: close`, so clients on
//! kept-alive connections leave by themselves, with an answer → after [`LINGER`] connections without a request are
//! closed → the last response ends the drain.
//! Invariant: a connection is never closed between a request and its response, unless the drain itself times out.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::http::Site;

/// How long a kept-alive connection may stay silent once the process is stopping.
pub const LINGER: Duration = Duration::from_secs(1);
/// How long a connection may be without a request before it is closed; up to twice that, for it is looked at only this
/// often.
const SILENCE: Duration = Duration::from_secs(60);
/// What a handshake that has begun may take to come to its end.
const HANDSHAKE: Duration = Duration::from_millis(20);
/// Pause after the process ran out of file descriptors, in which connections may end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Tells everybody that the process is going away. Cheap to clone, cheap to ask.
#[derive(Debug, Clone)]
pub struct Drain {
    begun: Arc<AtomicBool>,
    signal: watch::Sender<bool>,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { begun: Arc::default(), signal: watch::Sender::new(false) }
    }
}

impl Drain {
    /// Begins the drain.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.signal.send_replace(true);
    }

    /// Whether it has begun. One atomic load.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        // An error would mean that the sender is gone, and `self` holds it.
        let _ = self.signal.subscribe().wait_for(|begun| *begun).await;
    }
}

/// Serves `site` on `listener` until the drain has begun and the last connection has ended.
pub async fn serve(listener: TcpListener, site: Arc<Site>, drain: Drain) {
    // Every connection holds a sender; when all are gone the receiver says so.
    let (alive, mut ended) = mpsc::channel::<Infallible>(1);
    let spawn = |stream| {
        let connection = connection(stream, site.clone(), drain.clone());
        let alive = alive.clone();
        tokio::spawn(async move {
            connection.await;
            drop(alive);
        });
    };
    let begun = drain.begun();
    tokio::pin!(begun);
    loop {
        tokio::select! {
            biased;
            () = &mut begun => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => spawn(stream),
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    if let Err(error) = last_connections(listener, spawn).await {
        tracing::warn!("cannot close the listener in order, the latest connections may be reset: {error}");
    }
    drop(alive);
    ended.recv().await;
}

/// Takes the connections that the kernel holds for a listener, then closes it. Their clients already see a connection, and
/// perhaps have sent a request; closing the listener over them would reset it.
async fn last_connections(listener: TcpListener, spawn: impl Fn(TcpStream)) -> std::io::Result<()> {
    refuse_handshakes(&listener)?;
    // Handshakes that had begun before come to their end meanwhile.
    tokio::time::sleep(HANDSHAKE).await;
    // The kernel's own answer is wanted, not what the runtime last heard from it.
    let listener = listener.into_std()?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                spawn(TcpStream::from_std(stream)?);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Drops every SYN that reaches the listener from now on: a client that comes this late tries again by itself, and is then
/// refused rather than accepted and reset.
#[cfg(target_os = "linux")]
fn refuse_handshakes(listener: &TcpListener) -> std::io::Result<()> {
    use socket2::{SockFilter, SockRef};
    // Classic BPF over the TCP header; byte 13 holds the flags, of which 2 is SYN.
    const LOAD_FLAGS: SockFilter = SockFilter::new(0x30, 0, 0, 13);
    const IF_SYN: SockFilter = SockFilter::new(0x45, 0, 1, 2);
    const DROP: SockFilter = SockFilter::new(0x06, 0, 0, 0);
    const KEEP: SockFilter = SockFilter::new(0x06, 0, 0, u32::MAX);
    SockRef::from(listener).attach_filter(&[LOAD_FLAGS, IF_SYN, DROP, KEEP])
}

/// Elsewhere a connection made in the last microseconds may be reset.
#[cfg(not(target_os = "linux"))]
fn refuse_handshakes(_: &TcpListener) -> std::io::Result<()> {
    Ok(())
}

/// What the requests of one connection share, so that they touch nothing that requests on other connections touch.
struct Connection {
    site: Arc<Site>,
    drain: Drain,
    /// Requests that have begun; a change between two looks means that the client is not silent.
    begun: AtomicU64,
    in_flight: AtomicU64,
}

async fn connection(stream: TcpStream, site: Arc<Site>, drain: Drain) {
    // Responses are written whole; waiting for more to send would only delay them.
    let _ = stream.set_nodelay(true);
    let drained = drain.clone();
    let this = Connection { site, drain, begun: AtomicU64::new(0), in_flight: AtomicU64::new(0) };
    let this = Arc::new(this);
    let serving = this.clone();
    let service = hyper::service::service_fn(move |request| respond(serving.clone(), request));
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // How a connection ends is its client's business; a broken one is no event worth a log line.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = async { drained.begun().await; tokio::time::sleep(LINGER).await } => {}
        () = silence(&this) => return,
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// One request, and what every response carries.
async fn respond(
    connection: Arc<Connection>,
    request: hyper::Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    let _in_flight = InFlight::begin(&connection);
    let mut response = connection.site.answer(request.map(Body::new)).await;
    if connection.drain.has_begun() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Resolves when the client has had no request in flight for [`SILENCE`] or longer: it keeps an idle connection, or never
/// comes to the end of a request's head. One look a while, rather than a timer set anew for every request.
async fn silence(connection: &Connection) {
    let mut seen = u64::MAX;
    loop {
        tokio::time::sleep(SILENCE).await;
        let begun = connection.begun.load(Ordering::Relaxed);
        if begun == seen && connection.in_flight.load(Ordering::Relaxed) == 0 {
            return;
        }
        seen = begun;
    }
}

/// A request between its head and its response; ends also if it is dropped.
struct InFlight<'a>(&'a Connection);

impl InFlight<'_> {
    fn begin(connection: &Connection) -> InFlight<'_> {
        connection.begun.fetch_add(1, Ordering::Relaxed);
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(connection)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
