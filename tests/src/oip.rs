//! Requests of the Open Inference Protocol over HTTP, made and read by hand.
//!
//! In: JSON, and bytes that belong behind it. Out: requests as a client sends them, answers taken apart.

use serde_json::{Value, json};

use crate::{Host, Reply};

/// Says where the JSON ends.
const HEADER_LENGTH: &str = "inference-header-content-length";

/// An input with its data as JSON.
pub fn input(name: &str, datatype: &str, shape: &[i64], data: Value) -> Value {
    json!({ "name": name, "datatype": datatype, "shape": shape, "data": data })
}

/// An input whose data comes behind the JSON.
pub fn binary(name: &str, datatype: &str, shape: &[i64], size: usize) -> Value {
    json!({ "name": name, "datatype": datatype, "shape": shape, "parameters": { "binary_data_size": size } })
}

/// BYTES elements as they are sent.
pub fn elements(texts: &[&[u8]]) -> Vec<u8> {
    let element = |text: &&[u8]| [&u32::try_from(text.len()).unwrap().to_le_bytes(), *text].concat();
    texts.iter().flat_map(element).collect()
}

/// Where `model` is asked.
pub fn path(model: &str) -> String {
    format!("/v2/models/{model}/infer")
}

/// A request that is JSON alone.
pub fn infer(host: &Host, model: &str, request: &Value) -> Reply {
    host.post(&path(model), request.to_string())
}

/// A request with bytes behind its JSON.
pub fn infer_binary(host: &Host, model: &str, request: &Value, behind: &[u8]) -> Reply {
    let json = request.to_string();
    let length = json.len().to_string();
    let body = [json.as_bytes(), behind].concat();
    host.request("POST", &path(model), &[(HEADER_LENGTH, &length)], &body)
}

/// The JSON of an answer and the bytes behind it.
pub fn answer(reply: &Reply) -> (Value, Vec<u8>) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let length = reply.header(HEADER_LENGTH).map_or(reply.body.len(), |length| length.parse().unwrap());
    let (json, behind) = reply.body.split_at(length);
    (serde_json::from_slice(json).unwrap(), behind.to_vec())
}

/// The outputs of an answer, those that came behind the JSON with their bytes as `data`.
pub fn outputs(reply: &Reply) -> Value {
    let (mut json, behind) = answer(reply);
    let mut rest = behind.as_slice();
    for output in json["outputs"].as_array_mut().unwrap() {
        if let Some(size) = output["parameters"]["binary_data_size"].as_u64() {
            let (data, after) = rest.split_at(usize::try_from(size).unwrap());
            output["data"] = json!(data);
            output.as_object_mut().unwrap().remove("parameters");
            rest = after;
        }
    }
    assert!(rest.is_empty(), "{} bytes belong to no output", rest.len());
    json["outputs"].take()
}
