//! Writes a handler to its endpoint's file.
//!
//! Place in the flow: the last step before a swap is published, if the order wants it. In: a component that
//! has passed every other step. Out: the file, and how to tell that it is still this one.
//! Invariant: at every moment the file is the old handler or the new one, whole; it is the old one if this
//! has failed. Where the file system can say so, a loss of power does not bring the old one back.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;

use super::error::DeployError;
use crate::file::stamp::FileStamp;

/// Replaces the file that the endpoint's handler is read from at start.
///
/// # Errors
/// [`DeployError::Persist`]: the file is as it was.
pub(super) async fn write(endpoint: &str, component: Bytes, path: &Path) -> Result<FileStamp, DeployError> {
    let file = path.to_owned();
    let written = tokio::task::spawn_blocking(move || replace(&file, &component)).await;
    let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
    if written.is_ok() {
        tracing::info!(endpoint, path = %path.display(), "handler written to its file");
    }
    written.map_err(|cause| DeployError::Persist {
        endpoint: endpoint.to_owned(),
        path: path.display().to_string(),
        cause,
    })
}

fn replace(file: &Path, component: &[u8]) -> io::Result<FileStamp> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(".modelhost-").tempfile_in(folder)?;
    beside.write_all(component)?;
    if let Ok(metadata) = fs::metadata(file) {
        beside.as_file().set_permissions(metadata.permissions())?;
    }
    beside.as_file().sync_all()?;
    // Before it has its name: from then on others may write to it.
    let stamp = FileStamp::from(&beside.as_file().metadata()?);
    beside.persist(file)?;
    // The name is on disk when its folder is. Not every folder can be asked for that, and the handler is in
    // its place already.
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(path = %file.display(), "a handler is written, but may be lost with the power: {error}");
    }
    Ok(stamp)
}
