//! Logs, metrics and traces.

pub mod access_log;
pub mod activity;
pub mod failure;
pub mod logs;
pub mod metrics;
pub mod stderr;
pub mod traces;
