//! Cortex's AsyncAPI, where an endpoint's own path takes jobs: `POST <endpoint>`, `GET <endpoint>/<id>`.
//!
//! Place in the flow: `http/jobs.rs` has the job; here are paths and words. Source: cortexlabs/cortex
//! v0.35.0, `pkg/async-gateway/endpoint.go` and `types.go`.

use axum::Json;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::job_dialect::{JobDialect, Orders};
use super::job_operations;
use crate::endpoint::config::EndpointConfig;
use crate::error::RequestError;
use crate::jobs::{Job, JobForm, JobState, time_text};
use crate::rollout::deployment::Deployment;
use crate::server::head::Head;
use crate::server::http::jobs::order::{JobOrder, is_read, names};
use crate::server::http::openapi::answers::Path;

/// As endpoints are configured with it.
pub(super) const FORM: JobForm = JobForm { name: "async", below: &[] };

/// The dialect.
pub(super) struct AsyncApi;

impl JobDialect for AsyncApi {
    fn form(&self) -> &'static JobForm {
        &FORM
    }

    fn paths(&self, config: &EndpointConfig, _: bool) -> Vec<(String, Orders)> {
        vec![(config.path.trim_end_matches('/').to_owned(), order)]
    }

    fn operations(&self, endpoint: &Deployment) -> Vec<Path> {
        job_operations::at_own_path(endpoint)
    }

    fn refused(&self, head: &Head) -> Option<Response> {
        (!head.headers().contains_key(CONTENT_TYPE)).then(no_content_type)
    }

    fn submitted(&self, job: &Job) -> Response {
        Json(Submitted { id: &job.id }).into_response()
    }

    fn has_result(&self) -> bool {
        true
    }

    fn looked(&self, _: &str, job: &Job, result: Option<Bytes>) -> Response {
        looked(job, result)
    }

    fn unknown(&self, id: &str) -> Result<Response, RequestError> {
        Ok(text(StatusCode::NOT_FOUND, format!("error: id {id} not found")))
    }
}

fn order(method: &Method, rest: &str, _: &str) -> Option<JobOrder> {
    match names(rest) {
        (None, ..) if *method == Method::POST => Some(JobOrder::Submit("/".to_owned())),
        (Some(id), None, _) if is_read(method) => Some(JobOrder::Look(id.to_owned())),
        _ => None,
    }
}

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

/// The state of a job; of one that is completed also its result, if that is JSON.
fn looked(job: &Job, body: Option<Bytes>) -> Response {
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

/// A submission does not say what its body is.
fn no_content_type() -> Response {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_own_path_takes_jobs() {
        for (method, rest, expected) in [
            (Method::POST, "", Some(JobOrder::Submit("/".to_owned()))),
            (Method::GET, "/0193", Some(JobOrder::Look("0193".to_owned()))),
            (Method::GET, "", None),
            (Method::GET, "/0193/x", None),
            (Method::POST, "/x", None),
            (Method::DELETE, "/0193", None),
        ] {
            assert_eq!(order(&method, rest, ""), expected, "{method} {rest}");
        }
    }
}
