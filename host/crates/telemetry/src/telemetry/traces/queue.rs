//! Requests that are over and whose spans wait for the exporter.
//!
//! In: requests, from every worker. Out: batches, for the exporter's thread.
//! Invariants: a worker neither waits nor locks; no more than the configured number of spans wait, and what
//! does not fit is dropped and counted.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_queue::ArrayQueue;
use tokio::sync::Notify;

use super::span::EndedRequest;
use crate::telemetry::metrics::SpanCounts;

/// The queue.
pub(super) struct Queue {
    requests: ArrayQueue<Box<EndedRequest>>,
    spans: AtomicUsize,
    /// Most spans that wait.
    most: usize,
    /// Spans that are worth an export.
    batch: usize,
    /// Told when a batch is full.
    pub full: Notify,
    pub counts: SpanCounts,
}

impl Queue {
    pub(super) fn new(most: usize, batch: usize, counts: SpanCounts) -> Queue {
        // Each request has one span at least.
        let requests = ArrayQueue::new(most.max(1));
        Queue { requests, spans: AtomicUsize::new(0), most, batch, full: Notify::new(), counts }
    }

    /// Puts a request to the others, or drops it.
    pub(super) fn push(&self, request: Box<EndedRequest>) {
        let own = request.spans();
        let before = self.spans.fetch_add(own, Ordering::Relaxed);
        let full = before + own > self.most;
        if full || self.requests.push(request).is_err() {
            self.spans.fetch_sub(own, Ordering::Relaxed);
            self.counts.dropped.inc_by(own as u64);
        } else if before < self.batch && before + own >= self.batch {
            self.full.notify_one();
        }
    }

    /// The requests of a batch, and how many spans they have; `None` if nothing waits.
    pub(super) fn take(&self) -> Option<(Vec<EndedRequest>, usize)> {
        let (mut taken, mut spans) = (Vec::new(), 0);
        while spans < self.batch
            && let Some(request) = self.requests.pop()
        {
            spans += request.spans();
            taken.push(*request);
        }
        self.spans.fetch_sub(spans, Ordering::Relaxed);
        (!taken.is_empty()).then_some((taken, spans))
    }

    /// Whether there are enough spans for an export now.
    pub(super) fn is_full(&self) -> bool {
        self.spans.load(Ordering::Relaxed) >= self.batch
    }
}
