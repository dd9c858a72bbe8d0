//! A model server that runs a sandboxed WebAssembly handler around every prediction.
//!
//! ```text
//! HTTP → admit → pre-inference (wasm) → verify → infer (the model) → verify → post-inference (wasm) → HTTP
//! ```
//!
//! The module list is the reading order and the import direction: a module names only modules below it, and
//! `plugin` and `model` never name each other; the pipeline joins them. `tests/it/tidy.rs` enforces both.
//! ARCHITECTURE.md walks one request through these files.

pub mod commands;
pub mod cli;
pub mod config;
pub mod app;
pub mod server;
pub mod workers;
pub mod rollout;
pub mod capture;
pub mod endpoint;
pub mod pipeline;
pub mod compression;
#[cfg(test)]
pub mod reference;

pub use modelhost_base::{
    arrivals, blocking, bucketing, drain, error, file, json, keys, memory, model_access, outbound, priority,
    program, request, schema, shard, tensor, text, throttle, time, trace, trust, values,
};
pub use modelhost_models::model;
pub use modelhost_sandbox::plugin;
pub use modelhost_stores::{blobs, jobs, kv, stores};
pub use modelhost_telemetry::telemetry;
