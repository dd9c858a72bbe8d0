//! ONNX Runtime: the engine of ONNX models, and the only place that names it.
//!
//! Flow: `engine → [onnx] → ONNX Runtime`.
//! - `library` loads its shared library, once for the process;
//! - `session` is one loaded copy of a model.

use std::path::Path;

use super::engine::{self, LoadError, Loaded, Options};
use super::{Config, Device};

mod library;
mod session;

use session::Session;

/// Loads the model at `path` once per session. Each session holds its own copy of the weights.
///
/// # Errors
/// No library, no such device, or no model that can be served.
pub fn load(path: &Path, options: Options<'_>, config: &Config) -> Result<Loaded, LoadError> {
    let environment = library::load(config.onnxruntime.as_deref())?;
    if options.signature_key.is_some() {
        let text = "`signature_key` selects a signature of a SavedModel; an ONNX model has one, so remove it";
        return Err(text.to_owned().into());
    }
    let session = || -> Result<Box<dyn engine::Session>, String> {
        Ok(Box::new(Session::load(&environment, path, options.device, options.threads)?))
    };
    let sessions = (0..options.sessions).map(|_| session()).collect::<Result<_, _>>()?;
    Ok(Loaded { sessions, device: Device::Cpu })
}
