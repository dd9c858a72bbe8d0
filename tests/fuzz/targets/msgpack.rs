//! MessagePack as JSON and back: what is written is JSON, within its limit, and survives the way there and back; TensorFlow
//! Serving's keys are found in it without harm.
#![no_main]

use bytes::Bytes;
use host::json::msgpack;
use host::json::serving::Serving;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let _ = Serving::scan(&Bytes::copy_from_slice(data));
    let Ok(json) = msgpack::to_json(data, LIMIT) else { return };
    assert!(json.len() <= LIMIT);
    serde_json::from_slice::<serde::de::IgnoredAny>(&json).expect("JSON");
    let packed = msgpack::from_json(&json).expect("what was written can be packed");
    msgpack::to_json(&packed, usize::MAX).expect("what was packed can be read");
});
