//! The sandbox of the model server: handlers compiled, linked, run and bounded.
//!
//! Place in the flow: beside `modelhost-models`, and neither names the other; the pipeline joins them. The
//! crate `host` passes the module on under its own name.
//! Invariant: everything of wasmtime is in this crate.

pub mod plugin;

use modelhost_base::{
    blocking, error, file, json, keys, memory, model_access, outbound, request, schema, shard, tensor, text,
    throttle, trace,
};
use modelhost_stores::{blobs, jobs, kv};
use modelhost_telemetry::telemetry;
