//! Looks at many files from one thread, and tells when one of them is not what it was.
//!
//! Place in the flow: beside the request path; [`follow`](super::follow) waits for what is told here, then
//! looks at its file itself.
//! In: paths and the stamps that their files had. Out: a notice for each file whose stamp is another one. The
//! system tells when something happens in the folders (inotify), which is only a reason to look at once: it
//! knows nothing of what other machines write, or of a link's target elsewhere, so the files are looked at
//! every second anyway, and where the system tells nothing, twenty times as often.
//! Invariant: looking takes half a percent of a core at the most, however many files there are: the pause
//! grows with what a round took.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::INTERVAL;
use crate::file::stamp::FileStamp;

/// Between two rounds where the system tells of changes.
const SELDOM: Duration = Duration::from_secs(1);
/// How many times as long as a round took nothing is looked at after it.
const REST: u32 = 200;

/// A file, what it was when it was last looked at, and who wants to know.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) stamp: FileStamp,
    pub(super) changed: Weak<Notify>,
}

/// Looks at the files until all who want to know are gone.
pub(super) fn watch(files: Vec<File>) {
    if files.is_empty() {
        return;
    }
    let spawned = thread::Builder::new().name("watch".to_owned()).spawn(move || rounds(files));
    if let Err(error) = spawned {
        tracing::error!("handler files are not watched: no thread for it: {error}");
    }
}

fn rounds(mut files: Vec<File>) {
    let folders = Folders::of(files.iter().map(|file| file.path.as_path()));
    let pause = if folders.is_some() { SELDOM } else { INTERVAL };
    while !files.is_empty() {
        let begun = Instant::now();
        files.retain_mut(|file| {
            let Some(changed) = file.changed.upgrade() else { return false };
            let now = FileStamp::now(&file.path);
            if now != file.stamp {
                file.stamp = now;
                changed.notify_one();
            }
            true
        });
        let rest = (begun.elapsed() * REST).max(INTERVAL);
        thread::sleep(rest);
        if let Some(folders) = &folders {
            folders.wait(pause.saturating_sub(rest));
        }
    }
}

/// The system's notifications of the folders that the files are in.
struct Folders {
    #[cfg(target_os = "linux")]
    told: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Folders {
    /// `None` if it does not tell of all of them.
    fn of<'a>(files: impl Iterator<Item = &'a Path>) -> Option<Folders> {
        use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
        let told = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let anything = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        let folders: std::collections::HashSet<&Path> = files.filter_map(Path::parent).collect();
        for folder in folders {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            inotify::add_watch(&told, folder, anything).ok()?;
        }
        Some(Folders { told })
    }

    /// Waits until something has happened, or for so long.
    fn wait(&self, longest: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Ok(longest) = Timespec::try_from(longest) else { return };
        let mut polled = [PollFd::new(&self.told, PollFlags::IN)];
        // Woken early is looked early, no more.
        let _ = poll(&mut polled, Some(&longest));
        // What exactly has happened does not matter: what has piled up is forgotten.
        let mut events = [0; 4096];
        while rustix::io::read(&self.told, &mut events).is_ok_and(|read| read > 0) {}
    }
}

#[cfg(not(target_os = "linux"))]
impl Folders {
    fn of<'a>(_: impl Iterator<Item = &'a Path>) -> Option<Folders> {
        None
    }

    fn wait(&self, _: Duration) {}
}

/// A file to look at, and what wakes who waits for it.
pub(super) fn file(path: PathBuf, stamp: FileStamp) -> (File, Arc<Notify>) {
    let changed = Arc::new(Notify::new());
    (File { path, stamp, changed: Arc::downgrade(&changed) }, changed)
}
