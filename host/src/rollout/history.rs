//! What became of every attempt to publish another generation of an endpoint.
//!
//! Place in the flow: written when an attempt has ended, read by the admin listener; kept in the folder of
//! the compile cache for the next start.
//! Invariants: bounded, the oldest go first; nothing here is touched by a request; a folder that cannot be
//! read or written costs the history of the time before, and nothing else.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::gate_report::Report;
use crate::blocking::off_thread;
use crate::endpoint::config::EndpointConfig;
use crate::file;
use crate::plugin::{Sandbox, Shelf};
use crate::text::hex;

/// Attempts that are remembered.
const MOST: usize = 50;

/// The source of a request for another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The start of the process.
    Start,
    /// The handler's file changed.
    Watch,
    /// An order of the operator: admin API or `host swap`.
    Admin,
    /// A client's order over the Open Inference Protocol.
    Client,
    /// SIGHUP.
    Signal,
    /// `host dev` has built.
    Dev,
    /// An order to go back to the generation before.
    Rollback,
    /// Too many faults.
    Breaker,
    /// A candidate that answered its share well.
    Canary,
}

impl Origin {
    /// Its name in the history and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Start => "start",
            Origin::Watch => "watch",
            Origin::Admin => "admin",
            Origin::Client => "client",
            Origin::Signal => "signal",
            Origin::Dev => "dev",
            Origin::Rollback => "rollback",
            Origin::Breaker => "breaker",
            Origin::Canary => "canary",
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One attempt.
#[derive(Debug, Clone, Serialize)]
pub struct Attempt {
    /// When it ended: Unix time in seconds.
    pub at: u64,
    /// The source of the request for it.
    pub origin: Origin,
    /// The name of the key that an order came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The caller's reason, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// `published` or `refused`.
    pub outcome: &'static str,
    /// The number it was published under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// SHA-256 of its handler.
    pub digest: Option<Arc<str>>,
    /// The step that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'static str>,
    /// Why it was refused.
    pub error: Option<String>,
    /// The gate's findings, if it refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Arc<Report>>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The attempts of one endpoint.
#[derive(Default)]
pub struct History {
    /// Those of this process.
    attempts: Mutex<VecDeque<Arc<Attempt>>>,
    /// Those of the processes before it, the latest first, as they were written.
    before: Vec<Value>,
    page: Option<Arc<Page>>,
}

/// Where the history of an endpoint is kept.
struct Page {
    shelf: Shelf,
    name: String,
    writing: Mutex<Writing>,
}

/// The writing of a page. One thread writes at a time, however fast attempts come: a disk takes longer.
#[derive(Default)]
struct Writing {
    /// The newest history since that thread began with the one that it writes.
    next: Option<Vec<Value>>,
    has_thread: bool,
}

impl History {
    /// This history, with what is kept of the time before of this endpoint of this server; from now on it is
    /// kept too.
    pub async fn kept(self, server: &str, config: &EndpointConfig, sandbox: &Sandbox) -> History {
        let Some(shelf) = sandbox.shelf() else { return self };
        let page = Arc::new(Page { shelf, name: page_name(server, config), writing: Mutex::default() });
        let reader = page.clone();
        let read = off_thread(move || reader.shelf.get(&reader.name, file::TEXT)).await;
        let before = read.ok().flatten().and_then(|text| serde_json::from_slice(&text).ok());
        History { before: before.unwrap_or_default(), page: Some(page), ..self }
    }

    pub(super) fn add(&self, attempt: Attempt) {
        let is_start = attempt.origin == Origin::Start;
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() == MOST {
            attempts.pop_front();
        }
        attempts.push_back(Arc::new(attempt));
        drop(attempts);
        // A start alone is nothing to remember.
        let (false, Some(page), Ok(runtime)) = (is_start, &self.page, Handle::try_current()) else { return };
        let mut writing = page.writing();
        writing.next = Some(self.all());
        if !std::mem::replace(&mut writing.has_thread, true) {
            let page = page.clone();
            runtime.spawn_blocking(move || page.write());
        }
    }

    /// Those of this process that are remembered, the latest first.
    pub fn attempts(&self) -> Vec<Arc<Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }

    /// All that are remembered, the latest first.
    pub fn all(&self) -> Vec<Value> {
        let attempts = self.attempts();
        let own = attempts.iter().map(|attempt| json!(attempt));
        own.chain(self.before.iter().cloned()).take(MOST).collect()
    }

    /// The latest that the start of the process did not ask for.
    pub fn last_swap(&self) -> Option<Arc<Attempt>> {
        self.attempts().into_iter().find(|attempt| attempt.origin != Origin::Start)
    }
}

impl Page {
    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the history until nothing has come while it was written.
    fn write(&self) {
        loop {
            let mut writing = self.writing();
            let Some(all) = writing.next.take() else {
                writing.has_thread = false;
                return;
            };
            drop(writing);
            if let Err(error) = self.shelf.put(&self.name, json!(all).to_string().as_bytes()) {
                tracing::warn!("cannot keep a history for the next start: {error}");
            }
        }
    }
}

/// The page of an endpoint: of this name, in this server.
fn page_name(server: &str, config: &EndpointConfig) -> String {
    let mut hasher = Sha256::new();
    hasher.update(server);
    hasher.update([0]);
    hasher.update(&config.name);
    format!("{}.history", hex(&hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_attempt_goes_first() {
        let history = History::default();
        for n in 0..MOST as u64 + 3 {
            history.add(Attempt {
                at: n,
                origin: if n == 0 { Origin::Start } else { Origin::Watch },
                by: None,
                note: None,
                outcome: "published",
                generation: Some(n),
                digest: None,
                step: None,
                error: None,
                gate: None,
                duration_ms: 0,
            });
        }
        let kept: Vec<u64> = history.attempts().iter().map(|attempt| attempt.at).collect();
        assert_eq!(kept.len(), MOST);
        assert_eq!((kept[0], kept[MOST - 1]), (MOST as u64 + 2, 3));
        let history = History { before: vec![json!({"at": 0})], ..history };
        assert_eq!(history.all().len(), MOST);
    }
}
