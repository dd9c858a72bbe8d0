//! A WebSocket, free of its protocol: messages between a handler and the connection of its client.
//!
//! Place in the flow: `server` makes both ends for a client's handshake; the run of the handler has the
//! [`Socket`], the connection the [`SocketClient`].
//! In: messages and the client's close. Out: messages, and the close that the handler, its end or the
//! connection says.
//! Invariants: of messages that wait there is one in each direction, so either side waits for the other; the
//! first close counts; each side sees that the other one is gone.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::Response;
use super::exchange::Progress;
use crate::memory::Charge;

/// The status of a handshake that is accepted.
const SWITCHING_PROTOCOLS: u16 = 101;
/// Longest reason of a close, in bytes (RFC 6455, section 5.5).
pub const LONGEST_REASON: usize = 123;

/// The limits of an endpoint's WebSockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketLimits {
    /// Most that are open at a time.
    pub open: usize,
    /// Longest message, in bytes.
    pub message: usize,
    /// Messages a second that are read of a client.
    pub rate: u32,
    /// How long there may be no message.
    pub idle: Duration,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl Message {
    /// In bytes.
    pub fn length(&self) -> usize {
        match self {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
        }
    }
}

/// A message of the client, with what it is charged until the handler takes it.
pub type Received = (Message, Charge);

/// The end of a socket, as either side says it (RFC 6455, section 7.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// 1000 to 4999.
    pub code: u16,
    /// At most [`LONGEST_REASON`] bytes.
    pub reason: String,
}

impl Close {
    /// The handler has returned.
    pub const NORMAL: u16 = 1000;
    /// The server is going away, or nothing is said.
    pub const GOING_AWAY: u16 = 1001;
    /// The client does not keep to the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// There is no handler of WebSockets.
    pub const UNSUPPORTED: u16 = 1003;
    /// A close without a code; never sent.
    pub const NO_STATUS: u16 = 1005;
    /// The client went without a close; never sent.
    pub const ABNORMAL: u16 = 1006;
    /// A text is not UTF-8.
    pub const INVALID: u16 = 1007;
    /// A message is longer than it may be.
    pub const TOO_BIG: u16 = 1009;
    /// There is no memory for a message.
    pub const TRY_AGAIN_LATER: u16 = 1013;
    /// The handler has failed.
    pub const ERROR: u16 = 1011;

    /// With this reason.
    pub fn new(code: u16, reason: impl Into<String>) -> Close {
        Close { code, reason: reason.into() }
    }

    /// Why a handler may not say this; `None` if it may.
    pub fn fault(&self) -> Option<String> {
        let Close { code, reason } = self;
        if !matches!(code, 1000..=1003 | 1007..=1011 | 3000..=4999) {
            return Some(format!(
                "code {code} is not one that is sent: 1000 to 1003, 1007 to 1011, 3000 to 4999"
            ));
        }
        let length = reason.len();
        (length > LONGEST_REASON)
            .then(|| format!("the reason has {length} bytes, of at most {LONGEST_REASON}"))
    }
}

/// The answer to a handshake.
pub enum Opening {
    /// The socket opens, with one of the client's subprotocols or none.
    Accepted(Option<String>),
    /// There is none, and this is said instead.
    Refused(Response),
}

/// An order of the handler to the connection.
#[derive(Debug)]
pub enum Command {
    /// Send a message.
    Send(Message),
    /// Close the socket.
    Close(Close),
}

/// The outcome of the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has returned.
    Returned,
    /// It has failed, in any way.
    Failed,
}

/// Why there is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMessage {
    /// The socket is closed.
    Closed(Close),
    /// None has come in time.
    TimedOut,
}

/// The state of a socket, as both ends know it.
struct SocketState {
    progress: Arc<Progress>,
    closed: OnceLock<Close>,
    opened: OnceLock<Instant>,
}

impl SocketState {
    fn close(&self) -> Close {
        self.closed.get().cloned().unwrap_or_else(|| Close::new(Close::ABNORMAL, ""))
    }
}

/// Takes the answer to a handshake, and who gives it: SHA-256 of the handler, in hex.
type Opener = oneshot::Sender<(Opening, Arc<str>)>;

/// The handler's end of a socket, which is not open at first.
pub struct Socket {
    /// The subprotocols that the client offers, in its order.
    pub protocols: Vec<String>,
    /// Longest message that the handler may send, in bytes.
    pub longest: usize,
    opener: Mutex<Option<Opener>>,
    incoming: tokio::sync::Mutex<Incoming>,
    outgoing: mpsc::Sender<Command>,
    ender: Mutex<Option<oneshot::Sender<Ending>>>,
    state: Arc<SocketState>,
}

struct Incoming {
    messages: mpsc::Receiver<Received>,
    /// One that was waited for and not taken yet.
    next: Option<Received>,
}

/// The connection's end of a socket.
pub struct SocketClient {
    opening: oneshot::Receiver<(Opening, Arc<str>)>,
    wire: SocketWire,
}

/// The connection's end of a socket that is open.
pub struct SocketWire {
    /// To the handler; `None` once the socket is closed.
    pub incoming: Option<mpsc::Sender<Received>>,
    /// Of the handler.
    pub outgoing: mpsc::Receiver<Command>,
    /// The handler's end. Without a value, it was cut off.
    pub ending: oneshot::Receiver<Ending>,
    state: Arc<SocketState>,
}

impl Socket {
    /// Both ends of a socket whose client offers these subprotocols.
    pub fn new(protocols: Vec<String>, longest: usize) -> (Socket, SocketClient) {
        let (opener, opening) = oneshot::channel();
        let (sender, messages) = mpsc::channel(1);
        let (outgoing, commands) = mpsc::channel(1);
        let (ender, ending) = oneshot::channel();
        let progress = Arc::new(Progress::new());
        let state = Arc::new(SocketState { progress, closed: OnceLock::new(), opened: OnceLock::new() });
        let wire = SocketWire { incoming: Some(sender), outgoing: commands, ending, state: state.clone() };
        let socket = Socket {
            protocols,
            longest,
            opener: Mutex::new(Some(opener)),
            incoming: tokio::sync::Mutex::new(Incoming { messages, next: None }),
            outgoing,
            ender: Mutex::new(Some(ender)),
            state,
        };
        (socket, SocketClient { opening, wire })
    }

    /// How far it has come: it is answered when it opens or is refused, and delivered when it is closed.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.state.progress
    }

    /// When it opened.
    pub fn opened(&self) -> Option<Instant> {
        self.state.opened.get().copied()
    }

    /// Answers the handshake. The first answer counts.
    pub fn open(&self, opening: Opening, digest: Arc<str>) {
        let Some(opener) = self.opener.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let (status, is_refused) = match &opening {
            Opening::Accepted(_) => (SWITCHING_PROTOCOLS, false),
            Opening::Refused(response) => (response.status, true),
        };
        let _ = self.state.opened.set(Instant::now());
        self.state.progress.answer(status);
        let is_gone = opener.send((opening, digest)).is_err();
        if is_gone || is_refused {
            let _ = self.state.closed.set(Close::new(Close::ABNORMAL, ""));
            self.state.progress.leave(is_gone);
        }
    }

    /// The next message. Waits for it, `patience` at most.
    ///
    /// # Errors
    /// [`NoMessage`].
    pub async fn receive(&self, patience: Option<Duration>) -> Result<Message, NoMessage> {
        let mut incoming = self.incoming.lock().await;
        let ready = incoming.ready();
        match patience {
            None => ready.await,
            Some(patience) => {
                tokio::time::timeout(patience, ready).await.map_err(|_| NoMessage::TimedOut)?;
            }
        }
        let next = incoming.next.take().map(|(message, _)| message);
        next.ok_or_else(|| NoMessage::Closed(self.state.close()))
    }

    /// Waits until [`Socket::receive`] would not wait.
    pub async fn ready(&self) {
        self.incoming.lock().await.ready().await;
    }

    /// Sends a message. Waits while the client does not read.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn send(&self, message: Message) -> Result<(), Close> {
        if self.state.closed.get().is_some() {
            return Err(self.state.close());
        }
        self.outgoing.send(Command::Send(message)).await.map_err(|_| self.state.close())
    }

    /// Closes the socket after all that was sent. The first close counts.
    ///
    /// # Errors
    /// It is closed already.
    pub async fn close(&self, close: Close) -> Result<(), Close> {
        if self.state.closed.get().is_some() {
            return Err(self.state.close());
        }
        let sent = self.outgoing.send(Command::Close(close)).await;
        sent.map_err(|_| self.state.close())?;
        // What the client has sent meanwhile is not received any more.
        let mut incoming = self.incoming.lock().await;
        while incoming.messages.recv().await.is_some() {}
        incoming.next = None;
        Ok(())
    }

    /// The handler has ended: what is still open is closed.
    pub fn end(&self, ending: Ending) {
        if let Some(ender) = self.ender.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = ender.send(ending);
        }
    }
}

impl Incoming {
    /// Waits until there is a message, or will be none. Dropped before, it has taken none.
    async fn ready(&mut self) {
        if self.next.is_none() {
            self.next = self.messages.recv().await;
        }
    }
}

impl SocketClient {
    /// How far the socket has come.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.wire.state.progress
    }

    /// The answer to the handshake and who gave it, SHA-256 of the handler in hex; then the socket. `None` if
    /// there will be none.
    pub async fn opened(self) -> Option<(Opening, Arc<str>, SocketWire)> {
        struct Waiting<'a>(&'a Progress, bool);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.leave(true);
                }
            }
        }
        let SocketClient { opening, wire } = self;
        let progress = wire.state.progress.clone();
        let mut waiting = Waiting(&progress, true);
        let opened = opening.await.ok();
        waiting.1 = false;
        let (opening, digest) = opened?;
        Some((opening, digest, wire))
    }
}

impl SocketWire {
    /// The socket is closed: what the handler sends from now on is for nothing. The first close counts.
    /// `is_gone`: the client does not know.
    pub fn close(&mut self, close: Close, is_gone: bool) {
        let _ = self.state.closed.set(close);
        self.state.progress.leave(is_gone);
        self.incoming = None;
        self.outgoing.close();
    }

    /// How far the socket has come.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.state.progress
    }

    /// The code by which it was closed; `None` while it is open.
    pub fn code(&self) -> Option<u16> {
        self.state.closed.get().map(|close| close.code)
    }
}

impl Drop for SocketWire {
    fn drop(&mut self) {
        // A connection that was dropped has not said a word.
        self.close(Close::new(Close::ABNORMAL, ""), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Account;

    fn open() -> (Socket, SocketClient) {
        let (socket, client) = Socket::new(Vec::new(), 100);
        socket.open(Opening::Accepted(None), "".into());
        (socket, client)
    }

    fn text(text: &str) -> Message {
        Message::Text(text.to_owned())
    }

    fn received(said: &str) -> Received {
        (text(said), Account::default().open())
    }

    #[tokio::test]
    async fn what_was_sent_before_a_close_is_received() {
        let (socket, client) = open();
        let (_, _, mut wire) = client.opened().await.unwrap();
        wire.incoming.as_ref().unwrap().send(received("last")).await.unwrap();
        wire.close(Close::new(4000, "bye"), false);
        wire.close(Close::new(1006, ""), true);
        socket.ready().await;
        assert_eq!(socket.receive(None).await, Ok(text("last")));
        let closed = Close::new(4000, "bye");
        assert_eq!(socket.receive(None).await, Err(NoMessage::Closed(closed.clone())));
        assert_eq!(socket.send(text("late")).await, Err(closed.clone()));
        assert_eq!(socket.close(Close::new(1000, "")).await, Err(closed));
    }

    #[tokio::test]
    async fn a_wait_that_ends_before_a_message_loses_none() {
        let (socket, client) = open();
        let (_, _, wire) = client.opened().await.unwrap();
        assert_eq!(socket.receive(Some(Duration::ZERO)).await, Err(NoMessage::TimedOut));
        wire.incoming.as_ref().unwrap().send(received("one")).await.unwrap();
        socket.ready().await;
        assert_eq!(socket.receive(Some(Duration::ZERO)).await, Ok(text("one")));
        drop(wire);
        let gone = Close::new(Close::ABNORMAL, "");
        assert_eq!(socket.receive(None).await, Err(NoMessage::Closed(gone)));
        assert!(socket.progress().is_gone());
    }

    #[tokio::test]
    async fn a_client_that_goes_before_the_answer_is_seen_gone() {
        let (socket, client) = Socket::new(Vec::new(), 100);
        drop(Box::pin(client.opened()));
        assert!(socket.progress().is_gone());
        assert_eq!(socket.receive(None).await, Err(NoMessage::Closed(Close::new(Close::ABNORMAL, ""))));
    }

    #[test]
    fn codes_and_reasons_that_may_be_sent() {
        for (code, length, may) in
            [(1000, 0, true), (1004, 0, false), (1006, 0, false), (1011, 123, true), (1011, 124, false)]
        {
            assert_eq!(Close::new(code, "x".repeat(length)).fault().is_none(), may, "{code} {length}");
        }
        for (code, may) in
            [(999, false), (1015, false), (2999, false), (3000, true), (4999, true), (5000, false)]
        {
            assert_eq!(Close::new(code, "").fault().is_none(), may, "{code}");
        }
    }
}
