//! One loaded copy of an ONNX model.
//!
//! Flow: `sessions → [session] → ONNX Runtime`.
//! In:   verified tensors in signature order. Out: tensors in signature order.
//!
//! Copies: none of numbers. The engine reads an input where it lies (it is copied once if it is not aligned for
//! its type, which a buffer of its own always is), and an output is the engine's own buffer, kept alive by the
//! [`Bytes`] that show it. Strings are copied once each way, since the engine keeps them as C++ objects.
//!
//! Invariant: a failed run leaves the session as it was.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use bytes::Bytes;
use half::{bf16, f16};
use ort::environment::Environment;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session as OrtSession, SessionInputValue};
use ort::value::{
    DynValue, Outlet, PrimitiveTensorElementType, Shape, Tensor as OrtTensor, TensorElementType, TensorRef,
    Utf8Data, ValueType,
};

use crate::model::{Device, ModelError, engine};
use crate::tensor::{BytesElements, Datatype, Extent, Signature, Tensor, TensorSpec, push_bytes_element};

// A tensor's bytes are little-endian and the engine's are the machine's.
#[cfg(target_endian = "big")]
compile_error!("tensors reach ONNX Runtime without conversion, which needs a little-endian machine");

/// A model that is ready to run, once at a time.
#[derive(Debug)]
pub struct Session {
    engine: OrtSession,
    signature: Arc<Signature>,
}

impl Session {
    /// Loads a model; its external weights, if it has any, lie beside it. `threads`: how many one run may use.
    ///
    /// # Errors
    /// Text for the operator: the engine's words, or the input or output that no tensor can stand for.
    pub fn load(
        environment: &Environment,
        path: &Path,
        device: Device,
        threads: usize,
    ) -> Result<Session, String> {
        let engine = OrtSession::builder(environment)
            .map_err(text)
            .and_then(|builder| configure(builder, threads).map_err(text))
            .and_then(|builder| place(builder, device))?
            .commit_from_file(path)
            .map_err(text)?;
        let signature = Signature {
            inputs: engine.inputs().iter().map(|input| spec("input", input)).collect::<Result<_, _>>()?,
            outputs: engine
                .outputs()
                .iter()
                .map(|output| spec("output", output))
                .collect::<Result<_, _>>()?,
        };
        Ok(Session { engine, signature: Arc::new(signature) })
    }
}

impl engine::Session for Session {
    fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        let (expected, actual) = (self.signature.inputs.len(), inputs.len());
        if expected != actual {
            return Err(ModelError::Input(format!("expected {expected} inputs, got {actual}")));
        }
        let inputs = inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        let outputs = self.engine.run(inputs.as_slice()).map_err(run_failed)?;
        outputs
            .into_iter()
            .zip(&self.signature.outputs)
            .map(|((_, value), spec)| output(value, spec))
            .collect()
    }
}

/// Options of every session.
fn configure(builder: SessionBuilder, threads: usize) -> ort::Result<SessionBuilder> {
    let builder = builder
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        .with_parallel_execution(false)?
        // A thread that spins while it waits for the next run takes a core from those that serve HTTP.
        .with_intra_op_spinning(false)?
        .with_inter_op_spinning(false)?
        // A pattern is kept for every combination of input shapes ever seen: memory that callers control.
        .with_memory_pattern(false)?;
    Ok(builder)
}

/// Chooses the device. What was asked for by name is had or is an error: no silent fall-back.
fn place(builder: SessionBuilder, device: Device) -> Result<SessionBuilder, String> {
    match device {
        Device::Auto | Device::Cpu => Ok(builder),
        Device::Cuda(index) => Err(format!("device `cuda:{index}`: this build can only use the CPU")),
    }
}

/// What the engine says about one input or output. `kind` is for the message.
fn spec(kind: &str, outlet: &Outlet) -> Result<TensorSpec, String> {
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

/// A view of `tensor` as the engine's value.
fn input(tensor: &Tensor) -> Result<SessionInputValue<'_>, ModelError> {
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
fn shape(tensor: &Tensor) -> Result<Shape, ModelError> {
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

/// The engine's value as a tensor.
fn output(value: DynValue, spec: &TensorSpec) -> Result<Tensor, ModelError> {
    let failed = |why: String| ModelError::Run(format!("output `{}`: {why}", spec.name));
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        return Err(failed(format!("expected a tensor, got {}", value.dtype())));
    };
    let Some(datatype) = datatype(*ty) else {
        return Err(failed(format!("elements of type {ty}")));
    };
    let shape = shape.iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).collect();
    let data = match datatype {
        Datatype::Bool => shared::<bool>(value),
        Datatype::Uint8 => shared::<u8>(value),
        Datatype::Uint16 => shared::<u16>(value),
        Datatype::Uint32 => shared::<u32>(value),
        Datatype::Uint64 => shared::<u64>(value),
        Datatype::Int8 => shared::<i8>(value),
        Datatype::Int16 => shared::<i16>(value),
        Datatype::Int32 => shared::<i32>(value),
        Datatype::Int64 => shared::<i64>(value),
        Datatype::Fp16 => shared::<f16>(value),
        Datatype::Bf16 => shared::<bf16>(value),
        Datatype::Fp32 => shared::<f32>(value),
        Datatype::Fp64 => shared::<f64>(value),
        Datatype::Bytes => text_elements(&value),
    };
    // Checks that the bytes are as many as the shape says, so that nothing later needs to.
    Tensor::new(Arc::clone(&spec.name), datatype, shape, data.map_err(failed)?)
        .map_err(|error| failed(error.to_string()))
}

/// The engine's buffer as [`Bytes`], which own the value it belongs to.
fn shared<T>(value: DynValue) -> Result<Bytes, String>
where
    T: PrimitiveTensorElementType + NoUninit + Debug + Send + 'static,
{
    /// Shows the buffer that it owns.
    struct Buffer<T: PrimitiveTensorElementType + Debug>(OrtTensor<T>);

    impl<T: PrimitiveTensorElementType + NoUninit + Debug> AsRef<[u8]> for Buffer<T> {
        fn as_ref(&self) -> &[u8] {
            // `shared` has seen this succeed; were it to fail now, the length check in `output` would tell.
            self.0.try_extract_tensor::<T>().map_or(&[], |(_, elements)| bytemuck::cast_slice(elements))
        }
    }

    let tensor: OrtTensor<T> = value.downcast().map_err(text)?;
    // Fails for a buffer that is not in the CPU's memory.
    tensor.try_extract_tensor::<T>().map_err(text)?;
    Ok(Bytes::from_owner(Buffer(tensor)))
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

fn run_failed(error: ort::Error) -> ModelError {
    ModelError::Run(error.to_string())
}

fn text(error: ort::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests;
