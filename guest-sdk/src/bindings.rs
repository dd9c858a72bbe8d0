//! Code generated from `wit/`: the only place that knows how values cross the sandbox boundary.
//!
//! One module a function, from the world that exports only it; a component that has several functions is the
//! union of their worlds. The other modules take their types from the first, and the crate re-exports them as
//! its own: a tensor that a handler holds is the one that crossed, and no field of it is ever copied or
//! converted.
//!
//! Natively everything here compiles, so that handlers can be unit-tested, and nothing of it can be called:
//! the imports exist only in a component.

/// `pre-inference`; owns the types.
pub mod pre {
    wit_bindgen::generate!({
        path: "../wit",
        world: "pre-handler",
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "__export_pre_handler",
    });
}

/// `post-inference`.
pub mod post {
    wit_bindgen::generate!({
        path: "../wit",
        world: "post-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        pub_export_macro: true,
        export_macro_name: "__export_post_handler",
    });
}

/// `pre-inference-tensors`.
pub mod pre_tensors {
    wit_bindgen::generate!({
        path: "../wit",
        world: "pre-tensor-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        pub_export_macro: true,
        export_macro_name: "__export_pre_tensor_handler",
    });
}

/// `post-inference-tensors`.
pub mod post_tensors {
    wit_bindgen::generate!({
        path: "../wit",
        world: "post-tensor-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        pub_export_macro: true,
        export_macro_name: "__export_post_tensor_handler",
    });
}

/// `input-schema`.
pub mod schema {
    wit_bindgen::generate!({
        path: "../wit",
        world: "schema-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "__export_schema_handler",
    });
}

/// `init`.
pub mod init {
    wit_bindgen::generate!({
        path: "../wit",
        world: "init-handler",
        pub_export_macro: true,
        export_macro_name: "__export_init_handler",
    });
}

/// `models`, which a handler imports.
pub mod models {
    wit_bindgen::generate!({
        path: "../wit",
        world: "model-imports",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        generate_all,
    });
}

/// `kv`, which a handler imports.
pub mod kv {
    wit_bindgen::generate!({
        path: "../wit",
        world: "kv-imports",
    });
}

/// `jobs`, which a handler imports.
pub mod jobs {
    wit_bindgen::generate!({
        path: "../wit",
        world: "job-imports",
    });
}

/// `metrics`, which a handler imports.
pub mod metrics {
    wit_bindgen::generate!({
        path: "../wit",
        world: "metric-imports",
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

/// `wasi:blobstore`, which a handler imports.
pub mod blobs {
    wit_bindgen::generate!({
        path: "../wit",
        world: "blob-imports",
        generate_all,
    });
}

/// The library `image`, which a handler imports.
pub mod image {
    wit_bindgen::generate!({
        path: "../wit/library/image.wit",
        world: "imports",
        additional_derives: [PartialEq],
    });
}

/// The library `tokenizer`, which a handler imports.
pub mod tokenizer {
    wit_bindgen::generate!({
        path: "../wit/library/tokenizer.wit",
        world: "imports",
        additional_derives: [PartialEq],
    });
}

/// `respond`, and `streaming`, which it is given.
pub mod respond {
    wit_bindgen::generate!({
        path: "../wit",
        world: "respond-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "__export_respond_handler",
    });
}

/// `respond-all`.
pub mod batch {
    wit_bindgen::generate!({
        path: "../wit",
        world: "batch-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        pub_export_macro: true,
        export_macro_name: "__export_batch_handler",
    });
}

/// `websocket`, and `websockets`, which it is given.
pub mod websocket {
    wit_bindgen::generate!({
        path: "../wit",
        world: "websocket-handler",
        with: { "modelhost:handler/types@0.1.0": crate::bindings::types },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "__export_websocket_handler",
    });
}

/// `operations`.
pub mod operations {
    wit_bindgen::generate!({
        path: "../wit",
        world: "operations-handler",
        additional_derives: [PartialEq],
        pub_export_macro: true,
        export_macro_name: "__export_operations_handler",
    });
}

/// `request`, which an application imports.
pub mod request {
    wit_bindgen::generate!({
        path: "../wit",
        world: "request-imports",
        generate_all,
    });
}

pub use operations::exports::modelhost::handler::operations::Operation;
pub use pre::modelhost::handler::types;
pub use schema::exports::modelhost::handler::input_schema::Input;
