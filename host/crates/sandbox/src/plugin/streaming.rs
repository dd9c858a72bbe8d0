//! `respond`, `streaming` and `request`: an application that was built with an SDK.
//!
//! Place in the flow: `pipeline` calls [`Lease::handle`](super::Lease::handle) for a request to an
//! application. In: an [`Exchange`] whose body is there. Out: the response, whole or in pieces; what the call
//! itself ended in.
//! Invariants: a response that has begun and is not finished breaks off; a handle of it is good for its own
//! request only, although the instance serves others after.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::bindings::exports::modelhost::handler::respond;
use super::bindings::modelhost::handler::{request, streaming, types};
use super::context::Context;
use super::convert;
use super::exchange::{Clocks, STAGE, UNANSWERED, UNFINISHED, broken_contract};
use super::host_call_log::HostCallResult;
use super::instance::Instance;
use super::staged::Outcome;
use super::state::State;
use super::streaming_state::{Output, Sent, Streaming};
use crate::blocking;
use crate::error::RequestError;
use crate::request::exchange::{Exchange, Phase, Progress};
use crate::request::{Input, Request, Response};

impl Instance {
    /// Calls `respond`; `None` if the handler has none.
    pub(super) async fn respond(
        &mut self,
        request: &Arc<Request>,
        exchange: &Exchange,
        digest: &Arc<str>,
    ) -> Option<Result<(), RequestError>> {
        let guest = self.exports.respond.as_ref()?;
        let output = self.store.data_mut().streaming.begin(digest);
        let clocks = Clocks::begin(&mut self.store, request, exchange, request.body().len());
        let sample = respond::Sample { content_type: request.sample_type(), body: request.body() };
        let ended =
            clocks.run(pin!(guest.call_respond(&mut self.store, sample, Context::handle(), output))).await;
        // What has not been finished breaks off here.
        let sent = std::mem::take(&mut self.store.data_mut().streaming.sent);
        let ended = match ended {
            Ok(ended) => self.responded(ended, &sent, exchange, digest),
            Err(over) => Err(self.out_of_time(over)),
        };
        self.store.data_mut().response = None;
        Some(ended)
    }

    fn responded(
        &self,
        ended: Result<Result<Option<types::Response>, types::Error>>,
        sent: &Sent,
        exchange: &Exchange,
        digest: &Arc<str>,
    ) -> Result<(), RequestError> {
        let convert = |response: Option<types::Response>| response.map(|it| self.response(it)).transpose();
        let response = match self.settled(Some(ended), STAGE, convert)? {
            Outcome::Next(response) => response,
            Outcome::Respond(response) => Some(response),
        };
        match (response, sent) {
            (Some(response), Sent::Nothing) => {
                exchange.respond_whole(response, digest.clone()).map_err(|full| full.at(STAGE))
            }
            (Some(_), _) => Err(broken_contract("the handler returned a response after it had sent one")),
            (None, Sent::All) => Ok(()),
            (None, Sent::Head(_)) => Err(broken_contract(UNFINISHED)),
            (None, Sent::Nothing) => Err(broken_contract(UNANSWERED)),
        }
    }
}

impl State {
    /// The response that a handle is of.
    ///
    /// # Errors
    /// The handle is that of an earlier request.
    fn streaming(&mut self, output: &Resource<Output>) -> Result<&mut Streaming> {
        if output.rep() == self.streaming.number && self.streaming.is_held {
            return Ok(&mut self.streaming);
        }
        Err(wasmtime::Error::msg("the handle is that of an earlier request's response"))
    }

    fn checked(&self, response: types::Response) -> Result<Response, String> {
        convert::response_from_guest(response, &self.loaded.config.response_headers)
    }

    /// The exchange that the response belongs to, and the handler that gives it.
    fn exchange(&self) -> Option<(&Exchange, Arc<str>)> {
        match &self.request.as_ref()?.input {
            Input::Exchange(exchange) => Some((&**exchange, self.streaming.digest.clone()?)),
            Input::Body(..) | Input::Tensors(_) | Input::Socket(_) => None,
        }
    }
}

const BEGUN: &str = "the response has begun already";

impl streaming::Host for State {}

impl streaming::HostOutput for State {
    fn begin(
        &mut self,
        output: Resource<Output>,
        status: u16,
        content_type: String,
        headers: Vec<(String, String)>,
    ) -> Result<Result<(), String>> {
        if !matches!(self.streaming(&output)?.sent, Sent::Nothing) {
            return Ok(Err(BEGUN.to_owned()));
        }
        let response = types::Response { status, content_type, headers, body: Vec::new() };
        Ok(self.checked(response).map(|response| {
            let begun =
                self.exchange().map(|(exchange, digest)| exchange.respond_in_pieces(&response, digest));
            self.streaming.sent = begun.map_or(Sent::All, Sent::Head);
        }))
    }

    async fn write(&mut self, output: Resource<Output>, bytes: Vec<u8>) -> Result<bool> {
        let Sent::Head(pieces) = &self.streaming(&output)?.sent else {
            return Err(wasmtime::Error::msg("`write` before `begin`"));
        };
        blocking::leave_worker_if_large(bytes.len());
        Ok(pieces.send(Bytes::from(bytes)).await)
    }

    async fn finish(&mut self, this: Resource<Output>) -> Result<()> {
        let streaming = self.streaming(&this)?;
        streaming.is_held = false;
        if let Sent::Head(pieces) = &streaming.sent {
            pieces.end().await;
            streaming.sent = Sent::All;
        }
        Ok(())
    }

    fn send(&mut self, this: Resource<Output>, response: types::Response) -> Result<Result<(), String>> {
        let streaming = self.streaming(&this)?;
        streaming.is_held = false;
        if !matches!(streaming.sent, Sent::Nothing) {
            return Ok(Err(BEGUN.to_owned()));
        }
        let sent = self.checked(response).and_then(|response| {
            let Some((exchange, digest)) = self.exchange() else { return Ok(()) };
            let sent = exchange.respond_whole(response, digest);
            sent.map_err(|_| "the server has no memory for the response now".to_owned())
        });
        if sent.is_ok() {
            self.streaming.sent = Sent::All;
        }
        Ok(sent)
    }

    fn drop(&mut self, output: Resource<Output>) -> Result<()> {
        // One that was kept from an earlier request has nothing behind it any more.
        if output.rep() == self.streaming.number {
            self.streaming.is_held = false;
        }
        Ok(())
    }
}

/// The client's going, as the guest waits for it.
struct Disconnect(Option<Arc<Progress>>);

#[wasmtime_wasi::async_trait]
impl Pollable for Disconnect {
    async fn ready(&mut self) {
        match &self.0 {
            Some(progress) => progress.gone().await,
            // Outside of a request there is no client to wait for.
            None => std::future::pending().await,
        }
    }
}

impl request::Host for State {
    fn id(&mut self) -> String {
        self.request.as_ref().map(|request| request.id.to_string()).unwrap_or_default()
    }

    fn metadata(&mut self) -> String {
        self.loaded.config.metadata.to_string()
    }

    fn remaining(&mut self) -> Option<u64> {
        let Some(log) = &self.log else { return self.time_left() };
        let wanted = |draw: &HostCallResult| match draw {
            HostCallResult::Remaining(left) => Some(*left),
            _ => None,
        };
        log.tapped("the time that is left", wanted, || self.time_left(), HostCallResult::Remaining).flatten()
    }

    fn is_disconnected(&mut self) -> bool {
        let is_gone = || self.response.as_ref().is_some_and(|response| response.is_gone());
        let Some(log) = &self.log else { return is_gone() };
        let wanted = |draw: &HostCallResult| match draw {
            HostCallResult::Disconnected(is_gone) => Some(*is_gone),
            _ => None,
        };
        let told = log.tapped("whether the client is gone", wanted, is_gone, HostCallResult::Disconnected);
        told.unwrap_or_default()
    }

    fn on_disconnect(&mut self) -> Result<Resource<DynPollable>> {
        let disconnect = Disconnect(self.response.clone());
        let disconnect = self.table().push(disconnect)?;
        let gone = subscribe(self.table(), disconnect)?;
        Ok(self.timer(gone))
    }
}

impl State {
    /// Milliseconds until the head of the response has to be there; `None` once it is.
    fn time_left(&self) -> Option<u64> {
        let is_open = self.response.as_ref().is_some_and(|response| response.phase() == Phase::Head);
        let deadline = self.request.as_ref().filter(|_| is_open)?.deadline;
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
