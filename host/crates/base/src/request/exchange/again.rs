//! Exchanges that come by no connection: a request that is made once more, and its response as a whole.
//!
//! Place in the flow: for runs of an application beside requests: of a gate, a shadow, a replay. In: a head
//! and a body. Out: an [`Exchange`] for the run, and its response.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};

use super::kept::{KEPT, plain};
use super::{BrokenBody, Client, Exchange};
use crate::request::{Head, Response};
use crate::text;

impl Exchange {
    /// Both ends of an exchange with this request. What of the head HTTP does not allow is left out.
    pub fn of(head: &dyn Head, body: Bytes, is_secure: bool) -> (Exchange, Client) {
        let method = http::Method::from_bytes(head.method().as_bytes()).unwrap_or_default();
        let (exchange, client) = Exchange::new(&method, is_secure);
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        let mut request = http::Request::new(body);
        *request.method_mut() = method;
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
        exchange.begin(request);
        (exchange, client)
    }
}

impl Client {
    /// The response as a whole; `None` if there will be none.
    ///
    /// # Errors
    /// It breaks off, or is longer than what is kept of a request.
    pub async fn whole_response(self) -> Option<Result<Response, BrokenBody>> {
        let streamed = self.response().await?;
        let (head, mut body) = (plain(&streamed.head), streamed.body);
        let mut whole = Vec::new();
        loop {
            match body.frame().await {
                None => return Some(Ok(Response { body: whole.into(), ..head })),
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(frame)) => {
                    let piece = frame.into_data().unwrap_or_default();
                    if whole.len() + piece.len() > KEPT {
                        return Some(Err(BrokenBody::TooLong(KEPT as u64)));
                    }
                    whole.extend_from_slice(&piece);
                }
            }
        }
    }
}
