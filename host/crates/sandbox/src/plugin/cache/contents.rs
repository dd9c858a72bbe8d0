//! What a cache's folder holds, for the user who wonders what fills the disk.
//!
//! In: a folder. Out: how many files of each kind it has, and how large they are; or the compiled ones are
//! gone. Hosts may run meanwhile: they keep what they have mapped, and compile the rest again.
//! Invariant: nothing is read but names and sizes, and nothing is removed but what a host makes anew.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::{ENTRY, Shelf};

/// The files of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Files {
    /// How many they are.
    pub count: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// When one of them was used last, to ten minutes.
    pub used: Option<SystemTime>,
}

/// The files of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheContents {
    /// Compiled handlers, and the memory that their `init` left.
    pub compiled: Files,
    /// Handlers as they came, which a restart serves again.
    pub handlers: Files,
}

impl Files {
    fn add(&mut self, metadata: &fs::Metadata) {
        self.count += 1;
        self.bytes += metadata.len();
        self.used = self.used.max(metadata.modified().ok());
    }
}

impl CacheContents {
    /// The contents of a folder; nothing if it is not there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(folder: &Path) -> io::Result<CacheContents> {
        let mut contents = CacheContents::default();
        for (name, metadata) in files(folder)? {
            match name {
                name if name.ends_with(ENTRY) => contents.compiled.add(&metadata),
                name if name.ends_with(Shelf::HANDLER) => contents.handlers.add(&metadata),
                _ => {}
            }
        }
        Ok(contents)
    }

    /// Removes what is compiled; what it was.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn clear(folder: &Path) -> io::Result<Files> {
        let mut removed = Files::default();
        for (name, metadata) in files(folder)? {
            if !name.ends_with(ENTRY) {
                continue;
            }
            match fs::remove_file(folder.join(name)) {
                Ok(()) => removed.add(&metadata),
                // A host was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }
}

/// The regular files of a folder.
fn files(folder: &Path) -> io::Result<Vec<(String, fs::Metadata)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let file = |entry: fs::DirEntry| {
        let metadata = fs::symlink_metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().into_string().ok()?, metadata))
    };
    Ok(entries.flatten().filter_map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_is_counted_and_cleared_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(CacheContents::of(&path.join("none")).unwrap(), CacheContents::default());
        for (name, bytes) in [("a.code", 3), ("b.code", 4), ("c.wasm", 5), ("key", 32), ("iris.json", 7)] {
            fs::write(path.join(name), vec![0; bytes]).unwrap();
        }
        fs::create_dir(path.join("folder.code")).unwrap();
        let CacheContents { compiled, handlers } = CacheContents::of(path).unwrap();
        assert_eq!((compiled.count, compiled.bytes, handlers.count, handlers.bytes), (2, 7, 1, 5));
        assert!(compiled.used.is_some());
        let removed = CacheContents::clear(path).unwrap();
        assert_eq!((removed.count, removed.bytes), (2, 7));
        let left = CacheContents::of(path).unwrap();
        assert_eq!((left.compiled, left.handlers), (Files::default(), handlers));
        assert!(path.join("key").exists() && path.join("iris.json").exists());
    }
}
