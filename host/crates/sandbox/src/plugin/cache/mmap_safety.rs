//! Files that stay as they are while they are mapped.
//!
//! Place in the flow: the compile cache → here → wasmtime, which maps what it gets. In: an open entry of the
//! cache. Out: whether the entry itself can be mapped, as any shared library is; a copy in memory where it
//! cannot. To copy an entry takes longer than to read and hash it.
//! Invariants: a copy cannot be written to. An entry that is mapped itself belongs to this user or to root,
//! is read-only even to them, and lies on a disk of this machine: another one may change what is on a
//! network's disk at any time. Root could write to it all the same, and a disk may fail; then a process that
//! runs it ends, or does what was written, as with the host's own file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The mode of entries that are complete.
pub(super) const READ_ONLY: u32 = 0o400;

/// Whether an entry can be mapped for as long as a process lives. Only Linux says what is needed to know
/// that.
pub(super) fn is_mappable(entry: &File) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = entry.metadata()?;
        let mode = metadata.mode() & 0o777;
        let is_final = match metadata.uid() {
            owner if owner == rustix::process::geteuid().as_raw() => mode == READ_ONLY,
            // Others may read root's: they cannot change the mode.
            0 => mode & 0o222 == 0,
            _ => false,
        };
        Ok(is_final && is_local(entry)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = entry;
        Ok(false)
    }
}

/// Whether a file is on a file system that only this machine writes to: ext4, XFS, Btrfs, ZFS, F2FS, tmpfs
/// and overlayfs, by the numbers they go by in statfs(2). What is not listed is copied.
#[cfg(target_os = "linux")]
pub(super) fn is_local(file: &File) -> io::Result<bool> {
    const LOCAL: [u32; 7] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0x0102_1994, 0x794c_7630];
    let number = u32::try_from(rustix::fs::fstatfs(file)?.f_type);
    Ok(number.is_ok_and(|number| LOCAL.contains(&number)))
}

/// A copy of `entry` that cannot be written to.
pub(super) fn copy(mut entry: &File) -> io::Result<File> {
    entry.rewind()?;
    // No more than there was when it was looked at: it may grow.
    let length = entry.metadata()?.len();
    file_of(entry.take(length))
}

/// A file in memory with these contents, that cannot be written to.
pub(super) fn file_of(mut contents: impl io::Read) -> io::Result<File> {
    let mut file = memory_file()?;
    io::copy(&mut contents, &mut file)?;
    make_final(&file)?;
    file.rewind()?;
    Ok(file)
}

/// Where this process finds a file that it has open.
pub(super) fn path_of(file: &File) -> PathBuf {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    Path::new(folder).join(file.as_raw_fd().to_string())
}

/// An empty file that has no name.
fn memory_file() -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{MemfdFlags, memfd_create};
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Ok(memfd_create(c"compiled component", flags)?.into())
    }
    #[cfg(not(target_os = "linux"))]
    tempfile::tempfile()
}

/// Prevents all later writes to a [`memory_file`] : by this process, and by one that finds it among its open
/// files.
fn make_final(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{SealFlags, fcntl_add_seals};
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(file, seals)?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_entry_is_mapped_itself_if_nobody_may_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entry");
        fs::write(&path, "machine code").unwrap();
        let entry = File::open(&path).unwrap();
        for mode in [0o600, 0o440, 0o420, 0o404, READ_ONLY] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let expected = mode == READ_ONLY && is_local(&entry).unwrap();
            assert_eq!(is_mappable(&entry).unwrap(), expected, "{mode:o}");
        }
        let elsewhere = File::open("/proc/self/status").unwrap();
        assert!(!is_local(&elsewhere).unwrap());
    }

    #[test]
    fn nobody_can_write_to_a_copy() {
        let mut entry = tempfile::tempfile().unwrap();
        entry.write_all(b"machine code").unwrap();
        let mut copy = copy(&entry).unwrap();
        let mut text = String::new();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "machine code");
        assert!(copy.write_all(b"more").is_err() && copy.set_len(1).is_err());
        let again = File::options().write(true).open(path_of(&copy));
        assert!(again.and_then(|mut again| again.write_all(b"x")).is_err());
    }
}
