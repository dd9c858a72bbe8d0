//! What other programs read of the command line: completions for shells, pages for `man`.
//!
//! In: the definition in `cli.rs`, whose flags are the settings' rows, as those of docs/reference.md are.
//! Out: a script, or files in a folder.

use std::io;
use std::path::Path;

pub use clap_complete::Shell;

use super::{command, program};

/// The script that makes `shell` complete the program, under the name it was called by.
pub fn completions(shell: Shell) -> Vec<u8> {
    let name = program();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(&name), &name, &mut script);
    script
}

/// Writes the manual of the installed program into `folder`: `modelhost.1`, `modelhost-serve.1`, …
///
/// # Errors
/// A page cannot be written.
pub fn write_manual(folder: &Path) -> io::Result<()> {
    let mut command = command(super::NAME).version(env!("CARGO_PKG_VERSION"));
    command.build();
    clap_mangen::generate_to(with_usage(command), folder)
}

/// The same whose synopsis is the usage of `--help`, in place of a list of all flags, which are 200.
fn with_usage(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    command.override_usage(usage.trim_start_matches("Usage: ").to_owned()).mut_subcommands(with_usage)
}
