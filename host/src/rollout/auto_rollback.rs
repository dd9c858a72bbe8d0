//! Goes back to the generation before when a handler keeps failing.
//!
//! Place in the flow: one task for each endpoint with a breaker, beside the request path. In: a breaker that
//! opened. Out: a rollback, if a generation is kept.

use std::sync::Arc;

use super::deploy_request::DeployRequest;
use super::deployment::Deployment;
use super::error::DeployError;
use super::history::Origin;
use crate::text::on_one_line;

/// Brings the generation before back whenever a breaker of the endpoint opens, for ever; drop the future to
/// stop.
pub async fn follow(endpoint: Arc<Deployment>) {
    loop {
        endpoint.breaker_opened.notified().await;
        endpoint.auto_rollback().await;
    }
}

impl Deployment {
    /// The breaker has opened: the generation before takes over, if it is kept.
    async fn auto_rollback(&self) {
        let current = self.current();
        if !current.is_open() {
            return;
        }
        let expected = current.digest.as_deref().map(str::to_owned);
        let request = DeployRequest { expected, ..DeployRequest::by(Origin::Breaker) };
        match self.rollback(&request).await {
            Ok(_) | Err(DeployError::NoPrevious { .. } | DeployError::Expected { .. }) => {}
            Err(error) => tracing::error!("no way back from a handler that fails: {}", on_one_line(&error)),
        }
    }
}
