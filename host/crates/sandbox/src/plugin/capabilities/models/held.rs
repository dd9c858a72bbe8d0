//! Bytes that the host holds for a guest's tensors.
//!
//! Place in the flow: [`run`](super::run) and [`nn`](super::nn) ask here before they keep a tensor, its
//! shape, its name, or what they have found out about it. In: a number of bytes. Out: [`Held`], for as long
//! as they are kept. Invariant: the bytes of one instance are together at most `limits.tensor_memory`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::Result;

use crate::plugin::bindings::modelhost::handler::models::Error;
use crate::tensor::Tensor;

/// Bytes that are held for a request, until the last handle and the last run that uses them are gone.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Held {
    /// Holds so many bytes more, if they are at most `most` with all others of the request. The one place
    /// where `limits.tensor_memory` is charged.
    pub(super) fn new(bytes: usize, all: &Arc<AtomicUsize>, most: usize) -> Result<Arc<Held>, Error> {
        let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= most);
        match all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Arc::new(Held { bytes, all: all.clone() })),
            Err(_) => Err(Error::Limit(format!("tensors of more than {most} bytes, `limits.tensor_memory`"))),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of a tensor: its data, its shape and its name.
pub(super) fn bytes_of(tensor: &Tensor) -> usize {
    tensor.data.len().saturating_add(size_of_val(tensor.shape.as_slice())).saturating_add(tensor.name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_given_back_and_never_more_than_the_most() {
        let all = Arc::default();
        let first = Held::new(60, &all, 100).unwrap();
        for too_many in [41, usize::MAX] {
            assert!(matches!(Held::new(too_many, &all, 100), Err(Error::Limit(_))));
        }
        let second = Held::new(40, &all, 100).unwrap();
        let shared = first.clone();
        drop((first, second));
        assert_eq!(all.load(Ordering::Relaxed), 60);
        drop(shared);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
