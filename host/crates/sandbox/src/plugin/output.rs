//! A guest's stdout and stderr, line by line into the log with the request's id.
//!
//! Place in the flow: called by WASI while guest code runs, on the thread that runs it.
//! Invariants: a line never carries another request's id; one request logs at most [`BUDGET`] bytes, so a
//! guest that floods its output fills no disk, and a guest that writes more than its limit to no end is
//! stopped; control characters never reach a terminal.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::fault::PrintsTooMuch;

/// Most bytes one request may log.
const BUDGET: usize = 64 << 10;
/// Bytes of a log line that are not the guest's.
const LINE_COST: usize = 128;
/// A line without an end is logged in pieces of this many bytes.
const LONGEST_LINE: usize = 4 << 10;

/// Lines of stderr that are kept to be told with a failure, and most of their bytes.
const LAST: (usize, usize) = (20, 8 << 10);
/// The note of Rust's runtime about itself; the backtrace is in the log anyway.
const NOTE: &str = "note: run with `RUST_BACKTRACE=";

/// Which of the two streams.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// The output of one instance. Shared between its store and the streams its guest holds; locked only when the
/// guest writes and once per request, always by the one thread that runs the instance.
#[derive(Debug, Clone)]
pub(super) struct Output(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    endpoint: Arc<str>,
    request_id: Arc<str>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// The last lines of stderr.
    last: VecDeque<String>,
    budget: usize,
    /// Most bytes a guest may write for one request, logged or not.
    limit: usize,
    written: usize,
}

impl Output {
    pub(super) fn new(endpoint: Arc<str>, request_id: Arc<str>, limit: usize) -> Output {
        Output(Arc::new(Mutex::new(Lines {
            endpoint,
            request_id,
            stdout: Vec::new(),
            stderr: Vec::new(),
            last: VecDeque::new(),
            budget: BUDGET,
            limit,
            written: 0,
        })))
    }

    /// From here on, lines belong to this request.
    pub(super) fn begin(&self, request_id: &Arc<str>) {
        let mut lines = self.lines();
        lines.flush();
        lines.request_id = request_id.clone();
        lines.last.clear();
        lines.budget = BUDGET;
        lines.written = 0;
    }

    /// Logs what has no line end yet.
    pub(super) fn flush(&self) {
        self.lines().flush();
    }

    /// The last lines that the guest has written to stderr for this request, usually why it failed: a panic,
    /// a traceback.
    pub(super) fn last_lines(&self) -> String {
        let mut lines = self.lines();
        lines.flush();
        let mut left = LAST.1;
        let fit = lines.last.iter().rev().take_while(|line| {
            left = left.saturating_sub(line.len() + 1);
            left > 0
        });
        let mut fit: Vec<&str> = fit.map(String::as_str).collect();
        fit.reverse();
        fit.join("\n")
    }

    /// The stream to give to WASI.
    pub(super) fn stream(&self, stream: Stream) -> LogStream {
        LogStream { output: self.clone(), stream }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), PrintsTooMuch> {
        self.written = self.written.saturating_add(bytes.len());
        if self.written > self.limit {
            return Err(PrintsTooMuch(self.limit));
        }
        if self.budget == 0 {
            return Ok(());
        }
        let kept = bytes.get(..self.budget).unwrap_or(bytes);
        for piece in kept.split_inclusive(|byte| *byte == b'\n') {
            let pending = match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            pending.extend_from_slice(piece);
            // A line costs what its frame in the log does, so that many short ones are no way around the
            // budget.
            self.budget = self.budget.saturating_sub(piece.len() + LINE_COST);
            if piece.ends_with(b"\n") || pending.len() >= LONGEST_LINE {
                self.log(stream);
            }
        }
        if self.budget == 0 {
            self.flush();
            tracing::warn!(target: "handler", endpoint = %self.endpoint, request.id = %self.request_id,
                "handler wrote more than {BUDGET} bytes for one request; the rest is dropped");
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.log(Stream::Stdout);
        self.log(Stream::Stderr);
    }

    fn log(&mut self, stream: Stream) {
        let (name, pending) = match stream {
            Stream::Stdout => ("stdout", &mut self.stdout),
            Stream::Stderr => ("stderr", &mut self.stderr),
        };
        let line = String::from_utf8_lossy(pending);
        let line = line.trim_end();
        if !line.is_empty() && !line.starts_with(NOTE) {
            // What a guest writes is data: escapes keep it from steering the operator's terminal.
            let line: String = line
                .chars()
                .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
                .collect();
            tracing::info!(target: "handler", endpoint = %self.endpoint, request.id = %self.request_id,
                stream = name, "{line}");
            if matches!(stream, Stream::Stderr) {
                if self.last.len() == LAST.0 {
                    self.last.pop_front();
                }
                self.last.push_back(line);
            }
        }
        pending.clear();
    }
}

/// One of the two streams, as WASI wants it: always ready, and it fails only by ending the call.
#[derive(Debug)]
pub(super) struct LogStream {
    output: Output,
    stream: Stream,
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.output.stream(self.stream))
    }

    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.output.stream(self.stream))
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.output.lines().write(self.stream, &bytes).map_err(|error| StreamError::Trap(error.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LONGEST_LINE)
    }
}

impl tokio::io::AsyncWrite for LogStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = self.output.lines().write(self.stream, bytes);
        Poll::Ready(written.map(|()| bytes.len()).map_err(std::io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
