//! `host --version`: the version, what it was built from, and the engines that this machine has for it.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::commands::{Failure, environment, say};
use crate::model::library::LibraryError;
use crate::model::{self, engines};
use crate::{cli, plugin};

/// Prints the version; `long` also the commit and the engines, whose libraries are opened for it.
///
/// # Errors
/// None but a stdout that cannot be written to.
pub fn version(long: bool) -> Result<(), Failure> {
    let mut text = format!("{} {}", cli::program(), env!("CARGO_PKG_VERSION"));
    if long {
        let path = |name| environment(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let config = model::Config {
            onnxruntime: path("MODELHOST_ONNXRUNTIME_LIB"),
            tensorflow: path("MODELHOST_TENSORFLOW_LIB"),
        };
        let mut row = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {name:<14} {value}");
        };
        row("commit", env!("MODELHOST_COMMIT"));
        row("contract", plugin::CONTRACT);
        row("wasmtime", plugin::WASMTIME);
        for (name, found) in engines::installed(&config) {
            match found {
                Ok(found) => row(name, &found.to_string()),
                Err(LibraryError::NotFound { .. }) => row(name, "not found"),
                // What to do about it is for those who start a model.
                Err(error) => row(name, error.to_string().lines().next().unwrap_or_default()),
            }
        }
    }
    Ok(say(&text)?)
}
