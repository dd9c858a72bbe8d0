//! The state of a connection's client, as requests, bodies and bytes tell of it.
//!
//! Place in the flow: written by the connection's socket, requests and bodies; read when all connections are
//! looked at.
//! Invariant: everything on the way of a request is an atomic of its own connection.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// In place of a time: the host has nothing to say, so there is nothing to take.
pub(super) const RESTING: u64 = u64::MAX;
/// In place of a number of reads.
const NOT_TOLD: u64 = u64::MAX;

/// The properties that a connection's requests share.
pub(super) struct Client {
    /// Responses that were made and writes that the client's side took: no change means that the client is
    /// silent.
    pub(super) signs: AtomicU64,
    pub(super) in_flight: AtomicU64,
    /// Whether it has sent anything, be it of a handshake.
    pub(super) has_spoken: AtomicBool,
    /// Reads over HTTP/2, acknowledgements among them: no change means that the client does not react.
    pub(super) heard: AtomicU64,
    /// Their number when it was told that the connection ends; [`NOT_TOLD`] before.
    pub(super) heard_when_told: AtomicU64,
    /// Whether a request's head is awaited, or has begun and not come to its end.
    pub(super) in_head: AtomicBool,
    pub(super) is_http2: AtomicBool,
    /// Whether the latest request is of HTTP/1.1.
    pub(super) is_http11: AtomicBool,
    /// Whether its body has not come to its end.
    pub(super) in_body: AtomicBool,
    /// Whether it speaks another protocol than HTTP from now on.
    pub(super) is_upgraded: AtomicBool,
    /// Whether the client will send nothing more.
    pub(super) is_half_closed: AtomicBool,
    /// Frames of HTTP/2 that its requests and their answers allow it ([`frames`](super::frames)).
    pub(super) earned: AtomicU64,
    /// Responses over HTTP/2 that its client has not taken.
    pub(super) stalled_writes: StalledWrites,
}

impl Client {
    pub(super) fn new() -> Client {
        Client {
            signs: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            has_spoken: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            heard_when_told: AtomicU64::new(NOT_TOLD),
            in_head: AtomicBool::new(true),
            is_http2: AtomicBool::new(false),
            is_http11: AtomicBool::new(false),
            in_body: AtomicBool::new(false),
            is_upgraded: AtomicBool::new(false),
            is_half_closed: AtomicBool::new(false),
            earned: AtomicU64::new(0),
            stalled_writes: StalledWrites::new(),
        }
    }
}

/// The responses of one connection of HTTP/2 that are not wholly handed on, and when each was last asked for
/// more. The lock is the connection's own, taken once a response.
pub(super) struct StalledWrites {
    since: Instant,
    responses: Mutex<Vec<Weak<AtomicU64>>>,
}

impl StalledWrites {
    pub(super) fn new() -> StalledWrites {
        StalledWrites { since: Instant::now(), responses: Mutex::default() }
    }

    /// Milliseconds since the connection began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(RESTING - 1)
    }

    pub(super) fn add(&self) -> Arc<AtomicU64> {
        let asked = Arc::new(AtomicU64::new(self.now()));
        let mut responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended ones are forgotten when the list would have to grow.
        if responses.len() == responses.capacity() {
            responses.retain(|response| response.strong_count() > 0);
        }
        responses.push(Arc::downgrade(&asked));
        asked
    }

    /// For how long the client has taken nothing of the response that it has left alone for the longest.
    pub(super) fn longest(&self) -> Duration {
        let now = self.now();
        let responses = self.responses.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = responses.iter().filter_map(Weak::upgrade).map(|asked| asked.load(Ordering::Relaxed));
        Duration::from_millis(asked.map(|asked| now.saturating_sub(asked)).max().unwrap_or_default())
    }
}
