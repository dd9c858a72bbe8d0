//! Which service answers a listener's requests: a few lines while everything is loading, then the whole one,
//! and another whenever endpoints come or go.
//!
//! Place in the flow: between a connection and a [`HttpService`].
//! Invariants: a service takes over by one atomic store; a request sees the one or the
//! other, never both; connections made before stay. No head beyond the limits is answered by anything but
//! 431, and none that HTTP forbids reaches the service; each field of one that does has one value.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;

use super::head::Head;
use super::http::{HttpService, refuse};
use super::served::Served;
use super::{field_text, grpc};
use crate::error::{Code, RequestError, Stage};
use crate::telemetry::access_log::AccessLog;

/// The services behind one listener, of which one answers.
pub struct ServiceSwitch {
    served: Arc<Served>,
    service: ArcSwap<HttpService>,
    access_log: Option<Arc<AccessLog>>,
}

impl ServiceSwitch {
    /// A switch behind which everything is still loading. `served` has no endpoints yet.
    pub fn new(served: Arc<Served>, loading: HttpService) -> ServiceSwitch {
        ServiceSwitch { served, service: ArcSwap::from_pointee(loading), access_log: None }
    }

    /// With the access log of its requests, if there is one.
    #[must_use]
    pub fn logged(self) -> ServiceSwitch {
        ServiceSwitch { access_log: self.served.access_log.clone(), ..self }
    }

    /// The log of its requests.
    pub(super) fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.access_log.as_ref()
    }

    /// Lets another service answer from now on; requests that have begun end on theirs.
    pub fn switch_to(&self, service: HttpService) {
        self.service.store(Arc::new(service));
    }

    /// Answers one request, which came at `arrived`.
    pub(super) async fn answer(&self, mut head: Box<Head>, body: Body, arrived: Instant) -> Response {
        let limits = &self.served.config.connections;
        let headers = head.headers();
        if headers.len() > limits.headers {
            let message = format!("the head has {} headers, of at most {}", headers.len(), limits.headers);
            return self.refuse(Code::HeadTooLarge, message, headers);
        }
        if head.length > limits.header_size {
            let message = format!("the head is longer than {} bytes", limits.header_size);
            return self.refuse(Code::HeadTooLarge, message, headers);
        }
        if let Some((code, message)) = head.protocol_violation {
            return self.refuse(code, message.to_owned(), headers);
        }
        field_text::unite(&mut head.parts);
        self.service.load().answer(head, body, arrived).await
    }

    /// Refuses a request in the form that its client reads.
    fn refuse(&self, code: Code, message: String, headers: &HeaderMap) -> Response {
        if grpc::is_call(headers) {
            return grpc::refuse(&RequestError::new(code, Stage::Admit, message), headers);
        }
        refuse(code, message, &self.served, headers)
    }
}
