//! One connection, from its handshake to its end.
//!
//! Place in the flow: `listen` accepts it, hyper reads requests from its [`Socket`], [`ServiceSwitch`]
//! answers them.
//! Invariant: what requests share of their connection they touch with atomics of its own, so
//! requests on different connections touch nothing in common.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use super::bodies::{RequestBody, ResponseBody};
use super::client::Client;
use super::frames::EARNED_BY_A_REQUEST;
use super::socket::{Held, Socket, Stream};
use super::turn;
use crate::arrivals::Origin;
use crate::drain::Drain;
use crate::server::access;
use crate::server::head::{Head, Secure};
use crate::server::limits::Limits;
use crate::server::switch::ServiceSwitch;
use crate::server::tls::Tls;

/// The order that a connection has been given. It never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionState {
    /// Serves requests as they come.
    Open,
    /// Answers what is in flight, then closes.
    Draining,
    /// Closes at once; nothing is in flight.
    Closed,
}

impl ConnectionState {
    fn load(state: &AtomicU8) -> ConnectionState {
        match state.load(Ordering::Acquire) {
            0 => ConnectionState::Open,
            1 => ConnectionState::Draining,
            _ => ConnectionState::Closed,
        }
    }
}

/// The bytes that hyper may read beyond the longest head before it gives up by itself: heads up to there get
/// an answer that says what is wrong.
const BEYOND_THE_HEAD: usize = 64 << 10;
/// Headers that hyper reads without an allocation.
const HYPERS_HEADERS: usize = 100;
/// The number of streams that a client of HTTP/2 may begin and take back at once, or do wrong, before it is
/// sent away (rapid reset).
const RESETS: (usize, usize) = (20, 1024);

/// Interval of HTTP/2 pings, and how long a client may take to answer one: a client that vanished is noticed
/// while its requests are in flight or its streams are idle.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(10);

/// How a listener treats its connections.
#[derive(Clone)]
pub struct ConnectionConfig {
    /// The limits of each.
    pub limits: Arc<Limits>,
    /// Certificate and key; `None` for plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

/// One connection.
pub(super) struct Connection {
    switch: Arc<ServiceSwitch>,
    drain: Drain,
    connections: ConnectionConfig,
    pub(super) client: Arc<Client>,
    /// A [`ConnectionState`].
    state: AtomicU8,
    /// Wakes the connection's task to look at the state. Costs a request an atomic operation, where a channel
    /// would cost a lock that all connections share.
    woken: AtomicWaker,
}

impl Connection {
    pub(super) fn new(switch: Arc<ServiceSwitch>, drain: Drain, connections: ConnectionConfig) -> Connection {
        Connection {
            switch,
            drain,
            connections,
            client: Arc::new(Client::new()),
            state: AtomicU8::new(ConnectionState::Open as u8),
            woken: AtomicWaker::new(),
        }
    }

    /// Serves it to its end, or until it goes over to another protocol; `held` goes with its last byte.
    pub(super) async fn serve(self: Arc<Self>, stream: TcpStream, address: IpAddr, held: Held) {
        let origin = Origin { address, connection: Arc::as_ptr(&self).addr() };
        // Responses are written whole; waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let secure = Secure(self.connections.tls.is_some());
        let stream = match &self.connections.tls {
            None => Stream::Plain(stream),
            Some(tls) => {
                let shaken = async {
                    stream.readable().await?;
                    self.client.has_spoken.store(true, Ordering::Relaxed);
                    tls.accept(stream).await
                };
                let handshake = tokio::time::timeout(self.connections.limits.header_timeout, shaken);
                tokio::select! {
                    accepted = handshake => match accepted {
                        Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                        // As with a broken connection below.
                        Ok(Err(_)) | Err(_) => return,
                    },
                    _ = self.state_beyond(ConnectionState::Open) => return,
                }
            }
        };
        let this = self.clone();
        let service = hyper::service::service_fn(move |request| {
            // Begun here and not when the future is first polled: what is read from now on is no head.
            let in_flight = InFlight::begin(this.clone(), &request);
            let (mut head, body) = Head::split(request);
            head.origin = origin;
            head.secure = secure;
            let is_let_in = !head.is_awaited && RequestBody::is_small(&body);
            let body = Body::new(RequestBody::new(body, this.client.clone(), head.is_awaited));
            respond(in_flight, head, body, is_let_in)
        });
        let builder = self.protocols();
        let socket = TokioIo::new(Socket::new(stream, self.client.clone(), held));
        let connection = builder.serve_connection_with_upgrades(socket, service);
        tokio::pin!(connection);
        // How a connection ends is its client's business; a broken one is no event worth a log line.
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            state = self.state_beyond(ConnectionState::Open) => {
                if state == ConnectionState::Closed {
                    return;
                }
            }
        }
        self.client.heard_when_told.store(self.client.heard.load(Ordering::Relaxed), Ordering::Relaxed);
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            biased;
            _ = connection => {}
            _ = self.state_beyond(ConnectionState::Draining) => {}
        }
    }

    /// HTTP/1.1 and HTTP/2, within the limits.
    fn protocols(&self) -> auto::Builder<TokioExecutor> {
        let limits = &self.connections.limits;
        let longest = limits.header_size + BEYOND_THE_HEAD;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().max_buf_size(longest);
        if limits.headers > HYPERS_HEADERS {
            builder.http1().max_headers(limits.headers);
        }
        let (resets, errors) = RESETS;
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(longest).unwrap_or(u32::MAX))
            .max_concurrent_streams(limits.http2_streams)
            .max_pending_accept_reset_streams(resets)
            .max_local_error_reset_streams(errors)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG);
        builder
    }

    /// Tells it to go over to this state.
    pub(super) fn set_state(&self, state: ConnectionState) {
        self.state.store(state as u8, Ordering::Release);
        self.woken.wake();
    }

    /// Waits for a state later than this one.
    async fn state_beyond(&self, known: ConnectionState) -> ConnectionState {
        let mut registered: Option<Waker> = None;
        std::future::poll_fn(move |context| {
            // A waker stays until a change of state takes it. The first change ends this waiting, so until
            // then it need not be left again by every poll, of which each request has a few. A later wake may
            // be for a state known already.
            let stays = registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            if known != ConnectionState::Open || !stays {
                self.woken.register(context.waker());
                registered = Some(context.waker().clone());
            }
            let state = ConnectionState::load(&self.state);
            if state > known { Poll::Ready(state) } else { Poll::Pending }
        })
        .await
    }

    /// Whether it has been told to end.
    pub(super) fn is_ending(&self) -> bool {
        ConnectionState::load(&self.state) != ConnectionState::Open
    }
}

/// Answers one request. `is_let_in`: whether its body is received even if it goes unread.
async fn respond(
    in_flight: InFlight,
    head: Box<Head>,
    body: Body,
    is_let_in: bool,
) -> Result<axum::http::Response<ResponseBody>, Infallible> {
    let (connection, arrived) = (&in_flight.0, Instant::now());
    let mut response = match connection.switch.access_log() {
        None => connection.switch.answer(head, body, arrived).await,
        Some(log) => {
            let answer = |head, body| connection.switch.answer(head, body, arrived);
            access::logged(log, head, body, arrived, answer).await
        }
    };
    let is_http2 = connection.client.is_http2.load(Ordering::Relaxed);
    // Streams of HTTP/2 hand their answers to their connection, which writes them together anyway.
    if !is_http2 {
        turn::pass(arrived).await;
    }
    // The body went unread, and there is too much of it to be received: the connection cannot go on.
    let is_left = !is_let_in && connection.client.in_body.load(Ordering::Relaxed) && !is_http2;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        connection.client.is_upgraded.store(true, Ordering::Relaxed);
    } else if is_left
        || connection.drain.has_begun()
        || connection.client.is_half_closed.load(Ordering::Relaxed)
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| ResponseBody::new(body, connection.client.clone())))
}

/// A request between its head and its response; ends also if it is dropped.
struct InFlight(Arc<Connection>);

impl InFlight {
    fn begin(connection: Arc<Connection>, request: &hyper::Request<Incoming>) -> InFlight {
        connection.client.in_body.store(!request.body().is_end_stream(), Ordering::Relaxed);
        connection.client.is_http11.store(request.version() == Version::HTTP_11, Ordering::Relaxed);
        if request.version() == Version::HTTP_2 {
            // Its preface may have come in pieces.
            connection.client.is_http2.store(true, Ordering::Relaxed);
            connection.client.earned.fetch_add(EARNED_BY_A_REQUEST, Ordering::Relaxed);
        }
        connection.client.in_flight.fetch_add(1, Ordering::Relaxed);
        connection.client.in_head.store(false, Ordering::Relaxed);
        InFlight(connection)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.client.signs.fetch_add(1, Ordering::Relaxed);
        self.0.client.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
