//! TensorFlow: the engine of SavedModels, and the only place that names it.
//!
//! Flow: `engine → [tensorflow] → TensorFlow's C library`.
//! - [`saved_model`] reads what a SavedModel says of itself, without TensorFlow; `proto` is the format it
//!   reads;
//! - `library` loads the shared library, once for the process, when the first SavedModel is to be loaded;
//! - [`api`] is that library made safe, the engine's only unsafe code;
//! - `lines` is what the library logs;
//! - `session` is one model at work.
//!
//! Sessions are cheap: TensorFlow runs one loaded model for any number of threads, so all sessions share it
//! and its weights. Each run stays on the thread that asks for it.
//!
//! TensorFlow writes its own log to stderr; `lines` makes lines of ours of it. A run that fails leaves one
//! that may quote values; `main.rs` sees to it that only errors come, and what the library says while it is
//! loaded, before it looks for a level.
//!
//! A SavedModel is a program: TensorFlow lets it read and write files. Unlike a handler it is not sandboxed,
//! so only models from trusted sources may be served.

use std::path::Path;
use std::sync::Arc;

use tracing::debug;

use super::config::{Config, Device};
use super::engine::{self, LoadError, Loaded, Options};

mod api;
pub mod library;
mod lines;
mod proto;
mod saved_model;
mod session;

use saved_model::Servable;
use session::Session;

/// Loads the SavedModel in `folder` once, for all sessions.
///
/// # Errors
/// No library, no such device or signature, or no model that can be served.
pub fn load(folder: &Path, options: Options<'_>, config: &Config) -> Result<Loaded, LoadError> {
    if let Device::Cuda(index) = options.device {
        return Err(format!("device `cuda:{index}`: this build runs SavedModels on the CPU only").into());
    }
    if options.device == Device::Auto {
        debug!(model.path = %folder.display(), "device `auto`: the CPU, the only one this build runs SavedModels on");
    }
    // First what needs no library: a wrong signature key is found out without 600 MB.
    let servable = Servable::read(folder, options.signature_key)?;
    let api = library::load(config.tensorflow.as_deref())?;
    if options.threads > 1 {
        debug!(
            model.threads = options.threads,
            "TensorFlow runs a SavedModel on the thread that asks for it: `threads` has no effect"
        );
    }
    let graph = api::Graph::load(api, folder, saved_model::TAG, &servable.inputs, &servable.outputs)?;
    let (graph, signature) = (Arc::new(graph), Arc::new(servable.signature));
    let session = |_| -> Box<dyn engine::Session> {
        Box::new(Session::new(Arc::clone(&graph), Arc::clone(&signature)))
    };
    let sessions = (0..options.sessions).map(session).collect();
    Ok(Loaded {
        sessions,
        device: Device::Cpu,
        signature_key: Some(servable.key),
        method: Some(servable.method),
    })
}

#[cfg(test)]
mod tests;
