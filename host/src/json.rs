//! JSON ↔ tensors, for every protocol.
//!
//! Place in the flow: in the pipeline where a handler has no say in it, and in the server where a protocol carries tensors
//! as JSON. [`read`] knows the datatypes it is to make, [`typed`] finds them out, [`mod@write`] needs nobody's help. [`serving`] is
//! TensorFlow Serving's form of it, [`msgpack`] the same documents in another notation.
//! Invariant: what is written is valid JSON; what is read costs memory in proportion to its text.

mod base64;
pub mod msgpack;
pub mod read;
pub mod serving;
pub mod typed;
pub mod write;
