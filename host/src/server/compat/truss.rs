//! What Truss's clients read of a server: one name for every model, the headers of errors, messages.
//!
//! Place in the flow: called by `http/v1.rs`, whose paths Truss shares with TensorFlow Serving and KServe.

use axum::http::header::{HeaderName, HeaderValue};
use axum::response::Response;

use crate::error::{Code, Side};

/// The name by which Truss's clients call every model.
pub(in crate::server) const ANY_MODEL: &str = "model";
/// Which part of a system an error comes from, in Truss's numbering: the model's own server.
const X_BASETEN_ERROR_SOURCE: HeaderName = HeaderName::from_static("x-baseten-error-source");
const SOURCE: HeaderValue = HeaderValue::from_static("04");
const X_BASETEN_ERROR_CODE: HeaderName = HeaderName::from_static("x-baseten-error-code");

/// The code of an error: 700 for the caller's, 600 for the model's or its handler's, 500 for the server's.
pub(in crate::server) fn code(code: Code) -> &'static str {
    match code.side() {
        Side::Caller => CALLER,
        Side::Model => "600",
        Side::Server => "500",
    }
}

/// To Truss's clients an answer of a handler's own that is no success is the caller's to look into.
pub(in crate::server) const CALLER: &str = "700";

/// `response` with the headers of an error.
pub(in crate::server) fn marked(mut response: Response, code: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_BASETEN_ERROR_SOURCE, SOURCE);
    headers.insert(X_BASETEN_ERROR_CODE, HeaderValue::from_static(code));
    response
}

/// The message for a path of `/v1/models/` while the server is loading; `None` for any other path.
pub(in crate::server) fn not_ready(path: &str) -> Option<String> {
    let path = path.strip_prefix("/v1/models/")?;
    if path.ends_with("/schema") {
        return Some("Schema not available, please try again later.".to_owned());
    }
    let name = path.split(['/', ':']).next().unwrap_or_default();
    Some(format!("Model with name {name} is not ready."))
}
