//! The way of an object's content from a guest to the store: a bounded buffer between the two.
//!
//! Place in the flow: `capabilities/blobs/blobstore.rs` has one for each outgoing value; a task of its own
//! takes the pieces to a [`Writer`](super::Writer). In: pieces. Out: whether there is room; at the end, how
//! it went.
//! Invariants: at most [`BUFFER`] bytes wait, however small the pieces are; what is dropped before its end
//! leaves nothing; what has been ended or given up takes no more and holds nothing, even if its stream stays.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::{BlobError, Container, EndpointBlobs};

/// Most bytes that wait for the store.
const BUFFER: usize = 1 << 20;
/// Pieces below this size are put together, up to a piece of the second size.
const MERGED: (usize, usize) = (4 << 10, 64 << 10);

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
    /// Small pieces behind those, put together.
    tail: Vec<u8>,
    has_ended: bool,
    /// Ended or given up: it takes no more.
    is_closed: bool,
    /// Among the objects that are open, until it is closed.
    place: Option<OwnedSemaphorePermit>,
    error: Option<BlobError>,
    task: Option<JoinHandle<Result<(), BlobError>>>,
}

impl Queue {
    fn push(&mut self, piece: Bytes) {
        if self.tail.len() + piece.len() > MERGED.1 || piece.len() >= MERGED.0 {
            self.close_tail();
        }
        match piece.len() < MERGED.0 {
            true => self.tail.extend_from_slice(&piece),
            false => self.pieces.push_back(piece),
        }
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.tail).into());
        }
    }

    /// Whether it takes more.
    fn check(&self) -> Result<(), BlobError> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.is_closed => {
                Err(BlobError::Invalid("the object has been ended or given up".to_owned()))
            }
            None => Ok(()),
        }
    }

    fn take(&mut self) -> VecDeque<Bytes> {
        self.close_tail();
        std::mem::take(&mut self.pieces)
    }

    /// Forgets what waits.
    fn clear(&mut self) {
        (self.pieces, self.tail) = (VecDeque::new(), Vec::new());
    }
}

impl Default for Upload {
    fn default() -> Upload {
        let (queue, arrived) = (Mutex::default(), Notify::new());
        Upload(Arc::new(Channel { queue, room: Semaphore::new(BUFFER), arrived }))
    }
}

impl Upload {
    /// Gives it a place among the objects that are open, unless it has one, until it is ended or given up.
    ///
    /// # Errors
    /// It has none, and there is none.
    pub fn hold(&self, place: Result<OwnedSemaphorePermit, BlobError>) -> Result<(), BlobError> {
        let mut queue = self.lock();
        if queue.place.is_none() {
            queue.place = Some(place?);
        }
        Ok(())
    }

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
                queue.clear();
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
        queue.check()?;
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
        let mut queue = self.lock();
        queue.check()?;
        let Ok(taken) = self.0.room.try_acquire_many(permits) else {
            let text = "a piece that is longer than there is room for";
            return Err(BlobError::Invalid(text.to_owned()));
        };
        taken.forget();
        queue.push(piece);
        drop(queue);
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
        let (task, _place) = {
            let mut queue = self.lock();
            (queue.has_ended, queue.is_closed) = (true, true);
            if queue.task.is_none() {
                queue.clear();
            }
            (queue.task.take(), queue.place.take())
        };
        self.0.room.close();
        self.0.arrived.notify_one();
        let Some(task) = task else {
            return Err(BlobError::Invalid("`write-data` has named no object".to_owned()));
        };
        Ending(task).await
    }

    /// Nothing comes of it.
    pub fn abandon(&self) {
        let mut queue = self.lock();
        queue.is_closed = true;
        queue.clear();
        self.0.room.close();
        if let Some(task) = queue.task.take() {
            task.abort();
        }
        queue.place = None;
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
            (queue.take(), queue.has_ended)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_ended_or_given_up_holds_nothing_although_its_stream_stays() {
        for is_ended in [false, true] {
            let (upload, places) = (Upload::default(), Arc::new(Semaphore::new(1)));
            let stream = upload.clone();
            upload.hold(Ok(places.clone().try_acquire_owned().unwrap())).unwrap();
            upload.push(Bytes::from(vec![1; 10_000])).unwrap();
            upload.push(Bytes::from_static(b"x")).unwrap();
            match is_ended {
                true => assert!(upload.finish().await.is_err(), "it has no name"),
                false => upload.abandon(),
            }
            assert_eq!(places.available_permits(), 1);
            assert!(stream.room().is_err() && stream.push(Bytes::from_static(b"x")).is_err());
            stream.ready().await;
            let queue = stream.lock();
            assert!(queue.pieces.is_empty() && queue.tail.is_empty());
        }
    }

    #[test]
    fn small_pieces_are_put_together_in_their_order() {
        let upload = Upload::default();
        let lengths = [vec![1; 100_000], vec![MERGED.0, 1, 1, MERGED.0 * 8, MERGED.0 - 1]].concat();
        let mut all = Vec::new();
        for (number, length) in lengths.into_iter().enumerate() {
            let piece = vec![number.to_le_bytes()[0]; length];
            all.extend_from_slice(&piece);
            upload.push(piece.into()).unwrap();
        }
        let pieces = Vec::from(upload.lock().take());
        assert!(pieces.len() < 8, "{}", pieces.len());
        assert_eq!(pieces.concat(), all);
    }
}
