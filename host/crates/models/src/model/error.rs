//! Why a model could not be loaded or run.
//!
//! Place in the flow: every file of this folder returns it; the pipeline makes a request's error of it.

use std::path::PathBuf;

use super::library::LibraryError;

/// Why a model could not be loaded or run.
///
/// The first two are for the operator at start and name files. [`ModelError::Input`] is fit for a caller;
/// [`ModelError::Run`] holds the engine's own words, which may name its source files, and is for the log.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The engine's library is not there or not usable.
    #[error(transparent)]
    Library(#[from] LibraryError),
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
