//! ONNX Runtime: the engine of ONNX models, and the only place that names it.
//!
//! Flow: `engine → [onnx] → ONNX Runtime`.
//! - `library` loads its shared library, once for the process;
//! - `session` is one loaded copy of a model, `value` what goes in and comes out, `compound` what comes out
//!   and is no tensor, `api` what a run of it calls;
//! - `cuda` puts a session on a GPU, `pinned` is the way of its values to and from there.

use std::path::Path;

use tracing::info;

use super::engine::{self, LoadError, Loaded, Options};
use super::{Config, Device};

mod api;
mod compound;
mod cuda;
mod library;
mod pinned;
mod session;
mod value;

use session::Session;

/// Loads the model at `path`: once on the CPU, where its sessions share the weights and the helper threads;
/// on a GPU once per session.
///
/// # Errors
/// No library, no such device, or no model that can be served.
pub fn load(path: &Path, options: Options<'_>, config: &Config) -> Result<Loaded, LoadError> {
    let environment = library::load(config.onnxruntime.as_deref())?;
    if options.signature_key.is_some() {
        let text = "`signature_key` selects a signature of a SavedModel; an ONNX model has one, so remove it";
        return Err(text.to_owned().into());
    }
    let on = |device: Device, count: usize| -> Result<Loaded, String> {
        // A run works on the thread that makes it, and with the helpers that are free.
        let threads = options.threads.saturating_sub(1).saturating_mul(options.sessions).saturating_add(1);
        let load = || Session::load(&environment, path, device, options.device_memory, threads);
        let first = load()?;
        let others = (1..count).map(|_| match device {
            Device::Cuda(_) => load(),
            Device::Auto | Device::Cpu => Ok(first.sharing()),
        });
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let boxed = |session| -> Box<dyn engine::Session> { Box::new(session) };
        let sessions = [first].into_iter().chain(others).take(count).map(boxed).collect();
        Ok(Loaded { sessions, device, signature_key: None })
    };
    let loaded = match options.device {
        Device::Cpu => on(Device::Cpu, options.sessions),
        Device::Cuda(_) => on(options.device, options.gpu_sessions),
        Device::Auto => match on(Device::Cuda(0), options.gpu_sessions) {
            Ok(loaded) => {
                info!(model.path = %path.display(), "device `auto`: `cuda:0`, a session was created on it");
                Ok(loaded)
            }
            Err(reason) => {
                // The hint is for those who asked for a GPU.
                let reason = reason.lines().next().unwrap_or_default();
                info!(model.path = %path.display(), reason, "device `auto`: the CPU");
                on(Device::Cpu, options.sessions)
            }
        },
    };
    Ok(loaded?)
}
