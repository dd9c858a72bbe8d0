//! What OpenAI's clients expect: errors in their form, models as a list of objects.
//!
//! Place in the flow: `http.rs` passes every failure on one of [`PATHS`] through [`in_form`]; `http/v1.rs`,
//! whose paths OpenAI shares with KServe and TensorFlow Serving, adds [`described`] and [`list`] to what
//! those read. What applications answer on these paths is theirs.

use axum::body::{Body, HttpBody as _};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Code;
use crate::json::object::Object;
use crate::request::is_json_type;
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
    pub(in crate::server) parameter: Option<String>,
    /// Only for callers who may see it.
    pub(in crate::server) detail: Option<String>,
}

/// A refusal in the server's own form, as the routers of all SDKs write it.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    code: String,
    #[serde(rename = "request_id")]
    _request_id: String,
}

/// Longest refusal that is looked at.
const LONGEST_REFUSAL: u64 = 4096;
/// Longest name of a parameter.
const LONGEST_PARAMETER: usize = 100;

/// The code of a model that is not there.
pub(in crate::server) const NO_MODEL: &str = "model_not_found";

/// Whether `path` is one of OpenAI's, or is below it.
pub(in crate::server) fn is_path(path: &str) -> bool {
    path.starts_with("/v1/")
        && PATHS
            .iter()
            .any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// A failure in OpenAI's form, also one that a handler's router has written in the server's own; any other
/// response as it is.
pub(in crate::server) async fn in_form(response: Response) -> Response {
    let mut response = put_in_form(response);
    let is_refusal = matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
    let announced = response.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    let length: Option<u64> = response.body().size_hint().exact().or(announced);
    if !is_refusal || !is_json(&response) || length.is_none_or(|length| length > LONGEST_REFUSAL) {
        return response;
    }
    let body = std::mem::take(response.body_mut());
    // As long as it says, so it is whole; a handler that breaks off has said nothing.
    let body = axum::body::to_bytes(body, LONGEST_REFUSAL as usize).await.unwrap_or_default();
    if let Ok(Object(Refusal { error, code, .. })) = serde_json::from_slice::<Object<Refusal>>(&body) {
        let kind = kind(response.status());
        return with_error(response, &json!({ "message": error, "type": kind, "param": null, "code": code }));
    }
    *response.body_mut() = Body::from(body);
    response
}

/// The refusal of a model that is not there.
pub(in crate::server) fn unknown_model(mut response: Response) -> Response {
    if let Some(said) = response.extensions_mut().get_mut::<FailureText>() {
        said.code = NO_MODEL;
        said.parameter = Some("model".to_owned());
    }
    response
}

/// A failure of the server's in OpenAI's form; any other response as it is.
pub(in crate::server) fn put_in_form(mut response: Response) -> Response {
    let Some(said) = response.extensions_mut().remove::<FailureText>() else { return response };
    let mut error = json!({
        "message": said.message, "type": kind(response.status()), "param": said.parameter, "code": said.code,
    });
    if let (Some(detail), Value::Object(error)) = (said.detail, &mut error) {
        error.insert("detail".to_owned(), detail.into());
    }
    with_error(response, &error)
}

fn with_error(mut response: Response, error: &Value) -> Response {
    let body = json!({ "error": error }).to_string();
    if response.headers().contains_key(CONTENT_LENGTH) {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    *response.body_mut() = Body::from(body);
    response
}

fn is_json(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(is_json_type) && !response.headers().contains_key(CONTENT_ENCODING)
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
        parameter: (code == Code::InvalidInput).then(|| parameter(message)).flatten().map(str::to_owned),
        detail: detail.map(str::to_owned),
    }
}

/// The parameter that an error is about: the name that it begins with, as the errors of handlers do.
fn parameter(message: &str) -> Option<&str> {
    let begins = ["`", "missing field `", "the body has no `"];
    let named = begins.iter().find_map(|begin| message.strip_prefix(begin))?;
    let (name, _) = named.split_once('`')?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.[]-".contains(&byte);
    (!name.is_empty() && name.len() <= LONGEST_PARAMETER && name.bytes().all(is_part)).then_some(name)
}

/// Whether an endpoint answers one of the paths, so that this server is one of OpenAI's to its clients.
pub(in crate::server) fn is_served(served: &Served) -> bool {
    served.endpoints.iter().any(|endpoint| is_answered_by(endpoint))
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
    fn an_error_is_about_the_parameter_that_it_begins_with() {
        for (message, expected) in [
            ("`tools` is not served", Some("tools")),
            ("`messages[0].content` is missing", Some("messages[0].content")),
            ("missing field `input` at line 1", Some("input")),
            ("the body has no `model`; `/v1` is answered by `a`", Some("model")),
            ("expected `text`", None),
            ("`/v1/x` does not answer", None),
            ("`` is", None),
            ("`a", None),
        ] {
            assert_eq!(parameter(message), expected, "{message}");
        }
    }

    #[tokio::test]
    async fn a_refusal_of_a_router_is_put_in_form_and_no_other_answer() {
        let refused = r#"{"error":"no","code":"not_found","stage":"pre_inference","request_id":"1"}"#;
        let form =
            r#"{"error":{"code":"not_found","message":"no","param":null,"type":"invalid_request_error"}}"#;
        let long = format!("{{\"error\":\"{}\"}}", "x".repeat(5000));
        for (status, kind, body, expected) in [
            (404, "application/json", refused, form),
            (405, "application/json", refused, form),
            (403, "application/json", refused, refused),
            (404, "text/plain", refused, refused),
            (404, "application/json", r#"{"error":"no"}"#, r#"{"error":"no"}"#),
            (404, "application/json", &long, &long),
        ] {
            let mut response = Response::new(Body::from(body.to_owned()));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response.headers_mut().insert(CONTENT_TYPE, kind.parse().unwrap());
            let body = axum::body::to_bytes(in_form(response).await.into_body(), usize::MAX).await.unwrap();
            assert_eq!(str::from_utf8(&body), Ok(expected), "{status} {kind}");
        }
    }

    #[test]
    fn only_a_failure_of_the_servers_own_is_put_in_form() {
        let mut own = Response::new(Body::from("mine"));
        *own.status_mut() = StatusCode::BAD_REQUEST;
        assert!(put_in_form(own).headers().is_empty());
        let mut failed = Response::new(Body::from("{}"));
        *failed.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        failed.extensions_mut().insert(failure_text("full", Code::Overloaded, None));
        let response = put_in_form(failed);
        assert!(response.extensions().get::<FailureText>().is_none());
        assert_eq!(kind(response.status()), "server_error");
    }
}
