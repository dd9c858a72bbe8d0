//! `host serve`: serves endpoints until SIGTERM or Ctrl-C.
//!
//! Out: `listening on http://HOST:PORT` (`https` with TLS), the admin address and, if there is one, gRPC's on
//! stdout, when everything is ready, which a service manager is told too; logs on stderr.

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::app::{App, ReloadReason};
use crate::commands::signals::stop;
use crate::commands::{Failure, environment, runtime, say, start_logs, systemd};
use crate::config::{self, Overrides};
use crate::text::on_one_line;

/// Runs the command.
///
/// # Errors
/// A bad configuration, or a resource that cannot be had at start.
pub fn serve(overrides: &Overrides) -> Result<(), Failure> {
    serve_then(overrides, |_| Ok(()))
}

/// The same; `ready` is called once, when everything is, after the addresses were printed, and gets them.
pub(super) fn serve_then(
    overrides: &Overrides,
    ready: impl FnOnce(&[String]) -> anyhow::Result<()>,
) -> Result<(), Failure> {
    let config = config::serve(overrides, &environment)?;
    let _logs = start_logs(&config.logs)?;
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        // Listened for from here on: a signal during start ends the process in order, too.
        let mut stop = std::pin::pin!(stop()?);
        let changes = hangups()?;
        let app = tokio::select! {
            app = App::build(config) => app?,
            () = &mut stop => return Ok(()),
        };
        let announcement = app.announcement();
        for line in &announcement {
            say(line)?;
        }
        systemd::notify("READY=1");
        ready(&announcement)?;
        let stop = async {
            stop.await;
            systemd::notify("STOPPING=1");
        };
        let read = |text: Option<&str>| {
            let config = config::serve_text(overrides, &environment, text);
            config.map_err(|problems| on_one_line(&problems))
        };
        app.run(stop, changes, read).await
    });
    // What is still running has had its time.
    runtime.shutdown_background();
    Ok(outcome?)
}

/// Yields at every SIGHUP. One that comes because the terminal is gone means what Ctrl-C means there.
fn hangups() -> anyhow::Result<mpsc::Receiver<ReloadReason>> {
    use std::io::{IsTerminal as _, stdin};
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())?;
    let had_terminal = stdin().is_terminal();
    // Requests during a reload get one more reload after it, and only one.
    let (ask, asked) = mpsc::channel(1);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            if had_terminal && !stdin().is_terminal() {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
                    .unwrap_or_default();
            } else if let Err(TrySendError::Closed(_)) = ask.try_send(ReloadReason::Reload) {
                break;
            }
        }
    });
    Ok(asked)
}
