//! Jobs of the handler's own endpoint, which has to have some, `jobs = "on"`: requests that are stored, and
//! run later as a `POST`.
//!
//! In a component every function is a call to the host. Natively, in a unit test, the jobs are in the memory
//! of the test's thread: none is run, and [`submitted`] says which there are.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use modelhost_guest::jobs::Submission;
//! use modelhost_guest::{Response, Result};
//! use serde_json::json;
//!
//! fn train(dataset: &str) -> Result<Response> {
//!     let job = Submission::to("/train")
//!         .json(&json!({"dataset": dataset}))?
//!         .idempotency_key(dataset)
//!         .delay(Duration::from_secs(5))
//!         .submit()?;
//!     Ok(Response::json(&json!({"job": job.id}))?.status(202))
//! }
//! ```

#![cfg_attr(
    not(target_family = "wasm"),
    allow(
        clippy::needless_question_mark,
        clippy::useless_conversion,
        reason = "natively the host's are these"
    )
)]

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, internal};

#[cfg(target_family = "wasm")]
use crate::bindings::jobs::modelhost::handler::jobs as host;
#[cfg(not(target_family = "wasm"))]
use native as host;

/// Why something was not done with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobError {
    /// Something of a submission that cannot be used. Nothing was stored.
    Invalid(String),
    /// The idempotency key was used for a job with another path, query or body.
    Conflict,
    /// Beyond a limit of the endpoint. Nothing was stored.
    Limit(String),
    /// The store cannot be used now; whether a change was made is not known.
    Unavailable(String),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Invalid(text) | JobError::Limit(text) => f.write_str(text),
            JobError::Conflict => f.write_str("the idempotency key was used for another job"),
            JobError::Unavailable(text) => write!(f, "the store of the jobs cannot be used: {text}"),
        }
    }
}

impl std::error::Error for JobError {}

/// The handler's failure.
impl From<JobError> for Error {
    fn from(error: JobError) -> Error {
        internal(error.to_string())
    }
}

type Result<T> = std::result::Result<T, JobError>;

/// A job that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Below the endpoint's own path, with the query.
    pub path: String,
    /// With `content-type`.
    pub headers: Vec<(String, String)>,
    /// The body of its request.
    pub body: Vec<u8>,
    /// 0 comes first, 2 last; 1 without it.
    pub priority: Option<u8>,
    /// Not before this time is over.
    pub delay: Option<Duration>,
    /// Fails if its first attempt has not begun after this time.
    pub wait: Option<Duration>,
    /// `limits.job_attempts` without it.
    pub attempts: Option<u32>,
    /// A URL that gets the result.
    pub webhook: Option<String>,
    /// A second submission with the same key is the same job.
    pub idempotency_key: Option<String>,
}

impl Submission {
    /// For a path below the endpoint's own, `/` for that itself, with an empty body.
    pub fn to(path: &str) -> Submission {
        Submission {
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            priority: None,
            delay: None,
            wait: None,
            attempts: None,
            webhook: None,
            idempotency_key: None,
        }
    }

    /// With this body.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Submission {
        Submission { body: body.into(), ..self }.header("content-type", content_type)
    }

    /// With this body as JSON.
    ///
    /// # Errors
    /// [`JobError::Invalid`]: it cannot be written so.
    pub fn json<T: Serialize>(self, body: &T) -> Result<Submission> {
        let text = serde_json::to_vec(body).map_err(|error| JobError::Invalid(error.to_string()))?;
        Ok(self.body("application/json", text))
    }

    /// With this header, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Submission {
        self.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// 0 comes first, 2 last.
    #[must_use]
    pub fn priority(self, priority: u8) -> Submission {
        Submission { priority: Some(priority), ..self }
    }

    /// Not before this time is over.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Submission {
        Submission { delay: Some(delay), ..self }
    }

    /// Fails if its first attempt has not begun after this time.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Submission {
        Submission { wait: Some(wait), ..self }
    }

    /// At most so many attempts.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Submission {
        Submission { attempts: Some(attempts), ..self }
    }

    /// This URL gets the result, at a place that `allow_outbound` lists.
    #[must_use]
    pub fn webhook(self, url: &str) -> Submission {
        Submission { webhook: Some(url.to_owned()), ..self }
    }

    /// A second submission with the same key is the same job: a job that submits others may run again.
    #[must_use]
    pub fn idempotency_key(self, key: &str) -> Submission {
        Submission { idempotency_key: Some(key.to_owned()), ..self }
    }

    /// Stores the job, and gives it when it is stored.
    ///
    /// # Errors
    /// Any [`JobError`].
    pub fn submit(self) -> Result<Job> {
        Ok(host::submit(&host::Submission {
            path: self.path,
            headers: self.headers,
            body: self.body,
            priority: self.priority,
            delay_ms: self.delay.map(milliseconds),
            wait_ms: self.wait.map(milliseconds),
            attempts: self.attempts,
            webhook: self.webhook,
            idempotency_key: self.idempotency_key,
        })?
        .into())
    }
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits: for its time, or for a place.
    Queued,
    /// An attempt is under way.
    Running,
    /// The answer was no error.
    Completed,
    /// The last attempt has failed, or the answer was the caller's error.
    Failed,
    /// It was cancelled before it was finished.
    Cancelled,
}

/// A job. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: State,
    /// Attempts that have begun.
    pub attempt: u32,
    /// The most that there will be.
    pub attempts: u32,
    /// When it was submitted.
    pub submitted_ms: u64,
    /// When its state changed last.
    pub changed_ms: u64,
    /// Why the last attempt has failed.
    pub error: Option<String>,
    /// The status of its answer, once it is finished with one.
    pub status: Option<u16>,
}

/// The answer to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// [`JobError::Invalid`] if it is none, or none of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| JobError::Invalid(format!("the answer: {error}")))
    }
}

/// A job of the endpoint, if there is one of this id.
///
/// # Errors
/// [`JobError::Unavailable`].
pub fn get(id: &str) -> Result<Option<Job>> {
    Ok(host::get(id)?.map(Job::from))
}

/// The answer to a job, once it is finished with one.
///
/// # Errors
/// [`JobError::Unavailable`], or [`JobError::Limit`] if it is longer than `limits.output`.
pub fn get_answer(id: &str) -> Result<Option<Answer>> {
    let own =
        |answer: host::Answer| Answer { status: answer.status, headers: answer.headers, body: answer.body };
    Ok(host::get_answer(id)?.map(own))
}

/// Cancels a job, whose run is stopped; one that is finished stays as it is.
///
/// # Errors
/// [`JobError::Unavailable`].
pub fn cancel(id: &str) -> Result<Option<Job>> {
    Ok(host::cancel(id)?.map(Job::from))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(target_family = "wasm")]
impl From<host::Job> for Job {
    fn from(job: host::Job) -> Job {
        Job {
            id: job.id,
            state: match job.state {
                host::State::Queued => State::Queued,
                host::State::Running => State::Running,
                host::State::Completed => State::Completed,
                host::State::Failed => State::Failed,
                host::State::Cancelled => State::Cancelled,
            },
            attempt: job.attempt,
            attempts: job.attempts,
            submitted_ms: job.submitted_ms,
            changed_ms: job.changed_ms,
            error: job.error,
            status: job.status,
        }
    }
}

#[cfg(target_family = "wasm")]
impl From<host::Error> for JobError {
    fn from(error: host::Error) -> JobError {
        match error {
            host::Error::Invalid(text) => JobError::Invalid(text),
            host::Error::Conflict => JobError::Conflict,
            host::Error::Limit(text) => JobError::Limit(text),
            host::Error::Unavailable(text) => JobError::Unavailable(text),
        }
    }
}

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(not(target_family = "wasm"))]
pub use native::{finish, submitted};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_test_sees_what_is_submitted_and_finishes_it() {
        let one = Submission::to("/train?fast=1").json(&[1, 2]).unwrap().priority(0).idempotency_key("k");
        let job = one.clone().submit().unwrap();
        assert_eq!(
            (job.state, job.attempt, one.clone().submit().unwrap().id),
            (State::Queued, 0, job.id.clone())
        );
        assert_eq!(Submission::to("/other").idempotency_key("k").submit(), Err(JobError::Conflict));
        assert!(matches!(Submission::to("train").submit(), Err(JobError::Invalid(_))));
        assert_eq!(submitted(), [(job.id.clone(), one)]);
        assert_eq!(get_answer(&job.id).unwrap(), None);
        let answer = Answer { status: 200, headers: Vec::new(), body: b"[3]".to_vec() };
        finish(&job.id, answer);
        assert_eq!(
            get(&job.id).unwrap().map(|job| (job.state, job.status)),
            Some((State::Completed, Some(200)))
        );
        assert_eq!(get_answer(&job.id).unwrap().unwrap().json::<Vec<u8>>().unwrap(), [3]);
        assert_eq!(cancel(&job.id).unwrap().unwrap().state, State::Completed, "it is finished");
        let other = Submission::to("/").submit().unwrap();
        assert_eq!(cancel(&other.id).unwrap().unwrap().state, State::Cancelled);
        assert_eq!((get("none").unwrap(), cancel("none").unwrap()), (None, None));
    }
}
