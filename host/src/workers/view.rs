//! A job as clients see it: JSON.
//!
//! Place in the flow: in answers about jobs, and in the messages of webhooks.
//! In: a [`Job`] as it is stored. Out: what serialises to `{"id", "state", …}`, without secrets.

use serde::Serialize;

use crate::endpoint::config::EndpointConfig;
use crate::jobs::{Job, JobState, Webhook, WebhookState, time_text};

/// A job as clients see it. Times are RFC 3339.
#[derive(Serialize)]
pub struct JobView<'a> {
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
    /// A job of this endpoint.
    pub fn new(config: &EndpointConfig, job: &'a Job) -> JobView<'a> {
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
    pub fn without_webhook(self) -> JobView<'a> {
        JobView { webhook: None, ..self }
    }
}
