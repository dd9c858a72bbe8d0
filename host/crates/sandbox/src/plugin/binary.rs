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

use super::compiler::give_memory_back;
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
        let bytes = Bytes::from_owner(Collected(bytes.into()));
        let digest = blocking::if_large(bytes.len(), || Sha256::digest(&bytes));
        let digest = hex(&digest);
        Binary { bytes, digest: digest.into() }
    }

    /// Whether it has no beginning of a component, or ends where a section of it does. One that is being
    /// written mostly ends within one.
    pub fn is_whole(&self) -> bool {
        const HEAD: &[u8] = b"\0asm";
        let Some(mut rest) = self.bytes.strip_prefix(HEAD).and_then(|rest| rest.get(4..)) else {
            return !self.bytes.starts_with(HEAD) && !HEAD.starts_with(&self.bytes);
        };
        while let Some((_, behind)) = rest.split_first() {
            let Some((length, behind)) = unsigned(behind) else { return false };
            let Some(next) = usize::try_from(length).ok().and_then(|length| behind.get(length..)) else {
                return false;
            };
            rest = next;
        }
        true
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

/// Bytes that the system gets back when they are freed: of interpreters, tens of megabytes.
struct Collected(Bytes);

impl AsRef<[u8]> for Collected {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        const LARGE: usize = 1 << 20;
        if std::mem::take(&mut self.0).len() >= LARGE {
            give_memory_back();
        }
    }
}

/// A number of at most 32 bits, as WebAssembly writes it (LEB128), and what follows it.
fn unsigned(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at_checked(end + 1)?;
    let add = |sum: u64, byte: &u8| sum << 7 | u64::from(byte & 0x7f);
    Some((number.iter().rev().fold(0, add), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_ends_within_a_section_is_not_whole() {
        let component =
            wat::parse_str(r#"(component (core module (func (export "f") nop)) (import "x" (func)))"#);
        let component = component.unwrap();
        let is_whole = |bytes: &[u8]| Binary::new(bytes.to_vec()).is_whole();
        assert!(is_whole(&component) && is_whole(&component[..8]) && is_whole(b"no component at all"));
        let whole: Vec<usize> = (1..component.len()).filter(|end| is_whole(&component[..*end])).collect();
        // After the head, and between its sections.
        assert!(whole.len() < 5 && whole.contains(&8), "{whole:?}");
        assert!(!is_whole(&[&component[..8], &[1, 0xff, 0xff, 0xff, 0xff, 0xff]].concat()));
    }
}
