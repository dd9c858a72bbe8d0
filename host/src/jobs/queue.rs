//! The part of an endpoint's jobs that is in memory: how many there are, and those that run.
//!
//! Place in the flow: the store keeps the numbers up to date, and says when there is a job to run; workers
//! wait here, and put here how a job that runs can be stopped.
//! Invariant: nothing here is for a single queued job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

/// The jobs of one endpoint.
#[derive(Debug, Default)]
pub struct Queue {
    ready: Notify,
    queued: AtomicU64,
    running: AtomicU64,
    /// When the oldest job that waits for a place was submitted, in milliseconds since 1970; 0 if none does.
    oldest: AtomicU64,
    stops: Mutex<HashMap<String, oneshot::Sender<()>>>,
}

/// A job that runs; dropped when it does no more.
#[derive(Debug)]
pub struct Running {
    queue: Arc<Queue>,
    id: String,
    stopped: oneshot::Receiver<()>,
}

impl Queue {
    /// Wakes one that waits for a job.
    pub(super) fn ready(&self) {
        self.ready.notify_one();
    }

    /// Ready when there may be a job to run.
    pub fn wait(&self) -> Notified<'_> {
        self.ready.notified()
    }

    /// Jobs that are queued, that run, and when the oldest of those that wait for a place was submitted.
    pub fn numbers(&self) -> (u64, u64, Option<u64>) {
        let oldest = self.oldest.load(Ordering::Relaxed);
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (load(&self.queued), load(&self.running), (oldest > 0).then_some(oldest))
    }

    pub(super) fn set_numbers(&self, queued: u64, running: u64, oldest: Option<u64>) {
        self.queued.store(queued, Ordering::Relaxed);
        self.running.store(running, Ordering::Relaxed);
        self.oldest.store(oldest.unwrap_or(0), Ordering::Relaxed);
    }

    /// A job that is about to run: from now on it can be stopped.
    pub fn begin(self: &Arc<Self>, id: &str) -> Running {
        let (stop, stopped) = oneshot::channel();
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), stop);
        Running { queue: self.clone(), id: id.to_owned(), stopped }
    }

    /// Stops a job, if it runs.
    pub(super) fn stop(&self, id: &str) {
        let stop = self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(stop) = stop {
            // One that has just ended needs no word.
            let _ = stop.send(());
        }
    }
}

impl Running {
    /// Waits until the job is to be stopped.
    pub async fn stopped(&mut self) {
        // Its sender is dropped by nothing else than `stop` and the drop of this.
        let _ = (&mut self.stopped).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queue.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
