//! Failures as HTTP responses.
//!
//! Place in the flow: every failure of every path leaves through [`respond`], of a call through
//! [`respond_to`].
//! Out: `{"error", "code", "stage", "request_id"}`, plus `detail` under `--debug`; beside it the same
//! for a protocol with a form of its own.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use crate::error::{Code, RequestError, Stage};
use crate::server::compat::client::failure_text;
use crate::server::head::{X_REQUEST_ID, insert, request_id};
use crate::server::serve::Call;
use crate::server::served::Served;
use crate::server::status;
use crate::telemetry::failure::{log_failure, shortened};
use crate::text::beginning;
use crate::workers::headers::explain;

/// Most bytes of a path that an answer repeats.
const LONGEST_ECHO: usize = 256;

/// Logs a request that failed before its endpoint was called, and makes its response. The header that names
/// the request is on every response, see `HttpService`.
pub(super) fn respond(
    error: RequestError,
    id: &Arc<str>,
    served: &Served,
    endpoint: Option<&str>,
    arrived: Instant,
) -> Response {
    let error = shortened(error);
    log_failure(&error, id, endpoint, None, arrived, false);
    response(&error, id, served.config.debug)
}

/// Logs a call that failed, and makes its response.
pub(super) fn respond_to(error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Response {
    let error = shortened(error);
    log_failure(&error, &call.id, endpoint, call.trace.as_deref(), call.arrived, false);
    response(&error, &call.id, call.served.config.debug)
}

fn response(error: &RequestError, id: &Arc<str>, is_debug: bool) -> Response {
    let (status, _) = status::of(error.code);
    let detail = error.detail.as_deref().filter(|_| is_debug);
    let mut response = Response::new(Body::from(error.to_json(id, is_debug)));
    *response.status_mut() = status;
    response.extensions_mut().insert(failure_text(&error.message, error.code, detail));
    response.extensions_mut().insert(error.code);
    let headers = response.headers_mut();
    explain(headers, error);
    if status == StatusCode::UPGRADE_REQUIRED {
        // RFC 9110, section 15.5.22; RFC 6455, section 4.2.2.
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
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
