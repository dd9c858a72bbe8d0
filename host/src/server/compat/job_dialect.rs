//! A vendor's dialect of jobs: the paths that take them, the bodies that bring them, the answers about them.
//!
//! Place in the flow: `http/jobs.rs` finds a request's dialect by its path, and asks it at each step where
//! the words of vendors differ; what is done is the same for all. A new dialect is a file with this trait,
//! and a line in `compat.rs`.
//! In: orders, bodies, jobs as they are stored. Out: what they mean, and responses.

use axum::http::Method;
use axum::response::Response;
use bytes::Bytes;

use crate::endpoint::config::EndpointConfig;
use crate::error::RequestError;
use crate::jobs::{Batch, BatchSubmission, Job, JobForm, Submission};
use crate::rollout::deployment::Deployment;
use crate::server::head::Head;
use crate::server::http::jobs::answers::no_job;
use crate::server::http::jobs::order::JobOrder;
use crate::server::http::openapi::answers::Path;

/// The order that a method, the rest of a path and a query stand for; `None`: the path is another's.
pub(in crate::server) type Orders = fn(&Method, &str, &str) -> Option<JobOrder>;

/// One dialect.
pub(in crate::server) trait JobDialect: Sync {
    /// As endpoints are configured with it.
    fn form(&self) -> &'static JobForm;

    /// The beginnings of its paths, without the last slash. `is_only`: of the only endpoint.
    fn paths(&self, config: &EndpointConfig, is_only: bool) -> Vec<(String, Orders)>;

    /// Its operations for the OpenAPI document.
    fn operations(&self, endpoint: &Deployment) -> Vec<Path>;

    /// The refusal of a submission with this head, in words of its own.
    fn refused(&self, _: &Head) -> Option<Response> {
        None
    }

    /// Takes what stands around the body of a request, if this dialect has such a thing.
    fn envelope(&self) -> Option<Envelope> {
        None
    }

    /// The job was stored.
    fn submitted(&self, job: &Job) -> Response;

    /// Whether a job is looked at together with its result.
    fn has_result(&self) -> bool {
        false
    }

    /// The job is looked at.
    fn looked(&self, endpoint: &str, job: &Job, result: Option<Bytes>) -> Response;

    /// There is no job of this id.
    ///
    /// # Errors
    /// The server's own.
    fn unknown(&self, _: &str) -> Result<Response, RequestError> {
        Err(no_job())
    }

    /// The answer to an order to cancel a job, which is followed if the job is queued still; `None`: it is
    /// cancelled in any state, and the answer is the server's own.
    fn cancelled(&self) -> Option<fn(&Job) -> Response> {
        None
    }

    /// Its lists of inputs, if it has them.
    fn batches(&self) -> Option<&dyn BatchDialect> {
        None
    }
}

/// Takes its words from around the body of a request.
pub(in crate::server) type Envelope = fn(&EndpointConfig, &mut Submission) -> Result<(), RequestError>;

/// Lists of inputs in one dialect.
pub(in crate::server) trait BatchDialect: Sync {
    /// The batch that a body brings. The path that is called when it has ended is that of an application.
    ///
    /// # Errors
    /// It brings none.
    fn read(&self, body: &Bytes) -> Result<BatchSubmission, RequestError>;

    /// The batch was stored.
    fn submitted(&self, config: &EndpointConfig, batch: &Batch) -> Response;

    /// The state of a batch, and its counts.
    fn looked(&self, config: &EndpointConfig, batch: &Batch) -> Response;

    /// The batch was stopped, or had ended.
    fn stopped(&self, batch: &Batch) -> Response;
}
