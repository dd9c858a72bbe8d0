//! Failures as HTTP responses.
//!
//! Place in the flow: every failure of every path leaves through [`respond`].
//! Out: `{"error", "code", "stage", "request_id"}`, plus `detail` under `--debug`; beside it the same
//! for a protocol with a form of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::compression::Coding;
use crate::error::{Code, RequestError, Stage};
use crate::server::compat::openai;
use crate::server::failure::{log_failure, shortened};
use crate::server::head::{X_REQUEST_ID, insert, request_id};
use crate::server::served::Served;
use crate::server::status;
use crate::text::beginning;

/// Seconds a refused client is asked to wait. Queues here drain in far less; one second keeps clients from
/// hammering.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// Most bytes of a path that an answer repeats.
const LONGEST_ECHO: usize = 256;

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    code: &'a str,
    stage: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

/// Logs a failed request and makes its response. The header that names the request is on every response, see
/// `HttpService`.
pub(super) fn respond(
    error: RequestError,
    id: &Arc<str>,
    served: &Served,
    endpoint: Option<&str>,
    arrived: Instant,
) -> Response {
    let error = shortened(error);
    let (status, _) = status::of(error.code);
    let (code, stage) = (error.code.name(), error.stage.name());
    let (retry_after, is_of_coding) = (error.retry_after, error.is_of_coding);
    log_failure(&error, id, endpoint, arrived, false);
    let detail = error.detail.as_deref().filter(|_| served.config.debug);
    let body = serde_json::to_vec(&ErrorBody { error: &error.message, code, stage, request_id: id, detail })
        .unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.extensions_mut().insert(openai::failure_text(&error.message, error.code, detail));
    response.extensions_mut().insert(error.code);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        // Rounded up: a client that comes back a moment too early is refused once more.
        let seconds = |time: Duration| HeaderValue::from(time.as_secs() + u64::from(time.subsec_nanos() > 0));
        headers.insert(RETRY_AFTER, retry_after.map_or(RETRY_AFTER_SECONDS, seconds));
    }
    if status == StatusCode::UPGRADE_REQUIRED {
        // RFC 9110, section 15.5.22; RFC 6455, section 4.2.2.
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    if is_of_coding {
        // RFC 9110, section 15.5.16.
        headers.insert(ACCEPT_ENCODING, Coding::TAKEN);
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// No route has this path.
pub(in crate::server) async fn not_found(
    axum::extract::State(served): axum::extract::State<Arc<Served>>,
    request: Request,
) -> Response {
    let message = format!("no endpoint at `{}`", beginning(request.uri().path(), LONGEST_ECHO));
    refuse(Code::NotFound, message, &served, request.headers())
}

/// A route has this path, but not for this method. The router adds `Allow`.
pub(in crate::server) async fn method_not_allowed(
    axum::extract::State(served): axum::extract::State<Arc<Served>>,
    request: Request,
) -> Response {
    let message =
        format!("`{}` does not answer `{}`", beginning(request.uri().path(), LONGEST_ECHO), request.method());
    refuse(Code::MethodNotAllowed, message, &served, request.headers())
}

/// Refuses a request before any endpoint is asked. The answer names the request.
pub(in crate::server) fn refuse(
    code: Code,
    message: String,
    served: &Served,
    headers: &HeaderMap,
) -> Response {
    refuse_with(RequestError::new(code, Stage::Admit, message), served, headers)
}

/// The same for an error that says more.
pub(super) fn refuse_with(error: RequestError, served: &Served, headers: &HeaderMap) -> Response {
    let id = request_id(headers);
    let mut response = respond(error, &id, served, None, Instant::now());
    insert(response.headers_mut(), X_REQUEST_ID, &id);
    response
}
