//! `wasi:http` of one instance, as its store holds it: what the guest holds and sends.
//!
//! Place in the flow: the store's state makes it when the guest first asks for any of it;
//! [`wasi_http`](super::wasi_http) works on it.
//! Invariant: nothing that the guest holds is of any length: its headers together have a limit ([`held`]).

mod held;
mod logged;
mod response;

use std::sync::Arc;

use http_body_util::BodyExt as _;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::p2::body::{HostOutgoingBody, StreamContext};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

pub(super) use self::response::GuestResponse;
use super::host_call_log::HostCallLog;
use crate::outbound::{self, BodyError, Outbound, OutboundError, Patience};
use crate::request::exchange::{BUFFERED_PIECES, PIECE_SIZE};
use crate::trace::RequestTrace;

/// Most bytes of one set of headers, by their form in memory.
const FIELDS_SIZE: usize = 128 << 10;
/// Bodies of an instance that have room for as many pieces as one has that is sent. A guest may write to any
/// number of bodies that it never sends, and their pieces are the host's memory.
const ROOMY_BODIES: usize = 32;
/// The size of the one piece that others have room for.
const SMALL_PIECE_SIZE: usize = 4 << 10;

/// The state of `wasi:http` in one instance.
pub(super) struct Http {
    pub(super) context: WasiHttpCtx,
    pub(super) hooks: Hooks,
    pub(super) held: held::Held,
    pub(super) response: GuestResponse,
}

pub(super) struct Hooks {
    outbound: Option<Arc<Outbound>>,
    is_allowed: bool,
    log: Option<Arc<HostCallLog>>,
    /// The trace that requests to others continue.
    trace: Option<Arc<RequestTrace>>,
    /// Bodies that the guest has begun.
    bodies: usize,
}

impl Http {
    pub(super) fn new(outbound: Option<Arc<Outbound>>) -> Http {
        let mut context = WasiHttpCtx::new();
        context.set_field_size_limit(FIELDS_SIZE);
        let hooks = Hooks { outbound, is_allowed: false, log: None, trace: None, bodies: 0 };
        Http { context, hooks, held: held::Held::default(), response: GuestResponse::default() }
    }

    /// The thing that the guest holds too much of.
    pub(super) fn excess(&self) -> Option<String> {
        self.held.excess()
    }

    /// Whether the guest has ended the body of the response that it may have set. It does no more.
    pub(super) fn settle(&self) -> bool {
        self.response.settle().is_ok()
    }

    /// A request begins, and the guest holds so many of the host's resources still.
    pub(super) fn begin(&mut self, held: usize) {
        if held < ROOMY_BODIES {
            self.hooks.bodies = 0;
        }
    }

    /// Whether requests to others are sent, and which log knows of them.
    pub(super) fn allow_outbound(&mut self, is_allowed: bool, log: Option<&Arc<HostCallLog>>) {
        self.hooks.is_allowed = is_allowed;
        // Comparing is cheaper than counting.
        if self.hooks.log.as_ref().map(Arc::as_ptr) != log.map(Arc::as_ptr) {
            self.hooks.log = log.cloned();
        }
    }
}

impl Hooks {
    /// Requests to others continue this trace.
    pub(super) fn continue_trace(&mut self, trace: Option<&Arc<RequestTrace>>) {
        // Comparing is cheaper than counting.
        if self.trace.as_ref().map(Arc::as_ptr) != trace.map(Arc::as_ptr) {
            self.trace = trace.cloned();
        }
    }
}

/// The result of [`WasiHttpHooks::send_request`].
type Sent = Result<(http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let outbound = self.outbound.clone().filter(|_| self.is_allowed);
        let patience = options.map_or_else(Patience::default, |options| Patience {
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        });
        let request = request.map(|body| body.map_err(|error| error.to_string().into()).boxed_unsync());
        let trace = self.trace.clone();
        match self.log.clone() {
            None => Box::new(received(sent(outbound, request, patience, trace))),
            Some(log) => {
                let live = |request| sent(outbound, request, patience, trace);
                Box::new(received(logged::send(log, request, live)))
            }
        }
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        self.bodies += 1;
        if self.bodies > ROOMY_BODIES { 1 } else { BUFFERED_PIECES }
    }

    /// Asked after the number of chunks.
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        if self.bodies > ROOMY_BODIES { SMALL_PIECE_SIZE } else { PIECE_SIZE }
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        PIECE_SIZE
    }
}

/// Sends a request to where it may go.
async fn sent(
    outbound: Option<Arc<Outbound>>,
    mut request: http::Request<outbound::Body>,
    patience: Patience,
    trace: Option<Arc<RequestTrace>>,
) -> logged::Answer {
    // After the log, which compares what the handler itself has sent.
    if let Some(context) = trace.as_ref().and_then(|trace| trace.context()) {
        outbound::stamp(request.headers_mut(), context);
    }
    match outbound {
        Some(outbound) => outbound.send(request, patience).await,
        None => Err(OutboundError::Denied),
    }
}

/// The response as a guest gets it.
async fn received(response: impl Future<Output = logged::Answer>) -> Sent {
    let response = response.await.map_err(outbound_error)?;
    let response = response.map(|body| {
        let broken = |error: BodyError| match error.downcast_ref() {
            Some(OutboundError::TimedOut) => Error::ConnectionReadTimeout,
            _ => Error::HttpResponseIncomplete,
        };
        body.map_err(broken).boxed_unsync()
    });
    let done: Box<dyn Future<Output = Result<(), Error>> + Send> = Box::new(async { Ok(()) });
    Ok((response, done))
}

fn outbound_error(error: OutboundError) -> Error {
    match error {
        OutboundError::Denied => Error::HttpRequestDenied,
        OutboundError::Prohibited => Error::DestinationIpProhibited,
        OutboundError::Name => Error::DnsError { rcode: None, info_code: None },
        OutboundError::TooMany => Error::ConnectionLimitReached,
        OutboundError::TimedOut => Error::HttpResponseTimeout,
        OutboundError::Certificate => Error::TlsCertificateError,
        OutboundError::Refused => Error::ConnectionRefused,
        OutboundError::Broken => Error::ConnectionTerminated,
    }
}

/// Breaks the bodies off that a guest which is no more was still writing. Merely dropped, one ends as if it
/// were whole.
pub(super) fn abort_bodies(table: &mut ResourceTable) {
    for body in table.iter_mut().filter_map(|entry| entry.downcast_mut::<HostOutgoingBody>()) {
        let (ended, _) = HostOutgoingBody::new(StreamContext::Request, None, 1, 1);
        std::mem::replace(body, ended).abort();
    }
}
