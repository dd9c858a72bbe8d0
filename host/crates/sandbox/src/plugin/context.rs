//! What a handler may ask about the request it serves.
//!
//! Place in the flow: called by the guest while `pre-inference` or `post-inference` runs.
//! In: the store's current request and the endpoint's config. Out: copies into the guest, made only when
//! asked.
//! Invariant: answers come from the request this instance was checked out for, or one of the same batch;
//! there is no handle to any other.

use std::sync::Arc;

use wasmtime::component::Resource;

use super::bindings::modelhost::handler::types;
use super::convert;
use super::state::State;
use crate::blocking;
use crate::keys;
use crate::request::Request;
use crate::request::dependencies::Dependency;
use crate::tensor::Signature;

/// The `context` resource. Holds nothing: the store's state says which request is meant, by the number of the
/// handle which of a [batch](super::batch), and a handle costs no table entry.
#[derive(Debug)]
pub struct Context;

impl Context {
    /// The handle a call is made with.
    pub(super) fn handle() -> Resource<Context> {
        Resource::new_borrow(0)
    }

    /// A handle of the guest's own, with this number.
    pub(super) fn numbered(number: u32) -> Resource<Context> {
        Resource::new_own(number)
    }
}

/// Without a request (a guest's start function, say) there is nothing to answer with.
fn current<'a>(state: &'a State, context: &Resource<Context>) -> Option<&'a Arc<Request>> {
    match context.rep() {
        0 => state.request.as_ref(),
        number => state.batch.get(number),
    }
}

impl types::Host for State {}

impl types::HostContext for State {
    fn request_id(&mut self, context: Resource<Context>) -> String {
        self.depends_on(Dependency::RequestId);
        current(self, &context).map(|request| request.id.to_string()).unwrap_or_default()
    }

    fn method(&mut self, context: Resource<Context>) -> String {
        current(self, &context).map(|request| request.head.method().to_owned()).unwrap_or_default()
    }

    fn path(&mut self, context: Resource<Context>) -> String {
        current(self, &context).map(|request| request.head.path().to_owned()).unwrap_or_default()
    }

    fn query(&mut self, context: Resource<Context>) -> String {
        current(self, &context).map(|request| request.head.query().to_owned()).unwrap_or_default()
    }

    fn header(&mut self, context: Resource<Context>, name: String) -> Option<String> {
        // The caller trusts the host with the key, not the handler.
        let hidden = self.loaded.config.hides_credentials && keys::is_credential(&name);
        let is_key = |known: &String| known.eq_ignore_ascii_case(&name);
        if !hidden && !self.loaded.config.key_headers.iter().any(is_key) {
            self.depends_on(Dependency::Header);
        }
        let request = current(self, &context).filter(|_| !hidden);
        let value = || request?.head.header_or_similar(&name).map(str::to_owned);
        match &self.log {
            Some(log) => log.header(&name, value),
            None => value(),
        }
    }

    fn sample(&mut self, context: Resource<Context>) -> types::SampleResult {
        match current(self, &context) {
            Some(request) => {
                blocking::leave_worker_if_large(request.body().len());
                types::SampleResult {
                    content_type: request.sample_type().to_owned(),
                    body: request.body().to_vec(),
                }
            }
            None => types::SampleResult { content_type: String::new(), body: Vec::new() },
        }
    }

    fn signature(&mut self, _context: Resource<Context>) -> types::Signature {
        match &self.signature {
            Some(signature) => convert::signature(signature),
            None => convert::signature(&Signature::default()),
        }
    }

    fn metadata(&mut self, _context: Resource<Context>) -> String {
        self.loaded.config.metadata.to_string()
    }

    fn parameters(&mut self, context: Resource<Context>) -> String {
        current(self, &context).map_or_else(|| "{}".to_owned(), |request| request.parameters().to_owned())
    }

    fn drop(&mut self, _context: Resource<Context>) -> wasmtime::Result<()> {
        Ok(())
    }
}
