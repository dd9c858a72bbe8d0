//! Files that are kept beside compiled components: for later starts as they are, and bounded together.
//!
//! Place in the flow: `rollout` keeps here what a start must know of the time before. In and out: bytes by a
//! name.
//! Invariants: a file appears whole or not at all. It is no code, and sealed with nothing: only this user can
//! write to the folder, and who reads a file looks at what it says.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Cache, NO_SURPRISE, new_file, touch};
use crate::file;

/// The folder, for files of one's own.
#[derive(Clone)]
pub struct Shelf(Arc<Cache>);

impl Shelf {
    /// The end of a handler's name: its files are counted with the compiled ones, and removed as they are.
    pub const HANDLER: &str = ".wasm";

    pub(in crate::plugin) fn new(cache: Arc<Cache>) -> Shelf {
        Shelf(cache)
    }

    /// Puts a file there, in place of one that is.
    ///
    /// # Errors
    /// It is larger than the cache may be, or cannot be written.
    pub fn put(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        if contents.len() as u64 > self.0.limit {
            let text = format!("it has {} bytes, and the cache may have {}", contents.len(), self.0.limit);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let mut file = new_file(&self.0.folder)?;
        file.write_all(contents)?;
        file.as_file().sync_data()?;
        file.persist(self.path(name))?;
        self.0.evict()
    }

    /// Whether a file is there; notes that it is of use.
    pub fn has(&self, name: &str) -> bool {
        let file = OpenOptions::new().read(true).custom_flags(NO_SURPRISE).open(self.path(name));
        file.and_then(|file| touch(&file)).is_ok()
    }

    /// The contents of a file of at most `limit` bytes, if it is there.
    ///
    /// # Errors
    /// As [`file::read`].
    pub fn get(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        match file::read(&self.path(name), limit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder.join(name)
    }
}
