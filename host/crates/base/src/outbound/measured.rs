//! The length of a request's body, which simple receivers need: they cannot read one in chunks.
//!
//! In: a request of a handler, whose body comes in pieces and says nothing of its length. Out: the same
//! request with `content-length` in its head, if its body is at its end soon; else as it came, in chunks.
//! Invariants: at most [`MOST`] bytes of a body are held, for at most [`WAIT`]; nothing of it is lost, and a
//! body that breaks off still does.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use tokio::time::{Instant, timeout_at};

use super::{Body, BodyError};

/// Most bytes that a body may have to be waited for.
const MOST: usize = 64 << 10;
/// How long the end of a body is waited for. A handler that has all of it writes it at once.
const WAIT: Duration = Duration::from_millis(20);

/// The request with its body's length, if that is known or soon is.
pub(super) async fn measured(request: Request<Body>) -> Request<Body> {
    let is_said = request.headers().contains_key(header::CONTENT_LENGTH);
    if is_said || request.body().size_hint().exact().is_some() {
        return request;
    }
    let (mut head, mut body) = request.into_parts();
    let until = Instant::now() + WAIT;
    let mut begun = BytesMut::new();
    let next = loop {
        match timeout_at(until, body.frame()).await {
            Ok(None) => {
                let may_be_without = begun.is_empty() && [Method::GET, Method::HEAD].contains(&head.method);
                if !may_be_without {
                    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(begun.len()));
                }
                let whole = Full::new(begun.freeze()).map_err(|never| match never {});
                return Request::from_parts(head, whole.boxed_unsync());
            }
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(piece) if begun.len() + piece.len() <= MOST => begun.extend_from_slice(&piece),
                Ok(piece) => break Some(Ok(Frame::data(piece))),
                Err(trailers) => break Some(Ok(trailers)),
            },
            Ok(Some(Err(error))) => break Some(Err(error)),
            Err(_) => break None,
        }
    };
    let first = Some(begun.freeze()).filter(|begun| !begun.is_empty());
    Request::from_parts(head, Begun { first, next, rest: body }.boxed_unsync())
}

/// A body of which some was read.
struct Begun {
    first: Option<Bytes>,
    next: Option<Result<Frame<Bytes>, BodyError>>,
    rest: Body,
}

impl HttpBody for Begun {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(next));
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.next.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;

    type Piece = Result<Frame<Bytes>, BodyError>;

    /// A body whose pieces come from elsewhere, until that is dropped.
    struct Pieces(UnboundedReceiver<Piece>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
            self.0.poll_recv(context)
        }
    }

    fn request(method: Method) -> (UnboundedSender<Piece>, Request<Body>) {
        let (sender, receiver) = unbounded_channel();
        let body = Pieces(receiver).boxed_unsync();
        (sender, Request::builder().method(method).uri("http://a/").body(body).unwrap())
    }

    fn send(to: &UnboundedSender<Piece>, piece: &[u8]) {
        to.send(Ok(Frame::data(Bytes::copy_from_slice(piece)))).unwrap();
    }

    fn length(request: &Request<Body>) -> Option<&str> {
        request.headers().get(header::CONTENT_LENGTH).map(|value| value.to_str().unwrap())
    }

    #[tokio::test]
    async fn a_body_that_is_soon_at_its_end_has_a_length() {
        for (method, pieces, expected) in [
            (Method::POST, &["one", "", "two"][..], Some("6")),
            (Method::POST, &[], Some("0")),
            (Method::DELETE, &[], Some("0")),
            (Method::GET, &["query"], Some("5")),
            (Method::GET, &[], None),
        ] {
            let (sender, request) = request(method.clone());
            for piece in pieces {
                send(&sender, piece.as_bytes());
            }
            drop(sender);
            let request = measured(request).await;
            assert_eq!(length(&request), expected, "{method} {pieces:?}");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, pieces.concat(), "{method} {pieces:?}");
        }
    }

    #[tokio::test]
    async fn one_that_goes_on_is_sent_as_it_comes() {
        let (sender, request) = request(Method::POST);
        send(&sender, b"begun");
        let request = measured(request).await;
        assert_eq!(length(&request), None);
        let mut body = request.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "begun");
        send(&sender, b" and more");
        drop(sender);
        assert_eq!(body.collect().await.unwrap().to_bytes(), " and more");
    }

    #[tokio::test]
    async fn a_long_one_is_not_held() {
        let (sender, request) = request(Method::POST);
        let piece = vec![1; MOST / 2];
        for _ in 0..3 {
            send(&sender, &piece);
        }
        drop(sender);
        let request = measured(request).await;
        assert_eq!(length(&request), None);
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes().len(), 3 * piece.len());
    }

    #[tokio::test]
    async fn one_that_breaks_off_still_does() {
        let (sender, request) = request(Method::POST);
        send(&sender, b"begun");
        sender.send(Err("cut".into())).unwrap();
        let request = measured(request).await;
        assert_eq!(length(&request), None);
        assert!(request.into_body().collect().await.is_err());
    }
}
