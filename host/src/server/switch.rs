//! Which service answers a listener's requests: a few lines while everything is loading, then the whole one,
//! and another whenever endpoints come or go.
//!
//! Place in the flow: between a connection and a [`HttpService`].
//! Invariants: a service takes over by one atomic store; a request sees the one or the
//! other, never both; connections made before stay. No head beyond the limits is answered by anything but
//! 431, and none that HTTP forbids reaches the service.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::response::Response;

use super::head::Head;
use super::http::{HttpService, refuse};
use super::served::Served;
use crate::error::Code;

/// The services behind one listener, of which one answers.
pub struct ServiceSwitch {
    served: Arc<Served>,
    service: ArcSwap<HttpService>,
}

impl ServiceSwitch {
    /// A switch behind which everything is still loading. `served` has no endpoints yet.
    pub fn new(served: Arc<Served>, loading: HttpService) -> ServiceSwitch {
        ServiceSwitch { served, service: ArcSwap::from_pointee(loading) }
    }

    /// Lets another service answer from now on; requests that have begun end on theirs.
    pub fn switch_to(&self, service: HttpService) {
        self.service.store(Arc::new(service));
    }

    /// Answers one request, which came at `arrived`.
    pub(super) async fn answer(&self, head: Box<Head>, body: Body, arrived: Instant) -> Response {
        let limits = &self.served.config.connections;
        let headers = head.headers();
        if headers.len() > limits.headers {
            let message = format!("the head has {} headers, of at most {}", headers.len(), limits.headers);
            return refuse(Code::HeadTooLarge, message, &self.served, headers);
        }
        if head.length > limits.header_size {
            let message = format!("the head is longer than {} bytes", limits.header_size);
            return refuse(Code::HeadTooLarge, message, &self.served, headers);
        }
        if let Some((code, message)) = head.protocol_violation {
            return refuse(code, message.to_owned(), &self.served, headers);
        }
        self.service.load().answer(head, body, arrived).await
    }
}
