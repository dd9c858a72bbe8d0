//! Accepts connections, and ends them so that no request is lost.
//!
//! Place in the flow: between the socket and the router.
//! Shutdown, in order: the process is asked to stop → it reports itself unready, takes what the kernel has already
//! accepted for it, and closes the socket → every response from now on says `connection: close`, so clients on
//! kept-alive connections leave by themselves, with an answer → after [`LINGER`] connections without a request are
//! closed → the last response ends the drain.
//! Invariant: a connection is never closed between a request and the end of its response, unless the client has stopped to
//! take it or the drain itself times out.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::http::Site;

/// How long a kept-alive connection may stay silent once the process is stopping.
pub const LINGER: Duration = Duration::from_secs(1);
/// How long a connection may be without a request, or with a response of which the client takes nothing, before it is
/// closed; up to twice that, for it is looked at only this often.
const SILENCE: Duration = Duration::from_secs(60);
/// How often a client over HTTP/2 is asked whether it is still there, and how long it may take to say so. A stream may rest
/// for hours between two messages; by this its connection is never silent, and one whose client is gone is closed.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(10);
/// What a handshake that has begun may take to come to its end.
const HANDSHAKE: Duration = Duration::from_millis(100);
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
    let open = Arc::new(Open::default());
    // Every connection holds a sender; when all are gone the receiver says so.
    let (alive, mut ended) = mpsc::channel::<Infallible>(1);
    let spawn = |stream| {
        let connection = Arc::new(Connection::new(site.clone(), drain.clone()));
        open.add(&connection);
        let alive = alive.clone();
        tokio::spawn(async move {
            connection.serve(stream).await;
            drop(alive);
        });
    };
    let begun = drain.begun();
    tokio::pin!(begun);
    let mut sweep = tokio::time::interval(SILENCE);
    loop {
        tokio::select! {
            biased;
            () = &mut begun => break,
            _ = sweep.tick() => open.close_silent(),
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
    if tokio::time::timeout(LINGER, ended.recv()).await.is_err() {
        open.finish_all();
        ended.recv().await;
    }
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

/// One connection: what its requests share, so that they touch nothing that requests on other connections touch.
struct Connection {
    site: Arc<Site>,
    drain: Drain,
    /// Responses that were made and writes that the client's side took, and how many there were at the last look: no change
    /// means that the client is silent.
    signs: AtomicU64,
    seen: AtomicU64,
    in_flight: AtomicU64,
    /// One of [`GO_ON`], [`FINISH`], [`CUT`].
    wish: AtomicU8,
    /// Wakes the connection's task to look at the wish. Costs a request an atomic operation, where a channel would
    /// cost a lock that all connections share.
    woken: AtomicWaker,
}

/// Serve requests as they come.
const GO_ON: u8 = 0;
/// Answer what is in flight, then close.
const FINISH: u8 = 1;
/// Close at once; nothing is in flight.
const CUT: u8 = 2;

impl Connection {
    fn new(site: Arc<Site>, drain: Drain) -> Connection {
        Connection {
            site,
            drain,
            signs: AtomicU64::new(0),
            seen: AtomicU64::new(u64::MAX),
            in_flight: AtomicU64::new(0),
            wish: AtomicU8::new(GO_ON),
            woken: AtomicWaker::new(),
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        // Responses are written whole; waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let this = self.clone();
        let service = hyper::service::service_fn(move |request| respond(this.clone(), request));
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING).keep_alive_timeout(PONG);
        let connection =
            builder.serve_connection(TokioIo::new(Socket { stream, connection: self.clone() }), service);
        tokio::pin!(connection);
        // How a connection ends is its client's business; a broken one is no event worth a log line.
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            wish = self.wished() => if wish == CUT { return },
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }

    fn wish(&self, wish: u8) {
        self.wish.store(wish, Ordering::Release);
        self.woken.wake();
    }

    async fn wished(&self) -> u8 {
        std::future::poll_fn(|context| {
            self.woken.register(context.waker());
            match self.wish.load(Ordering::Acquire) {
                GO_ON => Poll::Pending,
                wish => Poll::Ready(wish),
            }
        })
        .await
    }

    /// Whether nothing was sent since this was last asked, and no request is in flight: the client keeps an idle connection,
    /// never comes to the end of a request's head, or takes nothing of its response.
    fn is_silent(&self) -> bool {
        let signs = self.signs.load(Ordering::Relaxed);
        self.seen.swap(signs, Ordering::Relaxed) == signs && self.in_flight.load(Ordering::Relaxed) == 0
    }
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

/// A request between its head and its response; ends also if it is dropped.
struct InFlight<'a>(&'a Connection);

impl InFlight<'_> {
    fn begin(connection: &Connection) -> InFlight<'_> {
        connection.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(connection)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.signs.fetch_add(1, Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's socket; notes what the client takes.
struct Socket {
    stream: TcpStream,
    connection: Arc<Connection>,
}

impl Socket {
    fn noted(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(_)) = written {
            self.connection.signs.fetch_add(1, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The open connections of one listener. Touched when one is accepted and when all are looked at, never by a request.
#[derive(Default)]
struct Open(Mutex<Vec<Weak<Connection>>>);

impl Open {
    fn add(&self, connection: &Arc<Connection>) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended ones are forgotten when the list would have to grow, so it stays as long as the most that were open.
        if open.len() == open.capacity() {
            open.retain(|connection| connection.strong_count() > 0);
        }
        open.push(Arc::downgrade(connection));
    }

    fn all(&self) -> Vec<Arc<Connection>> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter_map(Weak::upgrade).collect()
    }

    fn close_silent(&self) {
        self.all().iter().filter(|connection| connection.is_silent()).for_each(|silent| silent.wish(CUT));
    }

    fn finish_all(&self) {
        self.all().iter().for_each(|connection| connection.wish(FINISH));
    }
}
