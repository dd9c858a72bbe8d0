//! The part of an endpoint's jobs that is in memory: how many there are, and those that run.
//!
//! Place in the flow: the store keeps the numbers up to date, and says when there is a job to run; workers
//! wait here, and put here how a job that runs can be stopped; so does the one that sends webhooks, and notes
//! which are under way, so that a changed endpoint sends none of them twice.
//! Invariant: nothing here is for a single queued job, or for a webhook that waits.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::record::JobState;
use super::webhook::Delivery;

/// Most bytes of an endpoint's large answers about jobs that its clients have not taken yet; one that is
/// larger goes alone.
const ROOM: u32 = 112 << 20;
/// The same of small ones, which large ones that are taken slowly do not hold up.
const SMALL_ROOM: u32 = 16 << 20;
/// Most bytes of a small one.
const SMALL: u64 = 1 << 20;
/// How long an answer waits for others to be taken.
const ROOM_WAIT: Duration = Duration::from_secs(10);

/// The jobs of one endpoint.
#[derive(Debug, Default)]
pub struct Queue {
    ready: Notify,
    queued: AtomicU64,
    running: AtomicU64,
    /// When the oldest job that waits for a place was submitted, in milliseconds since 1970; 0 if none does.
    oldest: AtomicU64,
    /// Webhooks that are pending.
    webhooks: AtomicI64,
    /// With the number of the run, so that a job which runs again is not forgotten by the run before.
    stops: Mutex<HashMap<String, (u64, oneshot::Sender<()>)>>,
    runs: AtomicU64,
    deliver: Notify,
    sending: Mutex<Sending>,
    /// Jobs that have ended since they were last asked for, in the order of [`JobState::ENDS`].
    ended: [AtomicU64; JobState::ENDS.len()],
    room: Room,
}

/// The room for answers, in bytes.
#[derive(Debug)]
struct Room {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Room {
        let [small, large] = [SMALL_ROOM, ROOM].map(|bytes| Arc::new(Semaphore::new(bytes as usize)));
        Room { small, large }
    }
}

/// A job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndedJob {
    pub(super) id: String,
    pub(super) state: JobState,
    /// Why, if it has failed.
    pub(super) error: String,
}

/// The messages that are being sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Sending {
    /// Their jobs.
    pub(super) ids: HashSet<String>,
    /// How many go to a place.
    pub(super) origins: HashMap<String, usize>,
}

/// A message that is being sent; dropped when it is not any more.
#[derive(Debug)]
pub struct SendGuard {
    queue: Arc<Queue>,
    id: String,
    origin: String,
}

/// A job that runs; dropped when it does no more.
#[derive(Debug)]
pub struct Running {
    queue: Arc<Queue>,
    id: String,
    run: u64,
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

    /// Webhooks that are pending.
    pub fn webhooks(&self) -> i64 {
        self.webhooks.load(Ordering::Relaxed)
    }

    pub(super) fn set_webhooks(&self, number: u64) {
        self.webhooks.store(i64::try_from(number).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    pub(super) fn add_webhooks(&self, more: i64) {
        self.webhooks.fetch_add(more, Ordering::Relaxed);
    }

    /// Counts jobs of this endpoint that have ended, and says in the log which have failed.
    pub(super) fn ended(&self, endpoint: &str, jobs: &[EndedJob]) {
        for EndedJob { id, state, error } in jobs {
            let place = JobState::ENDS.iter().position(|end| end == state);
            if let Some(count) = place.and_then(|place| self.ended.get(place)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            if *state == JobState::Failed {
                tracing::warn!(endpoint, job.id = id, "a job has failed, and is not tried again: {error}");
            }
        }
    }

    /// How many jobs have ended since this was last asked, in the order of [`JobState::ENDS`].
    pub fn take_ended(&self) -> [u64; JobState::ENDS.len()] {
        std::array::from_fn(|place| self.ended.get(place).map_or(0, |count| count.swap(0, Ordering::Relaxed)))
    }

    /// Wakes the one that sends webhooks.
    pub(super) fn deliver(&self) {
        self.deliver.notify_one();
    }

    /// Ready when there may be a webhook to send.
    pub fn wait_for_delivery(&self) -> Notified<'_> {
        self.deliver.notified()
    }

    /// The messages that are being sent.
    pub(super) fn sending(&self) -> Sending {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Room for an answer of so many bytes, until it is dropped; `None` if others are not taken in time.
    pub async fn room(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let room = if bytes <= SMALL { &self.room.small } else { &self.room.large };
        let bytes = u32::try_from(bytes).unwrap_or(ROOM).min(ROOM);
        timeout(ROOM_WAIT, room.clone().acquire_many_owned(bytes)).await.ok()?.ok()
    }

    /// A message that is about to be sent; `None` if it is being sent already.
    pub fn send(self: &Arc<Self>, delivery: &Delivery) -> Option<SendGuard> {
        let Delivery { id, origin, .. } = delivery;
        let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if !sending.ids.insert(id.clone()) {
            return None;
        }
        *sending.origins.entry(origin.clone()).or_default() += 1;
        Some(SendGuard { queue: self.clone(), id: id.clone(), origin: origin.clone() })
    }

    /// A job that is about to run: from now on it can be stopped.
    pub fn begin(self: &Arc<Self>, id: &str) -> Running {
        let (stop, stopped) = oneshot::channel();
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), (run, stop));
        Running { queue: self.clone(), id: id.to_owned(), run, stopped }
    }

    /// Stops a job, if it runs.
    pub(super) fn stop(&self, id: &str) {
        let stop = self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some((_, stop)) = stop {
            // One that has just ended needs no word.
            let _ = stop.send(());
        }
    }
}

impl Running {
    /// Waits until the job is to be stopped.
    pub async fn stopped(&mut self) {
        // Its sender is dropped by nothing else than `stop`, the next run of the job and the drop of this.
        let _ = (&mut self.stopped).await;
    }
}

impl Drop for SendGuard {
    fn drop(&mut self) {
        let mut sending = self.queue.sending.lock().unwrap_or_else(PoisonError::into_inner);
        sending.ids.remove(&self.id);
        if let Some(count) = sending.origins.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                sending.origins.remove(&self.origin);
            }
        }
        drop(sending);
        self.queue.deliver();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut stops = self.queue.stops.lock().unwrap_or_else(PoisonError::into_inner);
        if stops.get(&self.id).is_some_and(|(run, _)| *run == self.run) {
            stops.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_that_are_not_taken_are_bounded_and_another_endpoint_is_unharmed() {
        let (queue, other) = (Queue::default(), Queue::default());
        let soon = |room| timeout(Duration::from_millis(20), room);
        let half = u64::from(ROOM) / 2;
        let (first, second) = (queue.room(half).await, queue.room(half).await);
        assert!(first.is_some() && second.is_some());
        assert!(soon(queue.room(SMALL + 1)).await.is_err(), "it waits");
        assert!(queue.room(SMALL).await.is_some(), "a small one does not");
        assert!(other.room(u64::MAX).await.is_some());
        drop(first);
        assert!(queue.room(half).await.is_some());
        // Larger than all of it, while half is taken, and alone.
        assert!(soon(queue.room(u64::MAX)).await.is_err());
        drop(second);
        assert!(queue.room(u64::MAX).await.is_some());
    }
}
