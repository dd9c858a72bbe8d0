//! An exchange that an application holds itself: a body that is read as it comes, a response that leaves as
//! it is made.
//!
//! Place in the flow: `server` makes both ends; the run of an application has the [`Exchange`], the
//! connection the [`Client`] and then the [`StreamedResponse`].
//! In: the request's head and body. Out: at most one response, whose body ends properly only if the handler
//! ended it.
//! Invariants: a body that breaks off is an error of the stream, never an end; either side sees that the
//! other one is gone.

mod again;
pub mod abandoned;
mod body;
pub mod kept;
mod pieces;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::{Notify, oneshot};

pub use self::again::{WholeResponse, head};
pub use self::body::StreamedBody;
use self::kept::KeptExchange;
pub use self::pieces::{BUFFERED_PIECES, PIECE_SIZE, Pieces, parts};
use crate::memory::Account;

/// The head of an exchange's request.
pub type Head = http::Request<()>;

/// The next piece of a body, as far as it is there.
pub type PolledPiece = Poll<Option<Result<Frame<Bytes>, BrokenBody>>>;

/// A body in pieces.
pub type BodyStream = UnsyncBoxBody<Bytes, BrokenBody>;

/// Why a body has no proper end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrokenBody {
    /// The other side went away.
    #[error("the body broke off")]
    Incomplete,
    /// More bytes than its limit.
    #[error("the body is longer than {0} bytes")]
    TooLong(u64),
}

/// A response whose body is still being made.
pub struct StreamedResponse {
    /// Status and headers, as they may leave.
    pub head: http::response::Parts,
    /// The body.
    pub body: StreamedBody,
    /// SHA-256 of the handler, in hex.
    pub digest: Arc<str>,
}

/// The handler's end of an exchange.
pub struct Exchange {
    request: Mutex<Option<http::Request<BodyStream>>>,
    responder: Mutex<Option<oneshot::Sender<StreamedResponse>>>,
    /// The handler's word for why there is no response.
    refusal: Mutex<Option<String>>,
    progress: Arc<Progress>,
    /// Whether the response has no body, although its head may announce one.
    is_head: bool,
    /// Whether the client speaks TLS.
    pub is_secure: bool,
    /// The account of its bodies, where they are whole.
    memory: Account,
    /// The whole body, once a handler has asked for it.
    whole: OnceLock<Bytes>,
    /// Both bodies, if they are kept.
    kept: OnceLock<Box<KeptExchange>>,
}

/// The connection's end of an exchange.
pub struct Client {
    response: oneshot::Receiver<StreamedResponse>,
    progress: Arc<Progress>,
}

/// How far a response has come. Written by both sides.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    /// When a piece was last taken from the response, in milliseconds since `begun`.
    touched: AtomicU64,
    flags: AtomicU8,
    /// Of the response; 0 before there is one.
    status: AtomicU16,
    /// Since when the client is waited for, in milliseconds since `begun`; [`RESTING`] while it is not.
    waits: AtomicU64,
    /// Milliseconds for which it was waited for beyond what it took in them.
    owed: AtomicU64,
    changed: Notify,
}

/// In place of a time.
const RESTING: u64 = u64::MAX;
/// How long a client may be waited for, and the bytes a second that it has to take beyond that, before it
/// counts as slow.
const SLOW: (Duration, u64) = (Duration::from_secs(1), 32 << 10);

/// The head is on its way.
const ANSWERED: u8 = 1;
/// The connection has taken all of the response.
const DELIVERED: u8 = 2;
/// The client went away before that.
const GONE: u8 = 4;
/// The handler has ended without ending the body.
const BROKEN: u8 = 8;
/// The handler has ended.
const ENDED: u8 = 16;
/// The request's body was longer than its limit.
const TOO_LONG: u8 = 32;
/// It broke off, for that or for another reason.
const CUT_OFF: u8 = 64;
/// The client was slow, and another request has its place.
const MADE_WAY: u8 = 128;

/// The part of an exchange that a handler is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is no response yet.
    Head,
    /// The response is under way.
    Body,
    /// The client has all of it.
    After,
}

impl Exchange {
    /// Both ends of an exchange whose request has this method and is still to [come](Exchange::begin).
    pub fn new(method: &http::Method, is_secure: bool) -> (Exchange, Client) {
        let (responder, response) = oneshot::channel();
        let progress = Arc::new(Progress::new());
        let client = Client { response, progress: progress.clone() };
        let exchange = Exchange {
            request: Mutex::default(),
            responder: Mutex::new(Some(responder)),
            refusal: Mutex::default(),
            progress,
            is_head: *method == http::Method::HEAD,
            is_secure,
            memory: Account::default(),
            whole: OnceLock::new(),
            kept: OnceLock::new(),
        };
        (exchange, client)
    }

    /// The same, charged to this.
    #[must_use]
    pub fn charged_to(mut self, memory: Account) -> Exchange {
        self.memory = memory;
        self
    }

    /// The account that it is charged to.
    pub fn memory(&self) -> Account {
        self.memory
    }

    /// The request, whose body may still be under way.
    pub fn begin(&self, request: http::Request<BodyStream>) {
        let progress = self.progress.clone();
        let note = move |error| {
            progress.set(match error {
                BrokenBody::TooLong(_) => TOO_LONG | CUT_OFF,
                BrokenBody::Incomplete => CUT_OFF,
            });
            error
        };
        let request = request.map(|body| body.map_err(note).boxed_unsync());
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
    }

    /// The request whose body is there, for a handler that takes it whole. `head` of
    /// [`Exchange::take_request`] is its head.
    pub fn begin_whole(&self, body: Bytes) {
        // The first one counts, and there is one.
        let _ = self.whole.set(body);
    }

    /// The request. There is one. `head`: of the request that the exchange belongs to.
    pub fn take_request(&self, head: &dyn super::Head) -> Option<http::Request<BodyStream>> {
        self.taken().or_else(|| self.whole_request(head)).map(|request| self.kept_request(request))
    }

    /// A request that has begun for a handler that takes bodies whole, when one of the other kind has just
    /// taken its place.
    fn whole_request(&self, head: &dyn super::Head) -> Option<http::Request<BodyStream>> {
        let body = Full::new(self.whole.get()?.clone()).map_err(|never| match never {}).boxed_unsync();
        Some(head.as_exchange()?.map(|()| body))
    }

    fn taken(&self) -> Option<http::Request<BodyStream>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits for all of the body.
    ///
    /// # Errors
    /// [`BrokenBody`].
    pub async fn receive(&self) -> Result<(), BrokenBody> {
        let Some(request) = self.taken() else { return Ok(()) };
        let body = request.into_body().collect().await?.to_bytes();
        // It is there by now, and there is one such request at a swap.
        self.begin_whole(self.memory.own(body.clone()).unwrap_or(body));
        Ok(())
    }

    /// Whether all of the body is there.
    pub fn is_received(&self) -> bool {
        self.whole.get().is_some()
    }

    /// The body, as far as it was waited for.
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.whole.get().map_or(&[], |body| body)
    }

    /// Sends the response on its way. The first one counts.
    pub fn respond(&self, head: http::response::Parts, body: BodyStream, digest: Arc<str>) {
        let Some(responder) = self.responder.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let announced = head.headers.get(http::header::CONTENT_LENGTH);
        let left = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        let is_bodiless = self.is_head || matches!(head.status.as_u16(), 204 | 304);
        let left = if is_bodiless { Some(0) } else { left };
        let content_type = head.headers.get(http::header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        let is_event_stream = content_type.is_some_and(|value| value.starts_with(b"text/event-stream"));
        let may_be_bare = head.status.is_server_error() && left.unwrap_or(0) == 0;
        let body = self.kept_response(&head, body);
        let progress = self.progress.clone();
        let body = StreamedBody {
            inner: body,
            progress,
            left,
            is_bodiless,
            is_event_stream,
            may_be_bare,
            broken: None,
        };
        self.progress.answer(head.status.as_u16());
        if responder.send(StreamedResponse { head, body, digest }).is_err() {
            self.progress.set(GONE);
        }
    }

    /// There will be no response but one that has begun: the client waits no longer for one, although others
    /// may hold the request still.
    pub fn close(&self) {
        drop(self.responder.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// There will be no response, and this is why.
    pub fn refuse(&self, why: String) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why there will be no response, if the handler has said so.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How far the response has come.
    #[inline]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Client {
    /// How far the response has come.
    #[inline]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// The response, as soon as its head is there; `None` if there will be none.
    pub async fn response(self) -> Option<StreamedResponse> {
        struct Waiting(Option<Arc<Progress>>);
        impl Drop for Waiting {
            fn drop(&mut self) {
                if let Some(progress) = &self.0 {
                    progress.set(GONE);
                }
            }
        }
        let mut waiting = Waiting(Some(self.progress));
        let response = self.response.await.ok();
        waiting.0 = None;
        response
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Progress {
    /// Of requests without a response of their own.
    pub fn new() -> Progress {
        Progress {
            begun: Instant::now(),
            touched: AtomicU64::new(0),
            flags: AtomicU8::new(0),
            status: AtomicU16::new(0),
            waits: AtomicU64::new(RESTING),
            owed: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    /// The head of a response with this status is on its way.
    pub fn answer(&self, status: u16) {
        self.touch();
        self.status.store(status, Ordering::Relaxed);
        self.set(ANSWERED);
    }

    /// There is no client any more. `is_gone`: it left before it was told of the end.
    pub(super) fn leave(&self, is_gone: bool) {
        self.touch();
        self.set(if is_gone { GONE | DELIVERED } else { DELIVERED });
    }

    /// The part of the exchange that the handler is in.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.flags.load(Ordering::Acquire) {
            flags if flags & DELIVERED != 0 => Phase::After,
            flags if flags & ANSWERED != 0 => Phase::Body,
            _ => Phase::Head,
        }
    }

    /// Whether the client went away before it had all of the response.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    /// Whether the request's body was longer than its limit.
    #[inline]
    pub fn was_too_long(&self) -> bool {
        self.flags.load(Ordering::Acquire) & TOO_LONG != 0
    }

    /// Whether the request's body broke off while it was read.
    #[inline]
    pub fn is_cut_off(&self) -> bool {
        self.flags.load(Ordering::Acquire) & CUT_OFF != 0
    }

    /// Waits until the client goes away.
    pub async fn gone(&self) {
        self.until(|| self.is_gone()).await;
    }

    /// Whether the connection takes nothing more of a response that has begun.
    #[inline]
    pub fn is_settled(&self) -> bool {
        let flags = self.flags.load(Ordering::Acquire);
        flags & ANSWERED == 0 || flags & (DELIVERED | GONE | BROKEN) != 0
    }

    /// Waits until it does not.
    pub async fn settled(&self) {
        self.until(|| self.is_settled()).await;
    }

    /// The handler has ended, in any way.
    pub fn end(&self) {
        self.set(ENDED);
    }

    /// Waits until the handler has ended.
    pub async fn ended(&self) {
        self.until(|| self.flags.load(Ordering::Acquire) & ENDED != 0).await;
    }

    /// The status of the response; 0 before there is one.
    #[inline]
    pub fn status(&self) -> u16 {
        self.status.load(Ordering::Relaxed)
    }

    /// Waits until the exchange is in another phase than this one.
    pub async fn left(&self, phase: Phase) {
        self.until(|| self.phase() != phase).await;
    }

    /// When the connection last took something of the response.
    pub fn touched(&self) -> Instant {
        self.begun + Duration::from_millis(self.touched.load(Ordering::Relaxed))
    }

    /// The handler has ended without ending the body of its response: it breaks off.
    pub fn break_off(&self) {
        self.set(BROKEN);
    }

    fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, when: Instant) -> u64 {
        let passed = when.saturating_duration_since(self.begun).as_millis();
        u64::try_from(passed).unwrap_or(RESTING - 1)
    }

    fn touch(&self) {
        self.touched.store(self.now(), Ordering::Relaxed);
    }

    /// When the exchange began.
    #[inline]
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The client was given so many bytes, and asks for more once it has taken them.
    pub fn handed_over(&self, bytes: usize) {
        let taken = bytes as u64 * 1000 / SLOW.1;
        self.owed.store(self.owed.load(Ordering::Relaxed).saturating_sub(taken), Ordering::Relaxed);
        self.waits.store(self.now(), Ordering::Relaxed);
    }

    /// The client asks for more.
    pub fn asked(&self) {
        let since = self.waits.swap(RESTING, Ordering::Relaxed);
        if since != RESTING {
            self.owed.fetch_add(self.now().saturating_sub(since), Ordering::Relaxed);
        }
    }

    /// Whether the client takes next to nothing of what there is for it.
    pub fn is_slow(&self, now: Instant) -> bool {
        let since = self.waits.load(Ordering::Relaxed);
        let waited = self.owed.load(Ordering::Relaxed).saturating_add(self.at(now).saturating_sub(since));
        let is_owed = since != RESTING && u128::from(waited) >= SLOW.0.as_millis();
        is_owed && self.flags.load(Ordering::Acquire) & (ANSWERED | DELIVERED | GONE) == ANSWERED
    }

    /// Another request gets the place of this one: to the handler, the client is gone. Whether it was not
    /// told before.
    pub fn make_way(&self) -> bool {
        let before = self.flags.fetch_or(MADE_WAY | GONE, Ordering::AcqRel);
        self.changed.notify_waiters();
        before & MADE_WAY == 0
    }

    /// Whether it was told to.
    #[inline]
    pub fn has_made_way(&self) -> bool {
        self.flags.load(Ordering::Acquire) & MADE_WAY != 0
    }

    /// Counts a wait of this length for the client, for tests.
    #[doc(hidden)]
    pub fn wait_for(&self, time: Duration) {
        self.owed.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn set(&self, flag: u8) {
        self.flags.fetch_or(flag, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look: a change in between wakes this.
            changed.as_mut().enable();
            if is_so() {
                return;
            }
            changed.await;
        }
    }
}
