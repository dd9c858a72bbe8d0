//! The host's side of an application in a unit test: what is sent is collected.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Request, Responses};
use crate::context::ContextBuilder;
use crate::{Context, Handler, Response, Result};

/// All that an application has sent in answer to one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// 0 if it has sent nothing.
    pub status: u16,
    /// Its media type.
    pub content_type: String,
    /// The other headers.
    pub headers: Vec<(String, String)>,
    /// All pieces.
    pub body: Vec<u8>,
    /// Whether it was ended properly; the connection of one that was not breaks off.
    pub is_whole: bool,
}

impl Answer {
    /// The body as text; empty if it is none.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_default()
    }

    fn take(&mut self, response: Response) {
        let Response { status, content_type, headers, body } = response;
        *self = Answer { status, content_type, headers, body, is_whole: true };
    }
}

/// Has an application serve a request without a host.
///
/// # Errors
/// Those of the handler.
pub fn answer<H: Handler>(handler: &mut H, request: ContextBuilder) -> Result<Answer> {
    let context = request.build();
    let answer = Rc::new(RefCell::new(Answer::default()));
    let request = Request::new(context.sample(), &context, Source(answer.clone()));
    let response = handler.respond(request)?.into_response();
    let mut answer = answer.take();
    if let Some(response) = response {
        answer.take(response);
    }
    Ok(answer)
}

/// Has an application serve requests together without a host: `POST`s to the path of the first.
///
/// # Errors
/// Those of the handler for all of them.
pub fn answer_all<H: Handler>(
    handler: &mut H,
    requests: impl IntoIterator<Item = ContextBuilder>,
) -> Result<Responses> {
    let contexts: Vec<Context> = requests.into_iter().map(ContextBuilder::build).collect();
    handler.respond_all(contexts.iter().map(|context| Request::of_batch(context.sample(), context)).collect())
}

#[derive(Debug)]
pub struct Source(Rc<RefCell<Answer>>);

impl Source {
    pub fn begin(&self, status: u16, content_type: &str, headers: &[(String, String)]) -> Result<(), String> {
        let content_type = content_type.to_owned();
        *self.0.borrow_mut() =
            Answer { status, content_type, headers: headers.to_vec(), ..Answer::default() };
        Ok(())
    }

    pub fn write(&self, bytes: &[u8]) -> bool {
        self.0.borrow_mut().body.extend_from_slice(bytes);
        true
    }

    pub fn finish(this: Source) {
        this.0.borrow_mut().is_whole = true;
    }

    pub fn send(this: Source, response: &Response) -> Result<(), String> {
        this.0.borrow_mut().take(response.clone());
        Ok(())
    }
}
