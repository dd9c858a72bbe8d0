//! The store in a file of its own: redb, with one thread that writes.
//!
//! Place in the flow: behind [`Store`](super::Store). In: operations of all handlers. Out: their answers.
//! Invariants: an operation that writes is answered after its transaction is on the disk, so that what was
//! answered survives the end of the process at any moment; all that have come while one transaction was
//! written share the next one; reads see the last transaction and wait for none. With nothing to do and
//! nothing to expire, the thread sleeps.
//! After a failed write, of a full disk for example, the next operation opens the file again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use redb::ReadableDatabase as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::apply::{self, Tables, VALUES};
use super::{Bucket, KvAnswer, KvError, KvOp, KvOutcome, KvValue, MOST_KEYS, OpenError, Quota, now, size};
use crate::stores::{FileHints, ROOM, Readers, StoreFile, Writer};

const HINTS: FileHints = FileHints {
    in_use: "another process has it open: each host needs a file of its own, or hosts share a Redis",
    other: "`kv.store` is a file in a folder that this user can write to, or not there yet",
};
/// Operations that may wait for the writer.
const WAITING: usize = 1024;
/// Most bytes and operations that share one transaction.
const BATCH: (usize, usize) = (8 << 20, WAITING);
/// The least time between two rounds that remove what is over.
const SWEEP_PAUSE: Duration = Duration::from_millis(500);

/// A store in a file.
pub(super) struct Embedded {
    file: Arc<File>,
    writer: Writer<Job>,
    places: Arc<Semaphore>,
    readers: Readers,
}

struct File {
    database: StoreFile,
    /// Transactions written, of operations.
    commits: AtomicU64,
}

/// An operation that writes, and where its answer goes.
struct Job {
    bucket: Bucket,
    op: KvOp,
    quota: Quota,
    answer: oneshot::Sender<KvOutcome>,
    _place: OwnedSemaphorePermit,
}

impl Embedded {
    pub(super) fn open(path: &Path) -> Result<Embedded, OpenError> {
        let failed = |why: String, hint| OpenError { place: path.display().to_string(), why, hint };
        let file = Arc::new(File { database: StoreFile::open(path, HINTS)?, commits: AtomicU64::new(0) });
        // Its tables are there from now on, and a disk that takes no write is found out.
        let next_end = file.transaction(&mut Vec::new()).map_err(|why| failed(why, ROOM))?;
        let own = file.clone();
        let no_thread = |error: io::Error| failed(error.to_string(), "the system has to allow more threads");
        let writer = Writer::start("kv", move |jobs| own.write(jobs, next_end)).map_err(no_thread)?;
        let readers = Readers::start("kv").map_err(no_thread)?;
        Ok(Embedded { file, writer, readers, places: Arc::new(Semaphore::new(WAITING)) })
    }

    /// See [`Writer::close`].
    pub(super) fn close(&self) {
        self.writer.close();
    }

    pub(super) async fn call(&self, bucket: &Bucket, op: KvOp, quota: Quota) -> KvOutcome {
        let closed = || KvError::Unavailable("it is closed".to_owned());
        let gone = |_| closed();
        if !op.is_write() {
            let (file, bucket) = (self.file.clone(), bucket.clone());
            let read = self.readers.read(move || file.read(&bucket, &op)).await;
            return read.unwrap_or_else(|| Err(KvError::Unavailable("a read has failed".to_owned())));
        }
        let place = self.places.clone().acquire_owned().await.map_err(gone)?;
        let (answer, outcome) = oneshot::channel();
        let job = Job { bucket: bucket.clone(), op, quota, answer, _place: place };
        self.writer.send(job).ok_or_else(closed)?;
        outcome.await.map_err(|_| closed())?
    }

    /// Transactions written so far.
    #[cfg(test)]
    pub(super) fn commits(&self) -> u64 {
        self.file.commits.load(Ordering::Relaxed)
    }
}

impl File {
    /// The writer: until nothing can send to it any more, which closes the file.
    fn write(&self, jobs: &Receiver<Job>, mut next_end: Option<u64>) {
        loop {
            let first = match next_end {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(end) => {
                    let until = Duration::from_millis(end.saturating_sub(now()));
                    jobs.recv_timeout(until.max(SWEEP_PAUSE))
                }
            };
            let mut batch = Vec::new();
            match first {
                Ok(job) => batch.push(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.database.close(),
            }
            let mut bytes: usize = batch.iter().map(|job| size(&job.op)).sum();
            while bytes < BATCH.0
                && batch.len() < BATCH.1
                && let Ok(job) = jobs.try_recv()
            {
                bytes += size(&job.op);
                batch.push(job);
            }
            next_end = match self.transaction(&mut batch) {
                Ok(next_end) => next_end,
                Err(why) => {
                    tracing::error!(store = %self.database.path().display(), "values could not be written: {why}");
                    for job in batch {
                        // A call that was dropped needs no answer.
                        let _ = job.answer.send(Err(KvError::Unavailable("a write has failed".to_owned())));
                    }
                    // What is over is removed with the next write.
                    None
                }
            };
        }
    }

    /// Writes one transaction, and answers its operations. Gives when the next value is over.
    fn transaction(&self, batch: &mut Vec<Job>) -> Result<Option<u64>, String> {
        let written = self.database.database().and_then(|database| {
            let text = |error: &dyn std::error::Error| error.to_string();
            let transaction = database.begin_write().map_err(|error| text(&error))?;
            let mut tables = Tables::open(&transaction).map_err(|error| text(&error))?;
            let mut outcomes = Vec::with_capacity(batch.len());
            for Job { bucket, op, quota, .. } in batch.iter() {
                let applied = apply::outcome(tables.apply(bucket, op, *quota));
                outcomes.push(applied.map_err(|error| text(&error))?);
            }
            tables.sweep(now()).map_err(|error| text(&error))?;
            let next_end = tables.next_end().map_err(|error| text(&error))?;
            drop(tables);
            transaction.commit().map_err(|error| text(&error))?;
            Ok((outcomes, next_end))
        });
        let (outcomes, next_end) = match written {
            Ok(written) => written,
            Err(why) => {
                self.database.give_up();
                return Err(why);
            }
        };
        if !batch.is_empty() {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        for (job, outcome) in std::mem::take(batch).into_iter().zip(outcomes) {
            let _ = job.answer.send(outcome);
        }
        Ok(next_end)
    }

    fn read(&self, bucket: &Bucket, op: &KvOp) -> KvOutcome {
        let failed = |error: &dyn std::error::Error| {
            tracing::error!(store = %self.database.path().display(), "values could not be read: {error}");
            KvError::Unavailable("a read has failed".to_owned())
        };
        let database = self.database.database().map_err(KvError::Unavailable)?;
        let values = database.begin_read().map_err(|error| failed(&error))?;
        let values = values.open_table(VALUES).map_err(|error| failed(&error))?;
        let now = now();
        match op {
            KvOp::Get { key } => {
                let found = values.get(bucket.place(key).as_slice()).map_err(|error| failed(&error))?;
                Ok(KvAnswer::Value(found.and_then(|stored| {
                    let (data, end) = apply::decoded(stored.value());
                    (!apply::is_over(end, now)).then(|| KvValue(data.to_vec()))
                })))
            }
            KvOp::Keys { prefix, cursor, skip, limit } => {
                let limit = (*limit).clamp(1, MOST_KEYS) as usize;
                let within = bucket.place(prefix);
                // The place after the cursor's own.
                let behind = |cursor: &String| [bucket.place(cursor).as_slice(), &[0]].concat();
                let from = cursor.as_ref().map_or_else(|| within.clone(), behind).max(within.clone());
                let range = values.range(from.as_slice()..).map_err(|error| failed(&error))?;
                let (mut keys, mut skip) = (Vec::<String>::new(), *skip);
                for entry in range {
                    let (place, stored) = entry.map_err(|error| failed(&error))?;
                    let Some(key) = place.value().strip_prefix(bucket.prefix.as_bytes()) else { break };
                    if !place.value().starts_with(&within) {
                        break;
                    }
                    let key = String::from_utf8_lossy(key).into_owned();
                    if apply::is_over(apply::decoded(stored.value()).1, now) {
                        continue;
                    }
                    if keys.len() == limit {
                        let cursor = keys.last().cloned();
                        return Ok(KvAnswer::Keys(keys, cursor));
                    }
                    match skip.checked_sub(1) {
                        Some(less) => skip = less,
                        None => keys.push(key),
                    }
                }
                Ok(KvAnswer::Keys(keys, None))
            }
            _ => Err(KvError::Invalid("it writes".to_owned())),
        }
    }
}
