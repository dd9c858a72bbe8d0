//! One SavedModel at work: tensors in, tensors out.
//!
//! Flow: `sessions → [session] → api → TensorFlow`.
//! In:   verified tensors in signature order. Out: tensors in signature order.
//!
//! Copies: one of each input. TensorFlow reads a foreign buffer in place only if it starts at a multiple of
//! 64 bytes, which a part of a request body or of a guest's memory rarely does, and would copy any other one
//! itself. No copy of an output: it is the engine's own buffer, kept alive by the [`Bytes`] that show it.
//! Strings are copied once each way, since the engine keeps each of them as an object.
//!
//! Invariant: a session holds no state, so a failed run leaves it as it was.

use std::sync::Arc;

use bytes::Bytes;

use super::api::{Array, Graph};
use super::saved_model;
use crate::model::engine;
use crate::model::error::ModelError;
use crate::tensor::{BytesElements, Datatype, ShownShape, Signature, Tensor, TensorSpec, push_bytes_element};

// A tensor's bytes are little-endian and the engine's are the machine's.
#[cfg(target_endian = "big")]
compile_error!("tensors reach TensorFlow without conversion, which needs a little-endian machine");

/// A way to the loaded model that all sessions share.
#[derive(Debug)]
pub struct Session {
    graph: Arc<Graph>,
    signature: Arc<Signature>,
}

impl Session {
    /// `signature` is that of the graph's ports.
    pub fn new(graph: Arc<Graph>, signature: Arc<Signature>) -> Session {
        Session { graph, signature }
    }
}

impl engine::Session for Session {
    fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        engine::check_count(&self.signature, inputs)?;
        let scalars = self.graph.scalar_inputs();
        let inputs = inputs.iter().zip(scalars).map(|(tensor, scalar)| input(&self.graph, tensor, scalar));
        let outputs = self.graph.run(&inputs.collect::<Result<Vec<_>, _>>()?).map_err(ModelError::Run)?;
        outputs.into_iter().zip(&self.signature.outputs).map(|(array, spec)| output(array, spec)).collect()
    }
}

/// `tensor` in the engine's memory.
fn input(graph: &Graph, tensor: &Tensor, scalar: bool) -> Result<Array, ModelError> {
    let refused = |why: String| ModelError::Input(format!("input `{}`: {why}", tensor.name));
    let mut shape = tensor.shape.as_slice();
    if scalar && !shape.is_empty() {
        // What the spec cannot say, see `Port::scalar`, so this is the first look.
        if tensor.elements() != 1 {
            return Err(refused(format!(
                "expected {} [], got {} {}",
                tensor.datatype,
                tensor.datatype,
                ShownShape(shape)
            )));
        }
        shape = &[];
    }
    let api = graph.api();
    let array = if tensor.datatype == Datatype::Bytes {
        let elements = BytesElements::new(&tensor.data).collect::<Result<Vec<_>, _>>();
        elements.map_err(|error| error.to_string()).and_then(|elements| Array::strings(api, shape, &elements))
    } else {
        Array::numbers(api, saved_model::number(tensor.datatype), shape, &tensor.data)
    };
    array.map_err(refused)
}

/// The engine's array as a tensor.
fn output(array: Array, spec: &TensorSpec) -> Result<Tensor, ModelError> {
    let failed = |why: String| ModelError::Run(format!("output `{}`: {why}", spec.name));
    let number = array.element_type();
    let datatype = saved_model::datatype(number)
        .ok_or_else(|| failed(format!("elements of TensorFlow's type {number}")))?;
    let shape = array.shape();
    let data = if datatype == Datatype::Bytes {
        let elements = array.elements().map_err(failed)?;
        let mut data = Vec::with_capacity(elements.iter().map(|element| element.len() + 4).sum());
        if !elements.iter().all(|element| push_bytes_element(&mut data, element)) {
            return Err(failed("an element of 4 GiB or more".to_owned()));
        }
        data.into()
    } else {
        Bytes::from_owner(array)
    };
    // Checks that the bytes are as many as the shape says, so that nothing later needs to.
    Tensor::new(Arc::clone(&spec.name), datatype, shape, data).map_err(|error| failed(error.to_string()))
}
