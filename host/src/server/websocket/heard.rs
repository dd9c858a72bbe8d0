//! A connection that notes when its client was last heard, and charges it for frames that carry little.
//!
//! Place in the flow: between the connection and the protocol's library. In and out: bytes, as they are.
//! A message may take longer to come than a client may be silent, and within it the client can answer no
//! ping. The library looks for the end of a message by itself, over any number of frames: those that bring
//! little of it would cost their client nothing. Here each of them takes its part of a second, as a message
//! does, and nothing is read while the client is ahead of its rate; what is read of it at a time has an end
//! too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A fragment from this length on is paid for by the length that a message may have.
const SMALLEST_FRAGMENT: u64 = 1 << 10;
/// Frames after which others have their turn.
const RUN: u32 = 256;

/// When the client was heard last.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    begun: Instant,
    /// Milliseconds since then.
    last: Arc<AtomicU64>,
}

impl Heard {
    pub(super) fn now() -> Heard {
        Heard { begun: Instant::now(), last: Arc::default() }
    }

    pub(super) fn last(&self) -> Instant {
        self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    /// It is heard at `when`, or cannot be heard until then.
    fn note(&self, when: Instant) {
        let since = when.saturating_duration_since(self.begun).as_millis();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Up to when a client has spoken, if each frame takes its part of a second; it may be a second ahead.
#[derive(Debug)]
pub(super) struct Rate {
    paid: Instant,
    each: Duration,
}

impl Rate {
    /// So many a second, after as many at once.
    pub(super) fn new(rate: u32) -> Rate {
        let each = Duration::from_secs(1) / rate.max(1);
        let now = Instant::now();
        Rate { paid: now.checked_sub(Duration::from_secs(1)).unwrap_or(now), each }
    }

    /// Counts frames.
    pub(super) fn pay(&mut self, frames: u32, now: Instant) {
        let least = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        self.paid = self.paid.max(least) + self.each * frames;
    }

    /// When more may be read.
    pub(super) fn paid(&self) -> Instant {
        self.paid
    }
}

/// A position in a client's frames (RFC 6455, section 5.2).
#[derive(Debug, Default)]
struct FrameWalk {
    /// The first bytes of a frame: flags and kind, whether it is masked and how long it is.
    head: [u8; 10],
    had: usize,
    /// Bytes of the mask and the payload that are still to come.
    left: u64,
}

impl FrameWalk {
    /// Goes on by these bytes. How many frames began in them, and how many of them are fragments that bring
    /// little.
    fn pass(&mut self, mut bytes: &[u8]) -> (u32, u32) {
        const CONTINUATION: u8 = 0;
        let (mut begun, mut small) = (0, 0);
        loop {
            let skipped = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            self.left -= skipped as u64;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some((byte, rest)) = bytes.split_first() else { return (begun, small) };
            bytes = rest;
            if let Some(place) = self.head.get_mut(self.had) {
                *place = *byte;
            }
            self.had += 1;
            let [first, second, length @ ..] = self.head;
            let (size, payload) = match second & 0x7f {
                126 => (4, u64::from_be_bytes([0, 0, 0, 0, 0, 0, length[0], length[1]])),
                127 => (10, u64::from_be_bytes(length)),
                length => (2, u64::from(length)),
            };
            if self.had < 2 || self.had < size {
                continue;
            }
            let mask = if second & 0x80 == 0 { 0 } else { 4 };
            (self.had, self.left) = (0, payload.saturating_add(mask));
            begun += 1;
            small += u32::from(first & 0x0f == CONTINUATION && payload < SMALLEST_FRAGMENT);
        }
    }
}

/// The connection.
pub(super) struct Listened<S> {
    io: S,
    heard: Heard,
    walk: FrameWalk,
    fragments: Rate,
    /// The client is ahead of its rate until then.
    pause: Option<Pin<Box<Sleep>>>,
    /// Frames since others had their turn.
    run: u32,
}

impl<S> Listened<S> {
    /// A connection whose client may send so many small fragments a second.
    pub(super) fn new(io: S, heard: Heard, rate: u32) -> Listened<S> {
        Listened { io, heard, walk: FrameWalk::default(), fragments: Rate::new(rate), pause: None, run: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
        }
        if this.run >= RUN {
            this.run = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut this.io).poll_read(cx, buf) else {
            this.run = 0;
            return Poll::Pending;
        };
        let bytes = buf.filled().get(before..).unwrap_or_default();
        if !bytes.is_empty() {
            let now = Instant::now();
            let (begun, small) = this.walk.pass(bytes);
            this.run += begun;
            this.heard.note(now);
            if small > 0 {
                this.fragments.pay(small, now);
                let paid = this.fragments.paid();
                if paid > now {
                    this.heard.note(paid);
                    this.pause = Some(Box::pin(sleep_until(paid)));
                }
            }
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listened<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a client sends it: masked, by zeros.
    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match length {
            0..=125 => frame.push(0x80 | length as u8),
            126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.resize(frame.len() + 4 + length, 0);
        frame
    }

    #[test]
    fn small_fragments_are_counted_however_they_are_cut() {
        for (first, length, is_small) in [
            (0x00, 0, true),
            (0x80, 0, true),
            (0x00, 125, true),
            (0x00, 1023, true),
            (0x00, 1024, false),
            (0x00, 70_000, false),
            (0x81, 0, false),
            (0x01, 0, false),
            (0x89, 0, false),
        ] {
            let frames = frame(first, length).repeat(9);
            for size in [1, 2, 5, 6, 7, 1000] {
                let mut walk = FrameWalk::default();
                let counted = frames.chunks(size).map(|piece| walk.pass(piece));
                let (begun, small) = counted.fold((0, 0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
                let expected = if is_small { 9 } else { 0 };
                assert_eq!((begun, small), (9, expected), "{first:#x} {length} by {size}");
            }
        }
    }
}
