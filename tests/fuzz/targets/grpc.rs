//! Inference requests over gRPC: what is read is as long as its shape says, and no longer than it may be.
#![no_main]

use host::request::Input;
use host::server::grpc;
use host::tensor::Tensor;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some(Input::Tensors(input)) = grpc::fuzz(data, LIMIT) else { return };
    let mut bytes = 0;
    for tensor in &input.tensors {
        let Tensor { name, datatype, shape, data } = tensor.clone();
        bytes += data.len();
        Tensor::new(name, datatype, shape, data).expect("as long as its shape says");
    }
    assert!(bytes <= LIMIT, "{bytes}");
    if let Some(parameters) = &input.parameters {
        serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(parameters).expect("an object");
    }
});
