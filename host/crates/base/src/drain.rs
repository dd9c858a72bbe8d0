//! The end of the process, told to every listener and every worker.
//!
//! Place in the flow: begun and ended by `app.rs`; asked on every response, waited for by listeners, streams
//! and the workers of jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Tells every connection and task that the process is going away. Cheap to clone, cheap to ask.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    begun: Arc<AtomicBool>,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Serving,
    Begun,
    Over,
}

impl Drain {
    /// Begins the drain.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.phase.send_replace(Phase::Begun);
    }

    /// Its time is over: nothing is waited for any more.
    pub fn end(&self) {
        self.phase.send_replace(Phase::Over);
    }

    /// Whether it has begun. One atomic load.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        self.until(Phase::Begun).await;
    }

    /// Waits until its time is over.
    pub async fn over(&self) {
        self.until(Phase::Over).await;
    }

    async fn until(&self, wanted: Phase) {
        // An error would mean that the sender is gone, and `self` holds it.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
    }
}
