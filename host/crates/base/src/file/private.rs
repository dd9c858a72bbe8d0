//! Files and folders for this user alone: what holds requests, answers and secrets.
//!
//! Place in the flow: the stores of values, jobs and objects, and the recordings. In: a path. Out: an open
//! file of mode 0600, a folder of mode 0700.
//! Invariants: nothing is made wider than that, under any mask of the process; what is this user's and wider
//! is narrowed; what is another's is used only if no stranger can get at it: its group may, as on volumes
//! whose group is the container's. No pipe and no device passes for a file, and none is waited for.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::regular;

/// The modes of what is this user's alone.
const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;

/// Makes a folder, and those that it is in, or makes sure that no stranger can get at it.
///
/// # Errors
/// It cannot be made; it belongs to another user, and strangers can write to it.
pub fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    let metadata = fs::metadata(path)?;
    match is_own(&metadata) {
        true if metadata.mode() & 0o077 != 0 => narrow(path, FOLDER),
        false if metadata.mode() & 0o002 != 0 => Err(strangers("write to it")),
        _ => Ok(()),
    }
}

/// Opens a regular file to read and write it, and makes it if it is not there.
///
/// # Errors
/// It cannot be opened or is something else; it belongs to another user, and strangers can read it or write
/// to it.
pub fn file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE).custom_flags(super::NO_SURPRISE);
    let file = regular(options.open(path)?)?;
    let metadata = file.metadata()?;
    match is_own(&metadata) {
        true if metadata.mode() & 0o077 != 0 => {
            tracing::info!(file = %path.display(), "others could read it: its mode is {FILE:o} now");
            file.set_permissions(Permissions::from_mode(FILE))?;
        }
        false if metadata.mode() & 0o006 != 0 => return Err(strangers("read or write it")),
        _ => {}
    }
    Ok(file)
}

/// Makes a new file and opens it to write to it.
///
/// # Errors
/// It cannot be made, or is there.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE).open(path)
}

fn is_own(metadata: &fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

fn narrow(path: &Path, mode: u32) -> io::Result<()> {
    tracing::info!(folder = %path.display(), "others could get at it: its mode is {mode:o} now");
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn strangers(what: &str) -> io::Error {
    io::Error::new(
        ErrorKind::PermissionDenied,
        format!("it belongs to another user, and all users can {what}"),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_made_or_found_is_of_this_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        folder(&path("a/b/c")).unwrap();
        assert_eq!([mode(&path("a")), mode(&path("a/b")), mode(&path("a/b/c"))], [FOLDER; 3]);
        for found in [0o755, 0o777, 0o2770, 0o700] {
            fs::set_permissions(path("a"), Permissions::from_mode(found)).unwrap();
            folder(&path("a")).unwrap();
            assert_eq!(mode(&path("a")), FOLDER, "{found:o}");
        }
        drop(file(&path("new")).unwrap());
        drop(new_file(&path("newer")).unwrap());
        assert_eq!([mode(&path("new")), mode(&path("newer"))], [FILE; 2]);
        fs::write(path("new"), "kept").unwrap();
        for found in [0o644, 0o666, 0o600] {
            fs::set_permissions(path("new"), Permissions::from_mode(found)).unwrap();
            drop(file(&path("new")).unwrap());
            assert_eq!(mode(&path("new")), FILE, "{found:o}");
        }
        assert_eq!(fs::read_to_string(path("new")).unwrap(), "kept");
        assert!(new_file(&path("new")).is_err());
    }

    #[test]
    fn what_is_no_file_or_open_to_strangers_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let pipe = root.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(file(&pipe).unwrap_err().to_string(), "it is a pipe, not a regular file");
        assert_eq!(
            file(Path::new("/dev/null")).unwrap_err().to_string(),
            "it is a device, not a regular file"
        );
        assert!(file(root.path()).is_err());
        assert!(folder(&pipe).is_err());
        // Root's, unless the tests are.
        if !is_own(&fs::metadata("/tmp").unwrap()) {
            let error = folder(Path::new("/tmp")).unwrap_err().to_string();
            assert_eq!(error, "it belongs to another user, and all users can write to it");
        }
    }
}
