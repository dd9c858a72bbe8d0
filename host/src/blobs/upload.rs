//! The way of an object's content from a guest to the store: a bounded buffer between the two.
//!
//! Place in the flow: `plugin/wasi_blobstore.rs` has one for each outgoing value; a task of its own takes the
//! pieces to a [`Writer`](super::Writer). In: pieces. Out: whether there is room; at the end, how it went.
//! Invariants: at most [`BUFFER`] bytes wait; what is dropped before its end leaves nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::{BlobError, Container, EndpointBlobs};

/// Most bytes that wait for the store.
const BUFFER: usize = 1 << 20;

/// An object on its way.
#[derive(Clone)]
pub struct Upload(Arc<Channel>);

struct Channel {
    queue: Mutex<Queue>,
    /// Bytes that there is room for.
    room: Semaphore,
    arrived: Notify,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Bytes>,
    has_ended: bool,
    error: Option<BlobError>,
    task: Option<JoinHandle<Result<(), BlobError>>>,
}

impl Default for Upload {
    fn default() -> Upload {
        let (queue, arrived) = (Mutex::default(), Notify::new());
        Upload(Arc::new(Channel { queue, room: Semaphore::new(BUFFER), arrived }))
    }
}

impl Upload {
    /// Says where it goes. What has been written already is taken there.
    ///
    /// # Errors
    /// It goes somewhere already.
    pub fn begin(&self, blobs: EndpointBlobs, container: Container, name: String) -> Result<(), BlobError> {
        let mut queue = self.lock();
        if queue.task.is_some() {
            return Err(BlobError::Invalid("the value is being written already".to_owned()));
        }
        let channel = self.0.clone();
        queue.task = Some(tokio::spawn(async move {
            let outcome = carry(&channel, &blobs, &container, &name).await;
            if let Err(error) = &outcome {
                let mut queue = channel.queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.error = Some(error.clone());
                queue.pieces.clear();
                channel.room.close();
            }
            outcome
        }));
        Ok(())
    }

    /// The bytes that there is room for now; 0: [`ready`](Upload::ready) says when.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn room(&self) -> Result<usize, BlobError> {
        let queue = self.lock();
        if let Some(error) = &queue.error {
            return Err(error.clone());
        }
        let room = self.0.room.available_permits();
        if room == 0 && queue.task.is_none() {
            let text = format!("`write-data` has to name the object before more than {BUFFER} bytes of it");
            return Err(BlobError::Invalid(text));
        }
        Ok(room)
    }

    /// Takes a piece, not longer than there is room for.
    ///
    /// # Errors
    /// It is longer.
    pub fn push(&self, piece: Bytes) -> Result<(), BlobError> {
        if piece.is_empty() {
            return Ok(());
        }
        let permits = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        let Ok(taken) = self.0.room.try_acquire_many(permits) else {
            return Err(self.lock().error.clone().unwrap_or_else(|| {
                BlobError::Invalid("a piece that is longer than there is room for".to_owned())
            }));
        };
        taken.forget();
        self.lock().pieces.push_back(piece);
        self.0.arrived.notify_one();
        Ok(())
    }

    /// Waits until there is room, or no more is taken.
    pub async fn ready(&self) {
        if self.lock().task.is_some() {
            // Closed: no more is taken, which `room` says.
            let _ = self.0.room.acquire().await;
        }
    }

    /// Ends the object, and waits until it is stored.
    ///
    /// # Errors
    /// The reason why it is not.
    pub async fn finish(self) -> Result<(), BlobError> {
        let task = {
            let mut queue = self.lock();
            queue.has_ended = true;
            queue.task.take()
        };
        self.0.arrived.notify_one();
        let Some(task) = task else {
            return Err(BlobError::Invalid("`write-data` has named no object".to_owned()));
        };
        let task = Ending(task);
        task.await
    }

    /// Nothing comes of it.
    pub fn abandon(&self) {
        let mut queue = self.lock();
        queue.pieces.clear();
        if let Some(task) = queue.task.take() {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a write, which is given up if it is not waited for.
struct Ending(JoinHandle<Result<(), BlobError>>);

impl Future for Ending {
    type Output = Result<(), BlobError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context).map(|outcome| {
            outcome.unwrap_or_else(|_| Err(BlobError::Unavailable("the write has ended early".to_owned())))
        })
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes all pieces to the store.
async fn carry(
    channel: &Channel,
    blobs: &EndpointBlobs,
    container: &Container,
    name: &str,
) -> Result<(), BlobError> {
    let mut writer = blobs.write(container, name).await?;
    loop {
        let (pieces, has_ended) = {
            let mut queue = channel.queue.lock().unwrap_or_else(PoisonError::into_inner);
            (std::mem::take(&mut queue.pieces), queue.has_ended)
        };
        let is_empty = pieces.is_empty();
        for piece in pieces {
            let length = piece.len();
            writer.write(piece).await?;
            channel.room.add_permits(length);
        }
        match (is_empty, has_ended) {
            (true, true) => return writer.finish().await,
            (true, false) => channel.arrived.notified().await,
            (false, _) => {}
        }
    }
}
