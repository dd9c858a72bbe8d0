//! The signals that end a command which serves, or builds.
//!
//! In: SIGTERM, Ctrl-C. Out: a future, or a question.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::telemetry::logs;

/// How soon after the first signal another one means the same: what stops a process group often signals it
/// twice.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Resolves at the first SIGTERM or Ctrl-C. Another Ctrl-C later on ends the process at once; SIGTERM never
/// does more than the first time.
pub(super) fn stop() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::spawn(async move {
            let first = Instant::now();
            while interrupt.recv().await.is_some() {
                if first.elapsed() >= SAME_WISH {
                    tracing::warn!("stopped at once by another Ctrl-C");
                    logs::flush();
                    std::process::exit(1);
                }
            }
        });
    })
}

/// Whether one of the two has come; from now on none of them ends the process by itself.
pub(super) fn is_signalled() -> anyhow::Result<impl Fn() -> bool + Send + 'static> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signalled = Arc::<AtomicBool>::default();
    let told = signalled.clone();
    let stopped = {
        let _entered = runtime.enter();
        stop()?
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(stopped);
        told.store(true, Ordering::Relaxed);
    })?;
    Ok(move || signalled.load(Ordering::Relaxed))
}
