//! The bodies of a connection's requests and responses, and what they tell of its client.
//!
//! Place in the flow: between hyper and the service, around every body.
//! In: a request's body. Out: that body, which tells its connection when all of it is there; one that went
//! unread is received nevertheless if it is small, for a connection with half a body unread would have to be
//! closed, and its client might never see the answer.
//! In: a response's body. Out: that body, which tells its connection while it has nothing to say, and over
//! HTTP/2, where one connection carries many, since when its client has taken nothing of it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;

use super::client::{Client, RESTING};
use super::frames::EARNED_BY_A_PIECE;

/// A body up to this length is received even if it goes unread, if it comes within that time.
const SMALL: (u64, Duration) = (64 << 10, Duration::from_millis(50));
/// Most of a response that HTTP/2 gets at a time: what it got it holds, whether or not the client takes it.
const PIECE: usize = 16 << 10;

/// A request's body.
pub(super) struct RequestBody {
    /// `None` once it went unread and is received nevertheless.
    body: Option<Incoming>,
    client: Arc<Client>,
    /// Whether its client sends it only when told to.
    is_awaited: bool,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, client: Arc<Client>, is_awaited: bool) -> RequestBody {
        RequestBody { body: Some(body), client, is_awaited }
    }

    /// Whether it is received even if it goes unread.
    pub(super) fn is_small(body: &Incoming) -> bool {
        body.size_hint().upper().is_some_and(|upper| upper <= SMALL.0)
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        if frame.is_none() || body.is_end_stream() {
            self.client.in_body.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        // Streams of HTTP/2 end without harm to each other.
        let is_wanted = |body: &Incoming| {
            !body.is_end_stream()
                && !self.is_awaited
                && !self.client.is_http2.load(Ordering::Relaxed)
                && RequestBody::is_small(body)
        };
        if let Some(body) = self.body.take_if(|body| is_wanted(body))
            && let Ok(runtime) = Handle::try_current()
        {
            // Dropped again after this, it is let go.
            let mut rest = RequestBody::new(body, self.client.clone(), true);
            runtime.spawn(async move {
                let all = async {
                    while let Some(Ok(_)) =
                        std::future::poll_fn(|context| Pin::new(&mut rest).poll_frame(context)).await
                    {
                    }
                };
                // What has not come by then is not waited for.
                let _ = tokio::time::timeout(SMALL.1, all).await;
            });
        }
    }
}

/// A response's body. While it has nothing to say, as a stream between two messages, its request is in
/// flight: its client is not silent, the host is.
pub(super) struct ResponseBody {
    body: Body,
    client: Arc<Client>,
    is_resting: bool,
    /// Over HTTP/2.
    pieces: Option<Pieces>,
}

/// A response in pieces.
struct Pieces {
    /// Of a frame, what has not been handed on.
    rest: Bytes,
    asked: Arc<AtomicU64>,
}

impl ResponseBody {
    pub(super) fn new(body: Body, client: Arc<Client>) -> ResponseBody {
        let is_whole = body.is_end_stream() || !client.is_http2.load(Ordering::Relaxed);
        let pieces = (!is_whole).then(|| Pieces { rest: Bytes::new(), asked: client.stalled_writes.add() });
        ResponseBody { body, client, is_resting: false, pieces }
    }

    fn rest(&mut self, is_resting: bool) {
        if let Some(pieces) = &self.pieces {
            let now = if is_resting { RESTING } else { self.client.stalled_writes.now() };
            pieces.asked.store(now, Ordering::Relaxed);
        }
        match (std::mem::replace(&mut self.is_resting, is_resting), is_resting) {
            (false, true) => self.client.in_flight.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.client.in_flight.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.client.signs.fetch_add(1, Ordering::Relaxed);
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let has_rest = this.pieces.as_ref().is_some_and(|pieces| !pieces.rest.is_empty());
        let mut frame = match has_rest {
            true => Poll::Ready(Some(Ok(Frame::data(Bytes::new())))),
            false => Pin::new(&mut this.body).poll_frame(context),
        };
        this.rest(frame.is_pending());
        if let (Some(pieces), Poll::Ready(Some(Ok(frame)))) = (&mut this.pieces, &mut frame)
            && let Some(data) = frame.data_mut()
        {
            this.client.earned.fetch_add(EARNED_BY_A_PIECE, Ordering::Relaxed);
            if has_rest {
                std::mem::swap(data, &mut pieces.rest);
            }
            if data.len() > PIECE {
                pieces.rest = data.split_off(PIECE);
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.as_ref().is_none_or(|pieces| pieces.rest.is_empty()) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.pieces.as_ref().map_or(0, |pieces| pieces.rest.len() as u64);
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::default();
        // In this order: the lower bound must never be above the upper one.
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(of_body.lower().saturating_add(rest));
        hint
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.rest(false);
    }
}
