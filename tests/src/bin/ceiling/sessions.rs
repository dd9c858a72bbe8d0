//! Runs of milliseconds, on threads of their own: what `encoder`, `image` and `oip` have in common.
//!
//! In:  what a request wants to do with a session. Out: what came of it.
//!
//! Invariants: first come, first served; as many runs at once as there are sessions, never on an async thread; a
//! request whose client goes away while it waits costs no run.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use ort::session::Session;
use tokio::sync::Semaphore;

use crate::Failure;

/// The sessions, lent one by one.
pub struct Sessions {
    idle: ArrayQueue<Session>,
    /// One permit for each session in `idle`, given out in the order of asking.
    permits: Arc<Semaphore>,
}

impl Sessions {
    pub fn new(sessions: Vec<Session>) -> Arc<Sessions> {
        let permits = Arc::new(Semaphore::new(sessions.len()));
        let idle = ArrayQueue::new(sessions.len().max(1));
        for session in sessions {
            // There is a place for each of them.
            let _ = idle.push(session);
        }
        Arc::new(Sessions { idle, permits })
    }

    /// Waits for a session, then calls `run` with it on a blocking thread.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(&mut Session) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = Arc::clone(&self.permits).acquire_owned().await?;
        let this = Arc::clone(self);
        let work = move || {
            let mut session = this.idle.pop().ok_or("a permit without a session")?;
            let result = run(&mut session);
            let _ = this.idle.push(session);
            // Only now, so that whoever is next finds the session.
            drop(permit);
            result
        };
        tokio::task::spawn_blocking(work).await?
    }
}
