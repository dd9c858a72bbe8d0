//! Finds an engine's shared library: the same search for both engines.
//!
//! Place in the flow: before the first model of an engine is loaded; never on the request path.
//! In:   what the library is called ([`Library`]), what was asked for by name, the environment, the file
//!       system.
//! Out:  the first candidate that opens, or an error that says where was looked and what brings the library.
//!
//! The order, first hit wins:
//! 1. what was asked for by name: the configuration, then the engine's own environment variable if it has
//!    one;
//! 2. the engine's package in the Python environment that the host itself is installed in, active or not;
//! 3. `$XDG_DATA_HOME/modelhost/lib` (`~/.local/share/modelhost/lib`) or the engine's folder in it;
//! 4. its package in the active Python environment: `$VIRTUAL_ENV`, `$CONDA_PREFIX`, the `python3` on `PATH`,
//!    the user's own packages;
//! 5. what the system's loader finds, then the usual folders.
//!
//! Invariants: what was asked for by name is used or is an error, never replaced by something found
//! elsewhere; this file opens nothing itself, so its tests need no library.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders under `/` that the system's loader may not know of.
const SYSTEM_FOLDERS: [&str; 5] =
    ["usr/local/lib", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "opt/homebrew/lib"];

/// The names of an engine's library, and the places where its makers and ours put it.
#[derive(Debug)]
pub struct Library {
    /// The engine, for messages: `ONNX Runtime`.
    pub engine: &'static str,
    /// The beginning of the file's name, `libonnxruntime`; see [`file_name`] for the rest.
    pub stem: &'static str,
    /// The version in the name that the system's loader is asked for.
    pub major: &'static str,
    /// The environment variable that names the file if the configuration does not.
    pub variable: Option<&'static str>,
    /// Our own folder, below the user's data folder.
    pub folder: &'static str,
    /// The folder in a Python environment's packages.
    pub package: &'static str,
    /// The command that brings the library if there is none.
    pub cure: String,
    /// The hint for a library that was asked for and does not work.
    pub cure_unusable: String,
}

/// Why there is no library. The text is for the operator, at start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum LibraryError {
    /// Nowhere.
    #[error(
        "{engine}'s library ({file}) was not found; looked at:\n{}\n  hint: {hint}",
        .looked_at.iter().map(|place| format!("  - {place}")).collect::<Vec<_>>().join("\n")
    )]
    NotFound { engine: &'static str, file: String, looked_at: Vec<String>, hint: String },
    /// The one that was asked for does not do.
    #[error("cannot use `{}` (from {origin}) as {engine}: {reason}\n  hint: {hint}", path.display())]
    Unusable { engine: &'static str, path: PathBuf, origin: &'static str, reason: String, hint: String },
    /// The library is there and would not start.
    #[error("{engine} did not start: {reason}")]
    Start { engine: &'static str, reason: String },
}

/// How a library of this version is called: `libonnxruntime.so.1.31.1` on Linux,
/// `libonnxruntime.1.31.1.dylib` on macOS, both without the number for `""`.
pub fn file_name(stem: &str, version: &str) -> String {
    let version = if version.is_empty() { String::new() } else { format!(".{version}") };
    if cfg!(target_os = "macos") { format!("{stem}{version}.dylib") } else { format!("{stem}.so{version}") }
}

/// Where to look, in order.
#[derive(Debug)]
pub struct Search {
    library: Library,
    /// Asked for by name, with who asked.
    named: Option<(PathBuf, &'static str)>,
    /// Looked through otherwise.
    places: Vec<Place>,
}

#[derive(Debug)]
enum Place {
    /// Any version in this folder, the newest first.
    Folder(PathBuf),
    /// A name for the system's loader, which looks where it likes.
    Loader(PathBuf),
}

impl Search {
    /// Looks on this machine, for this process; `configured` is a file.
    pub fn here(library: Library, configured: Option<PathBuf>) -> Search {
        let executable = env::current_exe().ok();
        Search::new(library, configured, executable.as_deref(), |name| env::var_os(name), Path::new("/"))
    }

    /// `configured` is a file, `executable` this process's own; `variable` reads the environment; `root` is
    /// `/` outside tests.
    pub fn new(
        library: Library,
        configured: Option<PathBuf>,
        executable: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
        root: &Path,
    ) -> Search {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = configured
            .map(|path| (path, "the configuration"))
            .or_else(|| library.variable.and_then(|name| Some((path(name)?, name))));

        let home = path("HOME");
        let data = path("XDG_DATA_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| home.as_ref().map(|home| home.join(".local/share")));
        let own = executable.into_iter().flat_map(|file| own_folders(file, library.package));
        let mut folders: Vec<PathBuf> = own.chain(data.map(|data| data.join(library.folder))).collect();
        let active = [path("VIRTUAL_ENV"), path("CONDA_PREFIX")].into_iter().flatten();
        let on_path = variable("PATH").as_deref().map(python_prefixes).unwrap_or_default();
        let shared =
            [home.map(|home| home.join(".local")), Some(root.join("usr/local"))].into_iter().flatten();
        let prefixes = active.chain(on_path).chain(shared);
        folders.extend(prefixes.flat_map(|prefix| package_folders(&prefix, library.package)));

        let mut places: Vec<Place> = folders.into_iter().map(Place::Folder).collect();
        let names = ["", library.major].map(|version| file_name(library.stem, version));
        places.extend(names.map(|name| Place::Loader(name.into())));
        places.extend(SYSTEM_FOLDERS.map(|folder| Place::Folder(root.join(folder))));
        Search { library, named, places }
    }

    /// Opens candidates in order until one does. `open` gives the operator's words for one that does not.
    ///
    /// # Errors
    /// [`LibraryError::NotFound`] and [`LibraryError::Unusable`].
    pub fn first_usable<T>(
        self,
        open: impl Fn(&Path) -> Result<T, String>,
    ) -> Result<(PathBuf, T), LibraryError> {
        let Library { engine, stem, variable, cure, cure_unusable, .. } = self.library;
        if let Some((path, origin)) = self.named {
            // The loader would take a relative path for one that starts at the executable.
            let path = std::path::absolute(&path).unwrap_or(path);
            return match open(&path) {
                Ok(library) => Ok((path, library)),
                Err(reason) => {
                    Err(LibraryError::Unusable { engine, path, origin, reason, hint: cure_unusable })
                }
            };
        }
        let file = file_name(stem, "");
        let mut looked_at = vec![match variable {
            Some(variable) => format!("the configuration and {variable}: neither is set"),
            None => "the configuration: it names none".to_owned(),
        }];
        for place in self.places {
            let candidates = match place {
                Place::Loader(name) => vec![name],
                Place::Folder(folder) => {
                    let versions = versions_in(&folder, stem);
                    if versions.is_empty() {
                        looked_at.push(format!("{}: no {file}", folder.display()));
                    }
                    versions
                }
            };
            for path in candidates {
                match open(&path) {
                    Ok(library) => return Ok((path, library)),
                    Err(reason) => looked_at.push(format!("{}: {reason}", path.display())),
                }
            }
        }
        Err(LibraryError::NotFound { engine, file, looked_at, hint: cure })
    }
}

/// Where a Python package keeps its library, in the environment that `executable` is installed in: as a
/// script (`venv/bin/host`), or among a package's files (`venv/lib/python3.11/site-packages/…/host`).
fn own_folders(executable: &Path, package: &str) -> Vec<PathBuf> {
    let is_packages = |folder: &&Path| folder.ends_with("site-packages") || folder.ends_with("dist-packages");
    let beside = executable.ancestors().find(is_packages).map(|packages| packages.join(package));
    let prefix = executable.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    beside.into_iter().chain(prefix.into_iter().flat_map(|prefix| package_folders(prefix, package))).collect()
}

/// The prefixes (`/usr` for `/usr/bin/python3`) that the first `python3` on `path` may belong to: where it
/// lies, which for a virtual environment is the environment, and where it really lies.
fn python_prefixes(path: &OsStr) -> Vec<PathBuf> {
    let Some(python) =
        env::split_paths(path).map(|folder| folder.join("python3")).find(|file| file.is_file())
    else {
        return Vec::new();
    };
    let prefix = |python: &Path| Some(python.parent()?.parent()?.to_owned());
    let mut prefixes: Vec<PathBuf> = prefix(&python).into_iter().collect();
    prefixes.extend(fs::canonicalize(&python).ok().and_then(|python| prefix(&python)));
    prefixes.dedup();
    prefixes
}

/// Where a Python package keeps its library, for every Python version under `prefix`.
fn package_folders(prefix: &Path, package: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for python in entries(&prefix.join("lib")).filter(|entry| entry.starts_with("python3")) {
        for packages in ["site-packages", "dist-packages"] {
            let packages = prefix.join("lib").join(&python).join(packages);
            if packages.is_dir() {
                folders.push(packages.join(package));
            }
        }
    }
    // Neither readdir's order nor a version in a folder's name means anything; only keep it the same every
    // time.
    folders.sort();
    folders
}

/// The library files in `folder`, newest first.
fn versions_in(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let mut versions: Vec<(Vec<u64>, String)> =
        entries(folder).filter_map(|name| Some((version(&name, stem)?, name))).collect();
    versions.sort_by_key(|version| Reverse(version.clone()));
    versions.into_iter().map(|(_, name)| folder.join(name)).collect()
}

/// `[1, 31, 1]` for `libonnxruntime.so.1.31.1`, `[]` without a version, `None` for any other file. See
/// [`file_name`].
fn version(name: &str, stem: &str) -> Option<Vec<u64>> {
    let rest = name.strip_prefix(stem)?;
    let numbers =
        if cfg!(target_os = "macos") { rest.strip_suffix(".dylib") } else { rest.strip_prefix(".so") };
    let mut parts = numbers?.split('.');
    if parts.next() != Some("") {
        return None;
    }
    parts.map(|part| part.parse().ok()).collect()
}

/// The version in the name of a library's file: `1.31.1`.
pub fn file_version(path: &Path, stem: &str) -> Option<String> {
    let numbers = version(path.file_name()?.to_str()?, stem)?;
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    (!numbers.is_empty()).then(|| numbers.join("."))
}

/// Names in `folder`; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

#[cfg(test)]
mod tests;
