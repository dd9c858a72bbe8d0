//! Exchanges that come by no connection: a request that is made once more, or is a job, and its response as a
//! whole.
//!
//! Place in the flow: for runs of an application beside those of clients: of a gate, a shadow, a replay, a
//! job. In: a head and a body. Out: an [`Exchange`] for the run, and its response.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::kept::{KEPT, plain};
use super::{BrokenBody, Client, Exchange};
use crate::request::{self, Response};
use crate::text;

/// A response of which all is here.
pub struct WholeResponse {
    /// Status and headers.
    pub head: http::response::Parts,
    /// The body.
    pub body: Bytes,
    /// SHA-256 of the handler, in hex.
    pub digest: Arc<str>,
}

/// A head as an exchange has it. What of it HTTP does not allow is left out.
pub fn head(head: &dyn request::Head) -> super::Head {
    let mut request = http::Request::new(());
    *request.method_mut() = http::Method::from_bytes(head.method().as_bytes()).unwrap_or_default();
    let target = match head.query() {
        "" => head.path().to_owned(),
        query => format!("{}?{query}", head.path()),
    };
    *request.uri_mut() = target.parse().unwrap_or_default();
    for (name, value) in head.headers() {
        let value = text::latin1(value).and_then(|value| http::HeaderValue::from_bytes(&value).ok());
        let pair = name.parse::<http::HeaderName>().ok().zip(value);
        if let Some((name, value)) = pair {
            // More than there may be is left out.
            let _ = request.headers_mut().try_append(name, value);
        }
    }
    request
}

impl Exchange {
    /// Both ends of an exchange with this request.
    pub fn of(head: &dyn request::Head, body: Bytes, is_secure: bool) -> (Exchange, Client) {
        let method = http::Method::from_bytes(head.method().as_bytes()).unwrap_or_default();
        let (exchange, client) = Exchange::new(&method, is_secure);
        exchange.begin_with(head, body);
        (exchange, client)
    }

    /// The request, whose body is here.
    pub fn begin_with(&self, own: &dyn request::Head, body: Bytes) {
        self.begin(head(own).map(|()| Full::new(body).map_err(|never| match never {}).boxed_unsync()));
    }
}

impl Client {
    /// The response as a whole; `None` if there will be none.
    ///
    /// # Errors
    /// It breaks off, or has more than `most` bytes.
    pub async fn collect(self, most: usize) -> Option<Result<WholeResponse, BrokenBody>> {
        let streamed = self.response().await?;
        let mut body = streamed.body;
        let mut whole = Vec::new();
        loop {
            match body.frame().await {
                None => {
                    let (head, digest) = (streamed.head, streamed.digest);
                    return Some(Ok(WholeResponse { head, body: whole.into(), digest }));
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(frame)) => {
                    let piece = frame.into_data().unwrap_or_default();
                    if whole.len() + piece.len() > most {
                        return Some(Err(BrokenBody::TooLong(most as u64)));
                    }
                    whole.extend_from_slice(&piece);
                }
            }
        }
    }

    /// The same free of HTTP, if it is no longer than what is kept of a request.
    ///
    /// # Errors
    /// As [`Client::collect`].
    pub async fn whole_response(self) -> Option<Result<Response, BrokenBody>> {
        let collected = self.collect(KEPT).await?;
        Some(collected.map(|whole| Response { body: whole.body, ..plain(&whole.head) }))
    }
}
