//! A connection's bytes, with TLS or without, and what they tell of its client.
//!
//! Place in the flow: under hyper, which reads and writes here.
//! A client that will send nothing more has gone, or waits for its answer: TCP says the same of both.
//! HTTP/1.1 lets a server send `100 Continue` at any time before the answer, and a client that has gone
//! returns it, so that its request need not be served (see [`Socket::ended`]). Clients of TLS, HTTP/2 and
//! HTTP/1.0 do not expect that: there it means gone.
//! Invariants: it lives as long as the connection, also if that goes over to another protocol; a plain
//! connection pays for TLS with one
//! predictable branch a call.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use super::client::Client;
use super::frames::{FrameWalk, Inbound};

/// Shorter writes are no sign of life: pings and window updates, which a connection without requests may
/// carry for ever. The head alone of a response is longer.
const SHORTEST_SIGN: usize = 64;
/// The first bytes of an HTTP/2 client (RFC 9113, section 3.4), with which no request of HTTP/1 begins.
const PREFACE: &[u8] = b"PRI";

/// The response that a client that has gone answers with a reset, and one that waits passes over (RFC 9110,
/// section 15.2).
const ARE_YOU_THERE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Before asking whether a client is there, and before looking for the answer, at first and at most; doubled
/// each time. Most have their answer before they are asked.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// After a pause of this length what has come of a body has been read, too: the rest will not come.
const LONGEST_IN_BODY: Duration = Duration::from_millis(160);

/// The bytes after which an answer lets others have their turn. The kernel copies all that it has room for;
/// where the client takes it meanwhile, as one on this machine does, that is all of a large answer.
const TURN: usize = 256 << 10;

/// How long a client that still sends a body may go on after an answer that came without reading it. A socket
/// that is closed with bytes unread is reset by the kernel, and the answer is lost with it.
const LONGEST_LINGER: Duration = Duration::from_secs(5);
/// For how long, and for how many bytes, a client that is sent away is still read, so that it comes to read
/// why.
const FAREWELL: (Duration, usize) = (Duration::from_secs(1), 1 << 20);

/// Where bytes go.
pub(super) enum Stream {
    Plain(TcpStream),
    /// Boxed: its state is large, and most hosts stand behind something that speaks TLS for them.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A connection's socket.
pub(super) struct Socket {
    stream: Stream,
    client: Arc<Client>,
    is_fresh: bool,
    inbound: Inbound,
    /// The bytes to write, over HTTP/2.
    outbound: FrameWalk,
    /// The client is sent away.
    farewell: Option<Box<Farewell>>,
    /// Whether the client has not taken all that was written.
    is_stuck: bool,
    /// Bytes written since others had their turn.
    run: usize,
    /// When to look whether a client is there that will send nothing more, and the pause before that.
    next_look: Option<(Pin<Box<Sleep>>, Duration)>,
    /// The end of [`LONGEST_LINGER`], once all has been written.
    lingers_until: Option<Pin<Box<Sleep>>>,
    /// Dropped last: by then its bytes have gone.
    _held: Held,
}

/// The end of a connection whose client sends too much.
struct Farewell {
    /// Of the frame that says so, what has not been written.
    unsent: Vec<u8>,
    is_shut: bool,
    until: Pin<Box<Sleep>>,
    /// Bytes that are still read.
    unread: usize,
}

/// The marks of a connection that is open: one for its listener, and its place among all.
pub(super) type Held = (mpsc::Sender<Infallible>, Option<OwnedSemaphorePermit>);

impl Socket {
    pub(super) fn new(stream: Stream, client: Arc<Client>, held: Held) -> Socket {
        Socket {
            stream,
            client,
            is_fresh: true,
            inbound: Inbound::new(),
            outbound: FrameWalk::default(),
            farewell: None,
            is_stuck: false,
            run: 0,
            next_look: None,
            lingers_until: None,
            _held: held,
        }
    }

    /// The client will send nothing more. Ready if it has gone, or if nothing is owed to it.
    fn ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let client = &self.client;
        let Stream::Plain(stream) = &self.stream else { return Poll::Ready(()) };
        let is_owed = self.is_stuck || client.in_flight.load(Ordering::Relaxed) > 0;
        if client.is_upgraded.load(Ordering::Relaxed) || !is_owed || !client.is_http11.load(Ordering::Relaxed)
        {
            return Poll::Ready(());
        }
        client.is_half_closed.store(true, Ordering::Relaxed);
        loop {
            let (least, most) = PAUSE;
            let pause = match &mut self.next_look {
                None => {
                    self.next_look = Some((Box::pin(tokio::time::sleep(least)), Duration::ZERO));
                    continue;
                }
                Some((timer, pause)) => {
                    ready!(timer.as_mut().poll(context));
                    // Half a request is none.
                    if client.in_body.load(Ordering::Relaxed) && *pause >= LONGEST_IN_BODY {
                        return Poll::Ready(());
                    }
                    (*pause * 2).clamp(least, most)
                }
            };
            // An answer that the client has not taken yet is not to be broken.
            let asked = if self.is_stuck { Ok(ARE_YOU_THERE.len()) } else { stream.try_write(ARE_YOU_THERE) };
            let is_there = matches!(asked, Ok(length) if length == ARE_YOU_THERE.len());
            if !is_there || !matches!(stream.take_error(), Ok(None)) {
                return Poll::Ready(());
            }
            self.next_look = Some((Box::pin(tokio::time::sleep(pause)), pause));
        }
    }

    /// Reads on for a client whose body was left unread, so that it comes to read its answer. Ready when it
    /// ends, or has had its time.
    fn linger(&mut self, context: &mut Context<'_>, end: &mut Pin<Box<Sleep>>) -> Poll<()> {
        let mut unread = [0; 8 << 10];
        while end.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut unread);
            if ready!(self.stream.poll_read(context, &mut buffer)).is_err() || buffer.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(())
    }

    /// Tells a client that sends too much to leave, and reads on until it does. Ready at the end of that.
    fn leave(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(farewell) = &mut self.farewell else { return Poll::Ready(()) };
        if farewell.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        while !farewell.unsent.is_empty() {
            match ready!(self.stream.poll_write(context, &farewell.unsent)) {
                Ok(written @ 1..) => drop(farewell.unsent.drain(..written.min(farewell.unsent.len()))),
                Ok(0) | Err(_) => return Poll::Ready(()),
            }
        }
        if !farewell.is_shut {
            if ready!(self.stream.poll_shutdown(context)).is_err() {
                return Poll::Ready(());
            }
            farewell.is_shut = true;
        }
        let mut unread = [0; 8 << 10];
        while farewell.unread > 0 {
            let mut buffer = ReadBuf::new(&mut unread);
            if ready!(self.stream.poll_read(context, &mut buffer)).is_err() || buffer.filled().is_empty() {
                break;
            }
            farewell.unread = farewell.unread.saturating_sub(buffer.filled().len());
        }
        Poll::Ready(())
    }

    /// Notes what the client sent.
    fn received(&mut self, bytes: &[u8]) {
        let client = &self.client;
        if self.inbound.is_too_much(bytes, client) {
            // In the midst of a frame there is no place for another.
            let unsent = if self.outbound.is_between() { self.inbound.farewell() } else { Vec::new() };
            let (time, unread) = FAREWELL;
            let until = Box::pin(tokio::time::sleep(time));
            self.farewell = Some(Box::new(Farewell { unsent, is_shut: false, until, unread }));
        }
        if std::mem::take(&mut self.is_fresh) {
            client.has_spoken.store(true, Ordering::Relaxed);
            if bytes.starts_with(PREFACE) {
                client.is_http2.store(true, Ordering::Relaxed);
                // Its client has said what it speaks, and may wait with its first request.
                client.in_head.store(false, Ordering::Relaxed);
            }
        } else if client.is_http2.load(Ordering::Relaxed) {
            client.heard.fetch_add(1, Ordering::Relaxed);
        } else if client.in_flight.load(Ordering::Relaxed) == 0 && !client.in_body.load(Ordering::Relaxed) {
            // Of HTTP/2 it may be anything.
            client.in_head.store(true, Ordering::Relaxed);
        }
    }

    /// Whether others are to have their turn before more is written: those that are ready, and those of whom
    /// the kernel has news.
    fn is_others_turn(&mut self, context: &mut Context<'_>) -> bool {
        if self.run < TURN {
            return false;
        }
        self.run = 0;
        self.is_stuck = pin!(tokio::task::yield_now()).poll(context).is_pending();
        self.is_stuck
    }

    /// Notes where in a frame of HTTP/2 the next byte is.
    fn wrote(&mut self, written: &Poll<io::Result<usize>>, slices: &[IoSlice<'_>]) {
        let (Poll::Ready(Ok(length)), Inbound::Frames(_)) = (written, &self.inbound) else { return };
        let mut left = *length;
        for slice in slices {
            let part = slice.get(..left).unwrap_or(slice);
            self.outbound.pass(part);
            left -= part.len();
        }
    }

    /// Notes what the client took.
    fn sent(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_stuck = written.is_pending();
        let length = if let Poll::Ready(Ok(length)) = written { length } else { 0 };
        self.run = if self.is_stuck { 0 } else { self.run + length };
        if length >= SHORTEST_SIGN {
            self.client.signs.fetch_add(1, Ordering::Relaxed);
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
        if self.farewell.is_some() {
            return self.leave(context).map(Ok);
        }
        if self.inbound.is_others_turn() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = self.stream.poll_read(context, buffer);
        match buffer.filled().get(before..) {
            Some(bytes @ [_, ..]) => self.received(bytes),
            _ if matches!(read, Poll::Ready(Ok(()))) => return self.ended(context).map(Ok),
            _ => self.inbound.rest(),
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.farewell.is_some() {
            // It is read no more.
            return Poll::Ready(Ok(bytes.len()));
        }
        if self.is_others_turn(context) {
            return Poll::Pending;
        }
        let bytes = bytes.get(..TURN).unwrap_or(bytes);
        let written = self.stream.poll_write(context, bytes);
        self.wrote(&written, &[IoSlice::new(bytes)]);
        self.sent(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.farewell.is_some() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        if slices.iter().map(|slice| slice.len()).sum::<usize>() > TURN {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(context, first.map_or(&[], |slice| slice));
        }
        if self.is_others_turn(context) {
            return Poll::Pending;
        }
        let written = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        self.wrote(&written, slices);
        self.sent(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.farewell.is_some() {
            return Poll::Ready(Ok(()));
        }
        let mut end = match self.lingers_until.take() {
            Some(end) => end,
            None => {
                ready!(self.stream.poll_shutdown(context))?;
                let is_left = self.client.in_body.load(Ordering::Relaxed);
                if !is_left || self.client.is_http2.load(Ordering::Relaxed) {
                    return Poll::Ready(Ok(()));
                }
                Box::pin(tokio::time::sleep(LONGEST_LINGER))
            }
        };
        let ended = self.linger(context, &mut end);
        self.lingers_until = Some(end);
        ended.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;

    use super::*;

    /// For any client, and any way in which hyper writes, one poll sends no more than a turn or two.
    #[tokio::test]
    async fn a_large_answer_lets_others_have_their_turn() {
        let bytes = vec![7; 64 * TURN];
        for is_vectored in [false, true] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let reader =
                std::thread::spawn(move || std::io::copy(&mut client.by_ref(), &mut std::io::sink()));
            let server = listener.accept().unwrap().0;
            server.set_nonblocking(true).unwrap();
            let stream = Stream::Plain(TcpStream::from_std(server).unwrap());
            let mut socket = Socket::new(stream, Arc::new(Client::new()), (mpsc::channel(1).0, None));
            let (mut sent, mut most) = (0, 0);
            poll_fn(|context| {
                let begun = sent;
                while sent < bytes.len() {
                    let rest = &bytes[sent..];
                    let slices = [IoSlice::new(&[]), IoSlice::new(&rest[..1]), IoSlice::new(&rest[1..])];
                    let written = match is_vectored {
                        true => Pin::new(&mut socket).poll_write_vectored(context, &slices),
                        false => Pin::new(&mut socket).poll_write(context, rest),
                    };
                    let Poll::Ready(written) = written else { break };
                    sent += written.unwrap();
                    most = most.max(sent - begun);
                }
                if sent < bytes.len() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            drop(socket);
            assert_eq!(reader.join().unwrap().unwrap(), bytes.len() as u64);
            assert!(most < 2 * TURN, "{most} of {TURN}, vectored: {is_vectored}");
        }
    }
}
