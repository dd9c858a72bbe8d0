//! The outbound library: requests to other servers, as a component that is composed into a handler.
//!
//! Place in the flow: a handler calls `modelhost:outbound/requests` (`wit/library/outbound.wit`); the SDK
//! for Rust (`guest-sdk/src/outbound.rs`) sends, signs and sends again, through the host's `wasi:http`.
//! In:  requests, webhooks. Out: responses, and the pieces of their bodies as they come.
//! Invariant: at its end, or where it breaks off, a body gives the host's handles back, and does not wait
//! for the language of the handler to drop it.

use std::cell::RefCell;
use std::time::Duration;

use modelhost_guest::outbound as sdk;

#[allow(missing_docs, unsafe_code, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/library/outbound.wit",
        world: "library",
        pub_export_macro: true,
    });
}

use self::bindings::exports::modelhost::outbound::requests::{
    Body, Error, Guest, GuestBody, Request, Response, Webhook,
};

/// The component.
#[derive(Debug)]
pub struct Library;

impl Guest for Library {
    type Body = Pieces;

    fn send(request: Request) -> Result<Response, Error> {
        sent(request).map(Head::response)
    }

    fn send_webhook(webhook: Webhook) -> Result<Response, Error> {
        webhook_sent(webhook).map(Head::response)
    }
}

/// A response as the SDK gives it, before its body is a resource.
#[derive(Debug)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    body: Pieces,
}

impl Head {
    fn of(mut response: sdk::Response) -> Head {
        let headers = std::mem::take(&mut response.headers);
        Head { status: response.status, headers, body: Pieces(RefCell::new(Some(response))) }
    }

    fn response(self) -> Response {
        Response { status: self.status, headers: self.headers, body: Body::new(self.body) }
    }
}

/// The body of a response; none once it is over.
#[derive(Debug)]
pub struct Pieces(RefCell<Option<sdk::Response>>);

impl GuestBody for Pieces {
    fn read(&self) -> Result<Option<Vec<u8>>, Error> {
        let mut open = self.0.borrow_mut();
        let Some(response) = open.as_mut() else { return Ok(None) };
        let piece = response.read();
        if !matches!(piece, Ok(Some(_))) {
            *open = None;
        }
        piece.map_err(error)
    }
}

fn sent(request: Request) -> Result<Head, Error> {
    let Request { method, url, headers, body, timeout } = request;
    let request = sdk::Request { method, url, headers, body, timeout: milliseconds(timeout) };
    request.send().map(Head::of).map_err(error)
}

fn webhook_sent(webhook: Webhook) -> Result<Head, Error> {
    let mut to = sdk::Webhook::new(&webhook.url)
        .attempts(webhook.attempts)
        .pause(milliseconds(webhook.pause))
        .timeout(milliseconds(webhook.timeout));
    if let Some(secret) = &webhook.secret {
        to = to.signed(secret);
    }
    to.send_json(webhook.json).map(Head::of).map_err(error)
}

fn milliseconds(count: u32) -> Duration {
    Duration::from_millis(count.into())
}

fn error(error: sdk::OutboundError) -> Error {
    match error {
        sdk::OutboundError::Denied => Error::Denied,
        sdk::OutboundError::Prohibited => Error::Prohibited,
        sdk::OutboundError::Invalid(text) => Error::Invalid(text),
        sdk::OutboundError::TimedOut => Error::TimedOut,
        sdk::OutboundError::Failed(text) => Error::Failed(text),
        // Bodies are read in pieces here, so none is too long.
        sdk::OutboundError::TooLong => Error::Failed(error.to_string()),
        sdk::OutboundError::Status(status) => Error::Status(status),
    }
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "generated")]
mod component {
    use super::{Library, bindings};

    bindings::export!(Library with_types_in bindings);
}

#[cfg(test)]
mod tests;
