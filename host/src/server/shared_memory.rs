//! Regions of system shared memory that clients name: inputs are read from them, outputs written into them
//! (Triton's system shared memory extension).
//!
//! Place in the flow: beside it; clients register regions over HTTP and gRPC, `decode` and `encode` of the
//! Open Inference Protocol read and write them.
//! In: names, keys, offsets and sizes, hostile. Out: bytes, or text for the caller.
//! Invariants: a key is one name in `/dev/shm`, opened without following a link, and a regular file. No
//! region is mapped, since its owner may shorten it at any moment, which would end the process: bytes are
//! copied by reads and writes, and the file's length is asked for at each. A region is an open file: while it
//! is one, the system keeps the file's memory, also if its owner has removed it. Regions are bounded by their
//! number, and registered by callers of this machine only; files are closed by no worker and under no lock.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use crate::arrivals::Origin;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::keys::{Credentials, Keys};

/// Where POSIX shared memory is.
const FOLDER: &str = "/dev/shm";
/// Longest name of a region, and longest key.
const LONGEST_NAME: usize = 255;
/// The answer to what needs a GPU's memory.
const NO_CUDA: &str = "CUDA shared memory is not supported by this server; use system shared memory";

/// The regions of all clients. The default takes none.
#[derive(Clone, Default)]
pub struct SharedMemory {
    /// Most regions; 0 where the extension is off.
    most: usize,
    regions: Arc<RwLock<BTreeMap<String, Arc<Region>>>>,
}

/// One region.
pub(super) struct Region {
    pub key: String,
    /// Where it begins in the file.
    pub offset: u64,
    pub byte_size: u64,
    name: String,
    /// `None` when it has been closed.
    file: Option<File>,
}

impl Region {
    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The last one that has a removed file open waits for the system to free its memory.
impl Drop for Region {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            blocking::in_background(move || drop(file));
        }
    }
}

/// A part of a region: the place of one tensor.
#[derive(Clone)]
pub(super) struct Place {
    region: Arc<Region>,
    offset: u64,
    byte_size: u64,
}

impl SharedMemory {
    /// At most so many regions; `None` takes none.
    pub fn new(most: Option<usize>) -> SharedMemory {
        SharedMemory { most: most.unwrap_or_default(), regions: Arc::default() }
    }

    /// Whether the extension is on.
    pub(super) fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Makes a region known by its name.
    ///
    /// # Errors
    /// `invalid_input`, in Triton's words where clients look for them.
    pub(super) fn register(
        &self,
        name: &str,
        key: &str,
        offset: u64,
        byte_size: u64,
    ) -> Result<(), RequestError> {
        if !self.is_on() {
            let text = "system shared memory is off; the operator switches it on with `--shared-memory`";
            return Err(invalid(text.to_owned()));
        }
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(invalid(format!("a shared memory region has a name of 1 to {LONGEST_NAME} bytes")));
        }
        let end = offset.checked_add(byte_size).filter(|_| byte_size > 0);
        let file = open(key);
        let length = file.as_ref().ok().and_then(|file| Some(file.metadata().ok()?.len()));
        let (Ok(file), Some(length)) = (file, length) else {
            return Err(invalid(format!("Unable to open shared memory region: '{key}'")));
        };
        if end.is_none_or(|end| end > length) {
            let text = format!(
                "failed to register shared memory region '{name}': invalid args: it has {length} bytes, which do not hold \
                 {byte_size} from {offset} on"
            );
            return Err(invalid(text));
        }
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        if regions.contains_key(name) {
            return Err(invalid(format!("shared memory region '{name}' already in manager")));
        }
        if regions.len() >= self.most {
            let most = self.most;
            return Err(invalid(format!("there are {most} shared memory regions already; unregister some")));
        }
        let region =
            Region { key: key.to_owned(), offset, byte_size, name: name.to_owned(), file: Some(file) };
        regions.insert(name.to_owned(), Arc::new(region));
        Ok(())
    }

    /// Forgets the region of this name, or all of them. One that is not there is no error. Requests that use
    /// it end on it.
    pub(super) fn unregister(&self, name: Option<&str>) {
        let taken: Vec<Arc<Region>> = {
            let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
            match name {
                Some(name) => regions.remove(name).into_iter().collect(),
                None => mem::take(&mut *regions).into_values().collect(),
            }
        };
        // One after the other, where no request uses them.
        let unused: Vec<File> =
            taken.into_iter().filter_map(|region| Arc::into_inner(region)?.file.take()).collect();
        if !unused.is_empty() {
            blocking::in_background(move || drop(unused));
        }
    }

    /// The region of this name, or all of them.
    ///
    /// # Errors
    /// `not_found`.
    pub(super) fn status(&self, name: Option<&str>) -> Result<Vec<(String, Arc<Region>)>, RequestError> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = name else {
            return Ok(regions.iter().map(|(name, region)| (name.clone(), region.clone())).collect());
        };
        let region = regions.get(name).cloned().ok_or_else(|| {
            let text = format!("Unable to find system shared memory region: '{name}'");
            RequestError::new(Code::NotFound, Stage::Admit, text)
        })?;
        Ok(vec![(name.to_owned(), region)])
    }

    /// A tensor's place in the region of this name.
    ///
    /// # Errors
    /// Text for the caller.
    pub(super) fn place(&self, name: &str, offset: u64, byte_size: Option<u64>) -> Result<Place, String> {
        if !self.is_on() {
            return Err("shared memory is not served".to_owned());
        }
        let byte_size =
            byte_size.ok_or("`shared_memory_region` needs `shared_memory_byte_size` beside it")?;
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let region =
            regions.get(name).ok_or_else(|| format!("Unable to find shared memory region: '{name}'"))?;
        if offset.checked_add(byte_size).is_none_or(|end| end > region.byte_size) {
            return Err(format!("Invalid offset + byte size for shared memory region: '{name}'"));
        }
        Ok(Place { region: region.clone(), offset, byte_size })
    }
}

/// Whether a caller may see and change what is registered: with any key that opens an endpoint, if all have
/// some.
///
/// # Errors
/// `unauthorized`.
pub(super) fn authorize(keys: &Keys, credentials: Credentials<'_>) -> Result<(), RequestError> {
    if keys.admit(|| credentials) {
        return Ok(());
    }
    let text = "shared memory requires a key: send `authorization: Bearer KEY`";
    Err(RequestError::new(Code::Unauthorized, Stage::Admit, text))
}

/// The same of registering one, which only callers of this machine may: what a file's name says is the
/// machine's own.
///
/// # Errors
/// `unauthorized`, `invalid_input`.
pub(super) fn authorize_registration(
    keys: &Keys,
    credentials: Credentials<'_>,
    origin: Origin,
) -> Result<(), RequestError> {
    authorize(keys, credentials)?;
    if origin.address.to_canonical().is_loopback() {
        return Ok(());
    }
    let text = "shared memory is registered only by clients of the server's own machine, over a loopback address such as \
                127.0.0.1";
    Err(invalid(text.to_owned()))
}

/// The refusal of a region in a GPU's memory.
pub(super) fn no_cuda() -> RequestError {
    invalid(NO_CUDA.to_owned())
}

impl Place {
    /// How many bytes it has.
    pub(super) fn byte_size(&self) -> u64 {
        self.byte_size
    }

    /// The region's name, and where in it this begins.
    pub(super) fn named(&self) -> (&str, u64) {
        (&self.region.name, self.offset)
    }

    /// Where it begins in the file, which was this long a moment ago at least.
    fn begin(&self) -> Result<u64, String> {
        let length = self.region.file().and_then(File::metadata).map_or(0, |metadata| metadata.len());
        let begin = self.region.offset.saturating_add(self.offset);
        if begin.saturating_add(self.byte_size) > length {
            return Err(self.shortened());
        }
        Ok(begin)
    }

    fn shortened(&self) -> String {
        format!("shared memory region '{}' has become shorter than it was registered", self.region.name)
    }

    /// Its bytes, at most `limit`.
    ///
    /// # Errors
    /// Text for the caller.
    pub(super) fn read(&self, limit: usize) -> Result<Bytes, String> {
        let size = usize::try_from(self.byte_size).ok().filter(|size| *size <= limit);
        let size = size.ok_or_else(|| {
            format!("{} bytes of shared memory are more than the {limit} that are left", self.byte_size)
        })?;
        let begin = self.begin()?;
        let mut bytes = vec![0; size];
        let read = || self.region.file()?.read_exact_at(&mut bytes, begin);
        blocking::if_much_copied(size, read).map_err(|_| self.shortened())?;
        Ok(bytes.into())
    }

    /// Writes an output to its beginning.
    ///
    /// # Errors
    /// Text for the caller.
    pub(super) fn write(&self, output: &str, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 > self.byte_size {
            return Err(format!(
                "shared memory size specified with the request for output '{output}' ({} bytes) should be at least {} bytes \
                 to hold the results",
                self.byte_size,
                bytes.len()
            ));
        }
        let begin = self.begin()?;
        let write = || self.region.file()?.write_all_at(bytes, begin);
        blocking::if_much_copied(bytes.len(), write).map_err(|_| self.shortened())
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        Arc::ptr_eq(&self.region, &other.region)
            && (self.offset, self.byte_size) == (other.offset, other.byte_size)
    }
}

impl Eq for Place {}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}; {}]", self.region.name, self.offset, self.byte_size)
    }
}

/// The file of a key: one name, with or without a slash before it.
fn open(key: &str) -> io::Result<File> {
    let name = key.strip_prefix('/').unwrap_or(key);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty()
        || name.len() > LONGEST_NAME
        || !name.bytes().all(plain)
        || name.bytes().all(|byte| byte == b'.')
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Does not wait for the other end of a pipe, which is refused below.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = Path::new(FOLDER).join(name);
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn invalid(text: String) -> RequestError {
    RequestError::invalid(Stage::Admit, text)
}

#[cfg(test)]
mod tests;
