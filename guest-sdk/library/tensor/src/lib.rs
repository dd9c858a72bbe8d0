//! The tensor library: what is done with tensors around a model, as a component that is composed into a
//! handler.
//!
//! Place in the flow: a handler calls `modelhost:tensor/arithmetic` (`wit/library/tensor.wit`); `shape.rs`
//! checks tensors and finds their axes, `values.rs` reads elements, `along.rs` computes along an axis,
//! `moved.rs` moves elements, `boxes.rs` suppresses boxes.
//! In:  the bytes of tensors. Out: the bytes of tensors.
//! Invariants: a shape and its data are held against each other before either is used; the memory of a result
//! is asked for before it is made.

mod along;
mod boxes;
mod moved;
mod shape;
mod values;

#[allow(missing_docs, unsafe_code, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/library/tensor.wit",
        world: "library",
        additional_derives: [PartialEq],
        pub_export_macro: true,
    });
}

pub use self::bindings::exports::modelhost::tensor::arithmetic::{Datatype, Guest, Tensor};

/// The component.
#[derive(Debug)]
pub struct Library;

impl Guest for Library {
    fn argmax(tensor: Tensor, axis: i32) -> Result<Tensor, String> {
        along::argmax(&tensor, axis)
    }

    fn top_k(tensor: Tensor, count: u32, axis: i32) -> Result<(Tensor, Tensor), String> {
        along::top_k(&tensor, count as usize, axis)
    }

    fn softmax(tensor: Tensor, axis: i32) -> Result<Tensor, String> {
        along::softmax(&tensor, axis)
    }

    fn normalise(tensor: Tensor, axis: i32) -> Result<Tensor, String> {
        along::normalise(&tensor, axis)
    }

    fn mean_pool(tensor: Tensor, mask: Tensor) -> Result<Tensor, String> {
        along::mean_pool(&tensor, &mask)
    }

    fn concat(tensors: Vec<Tensor>, axis: i32) -> Result<Tensor, String> {
        moved::concat(&tensors, axis)
    }

    fn gather(tensor: Tensor, places: Tensor, axis: i32) -> Result<Tensor, String> {
        moved::gather(&tensor, &places, axis)
    }

    fn suppress(
        boxes: Tensor,
        scores: Tensor,
        classes: Option<Tensor>,
        most_overlap: f32,
        least_score: f32,
        most: u32,
    ) -> Result<Tensor, String> {
        let limits = boxes::Limits { most_overlap, least_score, most: most as usize };
        boxes::suppress(&boxes, &scores, classes.as_ref(), &limits)
    }
}

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "generated")]
mod component {
    use super::{Library, bindings};

    bindings::export!(Library with_types_in bindings);
}

#[cfg(test)]
mod tests;
