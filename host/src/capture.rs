//! What is kept of an endpoint's requests: recordings, samples for the gate; and what they are good for:
//! replay, comparison.
//!
//! Place in the flow: observers of runs take it, off the path of the request; `rollout`, `host replay` and
//! `host diff` use it.

pub mod compare;
pub mod exchanges;
pub mod observers;
pub mod record;
pub mod replay;
pub mod samples;
