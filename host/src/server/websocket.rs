//! The WebSocket protocol (RFC 6455), on a connection that has gone over to it.
//!
//! Place in the flow: [`http/socket.rs`](super::http) has answered the handshake; a task of its own runs
//! [`serve`] until the connection ends. The only place that names the protocol's library.
//! In: bytes of the client; messages and the end of the handler, by a [`SocketWire`]. Out: the same the other
//! way round.
//! Invariants: no more is read of a client than its handler takes, nor faster than it may speak; no more is
//! taken of a handler than its client reads. Every frame is paid for, and of a client that sends without a
//! pause no more than a few hundred are looked at in one turn. A client that says nothing is asked whether it
//! is there. The connection lasts until its handler has ended, so that a drain waits for that.

mod heard;

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use self::heard::{Heard, Listened, Rate};
use crate::error::SHUTTING_DOWN;
use crate::memory::{Account, Charge, Exhausted};
use crate::request::socket::{Close, Command, Ending, Message, Received, SocketLimits, SocketWire};
use crate::telemetry::metrics::OpenSocket;

/// The reason of the close where a handler has failed, in words that clients know.
const FAILED: &str = "Internal Server Error (in model/chainlet).";
/// The reason of the close at the end of an endpoint.
pub(super) const REMOVED: &str = "the endpoint is no longer served";

/// The reason of the close where there is no memory for a message.
const FULL: &str = "the server has no memory for the message now";
/// Bytes that are read at a time, and held for as long as a socket is open.
const READ: usize = 4 << 10;
/// How long a client may take to answer a close, and to end the connection after that.
const FAREWELL: Duration = Duration::from_secs(5);
/// Fragments a second of a client whose socket nothing serves.
const LAST_RATE: u32 = 1000;
/// The point in time of what never comes: far, and no overflow of a clock.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The limits of one socket.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) limits: SocketLimits,
    /// The account that messages are charged to.
    pub(super) memory: Account,
    /// How long a client may take to read one message.
    pub(super) stalled: Duration,
    /// After how long a client that says nothing is asked whether it is there, and how long it has to say so.
    pub(super) ping: (Duration, Duration),
}

/// As clients' libraries do it by themselves.
pub(super) const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(20));

type Stream<S> = WebSocketStream<S>;

async fn stream<S: AsyncRead + AsyncWrite + Unpin>(io: S, longest: usize) -> Stream<S> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(READ)
        .max_message_size(Some(longest))
        .max_frame_size(Some(longest));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// Closes a socket that nothing serves.
pub(super) async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(io: S, close: Close) {
    let mut stream = stream(Listened::new(io, Heard::now(), LAST_RATE), 0).await;
    let say = async {
        stream.send(frame(close)).await?;
        // What the client says first is passed over.
        while let Some(said) = stream.next().await {
            said?;
            consume_budget().await;
        }
        Ok::<_, Error>(())
    };
    let _ = timeout(FAREWELL, say).await;
    linger(&mut stream).await;
}

/// Serves a socket to its end, or until `leaving`: then both sides are told why.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    io: S,
    wire: SocketWire,
    bounds: Bounds,
    counts: OpenSocket,
    leaving: impl Future<Output = &'static str>,
) {
    let told = Heard::now();
    let io = Listened::new(io, told.clone(), bounds.limits.rate);
    let (writer, reader) = stream(io, bounds.limits.message).await.split();
    let (now, rate) = (Instant::now(), Rate::new(bounds.limits.rate));
    let connection = Connection {
        writer,
        reader,
        wire,
        bounds,
        counts,
        inbound: None,
        outbound: None,
        writing: None,
        last: None,
        until: None,
        is_read_out: false,
        is_lost: false,
        has_ended: false,
        told,
        heard: now,
        spoken: now,
        asked: None,
        rate,
    };
    connection.run(leaving).await;
}

struct Connection<S> {
    writer: SplitSink<Stream<Listened<S>>, Frame>,
    reader: SplitStream<Stream<Listened<S>>>,
    wire: SocketWire,
    bounds: Bounds,
    counts: OpenSocket,
    /// A message that the handler has not taken. Nothing is read meanwhile.
    inbound: Option<Received>,
    /// The charge of the message that is being written.
    outbound: Option<Charge>,
    /// Since when the client has not taken what was sent last. Nothing else is sent meanwhile.
    writing: Option<Instant>,
    /// The close that is to be sent when all before it is.
    last: Option<Close>,
    /// The close has been said by one side: how long is waited for the other.
    until: Option<Instant>,
    /// Nothing more can be read.
    is_read_out: bool,
    /// The client is gone.
    is_lost: bool,
    /// The handler has.
    has_ended: bool,
    /// When bytes came last of the client.
    told: Heard,
    /// When nothing had to be heard of the client last.
    heard: Instant,
    /// When there was last a message, in either direction.
    spoken: Instant,
    /// When the client was last asked for a sign.
    asked: Option<Instant>,
    /// Of its messages, pings and pongs.
    rate: Rate,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn run(mut self, leaving: impl Future<Output = &'static str>) {
        let mut leaving = std::pin::pin!(leaving);
        let mut is_leaving = false;
        let mut alarm = Alarm::new();
        let progress = self.wire.progress().clone();
        let mut made_way = std::pin::pin!(progress.made_way());
        while !self.is_over() {
            self.say_last();
            let now = Instant::now();
            alarm.set(self.due(now));
            let (may_read, may_write) = (self.may_read(now), self.writing.is_none() && self.last.is_none());
            tokio::select! {
                () = alarm.rings() => self.look(Instant::now()),
                reason = &mut leaving, if !is_leaving => {
                    is_leaving = true;
                    self.close(Close::new(Close::GOING_AWAY, reason));
                }
                // Its client takes nothing, so it takes no farewell.
                () = &mut made_way => self.lose(),
                ended = &mut self.wire.ending, if !self.has_ended => {
                    self.has_ended = true;
                    self.close(match ended {
                        Ok(Ending::Returned) => Close::new(Close::NORMAL, ""),
                        Ok(Ending::Failed) => Close::new(Close::ERROR, FAILED),
                        Err(_) => Close::new(Close::GOING_AWAY, SHUTTING_DOWN),
                    });
                }
                flushed = self.writer.flush(), if self.writing.is_some() => self.flushed(flushed),
                Some(command) = self.wire.outgoing.recv(), if may_write && self.until.is_none() => {
                    self.take(command);
                }
                () = hand_over(&mut self.inbound, self.wire.incoming.as_ref()), if self.inbound.is_some() => {
                    // While nothing was read nothing could be heard.
                    self.heard = Instant::now();
                }
                said = self.reader.next(), if may_read => {
                    self.said(said);
                    // Frames that are there cost no wait.
                    consume_budget().await;
                }
            }
        }
        self.end().await;
    }

    /// When there was last a sign of the client.
    fn heard(&self) -> Instant {
        self.heard.max(self.told.last())
    }

    /// Whether the client has been asked for a sign, and gave none since.
    fn is_asked(&self) -> bool {
        self.asked.is_some_and(|asked| self.heard() <= asked)
    }

    fn is_over(&self) -> bool {
        self.is_lost || self.is_read_out && self.writing.is_none() && self.last.is_none()
    }

    fn may_read(&self, now: Instant) -> bool {
        !self.is_read_out && (self.until.is_some() || self.inbound.is_none() && self.rate.paid() <= now)
    }

    /// When something has to be done, also if nothing comes until then.
    fn due(&self, now: Instant) -> Instant {
        let stalled = self.writing.map(|since| since + self.bounds.stalled);
        let is_open = self.until.is_none() && self.last.is_none();
        let idle = is_open.then(|| self.spoken + self.bounds.limits.idle);
        let paid = Some(self.rate.paid()).filter(|paid| is_open && *paid > now);
        let (every, within) = self.bounds.ping;
        let asked = if self.is_asked() { every + within } else { every };
        // A client that takes nothing is not asked: what is being written says enough.
        let may_ask = self.is_asked() || self.writing.is_none();
        let ping = (is_open && self.may_read(now) && may_ask).then(|| self.heard() + asked);
        let all = [self.until, stalled, idle, paid, ping];
        all.into_iter().flatten().min().unwrap_or(now + NEVER)
    }

    /// Does what is due.
    fn look(&mut self, now: Instant) {
        let has_passed = |since: Instant, time: Duration| now.saturating_duration_since(since) >= time;
        let is_stalled = self.writing.is_some_and(|since| has_passed(since, self.bounds.stalled));
        if is_stalled || self.until.is_some_and(|until| now >= until) {
            return self.lose();
        }
        if self.until.is_some() || self.last.is_some() {
            return;
        }
        let idle = self.bounds.limits.idle;
        if has_passed(self.spoken, idle) {
            return self.close(Close::new(Close::GOING_AWAY, format!("nothing was said for {idle:?}")));
        }
        let (every, within) = self.bounds.ping;
        if !self.may_read(now) || !has_passed(self.heard(), every) {
            return;
        }
        if self.is_asked() && has_passed(self.heard(), every + within) {
            return self.lose();
        }
        if !self.is_asked() && self.writing.is_none() {
            self.asked = Some(now);
            self.write(Frame::Ping(Default::default()));
        }
    }

    /// Takes what the client has said.
    fn said(&mut self, said: Option<Result<Frame, Error>>) {
        let now = Instant::now();
        self.heard = now;
        let message = match said {
            Some(Ok(Frame::Text(text))) => Message::Text(text.as_str().to_owned()),
            Some(Ok(Frame::Binary(bytes))) => Message::Binary(bytes.into()),
            Some(Ok(Frame::Close(close))) => {
                let close = close.map(|close| Close::new(close.code.into(), close.reason.as_str()));
                self.wire.close(close.unwrap_or_else(|| Close::new(Close::NO_STATUS, "")), false);
                (self.inbound, self.last) = (None, None);
                self.until.get_or_insert(now + FAREWELL);
                return;
            }
            Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => return self.rate.pay(1, now),
            Some(Err(error)) => {
                self.is_read_out = true;
                return self.fault(&error);
            }
            None => {
                self.is_read_out = true;
                return;
            }
        };
        self.rate.pay(1, now);
        if self.until.is_none() && self.last.is_none() {
            self.spoken = now;
            self.counts.received.inc();
            match self.bounds.memory.take(message.length()) {
                Ok(charge) => self.inbound = Some((message, charge)),
                Err(Exhausted) => self.close(Close::new(Close::TRY_AGAIN_LATER, FULL)),
            }
        }
    }

    /// Tells a client why it is not listened to any more.
    fn fault(&mut self, error: &Error) {
        let longest = self.bounds.limits.message;
        let close = match error {
            Error::Capacity(_) => {
                Close::new(Close::TOO_BIG, format!("a message is longer than {longest} bytes"))
            }
            Error::Utf8(_) => Close::new(Close::INVALID, "a text is not UTF-8"),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) | Error::Io(_) => {
                return self.lose();
            }
            Error::Protocol(fault) => {
                Close::new(Close::PROTOCOL, fault.to_string().chars().take(100).collect::<String>())
            }
            _ => Close::new(Close::PROTOCOL, ""),
        };
        self.close(close);
    }

    /// Does what the handler wants.
    fn take(&mut self, command: Command) {
        match command {
            Command::Close(close) => self.close(close),
            Command::Send(message) => {
                self.spoken = Instant::now();
                match self.bounds.memory.take(message.length()) {
                    Ok(charge) => self.outbound = Some(charge),
                    Err(Exhausted) => return self.close(Close::new(Close::TRY_AGAIN_LATER, FULL)),
                }
                self.counts.sent.inc();
                self.wire.progress().handed_over(message.length());
                self.write(match message {
                    Message::Text(text) => Frame::Text(text.into()),
                    Message::Binary(bytes) => Frame::Binary(bytes.into()),
                });
            }
        }
    }

    /// Closes the socket after what the handler has sent. The first close counts.
    fn close(&mut self, close: Close) {
        if self.until.is_none() && self.last.is_none() {
            self.wire.close(close.clone(), false);
            self.inbound = None;
            self.last = Some(close);
        }
    }

    /// Sends what the handler has sent before the close, then that.
    fn say_last(&mut self) {
        if self.writing.is_some() || self.last.is_none() {
            return;
        }
        match self.wire.outgoing.try_recv() {
            Ok(Command::Send(message)) => self.take(Command::Send(message)),
            Ok(Command::Close(_)) => {}
            Err(_) => {
                if let Some(close) = self.last.take() {
                    self.write(frame(close));
                    self.until = Some(Instant::now() + FAREWELL);
                }
            }
        }
    }

    fn write(&mut self, frame: Frame) {
        self.writing = Some(Instant::now());
        if self.writer.start_send_unpin(frame).is_err() {
            self.lose();
        }
    }

    fn flushed(&mut self, flushed: Result<(), Error>) {
        (self.writing, self.outbound) = (None, None);
        self.wire.progress().asked();
        match flushed {
            // A client that has said its close takes nothing more.
            Ok(()) | Err(Error::Protocol(_) | Error::AlreadyClosed | Error::ConnectionClosed) => {}
            Err(_) => self.lose(),
        }
    }

    /// The client is gone, or has to go.
    fn lose(&mut self) {
        self.wire.close(Close::new(Close::ABNORMAL, ""), true);
        self.is_lost = true;
    }

    async fn end(self) {
        let Connection { writer, reader, mut wire, is_lost, has_ended, counts, .. } = self;
        let stream = writer.reunite(reader).ok();
        if let Some(mut stream) = stream.filter(|_| !is_lost) {
            linger(&mut stream).await;
            counts.closed(wire.code().unwrap_or(Close::ABNORMAL));
            wait_for_end(&mut wire, has_ended).await;
            // Its connection counts as open until here.
            drop(stream);
        } else {
            counts.closed(wire.code().unwrap_or(Close::ABNORMAL));
            wait_for_end(&mut wire, has_ended).await;
        }
    }
}

async fn wait_for_end(wire: &mut SocketWire, has_ended: bool) {
    if !has_ended {
        let _ = (&mut wire.ending).await;
    }
}

/// Hands a message over to the handler when it takes one. Dropped before, the message stays.
async fn hand_over(message: &mut Option<Received>, incoming: Option<&mpsc::Sender<Received>>) {
    if let Some(incoming) = incoming
        && let Ok(place) = incoming.reserve().await
        && let Some(message) = message.take()
    {
        place.send(message);
    }
    // There is a handler no more.
    *message = None;
}

fn frame(close: Close) -> Frame {
    Frame::Close(Some(CloseFrame { code: close.code.into(), reason: close.reason.into() }))
}

/// Ends the connection: this side, then the client its own, so that it has read the close. What it still
/// sends is passed over; a socket that is closed with bytes unread would be reset.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut Stream<S>) {
    let io = stream.get_mut();
    let mut unread = vec![0; READ];
    let end = async {
        io.shutdown().await?;
        while io.read(&mut unread).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let _ = timeout(FAREWELL, end).await;
}

/// A timer that is set back only when it has to ring sooner.
struct Alarm {
    timer: Pin<Box<Sleep>>,
    has_rung: bool,
}

impl Alarm {
    fn new() -> Alarm {
        Alarm { timer: Box::pin(sleep_until(Instant::now() + NEVER)), has_rung: false }
    }

    fn set(&mut self, due: Instant) {
        if std::mem::take(&mut self.has_rung) || due < self.timer.deadline() {
            self.timer.as_mut().reset(due);
        }
    }

    async fn rings(&mut self) {
        self.timer.as_mut().await;
        self.has_rung = true;
    }
}

#[cfg(test)]
mod tests;
