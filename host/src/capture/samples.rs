//! The last requests of an endpoint, kept for the gate.
//!
//! Place in the flow: an [observer](super::observers) offers every request that was answered; a gate takes
//! what is kept.
//! In:   requests. Out: [`Sample`]s, the latest first, from which the same requests can be made again.
//!
//! Only a request that its handler answered is kept, or refused as the caller's fault: what failed otherwise
//! is no measure.
//!
//! Invariants: nothing here waits, and no request waits for it. A request that is offered looks at one
//! atomic, which changes at most [`SamplesConfig::samples`] times in a [`WINDOW`]: of more requests than that
//! in a window the first are kept. Those go through a bounded queue to a task of its own; what finds it full
//! is not kept. That task takes secrets out before it keeps anything. What is kept and what waits is bounded
//! by number and by bytes.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::compare::Outcome;
use super::exchanges;
use crate::blocking;
use crate::endpoint::config::SamplesConfig;
use crate::error::{Code, RequestError};
use crate::json::path::Pattern;
use crate::json::redact::redacted;
use crate::json::serving::Serving;
use crate::keys;
use crate::outbound::OutboundCall;
use crate::plugin::host_call_log::{HostCallLog, KnownCalls};
use crate::request::exchange::Client;
use crate::request::{Caller, Form, Input, ModelChoice, Output, PlainHead, Request, TensorInput};
use crate::tensor::{Datatype, Tensor, push_bytes_element};

/// Of the requests of so much time at most [`SamplesConfig::samples`] are kept.
const WINDOW: Duration = Duration::from_millis(100);
/// Requests that wait to be kept.
const QUEUE: usize = 64;
/// The text in the place of a header or parameter that is redacted.
const REDACTED: &str = "redacted";
/// Bodies up to this length are copied: they may be a small part of what a connection has read, and would
/// keep all of it.
const COPIED: usize = blocking::LARGE;
/// The approximate size of a sample beside its input and head.
const OVERHEAD: usize = 512;

/// A request that can be made again, any number of times.
#[derive(Debug)]
pub struct Sample {
    /// The name in a report: `request 7`, or the name of a file.
    pub name: String,
    /// Its head, without what may hold a secret.
    pub head: PlainHead,
    /// The input of the request.
    pub input: SampleInput,
    /// The model that its protocol named.
    pub model: Option<ModelChoice>,
    /// The requests that its handler sent to others, which are not sent again.
    pub known: Arc<KnownCalls>,
}

/// The input of a request.
#[derive(Debug)]
pub enum SampleInput {
    /// A body.
    Body(Bytes),
    /// A body in TensorFlow Serving's form.
    Serving(Bytes),
    /// Tensors, and the protocol's parameters.
    Tensors(Vec<Tensor>, Option<Box<str>>),
    /// A whole request to an application.
    Exchange {
        /// Its body.
        body: Bytes,
        /// Whether it came by TLS.
        is_secure: bool,
    },
}

impl Sample {
    /// The request, once more, with this id and these limits; if it goes to an application, with the end that
    /// gets the response.
    pub fn request(
        &self,
        id: &str,
        deadline: Instant,
        body_limit: usize,
        is_exchange: bool,
    ) -> (Request, Option<Client>) {
        let whole = match &self.input {
            SampleInput::Exchange { body, is_secure } => Some((body, *is_secure, self.head.clone())),
            // A body alone goes to the application's root.
            SampleInput::Body(body) => {
                Some((body, false, PlainHead { path: "/".to_owned(), ..self.head.clone() }))
            }
            SampleInput::Serving(_) | SampleInput::Tensors(..) => None,
        };
        if let Some((body, is_secure, head)) = whole.filter(|_| is_exchange) {
            let (request, client) = exchanges::made(head, body.clone(), is_secure, id, deadline, body_limit);
            return (request, Some(client));
        }
        let input = match &self.input {
            SampleInput::Body(body) | SampleInput::Exchange { body, .. } => {
                Input::Body(body.clone(), Form::Plain)
            }
            // It was JSON when it came, and is still.
            SampleInput::Serving(body) => {
                let scanned = blocking::if_large(body.len(), || Serving::scan(body));
                Input::Body(body.clone(), scanned.map_or(Form::Plain, Form::Serving))
            }
            SampleInput::Tensors(tensors, parameters) => {
                Input::Tensors(TensorInput::new(tensors.clone(), parameters.clone()))
            }
        };
        let request = Request {
            id: id.into(),
            trace: None,
            caller: Caller::Client,
            head: Box::new(self.head.clone()),
            input,
            model: self.model.clone(),
            arrived: Instant::now(),
            deadline,
            debug: false,
            body_limit,
            memory: crate::memory::Account::default(),
        };
        (request, None)
    }

    /// The sample of `request` as number `number`; `None` if a value that is to be redacted cannot be found
    /// in it.
    fn of(request: &Request, known: KnownCalls, redact: &[Pattern], number: u64) -> Option<Sample> {
        let finds = Pattern::deepest(redact).is_some();
        let body = |body: &Bytes| match finds {
            true => blocking::if_large(body.len(), || redacted(body, redact)).map(Bytes::from),
            false if body.len() <= COPIED => Some(Bytes::copy_from_slice(body)),
            false => request.memory.may_keep(body.len()).then(|| body.clone()),
        };
        let input = match &request.input {
            Input::Body(bytes, Form::Plain) => SampleInput::Body(body(bytes)?),
            Input::Body(bytes, Form::Serving(_)) => SampleInput::Serving(body(bytes)?),
            Input::Tensors(input) if !request.memory.may_keep(bytes_of(&input.tensors)) => return None,
            Input::Tensors(input) => {
                let parameters = match &input.parameters {
                    Some(parameters) if finds => {
                        let text = redacted(parameters.as_bytes(), redact)?;
                        Some(String::from_utf8(text).ok()?.into_boxed_str())
                    }
                    parameters => parameters.clone(),
                };
                let tensors = input.tensors.iter().map(|tensor| kept(tensor, redact)).collect();
                SampleInput::Tensors(tensors, parameters)
            }
            // Never asked for.
            Input::Socket(_) => return None,
            Input::Exchange(exchange) => {
                let (bytes, true) = exchange.request_body()? else { return None };
                let body = if bytes.is_empty() { bytes } else { body(&bytes)? };
                SampleInput::Exchange { body, is_secure: exchange.is_secure }
            }
        };
        let is_named = |name: &str| redact.iter().any(|pattern| pattern.is_name(name));
        let head = &request.head;
        let headers = head.headers().into_iter().filter(|(name, _)| !keys::is_secret_name(name));
        let headers = headers.map(|(name, value)| {
            let value = if is_named(name) { REDACTED } else { value };
            (name.to_ascii_lowercase(), value.to_owned())
        });
        let parameter = |pair: &str| {
            let (name, _) = pair.split_once('=')?;
            // A name in escapes may be any.
            let is_secret = is_named(name) || keys::is_secret_name(name) || name.contains('%');
            is_secret.then(|| format!("{name}={REDACTED}"))
        };
        let query = head.query().split('&').map(|pair| parameter(pair).unwrap_or_else(|| pair.to_owned()));
        Some(Sample {
            name: format!("request {number}"),
            head: PlainHead {
                method: head.method().to_owned(),
                path: head.path().to_owned(),
                query: query.collect::<Vec<_>>().join("&"),
                headers: headers.collect(),
            },
            input,
            model: request.model.clone(),
            known: Arc::new(known),
        })
    }

    /// Bytes it holds.
    fn size(&self) -> usize {
        let input = match &self.input {
            SampleInput::Body(body) | SampleInput::Serving(body) | SampleInput::Exchange { body, .. } => {
                body.len()
            }
            SampleInput::Tensors(tensors, parameters) => {
                bytes_of(tensors) + parameters.as_deref().map_or(0, str::len)
            }
        };
        let headers: usize =
            self.head.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
        let known: usize = self.known.outbound.iter().map(OutboundCall::size).sum();
        let known = known + self.known.capabilities.size();
        known + input + headers + self.head.path.len() + self.head.query.len() + OVERHEAD
    }
}

fn bytes_of(tensors: &[Tensor]) -> usize {
    tensors.iter().map(|tensor| tensor.data.len() + tensor.name.len() + 128).sum()
}

/// A tensor; all zeroes, or empty texts, if a pattern names it or anything in it.
fn kept(tensor: &Tensor, redact: &[Pattern]) -> Tensor {
    let data = match () {
        () if redact.iter().any(|pattern| pattern.begins_with(&tensor.name)) => blank(tensor).into(),
        () if tensor.data.len() <= COPIED => Bytes::copy_from_slice(&tensor.data),
        () => tensor.data.clone(),
    };
    Tensor { data, ..tensor.clone() }
}

fn blank(tensor: &Tensor) -> Vec<u8> {
    let mut data = Vec::new();
    match tensor.datatype {
        Datatype::Bytes => (0..tensor.elements()).for_each(|_| {
            push_bytes_element(&mut data, b"");
        }),
        _ => data.resize(tensor.data.len(), 0),
    }
    data
}

/// The samples of one endpoint, and the way in for its requests.
pub struct Samples {
    config: SamplesConfig,
    started: Instant,
    /// The window and how many requests of it were taken: `window << 32 | taken`.
    tally: AtomicU64,
    way: Way,
    ring: Arc<Mutex<Ring>>,
}

/// The way of requests to the task that keeps them.
#[derive(Clone)]
pub struct Way {
    /// Bytes of the requests in the queue.
    waiting: Arc<AtomicUsize>,
    /// The most of them.
    most: usize,
    queue: mpsc::Sender<Offered>,
}

/// A request that has its answer.
struct Offered {
    request: Arc<Request>,
    /// Of a handler that sends requests.
    log: Option<Arc<HostCallLog>>,
    /// The bytes that it counts for. The log may grow while this waits.
    size: usize,
}

impl Offered {
    fn new(request: &Arc<Request>, log: Option<&Arc<HostCallLog>>) -> Offered {
        let input = match &request.input {
            Input::Body(body, _) => body.len(),
            Input::Tensors(input) => bytes_of(&input.tensors),
            // It is within what the log has kept.
            Input::Exchange(_) | Input::Socket(_) => 0,
        };
        let size = input + log.map_or(0, |log| log.budget().used()) + OVERHEAD;
        Offered { request: request.clone(), log: log.cloned(), size }
    }
}

impl Way {
    /// Hands over a request whose run has the log, if it is a measure and all of it is here.
    pub fn offer(&self, request: &Arc<Request>, log: &Arc<HostCallLog>, outcome: &Outcome) {
        if is_measure(outcome) && !log.budget().is_spent() && log.spoilt().is_none() {
            self.take(Offered::new(request, Some(log)));
        }
    }

    fn take(&self, offered: Offered) {
        let size = offered.size;
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > self.most || self.queue.try_send(offered).is_err() {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct Ring {
    samples: VecDeque<Arc<Sample>>,
    bytes: usize,
}

impl Samples {
    /// A place for samples, and the task that keeps them, which ends with it. `None` if none are to be kept.
    pub fn start(config: SamplesConfig) -> Option<Samples> {
        if config.samples == 0 {
            return None;
        }
        let (queue, requests) = mpsc::channel(QUEUE);
        let (waiting, ring) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Ring::default())));
        tokio::spawn(keep(requests, config.clone(), waiting.clone(), ring.clone()));
        let way = Way { waiting, most: config.bytes, queue };
        Some(Samples { config, started: Instant::now(), tally: AtomicU64::new(0), way, ring })
    }

    /// Takes note of a request that has its answer, unless there are too many.
    pub fn offer(&self, request: &Arc<Request>, outcome: &Result<Output, RequestError>) {
        if is_measure(outcome) && self.takes(request.arrived) {
            self.way.take(Offered::new(request, None));
        }
    }

    /// The way for a request that begins now and is logged for it, unless there are too many.
    pub fn takes_next(&self, arrived: Instant) -> Option<Way> {
        self.takes(arrived).then(|| self.way.clone())
    }

    /// The samples, the latest first.
    pub fn latest(&self) -> Vec<Arc<Sample>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).samples.iter().rev().cloned().collect()
    }

    /// How many are kept.
    pub fn kept(&self) -> usize {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).samples.len()
    }

    /// Whether one more request, which arrived at `now`, is taken in its window.
    fn takes(&self, now: Instant) -> bool {
        let window = now.saturating_duration_since(self.started).as_millis() / WINDOW.as_millis();
        let window = u64::try_from(window).unwrap_or(0) & u64::from(u32::MAX);
        // Of requests at the same moment each has its place. Windows never go back: a request that took long
        // counts for the one that is now.
        let place = |tally: u64| {
            let window = window.max(tally >> 32);
            let taken = if tally >> 32 == window { tally & u64::from(u32::MAX) } else { 0 };
            (taken < self.config.samples as u64).then_some(window << 32 | (taken + 1))
        };
        self.tally.fetch_update(Ordering::Relaxed, Ordering::Relaxed, place).is_ok()
    }
}

/// Whether what became of a request says something of its handler, and would again.
pub fn is_measure(outcome: &Result<Output, RequestError>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            matches!(error.code, Code::InvalidInput | Code::UnsupportedMediaType | Code::BodyTooLarge)
        }
    }
}

/// The task that keeps what comes through the queue.
async fn keep(
    mut requests: mpsc::Receiver<Offered>,
    config: SamplesConfig,
    waiting: Arc<AtomicUsize>,
    ring: Arc<Mutex<Ring>>,
) {
    let mut number = 0;
    while let Some(offered) = requests.recv().await {
        let size = offered.size;
        let known = offered.log.as_ref().map(|log| KnownCalls {
            outbound: log.outbound(),
            capabilities: log.capability_calls(),
            ..KnownCalls::default()
        });
        let known = known.unwrap_or_default();
        let sample = Sample::of(&offered.request, known, &config.redact, number + 1);
        drop(offered);
        waiting.fetch_sub(size, Ordering::Relaxed);
        if let Some(sample) = sample {
            number += 1;
            ring.lock().unwrap_or_else(PoisonError::into_inner).push(sample, &config);
        }
    }
}

impl Ring {
    fn push(&mut self, sample: Sample, config: &SamplesConfig) {
        let size = sample.size();
        if size > config.bytes {
            return;
        }
        while self.samples.len() >= config.samples || self.bytes + size > config.bytes {
            match self.samples.pop_front() {
                Some(oldest) => self.bytes -= oldest.size(),
                None => break,
            }
        }
        self.bytes += size;
        self.samples.push_back(Arc::new(sample));
    }
}
