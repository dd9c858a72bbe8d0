//! What Triton's clients may ask of tracing and of the log.
//!
//! Place in the flow: beside it; for the Open Inference Protocol over HTTP and gRPC.
//! Out: names and values as Triton has them. Clients change none of them: log and metrics are the operator's.

use tracing::Level;

use crate::error::{RequestError, Stage};

/// A value of the log's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogSetting {
    Is(bool),
    Level(u32),
    Text(&'static str),
}

/// The settings of tracing: nothing is traced.
pub(super) fn trace() -> [(&'static str, &'static str); 6] {
    [
        ("trace_file", ""),
        ("trace_level", "OFF"),
        ("trace_rate", "0"),
        ("trace_count", "-1"),
        ("log_frequency", "0"),
        ("trace_mode", "triton"),
    ]
}

/// The settings of the log.
pub(super) fn log() -> [(&'static str, LogSetting); 6] {
    let verbose = tracing::enabled!(Level::DEBUG);
    [
        ("log_file", LogSetting::Text("")),
        ("log_info", LogSetting::Is(tracing::enabled!(Level::INFO))),
        ("log_warning", LogSetting::Is(tracing::enabled!(Level::WARN))),
        ("log_error", LogSetting::Is(tracing::enabled!(Level::ERROR))),
        ("log_verbose_level", LogSetting::Level(verbose.into())),
        ("log_format", LogSetting::Text("default")),
    ]
}

/// The answer to an order.
pub(super) fn refused(what: &str) -> RequestError {
    let text = format!("{what} is not changed by clients; the operator sets the log with `--log-level`");
    RequestError::invalid(Stage::Admit, text)
}
