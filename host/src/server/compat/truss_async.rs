//! The words of Truss's asynchronous calls: `async_predict`, the state of a request, the message of its
//! webhook.
//!
//! Place in the flow: `http/jobs.rs` and its files have the job; here are the words. Source: the public
//! reference of Baseten's inference API, "Async inference", as of November 2025.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::jobs::{Job, JobState, WebhookForm, WebhookSecret, WebhookState, time_text};
use crate::json::object::Object;
use crate::text::hex;
use crate::workers::{MessageForm, tag};

/// The header that signs a message.
const SIGNATURE: &str = "x-baseten-signature";
/// The only deployment of an endpoint.
const DEPLOYMENT: &str = "production";

/// The body of a submission.
#[derive(Deserialize)]
pub(in crate::server) struct AsyncPredict<'a> {
    /// The body of the request that is to be run.
    #[serde(borrow)]
    pub(in crate::server) model_input: &'a RawValue,
    /// Where the result is sent.
    #[serde(default)]
    pub(in crate::server) webhook_endpoint: Option<String>,
    /// 0 comes first.
    #[serde(default)]
    pub(in crate::server) priority: Option<u8>,
    /// How long it may wait for its first attempt.
    #[serde(default)]
    pub(in crate::server) max_time_in_queue_seconds: Option<u64>,
    /// Its attempts and the pauses between them.
    #[serde(default)]
    pub(in crate::server) inference_retry_config: Option<Object<RetryConfig>>,
}

/// Attempts, and the pauses between them.
#[derive(Deserialize, Default)]
pub(in crate::server) struct RetryConfig {
    /// 1 or more.
    pub(in crate::server) max_attempts: Option<u32>,
    /// The first pause.
    pub(in crate::server) initial_delay_ms: Option<u64>,
    /// The longest.
    pub(in crate::server) max_delay_ms: Option<u64>,
}

/// The values of what a submission leaves out.
pub(in crate::server) mod usual {
    /// Of all the most urgent.
    pub(in crate::server) const PRIORITY: u8 = 0;
    /// In seconds.
    pub(in crate::server) const TIME_IN_QUEUE: u64 = 600;
    /// In milliseconds.
    pub(in crate::server) const INITIAL_DELAY: u64 = 1000;
    /// In milliseconds.
    pub(in crate::server) const MAX_DELAY: u64 = 5000;
}

#[derive(Serialize)]
struct Enqueued<'a> {
    request_id: &'a str,
}

#[derive(Serialize)]
struct Status<'a> {
    request_id: &'a str,
    model_id: &'a str,
    deployment_id: &'static str,
    status: &'static str,
    webhook_status: &'static str,
    created_at: String,
    status_at: String,
    errors: Vec<ErrorView<'a>>,
}

#[derive(Serialize)]
struct ErrorView<'a> {
    code: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct Cancelled<'a> {
    request_id: &'a str,
    canceled: bool,
    message: String,
}

#[derive(Serialize)]
struct Event<'a> {
    request_id: &'a str,
    model_id: &'a str,
    deployment_id: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    time: String,
    data: Option<&'a RawValue>,
    errors: Vec<ErrorView<'a>>,
}

/// A request was stored.
pub(in crate::server) fn enqueued(job: &Job) -> Response {
    (StatusCode::CREATED, Json(Enqueued { request_id: &job.id })).into_response()
}

/// The state of a request to this endpoint.
pub(in crate::server) fn looked(endpoint: &str, job: &Job) -> Response {
    let webhook = job.webhook.as_ref().map(|webhook| webhook.state);
    Json(Status {
        request_id: &job.id,
        model_id: endpoint,
        deployment_id: DEPLOYMENT,
        status: match job.state {
            JobState::Queued => "QUEUED",
            JobState::Running => "IN_PROGRESS",
            JobState::Completed if webhook == Some(WebhookState::Failed) => "WEBHOOK_FAILED",
            JobState::Completed => "SUCCEEDED",
            JobState::Failed if job.attempt == 0 => "EXPIRED",
            JobState::Failed => "FAILED",
            JobState::Cancelled => "CANCELED",
        },
        webhook_status: match webhook {
            None => "NO_WEBHOOK_PROVIDED",
            Some(WebhookState::Waiting | WebhookState::Pending) => "PENDING",
            Some(WebhookState::Delivered) => "SUCCEEDED",
            Some(WebhookState::Failed) => "FAILED",
            Some(WebhookState::Cancelled) => "CANCELED",
        },
        created_at: time_text(job.submitted),
        status_at: time_text(job.changed),
        errors: errors(job),
    })
    .into_response()
}

/// A request was cancelled, unless it was not queued any more.
pub(in crate::server) fn cancelled(job: &Job) -> Response {
    let canceled = job.state == JobState::Cancelled;
    let message = match canceled {
        true => "the request was cancelled".to_owned(),
        false => format!("the request is {}, and only a queued one can be cancelled", job.state.name()),
    };
    Json(Cancelled { request_id: &job.id, canceled, message }).into_response()
}

/// The message of a finished request's webhook.
pub(in crate::server) struct Message;

impl MessageForm for Message {
    fn form(&self) -> WebhookForm {
        WebhookForm::Truss
    }

    fn body(&self, endpoint: &str, job: &Job, result: Option<&[u8]>) -> Vec<u8> {
        event(endpoint, job, result)
    }

    fn signature(&self, secrets: &[WebhookSecret], body: &[u8]) -> (&'static str, String) {
        let own =
            |secret: &WebhookSecret| format!("v1={}", hex(tag(secret.text().as_bytes(), &[body]).as_ref()));
        let signatures: Vec<String> = secrets.iter().map(own).collect();
        (SIGNATURE, signatures.join(","))
    }
}

/// The body of a message; `result` is that of the job's answer, if it is not too long.
fn event(endpoint: &str, job: &Job, result: Option<&[u8]>) -> Vec<u8> {
    let is_completed = job.state == JobState::Completed;
    let mut errors = errors(job);
    let of_text = |text: &[u8]| serde_json::value::to_raw_value(&String::from_utf8_lossy(text)).ok();
    let text;
    let data = match result.filter(|_| is_completed) {
        Some(result) => match serde_json::from_slice::<&RawValue>(result) {
            Ok(json) => Some(json),
            Err(_) => {
                text = of_text(result);
                text.as_deref()
            }
        },
        None if is_completed => {
            let message = "the result is too long for a webhook, and is kept: ask for `jobs/ID/result`";
            errors.push(ErrorView { code: "RESULT_TOO_LARGE", message });
            None
        }
        None => None,
    };
    let event = Event {
        request_id: &job.id,
        model_id: endpoint,
        deployment_id: DEPLOYMENT,
        kind: "async_request_completed",
        time: time_text(job.changed),
        data,
        errors,
    };
    serde_json::to_vec(&event).unwrap_or_default()
}

/// Why a request has failed.
fn errors(job: &Job) -> Vec<ErrorView<'_>> {
    if job.state != JobState::Failed {
        return Vec::new();
    }
    let status = job.answer.as_ref().map(|answer| answer.status);
    let code = match status {
        _ if job.attempt == 0 => "MODEL_NOT_READY",
        Some(408 | 504) => "MODEL_PREDICT_TIMEOUT",
        _ => "MODEL_PREDICT_ERROR",
    };
    let message = job.error.as_deref().unwrap_or("the model answered with an error");
    vec![ErrorView { code, message }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_signs_a_message() {
        let body = br#"{"test": 2432232314}"#;
        let secrets = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nplain").unwrap();
        let (name, truss) = Message.signature(&secrets, body);
        let parts: Vec<&str> = truss.split(',').collect();
        assert!(parts.len() == 2 && parts.iter().all(|part| part.len() == 67 && part.starts_with("v1=")));
        assert_eq!(name, SIGNATURE);
    }
}
