//! The results of a route's function.

use serde::Serialize;

use super::{Json, Operation};
use crate::{Response, Result};

/// The answer to a request: a response to send, or none, since it has been sent.
#[derive(Debug)]
pub struct Reply(Option<Response>);

/// The response has been sent by an [`Output`](super::Output).
#[derive(Debug)]
pub struct Sent(());

impl Sent {
    pub(super) fn new() -> Sent {
        Sent(())
    }
}

impl Reply {
    /// The response that is still to be sent.
    pub fn into_response(self) -> Option<Response> {
        self.0
    }
}

/// A result of a route's function, by itself or in a [`Result`].
pub trait IntoReply {
    /// Makes the reply.
    ///
    /// # Errors
    /// Those of a `Result`; a value that cannot be written as JSON.
    fn into_reply(self) -> Result<Reply>;

    /// Says what the response is.
    fn describe(operation: &mut Operation) {
        let _ = operation;
    }
}

impl IntoReply for Reply {
    fn into_reply(self) -> Result<Reply> {
        Ok(self)
    }
}

impl IntoReply for Sent {
    fn into_reply(self) -> Result<Reply> {
        Ok(Reply(None))
    }
}

impl IntoReply for Response {
    fn into_reply(self) -> Result<Reply> {
        Ok(Reply(Some(self)))
    }
}

/// 204.
impl IntoReply for () {
    fn into_reply(self) -> Result<Reply> {
        Response::new(204, "", Vec::new()).into_reply()
    }
}

impl IntoReply for &str {
    fn into_reply(self) -> Result<Reply> {
        Response::text(self).into_reply()
    }

    fn describe(operation: &mut Operation) {
        operation.produces = "text/plain".to_owned();
    }
}

impl IntoReply for String {
    fn into_reply(self) -> Result<Reply> {
        Response::text(self).into_reply()
    }

    fn describe(operation: &mut Operation) {
        operation.produces = "text/plain".to_owned();
    }
}

impl<T: Serialize> IntoReply for Json<T> {
    fn into_reply(self) -> Result<Reply> {
        Response::json(&self.0)?.into_reply()
    }

    fn describe(operation: &mut Operation) {
        operation.produces = "application/json".to_owned();
    }
}

/// With another status.
impl<T: IntoReply> IntoReply for (u16, T) {
    fn into_reply(self) -> Result<Reply> {
        let (status, body) = self;
        Ok(Reply(body.into_reply()?.0.map(|response| response.status(status))))
    }

    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

/// With headers more.
impl<T: IntoReply, const N: usize> IntoReply for ([(&str, &str); N], T) {
    fn into_reply(self) -> Result<Reply> {
        let (headers, body) = self;
        let add = |response: Response| {
            headers.iter().fold(response, |response, (name, value)| response.header(*name, *value))
        };
        Ok(Reply(body.into_reply()?.0.map(add)))
    }

    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

/// With another status and headers more.
impl<T: IntoReply, const N: usize> IntoReply for (u16, [(&str, &str); N], T) {
    fn into_reply(self) -> Result<Reply> {
        let (status, headers, body) = self;
        (status, (headers, body)).into_reply()
    }

    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

impl<T: IntoReply> IntoReply for Result<T> {
    fn into_reply(self) -> Result<Reply> {
        self?.into_reply()
    }

    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}
