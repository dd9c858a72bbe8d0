//! A handler's file.
//!
//! Place in the flow: code that reads a component or is sent one makes a [`Binary`] of it at once; from there
//! on its digest names that version, in answers, in logs and in the compile cache.
//! Invariant: bytes and digest belong together, and a digest is computed once.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::text::hex;
use crate::{blocking, file};

/// The bytes of a component, or of what passes for one, and their SHA-256. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Binary {
    bytes: Bytes,
    digest: Arc<str>,
}

impl Binary {
    /// Most bytes of a component. Interpreters with their libraries have tens of megabytes.
    pub const LARGEST: usize = 256 << 20;

    /// The component in the file at `path`.
    ///
    /// # Errors
    /// As [`file::read`].
    pub async fn read(path: &Path) -> io::Result<Binary> {
        file::read_async(path, Binary::LARGEST as u64).await.map(Binary::new)
    }

    /// As [`Binary::read`], for commands.
    ///
    /// # Errors
    /// As [`file::read`].
    pub fn read_now(path: &Path) -> io::Result<Binary> {
        file::read(path, Binary::LARGEST as u64).map(Binary::new)
    }

    /// Names these bytes. A file of many megabytes takes milliseconds, not as one of the runtime's workers.
    pub fn new(bytes: impl Into<Bytes>) -> Binary {
        let bytes = bytes.into();
        let digest = blocking::if_large(bytes.len(), || Sha256::digest(&bytes));
        let digest = hex(&digest);
        Binary { bytes, digest: digest.into() }
    }

    /// The file.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// SHA-256 in hex: what names a version of a handler.
    pub fn digest(&self) -> &Arc<str> {
        &self.digest
    }
}
