//! Dialects: the headers, codes, messages and paths that the clients of single vendors expect beyond the
//! protocols.
//!
//! Place in the flow: beside the protocols, which call this module where a vendor's clients differ:
//! [`client`] has the dialects of requests and their answers, [`job_dialect`] what a dialect of jobs is, and
//! [`job_dialects`] the list of those. Other requests do not pass through here.
//! `cortex`: Cortex's AsyncAPI, `cortex_batch` its BatchAPI; `potassium`: banana's Potassium; [`truss`] and
//! [`pydantic_messages`]: Baseten's Truss, `truss_async` its asynchronous calls; [`tf_serving`]: the JSON of
//! TensorFlow Serving's and KServe's first protocol; [`openai`]: OpenAI's errors and list of models.
//! Invariant: no other file names a vendor, but those that `tests/it/tidy/vendors.rs` lists, each with its
//! reason.

pub(super) mod client;
mod cortex;
mod cortex_batch;
pub(super) mod job_dialect;
pub mod job_dialects;
mod job_operations;
pub(super) mod openai;
mod potassium;
pub(super) mod pydantic_messages;
pub(super) mod tf_serving;
pub(super) mod truss;
mod truss_async;
