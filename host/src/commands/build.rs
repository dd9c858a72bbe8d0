//! `host build`: a handler project to a component.
//!
//! In: a folder whose manifest tells the language. Out: `handler.wasm` beside the manifest, by
//! `modelhost-project`; on stdout its size and the time.

use anyhow::anyhow;
use modelhost_project::build::Settings;
pub(super) use modelhost_project::build::{COMPONENT, Interrupted, Project, Remedy};

use crate::cli;
use crate::commands::signals::is_signalled;
use crate::commands::{CONFIG, Failure, say};
use crate::config;

/// The readers of a project's configuration.
pub(super) const SETTINGS: Settings = Settings {
    libraries: |path| config::libraries(path).map_err(|problems| anyhow!("{problems}")),
    js_engine: |path| config::js_engine(path).map_err(|problems| anyhow!("{problems}")),
};

/// Runs the command.
///
/// # Errors
/// The folder is no project, a tool is missing, or the handler does not build.
pub fn build(arguments: &cli::Build) -> Result<(), Failure> {
    // A signal to this process alone has to end the tools as well.
    let project = Project::open(&arguments.folder, SETTINGS)?.interrupted_if(is_signalled()?);
    // What is wrong there is said before anything is built.
    config::libraries(&project.folder.join(CONFIG))?;
    Ok(say(&project.build()?.to_string())?)
}
