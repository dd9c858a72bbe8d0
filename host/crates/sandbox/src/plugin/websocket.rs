//! `websocket` and `websockets`: a handler that serves a WebSocket.
//!
//! Place in the flow: `pipeline` calls [`Lease::websocket`](super::Lease::websocket) for a handshake.
//! In: a [`Socket`], and its messages as they come. Out: the answer to the handshake, messages, a close; what
//! the call itself ended in.
//! Invariants: waiting for a message, or for a client to read, holds no thread and counts as no computing;
//! each message has CPU time of its own; a handle is good for its own socket only, although the instance
//! serves others after.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::bindings::modelhost::handler::{types, websockets};
use super::context::Context;
use super::convert;
use super::exchange::{Clocks, Over, STAGE, UNANSWERED, broken_contract};
use super::instance::Instance;
use super::state::State;
use super::websocket_state::Upgrade;
use crate::blocking;
use crate::error::{Code, RequestError};
use crate::request::Request;
use crate::request::exchange::Phase;
use crate::request::socket::{Close, Message, NoMessage, Opening, Socket};
use crate::text;

/// A socket, as the guest holds it. The store's state has what belongs to it.
pub struct OpenSocket;

impl Instance {
    /// Calls `websocket`; `None` if the handler has none.
    pub(super) async fn websocket(
        &mut self,
        request: &Request,
        socket: &Socket,
        digest: Arc<str>,
    ) -> Option<Result<(), RequestError>> {
        let guest = self.exports.websocket.as_ref()?;
        let upgrade = self.store.data_mut().conversation.begin(digest);
        let clocks = Clocks::of_socket(&mut self.store, request, socket.progress());
        let ended = clocks.run(pin!(guest.call_websocket(&mut self.store, upgrade, Context::handle()))).await;
        let ended = self.disarm(STAGE).and_then(|()| match ended {
            Ok(Ok(Ok(()))) if socket.progress().phase() == Phase::Head => Err(broken_contract(UNANSWERED)),
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(said))) => {
                let failure = RequestError::new(Code::PluginError, STAGE, "the handler failed");
                Err(failure.with_detail(text::cut(said)))
            }
            Ok(Err(error)) => Err(self.fault(error, STAGE)),
            Err(Over::After) => {
                let most = self.store.data().loaded.config.limits.background_timeout;
                let message = format!(
                    "the handler went on for longer than {most:?} after its socket was closed, \
                     `limits.background_timeout`"
                );
                Err(RequestError::new(Code::PluginTimeout, STAGE, message))
            }
            Err(over) => Err(over.error(&self.store.data().loaded.config.limits)),
        });
        self.store.data_mut().response = None;
        Some(ended)
    }
}

impl State {
    /// The request whose socket a handle of this number is of.
    ///
    /// # Errors
    /// The handle is that of an earlier socket.
    fn conversing(&self, number: u32) -> Result<Arc<Request>> {
        let request = self.request.as_ref().filter(|request| request.socket().is_some());
        match request {
            Some(request) if number == self.conversation.number && self.conversation.is_held => {
                Ok(request.clone())
            }
            _ => Err(wasmtime::Error::msg("the handle is that of an earlier socket")),
        }
    }
}

/// The socket of a request that has one.
fn socket(request: &Request) -> Result<&Socket> {
    request.socket().ok_or_else(|| wasmtime::Error::msg("the request has no socket"))
}

impl From<Close> for websockets::Error {
    fn from(close: Close) -> websockets::Error {
        let Close { code, reason } = close;
        websockets::Error::Closed(websockets::CloseFrame { code, reason })
    }
}

impl websockets::Host for State {}

impl websockets::HostUpgrade for State {
    fn protocols(&mut self, upgrade: Resource<Upgrade>) -> Result<Vec<String>> {
        Ok(socket(&*self.conversing(upgrade.rep())?)?.protocols.clone())
    }

    fn accept(
        &mut self,
        this: Resource<Upgrade>,
        protocol: Option<String>,
    ) -> Result<Result<Resource<OpenSocket>, String>> {
        let request = self.conversing(this.rep())?;
        let socket = socket(&request)?;
        if let Some(protocol) = protocol.as_ref().filter(|protocol| !socket.protocols.contains(protocol)) {
            self.conversation.is_held = false;
            return Ok(Err(format!("the client offers no subprotocol `{}`", text::shown(protocol))));
        }
        let digest = self.conversation.digest.clone().unwrap_or_default();
        socket.open(Opening::Accepted(protocol), digest);
        Ok(Ok(Resource::new_own(this.rep())))
    }

    fn refuse(&mut self, this: Resource<Upgrade>, response: types::Response) -> Result<Result<(), String>> {
        let request = self.conversing(this.rep())?;
        self.conversation.is_held = false;
        let checked = convert::response_from_guest(response, &self.loaded.config.response_headers);
        let digest = self.conversation.digest.clone().unwrap_or_default();
        let socket = socket(&request)?;
        Ok(checked.map(|response| socket.open(Opening::Refused(response), digest)))
    }

    fn drop(&mut self, upgrade: Resource<Upgrade>) -> Result<()> {
        self.let_go(upgrade.rep());
        Ok(())
    }
}

impl State {
    /// The guest has dropped a handle. One that was kept from an earlier socket has nothing behind it.
    fn let_go(&mut self, number: u32) {
        if number == self.conversation.number {
            self.conversation.is_held = false;
        }
    }
}

impl websockets::HostSocket for State {
    async fn receive(
        &mut self,
        this: Resource<OpenSocket>,
        timeout_ms: Option<u32>,
    ) -> Result<Result<websockets::Message, websockets::Error>> {
        let request = self.conversing(this.rep())?;
        let socket = socket(&request)?;
        // A client that is faster than the handler would keep it from ever waiting.
        wait_once().await;
        let patience = timeout_ms.map(|timeout| Duration::from_millis(timeout.into()));
        Ok(match socket.receive(patience).await {
            Ok(message) => {
                blocking::leave_worker_if_large(message.length());
                Ok(match message {
                    Message::Text(text) => websockets::Message::Text(text),
                    Message::Binary(bytes) => websockets::Message::Binary(bytes),
                })
            }
            Err(NoMessage::TimedOut) => Err(websockets::Error::TimedOut),
            Err(NoMessage::Closed(close)) => Err(close.into()),
        })
    }

    async fn send(
        &mut self,
        this: Resource<OpenSocket>,
        message: websockets::Message,
    ) -> Result<Result<(), websockets::Error>> {
        let request = self.conversing(this.rep())?;
        let socket = socket(&request)?;
        let message = match message {
            websockets::Message::Text(text) => Message::Text(text),
            websockets::Message::Binary(bytes) => Message::Binary(bytes),
        };
        let (length, longest) = (message.length(), socket.longest);
        if length > longest {
            let why =
                format!("the message has {length} bytes, of at most {longest}: `limits.socket_message`");
            return Ok(Err(websockets::Error::Invalid(why)));
        }
        Ok(socket.send(message).await.map_err(websockets::Error::from))
    }

    fn subscribe(&mut self, this: Resource<OpenSocket>) -> Result<Resource<DynPollable>> {
        let request = self.conversing(this.rep())?;
        let readable = self.table().push(Readable(request))?;
        subscribe(self.table(), readable)
    }

    async fn close(
        &mut self,
        this: Resource<OpenSocket>,
        code: u16,
        reason: String,
    ) -> Result<Result<(), websockets::Error>> {
        let request = self.conversing(this.rep())?;
        let close = Close { code, reason };
        if let Some(fault) = close.fault() {
            return Ok(Err(websockets::Error::Invalid(fault)));
        }
        Ok(socket(&request)?.close(close).await.map_err(websockets::Error::from))
    }

    fn drop(&mut self, this: Resource<OpenSocket>) -> Result<()> {
        self.let_go(this.rep());
        Ok(())
    }
}

/// Waits for as long as it takes to be polled again: others get their turn, and the guest's CPU time begins
/// anew.
async fn wait_once() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A message's coming, as the guest waits for it.
struct Readable(Arc<Request>);

#[wasmtime_wasi::async_trait]
impl Pollable for Readable {
    async fn ready(&mut self) {
        if let Some(socket) = self.0.socket() {
            socket.ready().await;
        }
    }
}
