//! The generated half of the handler contract: the only file that reads `wit/`.
//!
//! When the contract grows, each released version keeps a module like this one, and everything above sees
//! [`crate::tensor`] and [`crate::request`] types only.

#![allow(missing_docs, reason = "generated; wit/*.wit documents every item")]

wasmtime::component::bindgen!({
    path: "../../../wit",
    world: "every-handler",
    ownership: Borrowing { duplicate_if_necessary: true },
    // A guest may wait for WASI (a file, a clock), so every call into it is async.
    exports: { default: async },
    imports: {
        "modelhost:handler/models.infer": async | trappable,
        "modelhost:handler/models.run": async | trappable,
        "modelhost:handler/models.[method]pending.wait": async | trappable,
        "modelhost:handler/models": trappable,
        "modelhost:handler/request.on-disconnect": trappable,
        "modelhost:handler/kv.[method]bucket.get": async | trappable,
        "modelhost:handler/kv.[method]bucket.set": async | trappable,
        "modelhost:handler/kv.[method]bucket.add": async | trappable,
        "modelhost:handler/kv.[method]bucket.increment": async | trappable,
        "modelhost:handler/kv.[method]bucket.swap": async | trappable,
        "modelhost:handler/kv.[method]bucket.delete": async | trappable,
        "modelhost:handler/kv.[method]bucket.keys": async | trappable,
        "modelhost:handler/kv": trappable,
        "modelhost:handler/jobs": async | trappable,
        "modelhost:handler/streaming.[method]output.write": async | trappable,
        "modelhost:handler/streaming.[static]output.finish": async | trappable,
        "modelhost:handler/streaming": trappable,
        "modelhost:handler/websockets.[method]socket.receive": async | trappable,
        "modelhost:handler/websockets.[method]socket.send": async | trappable,
        "modelhost:handler/websockets.[method]socket.close": async | trappable,
        "modelhost:handler/websockets": trappable,
    },
    with: {
        "modelhost:handler/types.context": super::context::Context,
        "modelhost:handler/models.resident": super::capabilities::models::Resident,
        "modelhost:handler/models.pending": super::capabilities::models::Pending,
        "modelhost:handler/kv.bucket": crate::kv::Bucket,
        "modelhost:handler/streaming.output": super::streaming_state::Output,
        "modelhost:handler/websockets.upgrade": super::websocket_state::Upgrade,
        "modelhost:handler/websockets.socket": super::websocket::OpenSocket,
        "wasi:io": wasmtime_wasi::p2::bindings::io,
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

/// Full name of the export by which an application says what it serves.
pub(super) const OPERATIONS: &str = "modelhost:handler/operations@0.1.0";

/// Full name of the import by which a handler calls models.
pub(super) const MODELS: &str = "modelhost:handler/models@0.1.0";
/// Full name of the export of an application that was built with an SDK.
pub(super) const RESPOND: &str = "modelhost:handler/respond@0.1.0";
/// Full name of the export of an application that serves requests together.
pub(super) const RESPOND_ALL: &str = "modelhost:handler/respond-all@0.1.0";
/// Full name of the export that any toolchain gives an application.
pub(super) const INCOMING_HANDLER: &str = "wasi:http/incoming-handler@0.2.12";

/// Full name of the export by which an application serves `wasi:http` 0.3.
pub(super) const HANDLER: &str = "wasi:http/handler@0.3.0";

/// Full name of the export that serves WebSockets.
pub(super) const WEBSOCKET: &str = "modelhost:handler/websocket@0.1.0";

/// Full name of the import by which a handler sends requests.
pub(super) const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// The same on `wasi:http` 0.3.
pub(super) const CLIENT: &str = "wasi:http/client@0.3.0";

/// Full name of the import that has the types of `wasi:http`, as the linker has it.
pub(super) const HTTP_TYPES: &str = "wasi:http/types@0.2.12";
/// The same on `wasi:http` 0.3.
pub(super) const CONCURRENT_HTTP_TYPES: &str = "wasi:http/types@0.3.0";

/// The contract's interfaces that a handler may export.
pub(super) const INTERFACES: [&str; 10] = [
    PRE_INFERENCE,
    POST_INFERENCE,
    PRE_INFERENCE_TENSORS,
    POST_INFERENCE_TENSORS,
    RESPOND,
    RESPOND_ALL,
    WEBSOCKET,
    OPERATIONS,
    INPUT_SCHEMA,
    INIT,
];
