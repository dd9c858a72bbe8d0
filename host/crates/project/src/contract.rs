//! The contract's WIT, which the program has in it: written beside a project's world, and read for the
//! components that builds make.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use include_dir::{Dir, DirEntry, include_dir};

/// The folder `wit/` of the sources.
pub(crate) static CONTRACT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../wit");
/// The interfaces of libraries, each a package.
pub(crate) const LIBRARIES: &str = "library";
/// Packages of others that the contract names, a folder for each.
const OTHERS: &str = "deps";

/// Writes the contract as what a world in `folder` depends on: its package, those that it names, and those of
/// the libraries.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write_dependencies(folder: &Path) -> anyhow::Result<()> {
    let dependencies = folder.join("deps");
    write_files(&CONTRACT, &dependencies.join("modelhost"))?;
    for file in part(LIBRARIES)?.files() {
        let library = file.path().file_stem().unwrap_or_default().display().to_string();
        let folder = dependencies.join(format!("modelhost-{library}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{library}.wit")), file.contents())?;
    }
    for entry in part(OTHERS)?.entries() {
        if let DirEntry::Dir(package) = entry {
            let name = package.path().file_name().unwrap_or_default();
            write_files(package, &dependencies.join(name))?;
        }
    }
    Ok(())
}

/// A folder of the contract.
///
/// # Errors
/// There is none.
pub(crate) fn part(path: &str) -> anyhow::Result<&'static Dir<'static>> {
    CONTRACT.get_dir(path).context("the contract is incomplete")
}

pub(crate) fn is_wit(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "wit")
}

/// Writes the WIT files of a folder, not those below.
fn write_files(from: &Dir<'_>, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for file in from.files().filter(|file| is_wit(file.path())) {
        fs::write(to.join(file.path().file_name().unwrap_or_default()), file.contents())?;
    }
    Ok(())
}
