//! What tests of the sandbox's parts begin with.

use std::sync::Arc;

use super::capabilities::Grants;
use super::*;
use crate::telemetry::metrics::Metrics;

/// HandlerConfig of an endpoint that grants nothing.
pub(super) fn config() -> HandlerConfig {
    HandlerConfig {
        endpoint: "it".into(),
        metadata: "null".into(),
        network: Network::None,
        env: Vec::new(),
        project: None,
        hidden: Arc::default(),
        limits: Limits::default(),
        isolation: Isolation::Worker,
        reuse_instances: false,
        hides_credentials: false,
        key_headers: Arc::default(),
        response_headers: Arc::new([]),
        outbound: None,
        grants: Grants::default(),
        schema: None,
        instances: Metrics::new().unwrap().endpoint("it").instances.clone(),
    }
}
