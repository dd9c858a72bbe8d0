//! Handler projects: made of templates or of another server's project, and built to components.
//!
//! Place in the flow: above `modelhost-base`; `new`, `build` and `dev` of the crate `host` call it.
//! In: names, folders. Out: folders, components, and what there is to say of them.
//! Invariants: nothing of wasmtime's, no server; nothing is printed on stdout, where a command's data goes.

pub mod build;
pub mod new;

pub mod contract;

use std::path::{Path, PathBuf};

use modelhost_base::{file, program, text, values};

/// The configuration of a project, in its folder.
pub const CONFIG: &str = "modelhost.toml";

/// The places of what comes with the program at `executable`: below the prefix that it is installed in, and
/// below the sources that it was built of.
pub fn beside(executable: &Path, installed: &str, built: &str) -> impl Iterator<Item = PathBuf> + use<> {
    // `PREFIX/bin/modelhost`, `SOURCES/target/PROFILE/host`.
    let below = |levels, path| executable.ancestors().nth(levels).map(|folder: &Path| folder.join(path));
    below(2, installed).into_iter().chain(below(3, built))
}

/// Why a project was not made or built.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Input(String),
    /// Anything else.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}
