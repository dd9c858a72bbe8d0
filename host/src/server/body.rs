//! A request's body, read whole.
//!
//! Place in the flow: for every listener that takes bodies over HTTP: calls, components, orders.
//! Invariants: at most [`Bounds::longest`] bytes are read, and held once: a body that arrives in one piece is
//! never copied, any other once, a little at a time, so that others get their turn; one that comes too slowly
//! is given up; what has come of it is charged before it is kept.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

use crate::arrivals::BodyRate;
use crate::blocking;
use crate::error::{Code, RequestError, Stage};
use crate::memory::Account;
use crate::request::{soon, until};

/// Most that is set aside for a body on the strength of its announced length, before as much has come.
const SET_ASIDE: usize = 1 << 20;
/// The bytes after which a body that comes fast lets others have their turn: the kernel's copy of them, this
/// one and the pages of new memory take a tenth of a millisecond.
const TURN: usize = 128 << 10;

/// Limits of one body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes.
    pub(super) longest: usize,
    /// How fast it has to come.
    pub(super) body_rate: BodyRate,
    /// When its request's head came.
    pub(super) arrived: Instant,
    /// When its request ends.
    pub(super) deadline: Instant,
    /// The account that it is charged to.
    pub(super) memory: Account,
}

/// The whole body as it comes; `None` if the client went away before its end.
pub(super) async fn read_body(mut body: Body, bounds: Bounds) -> Result<Option<Bytes>, RequestError> {
    let limit = bounds.longest;
    let too_large = || {
        RequestError::new(Code::BodyTooLarge, Stage::Admit, format!("the body is longer than {limit} bytes"))
    };
    // Announced length first: nothing is read of a body that cannot be taken.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // One frame, the usual case, is passed on as it is. More are copied together: a client decides how small
    // they are, and each keeps far more memory than its bytes.
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    let (mut charge, mut turn) = (bounds.memory.open(), 0);
    loop {
        let due = bounds.body_rate.deadline(bounds.arrived, first.len() + all.len());
        let mut next = body.frame();
        let frame = match soon(&mut next).await {
            Some(frame) => Some(frame),
            None => until(due.min(bounds.deadline), next).await,
        };
        let Some(frame) = frame else {
            return Err(too_slow(&bounds, due));
        };
        let Some(frame) = frame else { break };
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) if is_malformed(&error) => {
                let text = "the body could not be read";
                return Err(RequestError::invalid(Stage::Admit, text).with_detail(error));
            }
            Err(_) => return Ok(None),
        };
        if first.len() + all.len() + data.len() > limit {
            return Err(too_large());
        }
        charge.grow(first.len() + all.len() + data.len()).map_err(|full| full.at(Stage::Admit))?;
        turn += data.len();
        if turn > TURN {
            turn = 0;
            tokio::task::yield_now().await;
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            let rest = usize::try_from(body.size_hint().lower()).unwrap_or(limit);
            reserve(&mut all, first.len() + data.len(), rest);
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(Some(charge.own(if all.is_empty() { first } else { all.freeze() })))
}

/// Sets memory aside for `more` bytes; `rest` are announced after them. Once there are [`SET_ASIDE`], it is
/// for all: growing little by little would copy what is there again and again.
fn reserve(all: &mut BytesMut, more: usize, rest: usize) {
    if all.capacity() - all.len() >= more {
        return;
    }
    let ahead = match rest {
        // As much again as there is.
        0 => all.len(),
        rest if all.len() + more < SET_ASIDE => rest.min(SET_ASIDE),
        rest => rest,
    };
    blocking::if_much_copied(all.len(), || all.reserve(more + ahead));
}

fn too_slow(bounds: &Bounds, due: Instant) -> RequestError {
    if due > bounds.deadline {
        let message = "the body took longer than a request may";
        return RequestError::new(Code::RequestTimeout, Stage::Admit, message);
    }
    let BodyRate { timeout, rate } = bounds.body_rate;
    let message = format!("the body came too slowly, expected {rate} bytes a second after {timeout:?}");
    RequestError::new(Code::BodyTimeout, Stage::Admit, message)
}

/// Whether a body ended because its client sent nonsense, not because it went away.
fn is_malformed(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::HttpBody;
    use hyper::body::Frame;

    use super::*;

    const PIECE: usize = 64 << 10;

    /// A body of so many pieces that are all there.
    struct Pieces(usize);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let left = self.0.checked_sub(1);
            self.0 = left.unwrap_or(0);
            Poll::Ready(left.map(|_| Ok(Frame::data(vec![7; PIECE].into()))))
        }
    }

    fn body(pieces: usize) -> Body {
        Body::new(Pieces(pieces))
    }

    fn bounds(memory: Account) -> Bounds {
        let arrived = Instant::now();
        let body_rate = BodyRate { timeout: Duration::from_secs(60), rate: 1 };
        let deadline = arrived + Duration::from_secs(60);
        Bounds { longest: usize::MAX, body_rate, arrived, deadline, memory }
    }

    #[tokio::test]
    async fn a_body_that_comes_fast_lets_others_have_their_turn() {
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let pieces = 256;
        let read = read_body(body(pieces), bounds(Account::default())).await.unwrap().unwrap();
        assert_eq!((read.len(), read.iter().all(|byte| *byte == 7)), (pieces * PIECE, true));
        let least = pieces * PIECE / (2 * TURN);
        assert!(turns.load(Ordering::Relaxed) >= least, "{} of {least}", turns.load(Ordering::Relaxed));
        other.abort();
    }

    #[tokio::test]
    async fn a_body_is_charged_as_it_comes_and_until_it_is_gone() {
        let memory = Account::alone(4 * PIECE);
        let read = read_body(body(3), bounds(memory)).await.unwrap().unwrap();
        assert_eq!(memory.held(), 3 * PIECE);
        let error = read_body(body(2), bounds(memory)).await.unwrap_err();
        assert_eq!((error.code, error.stage, memory.held()), (Code::Overloaded, Stage::Admit, 3 * PIECE));
        drop(read);
        assert_eq!(memory.held(), 0);
        let error = read_body(body(5), bounds(memory)).await.unwrap_err();
        assert_eq!((error.code, memory.held()), (Code::Overloaded, 0));
    }
}
