//! The tokenizer library: texts to the numbers that a model takes, as a component that is composed into a
//! handler.
//!
//! Place in the flow: a handler calls `modelhost:tokenizer/tokenizers` (`wit/library/tokenizer.wit`);
//! `model.rs` makes tokens, `lengths.rs` says how many of them stay, `rows.rs` writes tensors.
//! In:  a `tokenizer.json`, texts. Out: the bytes of tensors.
//! Invariants: memory for what a call makes is asked for before it is made; no call changes what the next one
//! gives.

// The SDK's, included as a file: the SDK as a dependency would import what this exports.
#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "an allocator is")]
#[path = "../../../src/allocator.rs"]
mod allocator;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "natively only tests call it"))]
mod lengths;
#[cfg(target_family = "wasm")]
mod model;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "natively only tests call it"))]
mod rows;

#[allow(missing_docs, unsafe_code, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/library/tokenizer.wit",
        world: "library",
        additional_derives: [PartialEq],
        pub_export_macro: true,
    });
}

use self::bindings::exports::modelhost::tokenizer::tokenizers::{Encoding, Error, Padding};

/// A token is several small blocks, and the C library's allocator took a fourth of the time.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: allocator::Recycler = allocator::Recycler::new();

/// Whether there is memory for this many bytes, in one piece.
#[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "natively only tests call it"))]
fn has_memory(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "generated")]
mod component {
    use super::bindings;
    use super::bindings::exports::modelhost::tokenizer::tokenizers::Guest;
    use super::model::Tokenizer;

    /// The component.
    #[derive(Debug)]
    struct Library;

    impl Guest for Library {
        type Tokenizer = Tokenizer;
    }

    bindings::export!(Library with_types_in bindings);
}
