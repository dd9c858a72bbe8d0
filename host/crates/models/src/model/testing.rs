//! Parts of the tests: tensors, and settings.

use std::time::Duration;

use bytes::Bytes;

use super::schedule::{Batching, Wait};
use crate::tensor::{Tensor, push_bytes_element};

/// The settings of an endpoint that does not batch.
pub const UNBATCHED: Batching =
    Batching { max_batch: 1, max_delay: Duration::from_millis(2), wait: Wait::Busy, trust_rows: false };

/// The elements of an FP32 tensor, wherever its data lies.
pub fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.data.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
}

/// Data of a BYTES tensor.
pub fn encoded<T: AsRef<[u8]>>(elements: &[T]) -> Vec<u8> {
    let mut data = Vec::new();
    for element in elements {
        assert!(push_bytes_element(&mut data, element.as_ref()));
    }
    data
}

/// Bytes at an address that no type larger than a byte is aligned for.
pub fn misaligned(data: &[u8]) -> Bytes {
    let mut padded = vec![0];
    padded.extend_from_slice(data);
    Bytes::from(padded).slice(1..)
}
