//! A loaded ONNX model, and its sessions: handles of one copy on the CPU, a copy each on a GPU.
//!
//! Flow: `sessions → [session] → ONNX Runtime`.
//! In:   verified tensors in signature order. Out: tensors in signature order.
//!
//! On the CPU a run copies no numbers, see [`value`]; on a GPU they go through page-locked memory, see
//! [`pinned`].
//!
//! Sessions on the CPU share the weights and the helper threads: ONNX Runtime's `Run` may be called from any
//! number of threads, and keeps what belongs to a run apart. A GPU's sessions bind values, and each has its
//! own memory there.
//!
//! Invariants: a failed run leaves the session as it was; an output never shows memory that the engine does
//! not keep for it alone. An output that is an input of the model by name is therefore answered with that
//! input: the engine would return a view of it that outlives what it views.

use std::path::Path;
use std::sync::Arc;

use ort::environment::Environment;
use ort::ep;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session as OrtSession, SharedSessionInner};

use super::api::Names;
use super::pinned::Pinned;
use super::value::{run_failed, text};
use super::{compound, cuda, pinned, value};
use crate::model::config::Device;
use crate::model::engine;
use crate::model::error::ModelError;
use crate::tensor::{Role, Signature, Tensor, TensorSpec};
use crate::text::without_sources;

/// A model that is ready to run, once at a time.
#[derive(Debug)]
pub struct Session {
    model: Arc<Model>,
    is_on_gpu: bool,
    /// On a GPU, what it is run through if its values can go through page-locked memory.
    pinned: Option<(OrtSession, Pinned)>,
}

/// One copy of a model in memory.
#[derive(Debug)]
struct Model {
    engine: Arc<SharedSessionInner>,
    names: Names,
    signature: Arc<Signature>,
}

impl Session {
    /// Loads a model; its external weights, if it has any, lie beside it. `device` is a CUDA device or else
    /// the CPU, `memory` the most that the model may take of it, `threads` how many its runs may use together
    /// on the CPU.
    ///
    /// # Errors
    /// Text for the operator: what keeps the device from being used, the engine's words, or the input or
    /// output that no tensor can stand for. A second line, if there is one, is a hint.
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
                // The process's allocator serves a run faster than the arena that every session would have,
                // and gives back what a large request took. See docs/decisions.
                let cpu = ep::CPU::default().with_arena_allocator(false).build();
                let mut builder = builder
                    .with_execution_providers([cpu])
                    .map_err(|error| without_sources(&error.to_string()))?;
                builder.commit_from_file(path).map_err(load_failed)?
            }
        };
        let session = Session::new(&engine)?;
        let pinned = match device {
            Device::Cuda(index) if pinned::serves(&session.model.signature) => cuda::pinned(&engine, index),
            _ => None,
        };
        let is_on_gpu = matches!(device, Device::Cuda(_));
        Ok(Session { is_on_gpu, pinned: pinned.map(|pinned| (engine, pinned)), ..session })
    }

    fn new(engine: &OrtSession) -> Result<Session, String> {
        let inputs = engine.inputs().iter().map(|input| value::spec("input", input.name(), input.dtype()));
        let defaults = engine.overridable_initializers();
        // What the model has a value for need not be given.
        let optional = defaults.iter().map(|input| {
            let spec = value::spec("input", input.name(), input.dtype())?;
            Ok(TensorSpec { role: Role::Optional, ..spec })
        });
        let outputs = engine.outputs().iter().map(|output| compound::specs(output.name(), output.dtype()));
        let signature = Signature {
            inputs: inputs.chain(optional).collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<Vec<_>, _>>()?.concat(),
        };
        let names = Names::new(&signature).map_err(text)?;
        let model = Model { engine: engine.inner(), names, signature: Arc::new(signature) };
        Ok(Session { model: Arc::new(model), is_on_gpu: false, pinned: None })
    }

    /// Another session of the same copy, for a run at the same time; for a model on the CPU.
    pub fn sharing(&self) -> Session {
        Session { model: Arc::clone(&self.model), is_on_gpu: false, pinned: None }
    }
}

impl engine::Session for Session {
    fn signature(&self) -> &Arc<Signature> {
        &self.model.signature
    }

    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError> {
        let Model { engine, names, signature } = &*self.model;
        engine::check_count(signature, inputs)?;
        if let Some((engine, pinned)) = &mut self.pinned {
            return pinned.run(engine, signature, inputs);
        }
        let given = signature.places(inputs).map_err(ModelError::Input)?;
        let values = inputs.iter().map(value::input).collect::<Result<Vec<_>, _>>()?;
        let made = names.run(engine, given.as_deref(), &values).map_err(run_failed)?;
        let mut outputs = Vec::with_capacity(signature.outputs.len());
        for (output, (spec, second)) in made.into_iter().zip(signature.values()) {
            match (inputs.iter().find(|input| input.name == spec.name), second) {
                (Some(input), None) => outputs.push(input.clone()),
                (_, None) => outputs.push(value::in_place(output, spec, Arc::clone(engine))?),
                (_, Some(second)) => {
                    let tensors = compound::tensors(&output, spec, second);
                    outputs.extend(tensors.map_err(|why| value::output_failed(spec, &why))?);
                }
            }
        }
        Ok(outputs)
    }

    /// CUDA's convolutions are planned for the shape of their input, and only the last plan is kept.
    fn prepares_for_shapes(&self) -> bool {
        self.is_on_gpu
    }
}

/// The reason for which a file could not be loaded.
fn load_failed(error: ort::Error) -> String {
    explained(text(error))
}

/// The engine's reason, with what there is to do about it.
fn explained(reason: String) -> String {
    const LOCALE: &str = "Failed to construct locale with name:";
    if let Some((_, rest)) = reason.split_once(LOCALE) {
        let name = rest.split(':').next().unwrap_or_default();
        let is_part = |it: &char| it.is_ascii_alphanumeric() || "_.-@".contains(*it);
        let name: String = name.chars().filter(is_part).collect();
        return format!(
            "the model changes the case of texts by the rules of the locale `{name}`, which this machine does not \
             have\n  hint: Debian and Ubuntu: `apt-get install locales-all`; or `localedef -i {} -f UTF-8 {name}`",
            name.split('.').next().unwrap_or_default()
        );
    }
    let is_readable =
        !["Protobuf parsing failed", "No graph was found"].iter().any(|words| reason.contains(words));
    if is_readable {
        return reason;
    }
    "the file is no ONNX model, or is cut short\n  hint: export or download it again".to_owned()
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
