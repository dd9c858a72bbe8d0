//! The signals that end a command which serves.
//!
//! In: SIGTERM, Ctrl-C. Out: a future.

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
