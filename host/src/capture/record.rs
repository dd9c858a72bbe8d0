//! Recordings: what crossed the sandbox's boundary for a request, kept in a file so that it can be run again
//! without the model.
//!
//! Place in the flow: an endpoint that is recorded has a [`Recorder`]; an [observer](super::observers) asks
//! it which requests to log, and gives it their logs. `writer` makes files of them, `host replay` reads
//! those.
//! In: a finished request with its [`HostCallLog`]. Out: nothing that the request waits for.
//!
//! A request that is recorded runs in a fresh instance that serves no other: state that earlier requests had
//! left in an instance is in no recording. What is not recorded, because a secret would be written:
//! - endpoints with environment variables: the configuration refuses them;
//! - a request whose handler was told a header that holds one, or whose query or parameters hold one, by
//!   their names; an application on `wasi:http` is told all headers;
//! - a response that sets one: a cookie;
//! - a request that the handler sends with one, or its answer.
//!
//! Nor is a request recorded whose handler has read or written objects: they may be of any size.
//!
//! Invariants: no request waits for a disk, or fails because of its recording; recordings that wait to be
//! written take `WAITING` bytes at most, or are one; an endpoint that is not recorded pays one comparison a
//! request.

pub mod format;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use self::writer::Writer;
use super::compare::Outcome;
use super::exchanges;
use crate::blocking;
use crate::bucketing;
use crate::endpoint::config::EndpointConfig;
use crate::error::{Code, Stage};
use crate::json::special;
use crate::keys;
use crate::outbound::{OutboundAnswer, OutboundCall};
use crate::plugin::host_call_log::HostCallLog;
use crate::plugin::host_call_log::secrets::{has_secret_member, has_secret_parameter, is_any_secret};
use crate::plugin::{Application, Plugin};
use crate::request::exchange::kept::KEPT;
use crate::request::{Input, Output, Request};
use crate::telemetry::metrics::{EndpointMetrics, RecordingCounts};
use crate::tensor::{Signature, Tensor};
use crate::values::Ratio;

/// Most bytes of requests, tensors and answers that may wait to be written; a single one may be longer.
const WAITING: usize = 64 << 20;
/// Most requests that may wait to be written.
const QUEUE: usize = 256;

/// Where recordings go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// A folder for each endpoint is made in it.
    pub folder: PathBuf,
    /// Most bytes that it may hold, files of earlier runs included.
    pub size: u64,
}

/// Why nothing can be recorded. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("cannot record into `{folder}`: {cause}\n  hint: {hint}")]
pub struct RecordError {
    folder: String,
    cause: io::Error,
    hint: &'static str,
}

/// The folder of a process's recordings, and the one thread that writes into it.
pub struct Archive {
    messages: SyncSender<WriterMessage>,
    state: Arc<State>,
    /// Canonical.
    folder: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that requests and the writer share.
#[derive(Default)]
struct State {
    /// The bytes of what waits to be written.
    waiting: AtomicUsize,
    /// The folder holds as much as it may.
    full: AtomicBool,
}

/// A message to the writer.
enum WriterMessage {
    Write(Box<Finished>),
    End,
}

/// A request that is over and to be written.
struct Finished {
    at: SystemTime,
    endpoint: Arc<str>,
    plugin: Arc<Plugin>,
    /// That the handler may call by itself.
    models: Vec<(Arc<str>, Arc<Signature>)>,
    request: Arc<Request>,
    log: Arc<HostCallLog>,
    outcome: Result<Output, Failure>,
    /// About how many bytes all of this holds.
    weight: usize,
    counts: RecordingCounts,
}

/// The part of a [`RequestError`](crate::error::RequestError) that is recorded: nothing of its detail, which
/// may name anything.
struct Failure {
    code: Code,
    stage: Stage,
    message: String,
}

/// One endpoint's way into the archive.
#[derive(Clone)]
pub struct Recorder {
    archive: Arc<Archive>,
    endpoint: Arc<str>,
    share: Ratio,
    counts: RecordingCounts,
    warned: Arc<Warned>,
}

/// The warnings that have been given, once each.
#[derive(Default)]
struct Warned {
    /// That secrets keep requests from being recorded.
    secret: AtomicBool,
    /// That requests are too long to be recorded.
    length: AtomicBool,
    /// That what they have got is not in their logs.
    spoilt: AtomicBool,
}

impl Archive {
    /// Makes the folder if there is none, looks at how much is in it, and starts the writer.
    ///
    /// # Errors
    /// [`RecordError`]: the folder cannot be made or written to, or others can write to it.
    pub fn open(config: &Config) -> Result<Arc<Archive>, RecordError> {
        let (messages, received) = sync_channel(QUEUE);
        let state = Arc::<State>::default();
        let writer = Writer::open(config, state.clone())?;
        let folder = writer.folder().to_owned();
        let thread = thread::Builder::new().name("recordings".to_owned()).spawn(move || {
            while let Ok(WriterMessage::Write(finished)) = received.recv() {
                writer.write(&finished);
            }
        });
        let thread = thread.map_err(|cause| RecordError {
            folder: config.folder.display().to_string(),
            cause,
            hint: "let the process have one more thread",
        })?;
        Ok(Arc::new(Archive { messages, state, folder, thread: Mutex::new(Some(thread)) }))
    }

    /// Its canonical path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The way into it for this endpoint; `None` if it is not to be recorded.
    pub fn recorder(
        self: &Arc<Self>,
        config: &EndpointConfig,
        metrics: &EndpointMetrics,
    ) -> Option<Recorder> {
        config.is_recorded().then(|| Recorder {
            archive: self.clone(),
            endpoint: config.name.as_str().into(),
            share: config.record_share,
            counts: metrics.recordings(),
            warned: Arc::default(),
        })
    }

    /// Writes what waits, then ends. Blocks until that is done; what comes later is dropped.
    pub fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && self.messages.send(WriterMessage::End).is_ok()
        {
            // A writer that panicked has nothing more to write.
            let _ = thread.join();
        }
    }

    /// Puts it into the queue, if there is room.
    fn take(&self, finished: Finished) -> bool {
        let (waiting, weight) = (&self.state.waiting, finished.weight);
        let before = waiting.fetch_add(weight, Ordering::Relaxed);
        let fits = before == 0 || before.saturating_add(weight) <= WAITING;
        let taken = fits && self.messages.try_send(WriterMessage::Write(Box::new(finished))).is_ok();
        if !taken {
            waiting.fetch_sub(weight, Ordering::Relaxed);
        }
        taken
    }
}

impl Recorder {
    /// Decides whether the next request is recorded.
    pub fn takes_next(&self) -> bool {
        if !is_drawn(self.share) {
            return false;
        }
        let is_full = self.archive.state.full.load(Ordering::Relaxed);
        if is_full {
            self.counts.dropped.inc();
        }
        !is_full
    }

    /// Hands a request that is over to the writer, if its handler ran and its client has the response.
    pub fn record(
        &self,
        plugin: &Arc<Plugin>,
        models: Vec<(Arc<str>, Arc<Signature>)>,
        request: &Arc<Request>,
        log: &Arc<HostCallLog>,
        outcome: &Outcome,
    ) {
        if !log.is_used() {
            return;
        }
        if let Some(what) = log.spoilt() {
            self.counts.refused.inc();
            if !self.warned.spoilt.swap(true, Ordering::Relaxed) {
                tracing::warn!(endpoint = %self.endpoint, request.id = %request.id,
                    "not recorded, nor will others be like it: no recording holds {what}");
            }
            return;
        }
        if log.budget().is_spent() {
            self.counts.dropped.inc();
            if !self.warned.length.swap(true, Ordering::Relaxed) {
                tracing::warn!(endpoint = %self.endpoint, request.id = %request.id,
                    "not recorded, nor will others be like it: its bodies, and the tensors of models that its \
                     handler calls, are more than {KEPT} bytes");
            }
            return;
        }
        let Some(outcome) = &exchanges::whole(request, outcome) else { return };
        if let Some(place) = secret(plugin, request, log, outcome) {
            self.counts.refused.inc();
            if !self.warned.secret.swap(true, Ordering::Relaxed) {
                tracing::warn!(endpoint = %self.endpoint, request.id = %request.id,
                    "not recorded, nor will others be like it: by its name {place} holds a secret");
            }
            return;
        }
        let outcome = match outcome {
            Ok(output) => Ok(output.clone()),
            Err(error) => {
                Err(Failure { code: error.code, stage: error.stage, message: error.message.clone() })
            }
        };
        let finished = Finished {
            at: SystemTime::now(),
            endpoint: self.endpoint.clone(),
            plugin: plugin.clone(),
            models,
            request: request.clone(),
            weight: weight(request, log, &outcome),
            log: log.clone(),
            outcome,
            counts: self.counts.clone(),
        };
        if !self.archive.take(finished) {
            self.counts.dropped.inc();
        }
    }
}

fn weight(request: &Request, log: &HostCallLog, outcome: &Result<Output, Failure>) -> usize {
    let bytes = |tensors: &[Tensor]| tensors.iter().map(|tensor| tensor.data.len()).sum::<usize>();
    let kept = |tensors: Option<Vec<Tensor>>| tensors.map_or(0, |tensors| bytes(&tensors));
    let request = match &request.input {
        Input::Body(body, _) => body.len(),
        Input::Tensors(input) => bytes(&input.tensors),
        // It is within what the log has kept.
        Input::Exchange(_) | Input::Socket(_) => 0,
    };
    let outcome = match outcome {
        Ok(Output::Response(response)) => response.body.len(),
        Ok(Output::Tensors(tensors)) => bytes(tensors),
        Ok(Output::Streamed { .. }) => 0,
        Err(failure) => failure.message.len(),
    };
    request
        + outcome
        + log.length()
        + log.budget().used()
        + kept(log.sample())
        + log.model_call().map_or(0, |call| bytes(&call.inputs) + kept(call.outputs))
        + kept(log.answer())
}

/// The part of a recording that looks like a secret, by its name.
fn secret(plugin: &Plugin, request: &Request, log: &HostCallLog, outcome: &Outcome) -> Option<&'static str> {
    if log.headers_told().iter().any(|name| keys::is_secret_name(name)) {
        return Some("a header that the handler asked for");
    }
    let gets_all = plugin.stages().application == Some(Application::Http);
    if gets_all && is_any_secret(&headers_of(request, plugin)) {
        return Some("a header of the request");
    }
    if has_secret_parameter(request.head.query()) {
        return Some("a parameter of the query");
    }
    for OutboundCall { url, headers, answer, .. } in log.outbound() {
        if is_any_secret(&headers) {
            return Some("a header of a request that the handler sent");
        }
        // Before the host in an address, the name and password of a user.
        let (place, query) = url.split_once('?').unwrap_or((&url, ""));
        if place.contains('@') || has_secret_parameter(query) {
            return Some("the address of a request that the handler sent");
        }
        if let Some(OutboundAnswer::Response { headers, .. }) = answer
            && is_any_secret(&headers)
        {
            return Some("a header of an answer to a request that the handler sent");
        }
    }
    if let Some(what) = log.capability_calls().secret() {
        return Some(what);
    }
    let parameters = request.parameters();
    let parse = || has_secret_member(&special::tree(parameters.as_bytes()));
    if blocking::if_large(parameters.len(), parse) {
        return Some("a parameter of the request");
    }
    match outcome {
        Ok(Output::Response(response)) => {
            is_any_secret(&response.headers).then_some("a header of the response")
        }
        _ => None,
    }
}

/// The headers of a request to `wasi:http`, as the handler sees them.
fn headers_of(request: &Request, plugin: &Plugin) -> Vec<(String, String)> {
    let is_hidden = |name: &str| plugin.config().hides_credentials && keys::is_credential(name);
    let headers = request.head.headers().into_iter().filter(|(name, _)| !is_hidden(name));
    let mut headers: Vec<(String, String)> =
        headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let has_host = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
    if let Input::Exchange(exchange) = &request.input
        && let Some(authority) = exchange.authority().filter(|_| !has_host)
    {
        headers.push(("host".to_owned(), authority.to_owned()));
    }
    headers
}

/// Whether the next request is of this part.
fn is_drawn(share: Ratio) -> bool {
    share == Ratio::ONE || bucketing::by_chance() < share.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        let drawn = |share| (0..10_000).filter(|_| is_drawn(Ratio::new(share).unwrap())).count();
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        assert!((4_500..5_500).contains(&drawn(0.5)));
    }
}
