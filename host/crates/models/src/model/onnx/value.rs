//! Tensors as the engine's values, and back.
//!
//! Flow: `session → [value] → api → ONNX Runtime`.
//! In:   a verified tensor, or a value that the engine made. Out: the other of the two.
//!
//! Copies: none of numbers. The engine reads an input where it lies (it is copied once if it is not aligned
//! for its type, which a buffer of its own always is), and an output is the engine's own buffer, kept alive
//! by the [`Bytes`] that show it. Strings are copied, since the engine keeps them as C++ objects.

use std::sync::Arc;

use bytes::Bytes;
use ort::session::SharedSessionInner;
use ort::value::{TensorElementType, ValueType};

use super::api::{Output, Value};
use crate::model::error::ModelError;
use crate::tensor::{BytesElements, Datatype, Extent, Role, Tensor, TensorSpec, push_bytes_element};
use crate::text::without_sources;

// A tensor's bytes are little-endian and the engine's are the machine's.
#[cfg(target_endian = "big")]
compile_error!("tensors reach ONNX Runtime without conversion, which needs a little-endian machine");

/// The engine's description of one input or output that is a tensor. `kind` is for the message.
pub fn spec(kind: &str, name: &str, value: &ValueType) -> Result<TensorSpec, String> {
    let ValueType::Tensor { ty, shape, dimension_symbols } = value else {
        return Err(format!(
            "{kind} `{name}` is a `{value}`, expected a tensor; an output may also be a sequence of tensors, or \
             of maps from INT64 or strings to FP32"
        ));
    };
    let datatype = known(kind, name, *ty)?;
    let mut symbols = dimension_symbols.iter();
    let shape = shape
        .iter()
        .map(|extent| {
            let symbol = symbols.next().filter(|symbol| !symbol.is_empty());
            // The engine writes -1 for an extent that it does not know.
            u64::try_from(*extent)
                .map_or(Extent::Free(symbol.map(|symbol| symbol.as_str().into())), Extent::Fixed)
        })
        .collect();
    Ok(TensorSpec { name: name.into(), datatype, shape, role: Role::Plain })
}

/// The datatype of elements.
pub fn known(kind: &str, name: &str, element: TensorElementType) -> Result<Datatype, String> {
    datatype(element).ok_or_else(|| {
        format!("{kind} `{name}` has elements of type {element}, which no datatype stands for")
    })
}

fn datatype(element: TensorElementType) -> Option<Datatype> {
    Some(match element {
        TensorElementType::Bool => Datatype::Bool,
        TensorElementType::Uint8 => Datatype::Uint8,
        TensorElementType::Uint16 => Datatype::Uint16,
        TensorElementType::Uint32 => Datatype::Uint32,
        TensorElementType::Uint64 => Datatype::Uint64,
        TensorElementType::Int8 => Datatype::Int8,
        TensorElementType::Int16 => Datatype::Int16,
        TensorElementType::Int32 => Datatype::Int32,
        TensorElementType::Int64 => Datatype::Int64,
        TensorElementType::Float16 => Datatype::Fp16,
        TensorElementType::Bfloat16 => Datatype::Bf16,
        TensorElementType::Float32 => Datatype::Fp32,
        TensorElementType::Float64 => Datatype::Fp64,
        TensorElementType::String => Datatype::Bytes,
        _ => return None,
    })
}

/// The engine's name for a datatype.
pub fn element(datatype: Datatype) -> TensorElementType {
    match datatype {
        Datatype::Bool => TensorElementType::Bool,
        Datatype::Uint8 => TensorElementType::Uint8,
        Datatype::Uint16 => TensorElementType::Uint16,
        Datatype::Uint32 => TensorElementType::Uint32,
        Datatype::Uint64 => TensorElementType::Uint64,
        Datatype::Int8 => TensorElementType::Int8,
        Datatype::Int16 => TensorElementType::Int16,
        Datatype::Int32 => TensorElementType::Int32,
        Datatype::Int64 => TensorElementType::Int64,
        Datatype::Fp16 => TensorElementType::Float16,
        Datatype::Bf16 => TensorElementType::Bfloat16,
        Datatype::Fp32 => TensorElementType::Float32,
        Datatype::Fp64 => TensorElementType::Float64,
        Datatype::Bytes => TensorElementType::String,
    }
}

/// `tensor` as the engine's value.
pub fn input(tensor: &Tensor) -> Result<Value<'_>, ModelError> {
    let wrong = |why: String| ModelError::Input(format!("input `{}`: {why}", tensor.name));
    match tensor.datatype {
        Datatype::Bytes => {
            let elements = strings(tensor).map_err(wrong)?;
            Value::strings(&elements, &tensor.shape)
        }
        datatype => Value::numbers(&tensor.data, &tensor.shape, element(datatype)),
    }
    .map_err(|error| wrong(text(error)))
}

/// ONNX strings are text.
fn strings(tensor: &Tensor) -> Result<Vec<&[u8]>, String> {
    let mut elements = Vec::with_capacity(tensor.elements());
    for (index, element) in BytesElements::new(&tensor.data).enumerate() {
        let element = element.map_err(|error| format!("element {index} {error}"))?;
        if str::from_utf8(element).is_err() {
            return Err(format!("element {index} is not UTF-8, which the model's strings must be"));
        }
        elements.push(element);
    }
    Ok(elements)
}

/// An output of a run on the CPU as a tensor, where it lies: its bytes own the value, and the session, since
/// a constant of the model may be an output and lies in the session's memory. Strings are copied.
pub fn in_place(
    output: Value<'static>,
    spec: &TensorSpec,
    session: Arc<SharedSessionInner>,
) -> Result<Tensor, ModelError> {
    /// Shows the numbers of the value that it owns.
    struct Buffer {
        output: Output,
        _session: Arc<SharedSessionInner>,
    }

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            // `in_place` has seen this succeed; were it to fail now, the length check in `tensor` would tell.
            self.output.numbers().unwrap_or_default()
        }
    }

    let failed = |why: String| output_failed(spec, &why);
    let output = Output::new(output).map_err(|error| failed(text(error)))?;
    let (element, shape) = (output.element(), output.shape().to_vec());
    let bytes = match element {
        TensorElementType::String => text_elements(&output).map_err(failed)?,
        _ => {
            output.numbers().map_err(|error| failed(text(error)))?;
            Bytes::from_owner(Buffer { output, _session: session })
        }
    };
    tensor(spec, element, shape, bytes)
}

/// The strings of an output as the elements of a tensor.
pub fn text_elements(output: &Output) -> Result<Bytes, String> {
    let (text, starts) = output.strings().map_err(text)?;
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut data = Vec::with_capacity(text.len() + 4 * starts.len());
    for (start, end) in starts.iter().copied().zip(ends) {
        let element = text.get(start..end).ok_or("strings that lie outside of it")?;
        if !push_bytes_element(&mut data, element) {
            return Err("an element of 4 GiB or more".to_owned());
        }
    }
    Ok(data.into())
}

/// An output of the engine as a tensor.
pub fn tensor(
    spec: &TensorSpec,
    element: TensorElementType,
    shape: Vec<u64>,
    bytes: Bytes,
) -> Result<Tensor, ModelError> {
    let failed = |why: String| output_failed(spec, &why);
    let datatype = datatype(element).ok_or_else(|| failed(format!("elements of type {element}")))?;
    // Checks that the bytes are as many as the shape says, so that nothing later needs to.
    Tensor::new(Arc::clone(&spec.name), datatype, shape, bytes).map_err(|error| failed(error.to_string()))
}

/// The error for an output that cannot be taken, for the log.
pub fn output_failed(spec: &TensorSpec, why: &str) -> ModelError {
    ModelError::Run(format!("output `{}`: {why}", spec.name))
}

/// An error of a run, for the log.
pub fn run_failed(error: ort::Error) -> ModelError {
    ModelError::Run(text(error))
}

/// An error's words, without places in the engine's source.
pub fn text(error: ort::Error) -> String {
    without_sources(&error.to_string())
}
