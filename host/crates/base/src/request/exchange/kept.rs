//! What is kept of bodies while they pass, for those who want a run written down.
//!
//! Place in the flow: around the bodies of an exchange, and of requests that its handler sends. In: a body
//! that is passed on. Out: the same body, and a [`KeptBody`] of its bytes.
//! Invariants: pieces are counted references, not copies; all that is kept of one request comes out of one
//! [`Budget`], and once that is spent nothing more is kept; the body itself passes all the same.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use super::{BodyStream, Exchange, Phase};
use crate::request::Response;
use http_body_util::BodyExt as _;

/// Most bytes of bodies and tensors that are kept of one request.
pub const KEPT: usize = 64 << 20;

/// Bytes that may still be kept of one request.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
    is_spent: AtomicBool,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { left: AtomicUsize::new(KEPT), is_spent: AtomicBool::new(false) }
    }
}

impl Budget {
    /// Takes so many bytes; false if there are not as many, from then on for good.
    pub fn take(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        let is_taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if !is_taken {
            self.is_spent.store(true, Ordering::Relaxed);
        }
        is_taken && !self.is_spent()
    }

    /// Whether more was to be kept than may be.
    pub fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }

    /// Bytes that are kept.
    pub fn used(&self) -> usize {
        KEPT.saturating_sub(self.left.load(Ordering::Relaxed))
    }
}

/// The bytes of a body that have passed so far.
#[derive(Debug)]
pub struct KeptBody {
    budget: Arc<Budget>,
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    pieces: Vec<Bytes>,
    is_whole: bool,
}

impl KeptBody {
    /// Nothing yet.
    pub fn new(budget: &Arc<Budget>) -> Arc<KeptBody> {
        Arc::new(KeptBody { budget: budget.clone(), pieces: Mutex::default() })
    }

    /// The bytes so far, and whether the body ended with them.
    pub fn joined(&self) -> (Bytes, bool) {
        let pieces = self.pieces();
        let bytes = match pieces.pieces.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            all => {
                let mut joined = BytesMut::with_capacity(all.iter().map(Bytes::len).sum());
                all.iter().for_each(|piece| joined.extend_from_slice(piece));
                joined.freeze()
            }
        };
        (bytes, pieces.is_whole)
    }

    fn push(&self, piece: &Bytes) {
        let mut pieces = self.pieces();
        match self.budget.take(piece.len()) {
            true => pieces.pieces.push(piece.clone()),
            false => pieces.pieces.clear(),
        }
    }

    fn end(&self) {
        self.pieces().is_whole = true;
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that is kept while it passes.
pub struct Keeping<B> {
    inner: B,
    kept: Arc<KeptBody>,
}

impl<B> Keeping<B> {
    /// Keeps `inner` in `kept`.
    pub fn new(inner: B, kept: Arc<KeptBody>) -> Keeping<B> {
        Keeping { inner, kept }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Keeping<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(piece) = frame.data_ref() {
                    self.kept.push(piece);
                }
            }
            Some(Err(_)) => {}
            None => self.kept.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let is_over = self.inner.is_end_stream();
        if is_over {
            self.kept.end();
        }
        is_over
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body that breaks off after a piece.
pub struct Partial(Option<Bytes>);

impl Partial {
    /// After this piece.
    pub fn new(piece: Bytes) -> Partial {
        Partial(Some(piece))
    }
}

impl Body for Partial {
    type Data = Bytes;
    type Error = ();

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
        Poll::Ready(Some(self.0.take().map(Frame::data).ok_or(())))
    }
}

/// The kept parts of an exchange.
pub(super) struct KeptExchange {
    budget: Arc<Budget>,
    request: Arc<KeptBody>,
    /// As the request named it beside its headers.
    authority: OnceLock<String>,
    response: OnceLock<(Response, Arc<KeptBody>)>,
}

impl Exchange {
    /// From here on, both bodies are kept, out of `budget`.
    pub fn keep(&self, budget: &Arc<Budget>) {
        let (budget, request) = (budget.clone(), KeptBody::new(budget));
        let kept = KeptExchange { budget, request, authority: OnceLock::new(), response: OnceLock::new() };
        // The first one counts, and there is one.
        let _ = self.kept.set(Box::new(kept));
    }

    /// The request, whose body is kept if that is wanted.
    pub(super) fn kept_request(&self, request: http::Request<BodyStream>) -> http::Request<BodyStream> {
        let Some(kept) = self.kept.get() else { return request };
        if let Some(authority) = request.uri().authority() {
            let _ = kept.authority.set(authority.to_string());
        }
        request.map(|body| {
            // Of a body that is empty nothing is ever asked.
            if body.is_end_stream() {
                kept.request.end();
            }
            Keeping::new(body, kept.request.clone()).boxed_unsync()
        })
    }

    /// The body of a response with this head, which is kept if that is wanted.
    pub(super) fn kept_response(&self, head: &http::response::Parts, body: BodyStream) -> BodyStream {
        let Some(kept) = self.kept.get() else { return body };
        let body_kept = KeptBody::new(&kept.budget);
        let _ = kept.response.set((plain(head), body_kept.clone()));
        Keeping::new(body, body_kept).boxed_unsync()
    }

    /// The body of the request, as much as the handler has read of it, and whether that is all; `None` if it
    /// was not kept.
    pub fn request_body(&self) -> Option<(Bytes, bool)> {
        let kept = self.kept.get().filter(|kept| !kept.budget.is_spent())?;
        Some(self.whole.get().map_or_else(|| kept.request.joined(), |whole| (whole.clone(), true)))
    }

    /// The authority that the request named beside its headers, as HTTP/2 does.
    pub fn authority(&self) -> Option<&str> {
        Some(self.kept.get()?.authority.get()?)
    }

    /// The response; `None` if it was not kept, or the client has not taken all of it.
    pub fn response(&self) -> Option<Response> {
        let kept = self.kept.get().filter(|kept| !kept.budget.is_spent())?;
        let (head, body) = kept.response.get().filter(|_| self.progress.phase() == Phase::After)?;
        let (body, _) = body.joined();
        Some(Response { body, ..head.clone() })
    }
}

/// A response without its body.
pub(super) fn plain(head: &http::response::Parts) -> Response {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let content_type = head.headers.get(http::header::CONTENT_TYPE).map(text).unwrap_or_default();
    let others = head.headers.iter().filter(|(name, _)| **name != http::header::CONTENT_TYPE);
    let headers = others.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    Response { status: head.status.as_u16(), content_type, headers, body: Bytes::new() }
}
