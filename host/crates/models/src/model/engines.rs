//! The engines: which of them loads a model.
//!
//! Flow: `loaded → [engines] → onnx | tensorflow`.
//! In:   where a model lies, and how it is to be loaded. Out: its sessions, each for one run at a time.
//!
//! Invariant: nothing above this file knows which engine runs. A third engine is a folder beside the two, a
//! format in `location.rs`, and a line in [`load`] and [`installed`].

use super::config::Config;
use super::engine::{Installed, LoadError, Loaded, Options};
use super::error::ModelError;
use super::library::LibraryError;
use super::location::{Format, Location};
use super::{onnx, tensorflow};

/// Loads a model with the engine that its format needs. Blocks, possibly for seconds.
///
/// # Errors
/// [`ModelError::Library`] without the engine's library, [`ModelError::Load`] for everything that is wrong
/// with the model or the device.
pub fn load(location: &Location, options: Options<'_>, config: &Config) -> Result<Loaded, ModelError> {
    let loaded = match location.format {
        Format::Onnx => onnx::load(&location.path, options, config),
        Format::SavedModel => tensorflow::load(&location.path, options, config),
    };
    loaded.map_err(|error| match error {
        LoadError::Library(error) => ModelError::Library(error),
        LoadError::Model(reason) => ModelError::Load { path: location.path.clone(), reason },
    })
}

/// The engines by name, each with the library that models would be loaded with. Opens them, for good.
pub fn installed(config: &Config) -> [(&'static str, Result<Installed, LibraryError>); 2] {
    let (onnx, tensorflow) = (config.onnxruntime.as_deref(), config.tensorflow.as_deref());
    [
        (onnx::library::ENGINE, onnx::library::installed(onnx)),
        (tensorflow::library::ENGINE, tensorflow::library::installed(tensorflow)),
    ]
}
