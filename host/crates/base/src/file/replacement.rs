//! A file in the place of another one.
//!
//! Place in the flow: orders that are to hold after a restart write to the file that is read at start:
//! handlers, configurations. In: a path and contents. Out: the file, and how to tell that it is still this
//! one.
//! Invariant: at every moment the file is the old one or the new one, whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::stamp::FileStamp;

/// A file that is on the disk, beside the one that it is to replace. Dropped, it is removed.
pub struct Replacement {
    path: PathBuf,
    beside: NamedTempFile,
    stamp: FileStamp,
}

impl Replacement {
    /// Writes what is to be in the file at `path`, with the permissions of the one that is there; blocks.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(path: &Path, contents: &[u8]) -> io::Result<Replacement> {
        let mut beside = tempfile::Builder::new().prefix(".modelhost-").tempfile_in(folder(path))?;
        beside.write_all(contents)?;
        if let Ok(metadata) = fs::metadata(path) {
            beside.as_file().set_permissions(metadata.permissions())?;
        }
        beside.as_file().sync_all()?;
        // Before it has its name: from then on others may write to it.
        let stamp = FileStamp::from(&beside.as_file().metadata()?);
        Ok(Replacement { path: path.to_owned(), beside, stamp })
    }

    /// Puts it in the file's place, by a rename; blocks. Gives its state.
    ///
    /// # Errors
    /// It cannot be put there: the file is as it was.
    pub fn put(self) -> io::Result<FileStamp> {
        self.beside.persist(&self.path)?;
        Ok(self.stamp)
    }
}

/// Waits until a file that was put there has its name on the disk; blocks.
///
/// # Errors
/// The folder cannot be asked for that; the file is in its place all the same.
pub fn settle(path: &Path) -> io::Result<()> {
    File::open(folder(path)).and_then(|folder| folder.sync_all())
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
