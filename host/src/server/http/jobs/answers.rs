//! The words of answers about jobs: a page of them, errors; ids and queries read.
//!
//! Place in the flow: used by everything in [`super`]. In: a job, an error of the store, a text of a client.
//! Out: JSON, a [`RequestError`], what the text means.

use axum::http::HeaderMap;
use axum::http::header::HeaderName;
use serde::Serialize;

use crate::error::{Code, RequestError, Stage};
use crate::jobs::{JobError, JobState, MOST_LISTED, Page, WebhookState, is_id};
use crate::server::field_text;
use crate::text::shown;
use crate::workers::view::JobView;

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

pub(in crate::server) fn no_job() -> RequestError {
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
