//! Loads ONNX Runtime's shared library, once for the process.
//!
//! Place in the flow: before the first ONNX model is loaded; never on the request path.
//! In:   the configured path, the environment variables, the file system; [`crate::model::library`] has the
//!       order.
//! Out:  the process's one [`Environment`], or an error that says where was looked and what brings the
//!       library.
//!
//! Invariant: a file that is not the library, or too old a one, is an error and not a crash.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ort::LoadDynamicError;
use ort::environment::{Environment, EnvironmentBuilder};
use ort::logging::LogLevel;
use tracing::{debug, info, warn};

use crate::model::engine::Installed;
use crate::model::library::{Library, LibraryError, Search, file_name, file_version};

/// Its name.
pub const ENGINE: &str = "ONNX Runtime";
const STEM: &str = "libonnxruntime";

/// The loaded library. It is never unloaded: sessions and tensors of it may live as long as the process.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Loads the library if this has not happened yet. Later calls return the same environment for any path.
///
/// # Errors
/// [`LibraryError`]; the next call tries again.
pub fn load(configured: Option<&Path>) -> Result<Environment, LibraryError> {
    // Nothing that can panic runs while the lock is held with the value half written.
    let mut environment = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*environment {
        return Ok(environment.clone());
    }
    let (path, builder) = find(configured)?;
    let started = builder
        .with_name("modelhost")
        .with_telemetry(false)
        .with_logger(Arc::new(log))
        .build()
        .map_err(|error| LibraryError::Start { engine: ENGINE, reason: error.to_string() })?;
    // An environment with a logger starts at its most talkative level, which costs time in every run.
    started.set_log_level(LogLevel::Warning);
    info!(library.path = %path.display(), "ONNX Runtime loaded");
    Ok(environment.insert(started).clone())
}

/// Says which library [`load`] would take, without starting it.
///
/// # Errors
/// As [`load`].
pub fn installed(configured: Option<&Path>) -> Result<Installed, LibraryError> {
    let (path, _) = find(configured)?;
    let path = path.canonicalize().unwrap_or(path);
    let version = file_version(&path, STEM);
    Ok(Installed { path, version })
}

fn find(configured: Option<&Path>) -> Result<(PathBuf, EnvironmentBuilder), LibraryError> {
    let configured = configured.map(Path::to_owned);
    let knows_executable = env::current_exe().is_ok();
    let open = |path: &Path| {
        openable(path, knows_executable)?;
        ort::init_from(path).map_err(|error| reason(&error))
    };
    Search::here(library(), configured).first_usable(open)
}

/// A library by its name alone is looked for beside the program first, by the crate, which panics where the
/// system does not tell where that is.
fn openable(path: &Path, knows_executable: bool) -> Result<(), String> {
    match knows_executable || path.is_absolute() {
        true => Ok(()),
        false => Err("not looked for, since /proc is not mounted".to_owned()),
    }
}

fn library() -> Library {
    let file = file_name(STEM, "");
    Library {
        engine: ENGINE,
        stem: STEM,
        major: "1",
        variable: Some("ORT_DYLIB_PATH"),
        folder: "modelhost/lib",
        package: "onnxruntime/capi",
        cure: "`pip install onnxruntime` into this program's Python environment or the active one, or run `make \
               setup` in the sources"
            .to_owned(),
        cure_unusable: format!(
            "run `make setup` and leave this unset, or point it at {file} of version 1.{} or newer",
            ort::MINOR_VERSION
        ),
    }
}

/// Passes the engine's log lines on. Its errors come back from the call that failed as well, and are logged
/// where that is handled, so they count as detail here.
fn log(level: LogLevel, category: &str, _id: &str, location: &str, message: &str) {
    match level {
        // Many lines for each operator of a model.
        LogLevel::Verbose => {}
        LogLevel::Info | LogLevel::Error => debug!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Warning => info!(target: "onnxruntime", category, location, "{message}"),
        LogLevel::Fatal => warn!(target: "onnxruntime", category, location, "{message}"),
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Not a test by itself: [`real_files_that_do_not_do`] runs it in a process of its own, since a process
    /// can load the library only once.
    #[test]
    fn child_that_loads_what_it_is_told() {
        if let Some(path) = env::var_os("MODELHOST_TEST_LIBRARY") {
            let error = load(Some(Path::new(&path))).unwrap_err();
            fs::write(env::var_os("MODELHOST_TEST_ANSWER").unwrap(), error.to_string()).unwrap();
        }
    }

    #[test]
    fn without_proc_no_name_is_asked_for() {
        for (path, knows_executable, is_opened) in [
            ("libonnxruntime.so", true, true),
            ("/usr/lib/libonnxruntime.so", false, true),
            ("libonnxruntime.so", false, false),
            ("lib/libonnxruntime.so", false, false),
        ] {
            let opened = openable(Path::new(path), knows_executable);
            assert_eq!(opened.is_ok(), is_opened, "{path}");
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
             static const struct { const void *(*api)(unsigned); const char *(*version)(void); } base =
                 { api, version };
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
