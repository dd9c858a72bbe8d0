//! What Truss's clients read of a server: one name for every model, the headers of errors, messages.
//!
//! Place in the flow: called by `http/v1.rs`, whose paths Truss shares with TensorFlow Serving and KServe,
//! by `http/application.rs` for an application at these paths, and for WebSockets.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};

use super::openai::FailureText;
use crate::endpoint::generation::Generation;
use crate::error::{Code, Side};
use crate::plugin::Operation;

/// Where Truss's clients open WebSockets.
const SOCKET_PATH: &str = "/v1/websocket";
/// The reason of the close where nothing serves them.
pub(in crate::server) const NO_SOCKETS: &str = "WebSocket is not implemented on this deployment.";

/// Whether Truss's clients open WebSockets at this path, so that they are told by a close if there is none.
pub(in crate::server) fn is_socket(path: &str) -> bool {
    path == SOCKET_PATH
}

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

/// The text for a caller of an exception.
const IN_THE_MODEL: &str = "Internal Server Error (in model/chainlet).";

/// To Truss's clients an answer of a handler's own that is no success is the caller's to look into.
pub(in crate::server) const CALLER: &str = "700";

/// `response` with the headers of an error.
pub(in crate::server) fn marked(mut response: Response, code: &'static str) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_BASETEN_ERROR_SOURCE, SOURCE);
    headers.insert(X_BASETEN_ERROR_CODE, HeaderValue::from_static(code));
    response
}

/// Whether an endpoint with these `paths` stands for a Truss: its clients' calls are its own.
pub(in crate::server) fn is_one(paths: &[String]) -> bool {
    let is_call = |path: &str| path.ends_with(":predict") || path.ends_with(":predict_binary");
    paths.iter().any(|path| path.starts_with("/v1/models/") && is_call(path))
}

/// An error of the host's own, from an application that stands for a Truss, as its clients know it: what went
/// wrong in the model is in the log alone. Any other response as it is.
pub(in crate::server) fn in_form(mut response: Response, paths: &[String]) -> Response {
    let Some(found) = response.extensions().get::<Code>().copied().filter(|_| is_one(paths)) else {
        return response;
    };
    if found.side() == Side::Model && response.status() == StatusCode::INTERNAL_SERVER_ERROR {
        // Told to callers under `--debug` only.
        let detail = response.extensions().get::<FailureText>().and_then(|said| said.detail.clone());
        let body = match detail {
            Some(detail) => json!({ "error": IN_THE_MODEL, "detail": detail }),
            None => json!({ "error": IN_THE_MODEL }),
        };
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(body.to_string());
    }
    marked(response, code(found))
}

/// The schema of an endpoint, as it declares its inputs, or as an application says of the first `POST` whose
/// body or answer it describes.
pub(in crate::server) fn schema(current: &Generation) -> Option<Value> {
    let said = |input: Value, output: Option<Value>, is_stream: bool| json!({ "input_schema": input, "output_schema": output, "supports_streaming": is_stream });
    if let Some(schema) = current.schema() {
        return Some(said(schema.json_schema(), None, false));
    }
    let is_told = |operation: &&Operation| {
        operation.method == "POST" && (operation.input.is_some() || operation.output.is_some())
    };
    let operation = current.operations().iter().find(is_told)?;
    let input = operation.input.clone().unwrap_or_default();
    Some(said(input, operation.output.clone(), operation.is_stream()))
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
