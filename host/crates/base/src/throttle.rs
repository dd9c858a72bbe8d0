//! A pause between log lines of the same kind, for what every request may meet.
//!
//! Place in the flow: beside a connection to a store. In: an event. Out: whether the log tells of it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// When the last line was written.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<Option<Instant>>);

impl Throttle {
    /// Whether a line is due. It counts as written then.
    pub fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= PAUSE);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}
