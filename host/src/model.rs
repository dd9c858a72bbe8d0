//! A loaded model: what the pipeline sees of an inference engine.
//!
//! Flow: `verify → [infer] → verify`.
//! In:   tensors that `pipeline/verify.rs` has bound to the model's inputs, in signature order.
//! Out:  one tensor per output, in signature order, named as the signature names it.
//!
//! Loading, top down:
//! - [`catalog`] keeps what is loaded, so that endpoints share it;
//! - [`location`] finds the model's file or folder, [`plan`] decides on sessions and threads;
//! - [`engine`] is what `onnx` and `tensorflow` offer: sessions, each for one run at a time; `warm_up` tries
//!   them.
//!
//! Serving, top down:
//! - [`handle`] is what an endpoint holds of a model, [`sequences`] the state that it keeps for it;
//! - `queue` holds what cannot run at once, [`schedule`] decides who runs next and together, [`batch`] joins
//!   and splits;
//! - `sessions` runs it, in place or on a thread of its own; `shares` keeps slow models from taking every
//!   core.
//!
//! Invariants: nothing outside this folder knows which engine runs; a request that goes away, at any moment,
//! leaves every session behind for the next one.

use std::fmt;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::info;

use crate::file;
use crate::tensor::{Signature, Tensor};

pub mod batch;
pub mod catalog;
pub mod engine;
pub mod handle;
pub mod library;
pub mod location;
mod onnx;
pub mod plan;
mod queue;
pub mod schedule;
pub mod sequences;
mod sessions;
mod shape;
mod shares;
mod tensorflow;
mod warm_up;

pub use catalog::Catalog;
use engine::Options;
pub use handle::ModelHandle;
use location::Location;
use plan::Plan;
pub use schedule::{Batching, Wait};
pub use sequences::{SequenceCall, SequenceLimits};
use sessions::Sessions;

/// The key of a model's only signature if the model has no name for it.
pub const DEFAULT_SIGNATURE_KEY: &str = "serving_default";
/// Most bytes of a file with the names of classes.
const LARGEST_LABELS: u64 = 16 << 20;
/// The method of a signature that takes tensors.
pub const PREDICT_METHOD: &str = "tensorflow/serving/predict";
/// The method of a signature that takes examples and makes classes.
pub const CLASSIFY_METHOD: &str = "tensorflow/serving/classify";
/// The method of a signature that takes examples and makes numbers.
pub const REGRESS_METHOD: &str = "tensorflow/serving/regress";

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

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// One model to load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelConfig {
    /// An ONNX file, a folder with one or with a SavedModel, or a folder of versions; see [`location`].
    pub path: PathBuf,
    /// Which version of a folder of versions; `None` takes the highest.
    pub version: Option<u64>,
    /// How many of the others are served besides: the highest.
    pub others: usize,
    /// Whether versions that come, go or change are taken without an order.
    pub watch: bool,
    /// Which signature of a SavedModel; `None` chooses by its rule.
    pub signature_key: Option<String>,
    /// A file with the names of its classes, one on each line.
    pub labels: Option<PathBuf>,
    /// Outputs that are state, each with the input that takes it at the next request of a sequence.
    pub state: Vec<(String, String)>,
    /// Where to run it.
    pub device: Device,
    /// Most memory of a GPU that this model may take, in bytes; `None` sets no limit.
    pub device_memory: Option<u64>,
    /// Sessions that may run at the same time; `None` chooses by the machine and the model's size.
    pub sessions: Option<usize>,
    /// Threads one run may use; `None` chooses by the number of sessions.
    pub threads: Option<usize>,
}

impl ModelConfig {
    /// Whether `other` would be loaded in the same way, wherever it is found.
    fn loads_like(&self, other: &ModelConfig) -> bool {
        let (path, state) = (other.path.clone(), other.state.clone());
        let ModelConfig { version, others, watch, .. } = *other;
        ModelConfig { path, state, version, others, watch, ..self.clone() } == *other
    }
}

/// Reads the names of classes.
fn labels(file: &Path) -> Result<Arc<[String]>, String> {
    let failed = |reason: String| format!("labels `{}`: {reason}", file.display());
    let bytes = file::read(file, LARGEST_LABELS).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("not UTF-8".to_owned()))?;
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}

/// The settings that all models of a process share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// ONNX Runtime's shared library; `None` searches for it, see [`library`].
    pub onnxruntime: Option<PathBuf>,
    /// The folder of TensorFlow's shared libraries; `None` searches for it, see [`library`].
    pub tensorflow: Option<PathBuf>,
}

/// Why a model could not be loaded or run.
///
/// The first two are for the operator at start and name files. [`ModelError::Input`] is fit for a caller;
/// [`ModelError::Run`] holds the engine's own words, which may name its source files, and is for the log.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The engine's library is not there or not usable.
    #[error(transparent)]
    Library(#[from] library::LibraryError),
    /// The file is missing, is no model, or is one that cannot be served.
    #[error("cannot load model `{}`: {reason}", path.display())]
    #[expect(missing_docs, reason = "the message names its fields")]
    Load { path: PathBuf, reason: String },
    /// Its requests cannot be joined.
    #[error("cannot batch for model `{}`: {reason}\n  hint: remove `batching`, or export the model with a free first \
             extent", path.display())]
    #[expect(missing_docs, reason = "the message names its fields")]
    Batching { path: PathBuf, reason: String },
    /// The engine cannot take this value, although its datatype and shape are right.
    #[error("{0}")]
    Input(String),
    /// There is no room for the state of one more sequence.
    #[error("{0}")]
    Sequences(String),
    /// The engine failed. The session stays usable.
    #[error("the model failed: {0}")]
    Run(String),
}

/// The model's answer to one request.
#[derive(Debug)]
pub struct Prediction {
    /// One tensor per output, in signature order.
    pub outputs: Vec<Tensor>,
    /// How long the request waited for its run.
    pub queued: Duration,
    /// How many requests shared the run; `None` for all but one of them, so that a sum over requests counts
    /// runs.
    pub shared: Option<usize>,
}

impl Prediction {
    /// Of a request that ran at once, by itself.
    fn alone(outputs: Vec<Tensor>) -> Prediction {
        Prediction { outputs, queued: Duration::ZERO, shared: Some(1) }
    }
}

/// A loaded model, ready to run.
#[derive(Debug)]
pub struct Model {
    location: Location,
    device: Device,
    signature_key: Option<String>,
    method: Option<String>,
    labels: Arc<[String]>,
    sessions: Arc<Sessions>,
}

impl Model {
    /// Loads the model found at `location` and runs each of its sessions once. Blocks for as long as that
    /// takes.
    ///
    /// # Errors
    /// [`ModelError::Library`] and [`ModelError::Load`]. A failed first run is no error: a model may refuse
    /// the zeros it is tried with.
    fn load(model: &ModelConfig, location: Location, config: &Config) -> Result<Model, ModelError> {
        let started = Instant::now();
        let failed = |reason| ModelError::Load { path: model.path.clone(), reason };
        let labels = model.labels.as_deref().map(labels).transpose().map_err(failed)?.unwrap_or_default();
        let plan = Plan::new(
            model,
            location.bytes_to_plan_by(),
            thread::available_parallelism().map_or(1, NonZero::get),
        );
        let options = Options {
            device: model.device,
            device_memory: plan.device_memory,
            sessions: plan.sessions,
            gpu_sessions: plan.gpu_sessions,
            threads: plan.threads,
            signature_key: model.signature_key.as_deref(),
        };
        let loaded = engine::load(&location, options, config)?;
        let Some(signature) = loaded.sessions.first().map(|session| Arc::clone(session.signature())) else {
            return Err(failed("instances must be at least 1".to_owned()));
        };
        let cores = (loaded.device == Device::Cpu).then_some(plan.threads);
        let engine::Loaded { sessions, device, signature_key, method } = loaded;
        let sessions = Sessions::start(sessions, signature, cores)
            .map_err(|error| failed(format!("its threads do not start: {error}")))?;
        info!(
            model.path = %model.path.display(),
            model.version = location.version,
            model.device = %device,
            model.instances = sessions.count(),
            model.threads = plan.threads,
            duration_ms = started.elapsed().as_millis(),
            "model loaded"
        );
        Ok(Model { location, device, signature_key, method, labels, sessions })
    }

    /// The names of its classes, by their numbers; none where no file says any.
    pub fn labels(&self) -> &Arc<[String]> {
        &self.labels
    }

    /// The inputs and outputs of the model.
    pub fn signature(&self) -> &Arc<Signature> {
        &self.sessions.signature
    }

    /// The name of its signature; `serving_default` for an ONNX model, which has but one.
    pub fn signature_key(&self) -> &str {
        self.signature_key.as_deref().unwrap_or(DEFAULT_SIGNATURE_KEY)
    }

    /// The call by which TensorFlow Serving's clients reach that signature; [`PREDICT_METHOD`] of one that
    /// says nothing.
    pub fn method_name(&self) -> &str {
        self.method.as_deref().filter(|method| !method.is_empty()).unwrap_or(PREDICT_METHOD)
    }

    /// Where it was found.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Where it runs; never [`Device::Auto`].
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// Sessions that no request is using at the moment.
    pub fn idle_sessions(&self) -> usize {
        self.sessions.idle()
    }

    /// Opens a way to the model for one endpoint. With batching this runs the model, so it blocks.
    ///
    /// # Errors
    /// [`ModelError::Batching`] if requests to this model cannot be joined, with the reason.
    pub fn handle(self: &Arc<Self>, mut batching: Batching) -> Result<ModelHandle, ModelError> {
        if batching.max_batch > 1 {
            let best = warm_up::can_batch(self.signature())
                .and_then(|()| self.sessions.best_batch(&batching))
                .map_err(|reason| ModelError::Batching { path: self.location.path.clone(), reason })?;
            // Who wants to wait for full batches knows why.
            if batching.wait == Wait::Busy && best < batching.max_batch {
                info!(
                    model.path = %self.location.path.display(),
                    max_batch = batching.max_batch,
                    batch = best,
                    "larger batches gain nothing on this model and device"
                );
                batching.max_batch = best;
            }
        }
        let client = self.sessions.queue.open(batching);
        Ok(ModelHandle { model: Arc::clone(self), client, batching, sequences: None })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // The runners end, and the last of them frees the sessions.
        self.sessions.queue.close();
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
