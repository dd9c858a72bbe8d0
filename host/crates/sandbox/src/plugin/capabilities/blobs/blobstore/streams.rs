//! The streams by which a guest reads and writes an object.
//!
//! Place in the flow: made by [`super`], held by the guest. In: pieces. Out: likewise, or why there are none.
//! Invariant: what a wait that is given up has read is not lost.

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Error;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use crate::blobs::{BlobError, Reader, Upload};

fn failed(error: &BlobError) -> StreamError {
    StreamError::LastOperationFailed(Error::msg(error.to_string()))
}

/// Where the guest writes an object.
pub(super) struct ObjectSink(Upload);

impl ObjectSink {
    /// To this upload.
    pub(super) fn new(upload: Upload) -> ObjectSink {
        ObjectSink(upload)
    }
}

#[async_trait]
impl Pollable for ObjectSink {
    async fn ready(&mut self) {
        self.0.ready().await;
    }
}

impl OutputStream for ObjectSink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.push(bytes).map_err(|error| failed(&error))
    }

    /// Whether it is stored, only the end of the object says.
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.0.room().map_err(|error| failed(&error))
    }
}

/// Where it reads one.
pub(super) struct ObjectSource {
    reader: Reader,
    /// A piece that was read and not given yet; the end, or why there is no more.
    next: Option<Result<Option<Bytes>, BlobError>>,
    _place: OwnedSemaphorePermit,
}

impl ObjectSource {
    /// From this reader, which holds a place among the objects that are open.
    pub(super) fn new(reader: Reader, place: OwnedSemaphorePermit) -> ObjectSource {
        ObjectSource { reader, next: None, _place: place }
    }
}

#[async_trait]
impl Pollable for ObjectSource {
    async fn ready(&mut self) {
        if self.next.is_none() {
            self.next = Some(self.reader.next().await);
        }
    }
}

impl InputStream for ObjectSource {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        match &mut self.next {
            None => Ok(Bytes::new()),
            Some(Ok(Some(piece))) => {
                let given = piece.split_to(size.min(piece.len()));
                if piece.is_empty() {
                    self.next = None;
                }
                Ok(given)
            }
            Some(Ok(None)) => Err(StreamError::Closed),
            Some(Err(error)) => Err(failed(error)),
        }
    }
}
