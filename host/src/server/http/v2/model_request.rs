//! What requests about models have in common that are no inferences: the path's parts, the id, the
//! credentials.
//!
//! Place in the flow: read from the head by the router, for [`metadata`](super::metadata) and
//! [`repository`](super::repository).

use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::extract::path::Path;
use axum::extract::rejection::PathRejection;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde::Deserialize;

use super::super::error;
use crate::arrivals::Origin;
use crate::error::{Code, RequestError, Stage};
use crate::keys::{self, Credentials};
use crate::request::Protocol;
use crate::server::browser::{FROM_A_PAGE, is_from_a_page};
use crate::server::head::{Operator, request_id};
use crate::server::models::Entry;
use crate::server::served::Served;

/// How models are looked for.
pub(super) const V2: Option<Protocol> = Some(Protocol::V2);

/// A request about a model.
pub(super) struct ModelRequest {
    pub(super) served: Arc<Served>,
    id: Arc<str>,
    pub(super) arrived: Instant,
    named: Named,
    /// The credentials that it shows: [`keys::HEADERS`], in their order.
    credentials: [Option<HeaderValue>; 2],
    is_operator: bool,
    /// Whose connection it came by.
    pub(super) origin: Origin,
}

/// The parts of its path; empty where the path has none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    model: String,
    version: Option<String>,
    region: Option<String>,
}

impl FromRequestParts<Arc<Served>> for ModelRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<ModelRequest, Response> {
        let path = Path::<Named>::from_request_parts(parts, served).await;
        let id = request_id(&parts.headers);
        let mut request = ModelRequest {
            served: served.clone(),
            id,
            arrived: Instant::now(),
            named: Named::default(),
            credentials: keys::HEADERS.map(|name| parts.headers.get(name).cloned()),
            is_operator: parts.extensions.get::<Operator>().is_some(),
            origin: parts.extensions.get().copied().unwrap_or_default(),
        };
        match path {
            Ok(Path(named)) => request.named = named,
            // A path without parts.
            Err(PathRejection::MissingPathParams(_)) => {}
            Err(rejection) => {
                let failure = RequestError::new(Code::NotFound, Stage::Admit, rejection.body_text());
                return Err(request.answer(Err(failure)));
            }
        }
        Ok(request)
    }
}

impl ModelRequest {
    pub(super) fn entry(&self) -> Result<Entry<'_>, RequestError> {
        let (version, protocol) = (self.named.version.as_deref(), self.protocol());
        self.served.model(&self.named.model, version, self.credentials(), protocol)
    }

    /// The model that it names; `None` if it names none.
    pub(super) fn named_entry(&self) -> Result<Option<Entry<'_>>, RequestError> {
        if self.named.model.is_empty() { Ok(None) } else { self.entry().map(Some) }
    }

    /// The region of shared memory that it is about; `None`: all of them.
    pub(super) fn region(&self) -> Option<&str> {
        self.named.region.as_deref()
    }

    pub(super) fn credentials(&self) -> Credentials<'_> {
        let header = |name| {
            let mut pairs = keys::HEADERS.into_iter().zip(&self.credentials);
            pairs.find(|(header, _)| *header == name)?.1.as_ref()?.to_str().ok()
        };
        if self.is_operator { Credentials::operator() } else { Credentials::of(header) }
    }

    /// The operator is told of everything.
    pub(super) fn protocol(&self) -> Option<Protocol> {
        if self.is_operator { None } else { V2 }
    }

    /// The answer, or the error as every other.
    pub(super) fn answer(&self, outcome: Result<Response, RequestError>) -> Response {
        outcome.unwrap_or_else(|failure| error::respond(failure, &self.id, &self.served, None, self.arrived))
    }
}

/// Refuses an order that a web page gave.
pub(super) fn not_from_a_page(headers: &HeaderMap) -> Result<(), RequestError> {
    match is_from_a_page(headers) {
        true => Err(RequestError::new(Code::Forbidden, Stage::Admit, FROM_A_PAGE)),
        false => Ok(()),
    }
}
