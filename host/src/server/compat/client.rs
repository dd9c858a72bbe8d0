//! The dialects of single requests: what a vendor's clients expect of an answer beside its protocol.
//!
//! Place in the flow: called by the services of HTTP, which name no vendor: for the form of an answer, for
//! errors, for the paths that only such clients ask.
//! In: a head, a path, an answer. Out: the same answer as its client reads it.

use std::sync::Arc;

use axum::response::Response;
use axum::routing::MethodRouter;

pub(in crate::server) use super::openai::{failure_text, unknown_model};
pub(in crate::server) use super::truss::{NO_SOCKETS, is_socket};
use super::{openai, potassium, truss};
use crate::error::Code;
use crate::server::head::{Head, X_REQUEST_ID};
use crate::server::served::Served;

/// The dialect of a request's client, as the request's head shows it.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct ClientDialect {
    /// Whether errors have the form of the path's clients.
    has_errors: bool,
    /// Whether the answer names the request by another header besides.
    has_id: bool,
}

impl ClientDialect {
    /// Of this head.
    pub(in crate::server) fn of(head: &Head) -> ClientDialect {
        ClientDialect { has_errors: openai::is_path(head.parts.uri.path()), has_id: head.has_id_alias }
    }

    /// Whether its answers differ from those of the protocol.
    pub(in crate::server) fn is_any(self) -> bool {
        self.has_errors || self.has_id
    }

    /// The answer as its client reads it.
    pub(in crate::server) async fn finish(self, mut response: Response) -> Response {
        if self.has_errors {
            response = openai::in_form(response).await;
        }
        if self.has_id {
            potassium::name(&mut response, &X_REQUEST_ID);
        }
        response
    }
}

/// Paths and methods that only clients of single vendors ask.
pub(in crate::server) fn methods(served: &Arc<Served>) -> [(&'static str, MethodRouter); 3] {
    potassium::methods(served)
}

/// The answer of an application with these paths, whose clients may expect errors of another form.
pub(in crate::server) fn of_application(answer: Response, paths: &[String]) -> Response {
    truss::in_form(answer, paths)
}

/// A path whose clients are told in their words that the server is loading.
pub(in crate::server) struct LoadingPath {
    /// The message, if it is another than the server's own.
    pub(in crate::server) message: Option<String>,
}

impl LoadingPath {
    /// This path; `None`: its clients expect nothing else than the server's own words.
    pub(in crate::server) fn of(path: &str, served: &Served) -> Option<LoadingPath> {
        let message = truss::not_ready(path);
        let has = |paths: &[String]| truss::is_one(paths) && paths.iter().any(|own| own == path);
        let is_own = message.is_some() || served.endpoints.iter().any(|endpoint| has(&endpoint.config.paths));
        is_own.then_some(LoadingPath { message })
    }

    /// The refusal with what its clients read besides.
    pub(in crate::server) fn finish(&self, response: Response) -> Response {
        truss::marked(response, truss::code(Code::NotReady))
    }
}
