//! What each command does, once its arguments are parsed.
//!
//! Place in the flow: below `main.rs`. In: parsed arguments. Out: text on stdout, exit code 0, 1 or 2.
//! Invariant: stdout holds data only (addresses, answers); everything else goes to stderr.

mod admin;
pub mod apply;
pub mod bench;
pub mod build;
pub mod cache;
pub mod check;
pub mod demo;
pub mod dev;
pub mod diff;
pub mod documents;
pub mod inspect;
pub mod new;
pub mod operator;
pub mod replay;
pub mod run;
pub mod serve;
pub mod swap;
pub mod test;
mod signals;
mod systemd;
pub mod version;

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use modelhost_project::{CONFIG, beside};

use crate::cli;
use crate::config::{Overrides, Problems, settings};
use crate::telemetry::logs;

/// The settings of the project in a folder: its file.
///
/// # Errors
/// There is none.
fn project_config(folder: &Path) -> Result<Overrides, Failure> {
    let file = folder.join(CONFIG);
    if !file.is_file() {
        let (file, program) = (file.display(), cli::program());
        let hint = format!("`{program} new` makes a project that has one");
        return Err(Failure::Input(format!("there is no `{file}`\n  hint: {hint}")));
    }
    let mut overrides = Overrides::default();
    overrides.set(&settings::CONFIG, vec![file.display().to_string()]);
    Ok(overrides)
}

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Bad usage or configuration: exit code 2.
    #[error(transparent)]
    Usage(#[from] Problems),
    /// Bad usage that is no setting's: exit code 2.
    #[error("{0}")]
    Input(String),
    /// Two things differ, which has been shown: exit code 1.
    #[error("the two differ")]
    Differs,
    /// Anything else: exit code 1.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl From<modelhost_project::Failure> for Failure {
    fn from(failure: modelhost_project::Failure) -> Failure {
        match failure {
            modelhost_project::Failure::Input(text) => Failure::Input(text),
            modelhost_project::Failure::Failed(error) => Failure::Failed(error),
        }
    }
}

/// Reports a failure on stderr and turns the outcome into an exit code.
pub fn exit(outcome: Result<(), Failure>) -> i32 {
    let Err(failure) = outcome else { return 0 };
    if !matches!(failure, Failure::Differs) {
        // Nothing sensible is left to do if stderr is closed.
        let _ = writeln!(std::io::stderr(), "error: {failure}");
    }
    match failure {
        Failure::Usage(_) | Failure::Input(_) => 2,
        Failure::Failed(_) | Failure::Differs => 1,
    }
}

/// Reads one variable of the environment; one that is no text counts as unset.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Writes a line to stdout at once. A reader that has read enough (`host inspect … | head`) is no failure.
fn say(line: &str) -> anyhow::Result<()> {
    write(format!("{line}\n")).map(drop)
}

/// Writes to stdout at once, and says whether there is a reader still.
fn write(text: impl AsRef<[u8]>) -> anyhow::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => Ok(written.map(|()| true).context("cannot write to stdout")?),
    }
}

fn start_logs(config: &logs::Config) -> anyhow::Result<logs::Guard> {
    Ok(logs::init(config)?)
}

/// The runtime requests run on: a worker a core.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // A handler that runs for long moves to a thread of its own, see `plugin/deadline.rs`; there may be
        // as many as requests in flight.
        .max_blocking_threads(4096)
        .build()?)
}
