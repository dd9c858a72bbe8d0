//! The response of a guest on `wasi:http`, between the guest that makes it and the connection that takes it.
//!
//! Place in the flow: [`super`] begins it when the guest sets its response. In: the guest's body. Out: the
//! same frames for the connection; for the call that has ended, whether the guest had ended the body.
//! Invariants: at most the buffer's pieces are kept after the call, and they are charged to the request's
//! account; a body that the connection has dropped is closed for the guest; the lock is held for one poll.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::task::unconstrained;

use crate::memory::{Account, Exhausted};
use crate::request::exchange::{BodyStream, BrokenBody, PolledPiece};

/// The end of the guest, or of the call that serves it.
#[derive(Clone, Default)]
pub(in crate::plugin) struct GuestResponse(Arc<Mutex<Inner>>);

/// The end of the connection.
struct ClientBody(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// As long as either end may still need it.
    body: Option<BodyStream>,
    /// Frames that were there when the call ended.
    rest: VecDeque<Frame<Bytes>>,
    end: Option<Result<(), BrokenBody>>,
    /// Of the request.
    memory: Account,
    /// Whether there was no memory for frames that were to be kept.
    is_refused: bool,
    connection: Option<Waker>,
    /// Why the response that the guest has set is none.
    fault: Option<String>,
}

impl GuestResponse {
    /// The guest has set its response, whose body this is.
    pub(in crate::plugin) fn begin(
        &self,
        body: BodyStream,
        memory: Account,
    ) -> impl Body<Data = Bytes, Error = BrokenBody> + use<> {
        let mut inner = lock(&self.0);
        (inner.body, inner.memory) = (Some(body), memory);
        drop(inner);
        ClientBody(self.0.clone())
    }

    /// The guest has set a response that cannot be sent.
    pub(in crate::plugin) fn reject(&self, fault: String) {
        lock(&self.0).fault = Some(fault);
    }

    /// Why the response cannot be sent, if the guest has set such a one.
    pub(in crate::plugin) fn fault(&self) -> Option<String> {
        lock(&self.0).fault.take()
    }

    /// Whether the rest of the response was lost because there was no memory for it.
    pub(in crate::plugin) fn is_refused(&self) -> bool {
        lock(&self.0).is_refused
    }

    /// The guest does no more: what is not ended by now has no end. What it has sent is kept for the
    /// connection.
    ///
    /// # Errors
    /// The body, if there is one and the connection still wants it, has no proper end, or there is no memory
    /// for the rest of it.
    pub(in crate::plugin) fn settle(&self) -> Result<(), BrokenBody> {
        let mut inner = lock(&self.0);
        if let Some(mut body) = inner.body.take() {
            let end = loop {
                match sent_frame(&mut body) {
                    Poll::Ready(Some(Ok(frame))) => match charged(frame, inner.memory) {
                        Ok(frame) => inner.rest.push_back(frame),
                        Err(Exhausted) => {
                            inner.is_refused = true;
                            break Err(BrokenBody::Incomplete);
                        }
                    },
                    Poll::Ready(Some(Err(error))) => break Err(error),
                    Poll::Ready(None) => break Ok(()),
                    Poll::Pending => break Err(BrokenBody::Incomplete),
                }
            };
            inner.end = Some(end);
        }
        let (end, connection) = (inner.end.unwrap_or(Ok(())), inner.connection.take());
        drop(inner);
        if let Some(connection) = connection {
            connection.wake();
        }
        end
    }
}

/// A frame whose data are charged.
fn charged(frame: Frame<Bytes>, memory: Account) -> Result<Frame<Bytes>, Exhausted> {
    match frame.into_data() {
        Ok(data) => memory.own(data).map(Frame::data),
        Err(trailers) => Ok(trailers),
    }
}

/// The next frame of a body, if it was sent. Not subject to the task's budget: Tokio's channels hold frames
/// back from a task that has used it up, as one does that wrote many pieces without a wait.
fn sent_frame(body: &mut BodyStream) -> PolledPiece {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
    pin!(unconstrained(frame)).poll(&mut Context::from_waker(Waker::noop()))
}

impl Inner {
    /// A frame that the connection takes is charged until it has sent it. Without room it is passed on: the
    /// connection has little at a time.
    fn poll(&mut self, context: &mut Context<'_>) -> PolledPiece {
        if let Some(frame) = self.rest.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(self.end.and_then(Result::err).map(Err));
        };
        let polled = Pin::new(body).poll_frame(context);
        match &polled {
            Poll::Pending => match &mut self.connection {
                Some(connection) => connection.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            },
            Poll::Ready(Some(Ok(_))) => {
                let memory = self.memory;
                return polled
                    .map_ok(|frame| frame.map_data(|data| memory.own(data.clone()).unwrap_or(data)));
            }
            Poll::Ready(ended) => {
                self.end = Some(if let Some(Err(error)) = ended { Err(*error) } else { Ok(()) });
                self.body = None;
            }
        }
        polled
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledPiece {
        lock(&self.0).poll(context)
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.connection = None;
        inner.rest = VecDeque::new();
        // Dropped without the lock: it wakes the guest.
        let body = inner.body.take();
        drop(inner);
        drop(body);
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::*;
    use crate::memory::COUNTED;

    /// A body whose frames come from a channel, and end with `None`.
    struct Sent(mpsc::UnboundedReceiver<Option<&'static str>>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = BrokenBody;

        fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledPiece {
            self.0.poll_recv(context).map(|frame| frame.flatten().map(|it| Ok(Frame::data(Bytes::from(it)))))
        }
    }

    #[tokio::test]
    async fn what_was_sent_arrives_and_what_was_not_ended_breaks_off() {
        for (frames, is_ended) in [(vec!["a", "b"], true), (vec!["a", "b"], false), (vec![], false)] {
            let (sender, receiver) = mpsc::unbounded_channel();
            let guest = GuestResponse::default();
            let mut body = Box::pin(guest.begin(Sent(receiver).boxed_unsync(), Account::default()));
            let taken = tokio::spawn(async move {
                let mut taken = String::new();
                while let Some(frame) = body.frame().await {
                    taken += std::str::from_utf8(&frame?.into_data().unwrap()).unwrap();
                }
                Ok(taken)
            });
            for frame in &frames {
                sender.send(Some(*frame)).unwrap();
            }
            tokio::task::yield_now().await;
            if is_ended {
                sender.send(None).unwrap();
            }
            let expected = if is_ended { Ok(()) } else { Err(BrokenBody::Incomplete) };
            assert_eq!(guest.settle(), expected);
            assert_eq!(taken.await.unwrap(), expected.map(|()| frames.concat()));
            assert_eq!(guest.settle(), expected, "asked again");
        }
    }

    #[tokio::test]
    async fn a_call_that_has_used_up_its_tasks_budget_has_sent_what_it_sent() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let guest = GuestResponse::default();
        let body = guest.begin(Sent(receiver).boxed_unsync(), Account::default());
        sender.send(Some("a")).unwrap();
        sender.send(None).unwrap();
        let is_settled = poll_fn(|context| {
            while tokio::task::coop::has_budget_remaining() {
                let _ = pin!(tokio::task::consume_budget()).poll(context);
            }
            Poll::Ready(guest.settle().is_ok())
        });
        assert!(is_settled.await);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a");
    }

    #[tokio::test]
    async fn what_is_kept_for_the_connection_is_charged() {
        let piece = "x".repeat(COUNTED).leak();
        for (budget, expected) in [(3, Ok(())), (2, Err(BrokenBody::Incomplete))] {
            let memory = Account::alone(budget * COUNTED);
            let (sender, receiver) = mpsc::unbounded_channel();
            let guest = GuestResponse::default();
            let mut body = Box::pin(guest.begin(Sent(receiver).boxed_unsync(), memory));
            (0..3).for_each(|_| sender.send(Some(&*piece)).unwrap());
            sender.send(None).unwrap();
            assert_eq!(guest.settle(), expected);
            assert_eq!((guest.is_refused(), memory.held()), (expected.is_err(), budget * COUNTED));
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), &*piece);
            assert_eq!(memory.held(), (budget - 1) * COUNTED);
            drop(body);
            assert_eq!(memory.held(), 0);
        }
    }

    #[test]
    fn what_the_connection_drops_is_closed_for_the_guest() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let guest = GuestResponse::default();
        drop(guest.begin(Sent(receiver).boxed_unsync(), Account::default()));
        assert!(sender.is_closed());
        assert_eq!(guest.settle(), Ok(()));
    }
}
