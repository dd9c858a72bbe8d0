//! The models of the model server: found, loaded once, scheduled, and run by ONNX Runtime or TensorFlow.
//!
//! Place in the flow: beside `modelhost-sandbox`, and neither names the other; the pipeline joins them. The
//! crate `host` passes the module on under its own name.
//! Invariants: no sandbox and no HTTP; nothing outside this crate knows which engine runs.

pub mod model;

use modelhost_base::{blocking, file, priority, shard, tensor, text, time};
use modelhost_telemetry::telemetry;
