//! A call of an endpoint: HTTP request → [`Request`] → pipeline → HTTP response.
//!
//! Place in the flow: first and last file of the project that sees a request.
//! Invariants: the body is read once, at most `limits.body` bytes of it, and never copied; whatever happens, the
//! answer carries the request's id.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response as HttpResponse;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use uuid::Uuid;

use super::{Target, X_BANANA_REQUEST_ID, X_HANDLER_DIGEST, X_REQUEST_ID, error};
use crate::error::{Code, RequestError, Stage};
use crate::request::{Head, Request, Response, until};

/// Longest request id taken from a caller.
const LONGEST_ID: usize = 128;

/// `POST <endpoint>`.
pub(super) async fn call(State(target): State<Arc<Target>>, request: axum::extract::Request) -> HttpResponse {
    let arrived = Instant::now();
    let Target { endpoint, served } = &*target;
    let (parts, body) = request.into_parts();
    let id = request_id(&parts.headers);
    let deadline = arrived + endpoint.config.limits.request_timeout;

    let body = match read_body(body, endpoint.config.limits.body, deadline).await {
        Ok(body) => body,
        Err(failure) => {
            endpoint.metrics.error(failure.code);
            return error::respond(failure, &id, served, Some(&endpoint.config.name), arrived);
        }
    };
    let debug = parts.uri.query().is_some_and(|query| query.split('&').any(|part| part == "debug=true"));
    let request =
        Arc::new(Request { id: id.clone(), head: Box::new(HttpHead(parts)), body, arrived, deadline, debug });
    let answer = endpoint.serve(request).await;
    let mut response = match answer.outcome {
        Ok(response) => into_http(response),
        Err(failure) => error::respond(failure, &id, served, Some(&endpoint.config.name), arrived),
    };
    let headers = response.headers_mut();
    insert(headers, X_REQUEST_ID, &id);
    if let Some(digest) = answer.digest {
        insert(headers, X_HANDLER_DIGEST, &digest);
    }
    response
}

/// The caller's own id if it is fit to be logged and returned, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let given = headers.get(X_REQUEST_ID).or_else(|| headers.get(X_BANANA_REQUEST_ID));
    match given.and_then(|value| value.to_str().ok()) {
        Some(id) if (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            id.into()
        }
        _ => (&*Uuid::new_v4().hyphenated().encode_lower(&mut Uuid::encode_buffer())).into(),
    }
}

pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

async fn read_body(body: Body, limit: usize, deadline: Instant) -> Result<Bytes, RequestError> {
    let too_large = || {
        RequestError::new(Code::BodyTooLarge, Stage::Admit, format!("the body is longer than {limit} bytes"))
    };
    // Announced length first: nothing is read of a body that cannot be taken.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match until(deadline, Limited::new(body, limit).collect()).await {
        // One frame, the usual case, is passed on as it is.
        Some(Ok(collected)) => Ok(collected.to_bytes()),
        Some(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Some(Err(error)) => {
            Err(RequestError::invalid(Stage::Admit, "the body could not be read").with_detail(error))
        }
        None => Err(RequestError::new(
            Code::RequestTimeout,
            Stage::Admit,
            "the body took longer than a request may",
        )),
    }
}

fn into_http(response: Response) -> HttpResponse {
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
            headers.append(name, value);
        }
    }
    http
}

/// The parts of a request a handler may ask for, as HTTP brought them.
struct HttpHead(Parts);

impl Head for HttpHead {
    fn method(&self) -> &str {
        self.0.method.as_str()
    }

    fn path(&self) -> &str {
        self.0.uri.path()
    }

    fn query(&self) -> &str {
        self.0.uri.query().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.get(name)?.to_str().ok()
    }
}
