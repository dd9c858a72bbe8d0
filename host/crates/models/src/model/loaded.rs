//! A loaded model: its sessions, and what is known of it.
//!
//! Place in the flow: [`catalog`](super::catalog) loads it, once for all endpoints; each of them opens a
//! [`handle`](super::handle) on it.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use tracing::info;

use super::config::{Config, Device, ModelConfig};
use super::engine::{Loaded, Options};
use super::engines;
use super::error::ModelError;
use super::location::Location;
use super::plan::Plan;
use super::sessions::Sessions;
use crate::file;
use crate::tensor::Signature;

/// The key of a model's only signature if the model has no name for it.
pub const DEFAULT_SIGNATURE_KEY: &str = "serving_default";
/// The method of a signature that takes tensors.
pub const PREDICT_METHOD: &str = "tensorflow/serving/predict";
/// The method of a signature that takes examples and makes classes.
pub const CLASSIFY_METHOD: &str = "tensorflow/serving/classify";
/// The method of a signature that takes examples and makes numbers.
pub const REGRESS_METHOD: &str = "tensorflow/serving/regress";
/// Most bytes of a file with the names of classes.
const LARGEST_LABELS: u64 = 16 << 20;

/// A loaded model, ready to run.
#[derive(Debug)]
pub struct Model {
    pub(super) location: Location,
    device: Device,
    signature_key: Option<String>,
    method: Option<String>,
    labels: Arc<[String]>,
    pub(super) sessions: Arc<Sessions>,
}

impl Model {
    /// Loads the model found at `location` and runs each of its sessions once. Blocks for as long as that
    /// takes.
    ///
    /// # Errors
    /// [`ModelError::Library`] and [`ModelError::Load`]. A failed first run is no error: a model may refuse
    /// the zeros it is tried with.
    pub(super) fn load(
        model: &ModelConfig,
        location: Location,
        config: &Config,
    ) -> Result<Model, ModelError> {
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
        let loaded = engines::load(&location, options, config)?;
        let Some(signature) = loaded.sessions.first().map(|session| Arc::clone(session.signature())) else {
            return Err(failed("instances must be at least 1".to_owned()));
        };
        let cores = (loaded.device == Device::Cpu).then_some(plan.threads);
        let Loaded { sessions, device, signature_key, method } = loaded;
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
}

impl Drop for Model {
    fn drop(&mut self) {
        // The runners end, and the last of them frees the sessions.
        self.sessions.queue.close();
    }
}

/// Reads the names of classes.
fn labels(file: &Path) -> Result<Arc<[String]>, String> {
    let failed = |reason: String| format!("labels `{}`: {reason}", file.display());
    let bytes = file::read(file, LARGEST_LABELS).map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("not UTF-8".to_owned()))?;
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}
