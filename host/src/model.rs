//! A loaded model: what the pipeline sees of an inference engine.
//!
//! Flow: `verify → [infer] → verify`.
//! In:   tensors that `pipeline/verify.rs` has bound to the model's inputs, in signature order.
//! Out:  one tensor per output, in signature order, named as the signature names it.
//!
//! - [`location`] finds the model's file or folder;
//! - [`engine`] is what `onnx` offers: sessions, each a loaded copy of the model for one run at a time;
//! - `pool` lends those sessions, `sessions` decides on which thread a run is made.
//!
//! Invariants: nothing outside this folder knows which engine runs; a request that goes away, at any moment,
//! leaves every session behind for the next one.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use tracing::{debug, info};

use crate::tensor::{Signature, Tensor};

pub mod engine;
pub mod location;
mod onnx;
mod pool;
mod sessions;

use engine::Options;
use location::Location;
use sessions::Sessions;

/// Model files from this size on are loaded once unless the configuration says otherwise: every session holds
/// its own copy of the weights.
const LARGE_MODEL: u64 = 64 << 20;

/// Most sessions that are loaded unless the configuration says otherwise.
const MOST_INSTANCES: usize = 4;

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// A GPU if one can be had, else the CPU; the log says which and why.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// This CUDA device. An error at start if it cannot be had.
    Cuda(u32),
}

/// One model to load.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelConfig {
    /// An ONNX file, a SavedModel's folder, or a folder of versions; see [`location`].
    pub path: PathBuf,
    /// Which version of a folder of versions; `None` takes the highest.
    pub version: Option<u64>,
    /// Which signature of a SavedModel; `None` chooses by its rule.
    pub signature_key: Option<String>,
    /// Where to run it.
    pub device: Device,
    /// Sessions that may run at the same time; `None` chooses by the machine and the model's size.
    pub instances: Option<usize>,
    /// Threads one run may use; `None` chooses by the number of instances.
    pub threads: Option<usize>,
}

/// What all models of a process share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// ONNX Runtime's shared library; `None` searches for it, see [`library`].
    pub onnxruntime: Option<PathBuf>,
}

/// Why a model could not be loaded or run.
///
/// The first two are for the operator at start and name files. [`ModelError::Input`] is fit for a caller;
/// [`ModelError::Run`] holds the engine's own words, which may name its source files, and is for the log.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The engine's library is not there or not usable.
    #[error(transparent)]
    Library(#[from] onnx::LibraryError),
    /// The file is missing, is no model, or is one that cannot be served.
    #[error("cannot load model `{}`: {reason}", path.display())]
    #[expect(missing_docs, reason = "the message names its fields")]
    Load { path: PathBuf, reason: String },
    /// The engine cannot take this value, although its datatype and shape are right.
    #[error("{0}")]
    Input(String),
    /// The engine failed. The session stays usable.
    #[error("the model failed: {0}")]
    Run(String),
}

/// A model, ready to run.
#[derive(Debug)]
pub struct Model {
    signature: Arc<Signature>,
    sessions: Arc<Sessions>,
}

impl Model {
    /// Loads the model once per instance and runs each of them once. Blocks for as long as that takes.
    ///
    /// # Errors
    /// [`ModelError::Library`] and [`ModelError::Load`]. A failed first run is no error: a model may refuse the
    /// zeros it is tried with.
    pub fn load(model: &ModelConfig, config: &Config) -> Result<Model, ModelError> {
        let started = Instant::now();
        let failed = |reason| ModelError::Load { path: model.path.clone(), reason };
        let location = Location::find(&model.path, model.version).map_err(failed)?;
        let plan = Plan::new(model, location.bytes, thread::available_parallelism().map_or(1, NonZero::get));
        if model.device == Device::Auto {
            info!("device `auto`: the model runs on the CPU, the only device this build can use");
        }
        let options = Options {
            device: model.device,
            sessions: plan.instances,
            threads: plan.threads,
            signature_key: model.signature_key.as_deref(),
        };
        let sessions = engine::load(&location, options, config)?.sessions;
        let Some(signature) = sessions.first().map(|session| Arc::clone(session.signature())) else {
            return Err(failed("instances must be at least 1".to_owned()));
        };
        let sessions = Sessions::warm_up(sessions);
        debug!(
            model.path = %model.path.display(),
            model.instances = plan.instances,
            model.threads = plan.threads,
            duration_ms = started.elapsed().as_millis(),
            "model loaded"
        );
        Ok(Model { signature, sessions })
    }

    /// What the model takes and returns.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Runs the model once and returns one tensor per output, in signature order.
    ///
    /// `inputs` are in signature order and fit it, see `pipeline/verify.rs`. Waits, first come first served,
    /// while all sessions are running. Dropping the future is safe at any moment; a run that has started goes
    /// on without its caller and then frees its session.
    ///
    /// # Errors
    /// [`ModelError::Input`] and [`ModelError::Run`].
    pub async fn infer(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, ModelError> {
        self.sessions.run(inputs).await
    }

    /// Number of sessions.
    pub fn instances(&self) -> usize {
        self.sessions.total()
    }

    /// Sessions that no request is using at the moment.
    pub fn idle_instances(&self) -> usize {
        self.sessions.idle()
    }
}

/// How many sessions, and how many threads each of them uses.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    instances: usize,
    threads: usize,
}

impl Plan {
    fn new(model: &ModelConfig, bytes: u64, cores: usize) -> Plan {
        let instances =
            model.instances.unwrap_or(if bytes < LARGE_MODEL { cores.min(MOST_INSTANCES) } else { 1 });
        let threads = model.threads.unwrap_or(cores / instances.max(1)).max(1);
        Plan { instances, threads }
    }
}

#[cfg(test)]
mod tests;
