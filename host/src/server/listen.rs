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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tower_service::Service as _;

/// How long a kept-alive connection may stay silent once the process is stopping.
pub const LINGER: Duration = Duration::from_secs(1);
/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
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

/// Serves `router` on `listener` until the drain has begun and the last connection has ended.
pub async fn serve(listener: TcpListener, router: Router, drain: Drain) {
    // Every connection holds a sender; when all are gone the receiver says so.
    let (alive, mut ended) = mpsc::channel::<Infallible>(1);
    let begun = drain.begun();
    tokio::pin!(begun);
    loop {
        tokio::select! {
            biased;
            () = &mut begun => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => spawn(stream, &router, &drain, &alive),
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // Their clients already see a connection, and perhaps have sent a request.
    while let Some(Ok((stream, _))) = now(listener.accept()).await {
        spawn(stream, &router, &drain, &alive);
    }
    drop(listener);
    drop(alive);
    ended.recv().await;
}

/// The future's output if it has one right now.
async fn now<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

fn spawn(stream: TcpStream, router: &Router, drain: &Drain, alive: &mpsc::Sender<Infallible>) {
    let (router, drain, alive) = (router.clone(), drain.clone(), alive.clone());
    tokio::spawn(async move {
        connection(stream, router, drain).await;
        drop(alive);
    });
}

async fn connection(stream: TcpStream, router: Router, drain: Drain) {
    // Responses are written whole; waiting for more to send would only delay them.
    let _ = stream.set_nodelay(true);
    let ending = drain.clone();
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let response = router.clone().call(request.map(Body::new));
        let drain = drain.clone();
        async move {
            let mut response = response.await?;
            if drain.has_begun() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // How a connection ends is its client's business; a broken one is no event worth a log line.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = async { ending.begun().await; tokio::time::sleep(LINGER).await } => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
