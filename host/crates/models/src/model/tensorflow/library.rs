//! Loads TensorFlow's shared library, once for the process.
//!
//! Place in the flow: when the first SavedModel is to be loaded; never on the request path, and never without
//! a SavedModel.
//! In:   the configured folder, the environment, the file system; [`crate::model::library`] has the order.
//! Out:  the process's one [`Api`], or an error that says where was looked and what brings the library.
//!
//! The folder holds two files that belong together: `libtensorflow_cc`, which is opened, and
//! `libtensorflow_framework`, which it finds beside itself.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

use super::api::{self, Api};
use super::lines;
use crate::model::engine::Installed;
use crate::model::library::{Library, LibraryError, Search, file_name};
use crate::telemetry::{logs, stderr};

/// Its name.
pub const ENGINE: &str = "TensorFlow";
const STEM: &str = "libtensorflow_cc";
const MAJOR: &str = "2";

/// The loaded library. It is never unloaded: its threads live as long as the process.
static API: Mutex<Option<&'static Api>> = Mutex::new(None);

/// Loads the library if this has not happened yet. Later calls return the same one for any path.
///
/// # Errors
/// [`LibraryError`]; the next call tries again.
pub fn load(configured: Option<&Path>) -> Result<&'static Api, LibraryError> {
    // The value is whole at any moment.
    let mut loaded = API.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(api) = *loaded {
        return Ok(api);
    }
    // Its initialisers write already. Without a log, stderr is the place for what it says.
    if logs::started() {
        match stderr::capture(api::redirect_stderr, lines::logger()) {
            Ok(()) => api::delay_aborts(),
            Err(error) => warn!("TensorFlow's own lines go to stderr as they are: {error}"),
        }
    }
    let (path, opened) = find(configured)?;
    info!(library.path = %path.display(), library.version = opened.version(), "TensorFlow loaded");
    Ok(loaded.insert(opened))
}

/// Says which library [`load`] would take. What the library writes to stderr when it is opened is dropped.
///
/// # Errors
/// As [`load`].
pub fn installed(configured: Option<&Path>) -> Result<Installed, LibraryError> {
    // Where that cannot be had, its lines stand beside the answer.
    let _ = stderr::capture(api::redirect_stderr, |_| ());
    let (path, api) = find(configured)?;
    Ok(Installed { path: path.canonicalize().unwrap_or(path), version: Some(api.version()) })
}

fn find(configured: Option<&Path>) -> Result<(PathBuf, &'static Api), LibraryError> {
    let configured = configured.map(|folder| folder.join(file_name(STEM, MAJOR)));
    Search::here(library(), configured).first_usable(Api::open)
}

fn library() -> Library {
    Library {
        engine: ENGINE,
        stem: STEM,
        major: MAJOR,
        variable: None,
        folder: "modelhost/lib/tensorflow",
        package: "tensorflow",
        cure: "run `make tensorflow` in the sources, or `pip install tensorflow-cpu` into this program's Python \
               environment or the active one"
            .to_owned(),
        cure_unusable: format!(
            "run `make tensorflow` and leave this unset, or point it at a folder with {} and {} of the same \
             TensorFlow {MAJOR}",
            file_name(STEM, MAJOR),
            file_name("libtensorflow_framework", MAJOR),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    #[test]
    fn our_folder_comes_first_then_the_python_package_then_the_system() {
        let root = tempfile::tempdir().unwrap();
        let name = file_name(STEM, MAJOR);
        let places = [
            "home/.local/share/modelhost/lib/tensorflow",
            "venv/lib/python3.12/site-packages/tensorflow",
            "usr/lib",
        ];
        for place in places {
            fs::create_dir_all(root.path().join(place)).unwrap();
            fs::write(root.path().join(place).join(&name), "").unwrap();
        }
        let variable = |name: &str| -> Option<OsString> {
            let (_, value) =
                [("HOME", "home"), ("VIRTUAL_ENV", "venv")].into_iter().find(|(known, _)| *known == name)?;
            Some(root.path().join(value).into())
        };
        for place in places {
            let search = Search::new(library(), None, None, variable, root.path());
            let file = root.path().join(place).join(&name);
            let found = search.first_usable(|path| if path == file { Ok(()) } else { Err(String::new()) });
            assert_eq!(found.unwrap().0, file);
            fs::remove_file(&file).unwrap();
        }
        let search = Search::new(library(), None, None, variable, root.path());
        let error =
            search.first_usable(|_| Err::<(), _>("it does not open".to_owned())).unwrap_err().to_string();
        for part in
            ["TensorFlow's library (", "the configuration: it names none", "hint: run `make tensorflow`"]
        {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
