//! The stores of the model server for handlers and clients: values, objects and jobs, in files, a Redis or a
//! bucket.
//!
//! Place in the flow: above `modelhost-base`; the crate `host` passes these modules on under their own names.
//! Invariants: no sandbox and no HTTP server. As in `host`, the list below is the import direction: a module
//! names only modules below it. `tests/it/tidy.rs` enforces that.

pub mod blobs;
pub mod kv;
pub mod jobs;
pub mod stores;

use modelhost_base::{blocking, file, json, keys, outbound, request, text, throttle, time, trust};
