//! A job as it is stored: the request that it is, its state, what came of it.
//!
//! Place in the flow: vocabulary of the store and of all who ask it. Bodies are stored beside it.
//! Invariant: no credentials: those who make a [`Submission`] leave them out.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::webhook::Webhook;
use crate::keys::{is_credential, is_secret_name};
use crate::request::ID_HEADERS;
use crate::text::hex;
use crate::time::{milliseconds, unix_milliseconds};

/// The beginning of headers that are for or from the jobs themselves.
const OWN: &str = "x-modelhost-job";
/// Headers that are about a connection or a message, not a request; and its id, which will be the job's.
const NOT_KEPT: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "prefer",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-prefix",
];

/// The header of a submission that has its key.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest idempotency key, in bytes.
pub const LONGEST_KEY: usize = 255;
/// Longest that a job may be put off, or wait.
pub const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Whether a text can be an idempotency key.
///
/// # Errors
/// The texts that can be one.
pub fn is_key(text: &str) -> Result<(), String> {
    let is_key = (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_key { Ok(()) } else { Err(format!("1 to {LONGEST_KEY} visible characters of ASCII")) }
}

/// Whether a text can be an id of a job or of a batch.
pub fn is_id(text: &str) -> bool {
    text.len() == 36 && Uuid::try_parse(text).is_ok() && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Whether a header of this name, in lower case, is part of a job.
pub fn is_kept_header(name: &str) -> bool {
    let is_secret = is_credential(name) || is_secret_name(name);
    let is_of_message = NOT_KEPT.contains(&name) || ID_HEADERS.contains(&name);
    !is_secret && !is_of_message && !name.starts_with(OWN)
}

/// A job that is to be stored: a `POST` for its endpoint.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// Below the endpoint's own path; `/` for that.
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Names in lower case, `content-type` among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// 0 comes first, [`super::LAST_PRIORITY`] last.
    pub priority: u8,
    /// How often it is tried, 1 or more.
    pub attempts: u32,
    /// How long it is not run yet.
    pub delay: Duration,
    /// How long it may wait for its first attempt; then it fails. For ever without.
    pub wait: Option<Duration>,
    /// How long its result is kept.
    pub keep: Duration,
    /// A second submission with the same key is this job.
    pub idempotency_key: Option<String>,
    /// Where its result is sent.
    pub webhook: Option<Webhook>,
    /// The pauses between its attempts, if they are others than usual.
    pub pauses: Option<Pauses>,
    /// How many jobs are behind it, each submitted by the next: 0 if a client has submitted it.
    pub depth: u32,
}

impl Submission {
    /// The job that it becomes now, and its body. What the store gives it is its number.
    pub(super) fn into_job(self, now: u64, batch: Option<String>) -> (Job, Bytes) {
        let digest = if self.idempotency_key.is_some() { self.digest() } else { String::new() };
        let job = Job {
            id: new_id(now),
            state: JobState::Queued,
            path: self.path,
            query: self.query,
            headers: self.headers,
            priority: self.priority,
            attempts: self.attempts,
            attempt: 0,
            submitted: now,
            changed: now,
            due: now.saturating_add(milliseconds(self.delay)),
            start_by: self.wait.map(|wait| now.saturating_add(milliseconds(wait))),
            keep: milliseconds(self.keep),
            size: self.body.len() as u64,
            error: None,
            answer: None,
            webhook: self.webhook,
            pauses: self.pauses,
            depth: self.depth,
            batch,
            number: 0,
            claims: 0,
            idempotency_key: self.idempotency_key,
            digest,
        };
        (job, self.body)
    }

    /// SHA-256 of what the job is made of, in hex.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.path.as_bytes(), self.query.as_bytes(), &self.body] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex(&hash.finalize())
    }

    /// Bytes of its request.
    pub(super) fn size(&self) -> u64 {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        (self.body.len() + headers) as u64
    }
}

/// The pauses between attempts, in milliseconds: each is twice the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// The first.
    pub first: u64,
    /// The longest.
    pub longest: u64,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
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

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 5] =
        [JobState::Queued, JobState::Running, JobState::Completed, JobState::Failed, JobState::Cancelled];

    /// Those of which nothing more becomes.
    pub const ENDS: [JobState; 3] = [JobState::Completed, JobState::Failed, JobState::Cancelled];

    /// The state of this name.
    pub fn of(name: &str) -> Option<JobState> {
        JobState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Completed => "completed",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more becomes of it.
    pub fn is_final(self) -> bool {
        JobState::ENDS.contains(&self)
    }
}

/// A job. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Unguessable; in the order of submission.
    pub id: String,
    /// Its state.
    pub state: JobState,
    /// As of [`Submission`].
    pub path: String,
    /// As of [`Submission`].
    pub query: String,
    /// As of [`Submission`].
    pub headers: Vec<(String, String)>,
    /// As of [`Submission`].
    pub priority: u8,
    /// As of [`Submission`].
    pub attempts: u32,
    /// Attempts that have begun.
    pub attempt: u32,
    /// When it was submitted.
    pub submitted: u64,
    /// When its state changed last.
    pub changed: u64,
    /// When it may be run at the earliest.
    pub due: u64,
    /// When it fails if it was never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_by: Option<u64>,
    /// How long its result is kept, in milliseconds.
    pub keep: u64,
    /// The bytes of its body.
    pub size: u64,
    /// Why the last attempt has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The answer, once it is finished, without its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Where its result is sent, and how far that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// As of [`Submission`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pauses: Option<Pauses>,
    /// As of [`Submission`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The batch that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// Its place in the order of submission.
    pub(super) number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<String>,
    /// SHA-256 of the request, where there is a key, in hex.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) digest: String,
    /// How often it was taken, attempts that were none included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) claims: u64,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl Job {
    /// The attempt at it that runs.
    pub fn current(&self) -> Attempt {
        Attempt { id: self.id.clone(), number: self.attempt, claim: self.claims }
    }

    /// Whether it has waited longer for its first attempt than it may, at this time.
    pub(super) fn is_late(&self, now: u64) -> bool {
        self.attempt == 0 && self.start_by.is_some_and(|time| time <= now)
    }

    /// Why it has failed; empty if it has not.
    pub(super) fn failure(&self) -> String {
        match (self.state, &self.error, &self.answer) {
            (JobState::Failed, Some(error), _) => error.clone(),
            (JobState::Failed, None, Some(answer)) => format!("the answer has status {}", answer.status),
            _ => String::new(),
        }
    }
}

/// One attempt at a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The job's.
    pub id: String,
    /// From 1; that of an attempt that was none is given again.
    pub(super) number: u32,
    /// The claim by which it was taken: never given again.
    pub(super) claim: u64,
}

/// The answer to a job, without its body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case, `content-type` among them.
    pub headers: Vec<(String, String)>,
    /// Bytes of its body.
    pub size: u64,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// An answer that stands, for better or worse.
    Answered {
        /// Whether it is no error.
        is_ok: bool,
        /// The answer.
        answer: Answer,
        /// Its body.
        body: Bytes,
    },
    /// None, or an error that may pass: the job is tried again, if it has attempts left.
    Failed {
        /// In a line.
        error: String,
        /// The error's answer, if there was one: that of the job if this was the last attempt.
        answer: Option<(Answer, Bytes)>,
    },
    /// It was never tried: the attempt does not count.
    NotTried {
        /// How long it is not tried again.
        delay: Duration,
    },
    /// A stop of the server cut it off: the attempt does not count, and that it waited no longer than it may
    /// is settled.
    CutOff,
}

impl Outcome {
    pub(super) fn size(&self) -> usize {
        match self {
            Outcome::Answered { body, .. } | Outcome::Failed { answer: Some((_, body)), .. } => body.len(),
            _ => 0,
        }
    }
}

/// Milliseconds since 1970 in RFC 3339.
pub fn time_text(milliseconds: u64) -> String {
    // Beyond this year the format ends.
    let time = Duration::from_millis(milliseconds.min(253_402_300_799_000));
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + time).to_string()
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    unix_milliseconds(SystemTime::now())
}

/// An id: a UUID of version 7, with 74 random bits.
pub(super) fn new_id(now: u64) -> String {
    let mut random = [0; 10];
    let (own, uuid) = (&mut random, Uuid::new_v4().into_bytes());
    // Of a random UUID the bytes with version and variant are passed over.
    let parts = uuid.iter().enumerate().filter(|(place, _)| ![6, 8].contains(place));
    own.iter_mut().zip(parts).for_each(|(own, (_, byte))| *own = *byte);
    uuid::Builder::from_unix_timestamp_millis(now, &random).into_uuid().hyphenated().to_string()
}

/// How long it is after this many failed attempts to the next, in milliseconds: `first`, then twice as long
/// each time, up to `longest`, and by chance up to a quarter less.
pub(super) fn pause(attempt: u32, chance: u64, first: u64, longest: u64) -> u64 {
    let pause = first.saturating_mul(1 << attempt.saturating_sub(1).min(32)).min(longest);
    pause - chance.checked_rem(pause / 4).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that was stored before claims were counted is read as well.
    #[test]
    fn a_job_that_was_never_taken_says_nothing_of_claims() {
        let (job, _) = Submission::default().into_job(7, None);
        let stored = serde_json::to_string(&job).unwrap();
        assert!(!stored.contains("claims"), "{stored}");
        assert_eq!(serde_json::from_str::<Job>(&stored).unwrap(), job);
        let taken = Job { claims: 2, ..job };
        let stored = serde_json::to_string(&taken).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&stored).unwrap(), taken);
    }

    #[test]
    fn only_uuids_in_their_usual_spelling_are_ids() {
        assert!(is_id("01936c1e-2f6b-7abc-8def-0123456789ab"));
        for wrong in [
            "",
            "01936C1E-2F6B-7ABC-8DEF-0123456789AB",
            "01936c1e2f6b7abc8def0123456789ab",
            "{01936c1e-2f6b-7abc-8def-0123456789a}",
            "../../../../../../../../etc/passwd..",
        ] {
            assert!(!is_id(wrong), "{wrong}");
        }
    }
}
