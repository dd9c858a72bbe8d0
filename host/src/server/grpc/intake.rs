//! Calls on their way in: how long messages may be, how many may be arriving, how long that may take.
//!
//! Place in the flow: `connection → [intake] → codec → method`. A message names its model, so no endpoint's door can be
//! knocked at before the message is there; this is the door until then.
//! Invariants: at most as many messages are arriving in pieces, on all connections together, as all endpoints together take
//! requests, so what has arrived of them is bounded like the bodies of requests over HTTP; whoever no endpoint lets in takes none of
//! their places. A message that is longer than any
//! endpoint takes is refused by its announced length. A message that stops to arrive ends its call, a stream between two
//! messages may rest for ever. A call whose messages are compressed is polled off the threads that serve requests: a few bytes
//! may unpack to many. When the drain begins it is given as long as an idle connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Buf as _, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::failure;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::keys::Keys;
use crate::server::Served;
use crate::server::http::presented;
use crate::server::listen::{Drain, LINGER};

/// What a message may have beside its tensors: names, shapes, parameters.
const OVERHEAD: usize = 64 << 10;
/// Methods that take any number of messages.
const STREAMS: [&str; 3] = [
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// Before each message: whether it is compressed, one byte, and its length, four (gRPC over HTTP2, "Length-Prefixed-Message").
const PREFIX: usize = 5;

/// When the head of a call arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrived(pub Instant);

/// The bounds of one listener.
pub(super) struct Intake {
    longest: usize,
    patience: Duration,
    most: usize,
    arriving: AtomicUsize,
    drain: Drain,
    /// The keys of all endpoints; none if one of them stands open.
    keys: Keys,
}

impl Intake {
    /// The bounds that follow from the endpoints' limits.
    pub(super) fn of(served: &Served) -> Intake {
        let limits = || served.endpoints.iter().map(|endpoint| &endpoint.config.limits);
        Intake {
            longest: limits().map(|limits| limits.body).max().unwrap_or_default() + OVERHEAD,
            patience: limits().map(|limits| limits.request_timeout).max().unwrap_or_default(),
            most: limits().map(|limits| limits.concurrency + limits.queue).sum(),
            arriving: AtomicUsize::new(0),
            drain: served.drain.clone(),
            keys: served.every_key(),
        }
    }

    /// The longest message, in bytes, compressed or not.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

/// Lets a call in and watches over its messages.
pub(super) async fn admit(State(intake): State<Arc<Intake>>, mut request: Request, next: Next) -> Response {
    let arrived = Instant::now();
    request.extensions_mut().insert(Arrived(arrived));
    let headers = request.headers_mut();
    // Every client says that it understands compressed answers. They are for those who compress their requests: tensors
    // gain little by it, and it takes far longer than most models do.
    let is_packed = headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity");
    if !is_packed {
        headers.remove("grpc-accept-encoding");
    }
    let is_stream = STREAMS.contains(&request.uri().path());
    let is_known = intake.keys.admit(|| presented(request.headers()));
    let watched = |body| Body::new(Watched { is_stream, is_known, ..Watched::new(body, intake, arrived) });
    let call = next.run(request.map(watched));
    if is_packed {
        OffWorker(Box::pin(call)).await.map(|body| Body::new(OffWorker(body)))
    } else {
        call.await
    }
}

/// A call, then its answer, that are never polled as one of the runtime's workers.
struct OffWorker<T>(T);

impl<F: Future + Unpin> Future for OffWorker<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        blocking::off_worker(|| Pin::new(&mut self.0).poll(context))
    }
}

impl HttpBody for OffWorker<Body> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        blocking::off_worker(|| Pin::new(&mut self.0).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// The body of a call.
struct Watched {
    body: Body,
    intake: Arc<Intake>,
    arrived: Instant,
    is_stream: bool,
    /// Whether an endpoint may let it in.
    is_known: bool,
    /// What has come of the prefix of the next message.
    prefix: [u8; PREFIX],
    prefix_length: usize,
    /// Bytes of the message that are still to come.
    left: usize,
    /// Kept until the only message of a call has been handed on.
    place: Option<Place>,
    /// When the message has to be there; there is none if it came at once.
    patience: Option<Pin<Box<Sleep>>>,
    /// Since when nobody has asked for more: a client need not make up for that.
    unasked: Option<Instant>,
    /// When a stream is let go.
    farewell: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The right to arrive in pieces.
struct Place(Arc<Intake>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watched {
    fn new(body: Body, intake: Arc<Intake>, arrived: Instant) -> Watched {
        Watched {
            body,
            intake,
            arrived,
            is_stream: false,
            is_known: false,
            prefix: [0; PREFIX],
            prefix_length: 0,
            left: 0,
            place: None,
            patience: None,
            unasked: None,
            farewell: None,
        }
    }

    fn between_messages(&self) -> bool {
        self.prefix_length == 0 && self.left == 0
    }

    /// Follows the messages through a piece of the body.
    fn follow(&mut self, mut piece: &[u8]) -> Result<(), RequestError> {
        while !piece.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(piece.len());
                self.left -= passed;
                piece.advance(passed);
            } else {
                let Some(next) = self.prefix.get_mut(self.prefix_length..) else { break };
                let read = next.len().min(piece.len());
                piece.copy_to_slice(next.get_mut(..read).unwrap_or_default());
                self.prefix_length += read;
                if self.prefix_length == PREFIX {
                    self.prefix_length = 0;
                    let [is_packed, length @ ..] = self.prefix;
                    self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                    self.longest()?;
                    // Unpacked it is long however short it comes, and it is held until the call's body ends.
                    if is_packed != 0 && self.place.is_none() {
                        self.take_place()?;
                    }
                }
            }
            if self.is_stream && self.between_messages() {
                self.place = None;
                self.patience = None;
            }
        }
        if self.between_messages() || self.place.is_some() { Ok(()) } else { self.take_place() }
    }

    fn longest(&self) -> Result<(), RequestError> {
        let longest = self.intake.longest;
        if self.left <= longest {
            return Ok(());
        }
        let message = format!("the message is longer than {longest} bytes");
        Err(RequestError::new(Code::BodyTooLarge, Stage::Admit, message))
    }

    fn take_place(&mut self) -> Result<(), RequestError> {
        if !self.is_known {
            let message = "every endpoint wants a key: send `authorization: Bearer KEY`";
            return Err(RequestError::new(Code::Unauthorized, Stage::Admit, message));
        }
        let most = self.intake.most;
        let more = |arriving| (arriving < most).then_some(arriving + 1);
        match self.intake.arriving.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => {
                self.place = Some(Place(self.intake.clone()));
                Ok(())
            }
            Err(_) => {
                Err(RequestError::new(Code::Overloaded, Stage::Admit, "too many messages are arriving"))
            }
        }
    }

    /// Whether nothing more is waited for. Called when nothing has come.
    fn is_over(&mut self, context: &mut Context<'_>) -> Option<RequestError> {
        if self.is_stream && self.between_messages() {
            return self.is_let_go(context);
        }
        // Of a stream that has just begun a message, from now on; else from the call's beginning.
        let since = if self.is_stream { Instant::now() } else { self.arrived };
        let end = since + self.intake.patience;
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end.into())));
        patience.as_mut().poll(context).is_ready().then(|| {
            let message = "the message took longer than a request may";
            RequestError::new(Code::RequestTimeout, Stage::Admit, message)
        })
    }

    /// Gives a message the time back in which the server did not read on.
    fn resume(&mut self) {
        if let (Some(patience), Some(since)) = (&mut self.patience, self.unasked.take()) {
            let deadline = patience.deadline() + since.elapsed();
            patience.as_mut().reset(deadline);
        }
    }

    /// Whether the drain has begun and a stream has had its time.
    fn is_let_go(&mut self, context: &mut Context<'_>) -> Option<RequestError> {
        let farewell = self.farewell.get_or_insert_with(|| {
            let drain = self.intake.drain.clone();
            Box::pin(async move {
                drain.begun().await;
                tokio::time::sleep(LINGER).await;
            })
        });
        farewell
            .as_mut()
            .poll(context)
            .is_ready()
            .then(|| RequestError::new(Code::ShuttingDown, Stage::Admit, "the server is going away"))
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let refused =
            |error: RequestError| Poll::Ready(Some(Err(axum::BoxError::from(failure::refused(&error)))));
        // A stream that never rests is let go as well.
        if this.is_stream
            && this.between_messages()
            && this.intake.drain.has_begun()
            && let Some(error) = this.is_let_go(context)
        {
            return refused(error);
        }
        this.resume();
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Pending => this.is_over(context).map_or(Poll::Pending, refused),
            Poll::Ready(Some(Ok(frame))) => {
                if let Err(error) = frame.data_ref().map_or(Ok(()), |data| this.follow(data)) {
                    return refused(error);
                }
                this.unasked = this.patience.is_some().then(Instant::now);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(other) => Poll::Ready(other.map(|end| end.map_err(Into::into))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
