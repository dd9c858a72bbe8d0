//! Responses to calls of models below `/v1/models`: with the headers that Truss's clients read.
//!
//! Place in the flow: after a call. In: a handler's response, or the error of a call. Out: an HTTP response.

use axum::response::Response;

use crate::error::RequestError;
use crate::request;
use crate::server::compat::{pydantic_messages, truss};
use crate::server::head::Head;
use crate::server::http::transport::into_http;
use crate::server::serve::{Call, Transport as _};

/// The answer that a handler gave by itself.
pub(super) fn answered(response: request::Response) -> Response {
    match response.status {
        300.. => truss::marked(into_http(response), truss::CALLER),
        _ => into_http(response),
    }
}

/// The answer to a call that failed.
pub(super) fn encode_error(mut error: RequestError, call: &Call<'_>, endpoint: Option<&str>) -> Response {
    if !error.violations.is_empty() {
        error.message = pydantic_messages::of(&error.violations);
    }
    let code = truss::code(error.code);
    truss::marked(Box::<Head>::encode_error(error, call, endpoint), code)
}
