//! WebSockets: the handshake (RFC 6455, section 4.2), over HTTP/1.1.
//!
//! Place in the flow: from [`super`], before any other answer of the path. The handler says by its `upgrade`
//! whether the socket opens; [`websocket`] has the connection then.
//! In: a `GET` with `upgrade: websocket`. Out: 101, or the handler's own response, or an error.
//! Invariants: no socket opens past the endpoint's keys, or for a page of an origin that may not call the
//! endpoints; a socket has a run of its own, in a task of its own, which ends soon after the socket or the
//! client's going.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{
    CONNECTION, HOST, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, Method, StatusCode, Version};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::application::{below, operation};
use super::route::EndpointRoute;
use super::transport::into_http;
use crate::arrivals::Origin;
use crate::endpoint::config::EndpointConfig;
use crate::endpoint::generation::Generation;
use crate::error::{Code, RequestError, SHUTTING_DOWN, Stage};
use crate::keys::Credentials;
use crate::memory::Charge;
use crate::request::exchange::Progress;
use crate::request::exchange::abandoned::GRACE;
use crate::request::socket::{Close, Opening, Socket, SocketWire};
use crate::request::{self, Input, Output};
use crate::rollout::deployment::Deployment;
use crate::server::access::CountedIo;
use crate::server::body::Bounds;
use crate::server::compat::client::NO_SOCKETS;
use crate::server::head::Head;
use crate::server::serve::{Call, Destination, Protocol, Room, Signature, Transport, serve};
use crate::server::served::Served;
use crate::server::websocket::{self, PING};
use crate::telemetry::access_log::AccessEntry;
use crate::telemetry::traces::{AnswerStatus, Operation};

/// Added to the client's key, it proves that a server has read the handshake (RFC 6455, section 1.3).
const PROOF: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The version of the protocol, the only one.
const PROTOCOL_VERSION: &str = "13";
/// Length of the client's key, once decoded.
const KEY: usize = 16;
/// Most subprotocols of one handshake.
const PROTOCOLS: usize = 100;

/// Where sockets are opened.
#[derive(Clone)]
pub(super) struct SocketTarget {
    endpoint: Arc<Deployment>,
    served: Arc<Served>,
    /// As of an application's route.
    prefix: String,
}

impl SocketTarget {
    pub(super) fn new(route: &EndpointRoute, prefix: &str) -> SocketTarget {
        let EndpointRoute { endpoint, served } = route;
        SocketTarget { endpoint: endpoint.clone(), served: served.clone(), prefix: prefix.to_owned() }
    }

    /// Whether its handler serves them.
    pub(super) fn is_served(&self) -> bool {
        self.endpoint.read_current(|it| it.pipeline.has_websocket())
    }
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_handshake(head: &Head) -> bool {
    let parts = &head.parts;
    parts.method == Method::GET
        && parts.version == Version::HTTP_11
        && has_token(&parts.headers, &UPGRADE, "websocket")
        && has_token(&parts.headers, &CONNECTION, "upgrade")
        && parts.extensions.get::<OnUpgrade>().is_some()
}

/// The elements of a header that is a list.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    list(headers, name).any(|own| own.eq_ignore_ascii_case(token))
}

/// The contents of a handshake.
struct Handshake {
    /// The answer to the client's key.
    accept: HeaderValue,
    protocols: Vec<String>,
}

impl Handshake {
    /// Of these headers.
    ///
    /// # Errors
    /// `upgrade_required` for another version, `invalid_input`.
    fn of(headers: &HeaderMap) -> Result<Handshake, RequestError> {
        let invalid = |text: &str| RequestError::invalid(Stage::Admit, text);
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != PROTOCOL_VERSION) {
            let text = "the handshake is not of version 13 of the WebSocket protocol";
            return Err(RequestError::new(Code::UpgradeRequired, Stage::Admit, text));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
        if !STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY) {
            return Err(invalid("the handshake has no `sec-websocket-key` of 16 bytes in base64"));
        }
        let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, PROOF].concat());
        let accept = HeaderValue::try_from(STANDARD.encode(proof))
            .map_err(|_| invalid("the handshake cannot be answered"))?;
        let protocols: Vec<_> = list(headers, &SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
        if protocols.len() > PROTOCOLS {
            return Err(invalid("the handshake offers more than 100 subprotocols"));
        }
        Ok(Handshake { accept, protocols })
    }

    /// The response that opens the socket.
    fn response(&self, protocol: Option<&str>) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept.clone());
        if let Some(protocol) = protocol.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }
}

/// Whether a page may open sockets: of the server itself, or of an origin that may read its answers. Browsers
/// ask no server before they send a handshake.
fn is_allowed(headers: &HeaderMap, allowed: Option<&str>) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let is_own = || {
        let host = headers.get(HOST)?.to_str().ok()?;
        let (_, authority) = origin.to_str().ok()?.split_once("://")?;
        authority.eq_ignore_ascii_case(host).then_some(())
    };
    allowed.is_some_and(|allowed| allowed == "*" || origin == allowed) || is_own().is_some()
}

/// Answers a handshake, which came at `arrived`.
pub(super) async fn open(target: SocketTarget, mut head: Box<Head>, arrived: Instant) -> Response {
    let SocketTarget { endpoint, served, prefix } = target;
    let id = head.id();
    let call = || Call::new(&served, id.clone(), arrived);
    let checked = endpoint.authorize(|| head.credentials()).and_then(|()| {
        let counted = |error: &RequestError| endpoint.metrics.error(error.code);
        check(&head, &served).inspect_err(counted)
    });
    let upgrade = head.parts.extensions.remove::<OnUpgrade>();
    let (handshake, upgrade) = match (checked, upgrade) {
        (Ok(handshake), Some(upgrade)) => (handshake, upgrade),
        (Err(error), _) => return answered(error, &call(), &endpoint),
        (Ok(_), None) => return answered(lost(), &call(), &endpoint),
    };
    if !endpoint.read_current(|it| it.pipeline.has_websocket()) {
        let counts = endpoint.metrics.sockets.clone();
        tokio::spawn(async move {
            if let Ok(upgraded) = upgrade.await {
                let close = Close::new(Close::UNSUPPORTED, NO_SOCKETS);
                websocket::refuse(TokioIo::new(upgraded), close).await;
                counts.closed(Close::UNSUPPORTED);
            }
        });
        return signed(handshake.response(None), &id, None);
    }
    below(&prefix, &mut head, &id);
    let access = if served.access_log.is_some() { head.parts.extensions.get().cloned() } else { None };
    let longest = endpoint.config.limits.sockets.message;
    let (socket, client) = Socket::new(handshake.protocols.clone(), longest);
    let progress = client.progress().clone();
    let run = {
        let (endpoint, served, id) = (endpoint.clone(), served.clone(), id.clone());
        tokio::spawn(async move {
            let call = Call::new(&served, id, arrived);
            let found = Ok((Destination { endpoint: &endpoint, model: None }, WebSocket(Some(socket))));
            tokio::select! {
                biased;
                answer = serve(call, found, Upgrading(head), ()) => Some(answer),
                () = abandoned(&progress) => None,
            }
        })
    };
    match client.opened().await {
        Some((Opening::Accepted(protocol), digest, wire)) => {
            tokio::spawn(connect(upgrade, wire, endpoint, served.clone(), access));
            signed(handshake.response(protocol.as_deref()), &id, Some(&digest))
        }
        Some((Opening::Refused(response), digest, _)) => signed(into_http(response), &id, Some(&digest)),
        None => match run.await {
            Ok(Some(answer)) => answer,
            // The handler panicked, or its client is gone and reads no answer.
            Ok(None) | Err(_) => answered(lost(), &call(), &endpoint),
        },
    }
}

fn check(head: &Head, served: &Served) -> Result<Handshake, RequestError> {
    if served.drain.has_begun() {
        return Err(RequestError::shutting_down(Stage::Admit));
    }
    if !is_allowed(head.headers(), served.config.cors_allow_origin.as_deref()) {
        let message = "pages of this origin may not open a WebSocket here";
        return Err(RequestError::new(Code::Forbidden, Stage::Admit, message));
    }
    Handshake::of(head.headers())
}

fn lost() -> RequestError {
    RequestError::new(Code::Internal, Stage::Admit, "the handshake was not answered")
}

fn answered(error: RequestError, call: &Call<'_>, endpoint: &Deployment) -> Response {
    let response = Upgrading::encode_error(error, call, Some(&endpoint.config.name));
    signed(response, &call.id, None)
}

fn signed(mut response: Response, id: &str, digest: Option<&str>) -> Response {
    Upgrading::sign(&mut response, &Signature { id, digest, bypassed: None, cached: None });
    response
}

/// Waits until the client is gone before the socket has opened, and the handler has had time to see it. One
/// that has opened ends by its own clock.
async fn abandoned(progress: &Progress) {
    progress.gone().await;
    if progress.status() != 0 {
        return std::future::pending().await;
    }
    let _ = tokio::time::timeout(GRACE, progress.ended()).await;
}

/// Has the protocol spoken once the connection has gone over to it.
async fn connect(
    upgrade: OnUpgrade,
    wire: SocketWire,
    endpoint: Arc<Deployment>,
    served: Arc<Served>,
    access: Option<Arc<AccessEntry>>,
) {
    let counts = endpoint.metrics.sockets.opened();
    let Ok(upgraded) = upgrade.await else {
        return counts.closed(Close::ABNORMAL);
    };
    let limits = &endpoint.config.limits;
    let bounds = websocket::Bounds {
        limits: limits.sockets.clone(),
        memory: endpoint.memory,
        stalled: limits.plugin.stream_timeout,
        ping: PING,
    };
    let leaving = async {
        tokio::select! {
            () = served.drain.begun() => SHUTTING_DOWN,
            () = endpoint.removed() => websocket::REMOVED,
        }
    };
    let io = CountedIo::new(TokioIo::new(upgraded), access);
    websocket::serve(io, wire, bounds, counts, leaving).await;
}

/// The head of a handshake.
struct Upgrading(Box<Head>);

impl Transport for Upgrading {
    type Body = ();
    type Message = ();
    type Answer = Response;

    fn credentials(&self) -> Credentials<'_> {
        self.0.credentials()
    }

    fn origin(&self) -> Origin {
        Transport::origin(&self.0)
    }

    fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    fn take_access(&mut self) -> Option<Arc<AccessEntry>> {
        self.0.take_access()
    }

    fn operation(&self, endpoint: Option<&EndpointConfig>) -> Operation {
        operation(&self.0, endpoint)
    }

    async fn receive(&mut self, (): (), _: Bounds) -> Result<Option<()>, RequestError> {
        Ok(Some(()))
    }

    fn is_debug(&self) -> bool {
        self.0.is_debug()
    }

    fn into_head(self) -> Box<dyn request::Head> {
        self.0
    }

    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Response {
        <Box<Head> as Transport>::encode_error(error, call, endpoint)
    }

    /// Of a socket that has opened the answer is the handshake's, and the run knows it.
    fn status(answer: &Response) -> AnswerStatus {
        match answer.status() {
            StatusCode::OK => AnswerStatus::Streamed,
            status => AnswerStatus::Http(status.as_u16()),
        }
    }

    /// Messages are charged by themselves.
    fn hold(_: &mut Response, _: Charge) {}

    fn sign(answer: &mut Response, signature: &Signature<'_>) {
        <Box<Head> as Transport>::sign(answer, signature);
    }
}

/// The handler's end of a socket, until its run has it.
struct WebSocket(Option<Socket>);

impl Protocol for WebSocket {
    type Transport = Upgrading;

    const IS_SOCKET: bool = true;

    fn decode(&mut self, _: &Upgrading, (): (), _: Room) -> Result<Input, RequestError> {
        self.0.take().map(|socket| Input::Socket(Box::new(socket))).ok_or_else(lost)
    }

    /// The socket is over.
    fn encode(self, _: Output, _: &Generation) -> Result<Response, RequestError> {
        Ok(Response::default())
    }
}
