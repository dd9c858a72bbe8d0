//! Objects that outlive a request, of any size: in the containers that the endpoint grants,
//! `blobs = ["default"]`.
//!
//! In a component every function is a call to the host, by `wasi:blobstore`. Natively, in a unit test, the
//! objects are in the memory of the test's thread.
//!
//! ```no_run
//! use std::io::Write as _;
//!
//! use modelhost_guest::blobs::Container;
//! use modelhost_guest::{Response, Result, internal};
//!
//! fn keep(id: &str, frames: impl Iterator<Item = Vec<u8>>) -> Result<Response> {
//!     let results = Container::open("results")?;
//!     let mut writer = results.writer(&format!("{id}/frames"))?;
//!     for frame in frames {
//!         writer.write_all(&frame).map_err(|error| internal(error.to_string()))?;
//!     }
//!     writer.finish()?;
//!     Response::json(&results.names()?)
//! }
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;

use crate::{Error, internal};

#[cfg(target_family = "wasm")]
mod component;
#[cfg(not(target_family = "wasm"))]
mod native;

#[cfg(target_family = "wasm")]
use component as host;
#[cfg(not(target_family = "wasm"))]
use native as host;

/// Why a container has not done what it should, in the host's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobError(pub String);

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BlobError {}

/// The handler's failure.
impl From<BlobError> for Error {
    fn from(error: BlobError) -> Error {
        internal(error.to_string())
    }
}

impl From<io::Error> for BlobError {
    fn from(error: io::Error) -> BlobError {
        BlobError(error.to_string())
    }
}

type Result<T> = std::result::Result<T, BlobError>;

/// Size and age of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// Its bytes.
    pub size: u64,
    /// When it was written, in seconds since 1970.
    pub created: u64,
}

/// Objects by name. A name is any text of 1 to 512 bytes.
#[derive(Debug)]
pub struct Container(host::Container);

impl Container {
    /// Opens a container: `default`, or `shared/images` for one that several endpoints are granted.
    ///
    /// # Errors
    /// The endpoint grants none of this name.
    pub fn open(name: &str) -> Result<Container> {
        Ok(Container(host::Container::open(name)?))
    }

    /// An object as a whole; `None` if it is not there.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.reader(name)?.map(Reader::all).transpose()
    }

    /// These of its bytes, as far as there are some.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        match range.end.checked_sub(1).filter(|_| range.start < range.end) {
            Some(last) => self.opened(name, range.start, last)?.map(Reader::all).transpose(),
            None => Ok(self.info(name)?.map(|_| Vec::new())),
        }
    }

    /// Reads an object piece by piece; `None` if it is not there.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn reader(&self, name: &str) -> Result<Option<Reader>> {
        self.opened(name, 0, u64::MAX)
    }

    fn opened(&self, name: &str, first: u64, last: u64) -> Result<Option<Reader>> {
        match self.0.read(name, first, last) {
            Ok((reader, size)) => Ok(Some(Reader { reader, size })),
            // What of it went wrong, its words alone say.
            Err(error) => {
                if self.0.info(name)?.is_none() {
                    Ok(None)
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Writes an object as a whole, in place of an earlier one.
    ///
    /// # Errors
    /// It is beyond a limit of the endpoint, or the store cannot be used: nothing was changed.
    pub fn set(&self, name: &str, content: &[u8]) -> Result<()> {
        let mut writer = self.writer(name)?;
        writer.write_all(content)?;
        writer.finish()
    }

    /// Writes an object piece by piece. It is there after [`Writer::finish`]; without, nothing is left of it.
    ///
    /// # Errors
    /// As of [`set`](Container::set).
    pub fn writer(&self, name: &str) -> Result<Writer> {
        Ok(Writer(self.0.write(name)?))
    }

    /// Size and age of an object; `None` if it is not there.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn info(&self, name: &str) -> Result<Option<Info>> {
        self.0.info(name)
    }

    /// Removes an object, whether it is there or not.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name)
    }

    /// Removes all objects.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn clear(&self) -> Result<()> {
        self.0.clear()
    }

    /// The names of all objects, in any order.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn names(&self) -> Result<Vec<String>> {
        self.0.names(None)
    }

    /// At most so many of them.
    ///
    /// # Errors
    /// As of [`get`](Container::get).
    pub fn first_names(&self, most: usize) -> Result<Vec<String>> {
        self.0.names(Some(most))
    }
}

/// An object that is read.
#[derive(Debug)]
pub struct Reader {
    reader: host::Reader,
    size: u64,
}

impl Reader {
    /// The bytes that there are to read.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn all(mut self) -> Result<Vec<u8>> {
        let mut content = Vec::with_capacity(usize::try_from(self.size).unwrap_or(0));
        self.read_to_end(&mut content)?;
        Ok(content)
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// An object that is written.
#[derive(Debug)]
pub struct Writer(host::Writer);

impl Writer {
    /// Ends the object: it is stored when this returns.
    ///
    /// # Errors
    /// As of [`Container::set`].
    pub fn finish(self) -> Result<()> {
        self.0.finish()
    }
}

impl Write for Writer {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_test_has_containers_of_its_own() {
        let container = Container::open("a").unwrap();
        container.set("k/1", b"0123456789").unwrap();
        let again = Container::open("a").unwrap();
        assert_eq!(again.get("k/1").unwrap().as_deref(), Some(&b"0123456789"[..]));
        assert_eq!(Container::open("b").unwrap().get("k/1").unwrap(), None);
        for (range, expected) in [(2..4, "23"), (8..99, "89"), (5..5, ""), (99..100, "")] {
            assert_eq!(container.get_range("k/1", range).unwrap().as_deref(), Some(expected.as_bytes()));
        }
        let mut writer = container.writer("k/2").unwrap();
        writer.write_all(b"ab").unwrap();
        assert_eq!(container.info("k/2").unwrap(), None, "it has no end yet");
        writer.write_all(b"c").unwrap();
        writer.finish().unwrap();
        assert_eq!(container.info("k/2").unwrap().map(|info| info.size), Some(3));
        let mut text = String::new();
        container.reader("k/2").unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert_eq!(container.names().unwrap(), ["k/1", "k/2"]);
        assert_eq!(container.first_names(1).unwrap().len(), 1);
        container.delete("k/1").unwrap();
        container.delete("k/1").unwrap();
        assert_eq!(container.get("k/1").unwrap(), None);
        container.clear().unwrap();
        assert!(container.names().unwrap().is_empty());
        assert!(container.set("", b"").is_err());
    }
}
