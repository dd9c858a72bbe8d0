//! The logs and metrics of the model server.
//!
//! Place in the flow: above `modelhost-stores`, whose figures it shows; the crate `host` passes the module on
//! under its own name.

pub mod telemetry;

use modelhost_base::{error, shard, text, time};
use modelhost_stores::{jobs, kv};
