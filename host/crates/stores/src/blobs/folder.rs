//! The store in a folder of this host alone.
//!
//! Place in the flow: behind [`Store`](super::Store). `OWNER/…/HASH`: an object is a file whose name is the
//! hash of the object's; it begins with a mark and that name. What there is is read from the folder when an
//! owner is first asked for, and known from then on.
//! Invariants: folders and files are this user's alone; a file has its place when it is whole and on the
//! disk, so that what was answered survives the end of the process at any moment; what was not ended is
//! removed at the next start; no name of an object is part of a path; one process has the folder.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};
use tokio::sync::OnceCell;

use super::usage::{Held, Reservation, Usage};
use super::{BlobError, Container, Info, MOST_NAMES, OpenError, Page, Quota, now};
use crate::blocking;
use crate::file::{self, private};
use crate::text::hex;
use crate::time::unix_seconds;

/// The beginning of each file; the last byte is its version.
const MARK: &[u8; 8] = b"mhobject";
/// The largest piece that is read at once, and the bytes that are gathered before they are written.
const PIECE: usize = 256 << 10;
/// Where objects are that are not whole yet.
const UNFINISHED: &str = "unfinished";

/// A store in a folder.
pub(super) struct Folder {
    root: PathBuf,
    /// Held as long as the store is open.
    _lock: File,
    owners: Mutex<HashMap<Arc<str>, Loading>>,
    /// Numbers the files that are not whole yet.
    next: AtomicU64,
}

/// An owner, once it is known what it has.
type Loading = Arc<OnceCell<Arc<Owner>>>;

/// The objects of one owner.
struct Owner {
    usage: Arc<Usage>,
    /// Held from the change of a file to that of the map, on threads alone that may wait for the disk.
    changes: Mutex<()>,
    /// By the container's path, then by name. Not held while the disk is waited for.
    containers: Mutex<HashMap<String, BTreeMap<String, Info>>>,
}

impl Owner {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<String, Info>>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an object out of the map, and its bytes out of what is held.
    fn forget(&self, path: &str, name: &str) {
        let removed = self.lock().get_mut(path).and_then(|objects| objects.remove(name));
        if let Some(info) = removed {
            self.usage.remove(info.size);
        }
    }

    /// Forgets an object whose file is gone.
    fn heal(&self, file: &Path, path: &str, name: &str) -> io::Result<()> {
        let _changes = self.changes();
        if !file.try_exists()? {
            self.forget(path, name);
        }
        Ok(())
    }

    fn info(&self, container: &Container, name: &str) -> Option<Info> {
        self.lock().get(&*container.path)?.get(name).copied()
    }
}

impl Folder {
    pub(super) fn open(root: &Path) -> Result<Folder, OpenError> {
        let failed = |error: &io::Error| OpenError {
            place: root.display().to_string(),
            why: error.to_string(),
            hint: "`blobs.store` is a folder that this user can write to, or not there yet in one such",
        };
        let open = || -> io::Result<File> {
            private::folder(root)?;
            // Those that were there, too: the root may be another user's.
            for folder in [UNFINISHED, "own", "shared"] {
                private::folder(&root.join(folder))?;
            }
            private::file(&root.join("lock"))
        };
        let lock = open().map_err(|error| failed(&error))?;
        if lock.try_lock().is_err() {
            return Err(OpenError {
                place: root.display().to_string(),
                why: "another process has it open".to_owned(),
                hint: "each host needs a folder of its own, or hosts share a bucket",
            });
        }
        let clear = || -> io::Result<()> {
            fs::read_dir(root.join(UNFINISHED))?.try_for_each(|entry| {
                let entry = entry?;
                // No host makes folders there.
                if entry.file_type()?.is_dir() { Ok(()) } else { fs::remove_file(entry.path()) }
            })
        };
        clear().map_err(|error| failed(&error))?;
        Ok(Folder { root: root.to_owned(), _lock: lock, owners: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// The objects of an owner, which are looked for when they are first asked for.
    async fn owner(&self, container: &Container) -> Result<Arc<Owner>, BlobError> {
        let cell = {
            let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            owners.entry(container.owner.clone()).or_default().clone()
        };
        let load = || {
            let (root, owner) = (self.root.clone(), container.owner.clone());
            off_thread(move || load(&root, &owner))
        };
        cell.get_or_try_init(load).await.cloned()
    }

    fn file(&self, container: &Container, name: &str) -> PathBuf {
        self.root.join(&*container.path).join(file_name(name))
    }

    pub(super) async fn info(&self, container: &Container, name: &str) -> Result<Option<Info>, BlobError> {
        Ok(self.owner(container).await?.info(container, name))
    }

    pub(super) async fn list(&self, container: &Container, from: Option<String>) -> Result<Page, BlobError> {
        let owner = self.owner(container).await?;
        let containers = owner.lock();
        let Some(objects) = containers.get(&*container.path) else { return Ok((Vec::new(), None)) };
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut names: Vec<String> = objects
            .range((from, Bound::Unbounded))
            .take(MOST_NAMES + 1)
            .map(|(name, _)| name.clone())
            .collect();
        let has_more = names.len() > MOST_NAMES;
        names.truncate(MOST_NAMES);
        let next = names.last().filter(|_| has_more).cloned();
        Ok((names, next))
    }

    pub(super) async fn delete(&self, container: &Container, names: &[String]) -> Result<(), BlobError> {
        let owner = self.owner(container).await?;
        let (folder, path) = (self.root.join(&*container.path), container.path.to_string());
        let names = names.to_vec();
        off_thread(move || {
            let changes = owner.changes();
            let mut is_any = false;
            for name in names {
                if !owner.lock().get(&path).is_some_and(|objects| objects.contains_key(&name)) {
                    continue;
                }
                match fs::remove_file(folder.join(file_name(&name))) {
                    // Another program has removed it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed?,
                }
                owner.forget(&path, &name);
                is_any = true;
            }
            drop(changes);
            match if is_any { sync_folder(&folder) } else { Ok(()) } {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                synced => synced,
            }
        })
        .await
    }

    pub(super) async fn read(
        &self,
        container: &Container,
        name: &str,
        first: u64,
        last: u64,
    ) -> Result<Option<(u64, Reader)>, BlobError> {
        let owner = self.owner(container).await?;
        if owner.info(container, name).is_none() {
            return Ok(None);
        }
        let (path, before) = (self.file(container, name), head(name).len() as u64);
        let opened = tokio::task::spawn_blocking(move || file::open(&path)).await;
        let mut file = match opened.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(file) => tokio::fs::File::from_std(file),
            // Removed just now, or by another program.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (file, path, name) =
                    (self.file(container, name), container.path.clone(), name.to_owned());
                off_thread(move || owner.heal(&file, &path, &name)).await?;
                return Ok(None);
            }
            Err(error) => return Err(unavailable(&error)),
        };
        let length = file.metadata().await.map_err(|error| unavailable(&error))?.len();
        let size = length.saturating_sub(before);
        let end = last.saturating_add(1).min(size);
        let first = first.min(end);
        file.seek(io::SeekFrom::Start(before + first)).await.map_err(|error| unavailable(&error))?;
        Ok(Some((end - first, Reader { file, left: end - first })))
    }

    pub(super) async fn writer(
        self: &Arc<Folder>,
        container: &Container,
        name: &str,
        quota: Quota,
    ) -> Result<Writer, BlobError> {
        let owner = self.owner(container).await?;
        let reservation = owner.usage.reserve(quota, owner.info(container, name).is_none())?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let unfinished = Unfinished(self.root.join(UNFINISHED).join(number.to_string()));
        let path = unfinished.0.clone();
        let file = off_thread(move || private::new_file(&path)).await?;
        let mut file = BufWriter::with_capacity(PIECE, tokio::fs::File::from_std(file));
        file.write_all(&head(name)).await.map_err(|error| unavailable(&error))?;
        let (folder, container, name) = (self.clone(), container.clone(), name.to_owned());
        Ok(Writer { folder, owner, container, name, reservation, unfinished, file })
    }
}

/// An object's content.
pub(super) struct Reader {
    file: tokio::fs::File,
    left: u64,
}

impl Reader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE);
        if most == 0 {
            return Ok(None);
        }
        let mut piece = BytesMut::with_capacity(most);
        let read = (&mut self.file).take(most as u64).read_buf(&mut piece).await;
        match read.map_err(|error| unavailable(&error))? {
            0 => Err(BlobError::Unavailable("the file of the object is cut short".to_owned())),
            length => {
                self.left = self.left.saturating_sub(length as u64);
                Ok(Some(piece.freeze()))
            }
        }
    }
}

/// A file that is removed unless it gets its place.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        // It has got its place.
        if path.as_os_str().is_empty() {
            return;
        }
        // A request that is given up is dropped on a worker. What stays, the next start removes.
        blocking::in_background(move || {
            let _ = fs::remove_file(path);
        });
    }
}

/// An object that is being written.
pub(super) struct Writer {
    folder: Arc<Folder>,
    owner: Arc<Owner>,
    container: Container,
    name: String,
    reservation: Reservation,
    unfinished: Unfinished,
    file: BufWriter<tokio::fs::File>,
}

impl Writer {
    pub(super) async fn write(&mut self, piece: &[u8]) -> Result<(), BlobError> {
        self.reservation.grow(piece.len())?;
        self.file.write_all(piece).await.map_err(|error| unavailable(&error))
    }

    pub(super) async fn finish(self) -> Result<(), BlobError> {
        let Writer { folder, owner, container, name, reservation, mut unfinished, mut file } = self;
        file.flush().await.map_err(|error| unavailable(&error))?;
        let file = file.into_inner().into_std().await;
        off_thread(move || {
            file.sync_all()?;
            let place = folder.file(&container, &name);
            let parent = folder.root.join(&*container.path);
            private::folder(&parent)?;
            let changes = owner.changes();
            fs::rename(&unfinished.0, &place)?;
            // It has its place.
            drop(std::mem::take(&mut unfinished.0));
            let info = Info { size: reservation.bytes(), created: now() };
            let replaced = owner.lock().entry(container.path.to_string()).or_default().insert(name, info);
            reservation.commit(replaced.map(|info| info.size));
            drop(changes);
            sync_folder(&parent)
        })
        .await
    }
}

/// The objects in the folder of an owner.
fn load(root: &Path, owner: &str) -> io::Result<Arc<Owner>> {
    let mut containers: HashMap<String, BTreeMap<String, Info>> = HashMap::new();
    let mut held = Held::default();
    let mut folders = vec![owner.to_owned()];
    while let Some(path) = folders.pop() {
        let entries = match fs::read_dir(root.join(&path)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(format!("{path}/{}", entry.file_name().to_string_lossy()));
                continue;
            }
            let Some((name, before)) = name_of(&entry.path())? else {
                let file = entry.path();
                tracing::warn!(file = %file.display(), "is no object of this store, and is passed over");
                continue;
            };
            let size = metadata.len().saturating_sub(before);
            let created = metadata.modified().map(unix_seconds).unwrap_or_default();
            (held.bytes, held.objects) = (held.bytes + size, held.objects + 1);
            containers.entry(path.clone()).or_default().insert(name, Info { size, created });
        }
    }
    let usage = Arc::<Usage>::default();
    usage.set(held);
    Ok(Arc::new(Owner { usage, changes: Mutex::new(()), containers: Mutex::new(containers) }))
}

/// The name of the object in a file, and how many bytes are before its content.
fn name_of(path: &Path) -> io::Result<Option<(String, u64)>> {
    // What is no file is no object, and not waited for.
    let mut file = match file::open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
        file => file?,
    };
    let mut mark = [0; MARK.len() + 2];
    if file.read_exact(&mut mark).is_err() {
        return Ok(None);
    }
    let [mark @ .., low, high] = mark;
    let mut name = vec![0; usize::from(u16::from_le_bytes([low, high]))];
    if &mark != MARK || file.read_exact(&mut name).is_err() {
        return Ok(None);
    }
    let name = String::from_utf8(name).ok();
    let is_here = |name: &String| path.file_name().is_some_and(|file| *file == *file_name(name));
    Ok(name.filter(is_here).map(|name| {
        let before = head(&name).len() as u64;
        (name, before)
    }))
}

/// The beginning of a file.
fn head(name: &str) -> Vec<u8> {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes();
    [MARK.as_slice(), &length, name.as_bytes()].concat()
}

fn file_name(name: &str) -> String {
    hex(&Sha256::digest(name))
}

/// Makes sure that the list of a folder is on the disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does this on a thread that may wait for the disk, to its end.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, BlobError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| BlobError::Unavailable("the process is going away".to_owned()))?;
    done.map_err(|error| unavailable(&error))
}

/// Without a path.
fn unavailable(error: &io::Error) -> BlobError {
    BlobError::Unavailable(format!("the disk says: {}", error.kind()))
}
