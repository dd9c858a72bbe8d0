//! The files of a handler project, and whether they are what they were.
//!
//! In: a folder, and models that may lie elsewhere. Out: the stamps of all files that a build or a load may
//! read, and which of the two takes place if one changes.
//! Looking works on every file system and needs no handle for each folder. Invariant: nothing that a build
//! writes is looked at, or a build would ask for the next: neither what tools make, nor the stores and
//! recordings of what is served, nor the file that this process's output goes to.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::commands::CONFIG;
use crate::commands::build::COMPONENT;
use crate::config;
use crate::file::stamp::FileStamp;

/// Files and folders that tools write.
const MADE: [&str; 6] =
    ["target", "node_modules", "__pycache__", "Cargo.lock", "package-lock.json", COMPONENT];
/// Most files: a folder that is no project is not searched for ever.
pub(super) const MOST: usize = 10_000;
/// How long the files must have held still: an editor writes several.
const SETTLED: Duration = Duration::from_millis(50);

/// Files, as they are at some moment.
type Files = BTreeMap<PathBuf, FileStamp>;

/// Device and number of a file: the same under all its names.
type Identity = (u64, u64);

/// The files of a project at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources {
    folder: PathBuf,
    models: Vec<PathBuf>,
    /// Files and folders that the server writes.
    stores: Vec<PathBuf>,
    /// The files that stdout and stderr are.
    outputs: Vec<Identity>,
    files: Files,
    /// The libraries that the configuration names; none if it cannot be read.
    libraries: Vec<String>,
    /// Whether the component may be another than with the files before.
    pub(super) needs_build: bool,
}

impl Sources {
    /// The files of the project in `folder` as they are now, without the server's `stores`.
    pub(super) fn of(folder: &Path, models: &[PathBuf], stores: &[PathBuf]) -> Sources {
        let real = |path: &PathBuf| path.canonicalize().or_else(|_| path::absolute(path));
        let sources = Sources {
            folder: folder.to_owned(),
            models: models.to_vec(),
            stores: stores.iter().flat_map(real).collect(),
            outputs: outputs(),
            files: Files::new(),
            libraries: libraries(folder),
            needs_build: true,
        };
        Sources { files: sources.stamps(), ..sources }
    }

    /// The files as they are now, if that is not as they are here; waits until they hold still.
    pub(super) fn changed(&self) -> Option<Sources> {
        let mut now = self.stamps();
        if now == self.files {
            return None;
        }
        loop {
            thread::sleep(SETTLED);
            let later = self.stamps();
            if later == now {
                break;
            }
            now = later;
        }
        let libraries = libraries(&self.folder);
        let needs_build =
            self.differ(&now).any(|file| !self.is_loaded_only(file)) || libraries != self.libraries;
        Some(Sources { files: now, libraries, needs_build, ..self.clone() })
    }

    /// Whether there are more files than are looked at.
    pub(super) fn is_partial(&self) -> bool {
        self.files.len() >= MOST
    }

    /// Whether the files are other ones, so that a build of these is of no use any more.
    pub(super) fn is_outdated(&self) -> bool {
        let now = self.stamps();
        let mut changed = self.differ(&now).peekable();
        changed.peek().is_some()
            && (changed.any(|file| !self.is_loaded_only(file)) || libraries(&self.folder) != self.libraries)
    }

    /// The files that are not the same there.
    fn differ<'a>(&'a self, there: &'a Files) -> impl Iterator<Item = &'a PathBuf> {
        let gone = self.files.keys().filter(|file| !there.contains_key(*file));
        gone.chain(
            there.iter().filter(|(file, stamp)| self.files.get(*file) != Some(stamp)).map(|(file, _)| file),
        )
    }

    /// Whether a file is read when the handler is loaded, not when it is built.
    fn is_loaded_only(&self, file: &Path) -> bool {
        self.models.iter().any(|model| file == model)
            || file.strip_prefix(&self.folder).is_ok_and(|file| {
                file == Path::new(CONFIG) || file.extension().is_some_and(|kind| kind == "onnx")
            })
    }

    /// The files below the project's folder, and its models.
    fn stamps(&self) -> Files {
        let mut files = Files::new();
        self.walk(&self.folder, &mut files);
        files.extend(self.models.iter().map(|model| (model.clone(), FileStamp::now(model))));
        files
    }

    fn walk(&self, folder: &Path, files: &mut Files) {
        // A folder that is removed meanwhile has no files.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let is_made = MADE.contains(&&*name) || name.starts_with('.') || name.ends_with('~');
            // Documents and golden cases are no part of a handler.
            let is_other = name == "cases" || name.ends_with(".md");
            if is_made || is_other || self.stores.contains(&path) || files.len() >= MOST {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.walk(&path, files);
            } else if let Ok(metadata) = fs::metadata(&path)
                // A link to a folder may lead in a circle, and the folder changes with each build in it.
                && !metadata.is_dir()
                && !self.outputs.contains(&identity(&metadata))
            {
                files.insert(path, FileStamp::from(&metadata));
            }
        }
    }
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// The files that stdout and stderr are.
fn outputs() -> Vec<Identity> {
    let of = |output: BorrowedFd<'_>| File::from(output.try_clone_to_owned().ok()?).metadata().ok();
    let outputs = [of(io::stdout().as_fd()), of(io::stderr().as_fd())];
    outputs.iter().flatten().map(identity).collect()
}

fn libraries(folder: &Path) -> Vec<String> {
    config::libraries(&folder.join(CONFIG)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_writes_is_no_source_and_a_model_needs_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["src", "target", "node_modules", ".modelhost", "cases"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("src/lib.rs"), "a").unwrap();
        fs::write(at("iris.onnx"), "a").unwrap();
        let models = [at("iris.onnx")];
        let before = Sources::of(folder.path(), &models, &[]);
        for name in
            ["target/x", "node_modules/x", ".modelhost/x", "handler.wasm", "README.md", "cases/a.json"]
        {
            fs::write(at(name), "x").unwrap();
            assert_eq!(before.changed(), None, "{name}");
        }
        for (name, needs_build) in
            [("iris.onnx", false), ("modelhost.toml", false), ("labels.txt", true), ("src/lib.rs", true)]
        {
            let before = Sources::of(folder.path(), &models, &[]);
            fs::write(at(name), "another").unwrap();
            assert_eq!(before.changed().map(|now| now.needs_build), Some(needs_build), "{name}");
            assert_eq!(before.is_outdated(), needs_build, "{name}");
        }
        let before = Sources::of(folder.path(), &models, &[]);
        fs::write(at("modelhost.toml"), "[build]\nwith = [\"image\"]").unwrap();
        assert!(
            before.is_outdated() && before.changed().is_some_and(|now| now.needs_build),
            "a library more"
        );
        let before = Sources::of(folder.path(), &models, &[]);
        fs::remove_file(at("labels.txt")).unwrap();
        assert!(before.changed().is_some_and(|now| now.needs_build), "one that is gone");
    }

    #[test]
    fn what_a_server_writes_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(at("data/records")).unwrap();
        for name in ["values.redb", "dev.log", "handler.py"] {
            fs::write(at(name), "a").unwrap();
        }
        std::os::unix::fs::symlink(at("."), at("data/up")).unwrap();
        // By another name than the folder has it.
        let stores = ["data/../values.redb", "data/records"].map(at);
        let mut before = Sources::of(&at(""), &[], &stores);
        before.outputs = vec![identity(&fs::metadata(at("dev.log")).unwrap())];
        before.files = before.stamps();
        assert_eq!(before.files.keys().collect::<Vec<_>>(), [&at("handler.py")]);
        for name in ["values.redb", "dev.log", "data/records/1.json"] {
            fs::write(at(name), "another").unwrap();
            assert_eq!(before.changed(), None, "{name}");
        }
        fs::write(at("data/labels.txt"), "a").unwrap();
        assert!(before.changed().is_some_and(|now| now.needs_build));
    }
}
