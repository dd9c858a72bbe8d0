//! Calls on their way in: how long messages may be, how many may be arriving, how long that may take.
//!
//! Place in the flow: `connection → [intake] → codec → method`. A message names its model, so an endpoint's
//! queue can be asked only when the message is there; this is the queue until then.
//! Invariants: at most as many messages are arriving in pieces for an endpoint as it takes requests, so what
//! has arrived of them is bounded like the bodies of requests over HTTP, and an endpoint that is flooded
//! closes no other. The model's name comes first in a message; what does not begin with one, or is
//! compressed, has places of its own. A client without a key takes none of these places, and a late message
//! yields to one that comes ([`Arrivals`]). A message that is longer than any endpoint takes is refused by
//! its announced length. A message that stops to arrive, or comes too slowly, ends its call, a stream between
//! two messages may rest for ever. A call whose messages are compressed is polled off the threads that serve
//! requests: a few bytes may unpack to many. When the drain begins, a stream is given as long as an idle
//! connection.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Buf as _, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::call::{Arrived, GRPC, Held};
use super::failure;
use crate::arrivals::{Arrival, Arrivals, BodyRate, Origin};
use crate::blocking;
use crate::drain::Drain;
use crate::error::{Code, RequestError, Stage};
use crate::keys::{self, Keys};
use crate::memory::{Account, Charge};
use crate::pipeline::Limits;
use crate::server::charged_body::ChargedBody;
use crate::server::head::credentials;
use crate::server::limits::LINGER;
use crate::server::models::Entry;
use crate::server::served::Served;

/// The room of a message beside its tensors: names, shapes, parameters.
const OVERHEAD: usize = 64 << 10;
/// Methods that take any number of messages.
const STREAMS: [&str; 3] = [
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// How deep a model's name lies in the messages of the other services: in the first field of the first field.
const DEEP: &str = "/tensorflow.serving.";
/// How many times its length a compressed message may be long (RFC 1951: 258 bytes by two bits).
const MOST_UNPACKED: usize = 1032;
/// Before each message: whether it is compressed, one byte, and its length, four (gRPC over HTTP2,
/// "Length-Prefixed-Message").
const PREFIX: usize = 5;

/// The bounds of one listener.
pub(super) struct Intake {
    longest: usize,
    patience: Duration,
    body_rate: BodyRate,
    drain: Drain,
    /// Whether calls may have entries in the access log.
    is_logged: bool,
    /// By the names of models.
    gates: HashMap<String, Arc<Gate>>,
    /// For messages whose model is not known yet.
    common: Arc<Gate>,
}

/// The messages that are arriving for one endpoint.
struct Gate {
    keys: Keys,
    memory: Account,
    most: usize,
    arriving: AtomicUsize,
    arrivals: Arrivals,
}

impl Gate {
    fn new(keys: Keys, most: usize, memory: Account) -> Arc<Gate> {
        Arc::new(Gate { keys, memory, most, arriving: AtomicUsize::new(0), arrivals: Arrivals::default() })
    }
}

impl Intake {
    /// The bounds that follow from the endpoints' limits.
    pub(super) fn of(served: &Served) -> Intake {
        let limits = || served.endpoints.iter().map(|endpoint| &endpoint.config.limits);
        let places = |limits: &Limits| limits.concurrency.saturating_add(limits.queue);
        let body_rate = limits().map(|limits| limits.body_rate).max_by_key(|body_rate| body_rate.timeout);
        let speaking = served.endpoints.iter().filter(|endpoint| endpoint.config.speaks(GRPC));
        let gates = speaking.flat_map(|endpoint| {
            let gate =
                Gate::new(endpoint.config.keys.clone(), places(&endpoint.config.limits), endpoint.memory);
            Entry::names(&endpoint.config).map(move |name| (name, gate.clone()))
        });
        Intake {
            longest: limits().map(|limits| limits.body).max().unwrap_or_default() + OVERHEAD,
            patience: limits().map(|limits| limits.request_timeout).max().unwrap_or_default(),
            body_rate: body_rate.unwrap_or(Limits::default().body_rate),
            drain: served.drain.clone(),
            is_logged: served.access_log.is_some(),
            gates: gates.collect(),
            common: Gate::new(
                served.every_key(),
                limits().map(places).max().unwrap_or_default(),
                Account::unknown(),
            ),
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
    let extensions = request.extensions_mut();
    let access = if intake.is_logged { extensions.remove() } else { None };
    extensions.insert(Arrived(arrived, access));
    let headers = request.headers_mut();
    // Every client says that it understands compressed answers. They are for those that compress their
    // requests: tensors gain little by it, and it takes far longer than most models do.
    let is_packed = headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity");
    if !is_packed {
        headers.remove("grpc-accept-encoding");
    }
    let is_stream = STREAMS.contains(&request.uri().path());
    let is_deep = request.uri().path().starts_with(DEEP);
    let credentials = credential_headers(request.headers());
    let origin = request.extensions().get().copied().unwrap_or_default();
    let watched = |body| {
        Body::new(Watched { is_stream, is_deep, credentials, origin, ..Watched::new(body, intake, arrived) })
    };
    let call = next.run(request.map(watched));
    let mut answer = if is_packed {
        OffWorker(Box::pin(call)).await.map(|body| Body::new(OffWorker(body)))
    } else {
        call.await
    };
    let charge = answer.extensions_mut().remove::<Held>().and_then(|held| held.take());
    match charge {
        Some(charge) => answer.map(|body| Body::new(ChargedBody::new(body, charge))),
        None => answer,
    }
}

/// The headers that may carry a key; mostly none.
fn credential_headers(headers: &HeaderMap) -> HeaderMap {
    let named = keys::HEADERS.into_iter().filter_map(|name| Some((name, headers.get(name)?.clone())));
    named.map(|(name, value)| (HeaderName::from_static(name), value)).collect()
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
    is_stream: bool,
    /// Whether the model's name lies one message deeper.
    is_deep: bool,
    /// Of the call's head, what lets it in.
    credentials: HeaderMap,
    origin: Origin,
    /// The bytes received of the prefix of the next message.
    prefix: [u8; PREFIX],
    prefix_length: usize,
    /// Bytes of the message that are still to come, and that have come.
    left: usize,
    received: usize,
    /// Kept until the only message of a call has been handed on.
    place: Option<Place>,
    /// Since when the message is waited for: of a stream from its first piece on, else from the call's
    /// beginning.
    since: Instant,
    /// When more of it has to be there; there is none if it came at once.
    timer: Option<Pin<Box<Sleep>>>,
    /// Since when the host has not asked for more: a client need not make up for that.
    unasked: Option<Instant>,
    /// When a stream is let go.
    farewell: Option<Wait>,
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The right to arrive in pieces.
struct Place {
    gate: Arc<Gate>,
    /// Of what has come of the message, or of all that it may unpack to.
    charge: Charge,
    _arrival: Arrival,
    /// Another call gets it.
    ended: Wait,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.arriving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The model that a message is for: the first field of all messages that name one (`open_inference.proto`),
/// or the first field of that (`tensorflow_serving.proto`).
fn model_name(message: &[u8], is_deep: bool) -> Option<&str> {
    fn first(message: &[u8]) -> Option<&[u8]> {
        const FIRST: u8 = 1 << 3 | 2;
        let (&[FIRST, length], rest) = message.split_first_chunk()? else { return None };
        // Longer names have more bytes of length.
        rest.get(..usize::from(length)).filter(|_| length < 0x80)
    }
    let name = if is_deep { first(first(message)?) } else { first(message) };
    std::str::from_utf8(name?).ok()
}

impl Watched {
    fn new(body: Body, intake: Arc<Intake>, arrived: Instant) -> Watched {
        Watched {
            body,
            intake,
            is_stream: false,
            is_deep: false,
            credentials: HeaderMap::new(),
            origin: Origin::default(),
            prefix: [0; PREFIX],
            prefix_length: 0,
            left: 0,
            received: 0,
            place: None,
            since: arrived,
            timer: None,
            unasked: None,
            farewell: None,
        }
    }

    fn between_messages(&self) -> bool {
        self.prefix_length == 0 && self.left == 0
    }

    /// Follows the messages through a piece of the body.
    fn follow(&mut self, mut piece: &[u8]) -> Result<(), RequestError> {
        let mut name = None;
        while !piece.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(piece.len());
                self.left -= passed;
                self.received += passed;
                piece.advance(passed);
            } else {
                let Some(next) = self.prefix.get_mut(self.prefix_length..) else { break };
                let read = next.len().min(piece.len());
                piece.copy_to_slice(next.get_mut(..read).unwrap_or_default());
                self.prefix_length += read;
                if self.prefix_length == PREFIX {
                    self.prefix_length = 0;
                    self.received = 0;
                    if self.is_stream && self.timer.is_none() {
                        self.since = Instant::now();
                    }
                    let [is_packed, length @ ..] = self.prefix;
                    self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                    self.longest()?;
                    // Unpacked it is long however short it comes, and it is held until the call's body ends.
                    name = if is_packed == 0 { model_name(piece, self.is_deep) } else { None };
                    if is_packed != 0 && self.place.is_none() {
                        self.take_place(None)?;
                    }
                }
            }
            if self.is_stream && self.between_messages() {
                self.place = None;
                self.timer = None;
            }
        }
        if !self.between_messages() && self.place.is_none() {
            self.take_place(name)?;
        }
        let received = match self.prefix {
            // It is unpacked all at once.
            [is_packed, ..] if is_packed != 0 => {
                let length = (self.received + self.left).saturating_mul(MOST_UNPACKED);
                length.min(self.intake.longest)
            }
            _ => self.received,
        };
        match &mut self.place {
            Some(place) => place.charge.grow(received).map_err(|full| full.at(Stage::Admit)),
            None => Ok(()),
        }
    }

    fn longest(&self) -> Result<(), RequestError> {
        let longest = self.intake.longest;
        if self.left <= longest {
            return Ok(());
        }
        let message = format!("the message is longer than {longest} bytes");
        Err(RequestError::new(Code::BodyTooLarge, Stage::Admit, message))
    }

    /// Takes a place among the messages for this model.
    fn take_place(&mut self, model: Option<&str>) -> Result<(), RequestError> {
        let gate = model.and_then(|name| self.intake.gates.get(name)).unwrap_or(&self.intake.common);
        if !gate.keys.admit(|| credentials(&self.credentials)) {
            let message = "every endpoint requires a key: send `authorization: Bearer KEY`";
            return Err(RequestError::new(Code::Unauthorized, Stage::Admit, message));
        }
        let more = |arriving| (arriving < gate.most).then_some(arriving + 1);
        if gate.arriving.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            if !gate.arrivals.end_one() {
                let message = "too many messages are arriving";
                return Err(RequestError::new(Code::Overloaded, Stage::Admit, message));
            }
            gate.arriving.fetch_add(1, Ordering::Relaxed);
        }
        let arrival = gate.arrivals.begin(self.origin);
        let ended = Box::pin(arrival.ended());
        let charge = gate.memory.open();
        self.place = Some(Place { gate: gate.clone(), charge, _arrival: arrival, ended });
        Ok(())
    }

    /// Whether nothing more is waited for. Called when nothing has come.
    fn is_over(&mut self, context: &mut Context<'_>) -> Option<RequestError> {
        if self.is_stream && self.between_messages() {
            return self.is_let_go(context);
        }
        if let Some(place) = &mut self.place
            && place.ended.as_mut().poll(context).is_ready()
        {
            let message = "the message was still arriving, and others need its place";
            return Some(RequestError::new(Code::Overloaded, Stage::Admit, message));
        }
        let end = self.since + self.intake.patience;
        let due = self.intake.body_rate.deadline(self.since, self.received).min(end);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due.into())));
        if timer.deadline() != due.into() {
            timer.as_mut().reset(due.into());
        }
        timer.as_mut().poll(context).is_ready().then(|| match due < end {
            true => RequestError::new(Code::BodyTimeout, Stage::Admit, "the message came too slowly"),
            false => {
                let message = "the message took longer than a request may";
                RequestError::new(Code::RequestTimeout, Stage::Admit, message)
            }
        })
    }

    /// Gives a message the time back in which the server did not read on.
    fn resume(&mut self) {
        if let Some(since) = self.unasked.take() {
            self.since += since.elapsed();
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
        farewell.as_mut().poll(context).is_ready().then(|| RequestError::shutting_down(Stage::Admit))
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
                this.unasked = this.timer.is_some().then(Instant::now);
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
