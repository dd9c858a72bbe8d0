//! Truss's asynchronous calls: `POST <endpoint>/async_predict`, `GET` and `DELETE
//! <endpoint>/async_request/<id>`, the message of a webhook.
//!
//! Place in the flow: `http/jobs.rs` and its files have the job; here are paths and words. Source: the public
//! reference of Baseten's inference API, "Async inference", as of November 2025.

use std::fmt;
use std::time::Duration;

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::job_dialect::{Envelope, JobDialect, Orders};
use super::job_operations;
use crate::endpoint::config::EndpointConfig;
use crate::error::{RequestError, Stage};
use crate::jobs::{
    Job, JobForm, JobState, LAST_PRIORITY, LONGEST_DELAY, Pauses, Submission, WebhookForm, WebhookSecret,
    WebhookState, time_text,
};
use crate::json::object::{Object, told};
use crate::json::special;
use crate::rollout::deployment::Deployment;
use crate::server::http::jobs::order::{JobOrder, is_read, names};
use crate::server::http::jobs::submission::webhook;
use crate::server::http::openapi::answers::Path;
use crate::text::hex;
use crate::workers::{MessageForm, tag};

/// As endpoints are configured with it.
pub(super) const FORM: JobForm = JobForm { name: "truss", below: &["async_predict", "async_request"] };
/// The form of its webhooks' messages, as it is stored.
const MESSAGE: WebhookForm = WebhookForm::named("truss");
/// Where clients call the only endpoint: as they do at Truss's makers', and by the name of every model.
const ONLY_PREDICT: [&str; 5] = [
    "/async_predict",
    "/production/async_predict",
    "/development/async_predict",
    "/environments/production/async_predict",
    "/v1/models/model:async_predict",
];
/// The header that signs a message.
const SIGNATURE: &str = "x-baseten-signature";
/// The only deployment of an endpoint.
const DEPLOYMENT: &str = "production";

/// The body of a submission.
#[derive(Deserialize)]
struct AsyncPredict<'a> {
    /// The body of the request that is to be run.
    #[serde(borrow)]
    model_input: &'a RawValue,
    /// Where the result is sent.
    #[serde(default)]
    webhook_endpoint: Option<String>,
    /// 0 comes first.
    #[serde(default)]
    priority: Option<u8>,
    /// How long it may wait for its first attempt.
    #[serde(default)]
    max_time_in_queue_seconds: Option<u64>,
    /// Its attempts and the pauses between them.
    #[serde(default)]
    inference_retry_config: Option<Object<RetryConfig>>,
}

/// Attempts, and the pauses between them.
#[derive(Deserialize, Default)]
struct RetryConfig {
    /// 1 or more.
    max_attempts: Option<u32>,
    /// The first pause.
    initial_delay_ms: Option<u64>,
    /// The longest.
    max_delay_ms: Option<u64>,
}

/// The values of what a submission leaves out.
mod usual {
    /// Of all the most urgent.
    pub(super) const PRIORITY: u8 = 0;
    /// In seconds.
    pub(super) const TIME_IN_QUEUE: u64 = 600;
    /// In milliseconds.
    pub(super) const INITIAL_DELAY: u64 = 1000;
    /// In milliseconds.
    pub(super) const MAX_DELAY: u64 = 5000;
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

/// The dialect.
pub(super) struct AsyncInference;

impl JobDialect for AsyncInference {
    fn form(&self) -> &'static JobForm {
        &FORM
    }

    fn paths(&self, config: &EndpointConfig, is_only: bool) -> Vec<(String, Orders)> {
        let path = config.path.trim_end_matches('/');
        let mut paths: Vec<(String, Orders)> = vec![
            (format!("{path}/async_predict"), predict),
            (format!("{path}/async_request"), request),
            (format!("/v1/models/{}:async_predict", config.name), predict),
        ];
        if is_only {
            paths.extend(ONLY_PREDICT.iter().map(|path| ((*path).to_owned(), predict as Orders)));
            paths.push(("/async_request".to_owned(), request));
        }
        paths
    }

    fn operations(&self, endpoint: &Deployment) -> Vec<Path> {
        job_operations::predictions(endpoint)
    }

    fn envelope(&self) -> Option<Envelope> {
        Some(envelope)
    }

    fn submitted(&self, job: &Job) -> Response {
        (StatusCode::CREATED, Json(Enqueued { request_id: &job.id })).into_response()
    }

    fn looked(&self, endpoint: &str, job: &Job, _: Option<Bytes>) -> Response {
        looked(endpoint, job)
    }

    fn cancelled(&self) -> Option<fn(&Job) -> Response> {
        Some(cancelled)
    }
}

/// Where requests come in.
fn predict(method: &Method, rest: &str, _: &str) -> Option<JobOrder> {
    match names(rest) {
        (None, ..) if *method == Method::POST => Some(JobOrder::Submit("/".to_owned())),
        (None, ..) => Some(JobOrder::other(method, "OPTIONS, POST")),
        _ => None,
    }
}

/// Where they are looked at.
fn request(method: &Method, rest: &str, _: &str) -> Option<JobOrder> {
    match names(rest) {
        (Some(id), None, _) if is_read(method) => Some(JobOrder::Look(id.to_owned())),
        (Some(id), None, _) if *method == Method::DELETE => Some(JobOrder::Cancel(id.to_owned())),
        (Some(_), None, _) => Some(JobOrder::other(method, "DELETE, GET, HEAD, OPTIONS")),
        _ => None,
    }
}

/// Takes Truss's words from around the body of a request.
fn envelope(config: &EndpointConfig, submission: &mut Submission) -> Result<(), RequestError> {
    let wrong = |what: &str, expected: &str| {
        RequestError::invalid(Stage::Admit, format!("`{what}` is not {expected}"))
    };
    let body = submission.body.clone();
    let refused = |why: &dyn fmt::Display| {
        let hint = "`model_input` holds the request, `webhook_endpoint` may say where its result goes";
        let message = format!("the body is no asynchronous request: {why}; hint: {hint}");
        RequestError::invalid(Stage::Admit, message)
    };
    let json = special::text(&body).map_err(|error| refused(&error))?;
    let mut copy = None;
    let found = special::read(json, &mut copy, serde_json::from_str::<Object<AsyncPredict<'_>>>);
    let (Object(wanted), document) = found.map_err(|error| refused(&told(&error)))?;
    let input = document.written(wanted.model_input.get());
    document.check([input]).map_err(|error| refused(&error))?;
    submission.body = body.slice_ref(input.as_bytes());
    submission.headers.retain(|(name, _)| name != CONTENT_TYPE.as_str());
    submission.headers.push((CONTENT_TYPE.as_str().to_owned(), "application/json".to_owned()));
    submission.priority = wanted.priority.unwrap_or(usual::PRIORITY);
    if submission.priority > LAST_PRIORITY {
        return Err(wrong("priority", &format!("a number from 0 to {LAST_PRIORITY}")));
    }
    let wait = Duration::from_secs(wanted.max_time_in_queue_seconds.unwrap_or(usual::TIME_IN_QUEUE));
    if wait.is_zero() || wait > LONGEST_DELAY {
        return Err(wrong("max_time_in_queue_seconds", "a number of seconds, at most 30 days"));
    }
    submission.wait = Some(wait);
    let Object(retries) = wanted.inference_retry_config.unwrap_or_default();
    if let Some(attempts) = retries.max_attempts {
        let most = config.jobs.attempts;
        if !(1..=most).contains(&attempts) {
            let expected = format!("a number from 1 to {most}, `limits.job_attempts`");
            return Err(wrong("inference_retry_config.max_attempts", &expected));
        }
        submission.attempts = attempts;
    }
    let pauses = Pauses {
        first: retries.initial_delay_ms.unwrap_or(usual::INITIAL_DELAY),
        longest: retries.max_delay_ms.unwrap_or(usual::MAX_DELAY),
    };
    let longest = u64::try_from(LONGEST_DELAY.as_millis()).unwrap_or(u64::MAX);
    for (name, delay) in [("initial_delay_ms", pauses.first), ("max_delay_ms", pauses.longest)] {
        if delay > longest {
            return Err(wrong(&format!("inference_retry_config.{name}"), "a number of milliseconds"));
        }
    }
    submission.pauses = Some(pauses);
    if let Some(url) = &wanted.webhook_endpoint {
        submission.webhook = Some(webhook(config, "`webhook_endpoint`", url, MESSAGE)?);
    }
    Ok(())
}

/// The state of a request to this endpoint.
fn looked(endpoint: &str, job: &Job) -> Response {
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
fn cancelled(job: &Job) -> Response {
    let canceled = job.state == JobState::Cancelled;
    let message = match canceled {
        true => "the request was cancelled".to_owned(),
        false => format!("the request is {}, and only a queued one can be cancelled", job.state.name()),
    };
    Json(Cancelled { request_id: &job.id, canceled, message }).into_response()
}

/// The message of a finished request's webhook.
pub(super) struct Message;

impl MessageForm for Message {
    fn form(&self) -> WebhookForm {
        MESSAGE
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
    fn requests_come_in_at_one_path_and_are_looked_at_below_another() {
        let id = "0193".to_owned();
        for (orders, method, rest, expected) in [
            (predict as Orders, Method::POST, "", Some(JobOrder::Submit("/".to_owned()))),
            (predict, Method::GET, "", Some(JobOrder::NotAllowed("OPTIONS, POST"))),
            (predict, Method::POST, "/x", None),
            (request, Method::GET, "/0193", Some(JobOrder::Look(id.clone()))),
            (request, Method::DELETE, "/0193", Some(JobOrder::Cancel(id.clone()))),
            (request, Method::POST, "/0193", Some(JobOrder::NotAllowed("DELETE, GET, HEAD, OPTIONS"))),
            (request, Method::GET, "", None),
        ] {
            assert_eq!(orders(&method, rest, ""), expected, "{method} {rest}");
        }
    }

    /// As the first version with webhooks has stored it.
    #[test]
    fn a_webhook_that_was_stored_before_has_this_form() {
        let stored = r#"{"url":"http://a/x","origin":"http://a","form":"truss","state":"pending","attempts":1,
            "changed":5,"due":7,"error":"the receiver answered 503"}"#;
        let webhook: crate::jobs::Webhook = serde_json::from_str(stored).unwrap();
        assert_eq!((webhook.form, Message.form()), (MESSAGE, MESSAGE));
    }

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
