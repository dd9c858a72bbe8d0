//! The one place that logs a failed request, of any protocol.
//!
//! Place in the flow: every failure passes here before it leaves as a response or a status.
//! Invariant: however long a caller's text is that a message repeats, the answer and the log have its
//! beginning only.

use std::mem;
use std::time::Instant;

use tracing::field::display;

use crate::error::{PluginFault, RequestError};
use crate::text::cut;
use crate::time::rounded_milliseconds;
use crate::trace::RequestTrace;

/// The same with a message of a length that an answer can bear.
pub fn shortened(mut error: RequestError) -> RequestError {
    let message = mem::take(&mut error.message);
    error.message = cut(message);
    error
}

/// Logs a failed request. `trace`: the one that it is part of; `by_caller`: the caller has made it fail, also
/// if its code says otherwise.
pub fn log_failure(
    error: &RequestError,
    id: &str,
    endpoint: Option<&str>,
    trace: Option<&RequestTrace>,
    arrived: Instant,
    by_caller: bool,
) {
    let duration_ms = rounded_milliseconds(arrived.elapsed());
    let (code, stage) = (error.code.name(), error.stage.name());
    let (fault, digest) = (error.plugin_fault().map(PluginFault::name), error.digest.as_deref());
    let status = error.code.http();
    let trace_id = trace.and_then(RequestTrace::id).map(display);
    if status >= 500 && status != 503 && !by_caller {
        tracing::error!(request.id = %id, endpoint, code, stage, fault, plugin.digest = digest, duration_ms,
            trace_id, detail = error.detail, "request failed: {error}");
    } else {
        // The caller's own mistakes and overload are counted; a line for each would let callers fill the log.
        tracing::debug!(request.id = %id, endpoint, code, stage, duration_ms, trace_id, detail = error.detail,
            "request refused: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Stage};

    #[test]
    fn what_a_caller_sent_is_not_repeated_without_bound() {
        for (letters, kept, end) in [(9, 9, ""), (2048, 2048, ""), (9000, 2048, "…")] {
            let error = shortened(RequestError::invalid(Stage::Admit, "é".repeat(letters)));
            assert_eq!((error.code, &error.message), (Code::InvalidInput, &("é".repeat(kept) + end)));
        }
    }
}
