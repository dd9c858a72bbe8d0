//! The logs, metrics and traces of the model server.
//!
//! Place in the flow: above `modelhost-stores`, whose figures it shows; the crate `host` passes the module on
//! under its own name.

pub mod telemetry;

use modelhost_base::{bucketing, error, file, outbound, shard, text, time, trace, values};
use modelhost_stores::{jobs, kv};
