//! End-to-end tests against the released binary: `make build`, then `cargo test -p e2e`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod batching;
mod cli;
mod device;
mod edge;
mod hangup;
mod instances;
mod iris;
mod isolation;
mod keys;
mod loading;
mod metrics;
mod models;
mod no_handler;
mod overload;
mod protocol;
mod reference;
mod sandbox;
mod shutdown;
mod start;
mod swap;
mod tensorflow;
mod tidy;
mod tls;
mod values;
mod watch;
