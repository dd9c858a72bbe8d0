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

/// softmax(x · W + b) in double precision, from the weights that `tests/models/make.py` writes.
pub fn iris(x: [f64; 4]) -> [f64; 3] {
    const W: [[f64; 3]; 4] = [
        [-0.4232165813446045, 0.5343352556228638, -0.11111865192651749],
        [0.9669225215911865, -0.32159021496772766, -0.6453322768211365],
        [-2.5167324542999268, -0.20662058889865875, 2.723353147506714],
        [-1.0807734727859497, -0.9436482787132263, 2.0244216918945312],
    ];
    let mut e = [9.849278450012207, 2.2380523681640625, -12.08733081817627];
    for (x, row) in x.iter().zip(W) {
        for (e, w) in e.iter_mut().zip(row) {
            *e += x * w;
        }
    }
    let e = e.map(f64::exp);
    e.map(|value| value / e.iter().sum::<f64>())
}
