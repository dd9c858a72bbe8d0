//! `wasi:http`: a handler that is a whole application.
//!
//! Place in the flow: `pipeline` calls [`Lease::handle`](super::Lease::handle) for a request to an
//! application. In: an [`Exchange`], whose body the guest reads as it comes. Out: the response, which leaves
//! as the guest makes it; what the call itself ended in.
//! Invariants: a guest that ends without ending its body breaks the response off; head and trailers have what
//! the handler may set, and nothing else. What the guest holds of the host goes with the call.

pub(super) mod concurrent;
mod reuse;

use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapErr;
use wasmtime::component::{Lift, Linker, LinkerInstance, Resource};
use wasmtime::{Store, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::http as wasi;
use wasmtime_wasi_http::p2::bindings::http::types::{
    ErrorCode, Host as _, HostOutgoingRequest as _, IoError, Method, OutgoingRequest, Scheme,
};
use wasmtime_wasi_http::p2::types::{HostIncomingRequest, HostResponseOutparam};
use wasmtime_wasi_http::{Error, WasiHttp, WasiHttpCtxView, WasiHttpView};

use super::bindings::HTTP_TYPES;
use super::exchange::{Clocks, STAGE, UNANSWERED, UNFINISHED, broken_contract};
use super::handler_context::HandlerContext;
use super::headers::{self, Owner};
use super::instance::Instance;
use super::state::State;
use super::wasi_http_state::GuestResponse;
use crate::error::{Code, RequestError};
use crate::keys;
use crate::memory::Exhausted;
use crate::request::exchange::{BodyStream, BrokenBody, Exchange, Phase};
use crate::request::{Input, Request};
use crate::text;

/// Longest method of a request that a guest makes. Those that are registered have at most 17 bytes.
const LONGEST_METHOD: usize = 64;
/// Longest authority of one: a name of a host has at most 253 bytes. Paths have 64 KiB, schemes 64 bytes.
const LONGEST_AUTHORITY: usize = 1 << 10;
/// Status codes of a response. Those below are for the connection to send.
const STATUSES: RangeInclusive<u16> = 200..=599;
/// Headers by which a guest describes the body of its response.
const OF_A_HEAD: [HeaderName; 3] = [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::TRAILER];
/// Stands in for the authority that a request of HTTP/1.0 need not name.
const NO_AUTHORITY: &str = "localhost";

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let (http, table) = self.http_and_table();
        http.held.called(table);
        WasiHttpCtxView { hooks: &mut http.hooks, table, ctx: &mut http.context }
    }
}

/// Links `wasi:http/types` and `wasi:http/outgoing-handler`.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasi::types::add_to_linker::<_, WasiHttp>(linker, &wasi::types::LinkOptions::default(), State::http)?;
    linker.allow_shadowing(true);
    bound_requests(linker)?;
    error_codes(linker)?;
    linker.allow_shadowing(false);
    wasi::outgoing_handler::add_to_linker::<_, WasiHttp>(linker, State::http)
}

/// Replaces the functions by which a request takes text that wasmtime sets no limit to.
fn bound_requests(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut types = linker.instance(HTTP_TYPES)?;
    bound::<OutgoingRequest, Method>(
        &mut types,
        "[method]outgoing-request.set-method",
        |method| matches!(method, Method::Other(name) if name.len() > LONGEST_METHOD),
        |state, request, method| state.http().set_method(request, method),
    )?;
    bound::<OutgoingRequest, _>(
        &mut types,
        "[method]outgoing-request.set-authority",
        is_too_long,
        |state, request, authority| state.http().set_authority(request, authority),
    )
}

/// One of wasmtime's functions that take part of a request.
type Setter<R, P> = fn(&mut State, Resource<R>, P) -> wasmtime::Result<Result<(), ()>>;

/// Replaces a function that takes part of a request by one that refuses what is too long.
fn bound<R: 'static, P: Lift + 'static>(
    types: &mut LinkerInstance<'_, State>,
    name: &str,
    is_too_long: fn(&P) -> bool,
    set: Setter<R, P>,
) -> wasmtime::Result<()> {
    types.func_wrap(name, move |mut store: StoreContextMut<'_, State>, (request, part): (Resource<R>, P)| {
        if is_too_long(&part) {
            return Ok((Err(()),));
        }
        Ok((set(store.data_mut(), request, part)?,))
    })
}

/// Of an authority.
fn is_too_long(authority: &Option<String>) -> bool {
    authority.as_ref().is_some_and(|authority| authority.len() > LONGEST_AUTHORITY)
}

/// Replaces the function that says why a body has no end: wasmtime's finds no reason, since the body's error
/// is of a type other than the one that it looks for.
fn error_codes(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.instance(HTTP_TYPES)?.func_wrap(
        "http-error-code",
        |mut store: StoreContextMut<'_, State>, (failed,): (Resource<IoError>,)| {
            let mut http = store.data_mut().http();
            let code = match http.table.get(&failed)?.downcast_ref() {
                Some(Error::ConnectionReadTimeout) => Some(ErrorCode::ConnectionReadTimeout),
                Some(Error::HttpResponseIncomplete) => Some(ErrorCode::HttpResponseIncomplete),
                _ => http.http_error_code(failed)?,
            };
            Ok((code,))
        },
    )
}

fn body_error(broken: BrokenBody) -> Error {
    match broken {
        BrokenBody::Incomplete => Error::ConnectionTerminated,
        BrokenBody::TooLong(most) => Error::HttpRequestBodySize(Some(most)),
    }
}

impl Instance {
    /// Calls `incoming-handler.handle`, or that of `wasi:http` 0.3; `None` if the handler has neither.
    pub(super) async fn handle(
        &mut self,
        request: &Arc<Request>,
        exchange: &Exchange,
        digest: &Arc<str>,
    ) -> Option<Result<(), RequestError>> {
        let Some(guest) = self.exports.http.as_ref() else {
            return Box::pin(self.handle_concurrently(request, exchange, digest)).await;
        };
        let (incoming, outparam) = match resources(&mut self.store, request, exchange, digest) {
            Ok(resources) => resources,
            Err(error) => return Some(Err(self.fault(error, STAGE))),
        };
        let clocks = Clocks::begin(&mut self.store, request, exchange, 0);
        let ended = clocks.run(pin!(guest.call_handle(&mut self.store, incoming, outparam))).await;
        let ended = match ended {
            Ok(ended) => self.handled(ended, exchange),
            Err(over) => Err(self.out_of_time(over)),
        };
        if ended.is_ok() {
            // Settled: it is not to be broken off when the instance goes.
            self.store.data_mut().response = None;
        }
        Some(ended)
    }

    fn handled(&mut self, ended: wasmtime::Result<()>, exchange: &Exchange) -> Result<(), RequestError> {
        self.disarm(STAGE)?;
        if let Err(error) = ended {
            return Err(self.fault(error, STAGE));
        }
        let http = self.store.data_mut().http_and_table().0;
        if exchange.progress().phase() == Phase::Head {
            return Err(match (http.response.fault(), exchange.refusal()) {
                (Some(fault), _) => broken_contract(&fault),
                (None, Some(text)) => RequestError::new(Code::PluginError, STAGE, "the handler failed")
                    .with_detail(text::cut(text)),
                (None, None) => broken_contract(UNANSWERED),
            });
        }
        if http.settle() {
            return Ok(());
        }
        exchange.progress().break_off();
        match http.response.is_refused() {
            true => Err(Exhausted.at(STAGE)),
            false => Err(broken_contract(UNFINISHED)),
        }
    }
}

/// The body of a request, with errors that the guest knows.
type IncomingBody = MapErr<BodyStream, fn(BrokenBody) -> Error>;

/// The request of an exchange, with what of it the guest may see.
fn incoming(
    store: &mut Store<State>,
    request: &Request,
    exchange: &Exchange,
) -> wasmtime::Result<http::Request<IncomingBody>> {
    let Some(mut incoming) = exchange.take_request(&*request.head) else {
        return Err(wasmtime::Error::msg("the request was taken before"));
    };
    if store.data().loaded.config.hides_credentials {
        let secret = incoming.headers().keys().filter(|name| keys::is_credential(name.as_str()));
        for name in secret.cloned().collect::<Vec<_>>() {
            incoming.headers_mut().remove(name);
        }
    }
    Ok(incoming.map(|body| body.map_err(body_error as fn(BrokenBody) -> Error)))
}

/// The guest's handles for an exchange.
fn resources(
    store: &mut Store<State>,
    request: &Arc<Request>,
    exchange: &Exchange,
    digest: &Arc<str>,
) -> wasmtime::Result<(Resource<HostIncomingRequest>, Resource<HostResponseOutparam>)> {
    let mut incoming = incoming(store, request, exchange)?;
    let state = store.data_mut();
    let loaded = state.loaded.clone();
    if incoming.uri().authority().is_none() && !incoming.headers().contains_key(header::HOST) {
        incoming.headers_mut().insert(header::HOST, HeaderValue::from_static(NO_AUTHORITY));
    }
    let scheme = if exchange.is_secure { Scheme::Https } else { Scheme::Http };
    let incoming = state.http().new_incoming_request(scheme, incoming)?;
    let (request, digest) = (request.clone(), digest.clone());
    let http = state.http_and_table().0;
    http.response = GuestResponse::default();
    let guest = http.response.clone();
    let outparam = state.http().new_response_outparam_from_callback(move |made| {
        let Input::Exchange(exchange) = &request.input else { return };
        match made {
            Ok(response) if !STATUSES.contains(&response.status().as_u16()) => {
                let status = response.status().as_u16();
                guest.reject(format!("the status of the response is {status}, expected 200 to 599"));
            }
            Ok(response) => {
                let (mut head, body) = response.into_parts();
                if let Err(fault) = keep_own_headers(&mut head.headers, &loaded, &OF_A_HEAD) {
                    return guest.reject(fault);
                }
                let body = body.map_err(|_| BrokenBody::Incomplete).map_frame(move |mut frame| {
                    if let Some(trailers) = frame.trailers_mut() {
                        keep_own_trailers(trailers, &loaded);
                    }
                    frame
                });
                exchange.respond(
                    head,
                    guest.begin(body.boxed_unsync(), exchange.memory()).boxed_unsync(),
                    digest,
                );
            }
            Err(code) => exchange.refuse(format!("{code:?}")),
        }
    })?;
    Ok((incoming, outparam))
}

/// Takes out of a response's headers those that are not the handler's to set; the log names those that a
/// grant would keep. `framing`: those of the connection that it may set all the same.
///
/// # Errors
/// Text that names the header without which the body cannot be read.
fn keep_own_headers(
    headers: &mut HeaderMap,
    loaded: &HandlerContext,
    framing: &[HeaderName],
) -> Result<(), String> {
    let granted = &loaded.config.response_headers;
    let is_kept = |name: &HeaderName| match headers::owner(name.as_str()) {
        Owner::Handler => true,
        Owner::Operator => granted.iter().any(|granted| name.as_str() == granted),
        Owner::Connection => framing.contains(name),
        Owner::Server => false,
    };
    let lost: Vec<HeaderName> = headers.keys().filter(|name| !is_kept(name)).cloned().collect();
    for name in lost {
        let is_packed = name == header::CONTENT_ENCODING
            && headers
                .get_all(&name)
                .iter()
                .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        headers.remove(&name);
        if is_packed {
            return Err(format!(
                "the body of the response is packed, which only the header `{name}` tells, and its endpoint does \
                 not grant it: `response_headers`"
            ));
        }
        if headers::owner(name.as_str()) == Owner::Operator {
            loaded.left_out.name(name.as_str(), &loaded.config.endpoint);
        }
    }
    Ok(())
}

/// The same of what follows a body.
fn keep_own_trailers(trailers: &mut HeaderMap, loaded: &HandlerContext) {
    // It is too late to say how the body is packed.
    trailers.remove(header::CONTENT_ENCODING);
    let _ = keep_own_headers(trailers, loaded, &[]);
}
