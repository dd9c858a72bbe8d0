//! What tests of the sandbox's parts begin with.

use std::sync::Arc;
use std::time::Duration;

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
        limits: Limits {
            memory: 64 << 20,
            output: 64 << 20,
            pre_timeout: Duration::from_secs(1),
            post_timeout: Duration::from_secs(1),
            init_timeout: Duration::from_secs(10),
            wall_timeout: None,
            project: 64 << 20,
            stream_timeout: Duration::from_secs(30),
            background_timeout: Duration::from_secs(30),
            tensors: 64,
            tensor_memory: 64 << 20,
            model_runs: 64,
            weight: 1,
        },
        isolation: Isolation::Worker,
        reuse_instances: false,
        hides_credentials: false,
        key_headers: Arc::default(),
        response_headers: Arc::new([]),
        grants: Grants::default(),
        schema: None,
        instances: Metrics::new().unwrap().endpoint("it").instances.clone(),
    }
}
