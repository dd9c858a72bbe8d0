//! The others in a unit test: they answer what the test says.

use std::cell::RefCell;

use super::{OutboundError, Request, Response, Result};

type Answer = Box<dyn FnMut(&Request) -> Result<Response>>;

thread_local! {
    static ANSWER: RefCell<Option<Answer>> = const { RefCell::new(None) };
}

/// From here on, requests that this thread sends are answered by `answer`; without it, all are denied.
pub fn answer_with(answer: impl FnMut(&Request) -> Result<Response> + 'static) {
    ANSWER.set(Some(Box::new(answer)));
}

impl Response {
    /// A response, for tests.
    pub fn with(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Response {
        let headers =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned())).collect();
        Response { status, headers, body: Body(Some(body.into())) }
    }
}

/// In one piece.
#[derive(Debug)]
pub struct Body(Option<Vec<u8>>);

impl Body {
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.0.take())
    }
}

pub fn send(request: &Request) -> Result<Response> {
    ANSWER.with_borrow_mut(|answer| answer.as_mut().map_or(Err(OutboundError::Denied), |it| it(request)))
}

pub fn random() -> u64 {
    4
}
