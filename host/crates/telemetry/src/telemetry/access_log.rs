//! The access log: one line for each request of a client, written when it is over.
//!
//! Place in the flow: `server/access.rs` opens an [`AccessEntry`] when a request's head is there, and counts
//! its bytes; `server/serve.rs` adds what it knows of its run. The last holder of the entry ends it, and a
//! thread of its own makes the line and writes it to a file or to stdout.
//! In: requests that are over. Out: lines, as JSON or in the common log format; counts.
//! Invariants: without a format there is no log, no thread and no queue; a request neither waits for a disk
//! nor takes a lock: what finds no place in the queue, or none on the disk, is dropped and counted; every
//! text of a client is bounded and escaped.

mod entry;
mod line;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, Thread};

use crossbeam_queue::ArrayQueue;

use self::entry::EndedRequest;
pub use self::entry::{AccessEntry, AccessHead, ServedAccess, ServedFacts};
use self::writer::{Output, Writer};
use super::metrics::{AccessLogCounts, Metrics};
use crate::bucketing::by_chance;
use crate::values::Ratio;

/// Requests that may wait for the thread; the ones after them are dropped.
const WAITING: usize = 4096;
/// Requests that are worth waking the thread for, which looks by itself ten times a second.
const WORTH_A_WAKE: usize = WAITING / 8;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// The common log format of web servers.
    Common,
}

/// The access log's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How a line looks.
    pub format: Format,
    /// Where the lines go; `None`: to stdout.
    pub file: Option<PathBuf>,
    /// The share of requests that have a line.
    pub share: Ratio,
}

/// The access log of the process.
pub struct AccessLog {
    share: Ratio,
    queue: Arc<Queue>,
    writer: Thread,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that requests and the thread share.
struct Queue {
    ended: ArrayQueue<Box<EndedRequest>>,
    is_closed: AtomicBool,
    counts: AccessLogCounts,
}

impl AccessLog {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no thread.
    pub fn start(config: &Config, metrics: &Metrics) -> io::Result<Arc<AccessLog>> {
        let queue = Arc::new(Queue {
            ended: ArrayQueue::new(WAITING),
            is_closed: AtomicBool::new(false),
            counts: metrics.access_log(),
        });
        let writer = Writer::new(config.format, Output::open(config.file.clone())?, queue.clone());
        let thread = Builder::new().name("access-log".to_owned()).spawn(move || writer.run())?;
        let writer = thread.thread().clone();
        Ok(Arc::new(AccessLog { share: config.share, queue, writer, thread: Mutex::new(Some(thread)) }))
    }

    /// Whether a request that begins now is to have a line.
    pub fn samples(&self) -> bool {
        self.share == Ratio::ONE || by_chance() < self.share.get()
    }

    /// Writes what waits, and nothing that ends later. Waits for the disk.
    pub fn close(&self) {
        self.queue.is_closed.store(true, Ordering::Release);
        self.writer.unpark();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that has panicked has nothing left to write.
        let _ = thread.map(JoinHandle::join);
    }

    fn push(&self, request: Box<EndedRequest>) {
        if self.queue.ended.push(request).is_err() {
            self.queue.counts.dropped.inc();
        } else if self.queue.ended.len() == WORTH_A_WAKE {
            self.writer.unpark();
        }
    }
}
