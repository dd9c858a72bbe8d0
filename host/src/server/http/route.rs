//! Where the requests of one path go.
//!
//! Place in the flow: found by a request's path in [`super`].

use std::sync::Arc;

use crate::deploy::Endpoint;
use crate::server::served::Served;

/// An endpoint, and the process around it.
pub(super) struct EndpointRoute {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) served: Arc<Served>,
}
