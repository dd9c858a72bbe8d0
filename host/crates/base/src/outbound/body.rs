//! The body of a response from outside: it holds its request's place, and comes without long pauses.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

use super::{BodyError, OutboundError};

/// A body of which each piece comes in time.
pub(super) struct Limited<B> {
    inner: B,
    wait: Duration,
    /// Until when the next piece has to be there. It rests while nothing is waited for.
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
    _place: OwnedSemaphorePermit,
}

impl<B> Limited<B> {
    pub(super) fn new(inner: B, wait: Duration, place: OwnedSemaphorePermit) -> Limited<B> {
        Limited { inner, wait, timer: Box::pin(sleep(wait)), is_waiting: false, _place: place }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Body for Limited<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.is_waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            let until = Instant::now() + self.wait;
            self.timer.as_mut().reset(until);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Some(Err(OutboundError::TimedOut.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
