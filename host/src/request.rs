//! A request and a response, free of any protocol.
//!
//! Place in the flow: `server` builds a [`Request`] from what arrived, the pipeline and the handler read it, the
//! pipeline returns a [`Response`]. Neither knows HTTP's types, so that gRPC can meet them here.
//! Invariant: a request is immutable and shared; its body is copied at most once on the host's side, and only if it
//! arrived in pieces.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;

/// The parts of a request only a handler asks for, read from the protocol's own types when it does.
pub trait Head: Send + Sync {
    /// Upper case: `POST`.
    fn method(&self) -> &str;
    /// Without the query.
    fn path(&self) -> &str;
    /// Without the question mark; empty if there is none.
    fn query(&self) -> &str;
    /// First value of a header, if it is visible ASCII. `name` matches in any case.
    fn header(&self, name: &str) -> Option<&str>;
}

/// One request to an endpoint.
pub struct Request {
    /// Stands in every log line and error of this request.
    pub id: Arc<str>,
    /// What a handler may ask for.
    pub head: Box<dyn Head>,
    /// At most `limits.body` bytes.
    pub body: Bytes,
    /// When it arrived.
    pub arrived: Instant,
    /// When the request's time is up (monotonic wall clock).
    pub deadline: Instant,
    /// Whether every stage's objects go to the log (`?debug=true`).
    pub debug: bool,
}

impl Request {
    /// The `content-type` header, or empty.
    pub fn content_type(&self) -> &str {
        self.head.header("content-type").unwrap_or_default()
    }

    /// Whether the content type is JSON, or absent, which is taken for JSON.
    pub fn is_json(&self) -> bool {
        let essence = self.content_type().split(';').next().unwrap_or_default().trim();
        essence.is_empty()
            || essence.eq_ignore_ascii_case("application/json")
            || essence.rsplit_once('+').is_some_and(|(_, suffix)| suffix.eq_ignore_ascii_case("json"))
    }
}

/// What the caller gets.
#[derive(Debug, Clone)]
pub struct Response {
    /// 200 to 599.
    pub status: u16,
    /// Empty: no `content-type` header.
    pub content_type: String,
    /// Further headers, names and values already checked.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

/// Waits for `future`, but not beyond `deadline`; `None` if it did not make it. A future that is ready at once, the usual
/// case on the request path, never costs a timer.
pub async fn until<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    tokio::pin!(future);
    let at_once = std::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    });
    match at_once.await {
        Some(output) => Some(output),
        None => tokio::time::timeout_at(deadline.into(), future).await.ok(),
    }
}
