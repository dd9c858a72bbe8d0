//! The vocabulary of the model server: tensors, errors, requests, JSON, schemas, rules for text and files.
//!
//! Place in the flow: below every other crate of the workspace, which name these modules; the crate `host`
//! passes them on under their own names.
//! Invariants: no sandbox, no engine of models and no HTTP server. As in `host`, the list below is the import
//! direction: a module names only modules below it. `tests/it/tidy.rs` enforces that.

pub mod model_access;
pub mod outbound;
pub mod request;
pub mod schema;
pub mod keys;
pub mod json;
pub mod values;
pub mod trust;
pub mod file;
pub mod arrivals;
pub mod memory;
pub mod blocking;
pub mod priority;
pub mod bucketing;
pub mod shard;
pub mod trace;
pub mod error;
pub mod text;
pub mod program;
pub mod throttle;
pub mod drain;
pub mod time;
pub mod tensor;
