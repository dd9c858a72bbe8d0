//! What models are loaded from, and where they run.
//!
//! Place in the flow: `config/` and orders of the operator make a [`ModelConfig`],
//! [`catalog`](super::catalog) has it loaded.

use std::fmt;
use std::path::PathBuf;

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
    /// An ONNX file, a folder with one or with a SavedModel, or a folder of versions; see
    /// [`location`](super::location).
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
    pub(super) fn loads_like(&self, other: &ModelConfig) -> bool {
        let (path, state) = (other.path.clone(), other.state.clone());
        let ModelConfig { version, others, watch, .. } = *other;
        ModelConfig { path, state, version, others, watch, ..self.clone() } == *other
    }
}

/// The settings that all models of a process share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// ONNX Runtime's shared library; `None` searches for it, see [`library`](super::library).
    pub onnxruntime: Option<PathBuf>,
    /// The folder of TensorFlow's shared libraries; `None` searches for it, see [`library`](super::library).
    pub tensorflow: Option<PathBuf>,
}
