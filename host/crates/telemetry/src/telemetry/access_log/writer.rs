//! The thread of the access log: makes lines and writes them.
//!
//! In: requests that are over, from the [`Queue`]. Out: lines in a file, which is opened again when another
//! program has moved it away, or on stdout; counts; one line in the log when lines cannot be written, and one
//! when they can again.
//! Invariants: no request waits for it; a write that fails costs the lines of that write, never the thread; a
//! line that a full disk has cut off is ended before the next one.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Format, Queue, WAITING, line};

/// How long a line waits for others at most.
const PAUSE: Duration = Duration::from_millis(100);
/// How often is looked whether the file is where it was.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that are written at once, about.
const WORTH_A_WRITE: usize = 64 << 10;

/// Where lines go.
pub(super) struct Output {
    /// `None`: to stdout.
    path: Option<PathBuf>,
    /// Once it is open.
    file: Option<File>,
    looked: Instant,
}

impl Output {
    /// Opens the file, unless that would wait for a reader.
    ///
    /// # Errors
    /// It cannot be written to.
    pub(super) fn open(path: Option<PathBuf>) -> io::Result<Output> {
        let is_pipe = |path: &PathBuf| path.metadata().is_ok_and(|found| found.file_type().is_fifo());
        let file = match &path {
            None => Some(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
            Some(path) if is_pipe(path) => None,
            Some(path) => Some(append(path)?),
        };
        Ok(Output { path, file, looked: Instant::now() })
    }

    /// Writes all of it; of what fails, says how much was written.
    fn write(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        self.look();
        let mut open = match (self.file.take(), &self.path) {
            (Some(file), _) => file,
            (None, Some(path)) => append(path).map_err(|error| (0, error))?,
            (None, None) => return Err((0, ErrorKind::NotFound.into())),
        };
        let mut written = 0;
        let outcome = loop {
            let rest = lines.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(());
            }
            match open.write(rest) {
                Ok(0) => break Err((written, ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err((written, error)),
            }
        };
        // A pipe without a reader would stay one.
        if outcome.is_ok() || self.path.is_none() {
            self.file = Some(open);
        }
        outcome
    }

    /// Lets go of a file that is no longer at its path: what rotates logs has moved it.
    fn look(&mut self) {
        if self.looked.elapsed() < SWEEP_INTERVAL {
            return;
        }
        self.looked = Instant::now();
        if let (Some(path), Some(file)) = (&self.path, &self.file) {
            let place = |found: Metadata| (found.dev(), found.ino());
            if file.metadata().ok().map(place) != path.metadata().ok().map(place) {
                self.file = None;
            }
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// The thread's own.
pub(super) struct Writer {
    format: Format,
    output: Output,
    queue: Arc<Queue>,
    lines: Vec<u8>,
    /// Whether the last write failed.
    is_down: bool,
    /// Whether it cut a line off.
    is_cut_off: bool,
}

impl Writer {
    pub(super) fn new(format: Format, output: Output, queue: Arc<Queue>) -> Writer {
        Writer { format, output, queue, lines: Vec::new(), is_down: false, is_cut_off: false }
    }

    /// Writes until the log is closed, and then what is left.
    pub(super) fn run(mut self) {
        loop {
            let is_closed = self.queue.is_closed.load(Ordering::Acquire);
            // What ends meanwhile is for the next round, or comes too late.
            let mut left = WAITING;
            while left > 0 {
                match self.write_some(left) {
                    0 => break,
                    count => left -= count,
                }
            }
            if is_closed {
                return;
            }
            if left > 0 {
                std::thread::park_timeout(PAUSE);
            }
        }
    }

    /// Writes the lines of at most `most` requests that wait; says of how many.
    fn write_some(&mut self, most: usize) -> usize {
        self.lines.clear();
        if self.is_cut_off {
            self.lines.push(b'\n');
        }
        let mut count = 0;
        while count < most
            && self.lines.len() < WORTH_A_WRITE
            && let Some(request) = self.queue.ended.pop()
        {
            line::write(self.format, &request, &mut self.lines);
            count += 1;
        }
        if count > 0 {
            self.write(count);
        }
        count
    }

    /// Writes the lines of so many requests.
    fn write(&mut self, count: usize) {
        let counts = &self.queue.counts;
        match self.output.write(&self.lines) {
            Ok(()) => {
                counts.written.inc_by(count as u64);
                self.is_cut_off = false;
                if std::mem::take(&mut self.is_down) {
                    tracing::info!("the access log is written again");
                }
            }
            Err((written, error)) => {
                let written = self.lines.get(..written).unwrap_or_default();
                let ends = written.iter().filter(|byte| **byte == b'\n').count();
                let whole = ends.saturating_sub(usize::from(self.is_cut_off));
                counts.written.inc_by(whole as u64);
                counts.dropped.inc_by(count.saturating_sub(whole) as u64);
                self.is_cut_off = written.last().map_or(self.is_cut_off, |last| *last != b'\n');
                if !std::mem::replace(&mut self.is_down, true) {
                    tracing::warn!("the access log cannot be written, its lines are lost: {error}");
                }
            }
        }
    }
}
