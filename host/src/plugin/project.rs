//! The project files a handler sees at `/mnt/project`: a private copy, made when the handler is loaded.
//!
//! Place in the flow: load time only. In: the project folder. Out: a folder that nothing but this process writes,
//! and that is removed with the last instance of the generation it was made for.
//! Invariants: what a handler reads never changes under it, whatever happens to the project meanwhile; the copy
//! holds regular files only, so no link leads out of it; names that begin with a dot, compiled leftovers and the
//! model itself are not in it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// How many folders deep a project may be.
const DEEPEST: usize = 32;
/// Copies are named so that a later start can find what a killed process left behind.
const PREFIX: &str = "modelhost-project-";
/// Held locked for as long as the copy is in use.
const LOCK: &str = "lock";
/// A copy younger than this is never taken for a leftover: its lock may be about to be taken.
const SETTLED: Duration = Duration::from_secs(60);

/// A copy of a project; removed when dropped.
#[derive(Debug)]
pub(super) struct ProjectView {
    folder: TempDir,
    _lock: File,
}

/// Why a project cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum ProjectError {
    #[error("cannot read project folder `{path}`: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot copy project file `{path}`: {source}")]
    Copy { path: PathBuf, source: io::Error },
    #[error("cannot make a folder for the project's copy: {0}")]
    Create(io::Error),
    #[error(
        "project `{path}` holds more than {limit} bytes\n  hint: move what the handler does not read out of it, or raise `limits.project`"
    )]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("project folders nest more than {DEEPEST} deep at `{0}`")]
    TooDeep(PathBuf),
}

impl ProjectView {
    /// Copies `project` without `excluded` (canonical paths). On file systems that can share blocks the copy costs
    /// no space.
    ///
    /// # Errors
    /// [`ProjectError`], which names the file.
    pub(super) fn copy(
        project: &Path,
        excluded: &[PathBuf],
        limit: u64,
    ) -> Result<ProjectView, ProjectError> {
        let root = fs::canonicalize(project)
            .map_err(|source| ProjectError::Read { path: project.to_owned(), source })?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(ProjectError::Create)?;
        let lock = File::create(folder.path().join(LOCK)).map_err(ProjectError::Create)?;
        lock.lock().map_err(ProjectError::Create)?;
        let view = ProjectView { folder, _lock: lock };
        fs::create_dir(view.path()).map_err(ProjectError::Create)?;
        let mut copy = Copy { root: &root, excluded, limit, left: limit };
        copy.folder(&root, &view.path(), 0)?;
        Ok(view)
    }

    /// The folder to mount.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("files")
    }
}

/// Removes copies that killed processes left behind. A copy in use is locked and stays.
pub(super) fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let settled = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age >= SETTLED));
        if settled && entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let unused = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
            if unused {
                // Another process may be removing it as well; whoever comes second finds nothing.
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

/// One copy under way.
struct Copy<'a> {
    root: &'a Path,
    excluded: &'a [PathBuf],
    limit: u64,
    left: u64,
}

impl Copy<'_> {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), ProjectError> {
        if depth > DEEPEST {
            return Err(ProjectError::TooDeep(from.to_owned()));
        }
        let read_error = |source| ProjectError::Read { path: from.to_owned(), source };
        for entry in fs::read_dir(from).map_err(read_error)? {
            let entry = entry.map_err(read_error)?;
            let (path, name) = (entry.path(), entry.file_name());
            if is_left_out(&name.to_string_lossy()) || self.excluded.contains(&path) {
                continue;
            }
            let kind = entry.file_type().map_err(read_error)?;
            if kind.is_dir() {
                if path.join("CACHEDIR.TAG").exists() {
                    continue;
                }
                let to = to.join(name);
                fs::create_dir(&to).map_err(|source| ProjectError::Copy { path: path.clone(), source })?;
                self.folder(&path, &to, depth + 1)?;
            } else if kind.is_file() || (kind.is_symlink() && self.leads_to_visible_file(&path)) {
                self.file(&path, &to.join(name))?;
            }
        }
        Ok(())
    }

    /// Whether a link ends at a file the project shows under its own name as well.
    fn leads_to_visible_file(&self, link: &Path) -> bool {
        let Ok(target) = fs::canonicalize(link) else { return false };
        let Ok(inside) = target.strip_prefix(self.root) else { return false };
        target.is_file()
            && !self.excluded.contains(&target)
            && !inside.iter().any(|part| is_left_out(&part.to_string_lossy()))
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), ProjectError> {
        let copy_error = |source| ProjectError::Copy { path: from.to_owned(), source };
        // Looked at before the copy, so that a file beyond the limit is not written first.
        let length = fs::metadata(from).map_err(copy_error)?.len();
        let Some(left) = self.left.checked_sub(length) else {
            return Err(ProjectError::TooLarge { path: self.root.to_owned(), limit: self.limit });
        };
        self.left = left;
        fs::copy(from, to).map_err(copy_error)?;
        Ok(())
    }
}

/// Names that are never shown: hidden files, and what compilers and interpreters leave behind.
fn is_left_out(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    name.starts_with('.')
        || name == "__pycache__"
        || matches!(extension, Some("pyc" | "pyo" | "wasm" | "cwasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut pending = vec![folder.to_owned()];
        while let Some(next) = pending.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    found.push(path.strip_prefix(folder).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn shows_project_files_and_nothing_else() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let project = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(project.path()).unwrap();
        for (path, text) in [
            ("labels.json", "[]"),
            ("data/means.csv", "1"),
            (".env", "KEY=1"),
            (".git/config", ""),
            ("__pycache__/a.pyc", ""),
            ("b.pyc", ""),
            ("handler.wasm", ""),
            ("model.onnx", "weights"),
            ("target/CACHEDIR.TAG", ""),
            ("target/x.o", ""),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        #[cfg(unix)]
        for (target, link) in [
            (root.join("labels.json"), "alias.json"),
            (root.join(".env"), "env-alias"),
            (root.join("model.onnx"), "model-alias"),
            (outside.path().join("secret"), "escape"),
            (outside.path().to_owned(), "escape-folder"),
            (root.join("missing"), "dangling"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let view = ProjectView::copy(&root, &[root.join("model.onnx")], 1 << 20).unwrap();
        assert_eq!(listing(&view.path()), ["alias.json", "data/means.csv", "labels.json"]);

        fs::write(root.join("labels.json"), "[1]").unwrap();
        assert_eq!(fs::read_to_string(view.path().join("labels.json")).unwrap(), "[]");

        let path = view.path();
        drop(view);
        assert!(!path.exists());
    }

    #[test]
    fn refuses_more_than_the_limit() {
        let project = tempfile::tempdir().unwrap();
        fs::write(project.path().join("a"), [0; 100]).unwrap();
        assert!(ProjectView::copy(project.path(), &[], 100).is_ok());
        assert!(matches!(ProjectView::copy(project.path(), &[], 99), Err(ProjectError::TooLarge { .. })));
    }
}
