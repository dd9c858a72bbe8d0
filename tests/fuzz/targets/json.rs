//! Bodies as tensors: `host::json::read` and `host::json::typed`, and what was read written again.
#![no_main]

use host::json::{read, typed, write};
use host::tensor::{Datatype, Extent, Signature, TensorSpec};
use libfuzzer_sys::fuzz_target;

const DATATYPES: [Datatype; 14] = [
    Datatype::Bool, Datatype::Uint8, Datatype::Uint16, Datatype::Uint32, Datatype::Uint64, Datatype::Int8,
    Datatype::Int16, Datatype::Int32, Datatype::Int64, Datatype::Fp16, Datatype::Bf16, Datatype::Fp32,
    Datatype::Fp64, Datatype::Bytes,
];

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let spec = |name: &str, datatype| TensorSpec { name: name.into(), datatype, shape: vec![Extent::Free(None)] };
    let datatype = DATATYPES[usize::from(*first) % DATATYPES.len()];
    let inputs = match first >> 4 & 1 {
        0 => vec![spec("a", datatype)],
        _ => vec![spec("a", datatype), spec("b", Datatype::Fp32)],
    };
    let signature = Signature { inputs, outputs: Vec::new() };
    if let Ok(tensors) = read::tensors(body, &signature) {
        assert!(is_json(&write::outputs(&tensors)));
        assert!(is_json(&write::object(&tensors)));
    }
    if let Ok(tensors) = typed::tensors(body) {
        assert!(is_json(&write::outputs(&tensors)));
    }
});

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}
