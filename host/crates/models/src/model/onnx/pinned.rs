//! Runs on a GPU through page-locked host memory.
//!
//! Flow: `session → [pinned] → ONNX Runtime → GPU`.
//! In:   verified tensors in signature order. Out: tensors in signature order.
//!
//! The GPU reads and writes page-locked ("pinned") memory directly; any other memory the driver copies into
//! some of its own first. So a run makes exactly these copies: an input once into pinned memory, from there
//! to the GPU; an output from the GPU into pinned memory, where the [`Bytes`] of the tensor show it as it is.
//!
//! All of it comes from the session's own arena of pinned memory: taking from it is a look at a free list,
//! and what was taken goes back when the run, or the last one who holds an output, is done. The arena grows
//! to what the requests in flight need together, which the limits on bodies, batches and queues bound, and is
//! freed with the session. An output is not copied out of it: that would cost as much as the transfer itself,
//! to free early what soon is free anyway.
//!
//! Invariants: a binding is empty between two runs, so none writes where an earlier output still lies;
//! nothing here names a device, so the tests run it on the CPU's memory.

#![allow(unsafe_code, reason = "the engine gives its special memory as pointers only")]

use std::sync::Arc;
use std::{ptr, slice};

use bytes::Bytes;
use ort::memory::{AllocationDevice, Allocator, MemoryInfo};
use ort::session::{IoBinding, Session, SharedSessionInner};
use ort::value::{DynTensor, DynTensorValueType, DynValue, Shape, TensorElementType};

use super::api;
use super::value::{self, run_failed, text};
use crate::model::error::ModelError;
use crate::tensor::{Datatype, Signature, Tensor, TensorSpec};

/// The way of one session's values.
#[derive(Debug)]
pub struct Pinned {
    binding: IoBinding,
    allocator: Allocator,
    location: MemoryInfo<'static>,
}

/// Whether values of this signature can go this way: strings and lists are objects of the CPU, and an output
/// that is an input needs no way at all.
pub fn serves(signature: &Signature) -> bool {
    let mut specs = signature.inputs.iter().chain(&signature.outputs);
    specs.all(|spec| spec.datatype != Datatype::Bytes && !spec.role.completes())
        && signature
            .outputs
            .iter()
            .all(|output| signature.inputs.iter().all(|input| input.name != output.name))
}

impl Pinned {
    /// Through the memory of `engine` at `location`, which the CPU must be able to read and write.
    ///
    /// # Errors
    /// The session has no such memory.
    pub fn new(engine: &Session, location: MemoryInfo<'static>) -> ort::Result<Pinned> {
        let allocator = Allocator::new(engine, location.clone())?;
        Ok(Pinned { binding: engine.create_binding()?, allocator, location })
    }

    /// As [`crate::model::engine::Session::run`].
    pub fn run(
        &mut self,
        engine: &mut Session,
        signature: &Signature,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, ModelError> {
        let session = engine.inner();
        let outputs = self.bind(signature, inputs).and_then(|()| self.run_bound(engine));
        // Also after an error: a value left bound would be used, or written to, by the next run.
        self.binding.clear();
        outputs?
            .into_iter()
            .zip(&signature.outputs)
            .map(|(output, spec)| in_place(output, spec, Arc::clone(&session)))
            .collect()
    }

    /// Copies the inputs to where the device reads them, and says where the outputs go.
    fn bind(&mut self, signature: &Signature, inputs: &[Tensor]) -> Result<(), ModelError> {
        for tensor in inputs {
            let input = self.copy(tensor)?;
            self.binding.bind_input(&*tensor.name, &input).map_err(run_failed)?;
        }
        for spec in &signature.outputs {
            // Bound anew for each run, so that the engine takes new memory for it.
            self.binding.bind_output_to_device(&*spec.name, &self.location).map_err(run_failed)?;
        }
        Ok(())
    }

    /// A copy of `tensor` in the session's memory.
    fn copy(&self, tensor: &Tensor) -> Result<DynTensor, ModelError> {
        let wrong = |why: &str| ModelError::Input(format!("input `{}`: {why}", tensor.name));
        let count = api::count(&tensor.shape).map_err(|error| wrong(&text(error)))?;
        let element = value::element(tensor.datatype);
        if element.byte_size(count) != Some(tensor.data.len()) {
            return Err(wrong("its size is not that of its shape"));
        }
        let shape: Shape = tensor.shape.iter().map(|extent| extent.cast_signed()).collect();
        let mut copy = DynTensor::new(&self.allocator, element, shape).map_err(run_failed)?;
        let target = copy.data_ptr_mut().cast::<u8>();
        if !tensor.data.is_empty() {
            if target.is_null() {
                return Err(ModelError::Run("the engine gave no memory for an input".to_owned()));
            }
            // SAFETY: the source is a slice of this length. The target is the buffer of a value that was made
            // a line ago and is known to no other code, in memory that the CPU can write (see `new`), and as
            // long: its size follows from element type and shape, and was compared above.
            unsafe { ptr::copy_nonoverlapping(tensor.data.as_ptr(), target, tensor.data.len()) };
        }
        Ok(copy)
    }

    /// Runs on what is bound; the outputs, in the order they were bound.
    fn run_bound(&mut self, engine: &mut Session) -> Result<Vec<DynValue>, ModelError> {
        // The copies to the device may be on another stream than the run.
        self.binding.synchronize_inputs().map_err(run_failed)?;
        let outputs = engine.run_binding(&self.binding).map_err(run_failed)?;
        let outputs = outputs.into_iter().map(|(_, output)| output).collect();
        self.binding.synchronize_outputs().map_err(run_failed)?;
        Ok(outputs)
    }
}

/// The engine's buffer as [`Bytes`], which own the value it belongs to, and the session, which owns the
/// memory.
fn in_place(
    output: DynValue,
    spec: &TensorSpec,
    session: Arc<SharedSessionInner>,
) -> Result<Tensor, ModelError> {
    /// Shows the buffer that it owns.
    struct Buffer {
        tensor: DynTensor,
        size: usize,
        _session: Arc<SharedSessionInner>,
    }

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            let data = self.tensor.data_ptr().cast::<u8>();
            if data.is_null() {
                return &[];
            }
            // SAFETY: the buffer of the value that `self` owns, which is not written after the run that made
            // it: the binding was cleared. It is in memory that the CPU can read, and `size` long by its
            // element type and shape; `in_place` has checked both.
            unsafe { slice::from_raw_parts(data, self.size) }
        }
    }

    let failed = |why: String| ModelError::Run(format!("output `{}`: {why}", spec.name));
    let tensor: DynTensor = output.downcast::<DynTensorValueType>().map_err(|error| failed(text(error)))?;
    let place = tensor.memory_info().allocation_device();
    if place != AllocationDevice::CPU && place != AllocationDevice::CUDA_PINNED {
        return Err(failed(format!("it is in memory of `{}`, which the CPU cannot read", place.as_str())));
    }
    let element = *tensor.data_type();
    let size = match element {
        TensorElementType::String => None,
        element => element.byte_size(tensor.shape().num_elements()),
    };
    let size = size.ok_or_else(|| failed("strings have no place in this memory".to_owned()))?;
    let shape = tensor.shape().iter().map(|extent| u64::try_from(*extent).unwrap_or(0)).collect();
    let bytes = Bytes::from_owner(Buffer { tensor, size, _session: session });
    value::tensor(spec, element, shape, bytes)
}
