//! The database in a store's file, opened again after it has failed.
//!
//! Place in the flow: the stores of values and of jobs in files read and write by it. In: the file's path.
//! Out: the database.
//! Invariants: a database that has failed is used no more, for redb refuses even its reads; the next use
//! opens the file again, whether it reads or writes; what is closed stays closed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redb::{Builder, Database, DatabaseError, StorageError};

use super::{OpenError, ROOM};
use crate::file::private;

/// Memory of a store's cache.
const CACHE: usize = 32 << 20;
/// The way out where a file is damaged.
const DAMAGED: &str = "put a copy in its place that was made while it was whole";
/// How often the file is tried while reads of the database before have not ended, and how far apart.
const TRIES: (usize, Duration) = (50, Duration::from_millis(5));

/// The ways out where a file cannot be opened.
#[derive(Debug, Clone, Copy)]
pub struct FileHints {
    /// Another has it.
    pub in_use: &'static str,
    /// Anything else.
    pub other: &'static str,
}

/// The database in a file.
pub struct StoreFile {
    path: PathBuf,
    database: ArcSwapOption<Database>,
    is_closed: Mutex<bool>,
}

impl StoreFile {
    /// Opens the file at this path, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be opened, for the operator.
    pub fn open(path: &Path, hints: FileHints) -> Result<StoreFile, OpenError> {
        let database = open(path).map_err(|error| OpenError {
            place: path.display().to_string(),
            why: error.to_string(),
            hint: match &error {
                DatabaseError::DatabaseAlreadyOpen => hints.in_use,
                DatabaseError::Storage(StorageError::Corrupted(_)) => DAMAGED,
                DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::StorageFull => {
                    ROOM
                }
                _ => hints.other,
            },
        })?;
        let database = ArcSwapOption::from_pointee(database);
        Ok(StoreFile { path: path.to_owned(), database, is_closed: Mutex::new(false) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database. Takes as long as the disk does if it has failed.
    ///
    /// # Errors
    /// It is closed, or cannot be opened again.
    pub fn database(&self) -> Result<Arc<Database>, String> {
        if let Some(database) = self.database.load_full() {
            return Ok(database);
        }
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Err("it is closed".to_owned());
        }
        // Others may have waited for the same.
        if let Some(database) = self.database.load_full() {
            return Ok(database);
        }
        let mut left = TRIES.0;
        let database = loop {
            match open(&self.path) {
                Err(DatabaseError::DatabaseAlreadyOpen) if left > 0 => left -= 1,
                opened => break opened.map_err(|error| error.to_string())?,
            }
            thread::sleep(TRIES.1);
        };
        let database = Arc::new(database);
        self.database.store(Some(database.clone()));
        Ok(database)
    }

    /// Uses the database no more: a write has failed. The next use opens it again.
    pub fn give_up(&self) {
        self.database.store(None);
    }

    /// Closes the file for good.
    pub fn close(&self) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.database.store(None);
    }
}

fn open(path: &Path) -> Result<Database, DatabaseError> {
    // It holds what callers have sent.
    private::file(path).map_err(|error| DatabaseError::Storage(StorageError::Io(error)))?;
    Builder::new().set_cache_size(CACHE).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It holds what callers have sent, and where their answers go.
    #[test]
    fn no_other_user_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.redb");
        let hints = FileHints { in_use: "in use", other: "other" };
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        StoreFile::open(&path, hints).unwrap().close();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        StoreFile::open(&path, hints).unwrap().close();
        assert_eq!(mode(), 0o600);
        let device = StoreFile::open(Path::new("/dev/null"), hints).err().unwrap();
        assert_eq!(device.why, "I/O error: it is a device, not a regular file");
    }

    #[test]
    fn what_was_given_up_is_opened_again_and_what_is_closed_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let hints = FileHints { in_use: "in use", other: "other" };
        let file = StoreFile::open(&folder.path().join("it.redb"), hints).unwrap();
        let first = file.database().unwrap();
        file.give_up();
        let reader = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(first);
        });
        let second = file.database().unwrap();
        assert!(Arc::ptr_eq(&second, &file.database().unwrap()));
        reader.join().unwrap();
        let other = StoreFile::open(file.path(), hints).err().unwrap();
        assert_eq!(other.hint, "in use");
        drop(second);
        file.close();
        assert_eq!(file.database().err().as_deref(), Some("it is closed"));
    }
}
