//! WebSockets: a handler that talks with a client for as long as both like.
//!
//! A handler exports `websocket`, beside `respond` or alone. It is called once for each client, with an
//! [`Upgrade`]; [`Upgrade::accept`] opens the socket, and when the function returns it is closed. The host
//! answers pings, and waiting for a message costs nothing.
//!
//! ```
//! use modelhost_guest::socket::{Message, Upgrade};
//! use modelhost_guest::{Handler, Result, export, internal};
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     fn new() -> Self {
//!         Echo
//!     }
//!
//!     fn websocket(&mut self, upgrade: Upgrade<'_>) -> Result<()> {
//!         let mut socket = upgrade.accept()?;
//!         while let Some(message) = socket.receive() {
//!             match message {
//!                 Message::Text(text) if text == "bye" => break,
//!                 Message::Text(text) => socket.send(format!("echo {text}"))?,
//!                 Message::Binary(_) => return Err(internal("only texts")),
//!             };
//!         }
//!         Ok(())
//!     }
//! }
//!
//! export!(Echo: websocket);
//! # #[cfg(not(target_family = "wasm"))] {
//!
//! // In a unit test, without a host:
//! use modelhost_guest::Context;
//! use modelhost_guest::socket::converse;
//!
//! let said = converse(&mut Echo, Context::builder().path("/"), ["a", "b", "bye", "c"]);
//! assert_eq!(said.texts(), ["echo a", "echo b"]);
//! assert_eq!(said.outcome, Ok(()));
//! # }
//! ```

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod wasm;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::error::{internal, refusal};
use crate::{Context, Error, Handler, Response, Result};

#[cfg(not(target_family = "wasm"))]
use native::{Handshake, Source};
#[cfg(target_family = "wasm")]
use wasm::{Handshake, Source};

#[cfg(not(target_family = "wasm"))]
pub use native::{Conversation, converse};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message::Text(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Message {
        Message::Binary(bytes)
    }
}

/// How a socket was closed (RFC 6455, section 7.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// 1005: without a code; 1006: the client went without a close.
    pub code: u16,
    /// May be empty.
    pub reason: String,
}

/// Why there is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMessage {
    /// The socket is closed; [`Socket::closed`] says how.
    Closed,
    /// None came in that time.
    TimedOut,
}

/// A client's handshake. Without an answer when the handler returns, it is answered with an error: the
/// handler's, as a request is, if it returns [`Error::InvalidInput`] or [`Error::Respond`].
#[derive(Debug)]
pub struct Upgrade<'a> {
    /// The request of the handshake: path, query, headers.
    pub context: &'a Context,
    pending: Pending,
}

/// A handshake, as long as it has no answer.
type Pending = Rc<RefCell<Option<Handshake>>>;

/// Has a handler serve a client.
pub(crate) fn serve<H: Handler>(handler: &mut H, context: &Context, handshake: Handshake) -> Result<()> {
    let pending = Rc::new(RefCell::new(Some(handshake)));
    let outcome = handler.websocket(Upgrade { context, pending: pending.clone() });
    let (Some(handshake), Err(error)) = (pending.take(), &outcome) else { return outcome };
    let response = match error {
        Error::InvalidInput(text) => refusal(context, 400, "invalid_input", text)?,
        Error::UnsupportedMediaType(text) => refusal(context, 415, "unsupported_media_type", text)?,
        Error::Respond(response) => response.clone(),
        Error::Internal(_) => return outcome,
    };
    handshake.refuse(response).map_err(internal)
}

impl Upgrade<'_> {
    /// The subprotocols that the client offers, in its order of preference.
    pub fn protocols(&self) -> Vec<String> {
        self.pending.borrow().as_ref().map(Handshake::protocols).unwrap_or_default()
    }

    /// Opens the socket.
    ///
    /// # Errors
    /// [`Error::Internal`]: it cannot be opened.
    pub fn accept(self) -> Result<Socket> {
        self.accepted(None)
    }

    /// The same with one of the client's [subprotocols](Upgrade::protocols).
    ///
    /// # Errors
    /// [`Error::Internal`] if the client does not offer it.
    pub fn accept_protocol(self, protocol: &str) -> Result<Socket> {
        self.accepted(Some(protocol.to_owned()))
    }

    fn accepted(self, protocol: Option<String>) -> Result<Socket> {
        let source = self.taken()?.accept(protocol).map_err(internal)?;
        Ok(Socket { source, closed: None })
    }

    /// Answers with a response of HTTP, and opens nothing.
    ///
    /// # Errors
    /// [`Error::Internal`]: something of the response cannot be sent.
    pub fn refuse(self, response: impl Into<Response>) -> Result<()> {
        self.taken()?.refuse(response.into()).map_err(internal)
    }

    /// To be answered, which happens once.
    fn taken(self) -> Result<Handshake> {
        self.pending.take().ok_or_else(|| internal("the handshake has an answer already"))
    }
}

/// A socket. Dropped, or when the handler returns, it is closed with 1000.
#[derive(Debug)]
pub struct Socket {
    source: Source,
    closed: Option<Close>,
}

/// The host's word in place of a message, or of having sent one.
#[derive(Debug)]
enum Refusal {
    Closed(Close),
    #[cfg_attr(not(target_family = "wasm"), expect(dead_code, reason = "a client of a unit test is in time"))]
    TimedOut,
    Invalid(String),
}

impl Socket {
    /// Waits for the next message. `None`: the socket is [closed](Socket::closed).
    pub fn receive(&mut self) -> Option<Message> {
        self.received(None).ok()
    }

    /// The same, for this long at most.
    ///
    /// # Errors
    /// [`NoMessage`].
    pub fn receive_within(&mut self, patience: Duration) -> std::result::Result<Message, NoMessage> {
        self.received(Some(u32::try_from(patience.as_millis()).unwrap_or(u32::MAX)))
    }

    fn received(&mut self, patience: Option<u32>) -> std::result::Result<Message, NoMessage> {
        self.source.receive(patience).map_err(|refusal| match refusal {
            Refusal::TimedOut => NoMessage::TimedOut,
            Refusal::Closed(close) => {
                self.closed.get_or_insert(close);
                NoMessage::Closed
            }
            Refusal::Invalid(_) => NoMessage::Closed,
        })
    }

    /// Sends a message; waits while the client does not read. False: the socket is closed.
    ///
    /// # Errors
    /// [`Error::Internal`]: the message is longer than `limits.socket_message`.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<bool> {
        match self.source.send(message.into()) {
            Ok(()) => Ok(true),
            Err(Refusal::Invalid(why)) => Err(internal(why)),
            Err(Refusal::Closed(close)) => {
                self.closed.get_or_insert(close);
                Ok(false)
            }
            Err(Refusal::TimedOut) => Ok(false),
        }
    }

    /// Closes the socket after what was sent, with 1000 to 1003, 1007 to 1011, or 3000 to 4999. The first
    /// close counts.
    ///
    /// # Errors
    /// [`Error::Internal`]: another code, or a reason of more than 123 bytes.
    pub fn close(&mut self, code: u16, reason: &str) -> Result<()> {
        match self.source.close(code, reason) {
            Err(Refusal::Invalid(why)) => Err(internal(why)),
            Err(Refusal::Closed(close)) => {
                self.closed.get_or_insert(close);
                Ok(())
            }
            Ok(()) | Err(Refusal::TimedOut) => {
                self.closed.get_or_insert(Close { code, reason: reason.to_owned() });
                Ok(())
            }
        }
    }

    /// How it was closed, once a call has found that out.
    pub fn closed(&self) -> Option<&Close> {
        self.closed.as_ref()
    }
}
