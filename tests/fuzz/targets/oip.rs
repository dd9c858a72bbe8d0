//! Inference requests of the Open Inference Protocol, JSON and binary: what is read is as long as its shape says, and what is
//! no JSON to a strict reader is no request.
#![no_main]

use bytes::Bytes;
use host::server::http;
use host::tensor::Tensor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Two bytes say where the JSON ends, or that nothing says so.
    let Some((head, body)) = data.split_first_chunk::<2>() else { return };
    let length = match u16::from_le_bytes(*head) {
        u16::MAX => None,
        length => Some(usize::from(length)),
    };
    let body = Bytes::copy_from_slice(body);
    let Some(input) = http::fuzz(length, &body) else { return };
    for tensor in &input.tensors {
        let Tensor { name, datatype, shape, data } = tensor.clone();
        Tensor::new(name, datatype, shape, data).expect("as long as its shape says");
    }
    if let Some(parameters) = &input.parameters {
        serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(parameters).expect("an object");
    }
});
