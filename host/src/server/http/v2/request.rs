//! An inference request: JSON, and behind it the tensors that it does not hold itself.
//!
//! ```text
//! {"inputs": [{"name", "shape", "datatype", "data" | "parameters": {"binary_data_size"}}, …], …}
//! └──────────────────────── Inference-Header-Content-Length ─────────────────────────────────┘
//! binary data, in the order of the inputs
//! ```
//! In:   the body, whole. Out: tensors as long as their shapes say, the parameters, and what the caller wants
//! back.
//! Invariants: binary data is never copied, JSON becomes elements without a tree in between; every byte
//! of the binary data belongs to exactly one input. Errors are for the caller and name the input.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::blocking;
use crate::error::{RequestError, Stage};
use crate::json::object::{Object, problem};
use crate::json::{content_type, read, special};
use crate::memory::Exhausted;
use crate::request::TensorInput;
use crate::server::serve::Room;
use crate::server::shared_memory::{Place, SharedMemory};
use crate::tensor::{
    Datatype, Extent, LARGEST_RANK, ShownShape, Signature, Tensor, element_count, push_bytes_element,
};
use crate::text::shown;

/// How long the JSON is, where there is binary data behind it.
pub(super) const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// The outputs that the caller wants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedOutputs {
    /// Comes back as it is.
    pub id: Option<String>,
    /// In this order; empty for all, in the model's.
    pub outputs: Vec<RequestedOutput>,
    /// Whether outputs are binary that nothing else is said of.
    pub binary: bool,
}

/// One output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestedOutput {
    pub name: String,
    pub binary: bool,
    /// How many classes in place of the values; 0 for the values.
    pub classes: usize,
    /// Where it is written to, if it does not go into the answer.
    pub place: Option<Place>,
}

#[derive(Deserialize)]
struct Request<'a> {
    id: Option<String>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    inputs: Vec<Object<Input<'a>>>,
    #[serde(borrow)]
    outputs: Option<Vec<Object<Output<'a>>>>,
}

/// Those that mean something here; the handler sees all of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    binary_data_output: bool,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    shape: Vec<u64>,
    #[serde(borrow)]
    datatype: Cow<'a, str>,
    #[serde(default)]
    parameters: Object<InputParameters>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputParameters {
    binary_data_size: Option<u64>,
    /// Of MLServer's clients.
    content_type: Option<String>,
    shared_memory_region: Option<String>,
    shared_memory_byte_size: Option<u64>,
    shared_memory_offset: u64,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    parameters: Object<OutputParameters>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputParameters {
    binary_data: Option<bool>,
    classification: Option<u64>,
    shared_memory_region: Option<String>,
    shared_memory_byte_size: Option<u64>,
    shared_memory_offset: u64,
}

/// Reads a request. `signature` is asked only where the request names no input, see [`raw`]; `room`: for
/// the body and what it names in `memory` together.
///
/// # Errors
/// `invalid_input` for everything.
pub(super) fn read(
    headers: &HeaderMap,
    body: &Bytes,
    room: Room,
    memory: &SharedMemory,
    signature: impl FnOnce() -> Arc<Signature>,
) -> Result<(TensorInput, RequestedOutputs), RequestError> {
    let invalid = |message| RequestError::invalid(Stage::Admit, message);
    let (json, binary) = match header_length(headers, body).map_err(invalid)? {
        Some(0) => {
            // Texts are copied behind their length.
            let charge = room.memory.take(body.len()).map_err(|full| full.at(Stage::Admit))?;
            let tensor = blocking::if_much_copied(body.len(), || raw(&signature(), body)).map_err(invalid)?;
            let mut tensors = vec![tensor];
            charge.own_tensors(&mut tensors, body).map_err(|full| full.at(Stage::Admit))?;
            let wanted = RequestedOutputs { binary: true, ..RequestedOutputs::default() };
            return Ok((TensorInput::new(tensors, None), wanted));
        }
        Some(length) => (body.slice(..length), body.slice(length..)),
        None => (body.clone(), Bytes::new()),
    };
    let mut data = Data { binary, memory, left: room.longest.saturating_sub(body.len()) };
    let full = |full: Exhausted| full.at(Stage::Admit);
    blocking::if_large(json.len(), || {
        let in_memory = if names_a_region(&json) { data.left } else { 0 };
        let charge = room.memory.take(read::most(&json).saturating_add(in_memory)).map_err(full)?;
        let (mut input, wanted) = parse(&json, &mut data).map_err(invalid)?;
        charge.own_tensors(&mut input.tensors, body).map_err(full)?;
        Ok((input, wanted))
    })
}

/// Whether tensors of a request are in shared memory. It may say so where it means none.
fn names_a_region(json: &[u8]) -> bool {
    memchr::memmem::find(json, b"shared_memory_region").is_some()
}

/// The length in the header, which is no more than there is.
fn header_length(headers: &HeaderMap, body: &Bytes) -> Result<Option<usize>, String> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    // `parse` would take a sign.
    let length = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match length {
        Some(length) if length <= body.len() => Ok(Some(length)),
        Some(length) => Err(format!("`{HEADER_LENGTH}` is {length}, and the body has {} bytes", body.len())),
        None => Err(format!("`{HEADER_LENGTH}` is no number of bytes")),
    }
}

/// Where the tensors of a request lie that are not in its JSON.
struct Data<'a> {
    /// Behind the JSON, the first one's first.
    binary: Bytes,
    memory: &'a SharedMemory,
    /// Bytes that may yet be read of `memory`.
    left: usize,
}

fn parse(json: &[u8], data: &mut Data<'_>) -> Result<(TensorInput, RequestedOutputs), String> {
    let text = special::text(json).map_err(|error| format!("malformed json: {error}"))?;
    let mut copy = None;
    let found = special::read(text, &mut copy, serde_json::from_str::<Object<Request<'_>>>);
    let (Object(request), document) = found.map_err(|error| problem("no inference request", &error))?;
    let inputs = request.inputs.iter();
    let parts = inputs.filter_map(|Object(input)| Some(document.written(input.data?.get())));
    document.check(parts).map_err(|error| format!("malformed json: {error}"))?;
    let parameters = match request.parameters.map(RawValue::get) {
        None => Parameters::default(),
        Some(text) if text.starts_with('{') => {
            serde_json::from_str(text).map_err(|error| format!("`parameters`: {error}"))?
        }
        Some(_) => return Err("`parameters`: expected an object".to_owned()),
    };

    let mut names = HashSet::with_capacity(request.inputs.len());
    let mut tensors = Vec::with_capacity(request.inputs.len());
    for Object(input) in &request.inputs {
        let name = &*input.name;
        if !names.insert(name) {
            return Err(format!("input `{}`: given twice", shown(name)));
        }
        let json = input.data.map(|data| document.written(data.get()));
        let tensor = tensor(input, json, data);
        tensors.push(tensor.map_err(|problem| format!("input `{}`: {problem}", shown(name)))?);
    }
    if !data.binary.is_empty() {
        return Err(format!("{} bytes of binary data belong to no input", data.binary.len()));
    }

    let outputs = request.outputs.unwrap_or_default().into_iter();
    let outputs = outputs.map(|Object(output)| wanted(output, parameters.binary_data_output, data.memory));
    let wanted = RequestedOutputs {
        id: request.id,
        outputs: outputs.collect::<Result<_, _>>()?,
        binary: parameters.binary_data_output,
    };
    let parameters = request.parameters.map(|parameters| parameters.get().into());
    Ok((TensorInput::new(tensors, parameters), wanted))
}

/// One input, whose data may be `json`; its binary data is taken off the front of what there is.
fn tensor(input: &Input<'_>, json: Option<&str>, data: &mut Data<'_>) -> Result<Tensor, String> {
    let binary = &mut data.binary;
    let Some(datatype) = Datatype::named(&input.datatype) else {
        let names = Datatype::ALL.map(Datatype::name).join(", ");
        return Err(format!("there is no datatype `{}`; there are {names}", shown(&input.datatype)));
    };
    let name: Arc<str> = (&*input.name).into();
    let parameters = &input.parameters.0;
    if let Some(region) = &parameters.shared_memory_region {
        if json.is_some() || parameters.binary_data_size.is_some() {
            return Err("has both `shared_memory_region` and data".to_owned());
        }
        let (offset, size) = (parameters.shared_memory_offset, parameters.shared_memory_byte_size);
        let bytes = data.memory.place(region, offset, size)?.read(data.left)?;
        data.left -= bytes.len();
        return made(name, datatype, &input.shape, bytes);
    }
    let tensor = match (json, parameters.binary_data_size) {
        (Some(json), None) => from_json(json, &name, datatype, &input.shape),
        (None, Some(size)) => {
            let left = binary.len();
            let size = usize::try_from(size).ok().filter(|size| *size <= left);
            let size = size.ok_or_else(|| {
                format!("`binary_data_size` is more than the {left} bytes left behind `{HEADER_LENGTH}`")
            })?;
            made(name, datatype, &input.shape, binary.split_to(size))
        }
        (Some(_), Some(_)) => Err("has both `data` and `binary_data_size`".to_owned()),
        (None, None) => Err("has neither `data` nor `binary_data_size`".to_owned()),
    };
    content_type::decoded(tensor?, parameters.content_type.as_deref())
}

fn made(name: Arc<str>, datatype: Datatype, shape: &[u64], data: Bytes) -> Result<Tensor, String> {
    // Of these each byte is looked at.
    let looked_at = if matches!(datatype, Datatype::Bytes | Datatype::Bool) { data.len() } else { 0 };
    let new = || Tensor::new(name, datatype, shape.to_vec(), data);
    blocking::if_large(looked_at, new).map_err(|error| error.to_string())
}

/// Flat or nested as it may be: the shape that counts is the one beside it.
fn from_json(text: &str, name: &Arc<str>, datatype: Datatype, shape: &[u64]) -> Result<Tensor, String> {
    if shape.len() > LARGEST_RANK {
        return Err(format!("the shape has {} extents, more than {LARGEST_RANK}", shape.len()));
    }
    let tensor = read::tensor(text, name, datatype)?;
    if element_count(shape) != Some(tensor.elements()) {
        let shape = ShownShape(shape);
        return Err(format!("shape {shape} does not have the {} elements of `data`", tensor.elements()));
    }
    Ok(Tensor { shape: shape.to_vec(), ..tensor })
}

fn wanted(output: Output<'_>, binary: bool, memory: &SharedMemory) -> Result<RequestedOutput, String> {
    let OutputParameters { binary_data, classification, .. } = output.parameters.0;
    let parameters = &output.parameters.0;
    let place = |region: &String| {
        let (offset, size) = (parameters.shared_memory_offset, parameters.shared_memory_byte_size);
        let place = memory.place(region, offset, size);
        place.map_err(|problem| format!("output `{}`: {problem}", shown(&output.name)))
    };
    Ok(RequestedOutput {
        place: parameters.shared_memory_region.as_ref().map(place).transpose()?,
        name: output.name.into_owned(),
        binary: binary_data.unwrap_or(binary),
        classes: usize::try_from(classification.unwrap_or_default()).unwrap_or(usize::MAX),
    })
}

/// A body without JSON: all of it is the data of the model's only input, BYTES as one element without its
/// length.
fn raw(signature: &Signature, body: &Bytes) -> Result<Tensor, String> {
    let [spec] = signature.required() else {
        let inputs = signature.required().len();
        return Err(format!("a body without JSON is for models of one input, and this one has {inputs}"));
    };
    let about = |problem: String| format!("input `{}`: {problem}", spec.name);
    let (shape, data) = match spec.datatype.size() {
        None => {
            let mut data = Vec::with_capacity(4 + body.len());
            if !push_bytes_element(&mut data, body) {
                return Err(about("4 GiB and more are too much for one element".to_owned()));
            }
            (spec.smallest_shape(), data.into())
        }
        Some(size) => {
            // The one extent that is free is as large as the data makes it.
            let free = spec.shape.iter().filter(|extent| matches!(extent, Extent::Free(_))).count();
            let one = element_count(&spec.smallest_shape()).and_then(|count| count.checked_mul(size));
            let shape = match (free, one) {
                (0, _) => spec.smallest_shape(),
                (1, Some(one)) if one > 0 && body.len().is_multiple_of(one) => {
                    let extent = |extent: &Extent| match extent {
                        Extent::Fixed(fixed) => *fixed,
                        Extent::Free(_) => (body.len() / one) as u64,
                    };
                    spec.shape.iter().map(extent).collect()
                }
                _ => {
                    return Err(about(format!(
                        "{} bytes do not say which shape of {spec} it is",
                        body.len()
                    )));
                }
            };
            (shape, body.clone())
        }
    };
    Tensor::new(Arc::clone(&spec.name), spec.datatype, shape, data).map_err(|error| about(error.to_string()))
}

#[cfg(test)]
mod tests;
