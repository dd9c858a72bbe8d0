//! Writes a handler to its endpoint's file.
//!
//! Place in the flow: the last steps of a swap that wants it: [`write()`] before it is published,
//! [`Written::put`] as it is, [`settle`] afterwards. In: a component that has passed every other step. Out:
//! the file, and how to tell that it is still this one.
//! Invariant: at every moment the file is the old handler or the new one, whole; it is the old one if this
//! has failed, or if the swap is refused after all. Where the file system can say so, a loss of power does
//! not bring the old one back once the order is answered.

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::error::DeployError;
use crate::blocking::off_thread;
use crate::file::replacement::{self, Replacement};
use crate::file::stamp::FileStamp;

/// A handler that is on the disk, beside the file that it is to replace. Dropped, it is removed.
pub(super) struct Written<'a> {
    endpoint: &'a str,
    path: &'a Path,
    replacement: Replacement,
}

/// Writes what is to be the file that the endpoint's handler is read from at start.
///
/// # Errors
/// [`DeployError::Persist`].
pub(super) async fn write<'a>(
    endpoint: &'a str,
    component: Bytes,
    path: &'a Path,
) -> Result<Written<'a>, DeployError> {
    let file = path.to_owned();
    let written = off_thread(move || Replacement::write(&file, &component)).await;
    let replacement = written.map_err(|cause| failed(endpoint, path, cause))?;
    Ok(Written { endpoint, path, replacement })
}

impl Written<'_> {
    /// Replaces the file, by a rename.
    ///
    /// # Errors
    /// [`DeployError::Persist`]: the file is as it was.
    pub(super) fn put(self) -> Result<FileStamp, DeployError> {
        let Written { endpoint, path, replacement } = self;
        let stamp = replacement.put().map_err(|cause| failed(endpoint, path, cause))?;
        tracing::info!(endpoint, path = %path.display(), "handler written to its file");
        Ok(stamp)
    }
}

/// Waits until a handler that was put there has its name on the disk. Not every folder can be asked for
/// that, and the handler is in its place already.
pub(super) async fn settle(path: &Path) {
    let file = path.to_owned();
    if let Err(error) = off_thread(move || replacement::settle(&file)).await {
        tracing::warn!(path = %path.display(), "a handler is written, but may be lost with the power: {error}");
    }
}

fn failed(endpoint: &str, path: &Path, cause: io::Error) -> DeployError {
    DeployError::Persist { endpoint: endpoint.to_owned(), path: path.display().to_string(), cause }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_file_is_the_old_one_until_the_new_one_is_put_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.wasm");
        fs::write(&path, "old").unwrap();
        let found = || (fs::read_to_string(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count());
        let before = FileStamp::now(&path);
        let refused = write("it", Bytes::from_static(b"refused"), &path).await.unwrap();
        assert_eq!((found(), FileStamp::now(&path)), (("old".to_owned(), 2), before));
        drop(refused);
        assert_eq!((found(), FileStamp::now(&path)), (("old".to_owned(), 1), before));

        let stamp = write("it", Bytes::from_static(b"new"), &path).await.unwrap().put().unwrap();
        settle(&path).await;
        assert_eq!((found(), FileStamp::now(&path)), (("new".to_owned(), 1), stamp));
    }

    #[tokio::test]
    async fn nothing_is_left_of_one_that_cannot_be_written_or_put_there() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("none").join("h.wasm");
        let written = write("it", Bytes::from_static(b"new"), &nowhere).await;
        assert!(matches!(written, Err(DeployError::Persist { .. })));
        let taken = folder.path().join("folder");
        fs::create_dir(&taken).unwrap();
        let written = write("it", Bytes::from_static(b"new"), &taken).await.unwrap();
        assert!(matches!(written.put(), Err(DeployError::Persist { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
