//! The answers of Cortex's AsyncAPI, where an endpoint's own path takes jobs.
//!
//! Place in the flow: `http/jobs.rs` has the job; here are the words. Source: cortexlabs/cortex v0.35.0,
//! `pkg/async-gateway/endpoint.go` and `types.go`.

use axum::Json;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::jobs::{Job, JobState, time_text};

#[derive(Serialize)]
struct Submitted<'a> {
    id: &'a str,
}

#[derive(Serialize)]
struct Workload<'a> {
    id: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

/// A job was stored.
pub(in crate::server) fn submitted(job: &Job) -> Response {
    Json(Submitted { id: &job.id }).into_response()
}

/// The state of a job; of one that is completed also its result, if that is JSON.
pub(in crate::server) fn looked(job: &Job, body: Option<Bytes>) -> Response {
    let is_completed = job.state == JobState::Completed;
    let result = body.as_deref().filter(|_| is_completed);
    let result = result.and_then(|body| serde_json::from_slice::<&RawValue>(body).ok());
    Json(Workload {
        id: &job.id,
        status: match job.state {
            JobState::Queued => "in_queue",
            JobState::Running => "in_progress",
            JobState::Completed => "completed",
            JobState::Failed | JobState::Cancelled => "failed",
        },
        result,
        timestamp: is_completed.then(|| time_text(job.changed)),
    })
    .into_response()
}

/// There is no such job.
pub(in crate::server) fn unknown(id: &str) -> Response {
    text(StatusCode::NOT_FOUND, format!("error: id {id} not found"))
}

/// A submission does not say what its body is.
pub(in crate::server) fn no_content_type() -> Response {
    text(StatusCode::BAD_REQUEST, "error: missing Content-Type key in request header".to_owned())
}

fn text(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
