//! Logs, metrics and traces.

pub mod activity;
pub mod failure;
pub mod logs;
pub mod metrics;
pub mod stderr;
pub mod traces;
