//! Files that stay as they are while they are mapped.
//!
//! Place in the flow: the compile cache → here → wasmtime, which maps what it gets. In: an open entry of the cache. Out: the entry
//! itself where nothing changes it, as any shared library is mapped; elsewhere a copy in memory that nobody can write to.
//! Where nothing does: it is this user's and read-only even to them, on a disk of this machine. Another machine may change a file on a
//! network's disk at any time. To copy an entry takes longer than to read and hash it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The mode of a file that is not to be written to any more.
pub(super) const MODE: u32 = 0o400;

/// A copy of `entry` to map in its place; `None` if the entry itself can be mapped.
pub(super) fn copy_unless(entry: &File) -> io::Result<Option<File>> {
    if is_steady(entry)? {
        return Ok(None);
    }
    let (mut entry, mut copy) = (entry, memory_file()?);
    io::copy(&mut entry, &mut copy)?;
    make_final(&copy)?;
    io::Seek::rewind(&mut copy)?;
    Ok(Some(copy))
}

/// Where this process finds a file that it has open.
pub(super) fn path_of(file: &File) -> PathBuf {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    Path::new(folder).join(file.as_raw_fd().to_string())
}

/// Whether a file can be mapped, and run, for as long as a process lives.
#[cfg(target_os = "linux")]
fn is_steady(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{FsWord, StatVfsMountFlags, fstatfs, fstatvfs};

    /// Linux's numbers of file systems on disks and in memory of this machine (statfs(2)): ext4, XFS, Btrfs, ZFS, F2FS, tmpfs, overlayfs.
    const LOCAL: [FsWord; 7] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0x0102_1994, 0x794c_7630];
    let metadata = file.metadata()?;
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    Ok(is_ours
        && metadata.mode() & 0o777 == MODE
        && LOCAL.contains(&fstatfs(file)?.f_type)
        && !fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

#[cfg(not(target_os = "linux"))]
fn is_steady(_: &File) -> io::Result<bool> {
    Ok(false)
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

/// Sees to it that nobody writes to a [`memory_file`] any more: not this process, nor one that finds it among its open files.
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
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_may_be_written_to_is_copied_and_the_copy_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entry");
        for (mode, copied) in [(MODE, false), (0o600, true), (0o440, true), (0o420, true), (MODE, false)] {
            let _ = fs::remove_file(&path);
            fs::write(&path, "machine code").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let copy = copy_unless(&File::open(&path).unwrap()).unwrap();
            assert_eq!(copy.is_some(), copied, "{mode:o}");
            let Some(mut copy) = copy else { continue };
            let mut text = String::new();
            copy.read_to_string(&mut text).unwrap();
            assert_eq!(text, "machine code");
            assert!(copy.write_all(b"more").is_err() && copy.set_len(1).is_err());
            let again = File::options().write(true).open(path_of(&copy));
            assert!(again.and_then(|mut again| again.write_all(b"x")).is_err());
        }
    }
}
