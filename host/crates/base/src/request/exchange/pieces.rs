//! Responses as the handler contract has them, sent by an exchange: whole, or in pieces.
//!
//! Place in the flow: `plugin` calls it for an application whose response is one of the contract's.
//! In: a response that has been checked; pieces of a body. Out: a
//! [`StreamedResponse`](super::StreamedResponse).
//! Invariant: a body in pieces ends properly only if [`Pieces::end`] was called.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::mpsc;

use super::{BrokenBody, Exchange, PolledPiece, Progress};
use crate::memory::{Account, Exhausted};
use crate::request::Response;

/// Pieces of a body that are kept for a client that reads slowly; then the next one waits.
pub const BUFFERED_PIECES: usize = 16;
/// Most bytes of a piece.
pub const PIECE_SIZE: usize = 64 << 10;

/// A body that is sent in pieces.
#[derive(Clone)]
pub struct Pieces {
    sender: mpsc::Sender<Piece>,
    progress: Arc<Progress>,
    memory: Account,
}

/// `None` is the proper end.
type Piece = Option<Frame<Bytes>>;

impl Pieces {
    /// Sends bytes, as many pieces as they are; false if the client is gone, or there is no memory for them:
    /// then the body breaks off.
    pub async fn send(&self, bytes: Bytes) -> bool {
        let mut bytes = match self.memory.own(bytes.clone()) {
            Ok(owned) => owned,
            Err(Exhausted) if bytes.len() > PIECE_SIZE => {
                self.progress.break_off();
                return false;
            }
            // One piece without a charge, when the client has taken all before it.
            Err(Exhausted) => {
                let is_empty = tokio::select! {
                    biased;
                    room = self.sender.reserve_many(BUFFERED_PIECES) => room.is_ok(),
                    () = self.progress.gone() => false,
                };
                if !is_empty {
                    return false;
                }
                bytes
            }
        };
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_SIZE));
            if !self.give(Some(Frame::data(piece))).await {
                return false;
            }
        }
        !self.sender.is_closed() && !self.progress.is_gone()
    }

    /// Sends what follows the bytes; false if the client is gone.
    pub async fn trailers(&self, trailers: HeaderMap) -> bool {
        self.give(Some(Frame::trailers(trailers))).await
    }

    /// Waits until the client is gone.
    pub async fn closed(&self) {
        tokio::select! {
            () = self.sender.closed() => {}
            () = self.progress.gone() => {}
        }
    }

    /// Ends the body.
    pub async fn end(&self) {
        // Without a client there is no end to send.
        let _ = self.give(None).await;
    }

    /// Waits for a place in the buffer; false if the client is gone, or has to make way.
    async fn give(&self, piece: Piece) -> bool {
        tokio::select! {
            biased;
            sent = self.sender.send(piece) => sent.is_ok(),
            () = self.progress.gone() => false,
        }
    }
}

impl Exchange {
    /// Sends a whole response on its way. The first one counts.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn respond_whole(&self, mut response: Response, digest: Arc<str>) -> Result<(), Exhausted> {
        let body = Full::new(self.memory.own(std::mem::take(&mut response.body))?);
        self.respond(parts(&response), body.map_err(|never| match never {}).boxed_unsync(), digest);
        Ok(())
    }

    /// Sends a response on its way whose body comes in pieces. The first one counts.
    pub fn respond_in_pieces(&self, response: &Response, digest: Arc<str>) -> Pieces {
        self.respond_as_it_comes(parts(response), digest)
    }

    /// The same of a response with this head.
    pub fn respond_as_it_comes(&self, head: http::response::Parts, digest: Arc<str>) -> Pieces {
        let (sender, receiver) = mpsc::channel(BUFFERED_PIECES);
        self.respond(head, Received(receiver).boxed_unsync(), digest);
        Pieces { sender, progress: self.progress.clone(), memory: self.memory }
    }
}

/// The head of a response that is whole, as HTTP has it.
pub fn parts(response: &Response) -> http::response::Parts {
    let mut http = http::Response::new(());
    *http.status_mut() = http::StatusCode::from_u16(response.status).unwrap_or_default();
    let headers = http.headers_mut();
    let mut append = |name: HeaderName, value: &str| {
        // Names, values and their number were checked; what cannot be is no reason to panic.
        if let Ok(value) = HeaderValue::from_str(value) {
            let _ = headers.try_append(name, value);
        }
    };
    if !response.content_type.is_empty() {
        append(CONTENT_TYPE, &response.content_type);
    }
    for (name, value) in &response.headers {
        if let Ok(name) = name.parse() {
            append(name, value);
        }
    }
    http.into_parts().0
}

/// The other end of [`Pieces`].
struct Received(mpsc::Receiver<Piece>);

impl Body for Received {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledPiece {
        Poll::Ready(match ready!(self.0.poll_recv(context)) {
            Some(Some(frame)) => Some(Ok(frame)),
            Some(None) => None,
            None => Some(Err(BrokenBody::Incomplete)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::exchange::Client;

    fn streamed(memory: Account) -> (Pieces, Client) {
        let (exchange, client) = Exchange::new(&http::Method::GET, false);
        let (content_type, headers, body) = (String::new(), Vec::new(), Bytes::new());
        let response = Response { status: 200, content_type, headers, body };
        (exchange.charged_to(memory).respond_in_pieces(&response, Arc::from("")), client)
    }

    /// A body that lost a piece never looks whole, although the handler ends it properly.
    #[tokio::test]
    async fn a_body_with_a_piece_for_which_there_is_no_memory_breaks_off() {
        for (budget, expected) in [(3, Some(3 * PIECE_SIZE)), (2, None)] {
            let (pieces, client) = streamed(Account::alone(budget * PIECE_SIZE));
            let body = client.response().await.unwrap().body;
            assert!(pieces.send(vec![b'x'; PIECE_SIZE].into()).await);
            assert_eq!(pieces.send(vec![b'y'; 2 * PIECE_SIZE].into()).await, expected.is_some());
            pieces.end().await;
            let collected = body.collect().await.ok();
            assert_eq!(collected.map(|body| body.to_bytes().len()), expected);
        }
    }
}
