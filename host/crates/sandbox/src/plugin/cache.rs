//! Compiled components, kept for the next start and shared by all processes of one user.
//!
//! Place in the flow: [`super::runtime::Runtime::component`] asks here before it compiles, [`super::init`]
//! before it runs `init`. In: what the code is made of, an [`Entry`], and the code where it is not there.
//! Out: the component, mapped from the cache's folder. The folder holds `key`, one file for each compiled
//! component, frame, state or shared module, named by what it was made of, and for moments `new-…`. Such an
//! entry is machine code, in the form of a file that can be mapped, and after it the seal; or, where its
//! memory may hold variables of an endpoint, the same encrypted, see `lock`. What else is kept for later
//! starts lies beside them, see `shelf`. A folder that is root's and that this user can only read is taken as
//! it is: nothing is added and nothing removed.
//! Invariants: an entry is run only if a process that knows the folder's key wrote it, of this very
//! component, for this very engine; a folder or a key that others can get at is refused at start; anything
//! else wrong with an entry when it is loaded costs a compilation and a warning, never an answer. Files
//! appear by renaming, so a process that is killed leaves an entry whole or not at all; they are replaced and
//! removed, and never written to. From then on a loaded entry is as any shared library: see `mmap_safety`.

mod contents;
mod entry;
mod executable;
mod lock;
mod shelf;
mod mmap_safety;

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use wasmtime::Engine;

use super::compiler::Code;

pub use self::contents::{CacheContents, Files};
pub(super) use self::entry::Entry;
use self::executable::map;
pub(super) use self::executable::{Executable, load};
pub use self::shelf::Shelf;

/// Goes into the names of entries; another number for another layout.
const FORMAT: &[u8; 8] = b"mhcode05";
/// Bytes of the seal.
const SEAL: usize = blake3::OUT_LEN;
/// The file that holds the key of the seals.
const KEY: &str = "key";
/// The end of an entry's name.
const ENTRY: &str = ".code";
/// The beginning of the name of a file that is still being written.
const NEW: &str = "new-";
/// A file that is being written for longer than this was left behind by a killed process.
const ABANDONED: Duration = Duration::from_secs(600);
/// How exactly the moment of the last use is kept: a hit does not write more often than this.
const TOUCH: Duration = Duration::from_secs(600);

/// The cache in one folder, for one engine.
pub(super) struct Cache {
    folder: PathBuf,
    key: [u8; blake3::KEY_LEN],
    /// The hash of all that decides the machine code beside the component.
    engine: blake3::Hash,
    /// Most bytes that all entries may have together.
    limit: u64,
    /// Whether this process can add entries and remove them.
    access: Access,
    opened: SystemTime,
    /// It was said that the limit is too small.
    told: AtomicBool,
}

/// The access that this process has to a cache's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The folder is this user's.
    Full,
    /// It is root's and no other user can write to it: made with the machine's image, or by another service.
    Read,
}

impl Access {
    /// The access that a folder of this owner and mode gives `user`; `can_write` is the system's answer for
    /// it.
    fn of(owner: u32, mode: u32, user: u32, can_write: bool) -> Result<Access, &'static str> {
        match owner {
            _ if mode & 0o022 != 0 => Err("other users can write to it"),
            owner if owner == user => Ok(Access::Full),
            0 if !can_write => Ok(Access::Read),
            0 => Err("it belongs to root, and this user can write to it"),
            _ => Err("it belongs to another user"),
        }
    }
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheError {
    /// A user who can write there can run native code as this user.
    #[error("{0}")]
    NotPrivate(String),
    /// The host goes on without a cache.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Cache {
    /// Opens the cache in `folder`, which is made if it is not there, with at most `limit` bytes for
    /// `engine`'s code.
    ///
    /// # Errors
    /// [`CacheError`]
    pub(super) fn open(folder: &Path, limit: u64, engine: &Engine) -> Result<Cache, CacheError> {
        let (folder, access) = private_folder(folder)?;
        let key = key(&folder, access)?;
        let mut hasher = Blake3(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let cache = Cache {
            folder,
            key,
            engine: hasher.0.finalize(),
            limit,
            access,
            opened: SystemTime::now(),
            told: AtomicBool::new(false),
        };
        match access {
            Access::Full => cache.remove_abandoned(),
            Access::Read => tracing::info!(folder = %cache.folder.display(),
                "the compile cache is root's: entries are taken from it, and nothing is kept, what was refused neither"),
        }
        Ok(cache)
    }

    /// The code that was kept as `entry`, if it is there and can be used.
    pub(super) fn find<T: Executable>(&self, engine: &Engine, entry: &Entry) -> Option<T> {
        let id = self.id(entry);
        match self.read(engine, entry, &id) {
            Ok(found) => {
                let found = found?;
                tracing::debug!(entry = %id.to_hex(), "compiled code taken from the cache");
                Some(found)
            }
            Err(error) => {
                tracing::warn!(entry = %self.path(&id).display(),
                    "cannot use an entry of the compile cache, which is made anew: {error:#}");
                None
            }
        }
    }

    /// Whether anything can be kept there.
    pub(super) fn can_keep(&self) -> bool {
        self.access == Access::Full
    }

    /// Keeps code as `entry`, and maps what was kept. Where that fails it is compiled again next time, and
    /// the code is copied.
    ///
    /// # Errors
    /// wasmtime's, of the code; none of the cache's own.
    pub(super) fn keep<T: Executable>(
        &self,
        engine: &Engine,
        entry: &Entry,
        code: &Code,
    ) -> wasmtime::Result<T> {
        if self.can_keep() {
            let id = self.id(entry);
            match self.write(entry, &id, code) {
                Ok(file) => {
                    tracing::debug!(entry = %id.to_hex(), "compiled code kept in the cache");
                    if entry.lock.is_none()
                        && mmap_safety::is_mappable(&file).unwrap_or(false)
                        && let Ok(kept) = map(engine, &file)
                    {
                        return Ok(kept);
                    }
                }
                Err(error) => tracing::warn!(folder = %self.folder.display(),
                    "cannot keep compiled code: {error:#}"),
            }
        }
        load(engine, code)
    }

    /// The name of an entry's machine code.
    fn id(&self, entry: &Entry) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(FORMAT).update(self.engine.as_bytes()).update(entry.name.as_bytes()).finalize()
    }

    /// Removes an entry.
    #[cfg(test)]
    pub(super) fn remove(&self, entry: &Entry) {
        fs::remove_file(self.path(&self.id(entry))).unwrap();
    }

    fn path(&self, id: &blake3::Hash) -> PathBuf {
        self.folder.join(format!("{}{ENTRY}", id.to_hex()))
    }

    /// The seal that only a holder of the key can write after `code`. The entry's name is sealed in, so that
    /// none passes for another.
    fn seal(&self, id: &blake3::Hash, code: &[u8]) -> blake3::Hash {
        self.hasher(id).update(code).finalize()
    }

    /// The seal's beginning; the code follows.
    fn hasher(&self, id: &blake3::Hash) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(FORMAT).update(id.as_bytes());
        hasher
    }

    /// The code kept as `entry`, which is called `id`; `None` if there is none.
    fn read<T: Executable>(
        &self,
        engine: &Engine,
        entry: &Entry,
        id: &blake3::Hash,
    ) -> wasmtime::Result<Option<T>> {
        let file = match OpenOptions::new().read(true).custom_flags(NO_SURPRISE).open(self.path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        self.is_entry(&file)?;
        let found = match &entry.lock {
            Some(lock) => {
                let mut contents = self.contents(&file)?;
                let Some(code) = lock.open(&self.key, id, &mut contents) else {
                    wasmtime::bail!(CHANGED);
                };
                map(engine, &mmap_safety::file_of(code)?)?
            }
            None => match mmap_safety::is_mappable(&file)?.then(|| self.load(engine, id, &file)) {
                Some(Ok(found)) => found,
                // Or nothing may be run that lies there: a mount or a profile forbids it.
                Some(Err(_)) | None => self.load(engine, id, &mmap_safety::copy(&file)?)?,
            },
        };
        touch(&file)?;
        Ok(Some(found))
    }

    /// Looks whether a file may be an entry, before any of it is read or copied.
    fn is_entry(&self, file: &File) -> wasmtime::Result<()> {
        let metadata = file.metadata()?;
        let length = metadata.len();
        if !metadata.is_file() {
            wasmtime::bail!("it is no regular file");
        }
        if length > self.limit {
            wasmtime::bail!("it has {length} bytes, and the cache may have {}", self.limit);
        }
        Ok(())
    }

    /// All that is in an entry's file.
    fn contents(&self, mut file: &File) -> wasmtime::Result<Vec<u8>> {
        let mut contents = vec![0; usize::try_from(file.metadata()?.len())?];
        file.read_exact(&mut contents)?;
        Ok(contents)
    }

    /// Maps what is in `file`, if it is an entry of this name.
    fn load<T: Executable>(&self, engine: &Engine, id: &blake3::Hash, file: &File) -> wasmtime::Result<T> {
        if !self.is_sealed(id, file)? {
            wasmtime::bail!(CHANGED);
        }
        map(engine, file)
    }

    /// Whether `file` is, to its last byte, what a holder of the key wrote under this name.
    fn is_sealed(&self, id: &blake3::Hash, mut file: &File) -> io::Result<bool> {
        let Some(length) = file.metadata()?.len().checked_sub(SEAL as u64) else { return Ok(false) };
        let mut hasher = self.hasher(id);
        hasher.update_reader(file.take(length))?;
        let mut seal = [0; SEAL];
        file.read_exact(&mut seal)?;
        // Compared in constant time.
        Ok(hasher.finalize() == seal)
    }

    fn write(&self, entry: &Entry, id: &blake3::Hash, code: &[u8]) -> wasmtime::Result<File> {
        let (code, seal) = match &entry.lock {
            Some(lock) => {
                let mut locked = code.to_vec();
                lock.close(&self.key, id, &mut locked)?;
                (Cow::Owned(locked), None)
            }
            None => (Cow::Borrowed(code), Some(self.seal(id, code))),
        };
        let seal = seal.as_ref().map_or(&[][..], |seal| seal.as_bytes());
        let length = (code.len() + seal.len()) as u64;
        if length > self.limit {
            wasmtime::bail!("it has {length} bytes, and the cache may have {}", self.limit);
        }
        let mut file = self::new_file(&self.folder)?;
        file.write_all(&code)?;
        file.write_all(seal)?;
        // What is mapped is read again when memory is short: it has to be on the disk by then. What a power
        // cut leaves of an entry has the wrong seal.
        file.as_file().sync_data()?;
        // From here on processes map it. Where files have no modes, they copy it.
        let _ = file.as_file().set_permissions(Permissions::from_mode(mmap_safety::READ_ONLY));
        let file = file.persist(self.path(id))?;
        self.evict()?;
        Ok(file)
    }

    /// Removes what was not used for longest, until the rest is within the limit. Other processes may be at
    /// it as well.
    fn evict(&self) -> io::Result<()> {
        let (mut entries, mut total) = (Vec::new(), 0);
        for file in self.files(|name| name.ends_with(ENTRY) || name.ends_with(Shelf::HANDLER)) {
            let Ok(metadata) = fs::symlink_metadata(&file) else { continue };
            // No entry is as long: it would have all others removed, and come last.
            if metadata.len() > self.limit && fs::remove_file(&file).is_ok() {
                continue;
            }
            total += metadata.len();
            entries.push((metadata.modified()?, metadata.len(), file));
        }
        entries.sort();
        for (used, length, file) in entries {
            if total <= self.limit {
                break;
            }
            if used > self.opened && !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(folder = %self.folder.display(), limit = self.limit,
                    "the compile cache has no room for all handlers in use, which are compiled at the next \
                     start; hint: raise `plugin.cache_size`");
            }
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= length,
            }
        }
        Ok(())
    }

    /// Removes what killed processes were writing.
    fn remove_abandoned(&self) {
        for file in self.files(|name| name.starts_with(NEW)) {
            let modified = fs::metadata(&file).and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
            if age.is_some_and(|age| age >= ABANDONED) {
                // Another process may be removing it as well.
                let _ = fs::remove_file(&file);
            }
        }
    }

    /// The folder's files with such names.
    fn files(&self, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let entries = entries.flatten().filter(|entry| wanted(&entry.file_name().to_string_lossy()));
        entries.map(|entry| entry.path()).collect()
    }
}

/// The defect of an entry that was written without the key.
const CHANGED: &str = "it is not as this host wrote it";

/// Notes that a file is of use.
fn touch(file: &File) -> io::Result<()> {
    let now = SystemTime::now();
    let used = file.metadata()?.modified()?;
    if now.duration_since(used).is_ok_and(|age| age >= TOUCH) {
        // Where nothing can be written, what goes first is what was written first.
        let _ = file.set_modified(now);
    }
    Ok(())
}

/// For files that should be regular ones: no link is followed and no pipe waited for.
const NO_SURPRISE: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// Makes the folder, or makes sure that only this user and root can write to it.
fn private_folder(folder: &Path) -> Result<(PathBuf, Access), CacheError> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let folder = fs::canonicalize(folder)?;
    let metadata = fs::metadata(&folder)?;
    // Access lists say more than the mode does.
    let can_write = rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok();
    let user = rustix::process::geteuid().as_raw();
    let access = Access::of(metadata.uid(), metadata.mode(), user, can_write);
    Ok((folder, access.map_err(|why| CacheError::NotPrivate(why.to_owned()))?))
}

/// The folder's key, made by the first process that comes.
fn key(folder: &Path, access: Access) -> Result<[u8; blake3::KEY_LEN], CacheError> {
    let path = folder.join(KEY);
    let open = || OpenOptions::new().read(true).custom_flags(NO_SURPRISE).open(&path);
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && access == Access::Full => {
            make_key(folder, &path)?;
            open()?
        }
        file => file?,
    };
    let metadata = file.metadata()?;
    // Who can read root's key cannot write to root's folder, so it is no secret there.
    let (owner, others, allowed) = match access {
        Access::Full => (rustix::process::geteuid().as_raw(), 0o077, "this user can read"),
        Access::Read => (0, 0o022, "root can write"),
    };
    let private = metadata.is_file() && metadata.mode() & others == 0 && metadata.uid() == owner;
    if !private || metadata.len() != blake3::KEY_LEN as u64 {
        let path = path.display();
        return Err(CacheError::NotPrivate(format!(
            "`{path}` should be {} bytes that only {allowed}; remove it if you did not expect that",
            blake3::KEY_LEN
        )));
    }
    let mut key = [0; blake3::KEY_LEN];
    file.read_exact(&mut key)?;
    Ok(key)
}

/// Writes a key, unless another process has been faster. Everything depends on it, so it is on the disk
/// before it is there.
fn make_key(folder: &Path, path: &Path) -> io::Result<()> {
    let mut key = [0; blake3::KEY_LEN];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut file = new_file(folder)?;
    file.write_all(&key)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(error.error),
        _ => {}
    }
    File::open(folder)?.sync_all()
}

/// A file for this user only, removed unless it is given its name.
fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(NEW).tempfile_in(folder)
}

/// The bytes that wasmtime writes into a [`Hasher`], as a digest that tells more than 64 bits.
struct Blake3(blake3::Hasher);

impl Hasher for Blake3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not used; the digest is taken from the inside.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
