//! Distributed tracing: spans of requests, made when they are over and exported as OTLP.
//!
//! Place in the flow: `server/serve.rs` begins a [`ServerSpan`] with the trace context of the request's
//! head and ends it with the answer; what the run did is in the [`RequestTrace`] by then. In: requests that
//! are over. Out: batches of spans to the collector that the environment names ([`Settings`]).
//! Invariants: without a collector there is no [`Tracer`], no thread and no queue; a request that is not
//! sampled has no span; no worker waits for the exporter or does its work.

mod exporter;
mod otlp;
mod queue;
mod settings;
mod span;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Instant, SystemTime};

use tokio::sync::watch;

use self::exporter::Exporter;
use self::queue::Queue;
pub use self::settings::{Config, Settings};
use self::span::EndedRequest;
pub use self::span::{AnswerStatus, Operation, RequestFacts};
use super::metrics::Metrics;
use crate::error::RequestError;
use crate::outbound::{Outbound, Rules};
use crate::text::cut;
use crate::trace::{RequestTrace, Sampler, TraceContext};

/// Samples requests and takes their spans.
pub struct Tracer {
    sampler: Sampler,
    queue: Arc<Queue>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Tracer {
    /// Starts what the settings ask for; warns of those that are not used.
    ///
    /// # Errors
    /// There is no thread for the exporter.
    pub fn start(settings: &Settings, metrics: &Metrics) -> io::Result<Option<Arc<Tracer>>> {
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        let Some(config) = settings.export.clone() else { return Ok(None) };
        let queue = Arc::new(Queue::new(config.queue, config.batch, metrics.spans()));
        let (stop, stopping) = watch::channel(false);
        let sampler = config.sampler;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = Builder::new().name("traces".to_owned()).spawn({
            let queue = queue.clone();
            move || runtime.block_on(export(config, queue, stopping))
        })?;
        Ok(Some(Arc::new(Tracer { sampler, queue, stop, thread: Mutex::new(Some(thread)) })))
    }

    /// The trace of a request with these headers, each line as it came.
    pub fn begin<'a>(
        &self,
        parents: impl Iterator<Item = &'a [u8]>,
        states: impl Iterator<Item = &'a [u8]>,
        is_logged: bool,
    ) -> Arc<RequestTrace> {
        Arc::new(RequestTrace::begin(TraceContext::read(parents, states), self.sampler, is_logged))
    }

    /// Exports what waits, within seconds, and nothing that comes later.
    pub fn close(&self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that has panicked has nothing left to export.
        let _ = thread.map(JoinHandle::join);
    }
}

/// Runs an exporter.
async fn export(config: Config, queue: Arc<Queue>, stopping: watch::Receiver<bool>) {
    let origin = format!(
        "{}://{}",
        config.url.scheme_str().unwrap_or_default(),
        config.url.authority().map_or("", |authority| authority.as_str())
    );
    let outbound = match Rules::of_operator([&*origin]) {
        Ok(rules) if config.url.scheme_str() == Some("http") => Ok(Outbound::without_tls(rules)),
        Ok(rules) => Outbound::new(rules).await,
        Err(error) => Err(error),
    };
    match outbound {
        Ok(outbound) => Exporter::new(config, queue, outbound, stopping).run().await,
        Err(error) => tracing::warn!("traces are not exported to {origin}: {error}"),
    }
}

/// The span of a request that is served; dropped before its end, its client went away.
pub struct ServerSpan {
    tracer: Arc<Tracer>,
    request: Option<Box<EndedRequest>>,
    began: Instant,
}

impl ServerSpan {
    /// Begins the span of a trace that is sampled.
    pub fn begin(tracer: &Arc<Tracer>, trace: Arc<RequestTrace>, request: RequestFacts) -> ServerSpan {
        let began = request.arrived;
        let (ended, took) = (SystemTime::UNIX_EPOCH, std::time::Duration::ZERO);
        let request = Box::new(EndedRequest { trace, request, status: None, error: None, ended, took });
        ServerSpan { tracer: tracer.clone(), request: Some(request), began }
    }

    /// The request has failed.
    pub fn fail(&mut self, error: &RequestError) {
        if let Some(request) = &mut self.request {
            request.error = Some((error.code, cut(error.message.clone())));
        }
    }

    /// The request has its answer.
    pub fn end(mut self, status: AnswerStatus) {
        if let Some(request) = &mut self.request {
            request.status = Some(status);
        }
    }
}

impl Drop for ServerSpan {
    fn drop(&mut self) {
        if let Some(mut request) = self.request.take() {
            request.ended = SystemTime::now();
            request.took = self.began.elapsed();
            self.tracer.queue.push(request);
        }
    }
}
