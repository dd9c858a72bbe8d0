//! Finds ONNX Runtime's shared library and loads it, once for the process.
//!
//! Place in the flow: before the first model is loaded; never on the request path.
//! In:   the configured path, the environment variables, the file system.
//! Out:  the process's one [`Environment`], or an error that says where was looked and what brings the library.
//!
//! The order, first hit wins:
//! 1. the configuration;
//! 2. `ORT_DYLIB_PATH`;
//! 3. `$XDG_DATA_HOME/modelhost/lib` (`~/.local/share/modelhost/lib`), where `make setup` puts it;
//! 4. the active Python environment's `onnxruntime` package: `$VIRTUAL_ENV`, `$CONDA_PREFIX`, the `python3` on
//!    `PATH`, the user's own packages;
//! 5. what the system's loader finds, then the usual folders.
//!
//! Invariants: what was asked for by name (1 and 2) is used or is an error, never replaced by something found
//! elsewhere; a file that is not the library, or too old a one, is an error and not a crash.

use std::cmp::Reverse;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

use ort::LoadDynamicError;
use ort::environment::Environment;
use ort::logging::LogLevel;
use tracing::{debug, info, trace, warn};

#[cfg(target_os = "macos")]
const FILE_NAME: &str = "libonnxruntime.dylib";
#[cfg(not(target_os = "macos"))]
const FILE_NAME: &str = "libonnxruntime.so";

/// Folders under `/` that the system's loader may not know of.
const SYSTEM_FOLDERS: [&str; 5] =
    ["usr/local/lib", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "opt/homebrew/lib"];

/// The loaded library. It is never unloaded: sessions and tensors of it may live as long as the process.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Why there is no ONNX Runtime. The text is for the operator, at start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum LibraryError {
    /// Nowhere.
    #[error(
        "ONNX Runtime's library ({FILE_NAME}) was not found; looked at:\n{}\n\n\
         hint: run `make setup`, or `pip install onnxruntime` and set ORT_DYLIB_PATH to the package's \
         onnxruntime/capi/{FILE_NAME}.1.x",
        .looked_at.iter().map(|place| format!("  - {place}")).collect::<Vec<_>>().join("\n")
    )]
    NotFound { looked_at: Vec<String> },
    /// The one that was asked for does not do.
    #[error(
        "cannot use `{}` ({origin}) as ONNX Runtime: {reason}\n\n\
         hint: run `make setup` and leave this unset, or point it at {FILE_NAME} of version 1.{} or newer",
        path.display(), ort::MINOR_VERSION
    )]
    Unusable { path: PathBuf, origin: &'static str, reason: String },
    /// The library is there and would not start.
    #[error("ONNX Runtime did not start: {0}")]
    Start(String),
}

/// Loads the library if this has not happened yet. Later calls return the same environment, whatever they ask for.
///
/// # Errors
/// [`LibraryError`]; the next call tries again.
pub fn load(configured: Option<&Path>) -> Result<Environment, LibraryError> {
    // Nothing that can panic runs while the lock is held with the value half written.
    let mut environment = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*environment {
        return Ok(environment.clone());
    }
    let search = Search::new(configured, |name| env::var_os(name), Path::new("/"));
    let (path, builder) = search.first_usable(|path| ort::init_from(path))?;
    let started = builder
        .with_name("modelhost")
        .with_telemetry(false)
        .with_logger(Arc::new(log))
        .build()
        .map_err(|error| LibraryError::Start(error.to_string()))?;
    // An environment with a logger starts at its most talkative level, which costs time in every run.
    started.set_log_level(LogLevel::Warning);
    info!(library.path = %path.display(), "ONNX Runtime loaded");
    Ok(environment.insert(started).clone())
}

/// Passes the engine's log lines on. Its errors come back from the call that failed as well, and are logged
/// where that is handled, so they count as detail here.
fn log(level: LogLevel, category: &str, _id: &str, location: &str, message: &str) {
    match level {
        LogLevel::Verbose => trace!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Info | LogLevel::Error => debug!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Warning => info!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Fatal => warn!(target: "onnxruntime", category, location, "{message}"),
    }
}

/// Where to look, in order.
#[derive(Debug)]
struct Search {
    /// Asked for by name, with who asked.
    named: Option<(PathBuf, &'static str)>,
    /// Looked through otherwise.
    places: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Any version in this folder, the newest first.
    Folder(PathBuf),
    /// A name for the system's loader, which looks where it likes.
    Loader(PathBuf),
}

impl Search {
    /// `variable` reads the environment; `root` is `/` outside tests.
    fn new(configured: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>, root: &Path) -> Search {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = configured
            .map(|path| (path.to_owned(), "from the configuration"))
            .or_else(|| path("ORT_DYLIB_PATH").map(|path| (path, "from ORT_DYLIB_PATH")));

        let home = path("HOME");
        let data = path("XDG_DATA_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| home.as_ref().map(|home| home.join(".local/share")));
        let mut folders: Vec<PathBuf> = data.map(|data| data.join("modelhost/lib")).into_iter().collect();

        let active = [path("VIRTUAL_ENV"), path("CONDA_PREFIX")].into_iter().flatten();
        let on_path = variable("PATH").as_deref().map(python_prefixes).unwrap_or_default();
        let shared =
            [home.map(|home| home.join(".local")), Some(root.join("usr/local"))].into_iter().flatten();
        folders.extend(active.chain(on_path).chain(shared).flat_map(|prefix| package_folders(&prefix)));

        let mut places: Vec<Place> = folders.into_iter().map(Place::Folder).collect();
        places.extend(["", ".1"].map(|version| Place::Loader(format!("{FILE_NAME}{version}").into())));
        places.extend(SYSTEM_FOLDERS.map(|folder| Place::Folder(root.join(folder))));
        Search { named, places }
    }

    /// Opens candidates in order until one does. Generic over `open`, so that tests need no library.
    fn first_usable<T>(
        &self,
        open: impl Fn(&Path) -> Result<T, LoadDynamicError>,
    ) -> Result<(PathBuf, T), LibraryError> {
        if let Some((path, origin)) = &self.named {
            // The loader would take a relative path for one that starts at the executable.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            return match open(&path) {
                Ok(library) => Ok((path, library)),
                Err(error) => Err(LibraryError::Unusable { path, origin, reason: reason(&error) }),
            };
        }
        let mut looked_at = vec!["the configuration and ORT_DYLIB_PATH: neither is set".to_owned()];
        for place in &self.places {
            let candidates = match place {
                Place::Folder(folder) => versions_in(folder),
                Place::Loader(name) => vec![name.clone()],
            };
            if candidates.is_empty()
                && let Place::Folder(folder) = place
            {
                looked_at.push(format!("{}: no {FILE_NAME}", folder.display()));
            }
            for path in candidates {
                match open(&path) {
                    Ok(library) => return Ok((path, library)),
                    Err(error) => looked_at.push(format!("{}: {}", path.display(), reason(&error))),
                }
            }
        }
        Err(LibraryError::NotFound { looked_at })
    }
}

/// The loader's error in the operator's words.
fn reason(error: &LoadDynamicError) -> String {
    match error {
        // The error itself says only which call failed, its source what the loader had to say.
        LoadDynamicError::Dlopen { error, .. } => error.source().unwrap_or(error).to_string(),
        LoadDynamicError::MissingApi { .. } => "it is a library, but not ONNX Runtime".to_owned(),
        LoadDynamicError::InvalidVersionString => "it does not tell its version".to_owned(),
        LoadDynamicError::BadVersion { version_str, .. } => format!("it is version {version_str}, too old"),
    }
}

/// The prefixes (`/usr` for `/usr/bin/python3`) that the first `python3` on `path` may belong to: where it lies,
/// which for a virtual environment is the environment, and where it really lies.
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

/// Where the package `onnxruntime` keeps its library, for every Python version under `prefix`.
fn package_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for python in entries(&prefix.join("lib")).filter(|entry| entry.starts_with("python3")) {
        for packages in ["site-packages", "dist-packages"] {
            let packages = prefix.join("lib").join(&python).join(packages);
            if packages.is_dir() {
                folders.push(packages.join("onnxruntime/capi"));
            }
        }
    }
    // Neither readdir's order nor a version in a folder's name means anything; only keep it the same every time.
    folders.sort();
    folders
}

/// The library files in `folder`, newest first.
fn versions_in(folder: &Path) -> Vec<PathBuf> {
    let mut versions: Vec<(Vec<u64>, String)> =
        entries(folder).filter_map(|name| Some((version(&name)?, name))).collect();
    versions.sort_by_key(|version| Reverse(version.clone()));
    versions.into_iter().map(|(_, name)| folder.join(name)).collect()
}

/// `[1, 31, 1]` for `libonnxruntime.so.1.31.1`, `[]` without a version, `None` for any other file.
#[cfg(not(target_os = "macos"))]
fn version(name: &str) -> Option<Vec<u64>> {
    numbers(name.strip_prefix(FILE_NAME)?)
}

/// `[1, 31, 1]` for `libonnxruntime.1.31.1.dylib`, `[]` without a version, `None` for any other file.
#[cfg(target_os = "macos")]
fn version(name: &str) -> Option<Vec<u64>> {
    numbers(name.strip_prefix("libonnxruntime")?.strip_suffix(".dylib")?)
}

/// `[1, 31, 1]` for `.1.31.1`, `[]` for nothing.
fn numbers(suffix: &str) -> Option<Vec<u64>> {
    let mut parts = suffix.split('.');
    if parts.next() != Some("") {
        return None;
    }
    parts.map(|part| part.parse().ok()).collect()
}

/// Names in `folder`; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Makes `files` (paths under a fresh root) and searches there with `variables`, whose values are under the
    /// root as well. A candidate opens if its path contains `good`.
    fn search(files: &[&str], variables: &[(&str, &str)], good: &str) -> Result<String, String> {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let variable = |name: &str| {
            let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
            Some(root.path().join(value).into_os_string())
        };
        let found = Search::new(None, variable, root.path()).first_usable(|path| {
            let path = path.to_owned();
            if path.to_str().unwrap().contains(good) {
                Ok(())
            } else {
                Err(LoadDynamicError::MissingApi { path })
            }
        });
        let short = |text: String| text.replace(root.path().to_str().unwrap(), "");
        found.map(|(path, ())| short(path.display().to_string())).map_err(|error| short(error.to_string()))
    }

    const PACKAGE: &str = "lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1";

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn places_are_tried_in_the_documented_order() {
        let venv = format!("venv/{PACKAGE}");
        let python = format!("py/{PACKAGE}");
        let files = [
            "named.so",
            "data/modelhost/lib/libonnxruntime.so.1.9.0",
            "data/modelhost/lib/libonnxruntime.so.1.31.1",
            "data/modelhost/lib/libonnxruntime_providers_shared.so",
            "home/.local/share/modelhost/lib/libonnxruntime.so",
            venv.as_str(),
            "py/bin/python3",
            python.as_str(),
            "usr/local/lib/libonnxruntime.so.1.20.0",
        ];
        let mut variables = vec![
            ("ORT_DYLIB_PATH", "named.so"),
            ("XDG_DATA_HOME", "data"),
            ("HOME", "home"),
            ("VIRTUAL_ENV", "venv"),
            ("PATH", "py/bin"),
        ];
        let mut found = Vec::new();
        for _ in 0..6 {
            found.push(search(&files, &variables, "/").unwrap());
            if !variables.is_empty() {
                variables.remove(0);
            }
        }
        let expected = [
            "/named.so",
            "/data/modelhost/lib/libonnxruntime.so.1.31.1",
            "/home/.local/share/modelhost/lib/libonnxruntime.so",
            &format!("/{venv}"),
            &format!("/{python}"),
            "/usr/local/lib/libonnxruntime.so.1.20.0",
        ];
        assert_eq!(found, expected);
        // The loader's turn is before the folders.
        assert_eq!(search(&files, &[], "libonnxruntime.so.1").unwrap(), "libonnxruntime.so.1");
    }

    #[test]
    fn what_was_asked_for_is_never_replaced() {
        let files = ["named.so", "data/modelhost/lib/libonnxruntime.so.1.31.1"];
        let error =
            search(&files, &[("ORT_DYLIB_PATH", "named.so"), ("XDG_DATA_HOME", "data")], "1.31").unwrap_err();
        assert!(
            error.starts_with("cannot use `/named.so` (from ORT_DYLIB_PATH) as ONNX Runtime: "),
            "{error}"
        );
        assert!(error.contains("hint: run `make setup`"), "{error}");
    }

    #[test]
    fn nothing_found_lists_every_place_and_the_cure() {
        let error =
            search(&["py/bin/python3"], &[("HOME", "home"), ("PATH", "py/bin")], "no such").unwrap_err();
        for part in [
            "/home/.local/share/modelhost/lib: no lib",
            "/usr/local/lib: no lib",
            "make setup",
            "pip install",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    /// Not a test by itself: [`real_files_that_do_not_do`] runs it in a process of its own, since a process can
    /// load the library only once.
    #[test]
    fn child_that_loads_what_it_is_told() {
        if let Some(path) = env::var_os("MODELHOST_TEST_LIBRARY") {
            let error = load(Some(Path::new(&path))).unwrap_err();
            fs::write(env::var_os("MODELHOST_TEST_ANSWER").unwrap(), error.to_string()).unwrap();
        }
    }

    #[test]
    fn real_files_that_do_not_do() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.so");
        fs::write(&text, "not a library ".repeat(20)).unwrap();
        let foreign = compile(folder.path(), "foreign", "int other(void) { return 1; }");
        let old = compile(
            folder.path(),
            "old",
            "static const char *version(void) { return \"1.10.0\"; }
             static const void *api(unsigned version) { return 0; }
             static const struct { const void *(*api)(unsigned); const char *(*version)(void); } base = { api, version };
             const void *OrtGetApiBase(void) { return &base; }",
        );
        let cases = [
            (folder.path().join("missing.so"), "No such file"),
            (text, "invalid ELF header"),
            (foreign, "it is a library, but not ONNX Runtime"),
            (old, "it is version 1.10.0, too old"),
        ];
        for (path, expected) in cases {
            let answer = folder.path().join("answer");
            let child = Command::new(env::current_exe().unwrap())
                .args(["--exact", "model::onnx::library::tests::child_that_loads_what_it_is_told"])
                .env("MODELHOST_TEST_LIBRARY", &path)
                .env("MODELHOST_TEST_ANSWER", &answer)
                .output()
                .unwrap();
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
            let answer = fs::read_to_string(answer).unwrap();
            // The loader's own words differ between systems.
            assert!(answer.contains(expected) || cfg!(target_os = "macos"), "{expected} in {answer}");
            assert!(answer.contains(path.to_str().unwrap()) && answer.contains("hint: "), "{answer}");
        }
    }

    /// Builds a shared library with the C compiler, which Rust needs as its linker anyway.
    fn compile(folder: &Path, name: &str, source: &str) -> PathBuf {
        let (input, output) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
        fs::write(&input, source).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&output).arg(&input).status();
        assert!(status.unwrap().success());
        output
    }
}
