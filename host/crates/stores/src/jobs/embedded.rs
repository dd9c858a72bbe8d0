//! The jobs in a file of their own: redb, with one thread that writes.
//!
//! Place in the flow: behind [`JobStore`](super::JobStore). In: changes and questions of all endpoints. Out:
//! their answers.
//! Invariants: a change is answered after its transaction is on the disk, so that what was answered survives
//! the end of the process at any moment; all that have come while one transaction was written share the next
//! one; questions see the last transaction and wait for none. With nothing to do and nothing to expire, the
//! thread sleeps.
//! After a failed write, of a full disk for example, the next change or question opens the file again. What
//! it was to store may be on the disk nevertheless: jobs that it has claimed are then queued again.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redb::{ReadableDatabase as _, StorageError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::record::now;
use super::snapshot::Snapshot;
use super::tables::{Claim, Failure, Numbers, Tables};
use super::{JobError, Queue};
use crate::stores::{FileHints, OpenError, ROOM, Readers, StoreFile, Writer};

const HINTS: FileHints = FileHints {
    in_use: "another process has it open, or it is `kv.store`: jobs need a file of their own",
    other: "`jobs.store` is a file in a folder that this user can write to, or not there yet",
};
/// Changes that may wait for the writer.
const WAITING: usize = 1024;
/// Most bytes of changes that wait for the writer, but for one that is longer.
const WAITING_BYTES: usize = 64 << 20;
/// Most bytes and changes that share one transaction.
const BATCH: (usize, usize) = (8 << 20, WAITING);
/// How long after a failed write claims are looked for, in milliseconds.
const RETRY: u64 = 1000;
/// The least time between two sweeps of an idle store.
const SWEEP_PAUSE: Duration = Duration::from_millis(500);

/// A store in a file.
pub(super) struct Embedded {
    file: Arc<File>,
    writer: Writer<Box<dyn PendingWrite>>,
    places: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    readers: Readers,
}

struct File {
    database: StoreFile,
    queues: Mutex<HashMap<String, Arc<Queue>>>,
    /// Whether the next write is stored, and says that it has failed.
    #[cfg(test)]
    loses_an_answer: std::sync::atomic::AtomicBool,
}

/// A change that waits for the writer.
trait PendingWrite: Send {
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), StorageError>;
    /// Answers: what `apply` came to, or that it is not known whether that is stored.
    fn answer(self: Box<Self>, is_stored: bool);
    fn size(&self) -> usize;
}

struct Waiting<F, T> {
    change: Option<F>,
    outcome: Option<Result<T, JobError>>,
    answer: oneshot::Sender<Result<T, JobError>>,
    size: usize,
    _places: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl<F, T> PendingWrite for Waiting<F, T>
where
    F: FnOnce(&mut Tables<'_>) -> Result<T, Failure> + Send,
    T: Send,
{
    fn apply(&mut self, tables: &mut Tables<'_>) -> Result<(), StorageError> {
        self.outcome = match self.change.take().map(|change| change(tables)) {
            Some(Ok(done)) => Some(Ok(done)),
            Some(Err(Failure::Refused(error))) => Some(Err(error)),
            Some(Err(Failure::Store(error))) => return Err(error),
            None => None,
        };
        Ok(())
    }

    fn answer(self: Box<Self>, is_stored: bool) {
        let failed = || Err(JobError::Unavailable("a write has failed".to_owned()));
        // A call that was dropped needs no answer.
        let _ = self.answer.send(self.outcome.filter(|_| is_stored).unwrap_or_else(failed));
    }

    fn size(&self) -> usize {
        self.size
    }
}

impl Embedded {
    pub(super) fn open(path: &Path) -> Result<Embedded, OpenError> {
        let failed = |why: String, hint| OpenError { place: path.display().to_string(), why, hint };
        let file = Arc::new(File {
            database: StoreFile::open(path, HINTS)?,
            queues: Mutex::default(),
            #[cfg(test)]
            loses_an_answer: Default::default(),
        });
        let next_time = file.begin().map_err(|why| failed(why, ROOM))?;
        let own = file.clone();
        let no_thread = |error: io::Error| failed(error.to_string(), "the system has to allow more threads");
        let writer =
            Writer::start("jobs", move |changes| own.write(changes, next_time)).map_err(no_thread)?;
        let readers = Readers::start("jobs").map_err(no_thread)?;
        let [places, bytes] = [WAITING, WAITING_BYTES].map(|most| Arc::new(Semaphore::new(most)));
        Ok(Embedded { file, writer, places, bytes, readers })
    }

    /// See [`Writer::close`].
    pub(super) fn close(&self) {
        self.writer.close();
    }

    /// Has the next write be stored, and say that it has failed.
    #[cfg(test)]
    pub(super) fn lose_an_answer(&self) {
        self.file.loses_an_answer.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    pub(super) fn queue(&self, endpoint: &str) -> Arc<Queue> {
        self.file.queue(endpoint)
    }

    /// Makes a change that brings `size` bytes.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        size: usize,
        change: impl FnOnce(&mut Tables<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, JobError> {
        let gone = || JobError::Unavailable("it is closed".to_owned());
        let bytes = u32::try_from(size.min(WAITING_BYTES)).unwrap_or(u32::MAX);
        let bytes = self.bytes.clone().acquire_many_owned(bytes).await.map_err(|_| gone())?;
        let place = self.places.clone().acquire_owned().await.map_err(|_| gone())?;
        let (answer, outcome) = oneshot::channel();
        let change = Waiting { change: Some(change), outcome: None, answer, size, _places: (place, bytes) };
        self.writer.send(Box::new(change)).ok_or_else(gone)?;
        outcome.await.map_err(|_| gone())?
    }

    /// Asks the last transaction.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Snapshot) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, JobError> {
        let file = self.file.clone();
        let read = self.readers.read(move || file.read(ask)).await;
        read.unwrap_or_else(|| Err(JobError::Unavailable("a read has failed".to_owned())))
    }
}

impl File {
    /// Makes the tables, and queues again what the process before was cut off at. Gives when something is to
    /// be done next.
    fn begin(&self) -> Result<Option<u64>, String> {
        let (next_time, numbers) = self.transaction(|tables| {
            let recovered = tables.recover()?;
            if recovered > 0 {
                tracing::info!(
                    jobs = recovered,
                    "jobs ran when the process before ended: they are run again"
                );
            }
            tables.is_changed = true;
            tables.next_time()
        })?;
        for (endpoint, numbers) in numbers {
            self.queue(&endpoint).ended(&endpoint, &numbers.ended);
        }
        let (all, _) = self.transaction(|tables| tables.all_numbers())?;
        self.publish(all);
        Ok(next_time)
    }

    fn queue(&self, endpoint: &str) -> Arc<Queue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(endpoint) {
            return queue.clone();
        }
        queues.entry(endpoint.to_owned()).or_default().clone()
    }

    fn publish(&self, numbers: Vec<(String, Numbers)>) {
        for (endpoint, numbers) in numbers {
            let Numbers {
                queued, running, oldest, has_ready, has_delivery, webhooks, stopped, ended, ..
            } = numbers;
            let queue = self.queue(&endpoint);
            queue.ended(&endpoint, &ended);
            queue.set_numbers(queued, running, oldest);
            queue.add_webhooks(webhooks);
            // From here and not by the call, which may have been dropped while it waited for the disk.
            if has_ready {
                queue.ready();
            }
            if has_delivery {
                queue.deliver();
            }
            stopped.iter().for_each(|id| queue.stop(id));
        }
    }

    /// The writer: until nothing can send to it any more, which closes the file.
    fn write(&self, changes: &Receiver<Box<dyn PendingWrite>>, mut next_time: Option<u64>) {
        // Claims whose writes have failed.
        let mut unanswered: HashSet<Claim> = HashSet::new();
        loop {
            let first = match next_time {
                None => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(time) => {
                    let until = Duration::from_millis(time.saturating_sub(now()));
                    changes.recv_timeout(until.max(SWEEP_PAUSE))
                }
            };
            let mut batch = Vec::new();
            match first {
                Ok(change) => batch.push(change),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.put_back(&unanswered);
                    return self.database.close();
                }
            }
            let mut bytes: usize = batch.iter().map(|change| change.size()).sum();
            while bytes < BATCH.0
                && batch.len() < BATCH.1
                && let Ok(change) = changes.try_recv()
            {
                bytes += change.size();
                batch.push(change);
            }
            let mut claims = Vec::new();
            let written = self.transaction(|tables| {
                tables.put_back(&unanswered)?;
                batch.iter_mut().try_for_each(|change| change.apply(tables))?;
                tables.sweep()?;
                claims = std::mem::take(&mut tables.claims);
                tables.next_time()
            });
            let is_stored = written.is_ok();
            next_time = match written {
                Ok((next_time, numbers)) => {
                    unanswered.clear();
                    self.publish(numbers);
                    next_time
                }
                Err(why) => {
                    self.tell(&why);
                    self.database.give_up();
                    unanswered.extend(claims);
                    // No change may come for a job that seems to run; else the next one does what is due.
                    (!unanswered.is_empty()).then(|| now() + RETRY)
                }
            };
            batch.into_iter().for_each(|change| change.answer(is_stored));
        }
    }

    /// Queues the jobs of claims again whose writes have failed, before the file is closed: the next start
    /// would take them for attempts that the end of the process has cut off.
    fn put_back(&self, unanswered: &HashSet<Claim>) {
        if unanswered.is_empty() {
            return;
        }
        if let Err(why) = self.transaction(|tables| tables.put_back(unanswered)) {
            self.tell(&why);
        }
    }

    fn tell(&self, why: &str) {
        tracing::error!(store = %self.database.path().display(), "jobs could not be written: {why}");
    }

    /// Does something to the tables, and stores it if it has changed any.
    fn transaction<T>(
        &self,
        change: impl FnOnce(&mut Tables<'_>) -> Result<T, StorageError>,
    ) -> Result<(T, Vec<(String, Numbers)>), String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let database = self.database.database()?;
        let transaction = database.begin_write().map_err(|error| text(&error))?;
        let mut tables = Tables::open(&transaction).map_err(|error| text(&error))?;
        let done = change(&mut tables).map_err(|error| text(&error))?;
        let numbers = tables.settle().map_err(|error| text(&error))?;
        let is_changed = tables.is_changed;
        drop(tables);
        if is_changed {
            transaction.commit().map_err(|error| text(&error))?;
            #[cfg(test)]
            if self.loses_an_answer.swap(false, std::sync::atomic::Ordering::SeqCst) {
                return Err("its answer is lost".to_owned());
            }
        } else {
            transaction.abort().map_err(|error| text(&error))?;
        }
        Ok((done, numbers))
    }

    fn read<T>(&self, ask: impl FnOnce(&Snapshot) -> Result<T, redb::Error>) -> Result<T, JobError> {
        let database = self.database.database().map_err(JobError::Unavailable)?;
        let snapshot = database.begin_read().map_err(redb::Error::from);
        snapshot.and_then(|snapshot| ask(&Snapshot(snapshot))).map_err(|error| {
            tracing::error!(store = %self.database.path().display(), "jobs could not be read: {error}");
            JobError::Unavailable("a read has failed".to_owned())
        })
    }
}
