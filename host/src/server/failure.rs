//! The one place that logs a failed request, of any protocol.
//!
//! Place in the flow: every failure passes here before it leaves as a response or a status.

use std::time::Instant;

use axum::http::StatusCode;

use super::status;
use crate::error::{PluginFault, RequestError};

/// Logs a failed request. `by_caller`: the caller has made it fail, also if its code says otherwise.
pub(super) fn log_failure(
    error: &RequestError,
    id: &str,
    endpoint: Option<&str>,
    arrived: Instant,
    by_caller: bool,
) {
    let (status, _) = status::of(error.code);
    let duration_ms = arrived.elapsed().as_micros() as f64 / 1000.0;
    let (code, stage) = (error.code.name(), error.stage.name());
    let (fault, digest) = (error.plugin_fault().map(PluginFault::name), error.digest.as_deref());
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE && !by_caller {
        tracing::error!(request.id = %id, endpoint, code, stage, fault, plugin.digest = digest, duration_ms,
            detail = error.detail, "request failed: {error}");
    } else {
        // The caller's own mistakes and overload are counted; a line for each would let callers fill the log.
        tracing::debug!(request.id = %id, endpoint, code, stage, duration_ms, detail = error.detail,
            "request refused: {error}");
    }
}
