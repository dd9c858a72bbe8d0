//! `host completions` and `host man`: texts that are made of the command line's definition.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::{self, Shell};
use crate::commands::{Failure, write};

/// Prints what makes `shell` complete the program.
///
/// # Errors
/// None but a stdout that cannot be written to.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    Ok(write(cli::completions(shell)).map(drop)?)
}

/// Writes the pages of the manual into `folder`.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn man(folder: &Path) -> Result<(), Failure> {
    let written = fs::create_dir_all(folder).and_then(|()| cli::write_manual(folder));
    Ok(written.with_context(|| format!("cannot write to `{}`", folder.display()))?)
}
