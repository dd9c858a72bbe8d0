//! The state of a file at some moment, by which another one is told from it.
//!
//! Place in the flow: taken where files are watched or written: handlers, certificates.

use std::fs::Metadata;
use std::path::Path;
use std::time::SystemTime;

/// A file's state at some moment, to be compared with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp(Option<Stamp>);

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> FileStamp {
        FileStamp(Some(metadata.into()))
    }
}

impl FileStamp {
    /// The state of a file that is not there.
    pub const ABSENT: FileStamp = FileStamp(None);

    /// Whether there is a file.
    pub fn is_there(self) -> bool {
        self.0.is_some()
    }

    /// Whether there is a file without content.
    pub fn is_empty(self) -> bool {
        self.0.is_some_and(|stamp| stamp.length == 0)
    }

    /// The file's state now; blocks.
    pub fn now(path: &Path) -> FileStamp {
        FileStamp(std::fs::metadata(path).ok().as_ref().map(Stamp::from))
    }

    /// The file's state now.
    pub async fn of(path: &Path) -> FileStamp {
        FileStamp(Stamp::of(path).await)
    }
}

/// The properties of a file that change when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    identity: u64,
}

impl Stamp {
    async fn of(path: &Path) -> Option<Stamp> {
        tokio::fs::metadata(path).await.ok().as_ref().map(Stamp::from)
    }
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Stamp {
        Stamp { modified: metadata.modified().ok(), length: metadata.len(), identity: identity(metadata) }
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> u64 {
    0
}
