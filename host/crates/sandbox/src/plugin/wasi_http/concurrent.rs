//! `wasi:http` 0.3: a handler whose bodies are streams, and which goes on after it has returned its response.
//!
//! Place in the flow: [`Lease::handle`](crate::plugin::Lease::handle) for a component that exports
//! `wasi:http/handler`. In and out: as in [`super`]. The call has ended when every task of the guest has, and
//! what it has sent is with the connection, or in the buffer before that.
//! Invariants: one request at a time in an instance, so that a trap is that of one request; a response ends
//! properly only if the guest ended its body, and the request's body, if the guest has read it, had its end:
//! of a stream that is cut off a guest sees the end, and learns why only if it asks.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use http::header;
use http::uri::{Authority, Scheme};
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;
use wasmtime::Store;
use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime_wasi_http::p3::Request as GuestRequest;
use wasmtime_wasi_http::p3::bindings::http::types::{HostRequest as _, Method};
use wasmtime_wasi_http::p3::bindings::http::{client, types};
use wasmtime_wasi_http::{Error, WasiBody, WasiHttp, WasiHttpView as _};

use super::{LONGEST_METHOD, OF_A_HEAD, STATUSES, bound, is_too_long, keep_own_headers, keep_own_trailers};
use crate::error::{Code, RequestError};
use crate::plugin::bindings::CONCURRENT_HTTP_TYPES;
use crate::plugin::exchange::{Clocks, STAGE, broken_contract};
use crate::plugin::handler_context::HandlerContext;
use crate::plugin::instance::Instance;
use crate::plugin::state::State;
use crate::plugin::wasi_http_bindings::handler;
use crate::request::Request;
use crate::request::exchange::{Exchange, Pieces};
use crate::text;

/// Links `wasi:http/types` and `wasi:http/client`.
pub(in crate::plugin) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, WasiHttp>(linker, State::http)?;
    linker.allow_shadowing(true);
    bound_requests(linker)?;
    linker.allow_shadowing(false);
    client::add_to_linker::<_, WasiHttp>(linker, State::http)
}

/// The same as in [`super`] for requests of `wasi:http` 0.3.
fn bound_requests(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut types = linker.instance(CONCURRENT_HTTP_TYPES)?;
    bound::<GuestRequest, Method>(
        &mut types,
        "[method]request.set-method",
        |method| matches!(method, Method::Other(name) if name.len() > LONGEST_METHOD),
        |state, request, method| state.http().set_method(request, method),
    )?;
    bound::<GuestRequest, _>(
        &mut types,
        "[method]request.set-authority",
        is_too_long,
        |state, request, authority| state.http().set_authority(request, authority),
    )
}

impl Instance {
    /// Calls `handler.handle`; `None` if the handler has none.
    pub(super) async fn handle_concurrently(
        &mut self,
        request: &Arc<Request>,
        exchange: &Exchange,
        digest: &Arc<str>,
    ) -> Option<Result<(), RequestError>> {
        let guest = self.exports.concurrent_http.as_ref()?;
        let incoming = match incoming(&mut self.store, request, exchange) {
            Ok(incoming) => incoming,
            Err(error) => return Some(Err(self.fault(error, STAGE))),
        };
        if let Some(log) = &self.store.data().log {
            log.spoil("the order in which the tasks of `wasi:http` 0.3 went on");
        }
        let clocks = Clocks::begin(&mut self.store, request, exchange, 0);
        let loaded = self.store.data().loaded.clone();
        let call = Call { guest, loaded: &loaded, exchange, digest };
        let run = self.store.run_concurrent(async |accessor| call.serve(accessor, incoming).await);
        let ended = clocks.run(pin!(run)).await;
        let ended = self.disarm(STAGE).and_then(|()| match ended {
            Ok(ended) => ended.and_then(|it| it).unwrap_or_else(|error| Err(self.fault(error, STAGE))),
            Err(over) => Err(over.error(&loaded.config.limits)),
        });
        self.store.data_mut().response = None;
        Some(ended)
    }
}

/// The guest's handle of the request.
fn incoming(
    store: &mut Store<State>,
    request: &Request,
    exchange: &Exchange,
) -> wasmtime::Result<Resource<GuestRequest>> {
    let (head, body) = super::incoming(store, request, exchange)?.into_parts();
    let uri = head.uri.into_parts();
    // What is no authority is none, as in a request of HTTP/1.0.
    let host = head.headers.get(header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let scheme = if exchange.is_secure { Scheme::HTTPS } else { Scheme::HTTP };
    let mut incoming = http::Request::new(body);
    *incoming.method_mut() = head.method;
    *incoming.headers_mut() = head.headers;
    let view = store.data_mut().http();
    let (mut incoming, _) = GuestRequest::from_http(view.hooks, incoming);
    incoming.scheme = Some(scheme);
    incoming.authority = uri.authority.or(host);
    incoming.path_with_query = uri.path_and_query;
    Ok(view.table.push(incoming)?)
}

/// One call, as it is while the guest's tasks run.
struct Call<'a> {
    guest: &'a handler::Guest,
    loaded: &'a HandlerContext,
    exchange: &'a Exchange,
    digest: &'a Arc<str>,
}

/// How the body of a response ended.
enum Sent {
    Whole,
    /// The connection takes no more.
    Dropped,
    /// The guest says why it has no end.
    Broken(Error),
}

impl Call<'_> {
    /// Has the guest serve the request, until none of its tasks is left.
    ///
    /// # Errors
    /// A trap, or what the guest gives that cannot be read.
    async fn serve(
        &self,
        accessor: &Accessor<State>,
        incoming: Resource<GuestRequest>,
    ) -> wasmtime::Result<Result<(), RequestError>> {
        let response = match self.guest.call_handle(accessor, incoming).await? {
            Ok(response) => response,
            Err(code) => return Ok(Err(self.cut_off().unwrap_or_else(|| failed(format!("{code:?}"))))),
        };
        let (delivered, delivery) = oneshot::channel();
        let delivery = async { delivery.await.unwrap_or(Ok(())) };
        let response = accessor.with(|mut access| {
            let response = access.data_mut().http().table.delete(response)?;
            response.into_http(access, delivery)
        })?;
        let (mut head, body) = response.into_parts();
        let status = head.status.as_u16();
        if !STATUSES.contains(&status) {
            let fault = format!("the status of the response is {status}, expected 200 to 599");
            return Ok(Err(broken_contract(&fault)));
        }
        if let Some(error) = self.cut_off() {
            return Ok(Err(error));
        }
        if let Err(fault) = keep_own_headers(&mut head.headers, self.loaded, &OF_A_HEAD) {
            return Ok(Err(broken_contract(&fault)));
        }
        let pieces = self.exchange.respond_as_it_comes(head, self.digest.clone());
        let sent = self.send(body, &pieces).await;
        let ended = match (sent, self.cut_off()) {
            (Sent::Whole, Some(error)) => Err(error),
            (Sent::Broken(error), _) => Err(failed(error.to_string())),
            (Sent::Whole, None) => {
                pieces.end().await;
                let _ = delivered.send(Ok(()));
                Ok(())
            }
            (Sent::Dropped, _) => {
                // A connection asks for no more than was announced, of a response to `HEAD` for nothing.
                let is_gone = self.exchange.progress().is_gone();
                let _ = delivered.send(if is_gone { Err(Error::ConnectionTerminated) } else { Ok(()) });
                Ok(())
            }
        };
        // What has no end breaks off now.
        drop(pieces);
        if ended.is_ok() {
            poll_fn(|context| accessor.poll_no_interesting_tasks(context)).await;
        }
        Ok(ended)
    }

    /// Passes the frames of a body on. The proper end is not among them.
    async fn send(&self, body: WasiBody, pieces: &Pieces) -> Sent {
        let mut body = pin!(body);
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = pieces.closed() => return Sent::Dropped,
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Sent::Broken(error),
                None => return Sent::Whole,
            };
            let is_taken = match frame.into_data() {
                Ok(bytes) => pieces.send(bytes).await,
                // They are as good as an end.
                Err(_) if self.cut_off().is_some() => return Sent::Whole,
                Err(frame) => match frame.into_trailers() {
                    Ok(mut trailers) => {
                        keep_own_trailers(&mut trailers, self.loaded);
                        pieces.trailers(trailers).await
                    }
                    Err(_) => true,
                },
            };
            if !is_taken {
                return Sent::Dropped;
            }
        }
    }

    /// The error of an exchange whose request broke off while the guest read it.
    fn cut_off(&self) -> Option<RequestError> {
        let is_cut_off = self.exchange.progress().is_cut_off();
        is_cut_off.then(|| RequestError::invalid(STAGE, "the body of the request broke off".to_owned()))
    }
}

fn failed(why: String) -> RequestError {
    RequestError::new(Code::PluginError, STAGE, "the handler failed").with_detail(text::cut(why))
}
