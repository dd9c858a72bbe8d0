//! The WebSockets of an endpoint, counted.
//!
//! Place in the flow: counted by `server/websocket.rs` while one is open. Invariants: endpoints whose
//! handlers serve no sockets have no series; clients and handlers cannot grow the labels of closes.

use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::families::{Families, opts};

/// The families of all endpoints.
#[derive(Clone)]
pub(super) struct SocketFamilies {
    open: IntGaugeVec,
    messages: IntCounterVec,
    closes: IntCounterVec,
}

impl SocketFamilies {
    /// With these names and help texts.
    pub(super) fn new(
        families: &Families,
        [open, messages, closes]: [(&str, &str); 3],
    ) -> Result<SocketFamilies, prometheus::Error> {
        Ok(SocketFamilies {
            open: families.register(IntGaugeVec::new(opts(open), &["endpoint"])?)?,
            messages: families.register(IntCounterVec::new(opts(messages), &["endpoint", "direction"])?)?,
            closes: families.register(IntCounterVec::new(opts(closes), &["endpoint", "code"])?)?,
        })
    }
}

/// Counts the sockets of one endpoint.
#[derive(Clone)]
pub struct SocketCounts {
    families: SocketFamilies,
    endpoint: Arc<str>,
}

/// Counts one socket, open until it is dropped.
pub struct OpenSocket {
    /// Messages of the client.
    pub received: IntCounter,
    /// Messages to the client.
    pub sent: IntCounter,
    open: IntGauge,
    counts: SocketCounts,
}

impl SocketCounts {
    pub(super) fn new(families: &SocketFamilies, endpoint: &str) -> SocketCounts {
        SocketCounts { families: families.clone(), endpoint: endpoint.into() }
    }

    /// Begins the series of an endpoint whose handler serves sockets, at zero; but for those of closes, of
    /// which there are many.
    pub fn begin(&self) {
        self.resolve();
    }

    /// A socket has opened.
    pub fn opened(&self) -> OpenSocket {
        let (open, [received, sent]) = self.resolve();
        open.inc();
        OpenSocket { received, sent, open, counts: self.clone() }
    }

    fn resolve(&self) -> (IntGauge, [IntCounter; 2]) {
        let SocketFamilies { open, messages, .. } = &self.families;
        let counter = |direction| messages.with_label_values(&[&*self.endpoint, direction]);
        (open.with_label_values(&[&*self.endpoint]), ["received", "sent"].map(counter))
    }

    /// A socket was closed with this code.
    pub fn closed(&self, code: u16) {
        let number = code.to_string();
        let label = match code {
            1000..=1015 => &*number,
            3000..=3999 => "3xxx",
            4000..=4999 => "4xxx",
            _ => "other",
        };
        self.families.closes.with_label_values(&[&*self.endpoint, label]).inc();
    }
}

impl OpenSocket {
    /// It was closed with this code.
    pub fn closed(self, code: u16) {
        self.counts.closed(code);
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.open.dec();
    }
}
