//! Writes a handler to its endpoint's file.
//!
//! Place in the flow: the last step before a swap is published, if the order wants it. In: a component that has passed every
//! other step. Out: the file.
//! Invariant: at every moment the file is the old handler or the new one, whole; once this has returned, a loss of power does
//! not bring the old one back.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use bytes::Bytes;

use super::error::DeployError;

/// Replaces the file that the endpoint's handler is read from at start.
///
/// # Errors
/// [`DeployError::Persist`]: the file is as it was.
pub(super) async fn write(endpoint: &str, plugin: Bytes, path: &Path) -> Result<(), DeployError> {
    let file = path.to_owned();
    let written = tokio::task::spawn_blocking(move || replace(&file, &plugin)).await;
    written.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|cause| DeployError::Persist {
        endpoint: endpoint.to_owned(),
        path: path.display().to_string(),
        cause,
    })
}

fn replace(file: &Path, plugin: &[u8]) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(".modelhost-").tempfile_in(folder)?;
    beside.write_all(plugin)?;
    if let Ok(metadata) = fs::metadata(file) {
        beside.as_file().set_permissions(metadata.permissions())?;
    }
    beside.as_file().sync_all()?;
    beside.persist(file)?;
    // The name is on disk when its folder is.
    File::open(folder)?.sync_all()
}
