//! The WebSockets of an endpoint, counted.
//!
//! Place in the flow: counted by `server/websocket.rs` while one is open. Invariants: a series begins with
//! the endpoint's first socket: endpoints without sockets have none; clients and handlers cannot grow the
//! labels of closes.

use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::{opts, register};

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
        registry: &Registry,
        [open, messages, closes]: [(&str, &str); 3],
    ) -> Result<SocketFamilies, prometheus::Error> {
        Ok(SocketFamilies {
            open: register(registry, IntGaugeVec::new(opts(open), &["endpoint"])?)?,
            messages: register(registry, IntCounterVec::new(opts(messages), &["endpoint", "direction"])?)?,
            closes: register(registry, IntCounterVec::new(opts(closes), &["endpoint", "code"])?)?,
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

    /// A socket has opened.
    pub fn opened(&self) -> OpenSocket {
        let SocketFamilies { open, messages, .. } = &self.families;
        let open = open.with_label_values(&[&*self.endpoint]);
        open.inc();
        let counter = |direction| messages.with_label_values(&[&*self.endpoint, direction]);
        OpenSocket { received: counter("received"), sent: counter("sent"), open, counts: self.clone() }
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
