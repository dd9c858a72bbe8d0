//! What OpenAI's clients expect: errors in their form, models as a list of objects.
//!
//! Place in the flow: `http.rs` passes every failure on one of [`PATHS`] through [`in_form`]; `http/v1.rs`,
//! whose paths OpenAI shares with KServe and TensorFlow Serving, adds [`described`] and [`list`] to what
//! those read. What applications answer on these paths is theirs.

use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use crate::error::Code;
use crate::rollout::deployment::Deployment;
use crate::server::served::Served;
use crate::time::unix_seconds;

/// The paths on which, and below which, errors have OpenAI's form.
const PATHS: [&str; 8] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/moderations",
    "/v1/audio",
    "/v1/images",
    "/v1/rerank",
];

/// The words of a failure, beside its response: for protocols with a form of their own.
#[derive(Debug, Clone)]
pub(in crate::server) struct FailureText {
    pub(in crate::server) message: String,
    pub(in crate::server) code: &'static str,
    /// Which parameter of the request is wrong, if it is one.
    pub(in crate::server) parameter: Option<&'static str>,
    /// Only for callers who may see it.
    pub(in crate::server) detail: Option<String>,
}

/// The code of a model that is not there.
pub(in crate::server) const NO_MODEL: &str = "model_not_found";

/// Whether `path` is one of OpenAI's, or is below it.
pub(in crate::server) fn is_path(path: &str) -> bool {
    path.starts_with("/v1/")
        && PATHS
            .iter()
            .any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// A failure in OpenAI's form; any other response as it is.
pub(in crate::server) fn in_form(mut response: Response) -> Response {
    let Some(said) = response.extensions_mut().remove::<FailureText>() else { return response };
    let mut error = json!({
        "message": said.message, "type": kind(response.status()), "param": said.parameter, "code": said.code,
    });
    if let (Some(detail), Value::Object(error)) = (said.detail, &mut error) {
        error.insert("detail".to_owned(), detail.into());
    }
    let body = json!({ "error": error }).to_string();
    if response.headers().contains_key(CONTENT_LENGTH) {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    *response.body_mut() = Body::from(body);
    response
}

/// OpenAI's name for the kind of an error.
fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

/// Whether an endpoint answers one of the paths.
pub(in crate::server) fn is_answered_by(endpoint: &Deployment) -> bool {
    endpoint.config.paths.iter().any(|path| is_path(path))
}

/// An endpoint as one of OpenAI's models.
pub(in crate::server) fn described(endpoint: &Deployment) -> Value {
    let published = endpoint.read_current(|current| current.published);
    let created = unix_seconds(published);
    json!({ "id": endpoint.config.name, "object": "model", "created": created, "owned_by": "modelhost" })
}

/// The endpoints that answer one of the paths, as OpenAI lists models; `None` if there are none.
pub(in crate::server) fn list(served: &Served) -> Option<Vec<Value>> {
    let answering = served.endpoints.iter().filter(|endpoint| is_answered_by(endpoint));
    let models: Vec<Value> = answering.map(|endpoint| described(endpoint)).collect();
    (!models.is_empty()).then_some(models)
}

/// The words of a failure.
pub(in crate::server) fn failure_text(message: &str, code: Code, detail: Option<&str>) -> FailureText {
    FailureText {
        message: message.to_owned(),
        code: code.name(),
        parameter: None,
        detail: detail.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_openais_as_a_whole_or_not() {
        for (path, expected) in [
            ("/v1/chat/completions", true),
            ("/v1/chat/completions/chatcmpl-1", true),
            ("/v1/embeddings", true),
            ("/v1/audio/speech", true),
            ("/v1/embeddings2", false),
            ("/v1/models", false),
            ("/v1/chat", false),
            ("/embeddings", false),
        ] {
            assert_eq!(is_path(path), expected, "{path}");
        }
    }

    #[test]
    fn only_a_failure_of_the_servers_own_is_put_in_form() {
        let mut own = Response::new(Body::from("mine"));
        *own.status_mut() = StatusCode::BAD_REQUEST;
        assert!(in_form(own).headers().is_empty());
        let mut failed = Response::new(Body::from("{}"));
        *failed.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        failed.extensions_mut().insert(failure_text("full", Code::Overloaded, None));
        let response = in_form(failed);
        assert!(response.extensions().get::<FailureText>().is_none());
        assert_eq!(kind(response.status()), "server_error");
    }
}
