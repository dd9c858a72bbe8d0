//! Tensors as the engine's values, and back.
//!
//! Flow: `session → [value] → ONNX Runtime`.
//! In:   a verified tensor, or a value that the engine made. Out: the other of the two.
//!
//! Copies: none of numbers. The engine reads an input where it lies (it is copied once if it is not aligned for
//! its type, which a buffer of its own always is), and an output is the engine's own buffer, kept alive by the
//! [`Bytes`] that show it. Strings are copied once each way, since the engine keeps them as C++ objects.

use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;
use half::{bf16, f16};
use ort::session::{SessionInputValue, SharedSessionInner};
use ort::value::{
    DynValue, Outlet, PrimitiveTensorElementType, Shape, Tensor as OrtTensor, TensorElementType, TensorRef,
    Utf8Data, ValueType,
};

use crate::model::ModelError;
use crate::tensor::{BytesElements, Datatype, Extent, Tensor, TensorSpec, push_bytes_element};

// A tensor's bytes are little-endian and the engine's are the machine's.
#[cfg(target_endian = "big")]
compile_error!("tensors reach ONNX Runtime without conversion, which needs a little-endian machine");

/// What the engine says about one input or output. `kind` is for the message.
pub fn spec(kind: &str, outlet: &Outlet) -> Result<TensorSpec, String> {
    let name = outlet.name();
    let ValueType::Tensor { ty, shape, dimension_symbols } = outlet.dtype() else {
        return Err(format!(
            "{kind} `{name}` is a {}, not a tensor; only tensors can be served (scikit-learn: convert with \
             `options={{'zipmap': False}}`)",
            outlet.dtype()
        ));
    };
    let Some(datatype) = datatype(*ty) else {
        return Err(format!("{kind} `{name}` has elements of type {ty}, which no datatype stands for"));
    };
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
    Ok(TensorSpec { name: name.into(), datatype, shape })
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

/// A view of `tensor` as the engine's value.
pub fn input(tensor: &Tensor) -> Result<SessionInputValue<'_>, ModelError> {
    match tensor.datatype {
        Datatype::Bool => booleans(tensor),
        Datatype::Uint8 => numbers::<u8>(tensor),
        Datatype::Uint16 => numbers::<u16>(tensor),
        Datatype::Uint32 => numbers::<u32>(tensor),
        Datatype::Uint64 => numbers::<u64>(tensor),
        Datatype::Int8 => numbers::<i8>(tensor),
        Datatype::Int16 => numbers::<i16>(tensor),
        Datatype::Int32 => numbers::<i32>(tensor),
        Datatype::Int64 => numbers::<i64>(tensor),
        Datatype::Fp16 => numbers::<f16>(tensor),
        Datatype::Bf16 => numbers::<bf16>(tensor),
        Datatype::Fp32 => numbers::<f32>(tensor),
        Datatype::Fp64 => numbers::<f64>(tensor),
        Datatype::Bytes => strings(tensor),
    }
}

fn numbers<T>(tensor: &Tensor) -> Result<SessionInputValue<'_>, ModelError>
where
    T: PrimitiveTensorElementType + AnyBitPattern + NoUninit + Debug + 'static,
{
    let shape = shape(tensor)?;
    match bytemuck::try_cast_slice::<u8, T>(&tensor.data) {
        Ok(elements) => TensorRef::from_array_view((shape, elements)).map(Into::into),
        // Not aligned for `T`: a part of a larger buffer.
        Err(_) => {
            let elements = tensor.data.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>);
            OrtTensor::from_array((shape, elements.collect::<Vec<T>>())).map(Into::into)
        }
    }
    .map_err(run_failed)
}

fn booleans(tensor: &Tensor) -> Result<SessionInputValue<'_>, ModelError> {
    let shape = shape(tensor)?;
    let elements = bytemuck::checked::try_cast_slice::<u8, bool>(&tensor.data)
        .map_err(|_| ModelError::Input(format!("input `{}`: a byte that is neither 0 nor 1", tensor.name)))?;
    TensorRef::from_array_view((shape, elements)).map(Into::into).map_err(run_failed)
}

/// ONNX strings are text. The engine takes them as C strings, so a NUL would cut one short unnoticed.
fn strings(tensor: &Tensor) -> Result<SessionInputValue<'_>, ModelError> {
    /// A part of the tensor's data, shared rather than borrowed because the engine wants elements without a
    /// lifetime.
    #[derive(Clone)]
    struct Text(Bytes);

    impl Utf8Data for Text {
        fn as_utf8_bytes(&self) -> &[u8] {
            &self.0
        }
    }

    let shape = shape(tensor)?;
    let mut elements = Vec::with_capacity(tensor.elements());
    for (index, element) in BytesElements::new(&tensor.data).enumerate() {
        let refused =
            |why: &str| ModelError::Input(format!("input `{}`: element {index} {why}", tensor.name));
        let element = element.map_err(|error| refused(&error.to_string()))?;
        if str::from_utf8(element).is_err() {
            return Err(refused("is not UTF-8, which the model's strings must be"));
        }
        if element.contains(&0) {
            return Err(refused("holds a NUL, which the model's strings cannot"));
        }
        elements.push(Text(tensor.data.slice_ref(element)));
    }
    OrtTensor::from_string_array((shape, elements.as_slice())).map(Into::into).map_err(run_failed)
}

/// The engine multiplies extents without looking; a product that overflows, even before it meets a zero, must
/// not reach it.
pub fn shape(tensor: &Tensor) -> Result<Shape, ModelError> {
    let product = tensor
        .shape
        .iter()
        .try_fold(1i64, |product, extent| product.checked_mul(i64::try_from((*extent).max(1)).ok()?));
    if product.is_none() {
        return Err(ModelError::Input(format!(
            "input `{}`: shape {:?} is too large",
            tensor.name, tensor.shape
        )));
    }
    Ok(tensor.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect())
}

/// The engine's value as a tensor. `bytes` gives what the value holds: [`in_place`], unless its memory is special.
pub fn output(
    value: DynValue,
    spec: &TensorSpec,
    bytes: impl FnOnce(DynValue, Datatype) -> Result<Bytes, String>,
) -> Result<Tensor, ModelError> {
    let failed = |why: String| ModelError::Run(format!("output `{}`: {why}", spec.name));
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        return Err(failed(format!("expected a tensor, got {}", value.dtype())));
    };
    let Some(datatype) = datatype(*ty) else {
        return Err(failed(format!("elements of type {ty}")));
    };
    let shape = shape.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).collect();
    // Checks that the bytes are as many as the shape says, so that nothing later needs to.
    Tensor::new(Arc::clone(&spec.name), datatype, shape, bytes(value, datatype).map_err(failed)?)
        .map_err(|error| failed(error.to_string()))
}

/// The engine's buffer as [`Bytes`], which own the value it belongs to and the session, since a constant of the model
/// may be an output and lies in the session's memory. Strings are copied.
pub fn in_place(
    value: DynValue,
    datatype: Datatype,
    session: Arc<SharedSessionInner>,
) -> Result<Bytes, String> {
    match datatype {
        Datatype::Bool => shared::<bool>(value, session),
        Datatype::Uint8 => shared::<u8>(value, session),
        Datatype::Uint16 => shared::<u16>(value, session),
        Datatype::Uint32 => shared::<u32>(value, session),
        Datatype::Uint64 => shared::<u64>(value, session),
        Datatype::Int8 => shared::<i8>(value, session),
        Datatype::Int16 => shared::<i16>(value, session),
        Datatype::Int32 => shared::<i32>(value, session),
        Datatype::Int64 => shared::<i64>(value, session),
        Datatype::Fp16 => shared::<f16>(value, session),
        Datatype::Bf16 => shared::<bf16>(value, session),
        Datatype::Fp32 => shared::<f32>(value, session),
        Datatype::Fp64 => shared::<f64>(value, session),
        Datatype::Bytes => text_elements(&value),
    }
}

fn shared<T>(value: DynValue, session: Arc<SharedSessionInner>) -> Result<Bytes, String>
where
    T: PrimitiveTensorElementType + NoUninit + Debug + Send + 'static,
{
    /// Shows the buffer that it owns.
    struct Buffer<T: PrimitiveTensorElementType + Debug> {
        tensor: OrtTensor<T>,
        _session: Arc<SharedSessionInner>,
    }

    impl<T: PrimitiveTensorElementType + NoUninit + Debug> AsRef<[u8]> for Buffer<T> {
        fn as_ref(&self) -> &[u8] {
            // `shared` has seen this succeed; were it to fail now, the length check in `output` would tell.
            self.tensor.try_extract_tensor::<T>().map_or(&[], |(_, elements)| bytemuck::cast_slice(elements))
        }
    }

    let tensor: OrtTensor<T> = value.downcast().map_err(text)?;
    // Fails for a buffer that is not in the CPU's memory.
    tensor.try_extract_tensor::<T>().map_err(text)?;
    Ok(Bytes::from_owner(Buffer { tensor, _session: session }))
}

fn text_elements(value: &DynValue) -> Result<Bytes, String> {
    let (_, elements) = value.try_extract_strings().map_err(text)?;
    let mut data = Vec::with_capacity(elements.iter().map(|element| element.len() + 4).sum());
    for element in elements {
        if !push_bytes_element(&mut data, element.as_bytes()) {
            return Err("an element of 4 GiB or more".to_owned());
        }
    }
    Ok(data.into())
}

/// An error of a run, for the log.
pub fn run_failed(error: ort::Error) -> ModelError {
    ModelError::Run(error.to_string())
}

/// An error's words.
pub fn text(error: ort::Error) -> String {
    error.to_string()
}
