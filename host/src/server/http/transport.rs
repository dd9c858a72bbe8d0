//! What the protocols over HTTP have in common: how a body comes, errors, the answer's headers.
//!
//! Place in the flow: the [`Transport`] of [`serve`](crate::server::serve) for the main listener.
//! Invariant: a body that comes packed is held once before and once after it is unpacked, each within
//! `limits.body`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response as HttpResponse;
use bytes::Bytes;

use super::error;
use crate::arrivals::Origin;
use crate::compression::Coding;
use crate::endpoint::config::EndpointConfig;
use crate::error::RequestError;
use crate::keys::Credentials;
use crate::memory::Charge;
use crate::request::{self, Response};
use crate::server::body::{Bounds, read_body};
use crate::server::charged_body::ChargedBody;
use crate::server::head::{Head, X_REQUEST_ID, credentials, insert};
use crate::server::serve::{Call, Signature, Transport};
use crate::server::spans;
use crate::telemetry::access_log::AccessEntry;
use crate::telemetry::traces::{AnswerStatus, Operation};
use crate::workers::headers::sign;

impl Transport for Box<Head> {
    type Body = Body;
    type Message = Bytes;
    type Answer = HttpResponse;

    fn credentials(&self) -> Credentials<'_> {
        credentials(Head::headers(self))
    }

    fn origin(&self) -> Origin {
        self.origin
    }

    fn headers(&self) -> &HeaderMap {
        Head::headers(self)
    }

    fn take_access(&mut self) -> Option<Arc<AccessEntry>> {
        self.parts.extensions.remove()
    }

    fn operation(&self, endpoint: Option<&EndpointConfig>) -> Operation {
        spans::http(self, endpoint.is_some())
    }

    /// The whole body, unpacked.
    async fn receive(&mut self, body: Body, bounds: Bounds) -> Result<Option<Bytes>, RequestError> {
        let coding = if self.is_coded { Coding::of_body(Head::headers(self))? } else { None };
        let body = read_body(body, bounds).await?;
        let (Some(coding), Some(packed)) = (coding, &body) else { return Ok(body) };
        // They would be those of the packed body to a handler that reads them.
        self.parts.headers.remove(CONTENT_ENCODING);
        self.parts.headers.remove(CONTENT_LENGTH);
        coding.decode(packed, bounds.longest, bounds.memory).map(Some)
    }

    fn is_debug(&self) -> bool {
        self.parts.uri.query().is_some_and(|query| query.split('&').any(|part| part == "debug=true"))
    }

    fn into_head(self) -> Box<dyn request::Head> {
        self
    }

    fn encode_error(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> HttpResponse {
        error::respond_to(error, call, endpoint)
    }

    fn status(answer: &HttpResponse) -> AnswerStatus {
        AnswerStatus::Http(answer.status().as_u16())
    }

    fn hold(answer: &mut HttpResponse, charge: Charge) {
        let body = std::mem::take(answer.body_mut());
        *answer.body_mut() = Body::new(ChargedBody::new(body, charge));
    }

    fn sign(answer: &mut HttpResponse, signature: &Signature<'_>) {
        let headers = answer.headers_mut();
        insert(headers, X_REQUEST_ID, signature.id);
        sign(headers, signature.digest, signature.bypassed, signature.cached);
    }
}

/// A response as one of HTTP.
pub(super) fn into_http(response: Response) -> HttpResponse {
    let mut http = HttpResponse::new(Body::from(response.body));
    *http.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = http.headers_mut();
    if response.content_type == "application/json" {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    } else if !response.content_type.is_empty() {
        insert(headers, CONTENT_TYPE, &response.content_type);
    }
    for (name, value) in &response.headers {
        // Names and values were checked when the handler returned them.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            // So was their number; a map that is full is no reason to panic.
            let _ = headers.try_append(name, value);
        }
    }
    http
}
