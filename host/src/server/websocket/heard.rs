//! A connection that notes when its client was heard last: a message may take longer to come than a client
//! may be silent, and within it the client can answer no ping.
//!
//! Place in the flow: between the connection and the protocol's library. In and out: bytes, as they are.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

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
        self.begun + std::time::Duration::from_millis(self.last.load(Ordering::Relaxed))
    }

    fn note(&self) {
        let since = self.begun.elapsed().as_millis();
        self.last.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The connection.
pub(super) struct Listened<S> {
    pub(super) io: S,
    pub(super) heard: Heard,
}

impl<S: AsyncRead + Unpin> AsyncRead for Listened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.heard.note();
        }
        Poll::Ready(Ok(()))
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
