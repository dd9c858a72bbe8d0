//! A request on its way to its line: what each part of the server knows of it.
//!
//! In: the head, bytes as they pass, the answer's status, what the run was. Out: an [`EndedRequest`], when
//! the last holder lets go: a response may end before its handler does, and the other way round.
//! Invariant: an entry holds bounded texts, however long those of its client are.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use super::AccessLog;
use crate::error::Code;
use crate::telemetry::traces::AnswerStatus;
use crate::text::beginning;
use crate::trace::RequestTrace;

/// Most bytes of a path, of another header's value, and of a method.
const LONGEST_PATH: usize = 1024;
const LONGEST_VALUE: usize = 256;
const LONGEST_METHOD: usize = 32;
/// In place of a code of gRPC's.
const NO_CODE: i32 = -1;
/// The outcome of a request that was refused before it reached an endpoint.
const REFUSED: &str = "refused";
/// The outcome of a request whose client went away.
const CANCELLED: &str = "cancelled";

/// The head of a request, as far as its line has it.
#[derive(Debug)]
pub struct AccessHead {
    client: IpAddr,
    protocol: &'static str,
    method: Box<str>,
    path: Box<str>,
    user_agent: Option<Box<str>>,
    referer: Option<Box<str>>,
}

impl AccessHead {
    /// The head of a client at this address. Texts are shortened.
    pub fn new(client: IpAddr, protocol: &'static str, method: &str, path: &str) -> AccessHead {
        let (method, path) = (beginning(method, LONGEST_METHOD), beginning(path, LONGEST_PATH));
        let (method, path) = (method.into(), path.into());
        AccessHead { client, protocol, method, path, user_agent: None, referer: None }
    }

    /// With what the client says of itself.
    #[must_use]
    pub fn from(self, user_agent: Option<&[u8]>, referer: Option<&[u8]>) -> AccessHead {
        let text = |value: &[u8]| -> Box<str> {
            let value = value.get(..LONGEST_VALUE).unwrap_or(value);
            String::from_utf8_lossy(value).into()
        };
        AccessHead { user_agent: user_agent.map(text), referer: referer.map(text), ..self }
    }

    pub(super) fn client(&self) -> IpAddr {
        self.client
    }

    pub(super) fn protocol(&self) -> &'static str {
        self.protocol
    }

    pub(super) fn method(&self) -> &str {
        &self.method
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }

    pub(super) fn referer(&self) -> Option<&str> {
        self.referer.as_deref()
    }
}

/// A request that will have a line.
pub struct AccessEntry {
    log: Arc<AccessLog>,
    head: Arc<AccessHead>,
    began: Instant,
    /// Bytes of bodies, or of messages over a WebSocket.
    received: AtomicU64,
    sent: AtomicU64,
    /// 0: there was no answer.
    status: AtomicU16,
    grpc: AtomicI32,
    is_broken_off: AtomicBool,
    /// The answer's id and error, where no endpoint was reached.
    answer: OnceLock<(Box<str>, Option<Code>)>,
    served: OnceLock<ServedFacts>,
    /// The error of a request that was served to its end.
    outcome: OnceLock<Option<Code>>,
}

/// The facts of a request at its endpoint.
pub struct ServedFacts {
    /// The request's id.
    pub id: Arc<str>,
    /// Its endpoint, if it has one.
    pub endpoint: Option<Box<str>>,
    /// The name of the key that let it in.
    pub key: Option<Arc<str>>,
    /// Its trace, which gets to know of its run.
    pub trace: Arc<RequestTrace>,
}

/// A request that is over.
pub(super) struct EndedRequest {
    pub head: Arc<AccessHead>,
    pub ended: SystemTime,
    pub took: Duration,
    pub received: u64,
    pub sent: u64,
    pub status: Option<u16>,
    pub grpc: Option<i32>,
    pub is_broken_off: bool,
    pub id: Option<Box<str>>,
    pub outcome: &'static str,
    pub served: Option<ServedFacts>,
}

impl AccessEntry {
    /// A request that arrived at `began`.
    pub fn new(log: &Arc<AccessLog>, head: AccessHead, began: Instant) -> Arc<AccessEntry> {
        Arc::new(AccessEntry::of(log.clone(), Arc::new(head), began))
    }

    /// A request in the stream of this one, which has a line of its own.
    pub fn part(&self) -> Arc<AccessEntry> {
        let part = AccessEntry::of(self.log.clone(), self.head.clone(), Instant::now());
        part.status.store(200, Ordering::Relaxed);
        Arc::new(part)
    }

    fn of(log: Arc<AccessLog>, head: Arc<AccessHead>, began: Instant) -> AccessEntry {
        AccessEntry {
            log,
            head,
            began,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            status: AtomicU16::new(0),
            grpc: AtomicI32::new(NO_CODE),
            is_broken_off: AtomicBool::new(false),
            answer: OnceLock::new(),
            served: OnceLock::new(),
            outcome: OnceLock::new(),
        }
    }

    /// Counts bytes of the client's.
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes for the client.
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// There is an answer with this status and id, and the server's own error if it is one.
    pub fn answered(&self, status: u16, id: &str, error: Option<Code>) {
        self.status.store(status, Ordering::Relaxed);
        self.answer.get_or_init(|| (beginning(id, LONGEST_VALUE).into(), error));
    }

    /// The call has ended with this code of gRPC's.
    pub fn ended_with(&self, code: i32) {
        self.grpc.store(code, Ordering::Relaxed);
    }

    /// The answer was not taken to its end.
    pub fn broken_off(&self) {
        self.is_broken_off.store(true, Ordering::Relaxed);
    }

    /// The request is served; dropped before its end, its client went away.
    pub fn serve(self: Arc<AccessEntry>, facts: impl FnOnce() -> ServedFacts) -> ServedAccess {
        self.served.get_or_init(facts);
        ServedAccess { entry: self, error: None }
    }

    fn outcome(&self) -> &'static str {
        let status = self.status.load(Ordering::Relaxed);
        let is_cancelled = |facts: &ServedFacts| facts.trace.is_cancelled() || self.outcome.get().is_none();
        let own = self.answer.get().and_then(|(_, error)| *error);
        match (self.served.get(), self.outcome.get().copied().flatten().or(own)) {
            (Some(facts), _) if is_cancelled(facts) => CANCELLED,
            (_, Some(error)) => error.name(),
            (None, None) if status == 0 => CANCELLED,
            (None, None) if status >= 400 || self.grpc.load(Ordering::Relaxed) > 0 => REFUSED,
            _ => "ok",
        }
    }
}

impl Drop for AccessEntry {
    fn drop(&mut self) {
        let outcome = self.outcome();
        let status = *self.status.get_mut();
        let grpc = *self.grpc.get_mut();
        let request = EndedRequest {
            head: self.head.clone(),
            ended: SystemTime::now(),
            took: self.began.elapsed(),
            received: *self.received.get_mut(),
            sent: *self.sent.get_mut(),
            status: (status != 0).then_some(status),
            grpc: (grpc != NO_CODE).then_some(grpc),
            is_broken_off: *self.is_broken_off.get_mut(),
            id: self.answer.take().map(|(id, _)| id),
            outcome,
            served: self.served.take(),
        };
        self.log.push(Box::new(request));
    }
}

/// A request that its endpoint serves.
pub struct ServedAccess {
    entry: Arc<AccessEntry>,
    error: Option<Code>,
}

impl ServedAccess {
    /// The request has failed.
    pub fn fail(&mut self, error: Code) {
        self.error = Some(error);
    }

    /// The request has its answer.
    pub fn end(self, status: AnswerStatus) {
        if let AnswerStatus::Grpc(code) = status {
            self.entry.ended_with(code);
        }
        self.entry.outcome.get_or_init(|| self.error);
    }
}
