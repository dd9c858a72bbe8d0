//! The body of a response that a handler makes, as the connection takes it.
//!
//! Place in the flow: [`Exchange::respond`](super::Exchange::respond) makes it of what the handler gives.
//! In: the handler's pieces. Out: the same for the connection; for the handler, how far it has come.
//! Invariants: a body that the handler has not ended breaks off, after what was sent before; one that is
//! dropped before its end tells the handler that the client is gone.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::{BROKEN, BodyStream, BrokenBody, DELIVERED, GONE, Phase, PolledPiece, Progress};

/// The end of a stream of server-sent events that breaks off.
const LAST_EVENT: &[u8] = b"event: error\ndata: {\"error\": \"the handler failed\"}\n\n";

/// The time that a connection has to send what it holds, before the body of one of its streams breaks off.
/// It needs microseconds; the rest is for a machine that is busy.
const FLUSH_TIME: Duration = Duration::from_millis(20);

/// The body of a [`StreamedResponse`](super::StreamedResponse). Dropped before its end, it tells the handler
/// that the client is gone.
pub struct StreamedBody {
    pub(super) inner: BodyStream,
    pub(super) progress: Arc<Progress>,
    /// Bytes that have yet to come, if the head says how many.
    pub(super) left: Option<u64>,
    /// Whether the response is its head alone, although the handler makes a body, which HTTP/2 would send.
    pub(super) is_bodiless: bool,
    /// Whether there are words for a client before the body breaks off.
    pub(super) is_event_stream: bool,
    /// Whether it is an error of which nothing has been sent: runtimes of languages answer so to an
    /// exception, and leave the body as it is.
    pub(super) may_be_bare: bool,
    /// Why the body breaks off, and the time that the connection has to send what came before.
    pub(super) broken: Option<(BrokenBody, Pin<Box<Sleep>>)>,
}

impl StreamedBody {
    /// The last words, then time for the connection to send what it has: at an error, HTTP/2 drops what
    /// has not been sent yet.
    fn break_off(&mut self, error: BrokenBody, context: &mut Context<'_>) -> PolledPiece {
        let (_, flush) = self.broken.get_or_insert_with(|| {
            self.progress.break_off();
            (error, Box::pin(tokio::time::sleep(FLUSH_TIME)))
        });
        if std::mem::take(&mut self.is_event_stream) {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(LAST_EVENT)))));
        }
        ready!(flush.as_mut().poll(context));
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledPiece {
        if self.is_bodiless {
            return Poll::Ready(None);
        }
        if let Some((error, _)) = self.broken {
            return self.break_off(error, context);
        }
        self.progress.asked();
        let mut frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        // A sender that is gone looks like one that has ended.
        if frame.is_none() && self.progress.flags.load(Ordering::Acquire) & BROKEN != 0 {
            frame = Some(Err(BrokenBody::Incomplete));
        }
        if let (Some(Ok(data)), Some(left)) = (&frame, &mut self.left) {
            match left.checked_sub(data.data_ref().map_or(0, |data| data.len() as u64)) {
                Some(less) => *left = less,
                // More than was announced: HTTP/2 would send it.
                None => frame = Some(Err(BrokenBody::Incomplete)),
            }
        }
        if let Some(Err(_)) = frame
            && self.may_be_bare
        {
            frame = None;
        }
        if let Some(Err(error)) = frame {
            return self.break_off(error, context);
        }
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                self.progress.touch();
                self.progress.handed_over(frame.data_ref().map_or(0, Bytes::len));
                self.may_be_bare = false;
                if frame.is_trailers() && self.left.is_none() {
                    // A connection asks for nothing after them.
                    self.left = Some(0);
                }
                Some(Ok(frame))
            }
            _ => {
                self.progress.touch();
                self.progress.set(DELIVERED);
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        // A connection also drops what breaks off.
        let is_broken = self.progress.flags.load(Ordering::Acquire) & BROKEN != 0;
        if self.progress.phase() != Phase::After && !is_broken {
            // A connection does not ask for more than was announced.
            let is_whole = self.left == Some(0) || self.inner.is_end_stream();
            self.progress.touch();
            self.progress.set(if is_whole { DELIVERED } else { GONE });
        }
    }
}
