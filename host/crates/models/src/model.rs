//! A loaded model: what the pipeline sees of an inference engine.
//!
//! Flow: `verify → [infer] → verify`.
//! In:   tensors that `pipeline/verify.rs` has bound to the model's inputs, in signature order.
//! Out:  one tensor per output, in signature order, named as the signature names it.
//!
//! Loading, top down:
//! - [`catalog`] keeps what is `loaded`, so that endpoints share it;
//! - [`location`] finds the model's file or folder, [`plan`] decides on sessions and threads;
//! - [`engines`] has `onnx` or `tensorflow` load it; [`engine`] is what both offer: sessions, each for one
//!   run at a time; `warm_up` tries them.
//!
//! Serving, top down:
//! - [`handle`] is what an endpoint holds of a model, [`sequences`] the state that it keeps for it;
//! - `queue` holds what cannot run at once, [`schedule`] decides who runs next and together, [`batch`] joins
//!   and splits;
//! - `sessions` runs it, in place or on a thread of its own; `shares` keeps slow models from taking every
//!   core.
//!
//! Invariants: nothing outside this folder knows which engine runs; a request that goes away, at any moment,
//! leaves every session behind for the next one.

pub mod batch;
pub mod catalog;
mod config;
pub mod engine;
pub mod engines;
mod error;
mod extents;
pub mod handle;
pub mod library;
mod loaded;
pub mod location;
mod onnx;
pub mod plan;
mod prediction;
mod queue;
pub mod schedule;
pub mod sequences;
mod sessions;
mod shape;
mod shares;
mod tensorflow;
mod warm_up;

pub use self::catalog::Catalog;
pub use self::config::{Config, Device, ModelConfig};
pub use self::error::ModelError;
pub use self::handle::ModelHandle;
pub use self::loaded::{CLASSIFY_METHOD, DEFAULT_SIGNATURE_KEY, Model, PREDICT_METHOD, REGRESS_METHOD};
pub use self::prediction::Prediction;
pub use self::schedule::{Batching, Wait};
pub use self::sequences::{SequenceCall, SequenceLimits};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
