//! One loaded copy of an ONNX model.
//!
//! Flow: `sessions → [session] → ONNX Runtime`.
//! In:   verified tensors in signature order. Out: tensors in signature order.
//!
//! On the CPU a run copies no numbers, see [`value`]; on a GPU they go through page-locked memory, see [`pinned`].
//!
//! Invariants: a failed run leaves the session as it was; an output never shows memory that the engine does not keep for
//! it alone. An output that is an input of the model by name is therefore answered with that input: the engine would
//! return a view of it that outlives what it views.

use std::path::Path;
use std::sync::Arc;

use ort::environment::Environment;
use ort::ep;
use ort::session::Session as OrtSession;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};

use super::api::Names;
use super::pinned::Pinned;
use super::value::{run_failed, text};
use super::{cuda, pinned, value};
use crate::model::{Device, ModelError, engine};
use crate::tensor::{Signature, Tensor};

/// A model that is ready to run, once at a time.
#[derive(Debug)]
pub struct Session {
    engine: OrtSession,
    names: Names,
    signature: Arc<Signature>,
    /// How its values reach the GPU, if it is on one and they can.
    pinned: Option<Pinned>,
}

impl Session {
    /// Loads a model; its external weights, if it has any, lie beside it. `device` is a CUDA device or else the CPU,
    /// `memory` the most that the model may take of it, `threads` how many one run may use on the CPU.
    ///
    /// # Errors
    /// Text for the operator: what keeps the device from being used, the engine's words, or the input or output that no
    /// tensor can stand for. A second line, if there is one, is a hint.
    pub fn load(
        environment: &Environment,
        path: &Path,
        device: Device,
        memory: Option<u64>,
        threads: usize,
    ) -> Result<Session, String> {
        let builder = OrtSession::builder(environment)
            .map_err(text)
            .and_then(|builder| configure(builder, threads).map_err(text))?;
        let engine = match device {
            Device::Cuda(index) => cuda::commit(builder, path, index, memory)?,
            Device::Auto | Device::Cpu => {
                // The process's allocator serves a run faster than the arena that every session would have, and gives back
                // what a large request took. See ARCHITECTURE.md, "Decisions".
                let cpu = ep::CPU::default().with_arena_allocator(false).build();
                let mut builder =
                    builder.with_execution_providers([cpu]).map_err(|error| error.to_string())?;
                builder.commit_from_file(path).map_err(text)?
            }
        };
        let inputs = engine.inputs().iter().map(|input| value::spec("input", input));
        let outputs = engine.outputs().iter().map(|output| value::spec("output", output));
        let signature = Signature {
            inputs: inputs.collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<_, _>>()?,
        };
        let pinned = match device {
            Device::Cuda(index) if pinned::serves(&signature) => cuda::pinned(&engine, index),
            _ => None,
        };
        let names = Names::new(&engine).map_err(text)?;
        Ok(Session { engine, names, signature: Arc::new(signature), pinned })
    }
}

impl engine::Session for Session {
    fn signature(&self) -> &Arc<Signature> {
        &self.signature
    }

    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        engine::check_count(&self.signature, inputs)?;
        if let Some(pinned) = &mut self.pinned {
            return pinned.run(&mut self.engine, &self.signature, inputs);
        }
        let session = self.engine.inner();
        let values = inputs.iter().map(value::input).collect::<Result<Vec<_>, _>>()?;
        let outputs = self.names.run(&mut self.engine, &values).map_err(run_failed)?;
        outputs
            .into_iter()
            .zip(&self.signature.outputs)
            .map(|(output, spec)| {
                let same =
                    self.signature.inputs.iter().zip(inputs).find(|(input, _)| input.name == spec.name);
                if let Some((_, input)) = same {
                    return Ok(Tensor { name: Arc::clone(&spec.name), ..input.clone() });
                }
                value::in_place(output, spec, Arc::clone(&session))
            })
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

#[cfg(test)]
mod tests;
