//! `host new`: a handler project that stands alone.
//!
//! In: a name, a language and a template; or a name and a project of another system. Out: a folder with all
//! that building, testing and serving take, by `modelhost-project`; on stdout what to do next.

use modelhost_project::new::{Language, create, migrate};

use crate::cli;
use crate::commands::{Failure, say};

/// Runs the command.
///
/// # Errors
/// The name is none, the folder is there already, or cannot be written.
pub fn new(arguments: &cli::New) -> Result<(), Failure> {
    let name = arguments.name.as_str();
    let said = match &arguments.from {
        Some(old) => migrate(name, old, arguments.api.as_deref())?,
        None => create(name, arguments.lang.unwrap_or(Language::Rust), arguments.template)?,
    };
    Ok(say(&said)?)
}
