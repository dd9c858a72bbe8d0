//! Where the requests of one path go.
//!
//! Place in the flow: found by a request's path in [`super`].

use std::sync::Arc;

use crate::rollout::deployment::Deployment;
use crate::server::served::Served;

/// An endpoint, and the process around it.
pub(super) struct EndpointRoute {
    pub(super) endpoint: Arc<Deployment>,
    pub(super) served: Arc<Served>,
}
