//! Logs and metrics.

pub mod activity;
pub mod failure;
pub mod logs;
pub mod metrics;
pub mod stderr;
