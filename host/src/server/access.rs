//! Requests that have a line in the access log.
//!
//! Place in the flow: around what answers a listener's requests, where the access log is on. In: a request's
//! head and body. Out: its answer; an [`AccessEntry`], which [`serve`](super::serve) finds with the head, and
//! which counts the bytes of both bodies.
//! Invariant: a request without a line goes the way that all go where there is no access log.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_LENGTH, HeaderMap, REFERER, USER_AGENT};
use axum::http::{HeaderName, HeaderValue, Method, Version};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::head::{Head, X_REQUEST_ID};
use crate::error::Code;
use crate::telemetry::access_log::{AccessEntry, AccessHead, AccessLog};

/// The code of gRPC's that a call has ended with, in the head of its answer or behind its messages.
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Answers one request, which came at `arrived`, by `answer`, and leaves its line.
#[cold]
pub(super) fn logged<'a, F: Future<Output = Response> + Send + 'a>(
    log: &Arc<AccessLog>,
    mut head: Box<Head>,
    body: Body,
    arrived: Instant,
    answer: impl FnOnce(Box<Head>, Body) -> F,
) -> Pin<Box<dyn Future<Output = Response> + Send + 'a>> {
    if !log.samples() {
        return Box::pin(answer(head, body));
    }
    let parts = &head.parts;
    let text = |name| parts.headers.get(name).map(HeaderValue::as_bytes);
    let protocol = match parts.version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    };
    let facts = AccessHead::new(head.origin.address, protocol, parts.method.as_str(), parts.uri.path());
    let entry = AccessEntry::new(log, facts.from(text(USER_AGENT), text(REFERER)), arrived);
    head.parts.extensions.insert(entry.clone());
    let is_bodiless = head.parts.method == Method::HEAD;
    let body = Body::new(Counted { body, side: Side::Request(Arc::downgrade(&entry)) });
    let answered = answer(head, body);
    Box::pin(async move {
        let response = answered.await;
        let id = response.headers().get(X_REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
        entry.answered(response.status().as_u16(), id, response.extensions().get::<Code>().copied());
        end(&entry, response.headers());
        let length = response.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let left = if is_bodiless { Some(0) } else { length.or(response.body().size_hint().exact()) };
        let side = Side::Response { entry, left };
        response.map(|body| Body::new(Counted { body, side }))
    })
}

/// Notes the code of gRPC's that is among these headers.
fn end(entry: &AccessEntry, headers: &HeaderMap) {
    let code = headers.get(GRPC_STATUS).and_then(|code| code.to_str().ok()?.parse().ok());
    if let Some(code) = code {
        entry.ended_with(code);
    }
}

/// A body whose bytes are counted.
struct Counted {
    body: Body,
    side: Side,
}

enum Side {
    /// An observer that keeps the request may have its body for long.
    Request(Weak<AccessEntry>),
    Response {
        entry: Arc<AccessEntry>,
        /// Bytes that are still to come, where that is known; hyper asks for nothing beyond them.
        left: Option<u64>,
    },
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let bytes = |frame: &Frame<Bytes>| frame.data_ref().map_or(0, Bytes::len);
        match (&frame, &mut self.side) {
            (Some(Ok(frame)), Side::Request(entry)) => {
                if let Some(entry) = entry.upgrade() {
                    entry.received(bytes(frame));
                }
            }
            (Some(Ok(frame)), Side::Response { entry, left }) => {
                let sent = bytes(frame);
                entry.sent(sent);
                *left = left.map(|left| left.saturating_sub(sent as u64));
                if let Some(trailers) = frame.trailers_ref() {
                    end(entry, trailers);
                }
            }
            (None, Side::Response { left, .. }) => *left = Some(0),
            (None, Side::Request(_)) | (Some(Err(_)), _) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Side::Response { entry, left } = &self.side
            && *left != Some(0)
            && !self.body.is_end_stream()
        {
            entry.broken_off();
        }
    }
}

/// A connection of a WebSocket, whose bytes are counted if it has an entry.
pub(super) struct CountedIo<S> {
    io: S,
    entry: Option<Arc<AccessEntry>>,
}

impl<S> CountedIo<S> {
    pub(super) fn new(io: S, entry: Option<Arc<AccessEntry>>) -> CountedIo<S> {
        CountedIo { io, entry }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, into))?;
        if let Some(entry) = &self.entry {
            entry.received(into.filled().len() - before);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes))?;
        if let Some(entry) = &self.entry {
            entry.sent(written);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
