//! What an inference engine is to the rest of the host: a library on this machine, and sessions that it
//! loads.
//!
//! Flow: `sessions → [engine] ← onnx | tensorflow`; the list of engines is in [`engines`](super::engines).
//! In:   the inputs of one run. Out: its outputs.

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;

use super::config::Device;
use super::error::ModelError;
use super::library::LibraryError;
use crate::tensor::{Signature, Tensor};

/// A model that is ready to run, once at a time.
pub trait Session: Send + Debug {
    /// The inputs and outputs of the model. The same for all sessions of a model.
    fn signature(&self) -> &Arc<Signature>;

    /// Runs the model once; blocks until it is done. A failed run leaves the session as it was.
    ///
    /// `inputs` are in signature order, named as there, and fit it; only optional ones may be left out. The
    /// outputs are in signature order too, and named as there.
    ///
    /// # Errors
    /// [`ModelError::Input`] for a value that the engine has no form for, before anything ran;
    /// [`ModelError::Run`] if the engine fails.
    fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, ModelError>;

    /// Whether a run takes longer if its inputs have other shapes than the last one's, because operators are
    /// prepared for them.
    fn prepares_for_shapes(&self) -> bool {
        false
    }
}

/// That there are as many inputs as the model takes, before an engine pairs them up.
///
/// # Errors
/// [`ModelError::Input`].
pub fn check_count(signature: &Signature, inputs: &[Tensor]) -> Result<(), ModelError> {
    let (least, most, actual) = (signature.required().len(), signature.inputs.len(), inputs.len());
    match (least..=most).contains(&actual) {
        true => Ok(()),
        false => Err(ModelError::Input(format!("expected {least} inputs, got {actual}"))),
    }
}

/// How a model is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Where it runs.
    pub device: Device,
    /// Most memory of a GPU that each session may take, in bytes; `None` sets no limit.
    pub device_memory: Option<u64>,
    /// How many sessions, if it runs on the CPU; at least 1.
    pub sessions: usize,
    /// How many sessions, if it runs on a GPU; at least 1.
    pub gpu_sessions: usize,
    /// Threads of one run, for models that choose; at least 1. Runs of sessions that share a copy of the
    /// model lend each other theirs.
    pub threads: usize,
    /// Which signature of a SavedModel is served; `None` chooses by its rule.
    pub signature_key: Option<&'a str>,
}

/// A loaded model.
#[derive(Debug)]
pub struct Loaded {
    /// As many as were asked for on this device.
    pub sessions: Vec<Box<dyn Session>>,
    /// Where they run: [`Device::Auto`] is decided by now.
    pub device: Device,
    /// Which signature of a SavedModel it is; `None` where there is no choice.
    pub signature_key: Option<String>,
    /// The call by which TensorFlow Serving's clients reach that signature; `None` where it does not say.
    pub method: Option<String>,
}

/// An engine's library on this machine.
#[derive(Debug)]
pub struct Installed {
    /// The path that it was opened by, links resolved.
    pub path: PathBuf,
    /// `None` if it does not tell.
    pub version: Option<String>,
}

impl fmt::Display for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("of unknown version");
        write!(f, "{version} ({})", self.path.display())
    }
}

/// Why an engine could not load a model.
#[derive(Debug)]
pub enum LoadError {
    /// Its library is not there or not usable.
    Library(LibraryError),
    /// Text for the operator: the engine's words, or what is wrong with the model.
    Model(String),
}

impl From<LibraryError> for LoadError {
    fn from(error: LibraryError) -> LoadError {
        LoadError::Library(error)
    }
}

impl From<String> for LoadError {
    fn from(reason: String) -> LoadError {
        LoadError::Model(reason)
    }
}
