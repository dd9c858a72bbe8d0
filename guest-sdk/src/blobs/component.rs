//! Containers of the host, by `wasi:blobstore`.

use std::io;

use super::{BlobError, Info, Result};
use crate::bindings::blobs::wasi::blobstore::blobstore::get_container;
use crate::bindings::blobs::wasi::blobstore::container;
use crate::bindings::blobs::wasi::blobstore::types::{IncomingValue, OutgoingValue};
use crate::bindings::blobs::wasi::io::streams::{InputStream, OutputStream, StreamError};

/// Most bytes that are asked for or given at once.
const PIECE: usize = 256 << 10;
/// Most names of one page.
const PAGE: usize = 1000;

#[derive(Debug)]
pub struct Container(container::Container);

impl Container {
    pub fn open(name: &str) -> Result<Container> {
        get_container(name).map(Container).map_err(BlobError)
    }

    pub fn read(&self, name: &str, first: u64, last: u64) -> Result<(Reader, u64)> {
        let value = self.0.get_data(name, first, last).map_err(BlobError)?;
        let size = value.size();
        let stream = IncomingValue::incoming_value_consume_async(value).map_err(BlobError)?;
        Ok((Reader(stream), size))
    }

    pub fn write(&self, name: &str) -> Result<Writer> {
        let value = OutgoingValue::new_outgoing_value();
        self.0.write_data(name, &value).map_err(BlobError)?;
        let none = |()| BlobError("the object takes no content".to_owned());
        let stream = value.outgoing_value_write_body().map_err(none)?;
        Ok(Writer { stream, value })
    }

    pub fn info(&self, name: &str) -> Result<Option<Info>> {
        if !self.0.has_object(name).map_err(BlobError)? {
            return Ok(None);
        }
        let info = self.0.object_info(name).map_err(BlobError)?;
        Ok(Some(Info { size: info.size, created: info.created_at }))
    }

    pub fn delete(&self, name: &str) -> Result<()> {
        self.0.delete_object(name).map_err(BlobError)
    }

    pub fn clear(&self) -> Result<()> {
        self.0.clear().map_err(BlobError)
    }

    pub fn names(&self, most: Option<usize>) -> Result<Vec<String>> {
        let listing = self.0.list_objects().map_err(BlobError)?;
        let mut names = Vec::new();
        loop {
            let left = most.map_or(PAGE, |most| most.saturating_sub(names.len()).min(PAGE));
            if left == 0 {
                return Ok(names);
            }
            let (page, is_end) = listing.read_stream_object_names(left as u64).map_err(BlobError)?;
            names.extend(page);
            if is_end {
                return Ok(names);
            }
        }
    }
}

#[derive(Debug)]
pub struct Reader(InputStream);

impl Reader {
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(PIECE);
        if most == 0 {
            return Ok(0);
        }
        let piece = match self.0.blocking_read(most as u64) {
            Ok(piece) => piece,
            Err(StreamError::Closed) => return Ok(0),
            Err(StreamError::LastOperationFailed(error)) => return Err(failed(&error.to_debug_string())),
        };
        if let Some(place) = buffer.get_mut(..piece.len()) {
            place.copy_from_slice(&piece);
        }
        Ok(piece.len())
    }
}

#[derive(Debug)]
pub struct Writer {
    // In this order: the stream is of the value.
    stream: OutputStream,
    value: OutgoingValue,
}

impl Writer {
    pub fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let error = |error| match error {
            StreamError::Closed => failed("the object takes no more content"),
            StreamError::LastOperationFailed(error) => failed(&error.to_debug_string()),
        };
        let mut room = self.stream.check_write().map_err(error)?;
        if room == 0 {
            self.stream.subscribe().block();
            room = self.stream.check_write().map_err(error)?;
        }
        let length = piece.len().min(PIECE).min(usize::try_from(room).unwrap_or(PIECE));
        self.stream.write(piece.get(..length).unwrap_or_default()).map_err(error)?;
        Ok(length)
    }

    pub fn finish(self) -> Result<()> {
        let Writer { stream, value } = self;
        drop(stream);
        OutgoingValue::finish(value).map_err(BlobError)
    }
}

/// The host's words, as far as they say something.
fn failed(text: &str) -> io::Error {
    io::Error::other(text.to_owned())
}
