//! JSON ↔ tensors, for every protocol.
//!
//! Place in the flow: in the pipeline where a handler has no say in it, and in the server where a protocol
//! carries tensors as JSON. [`read`] knows the datatypes it is to make, [`typed`] finds them out,
//! [`mod@write`] needs neither. [`serving`] is TensorFlow Serving's form of it, [`msgpack`] the same
//! documents in another notation, [`content_type`] a parameter of MLServer's. [`special`] is for numbers that
//! JSON does not have. [`object`] is for documents that are types of Rust's. [`cursor`] reads any document,
//! [`path`] names places in it, [`redact`] takes them out; [`short_list`] bounds lists in files of strangers.
//! Invariant: what is written is valid JSON; what is read costs memory in proportion to its text.

pub mod base64;
pub mod content_type;
pub mod cursor;
pub mod msgpack;
pub mod object;
pub mod outputs;
pub mod path;
pub mod read;
pub mod redact;
pub mod serving;
pub mod short_list;
pub mod special;
pub mod typed;
pub mod write;
