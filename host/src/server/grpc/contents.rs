//! Messages as tensors, and tensors as messages.
//!
//! Place in the flow: `message → [input] → pipeline → [response] → message`.
//! In:   a `ModelInferRequest`, hostile. Out: tensors whose bytes are as many as their shapes say.
//! Invariants: raw contents are not copied in either direction; all tensors of a request, and the texts of
//! its parameters as JSON, together have at most `limits.body` bytes, which is known before any of them is
//! converted.

use std::collections::{BTreeMap, HashSet};
use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tonic::Status;
use tonic_prost::prost::Message as _;

use super::bounds::UNFOLDED;
use super::elements::{narrowed, plain, texts, too_large};
use super::failure;
use super::pb::infer_parameter::ParameterChoice;
use super::pb::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use super::pb::model_infer_response::InferOutputTensor;
use super::pb::{InferParameter, InferTensorContents, ModelInferRequest};
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::json::{content_type, typed};
use crate::request::{Input, Output, Response, TensorInput, is_json_type};
use crate::server::shared_memory::{Place, SharedMemory};
use crate::tensor::{
    Datatype, LARGEST_RANK, ShownShape, Tensor, TensorError, element_count, push_bytes_element,
};
use crate::text::shown;

type Parameters = BTreeMap<String, InferParameter>;

/// Of an input or an output: the region of shared memory that it is in.
const REGION: &str = "shared_memory_region";
/// Of an output: how many classes in place of the values.
const CLASSIFICATION: &str = "classification";
/// For this host, not for the handler: every answer in a stream is the last one of its request and says so.
const FINAL_RESPONSE: &str = "triton_enable_empty_final_response";
/// The name of an output that has none.
const ONLY: &str = "output";

/// The tensors of a request, and its parameters. `limit`: most bytes of all of them together.
///
/// # Errors
/// `invalid_input` that names the input, `body_too_large`.
pub(super) fn input(
    message: ModelInferRequest,
    memory: &SharedMemory,
    limit: usize,
) -> Result<Input, RequestError> {
    let invalid = |text: String| RequestError::invalid(Stage::Admit, text);
    let ModelInferRequest { parameters, inputs, raw_input_contents, .. } = message;
    let about = |name: &str, text: String| invalid(format!("input `{}`: {text}", shown(name)));
    let places: Vec<Option<Place>> = inputs
        .iter()
        .map(|input| place(&input.parameters, memory).map_err(|text| about(&input.name, text)))
        .collect::<Result<_, _>>()?;
    let raw = !raw_input_contents.is_empty();
    let expected = places.iter().filter(|place| place.is_none()).count();
    if raw && raw_input_contents.len() != expected {
        let got = raw_input_contents.len();
        return Err(invalid(format!(
            "expected {expected} `raw_input_contents`, one for each input, got {got}"
        )));
    }
    if raw && let Some(both) = inputs.iter().find(|input| input.contents.is_some()) {
        let text = format!("input `{}` has both `contents` and `raw_input_contents`", shown(&both.name));
        return Err(invalid(text));
    }
    let written = json_length(&parameters);
    let bytes = raw_input_contents
        .iter()
        .map(Bytes::len)
        .chain(inputs.iter().map(|input| typed_length(input).unwrap_or(usize::MAX)))
        .chain(places.iter().flatten().map(|place| usize::try_from(place.byte_size()).unwrap_or(usize::MAX)))
        .chain([written])
        .fold(0, usize::saturating_add);
    if bytes > limit {
        return Err(too_large(limit));
    }
    if let Some(name) = given_twice(&inputs) {
        return Err(about(name, "given twice".to_owned()));
    }
    let parameters = blocking::if_large(written, || json_object(parameters));
    let mut raw_contents = raw_input_contents.into_iter();
    let tensors = inputs.into_iter().zip(places).map(|(input, place)| {
        let name = input.name.clone();
        let raw = match place {
            Some(_) if input.contents.is_some() => Err("has both shared memory and `contents`".to_owned()),
            Some(place) => place.read(limit).map(Some),
            None => Ok(raw_contents.next()),
        };
        raw.and_then(|raw| tensor(input, raw)).map_err(|text| about(&name, text))
    });
    // Raw contents are taken as they are, but BYTES and BOOL are looked through.
    let tensors = blocking::if_large(bytes, || tensors.collect::<Result<_, _>>())?;
    Ok(Input::Tensors(TensorInput::new(tensors, parameters)))
}

/// Most bytes that [`input`] may take: raw contents are parts of the message, typed ones unfold. `limit`: as
/// there.
pub(super) fn most(message: &ModelInferRequest, limit: usize) -> usize {
    let raw = message.raw_input_contents.iter().map(Bytes::len);
    let typed = message.inputs.iter().filter_map(|input| Some(input.contents.as_ref()?.encoded_len()));
    let in_memory = message.inputs.iter().any(|input| input.parameters.contains_key(REGION));
    raw.chain(typed.map(|length| length.saturating_mul(UNFOLDED)))
        .chain(in_memory.then_some(limit))
        .fold(0, usize::saturating_add)
}

/// The first name that an input before it has.
fn given_twice(inputs: &[InferInputTensor]) -> Option<&str> {
    let mut names = HashSet::with_capacity(inputs.len());
    inputs.iter().map(|input| input.name.as_str()).find(|name| !names.insert(*name))
}

/// The place in shared memory that parameters name, of an input or an output; `None` if they name none.
///
/// # Errors
/// Text for the caller.
pub(super) fn place(parameters: &Parameters, memory: &SharedMemory) -> Result<Option<Place>, String> {
    let number = |name: &str| match parameters.get(name).and_then(|it| it.parameter_choice.as_ref()) {
        None => Ok(None),
        Some(ParameterChoice::Int64Param(number)) if *number >= 0 => Ok(Some(number.unsigned_abs())),
        Some(ParameterChoice::Uint64Param(number)) => Ok(Some(*number)),
        Some(_) => Err(format!("`{name}` is no number of bytes")),
    };
    match parameters.get(REGION).and_then(|it| it.parameter_choice.as_ref()) {
        None => Ok(None),
        Some(ParameterChoice::StringParam(region)) => {
            let offset = number("shared_memory_offset")?.unwrap_or_default();
            memory.place(region, offset, number("shared_memory_byte_size")?).map(Some)
        }
        Some(_) => Err(format!("`{REGION}` is no name")),
    }
}

/// The names of parameters, and those of their values that are texts.
fn names_and_texts(parameters: &Parameters) -> impl Iterator<Item = &str> {
    parameters.iter().flat_map(|(name, parameter)| {
        let text = match &parameter.parameter_choice {
            Some(ParameterChoice::StringParam(text)) => Some(text.as_str()),
            _ => None,
        };
        iter::once(name.as_str()).chain(text)
    })
}

/// Bytes that the names and texts of parameters take as JSON at most, escapes included.
fn json_length(parameters: &Parameters) -> usize {
    let escaped = |text: &str| -> usize {
        let length = |byte: u8| match byte {
            0..=0x1f => 6_usize,
            b'"' | b'\\' => 2,
            _ => 1,
        };
        text.bytes().map(length).sum()
    };
    let bytes: usize = names_and_texts(parameters).map(str::len).sum();
    blocking::if_large(bytes, || names_and_texts(parameters).map(escaped).sum())
}

/// Parameters as the text of a JSON object, `None` for none.
fn json_object(mut parameters: Parameters) -> Option<Box<str>> {
    parameters.remove(FINAL_RESPONSE);
    if parameters.is_empty() {
        return None;
    }
    let value = |parameter: InferParameter| match parameter.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => value.into(),
        Some(ParameterChoice::Int64Param(value)) => value.into(),
        Some(ParameterChoice::StringParam(value)) => value.into(),
        Some(ParameterChoice::DoubleParam(value)) => value.into(),
        Some(ParameterChoice::Uint64Param(value)) => value.into(),
        None => Value::Null,
    };
    let object: Map<String, Value> = parameters.into_iter().map(|(name, it)| (name, value(it))).collect();
    Some(Value::Object(object).to_string().into())
}

/// One input.
fn tensor(input: InferInputTensor, raw: Option<Bytes>) -> Result<Tensor, String> {
    let InferInputTensor { name, datatype, shape, contents, parameters } = input;
    let datatype =
        Datatype::named(&datatype).ok_or_else(|| format!("`{}` is no datatype", shown(&datatype)))?;
    if shape.len() > LARGEST_RANK {
        return Err(TensorError::Rank(shape.len()).to_string());
    }
    let shape: Vec<u64> = shape
        .into_iter()
        .map(|extent| u64::try_from(extent).map_err(|_| format!("an extent of a shape cannot be {extent}")))
        .collect::<Result<_, _>>()?;
    let data = match raw {
        Some(raw) => raw,
        None => typed_data(datatype, &shape, &contents.unwrap_or_default())?.into(),
    };
    let tensor = Tensor::new(name.into(), datatype, shape, data).map_err(|error| error.to_string())?;
    let content_type = match parameters.get("content_type").and_then(|it| it.parameter_choice.as_ref()) {
        Some(ParameterChoice::StringParam(content_type)) => Some(content_type.as_str()),
        _ => None,
    };
    content_type::decoded(tensor, content_type)
}

/// The fields of typed contents, and how many elements each has.
fn fields(contents: &InferTensorContents) -> [(&'static str, usize); 8] {
    [
        ("bool_contents", contents.bool_contents.len()),
        ("int_contents", contents.int_contents.len()),
        ("int64_contents", contents.int64_contents.len()),
        ("uint_contents", contents.uint_contents.len()),
        ("uint64_contents", contents.uint64_contents.len()),
        ("fp32_contents", contents.fp32_contents.len()),
        ("fp64_contents", contents.fp64_contents.len()),
        ("bytes_contents", contents.bytes_contents.len()),
    ]
}

/// The field that elements of a datatype come in.
fn field(datatype: Datatype) -> Option<&'static str> {
    Some(match datatype {
        Datatype::Bool => "bool_contents",
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => "int_contents",
        Datatype::Int64 => "int64_contents",
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => "uint_contents",
        Datatype::Uint64 => "uint64_contents",
        Datatype::Fp32 => "fp32_contents",
        Datatype::Fp64 => "fp64_contents",
        Datatype::Bytes => "bytes_contents",
        Datatype::Fp16 | Datatype::Bf16 => return None,
    })
}

/// Bytes that typed contents will take as a tensor; `None` if they are more than can be counted.
fn typed_length(input: &InferInputTensor) -> Option<usize> {
    let Some(contents) = &input.contents else { return Some(0) };
    let elements: usize = fields(contents).iter().map(|(_, elements)| elements).sum();
    let texts: usize = contents.bytes_contents.iter().map(Bytes::len).sum();
    // A datatype that is none is refused later, by name.
    let size = Datatype::named(&input.datatype).and_then(Datatype::size).unwrap_or(4);
    elements.checked_mul(size)?.checked_add(texts)
}

/// Little-endian elements of typed contents.
fn typed_data(datatype: Datatype, shape: &[u64], contents: &InferTensorContents) -> Result<Vec<u8>, String> {
    let Some(wanted) = field(datatype) else {
        return Err(format!("{datatype} comes in `raw_input_contents` only"));
    };
    let fields = fields(contents);
    if let Some((got, _)) = fields.iter().find(|(name, elements)| *elements > 0 && *name != wanted) {
        return Err(format!("{datatype} comes in `{wanted}`, got `{got}`"));
    }
    let got: usize = fields.iter().map(|(_, elements)| elements).sum();
    if let Some(expected) = element_count(shape).filter(|expected| *expected != got) {
        let shape = ShownShape(shape);
        return Err(format!("{datatype} of shape {shape} takes {expected} elements, got {got}"));
    }
    Ok(match datatype {
        Datatype::Bool => contents.bool_contents.iter().map(|value| u8::from(*value)).collect(),
        Datatype::Int8 => narrowed::<_, i8>(&contents.int_contents, datatype)?,
        Datatype::Int16 => narrowed::<_, i16>(&contents.int_contents, datatype)?,
        Datatype::Int32 => plain(&contents.int_contents),
        Datatype::Int64 => plain(&contents.int64_contents),
        Datatype::Uint8 => narrowed::<_, u8>(&contents.uint_contents, datatype)?,
        Datatype::Uint16 => narrowed::<_, u16>(&contents.uint_contents, datatype)?,
        Datatype::Uint32 => plain(&contents.uint_contents),
        Datatype::Uint64 => plain(&contents.uint64_contents),
        Datatype::Fp32 => plain(&contents.fp32_contents),
        Datatype::Fp64 => plain(&contents.fp64_contents),
        Datatype::Bytes | Datatype::Fp16 | Datatype::Bf16 => texts(&contents.bytes_contents)?,
    })
}

/// How many classes of an output are wanted in place of its values; 0 for the values.
///
/// # Errors
/// `invalid_input`: the parameter is no number of classes.
pub(super) fn classes(wanted: &InferRequestedOutputTensor) -> Result<usize, RequestError> {
    let number = match wanted.parameters.get(CLASSIFICATION).map(|it| &it.parameter_choice) {
        None | Some(None) => Some(0),
        Some(Some(ParameterChoice::Int64Param(number))) => usize::try_from(*number).ok(),
        Some(Some(ParameterChoice::Uint64Param(number))) => usize::try_from(*number).ok(),
        Some(Some(_)) => None,
    };
    number.ok_or_else(|| {
        let text = format!("output `{}`: `{CLASSIFICATION}` is no number of classes", shown(&wanted.name));
        RequestError::invalid(Stage::Admit, text)
    })
}

/// The tensors of an output, or the status that a handler answered by itself, if that is no success.
///
/// # Errors
/// As [`of_response`].
pub(super) fn of_output(output: Output) -> Result<Result<Vec<Tensor>, Status>, RequestError> {
    match output {
        Output::Tensors(tensors) => Ok(Ok(tensors)),
        Output::Response(response) if !(200..300).contains(&response.status) => {
            Ok(Err(failure::answered(&response)))
        }
        Output::Response(response) => of_response(response).map(Ok),
        Output::Streamed { status } => of_response(Response::bare(status)).map(Ok),
    }
}

/// A handler's own answer, which says that it is a success, as tensors: those of its JSON, or else the one
/// output of text.
///
/// # Errors
/// `plugin_bad_output`: no tensors can be made of the JSON.
fn of_response(response: Response) -> Result<Vec<Tensor>, RequestError> {
    let Response { content_type, body, .. } = response;
    let bad = |problem: String| {
        let message = format!("no tensors can be made of the handler's response: {problem}");
        RequestError::new(Code::PluginBadOutput, Stage::PostInference, message)
    };
    if body.is_empty() {
        return Ok(Vec::new());
    }
    blocking::if_large(body.len(), || {
        if is_json_type(&content_type) {
            return typed::tensors(&body).map_err(bad);
        }
        let mut data = Vec::with_capacity(body.len() + 4);
        if !push_bytes_element(&mut data, &body) {
            return Err(bad("4 GiB or more".to_owned()));
        }
        let tensor = Tensor::new(Arc::from(ONLY), Datatype::Bytes, vec![1], data.into());
        tensor.map(|tensor| vec![tensor]).map_err(|error| bad(error.to_string()))
    })
}

/// The parameters of an output that was written there.
pub(super) fn written(place: &Place, bytes: usize) -> Parameters {
    let (region, offset) = place.named();
    let number = |number| ParameterChoice::Int64Param(i64::try_from(number).unwrap_or(i64::MAX));
    let parameters = [
        (REGION, ParameterChoice::StringParam(region.to_owned())),
        ("shared_memory_offset", number(offset)),
        ("shared_memory_byte_size", number(bytes as u64)),
    ];
    let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
    parameters.map(|(name, choice)| (name.to_owned(), parameter(choice))).into()
}

/// Outputs as the message has them: what they are, and their bytes.
pub(super) fn outputs(tensors: Vec<Tensor>) -> (Vec<InferOutputTensor>, Vec<Bytes>) {
    let output = |tensor: Tensor| {
        let output = InferOutputTensor {
            name: tensor.name.to_string(),
            datatype: tensor.datatype.name().to_owned(),
            shape: tensor.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect(),
            parameters: BTreeMap::new(),
        };
        (output, tensor.data)
    };
    tensors.into_iter().map(output).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of a request of these inputs, one byte each, whose parameter `p` is this text.
    fn read(names: &[&str], text: &str, limit: usize) -> Result<String, String> {
        let named = |name: &&str| InferInputTensor {
            name: (*name).to_owned(),
            datatype: "UINT8".to_owned(),
            shape: vec![1],
            ..InferInputTensor::default()
        };
        let text = InferParameter { parameter_choice: Some(ParameterChoice::StringParam(text.to_owned())) };
        let message = ModelInferRequest {
            parameters: BTreeMap::from([("p".to_owned(), text)]),
            inputs: names.iter().map(named).collect(),
            raw_input_contents: names.iter().map(|_| Bytes::from_static(b"x")).collect(),
            ..ModelInferRequest::default()
        };
        match input(message, &SharedMemory::default(), limit) {
            Ok(Input::Tensors(input)) => Ok(input.parameters.map(String::from).unwrap_or_default()),
            Ok(_) => panic!("no tensors"),
            Err(error) => Err(error.message.clone()),
        }
    }

    #[test]
    fn parameters_count_and_no_input_is_given_twice() {
        for (names, text, limit, expected) in [
            (&["a", "b"][..], "xy", 5, Ok(r#"{"p":"xy"}"#)),
            (&["a", "b"], "xy", 4, Err("the inputs are longer than 4 bytes")),
            (&["a"], "\u{1}\"", 10, Ok(r#"{"p":"\u0001\""}"#)),
            (&["a"], "\u{1}\"", 9, Err("the inputs are longer than 9 bytes")),
            (&["a", "b", "a"], "", 100, Err("input `a`: given twice")),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(read(names, text, limit), expected, "{names:?} {text:?}");
        }
    }
}
