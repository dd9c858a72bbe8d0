//! What a C library writes to stderr by itself, taken before it gets there.
//!
//! Place in the flow: an engine's loader calls [`capture`] before it opens its library; [`logs`](super::logs)
//! calls [`release`] when the log ends.
//! In:   what is written to descriptor 2. Out: its lines, one by one, to a function that logs them.
//! Invariants: the log itself writes to a descriptor of its own ([`own`]), so no line comes twice; writing to
//! stderr waits for no thread but the one that reads; after [`release`] stderr is what it was, and every line
//! before has been handed on.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes of a line; what is longer comes in parts.
const LINE: u64 = 16 << 10;
/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Puts a descriptor in stderr's place: unsafe code, so it is the engine's.
type Redirect = fn(BorrowedFd<'_>) -> io::Result<()>;

static CAPTURED: Mutex<Option<Captured>> = Mutex::new(None);

struct Captured {
    redirect: Redirect,
    /// The descriptor that stderr was.
    before: OwnedFd,
    /// Closes after the last line.
    end: Receiver<()>,
}

/// Stderr as it is now, under a descriptor of its own.
///
/// # Errors
/// There is no descriptor left.
pub(super) fn own() -> io::Result<File> {
    Ok(io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// From now on every line that is written to stderr goes to `log`, on a thread of its own. Later calls change
/// nothing.
///
/// # Errors
/// There is no descriptor or no thread left: stderr stays as it is.
pub fn capture(redirect: Redirect, log: impl FnMut(&str) + Send + 'static) -> io::Result<()> {
    let mut captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner);
    if captured.is_none() {
        let (reader, writer) = io::pipe()?;
        let before = own()?.into();
        let (ended, end) = mpsc::channel();
        thread::Builder::new().name("stderr".into()).spawn(move || {
            read(reader, log);
            drop::<mpsc::Sender<()>>(ended);
        })?;
        redirect(writer.as_fd())?;
        *captured = Some(Captured { redirect, before, end });
    }
    Ok(())
}

/// Gives stderr back, and waits until every line before has been handed on.
pub(super) fn release() {
    let captured = CAPTURED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Captured { redirect, before, end }) = captured
        && redirect(before.as_fd()).is_ok()
    {
        // It says nothing, it ends: there is no writer of the pipe any more.
        let _ = end.recv_timeout(LAST_LINES);
    }
}

fn read(reader: PipeReader, mut log: impl FnMut(&str)) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.by_ref().take(LINE).read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        if !text.is_empty() {
            log(&text);
        }
        line.clear();
    }
}
