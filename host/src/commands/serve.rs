//! `host serve`: serves endpoints until SIGTERM or Ctrl-C.
//!
//! Out: `listening on http://HOST:PORT` and the admin address on stdout, when everything is ready; logs on stderr.

use crate::app::App;
use crate::commands::{Failure, environment, runtime, say, start_logs};
use crate::config::{self, Overrides};

/// Runs the command.
///
/// # Errors
/// A bad configuration, or whatever cannot be had at start.
pub fn serve(overrides: &Overrides) -> Result<(), Failure> {
    let config = config::serve(overrides, &environment)?;
    start_logs(&config.logs)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        // Listened for from here on: a signal during start ends the process in order, too.
        let stop = signals()?;
        let app = App::build(config).await?;
        let (main, admin) = app.addresses().map_err(anyhow::Error::from)?;
        say(&format!("listening on http://{main}"))?;
        say(&format!("admin on http://{admin}"))?;
        app.run(stop).await
    });
    // What is still running has had its time.
    runtime.shutdown_background();
    Ok(outcome?)
}

/// Resolves at the first SIGTERM or Ctrl-C. A second one ends the process at once.
fn signals() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::warn!("stopped at once by a second signal");
            std::process::exit(1);
        });
    })
}
