//! The generated half of the handler contract: the only file that reads `wit/`.
//!
//! When the contract grows, each released version keeps a module like this one, and everything above sees
//! [`crate::tensor`] and [`crate::request`] types only.

#![allow(missing_docs, reason = "generated; wit/*.wit documents every item")]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "every-handler",
    ownership: Borrowing { duplicate_if_necessary: true },
    // A guest may wait for WASI (a file, a clock), so every call into it is async.
    exports: { default: async },
    with: {
        "modelhost:handler/types.context": super::context::Context,
    },
});

/// The contract's package, without its version.
pub(super) const PACKAGE: &str = "modelhost:handler";
/// The contract's version this module speaks. Components of `0.1.x` work.
pub(super) const VERSION: &str = "0.1.0";
/// Full name of the export that turns a request into inputs.
pub(super) const PRE_INFERENCE: &str = "modelhost:handler/pre-inference@0.1.0";
/// Full name of the export that turns outputs into a response.
pub(super) const POST_INFERENCE: &str = "modelhost:handler/post-inference@0.1.0";
/// Full name of the export that takes tensors in place of a body.
pub(super) const PRE_INFERENCE_TENSORS: &str = "modelhost:handler/pre-inference-tensors@0.1.0";
/// Full name of the export that returns tensors in place of a response.
pub(super) const POST_INFERENCE_TENSORS: &str = "modelhost:handler/post-inference-tensors@0.1.0";
/// Full name of the export that says what the handler takes.
pub(super) const INPUT_SCHEMA: &str = "modelhost:handler/input-schema@0.1.0";
/// Full name of the export that prepares the handler.
pub(super) const INIT: &str = "modelhost:handler/init@0.1.0";

/// The interfaces that a handler may export.
pub(super) const INTERFACES: [&str; 6] =
    [PRE_INFERENCE, POST_INFERENCE, PRE_INFERENCE_TENSORS, POST_INFERENCE_TENSORS, INPUT_SCHEMA, INIT];
