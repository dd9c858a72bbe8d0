//! ONNX Runtime: the engine of ONNX models, and the only place that names it.
//!
//! Flow: `engine → [onnx] → ONNX Runtime`.
//! - `library` loads its shared library, once for the process;
//! - `session` is one loaded copy of a model, `value` what goes in and comes out, `compound` what comes out
//!   and is no tensor, `api` what a run of it calls;
//! - `cuda` puts a session on a GPU, `pinned` is the way of its values to and from there.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tracing::{debug, info};

use super::config::{Config, Device};
use super::engine::{self, LoadError, Loaded, Options};
use super::plan::TINY;
use crate::file;

mod api;
mod compound;
mod cuda;
pub mod library;
mod pinned;
mod session;
mod value;

use session::Session;

/// Loads the model at `path`: once on the CPU, where its sessions share the weights and the helper threads,
/// unless it is tiny; on a GPU once per session.
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
        let shared = !matches!(device, Device::Cuda(_)) && !is_tiny(path);
        // A run works on the thread that makes it, and with the helpers that are free.
        let helpers =
            options.threads.saturating_sub(1).saturating_mul(if shared { options.sessions } else { 1 });
        let load = || Session::load(&environment, path, device, options.device_memory, helpers + 1);
        let first = load()?;
        let others = (1..count).map(|_| if shared { Ok(first.sharing()) } else { load() });
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let boxed = |session| -> Box<dyn engine::Session> { Box::new(session) };
        let sessions = [first].into_iter().chain(others).take(count).map(boxed).collect();
        Ok(Loaded { sessions, device, signature_key: None, method: None })
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
                say_cpu(path, reason.lines().next().unwrap_or_default());
                on(Device::Cpu, options.sessions)
            }
        },
    };
    Ok(loaded?)
}

/// Logs why a model is on the CPU; a reason that is the last model's too, as a library for the CPU is, with
/// the level `debug`.
fn say_cpu(path: &Path, reason: &str) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if *last == reason {
        debug!(model.path = %path.display(), reason, "device `auto`: the CPU");
        return;
    }
    reason.clone_into(&mut last);
    info!(model.path = %path.display(), reason, "device `auto`: the CPU");
}

/// Whether a copy for each session costs next to nothing: less than sharing one, since each run counts itself
/// among the users of every weight, and cores that do so at the same time wait for each other.
fn is_tiny(path: &Path) -> bool {
    // Under this key a model says which other file holds some of its weights.
    const ELSEWHERE: &[u8] = b"location";
    file::read(path, TINY)
        .is_ok_and(|model| !model.windows(ELSEWHERE.len()).any(|window| window == ELSEWHERE))
}
