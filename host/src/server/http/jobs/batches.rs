//! A list of inputs that becomes a batch.
//!
//! Place in the flow: `POST` on a path that takes lists in its endpoint's dialect. In: the body of a
//! submission. Out: the batch, stored with a job for each part of its list.
//! Invariant: a batch is stored whole or not at all.

use std::time::Instant;

use axum::body::Body;

use super::super::route::EndpointRoute;
use super::answers::failed;
use super::submission::{copied, receive};
use crate::blocking;
use crate::error::RequestError;
use crate::jobs::{Batch, JobStore};
use crate::server::compat::job_dialect::BatchDialect;
use crate::server::head::Head;
use crate::telemetry::metrics::Submitted;

/// Stores the batch that this request is.
///
/// # Errors
/// Why it is none, counted already.
pub(super) async fn submit(
    route: &EndpointRoute,
    store: &JobStore,
    dialect: &dyn BatchDialect,
    head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<Batch, RequestError> {
    let metrics = &route.endpoint.metrics;
    let stored = stored(route, store, dialect, head, body, arrived).await;
    metrics.jobs.submitted(if stored.is_ok() { Submitted::Stored } else { Submitted::Refused });
    stored.inspect_err(|error| metrics.error(error.code))
}

async fn stored(
    route: &EndpointRoute,
    store: &JobStore,
    dialect: &dyn BatchDialect,
    mut head: Box<Head>,
    body: Body,
    arrived: Instant,
) -> Result<Batch, RequestError> {
    let config = &route.endpoint.config;
    // It holds the place of the body until that is stored.
    let (_admitted, body) = receive(route, &mut head, body, arrived).await?;
    let mut submission = blocking::if_large(body.len(), || {
        let _copied = copied(route, &body)?;
        dialect.read(&body)
    })?;
    submission.attempts = config.jobs.attempts;
    submission.keep = config.jobs.keep;
    let is_application = route.endpoint.is_application();
    submission.on_complete = submission.on_complete.filter(|_| is_application);
    store.submit_batch(&config.name, submission, config.jobs.quota).await.map_err(failed)
}
