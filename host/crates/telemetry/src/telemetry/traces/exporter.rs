//! The export of spans: batches, posted to a collector as OTLP over HTTP.
//!
//! Place in the flow: a thread of its own with a runtime of its own, by the client of [`outbound`]. In: what
//! waits in the [`Queue`]. Out: requests to the collector; counts; one line in the log when the collector
//! stops taking spans, and one when it takes them again.
//! Invariants: one batch is under way at a time; a batch that the collector does not take in time is dropped
//! and counted; at most [`LONGEST`] bytes of an answer are read.
//!
//! [`outbound`]: crate::outbound

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use prost::Message as _;
use tokio::sync::watch;
use tokio::time::Instant;

use super::otlp::{ExportRequest, ExportResponse, Resource, ResourceSpans, Scope, ScopeSpans, attribute};
use super::queue::Queue;
use super::settings::Config;
use super::span::EndedRequest;
use crate::outbound::{AGENT, Body, Outbound, Patience, retry_after};
use crate::text::on_one_line;

/// Backoff between attempts: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long the last spans may take when the server stops.
const FAREWELL: Duration = Duration::from_secs(3);
/// Most bytes of a collector's answer that are read.
const LONGEST: usize = 64 << 10;
/// Most characters of a collector's own words in the log.
const MOST_SHOWN: usize = 200;

/// Sends what waits in a queue.
pub(super) struct Exporter {
    config: Config,
    headers: HeaderMap,
    resource: Resource,
    queue: Arc<Queue>,
    outbound: Outbound,
    /// Whether the server stops.
    stopping: watch::Receiver<bool>,
    backoff: Duration,
    is_down: bool,
}

/// Why a batch was not taken.
struct Refusal {
    why: String,
    /// When to try again; `None`: the collector would refuse it again.
    again: Option<Option<Duration>>,
}

impl Refusal {
    /// The collector has not answered in time.
    fn late() -> Refusal {
        Refusal { why: "it took too long".to_owned(), again: Some(None) }
    }
}

impl Exporter {
    pub(super) fn new(
        config: Config,
        queue: Arc<Queue>,
        outbound: Outbound,
        stopping: watch::Receiver<bool>,
    ) -> Exporter {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, AGENT);
        headers.extend(config.headers.clone().into_iter().filter_map(|(name, value)| Some((name?, value))));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut attributes = vec![
            attribute("service.name", &*config.service),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
            attribute("telemetry.sdk.name", "modelhost"),
            attribute("telemetry.sdk.language", "rust"),
            attribute("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
            attribute("process.pid", u64::from(std::process::id())),
        ];
        attributes.retain(|own| config.resource.iter().all(|(name, _)| *name != own.key));
        attributes.extend(config.resource.iter().map(|(name, value)| attribute(name, &**value)));
        let resource = Resource { attributes };
        Exporter { config, headers, resource, queue, outbound, stopping, backoff: BACKOFF.0, is_down: false }
    }

    /// Exports until the server stops, and then what is left.
    pub(super) async fn run(mut self) {
        let mut stopping = self.stopping.clone();
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stopping) => break,
                () = self.queue.full.notified() => {}
                () = tokio::time::sleep(self.config.delay) => {}
            }
            while let Some((requests, spans)) = self.queue.take() {
                self.export(requests, spans).await;
                // What has come meanwhile waits for others, or for the end.
                if !self.queue.is_full() || *self.stopping.borrow() {
                    break;
                }
            }
        }
        let deadline = Instant::now() + FAREWELL;
        while let Some((requests, spans)) = self.queue.take() {
            let body = self.encode(requests);
            let sent = tokio::time::timeout_at(deadline, self.send(body)).await;
            self.ended(spans, matches!(sent, Ok(Ok(()))));
        }
    }

    /// Exports a batch, in several attempts if need be.
    async fn export(&mut self, requests: Vec<EndedRequest>, spans: usize) {
        let body = self.encode(requests);
        let deadline = Instant::now() + self.config.export_timeout;
        let mut stopping = self.stopping.clone();
        loop {
            let Some(attempt) = self.attempt(body.clone(), deadline).await else { break };
            let refusal = match attempt {
                Ok(()) => {
                    if std::mem::take(&mut self.is_down) {
                        tracing::info!("traces are exported again");
                    }
                    self.backoff = BACKOFF.0;
                    return self.ended(spans, true);
                }
                Err(refusal) => refusal,
            };
            if !std::mem::replace(&mut self.is_down, true) {
                let url = &self.config.url;
                tracing::warn!(
                    "traces are not exported to {url}: {}; attempts go on, and spans that find \
                    no place meanwhile are dropped",
                    refusal.why
                );
            }
            let Some(after) = refusal.again else { break };
            let pause = after.unwrap_or(self.backoff).min(BACKOFF.1);
            self.backoff = (self.backoff * 2).min(BACKOFF.1);
            tokio::select! {
                () = tokio::time::sleep_until(deadline.min(Instant::now() + pause)) => {}
                () = stopped(&mut stopping) => break,
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        self.ended(spans, false);
    }

    /// One attempt, which the end of the server gives some time yet; `None`: not enough.
    async fn attempt(&self, body: Vec<u8>, deadline: Instant) -> Option<Result<(), Refusal>> {
        let mut stopping = self.stopping.clone();
        let mut attempt = pin!(tokio::time::timeout_at(deadline, self.send(body)));
        let ended = tokio::select! {
            biased;
            ended = &mut attempt => ended,
            () = stopped(&mut stopping) => tokio::time::timeout(FAREWELL, attempt).await.ok()?,
        };
        Some(ended.unwrap_or_else(|_| Err(Refusal::late())))
    }

    /// Counts the spans of a batch.
    fn ended(&self, spans: usize, is_exported: bool) {
        let counts = &self.queue.counts;
        if is_exported { &counts.exported } else { &counts.dropped }.inc_by(spans as u64);
    }

    fn encode(&self, requests: Vec<EndedRequest>) -> Vec<u8> {
        let mut spans = Vec::new();
        for request in requests {
            request.into_spans(&mut spans);
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scope = Some(Scope { name: "modelhost".to_owned(), version });
        let scope_spans = vec![ScopeSpans { scope, spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        ExportRequest { resource_spans }.encode_to_vec()
    }

    /// One attempt.
    async fn send(&self, body: Vec<u8>) -> Result<(), Refusal> {
        let timeout = self.config.timeout;
        let attempt = async {
            let body = Full::from(body).map_err(|never| match never {}).boxed_unsync();
            let mut request = Request::post(self.config.url.clone())
                .body(body)
                .map_err(|error| Refusal { why: error.to_string(), again: None })?;
            request.headers_mut().clone_from(&self.headers);
            let patience = Patience { first_byte: Some(timeout), between_bytes: Some(timeout) };
            match self.outbound.send(request, patience).await {
                Ok(response) => outcome(response).await,
                Err(error) => Err(Refusal { why: error.to_string(), again: Some(None) }),
            }
        };
        tokio::time::timeout(timeout, attempt).await.unwrap_or_else(|_| Err(Refusal::late()))
    }
}

/// The meaning of an answer (OTLP, "OTLP/HTTP Response").
async fn outcome(response: Response<Body>) -> Result<(), Refusal> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, LONGEST).collect().await;
    if head.status == StatusCode::OK {
        let answer = body.map(|body| ExportResponse::decode(body.to_bytes()));
        if let Ok(Ok(ExportResponse { partial_success: Some(partial) })) = answer
            && partial.rejected_spans > 0
        {
            let words: String = on_one_line(&partial.error_message).chars().take(MOST_SHOWN).collect();
            tracing::warn!("the collector has refused {} spans: {words}", partial.rejected_spans);
        }
        return Ok(());
    }
    let is_transient = [429, 502, 503, 504].contains(&head.status.as_u16());
    let after = retry_after(&head.headers);
    Err(Refusal { why: format!("it answers {}", head.status), again: is_transient.then_some(after) })
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone with the tracer: the server stops as well.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
