//! The words of answers about jobs: a job as clients see it, a page of them, errors; ids and queries read.
//!
//! Place in the flow: used by everything in [`super`]. In: a job, an error of the store, a text of a client.
//! Out: JSON, a [`RequestError`], what the text means.

use axum::http::HeaderMap;
use axum::http::header::HeaderName;
use serde::Serialize;

use crate::endpoint::config::EndpointConfig;
use crate::error::{Code, RequestError, Stage};
use crate::jobs::{Job, JobError, JobState, MOST_LISTED, Page, Webhook, WebhookState, is_id, time_text};
use crate::server::field_text;
use crate::text::shown;

/// With a result: the job's state.
pub(super) const X_JOB_STATE: HeaderName = HeaderName::from_static("x-modelhost-job-state");
/// Jobs of a page that does not say how many it wants.
const USUAL_PAGE: usize = 100;

/// Headers that were kept.
pub(super) fn append(headers: &mut HeaderMap, kept: &[(String, String)]) {
    for (name, value) in kept {
        if let (Ok(name), Some(value)) = (HeaderName::try_from(name), field_text::value(value)) {
            // As many were in a map before.
            let _ = headers.try_append(name, value);
        }
    }
}

/// The id, if it can be one.
pub(super) fn valid(id: &str) -> Result<&str, RequestError> {
    if is_id(id) { Ok(id) } else { Err(no_job()) }
}

pub(super) fn no_job() -> RequestError {
    let message = "the endpoint has no such job; hint: jobs are removed `limits.job_keep` after their end";
    RequestError::new(Code::NotFound, Stage::Admit, message)
}

pub(super) fn known<T>(found: Result<Option<T>, JobError>) -> Result<T, RequestError> {
    found.map_err(failed)?.ok_or_else(no_job)
}

/// An error of the store for a caller.
pub(super) fn failed(error: JobError) -> RequestError {
    let new = |code, message: &str| RequestError::new(code, Stage::Admit, message);
    match error {
        JobError::Full(message) => new(Code::JobsFull, &message),
        JobError::Conflict => new(Code::IdempotencyConflict, &error.to_string()),
        JobError::Unavailable(why) => {
            new(Code::JobsUnavailable, "the store of the jobs cannot be used now").with_detail(why)
        }
    }
}

/// The page that a query asks for: `limit`, `after`, `state`, `webhook`, `batch`.
pub(super) fn page(query: &str) -> Result<Page, RequestError> {
    let mut page = Page { limit: USUAL_PAGE, ..Page::default() };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |expected: &str| {
            let message = format!("`{name}` of a list of jobs is not {expected}");
            RequestError::invalid(Stage::Admit, message)
        };
        match name {
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MOST_LISTED).contains(limit));
                page.limit = limit.ok_or_else(|| wrong(&format!("a number from 1 to {MOST_LISTED}")))?;
            }
            "after" => {
                let id = Some(value).filter(|id| is_id(id));
                page.after = Some(id.ok_or_else(|| wrong("the id of a job"))?.to_owned());
            }
            "state" => {
                let state = JobState::of(value);
                let names = JobState::ALL.map(JobState::name).join("`, `");
                page.state = Some(state.ok_or_else(|| wrong(&format!("one of `{names}`")))?);
            }
            "batch" => {
                let id = Some(value).filter(|id| is_id(id));
                page.batch = Some(id.ok_or_else(|| wrong("the id of a batch"))?.to_owned());
            }
            "webhook" => {
                let state = WebhookState::ALL.into_iter().find(|state| state.name() == value);
                let names = WebhookState::ALL.map(WebhookState::name).join("`, `");
                page.webhook = Some(state.ok_or_else(|| wrong(&format!("one of `{names}`")))?);
            }
            _ => {
                let message = format!(
                    "a list of jobs has no parameter `{}`: there are `limit`, `after`, `state`, `batch` and `webhook`",
                    shown(name)
                );
                return Err(RequestError::invalid(Stage::Admit, message));
            }
        }
    }
    Ok(page)
}

#[derive(Serialize)]
pub(super) struct List<'a> {
    pub(super) jobs: Vec<JobView<'a>>,
    /// The `after` of the next page.
    pub(super) next: Option<String>,
}

/// A job as clients see it. Times are RFC 3339.
#[derive(Serialize)]
pub(super) struct JobView<'a> {
    id: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "is_own")]
    path: &'a str,
    /// That it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<&'a str>,
    priority: u8,
    /// Attempts that have begun.
    attempt: u32,
    attempts: u32,
    submitted: String,
    changed: String,
    /// When it is tried, if not as soon as there is a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// That of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookView<'a>>,
}

/// A webhook as clients see it.
#[derive(Serialize)]
struct WebhookView<'a> {
    /// Without its query.
    url: &'a str,
    state: &'static str,
    /// Attempts that have ended.
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// When it is sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
}

impl<'a> WebhookView<'a> {
    fn new(webhook: &'a Webhook) -> WebhookView<'a> {
        let is_again = webhook.state == WebhookState::Pending && webhook.attempts > 0;
        WebhookView {
            url: webhook.shown(),
            state: webhook.state.name(),
            attempts: webhook.attempts,
            error: webhook.error.as_deref(),
            due: is_again.then(|| time_text(webhook.due)),
        }
    }
}

fn is_own(path: &str) -> bool {
    path == "/"
}

impl<'a> JobView<'a> {
    pub(super) fn new(config: &EndpointConfig, job: &'a Job) -> JobView<'a> {
        let is_delayed = job.state == JobState::Queued && job.due > job.changed;
        JobView {
            id: &job.id,
            state: job.state.name(),
            path: &job.path,
            batch: job.batch.as_deref(),
            priority: job.priority,
            attempt: job.attempt,
            attempts: job.attempts,
            submitted: time_text(job.submitted),
            changed: time_text(job.changed),
            due: is_delayed.then(|| time_text(job.due)),
            error: job.error.as_deref(),
            status: job.answer.as_ref().map(|answer| answer.status),
            result: job.answer.as_ref().map(|_| format!("{}/{}/result", config.jobs_path(), job.id)),
            webhook: job.webhook.as_ref().map(WebhookView::new),
        }
    }

    /// As its message has it, which is the same at every attempt.
    pub(super) fn without_webhook(self) -> JobView<'a> {
        JobView { webhook: None, ..self }
    }
}
