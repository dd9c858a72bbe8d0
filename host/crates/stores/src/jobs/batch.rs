//! A batch: a list of inputs as jobs, one for each part of the list, and how far they are.
//!
//! Place in the flow: `tables/batches.rs` changes it in the transactions of its jobs; clients see it by
//! `server/http/jobs/batches.rs`.
//! Invariant: its counts are those of its jobs, past any end of the process.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::record::new_id;
use super::{LAST_PRIORITY, Submission, USUAL_PRIORITY};
use crate::time::milliseconds;

/// Most jobs of one batch.
pub const MOST_PARTS: usize = 10_000;

/// A batch that is to be stored.
#[derive(Debug, Clone, Default)]
pub struct BatchSubmission {
    /// The JSON body of each of its jobs.
    pub parts: Vec<Bytes>,
    /// The header of each that has the batch's id, in lower case.
    pub header: &'static str,
    /// The path that gets a `POST` when all have ended, if there is one.
    pub on_complete: Option<String>,
    /// How often each part is tried.
    pub attempts: u32,
    /// How long results, and the batch, are kept.
    pub keep: Duration,
    /// How long it may take; for ever without.
    pub timeout: Option<Duration>,
    /// JSON of the client's own, kept with it.
    pub spec: String,
}

impl BatchSubmission {
    /// The batch that it becomes now, and the submission of each of its parts.
    pub(super) fn into_batch(self, now: u64) -> (Batch, Vec<Submission>) {
        let BatchSubmission { parts, header, on_complete, attempts, keep, timeout, spec } = self;
        let id = new_id(now);
        let headers =
            vec![("content-type".to_owned(), "application/json".to_owned()), (header.to_owned(), id.clone())];
        let batch = Batch {
            id,
            state: BatchState::Running,
            total: parts.len() as u64,
            succeeded: 0,
            failed: 0,
            time: 0,
            submitted: now,
            ended: None,
            until: timeout.map(|timeout| now.saturating_add(milliseconds(timeout))),
            spec,
            on_complete,
            headers: headers.clone(),
            attempts,
            keep: milliseconds(keep),
            bytes: 0,
        };
        let part = |body| Submission {
            path: "/".to_owned(),
            headers: headers.clone(),
            body,
            // Behind the jobs that clients submit one by one.
            priority: LAST_PRIORITY,
            attempts,
            keep,
            ..Submission::default()
        };
        (batch, parts.into_iter().map(part).collect())
    }
}

/// The state of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// Not all of its jobs have ended.
    Running,
    /// All have completed.
    Succeeded,
    /// All have ended, not all of them well.
    CompletedWithFailures,
    /// It was stopped.
    Stopped,
    /// It took longer than it may.
    TimedOut,
}

/// A batch. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// As of a job.
    pub id: String,
    /// Its state.
    pub state: BatchState,
    /// How many jobs it has.
    pub total: u64,
    /// How many have completed.
    pub succeeded: u64,
    /// How many have failed.
    pub failed: u64,
    /// How long the attempts that completed took together, in milliseconds.
    pub time: u64,
    /// When it was submitted.
    pub submitted: u64,
    /// When it ended.
    pub ended: Option<u64>,
    /// When it is stopped if it has not ended.
    pub until: Option<u64>,
    /// As of [`BatchSubmission`].
    pub spec: String,
    pub(super) on_complete: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) attempts: u32,
    pub(super) keep: u64,
    /// Bytes of it that were counted when it was stored.
    #[serde(default)]
    pub(super) bytes: u64,
}

impl Batch {
    /// The job that follows when all have ended, if there is one.
    pub(super) fn last(&self) -> Option<Submission> {
        Some(Submission {
            path: self.on_complete.clone()?,
            headers: self.headers.clone(),
            priority: USUAL_PRIORITY,
            attempts: self.attempts,
            keep: Duration::from_millis(self.keep),
            ..Submission::default()
        })
    }
}
