//! The project files a handler sees at `/mnt/project`: a private copy, made when the handler is loaded.
//!
//! Place in the flow: load time only. In: the project folder. Out: a folder that nothing but this process
//! writes, and that is removed with the last instance of the generation it was made for.
//! Invariants: what a handler reads never changes under it when the project does; the copy holds regular
//! files only, none of them from outside the project, with any links there are or come to be; names that
//! begin with a dot, compiled leftovers, models, the config file and files with keys, by any of their names,
//! are not in it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::text::hex;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// How many folders deep a project may be.
const DEEPEST: usize = 32;
/// Copies are named so that a later start can find what a killed process left behind.
const PREFIX: &str = "modelhost-project-";
/// The suffixes that exporters append to a model's name for the weights that do not fit into it.
const WEIGHTS: [&str; 2] = [".data", "_data"];
/// A copy younger than this is never taken for a leftover: its lock may be about to be taken.
const SETTLED: Duration = Duration::from_secs(60);

/// A copy of a project; removed when dropped.
///
/// Its folder is locked for as long as it is in use; tools that tidy up temporary folders leave locked ones
/// alone.
#[derive(Debug)]
pub(super) struct ProjectView {
    folder: TempDir,
    _lock: File,
    digest: OnceLock<Option<String>>,
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
    /// Copies `project` without `excluded` (canonical paths) and the weights beside them. On file systems
    /// that can share blocks the copy costs no space.
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
        let lock = File::open(folder.path()).map_err(ProjectError::Create)?;
        lock.lock().map_err(ProjectError::Create)?;
        let mut excluded = excluded.to_vec();
        for model in excluded.clone() {
            excluded.extend(WEIGHTS.map(|suffix| {
                let mut weights = model.clone().into_os_string();
                weights.push(suffix);
                PathBuf::from(weights)
            }));
        }
        let opened =
            File::open(&root).map_err(|source| ProjectError::Read { path: project.to_owned(), source })?;
        let identity = |path: &PathBuf| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let identities = excluded.iter().filter_map(identity).collect();
        let from = opened.try_clone().map_err(ProjectError::Create)?;
        let mut copy = Copy { root: &root, opened, excluded, identities, limit, left: limit };
        copy.folder(&from, Path::new(""), folder.path(), 0)?;
        Ok(ProjectView { folder, _lock: lock, digest: OnceLock::new() })
    }

    /// SHA-256 in hex over every file's path and content and every empty folder, in the order of the paths.
    /// `None` if the copy cannot be read.
    pub(super) fn digest(&self) -> Option<&str> {
        self.digest.get_or_init(|| digest(self.folder.path()).ok()).as_deref()
    }

    /// The folder to mount.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

fn digest(folder: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        let mut is_empty = true;
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            is_empty = false;
            match entry.file_type()?.is_dir() {
                true => pending.push(entry.path()),
                false => files.push((entry.path(), true)),
            }
        }
        if is_empty && next != folder {
            files.push((next, false));
        }
    }
    files.sort();
    let mut all = Sha256::new();
    for (path, is_file) in files {
        let name = path.strip_prefix(folder).unwrap_or(&path).as_os_str().as_encoded_bytes();
        let mut content = Sha256::new();
        // No file's name ends with a slash.
        let slash: &[u8] = if is_file { b"" } else { b"/" };
        if is_file {
            io::copy(&mut File::open(&path)?, &mut content)?;
        }
        // Digests have one length, names their length before them: no two projects give the same bytes.
        all.update(((name.len() + slash.len()) as u64).to_le_bytes());
        all.update(name);
        all.update(slash);
        all.update(content.finalize());
    }
    Ok(hex(&all.finalize()))
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
        if !settled || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Others may put anything there under such a name; opening a pipe would wait for its writer.
        let folder =
            OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(&path);
        if folder.is_ok_and(|folder| folder.try_lock().is_ok()) {
            // Another process may be removing it as well; the second of the two finds nothing.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// One copy under way. Files and folders are opened one name at a time, each in the folder that was opened
/// before, and no link is followed: what is exchanged meanwhile cannot lead out of the project.
struct Copy<'a> {
    root: &'a Path,
    opened: File,
    excluded: Vec<PathBuf>,
    /// Device and inode of every file in `excluded`: other names of theirs are excluded as well.
    identities: HashSet<(u64, u64)>,
    limit: u64,
    left: u64,
}

impl Copy<'_> {
    /// Copies what is in `folder`, which is `at` in the project.
    fn folder(&mut self, folder: &File, at: &Path, to: &Path, depth: usize) -> Result<(), ProjectError> {
        if depth > DEEPEST {
            return Err(ProjectError::TooDeep(self.root.join(at)));
        }
        let path = self.root.join(at);
        let read_error = |source: Errno| ProjectError::Read { path: path.clone(), source: source.into() };
        for entry in Dir::read_from(folder).map_err(read_error)? {
            let entry = entry.map_err(read_error)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let (at, to) = (at.join(name), to.join(name));
            if is_left_out(&name.to_string_lossy()) || self.excluded.contains(&self.root.join(&at)) {
                continue;
            }
            let found = match entry.file_type() {
                FileType::Symlink => self.target(&at),
                FileType::RegularFile | FileType::Directory | FileType::Unknown => {
                    open_in(folder, name).map(Some)
                }
                // Pipes, sockets, devices.
                _ => continue,
            };
            let copy_error = |source| ProjectError::Copy { path: self.root.join(&at), source };
            let found = match found {
                // It has become a link, or nothing, since it was looked at; or it leads out.
                Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR) => continue,
                found => found.map_err(|error| copy_error(error.into()))?,
            };
            let Some(found) = found else { continue };
            let metadata = found.metadata().map_err(copy_error)?;
            if self.identities.contains(&(metadata.dev(), metadata.ino())) {
                continue;
            }
            if metadata.is_file() {
                self.file(found, metadata.len(), &at, &to)?;
            } else if metadata.is_dir() && statat(&found, "CACHEDIR.TAG", AtFlags::empty()).is_err() {
                fs::create_dir(&to).map_err(copy_error)?;
                self.folder(&found, &at, &to, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The file that the link `at` ends at, if it is one of the project's and none whose name is left out.
    fn target(&self, at: &Path) -> rustix::io::Result<Option<File>> {
        let Ok(target) = fs::canonicalize(self.root.join(at)) else { return Ok(None) };
        let Ok(inside) = target.strip_prefix(self.root) else { return Ok(None) };
        if self.excluded.contains(&target) || inside.iter().any(|part| is_left_out(&part.to_string_lossy())) {
            return Ok(None);
        }
        let mut parts = inside.iter();
        let Some(first) = parts.next() else { return Ok(None) };
        let first = open_in(&self.opened, first)?;
        let found = parts.try_fold(first, |folder, name| open_in(&folder, name))?;
        Ok(found.metadata().is_ok_and(|metadata| metadata.is_file()).then_some(found))
    }

    /// Copies a regular file of this length, and no more of it than the limit leaves, even if it grows
    /// meanwhile.
    fn file(&mut self, from: File, length: u64, at: &Path, to: &Path) -> Result<(), ProjectError> {
        let copy_error = |source| ProjectError::Copy { path: self.root.join(at), source };
        let too_large = || ProjectError::TooLarge { path: self.root.to_owned(), limit: self.limit };
        // Asked first, so that a file beyond the limit is not written before it is refused.
        if length > self.left {
            return Err(too_large());
        }
        let mut copy = File::create_new(to).map_err(copy_error)?;
        let copied = io::copy(&mut from.take(self.left.saturating_add(1)), &mut copy).map_err(copy_error)?;
        self.left = self.left.checked_sub(copied).ok_or_else(too_large)?;
        Ok(())
    }
}

/// Opens what has this name in a folder, unless it is a link. Opening waits for nothing, a pipe neither.
fn open_in(folder: &File, name: &OsStr) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
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
            ("model.onnx", "graph"),
            ("model.onnx.data", "weights"),
            ("model.onnx_data", "weights"),
            ("target/CACHEDIR.TAG", ""),
            ("target/x.o", ""),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
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
    fn the_digest_tells_empty_folders_from_files_and_from_nothing() {
        let digest_of = |make: fn(&Path)| {
            let project = tempfile::tempdir().unwrap();
            fs::write(project.path().join("a"), "x").unwrap();
            make(&project.path().join("b"));
            let view = ProjectView::copy(project.path(), &[], 100).unwrap();
            view.digest().unwrap().to_owned()
        };
        let digests = [
            digest_of(|_| {}),
            digest_of(|b| fs::create_dir(b).unwrap()),
            digest_of(|b| fs::create_dir_all(b.join("c")).unwrap()),
            digest_of(|b| fs::write(b, "").unwrap()),
            digest_of(|b| fs::write(b, "/").unwrap()),
        ];
        assert_eq!(digests.iter().collect::<HashSet<_>>().len(), digests.len());
        assert_eq!(digest_of(|b| fs::create_dir(b).unwrap()), digests[1]);
    }

    #[test]
    fn refuses_more_than_the_limit() {
        let project = tempfile::tempdir().unwrap();
        fs::write(project.path().join("a"), [0; 100]).unwrap();
        assert!(ProjectView::copy(project.path(), &[], 100).is_ok());
        assert!(matches!(ProjectView::copy(project.path(), &[], 99), Err(ProjectError::TooLarge { .. })));
    }

    #[test]
    fn a_copy_in_use_is_locked() {
        let project = tempfile::tempdir().unwrap();
        let view = ProjectView::copy(project.path(), &[], 1).unwrap();
        assert!(File::open(view.path()).unwrap().try_lock().is_err());
    }

    #[test]
    fn hard_links_to_hidden_files_are_hidden() {
        let [project, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let path = |name: &str| fs::canonicalize(project.path()).unwrap().join(name);
        let keys = fs::canonicalize(elsewhere.path()).unwrap().join("keys");
        for file in [&keys, &path("model.onnx"), &path("model.onnx.data"), &path("shown")] {
            fs::write(file, "x").unwrap();
        }
        for (file, link) in
            [(&keys, "a"), (&path("model.onnx"), "b"), (&path("model.onnx.data"), "c"), (&path("shown"), "d")]
        {
            fs::hard_link(file, path(link)).unwrap();
        }
        std::os::unix::fs::symlink("a", path("e")).unwrap();
        let view = ProjectView::copy(project.path(), &[keys, path("model.onnx")], 1 << 20).unwrap();
        assert_eq!(listing(&view.path()), ["d", "shown"]);
    }

    #[test]
    fn a_folder_exchanged_with_a_link_shows_nothing_from_outside() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let [project, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (folder, link) = (project.path().join("folder"), project.path().join("link"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("inside"), "x").unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let copies = (0..1500).filter_map(|_| ProjectView::copy(project.path(), &[], 1 << 20).ok());
            let seen: std::collections::BTreeSet<String> =
                copies.flat_map(|view| listing(&view.path())).collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(seen.iter().any(|file| file.ends_with("inside")), "{seen:?}");
            assert!(!seen.iter().any(|file| file.ends_with("secret")), "{seen:?}");
        });
    }
}
