//! JSON ↔ tensors, for every protocol.
//!
//! Place in the flow: in the pipeline where a handler has no say in it, and in the server where a protocol carries tensors
//! as JSON. [`read`] knows the datatypes it is to make, [`typed`] finds them out, [`mod@write`] needs nobody's help.
//! Invariant: what is written is valid JSON; what is read costs memory in proportion to its text.

pub mod read;
pub mod typed;
pub mod write;
