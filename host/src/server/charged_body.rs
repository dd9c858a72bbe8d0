//! The body of an answer that is charged to the budget of memory.
//!
//! Place in the flow: around the body of an answer that was made in a new form, between the protocol that
//! made it and the connection. In: the body, and the charge that was taken before it was made. Out: the same
//! body, whose first piece, the part that is new, has the charge with it until the last of it has left.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::memory::Charge;

/// The body.
pub(super) struct ChargedBody {
    body: Body,
    charge: Option<Charge>,
}

impl ChargedBody {
    pub(super) fn new(body: Body, charge: Charge) -> ChargedBody {
        ChargedBody { body, charge: Some(charge) }
    }
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &mut frame
            && let Some(data) = frame.data_mut()
            && let Some(charge) = self.charge.take()
        {
            *data = charge.own(std::mem::take(data));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
