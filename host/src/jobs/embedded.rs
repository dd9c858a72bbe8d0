//! The jobs in a file of their own: redb, with one thread that writes.
//!
//! Place in the flow: behind [`JobStore`](super::JobStore). In: changes and questions of all endpoints. Out:
//! their answers.
//! Invariants: a change is answered after its transaction is on the disk, so that what was answered survives
//! the end of the process at any moment; all that have come while one transaction was written share the next
//! one; questions see the last transaction and wait for none. With nothing to do and nothing to expire, the
//! thread sleeps.
//! After a failed write, of a full disk for example, the file is opened again; until then changes fail.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redb::{Builder, Database, DatabaseError, ReadableDatabase as _, StorageError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::record::now;
use super::snapshot::Snapshot;
use super::tables::{Failure, Numbers, Tables};
use super::{JobError, Queue};
use crate::stores::{DAMAGED, OpenError, Writer};

/// Memory of the store's cache.
const CACHE: usize = 32 << 20;
/// Changes that may wait for the writer.
const WAITING: usize = 1024;
/// Most bytes of changes that wait for the writer, but for one that is longer.
const WAITING_BYTES: usize = 64 << 20;
/// Most bytes and changes that share one transaction.
const BATCH: (usize, usize) = (8 << 20, WAITING);
/// The least time between two sweeps of an idle store.
const SWEEP_PAUSE: Duration = Duration::from_millis(500);

/// A store in a file.
pub(super) struct Embedded {
    file: Arc<File>,
    writer: Writer<Box<dyn PendingWrite>>,
    places: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The file, which is opened again when it has failed.
struct File {
    path: PathBuf,
    database: ArcSwapOption<Database>,
    queues: Mutex<HashMap<String, Arc<Queue>>>,
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
        let database = database(path).map_err(|error| {
            let hint = match &error {
                DatabaseError::DatabaseAlreadyOpen => {
                    "another process has it open, or it is `kv.store`: jobs need a file of their own"
                }
                DatabaseError::Storage(StorageError::Corrupted(_)) => DAMAGED,
                _ => "`jobs.store` is a file in a folder that this user can write to, or not there yet",
            };
            failed(error.to_string(), hint)
        })?;
        let file = Arc::new(File {
            path: path.to_owned(),
            database: ArcSwapOption::from_pointee(database),
            queues: Mutex::default(),
        });
        let disk = "the disk has to have room for it, and the file has to be one that a host has written";
        let next_time = file.begin().map_err(|why| failed(why, disk))?;
        let own = file.clone();
        let writer = Writer::start("jobs", move |changes| own.write(changes, next_time))
            .map_err(|error| failed(error.to_string(), "the system has to allow one more thread"))?;
        let (places, bytes) = (Semaphore::new(WAITING), Semaphore::new(WAITING_BYTES));
        Ok(Embedded { file, writer, places: Arc::new(places), bytes: Arc::new(bytes) })
    }

    /// See [`Writer::close`].
    pub(super) fn close(&self) {
        self.writer.close();
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
        let read = tokio::task::spawn_blocking(move || file.read(ask));
        read.await.unwrap_or_else(|_| Err(JobError::Unavailable("a read has failed".to_owned())))
    }
}

fn database(path: &Path) -> Result<Database, DatabaseError> {
    Builder::new().set_cache_size(CACHE).create(path)
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
        drop(numbers);
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
        for (endpoint, Numbers { queued, running, oldest, has_delivery, webhooks, stopped, .. }) in numbers {
            let queue = self.queue(&endpoint);
            queue.set_numbers(queued, running, oldest);
            queue.add_webhooks(webhooks);
            if has_delivery {
                queue.deliver();
            }
            stopped.iter().for_each(|id| queue.stop(id));
        }
    }

    /// The writer: until nothing can send to it any more, which closes the file.
    fn write(&self, changes: &Receiver<Box<dyn PendingWrite>>, mut next_time: Option<u64>) {
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
                Err(RecvTimeoutError::Disconnected) => return self.database.store(None),
            }
            let mut bytes: usize = batch.iter().map(|change| change.size()).sum();
            while bytes < BATCH.0
                && batch.len() < BATCH.1
                && let Ok(change) = changes.try_recv()
            {
                bytes += change.size();
                batch.push(change);
            }
            let written = self.transaction(|tables| {
                batch.iter_mut().try_for_each(|change| change.apply(tables))?;
                tables.sweep()?;
                tables.next_time()
            });
            let is_stored = written.is_ok();
            next_time = match written {
                Ok((next_time, numbers)) => {
                    self.publish(numbers);
                    next_time
                }
                Err(why) => {
                    tracing::error!(store = %self.path.display(), "jobs could not be written: {why}");
                    // It takes no more writes; the next change opens it again, and does what is due.
                    self.database.store(None);
                    None
                }
            };
            batch.into_iter().for_each(|change| change.answer(is_stored));
        }
    }

    /// Does something to the tables, and stores it if it has changed any.
    fn transaction<T>(
        &self,
        change: impl FnOnce(&mut Tables<'_>) -> Result<T, StorageError>,
    ) -> Result<(T, Vec<(String, Numbers)>), String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let database = self.opened()?;
        let transaction = database.begin_write().map_err(|error| text(&error))?;
        let mut tables = Tables::open(&transaction).map_err(|error| text(&error))?;
        let done = change(&mut tables).map_err(|error| text(&error))?;
        let numbers = tables.settle().map_err(|error| text(&error))?;
        let is_changed = tables.is_changed;
        drop(tables);
        if is_changed {
            transaction.commit().map_err(|error| text(&error))?;
        } else {
            transaction.abort().map_err(|error| text(&error))?;
        }
        Ok((done, numbers))
    }

    /// The database, opened again if it had failed. For the writer alone.
    fn opened(&self) -> Result<Arc<Database>, String> {
        if let Some(database) = self.database.load_full() {
            return Ok(database);
        }
        let database = Arc::new(database(&self.path).map_err(|error| error.to_string())?);
        self.database.store(Some(database.clone()));
        Ok(database)
    }

    fn read<T>(&self, ask: impl FnOnce(&Snapshot) -> Result<T, redb::Error>) -> Result<T, JobError> {
        let again = || JobError::Unavailable("it is opened again with the next write".to_owned());
        let database = self.database.load_full().ok_or_else(again)?;
        let snapshot = database.begin_read().map_err(redb::Error::from);
        snapshot.and_then(|snapshot| ask(&Snapshot(snapshot))).map_err(|error| {
            tracing::error!(store = %self.path.display(), "jobs could not be read: {error}");
            JobError::Unavailable("a read has failed".to_owned())
        })
    }
}
